"""Quantized tensors and ops on them: values as PyTorch's fbgemm gives them, bit for bit."""

import copy
import io
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau as torch

from . import cases

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "quantized.json").read_text())


def same(a, b, close):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k], close) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y, close) for x, y in zip(a, b))
    return a == b or (close and a == pytest.approx(b, rel=1e-5, abs=1e-5))


@pytest.mark.parametrize("name", cases.CASES)
def test_as_recorded(name):
    found = cases.summary(cases.CASES[name](torch))
    assert same(GOLDEN[name], found, close="learnable" in name), name


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", cases.CASES)
def test_as_pytorch(name):
    oracle = pytest.importorskip("torch")
    oracle.backends.quantized.engine = "fbgemm"
    wanted = cases.summary(cases.CASES[name](oracle))
    assert same(wanted, cases.summary(cases.CASES[name](torch)), close="learnable" in name)


def test_what_it_is():
    q = cases.quantized(torch, 4, 3)
    assert type(q) is torch.Tensor and q.is_quantized and q.dtype is torch.quint8
    assert q.element_size() == 1 and not torch.zeros(1).is_quantized
    assert q.detach().q_scale() == q.data.q_scale() == q[1].q_scale() == 0.03125


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda q: pickle.loads(pickle.dumps(q))])
@pytest.mark.parametrize("kind", ["tensor", "channels"])
def test_copies(copied, kind):
    q = (
        cases.quantized(torch, 4, 3)
        if kind == "tensor"
        else cases.channels(torch, torch.rand(4, 3))
    )
    assert torch.equal(copied(q), q) and copied(q).qscheme() is q.qscheme()


def test_files():
    parts = {"q": cases.quantized(torch, 4, 3), "c": cases.channels(torch, torch.rand(4, 3))}
    file = io.BytesIO()
    torch.save(parts, file)
    file.seek(0)
    found = torch.load(file)
    assert all(torch.equal(found[name], q) for name, q in parts.items())


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_files_of_pytorch():
    oracle = pytest.importorskip("torch")
    for here, there in ((torch, oracle), (oracle, torch)):
        file = io.BytesIO()
        here.save(
            [cases.quantized(here, 4, 3), cases.channels(here, cases.numbers(here, 4, 3))], file
        )
        file.seek(0)
        found = there.load(file)
        assert cases.summary(found) == cases.summary(
            [cases.quantized(here, 4, 3), cases.channels(here, cases.numbers(here, 4, 3))]
        )


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda q: q + q, NotImplementedError, "QuantizedCPU"),
        (lambda q: q.float(), RuntimeError, "Creation of quantized tensor requires"),
        (lambda q: q.numpy(), TypeError, "Got unsupported ScalarType QUInt8"),
        (lambda q: q.tolist(), RuntimeError, "load_scalar: invalid type"),
        (lambda q: q.requires_grad_(), RuntimeError, "only Tensors of floating point dtype"),
        (lambda q: cases.channels(torch, torch.rand(2, 3)).t(), RuntimeError, "Setting strides"),
        (lambda q: torch.quantize_per_tensor(torch.rand(2), 0.1, 300, torch.quint8), RuntimeError,
         "zero_point 300 is above upper bound 255"),
    ],
)  # fmt: skip
def test_refused(call, error, words):
    with pytest.raises(error, match=words):
        call(cases.quantized(torch, 3))


def test_writes():
    q = cases.quantized(torch, 3, 4)
    q[1] = 0.5
    assert q[1].dequantize().tolist() == [0.5] * 4
    q.copy_(torch.ones(3, 4))
    assert q.dequantize().sum().item() == 12
    assert torch.equal(q.fill_(0.25), torch.empty_like(q).copy_(torch.full((3, 4), 0.25)))


@pytest.mark.parametrize("size", [32, 16])
def test_other_processors(size):
    script = Path(__file__).with_name("narrow_vectors.py")
    done = subprocess.run([sys.executable, script, str(size)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


def test_channels_move_with_dimensions():
    numbers = torch.arange(8.0).reshape(2, 4)
    q = torch.quantize_per_channel(
        numbers, torch.tensor([0.5, 1.0]), torch.tensor([0, 1]), 0, torch.qint8
    )
    for dim, axis in ((0, 1), (-3, 1), (1, 0), (-1, 0)):
        more = q.unsqueeze(dim)
        assert more.q_per_channel_axis() == axis
        assert torch.equal(more.dequantize(), numbers.unsqueeze(dim))
        less = more.squeeze(dim)
        assert less.q_per_channel_axis() == 0 and torch.equal(less.dequantize(), numbers)


def test_numbers_are_put_in_place():
    q = torch.quantize_per_tensor(torch.arange(4.0), 0.5, 2, torch.quint8)
    assert q.masked_fill_(torch.tensor([True, False, False, True]), 1.5) is q
    assert q.int_repr().tolist() == [5, 4, 6, 5]
    q.index_put_((torch.tensor([1]),), torch.tensor(3.0))
    assert q.int_repr().tolist() == [5, 8, 6, 5]


def test_scales_may_be_numpys():
    from flambeau.ao.quantization import quantize_pt2e  # noqa: F401 (with it come the ops)

    op = torch.ops.quantized_decomposed.quantize_per_tensor
    found = op(torch.tensor([1.0, -1.0]), np.float32(0.5), np.int64(1), -128, 127, torch.int8)
    assert found.tolist() == [3, -1]
