"""grouped_mm against products of its groups, one by one, and against PyTorch."""

from itertools import pairwise

import numpy as np
import pytest

import flambeau
from flambeau.nn.functional import grouped_mm

# shapes of both operands, with sizes whose rows are multiples of 16 bytes, as PyTorch wants them
CASES = [
    ((16, 8), (3, 8, 16), [4, 4, 16]),
    ((16, 8), (3, 8, 16), [4, 9, 12]),
    ((3, 12, 8), (8, 16), [4, 8, 16]),
    ((12, 16), (16, 8), [4, 16]),
    ((3, 12, 8), (3, 8, 4), None),
]


def offsets(lib, offs):
    return None if offs is None else lib.tensor(offs, dtype=lib.int32)


def by_groups(a, b, offs):
    """The result in NumPy, and which of its elements are defined."""
    if offs is None:
        return a @ b, np.s_[:]
    edges = [0, *offs]
    spans = [slice(s, e) for s, e in pairwise(edges)]
    if a.ndim == b.ndim:
        return np.stack([a[:, s] @ b[s] for s in spans]), np.s_[:]
    if a.ndim == 2:
        return np.concatenate([a[s] @ m for s, m in zip(spans, b)]), np.s_[: offs[-1]]
    return np.concatenate([m @ b[:, s] for s, m in zip(spans, a)], 1), np.s_[:, : offs[-1]]


@pytest.mark.parametrize("first, second, offs", CASES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_every_group_is_a_product(first, second, offs, dtype, rng):
    a, b = rng.standard_normal(first), rng.standard_normal(second)
    kind = getattr(flambeau, dtype)
    mine = [flambeau.tensor(v.tolist(), dtype=kind, requires_grad=True) for v in (a, b)]
    out = grouped_mm(*mine, offs=offsets(flambeau, offs))
    want, held = by_groups(*[t.detach().double().numpy() for t in mine], offs)
    assert out.dtype is kind
    near = dict(float32=1e-5, bfloat16=4e-2, float16=5e-3)[dtype]
    np.testing.assert_allclose(out.detach().double().numpy()[held], want, rtol=near, atol=near * 4)
    out.sum().backward()
    assert [t.grad.shape for t in mine] == [t.shape for t in mine]


@pytest.mark.oracle
@pytest.mark.parametrize("first, second, offs", CASES)
def test_values_and_gradients_are_pytorchs(first, second, offs, rng):
    torch = pytest.importorskip("torch")
    a, b = (rng.standard_normal(shape).astype("float32") for shape in (first, second))
    found = []
    for lib in (flambeau, torch):
        x, y = lib.tensor(a.tolist()).requires_grad_(), lib.tensor(b.tolist()).requires_grad_()
        out = lib.nn.functional.grouped_mm(x, y, offs=offsets(lib, offs))
        out = out[: offs[-1]] if offs and x.ndim < y.ndim else out
        (out * out).sum().backward()
        found.append([out.detach().numpy(), x.grad.numpy(), y.grad.numpy()])
    end = offs[-1] if offs and len(first) < len(second) else None
    for k, (mine, theirs) in enumerate(zip(*found)):
        part = np.s_[:end] if k == 1 else np.s_[:]  # PyTorch leaves the rest as it is in memory
        np.testing.assert_allclose(mine[part], theirs[part], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "first, second, options, message",
    [
        ((16, 8), (8,), {}, "mat_b has to be 2 or 3d"),
        ((16, 8), (8, 16), {}, "Have to provide offsets if there is a 2d matrix"),
        ((2, 16, 8), (2, 8, 16), dict(offs=[4, 8]), "Have to provide offsets if there is a 2d"),
        ((3, 16, 8), (3, 7, 16), {}, "contraction dimension of mat_a and mat_b must match"),
        ((3, 16, 8), (2, 8, 16), {}, "batched dimension has to match"),
        ((16, 8), (3, 8, 16), dict(offs=[4, 8]), "matrix batch sizes have to match"),
    ],
)
def test_what_does_not_fit_is_refused(first, second, options, message):
    if "offs" in options:
        options = dict(offs=offsets(flambeau, options["offs"]))
    with pytest.raises(RuntimeError, match=message):
        grouped_mm(flambeau.ones(first), flambeau.ones(second), **options)
    with pytest.raises(RuntimeError, match="Offsets have to be int32"):
        grouped_mm(flambeau.ones(4, 8), flambeau.ones(1, 8, 4), offs=flambeau.tensor([4]))
    with pytest.raises(RuntimeError, match="Expected mat_a to be Float32, BFloat16 or Float16"):
        grouped_mm(flambeau.ones(2, 8, 4).double(), flambeau.ones(2, 4, 8).double())
