"""out= of pointwise rows: calls whose layouts were met before, which take a way of their own."""

import pytest

import flambeau as torch
from flambeau.ops.table import TABLE

ROWS = [
    op
    for op in TABLE.values()
    if op.kind == "pointwise" and op.outputs == 1 and {"function", "out"} <= set(op.variants)
]


def drawn(seed, count, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.rand(3, 4, generator=generator) * 3 + 0.25).to(dtype) for _ in range(count)]


def needed(op):
    return sum(p.kind == "tensor" for p in op.params)


@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool], ids=str)
def test_every_row_gives_what_it_gives_without(op, dtype):
    function = getattr(torch, op.name, None) or getattr(torch.special, op.name[8:], None)
    if function is None:
        pytest.skip("no function of torch")
    try:
        wanted = [function(*drawn(seed, needed(op), dtype)) for seed in range(3)]
        out = torch.empty_like(wanted[0])
        function(*drawn(0, needed(op), dtype), out=out)
    except (TypeError, RuntimeError, ValueError):
        pytest.skip("takes other arguments")
    for seed, value in enumerate(wanted):  # from the second call on the way is known
        version = out._version
        given = drawn(seed, needed(op), dtype)
        assert function(*given, out=out) is out and out._version == version + 1
        assert torch.equal(out.nan_to_num(), value.nan_to_num())
        if needed(op) == 2:  # the same layouts the other way round
            assert torch.equal(
                function(*given[::-1], out=out).nan_to_num(), function(*given[::-1]).nan_to_num()
            )


def test_the_same_tensor_twice_teaches_nothing_wrong():
    x, y = drawn(0, 2)
    out = torch.empty(3, 4)
    for _ in range(3):
        torch.sub(x, x, out=out)
        assert not out.any()
    assert torch.equal(torch.sub(x, y, out=out), x - y)
    assert torch.equal(torch.sub(x, y, out=out), x - y)


def test_memory_is_looked_at_every_time():
    x, y, out = drawn(1, 3)
    for _ in range(2):
        torch.add(x, y, out=out)
    wanted = x + y
    assert torch.equal(torch.add(x, y, out=x), wanted)  # its own place
    row = torch.arange(8.0)
    a, b, c = row[:4], row[4:], row[2:6]
    for _ in range(2):
        torch.add(a, a.clone(), out=b)
    with pytest.raises(RuntimeError, match="unsupported operation"):
        torch.add(a, a.clone(), out=c)


def test_gradients_are_asked_for_every_time():
    x, y, out = drawn(2, 3)
    for _ in range(2):
        torch.mul(x, y, out=out)
    x.requires_grad_()
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.mul(x, y, out=out)
    with torch.no_grad():
        assert torch.equal(torch.mul(x, y, out=out), x.detach() * y)
    x.requires_grad_(False)
    out.requires_grad_()
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.mul(x, y, out=out)


def test_sizes_dtypes_and_views_have_ways_of_their_own():
    x, y = drawn(3, 2)
    for _ in range(3):
        out = torch.empty(0)
        assert torch.equal(torch.add(x, y, out=out), x + y) and out.shape == (3, 4)
        wide = torch.empty(3, 4, dtype=torch.float64)
        assert torch.equal(torch.add(x, y, out=wide), (x + y).double())
        turned = torch.empty(4, 3).t()
        assert torch.equal(torch.add(x, y, out=turned), x + y)
        assert torch.equal(torch.add(x, y[0], out=turned), x + y[0])
        part = torch.zeros(5, 8)
        assert torch.equal(torch.add(x, y, out=part[1:4, ::2]), x + y)
        assert part.count_nonzero() == 12
        with pytest.raises(RuntimeError, match="can't be cast"):
            torch.add(x, y, out=torch.empty(3, 4, dtype=torch.int64))
        with pytest.raises(TypeError):
            torch.add(x, y, out=3)
        assert torch.equal(torch.add(x, y, alpha=2, out=turned), x + 2 * y)
