"""Ops that few programs call: segments, hashes, boxes of points, and PyTorch's own helpers."""

import numpy as np
import pytest

import flambeau

CASES = {
    "segment_reduce": "[torch.segment_reduce(x, r, lengths=n, initial=i) for r in "
    "('sum', 'mean', 'max', 'min', 'prod') for i in (None, 10)]",
    "segment_reduce offsets": "torch.segment_reduce(x, 'mean', offsets=torch.tensor([0, 2, 2, 6]))",
    "segment_reduce rows": "torch.segment_reduce(x.reshape(2, 3), 'sum', axis=1, "
    "lengths=torch.tensor([[1, 2], [3, 0]]))",
    "hash_tensor": "[torch.hash_tensor(x).item(), torch.hash_tensor(n).item(), "
    "torch.hash_tensor(x.reshape(2, 3), 1, keepdim=True).tolist()]",
    "nonzero_static": "[torch.nonzero_static(n, size=k, fill_value=9) for k in (0, 1, 4)]",
    "histogramdd": "torch.histogramdd(torch.stack([x, x * x % 3], 1), bins=[3, 2], "
    "density=True)[0]",
    "histogramdd weight": "torch.histogramdd(torch.stack([x, x * x % 3], 1), bins=[3, 2], "
    "weight=x, range=[1.0, 5.0, 0.0, 2.0])[0]",
    "_chunk_cat": "torch._chunk_cat([x, x[:3]], 0, 2)",
    "_unsafe_masked_index": "torch._unsafe_masked_index(x, n > 0, [n + 99 * (n == 0)], 7.0)",
    "logcumsumexp": "torch.logcumsumexp(torch.complex(x, -x), 0)",
    "windows": "[getattr(torch.signal.windows, w)(5, sym=s) for w in ('hann', 'kaiser', 'nuttall', "
    "'bartlett', 'cosine', 'gaussian', 'exponential', 'blackman') for s in (True, False)]",
}
REFUSED = [
    "torch.segment_reduce(x, 'sum')",
    "torch.segment_reduce(x, 'sum', lengths=n[:1])",
    "torch.hash_tensor(x, mode=1)",
    "torch.hash_tensor(torch.zeros(0))",
    "torch.nonzero_static(x, size=-1)",
    "torch.histogramdd(x, bins=[3])",
    "torch.histogramdd(x.reshape(3, 2), bins=[3])",
    "torch.signal.windows.hann(-1)",
    "torch.signal.windows.gaussian(3, std=0)",
    "torch.signal.windows.kaiser(3, dtype=torch.float16)",
]


def _told(value):
    if isinstance(value, (list, tuple)):
        return [_told(v) for v in value]
    if not hasattr(value, "dtype"):
        return value
    return str(value.dtype), value.tolist()


def _run(lib, text):
    x = lib.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 1.5])
    return eval(text, {"torch": lib, "x": x, "n": lib.tensor([2, 0, 4])})


@pytest.mark.oracle
@pytest.mark.parametrize("name", CASES)
def test_values_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    ours, theirs = (_flat(_told(_run(lib, CASES[name]))) for lib in (flambeau, torch))
    assert [v for v in ours if isinstance(v, str)] == [v for v in theirs if isinstance(v, str)]
    numbers = [[v for v in told if not isinstance(v, str)] for told in (ours, theirs)]
    np.testing.assert_allclose(*map(np.array, numbers), rtol=1e-5, atol=1e-6)


def _flat(value):
    return [w for v in value for w in _flat(v)] if isinstance(value, (list, tuple)) else [value]


@pytest.mark.oracle
@pytest.mark.parametrize("text", REFUSED)
def test_refusals_are_pytorchs(text):
    torch = pytest.importorskip("torch")
    with pytest.raises(Exception) as theirs:
        _run(torch, text)
    with pytest.raises(theirs.type) as ours:
        _run(flambeau, text)
    assert str(ours.value).split(". ")[0] == str(theirs.value).split(". ")[0]


def test_segments_are_reduced():
    x = flambeau.tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
    sums = flambeau.segment_reduce(x, "sum", lengths=flambeau.tensor([2, 0, 3]))
    assert sums.tolist() == [3, 0, 12]
    flambeau.segment_reduce(x, "max", lengths=flambeau.tensor([2, 0, 3])).sum().backward()
    assert x.grad.tolist() == [0, 1, 0, 0, 1]


def test_hashes_are_exclusive_ors_of_wide_bits():
    x = np.random.default_rng(0).standard_normal(1001)
    wanted = np.bitwise_xor.reduce(x.view(np.uint64))
    assert flambeau.hash_tensor(flambeau.tensor(x)).item() == wanted


def test_points_are_counted_in_boxes():
    points = np.random.default_rng(0).standard_normal((50, 3))
    counts, edges = np.histogramdd(points, bins=[2, 3, 4])
    found = flambeau.histogramdd(flambeau.tensor(points), bins=[2, 3, 4])
    np.testing.assert_array_equal(found.hist.numpy(), counts)
    for ours, theirs in zip(found.bin_edges, edges, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs)


def test_masked_indices_may_be_out_of_range():
    x = flambeau.arange(4.0)
    mask, index = flambeau.tensor([True, False]), flambeau.tensor([3, 99])
    assert flambeau._unsafe_masked_index(x, mask, [index], -1).tolist() == [3, -1]
    added = flambeau._unsafe_masked_index_put_accumulate(x, mask, [index], flambeau.ones(2))
    assert added.tolist() == [0, 1, 2, 4]


def test_safe_softmax_has_no_nan_in_its_gradient():
    x = flambeau.tensor([[1.0, 2.0], [-np.inf, -np.inf]], requires_grad=True)
    flambeau.ops.aten._safe_softmax.default(x, -1)[:, 0].sum().backward()
    assert x.grad.isfinite().all() and x.grad[1].tolist() == [0, 0]
