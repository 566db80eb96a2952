"""Every layer: text, initial values, state, outputs and gradients, as PyTorch has them.

Without PyTorch they are compared with checksums in tests/golden/nn_layers.json; with it, element by
element. The cases are in layer_cases.py.
"""

import copy
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import flambeau
import flambeau.nn
from tests.nn.layer_cases import CASES, bits, call, digest, make, numbers, observe

RECORDED = json.loads((Path(__file__).parents[1] / "golden/nn_layers.json").read_text())
# PyTorch's own lazy instance norms do not learn num_features from a state
EXCHANGED = [c for c in CASES if RECORDED[c]["after keys"] and "LazyInstance" not in c]


@pytest.fixture(scope="module")
def seen():
    """What is seen of a case here, looked at once."""
    found: dict = {}

    def of(case):
        if case not in found:
            found[case] = observe(flambeau, case)
        return found[case]

    return of


@pytest.mark.parametrize("case", CASES)
def test_a_layer_is_as_recorded(case, seen):
    got, want = seen(case), RECORDED[case]
    assert list(got) == list(want)
    for name, value in got.items():
        if not isinstance(value, np.ndarray):
            assert value == want[name], name
        elif name.startswith("initial "):
            assert bits(value) == want[name], name
        else:
            (shape, size, *sums), (same_shape, same_size, *same_sums) = digest(value), want[name]
            assert shape == same_shape, name
            near = dict(abs=2e-5 * same_size + 1e-5, rel=0)
            assert [size, *sums] == pytest.approx([same_size, *same_sums], **near), name


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES)
def test_a_layer_is_as_in_pytorch(case, seen):
    torch = pytest.importorskip("torch")
    got, want = seen(case), observe(torch, case)
    assert list(got) == list(want)
    for name, value in got.items():
        if isinstance(value, np.ndarray):
            near = 3e-6 + 1e-5 * np.abs(want[name]).max(initial=0)
            np.testing.assert_allclose(value, want[name], rtol=2e-5, atol=near, err_msg=name)
        else:
            assert value == want[name], name


@pytest.mark.parametrize("case", [c for c in CASES if "Lazy" not in c])
def test_copies_do_the_same(case):
    module = make(flambeau, case).eval()
    want = [numbers(t) for t in call(flambeau, module, case)[0]]
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert repr(other) == repr(module)
        assert list(other.state_dict()) == list(module.state_dict())
        mine = {id(p) for p in module.parameters()}
        assert not mine & {id(p) for p in other.parameters()}
        for a, b in zip(want, call(flambeau, other, case)[0]):
            np.testing.assert_array_equal(a, numbers(b))


@pytest.mark.oracle
@pytest.mark.parametrize("case", EXCHANGED)
def test_states_are_exchanged(case):
    """A state of PyTorch, loaded here, gives its results; and the other way round."""
    torch = pytest.importorskip("torch")
    ours, theirs = make(flambeau, case, seed=1), make(torch, case, seed=2)
    if "Lazy" in case:
        call(torch, theirs, case)
    state = {k: flambeau.from_numpy(np.array(v.numpy())) for k, v in theirs.state_dict().items()}
    assert str(ours.load_state_dict(state)) == "<All keys matched successfully>"
    ours.eval(), theirs.eval()
    want = [numbers(t) for t in call(torch, theirs, case)[0]]
    for a, b in zip(call(flambeau, ours, case)[0], want):
        np.testing.assert_allclose(numbers(a), b, rtol=2e-5, atol=2e-6)
    if "Lazy" not in case:
        back = {k: torch.from_numpy(np.array(v.numpy())) for k, v in ours.state_dict().items()}
        theirs.load_state_dict(back)


def classes():
    """The layers that cases make."""
    import re

    return set(re.findall(r"\b([A-Z]\w+)\(", " ".join(CASES)))


def test_every_layer_has_a_case():
    from flambeau.nn import modules

    elsewhere = "Loss RNN LSTM GRU Transformer Options List Dict Container".split()
    missing = {
        name
        for name in modules.__all__
        if name not in classes() and not any(word in name for word in elsewhere)
    }
    assert missing <= {"Module", "AdaptiveLogSoftmaxWithLoss"}


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_layers_follow_a_dtype(dtype):
    kind = getattr(flambeau, dtype)
    nn = flambeau.nn
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
    ).to(kind)
    out = model(flambeau.randn(2, 1, 6, 6, dtype=kind))
    assert out.dtype is kind
    out.sum().backward()
    assert all(p.grad.dtype is kind for p in model.parameters())
    assert model[1].num_batches_tracked.dtype is flambeau.int64


def test_factory_arguments_reach_every_parameter():
    nn = flambeau.nn
    given = dict(device="meta", dtype=flambeau.float64)
    made = [
        nn.Linear(2, 3, **given),
        nn.Bilinear(2, 3, 4, **given),
        nn.Conv2d(2, 3, 3, **given),
        nn.ConvTranspose1d(2, 3, 3, **given),
        nn.BatchNorm2d(3, **given),
        nn.InstanceNorm1d(3, affine=True, track_running_stats=True, **given),
        nn.LayerNorm(3, **given),
        nn.GroupNorm(1, 3, **given),
        nn.RMSNorm(3, **given),
        nn.SyncBatchNorm(3, **given),
        nn.PReLU(**given),
        nn.Embedding(3, 2, **given),
        nn.EmbeddingBag(3, 2, **given),
        nn.MultiheadAttention(4, 2, **given),
    ]
    for module in made:
        for name, t in (*module.named_parameters(), *module.named_buffers()):
            assert t.device.type == "meta", name
            assert t.dtype is (flambeau.int64 if "batches" in name else flambeau.float64), name


@pytest.mark.parametrize("size", [1, 3, 4])
def test_the_gradient_of_cross_map_lrn(size):
    """Not PyTorch's, which is that of another window than its forward has."""
    layer = flambeau.nn.CrossMapLRN2d(size, 0.5, 0.6, 2.0)
    x = flambeau.randn(1, 5, 2, 1, dtype=flambeau.float64, requires_grad=True)
    assert flambeau.autograd.gradcheck(layer, (x,))


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES)
def test_attributes_are_those_of_pytorch(case):
    torch = pytest.importorskip("torch")
    ours, theirs = make(flambeau, case), make(torch, case)
    assert getattr(ours, "__constants__", None) == getattr(theirs, "__constants__", None)
    assert list(ours._parameters) == list(theirs._parameters)
    assert list(ours._buffers) == list(theirs._buffers)

    def told(module):
        return {k: repr(v) for k, v in vars(module).items() if not k.startswith("_")}

    assert told(ours) == told(theirs)


def test_one_number_or_one_per_dimension():
    from flambeau.nn.modules import utils

    assert utils._pair(2) == (2, 2)
    assert utils._triple([1, 2, 3]) == (1, 2, 3)
    assert utils._reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
    assert utils._list_with_default((3, None), [5, 6, 7]) == [3, 7]
    with pytest.raises(ValueError, match="Input dimension should be at least 3"):
        utils._list_with_default((3, None), [5, 6])


def test_prefixes_are_taken_off():
    from flambeau.nn.modules.utils import consume_prefix_in_state_dict_if_present

    model = flambeau.nn.Sequential(flambeau.nn.Linear(1, 1))
    state = model.state_dict(prefix="module.")
    consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["0.weight", "0.bias"]
    assert list(state._metadata) == ["", "0"]
    model.load_state_dict(state)
