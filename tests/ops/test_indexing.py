"""Indices and masks: against NumPy, PyTorch (recorded and live) and finite differences."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck
from tests.ops import indexing_cases as cases

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "indexing.json").read_text())


@pytest.mark.parametrize("text", cases.READS + cases.WRITES)
def test_gives_what_pytorch_gave(text):
    assert cases.run(torch, text) == GOLDEN[text]


@pytest.mark.oracle
@pytest.mark.parametrize("text", cases.READS + cases.WRITES)
def test_gives_what_pytorch_gives(text):
    assert cases.run(torch, text) == cases.run(pytest.importorskip("torch"), text)


# -- against NumPy ---------------------------------------------------------------------------------

SHAPE = (4, 3, 5)


def ints(size):
    return st.integers(-size, size - 1)


def slices(size):
    bound = st.none() | st.integers(-size - 2, size + 2)
    return st.builds(slice, bound, bound, st.none() | st.integers(1, 3))


def arrays(size):
    def of(shape):
        n = int(np.prod(shape))
        values = st.lists(ints(size), min_size=n, max_size=n)
        return values.map(lambda v: np.array(v, dtype="int64").reshape(shape))

    return st.sampled_from([(2,), (1,), (3, 2), (0,), (1, 2)]).flatmap(of)


@st.composite
def basic_keys(draw):
    """Integers, slices, None and an Ellipsis, as a tuple."""
    count = draw(st.integers(0, len(SHAPE)))
    gap = draw(st.integers(0, count))
    sizes = SHAPE[:gap] + SHAPE[len(SHAPE) - count + gap :]
    items = [draw(ints(n) | slices(n)) for n in sizes]
    if draw(st.booleans()) or gap < count:
        items.insert(gap, Ellipsis)
    for _ in range(draw(st.integers(0, 2))):
        items.insert(draw(st.integers(0, len(items))), None)
    return tuple(items)


@st.composite
def array_keys(draw):
    """Slices and index arrays (integers beside arrays are placed differently by NumPy)."""
    items = [draw(slices(n) | arrays(n)) for n in SHAPE[: draw(st.integers(1, 3))]]
    if not any(isinstance(i, np.ndarray) for i in items):
        items[0] = draw(arrays(SHAPE[0]))
    try:
        np.broadcast_shapes(*[i.shape for i in items if isinstance(i, np.ndarray)])
    except ValueError:
        items = [i if isinstance(i, slice) else i.reshape(-1)[:1] for i in items]
        items = [
            np.zeros(1, "int64") if isinstance(i, np.ndarray) and not i.size else i for i in items
        ]
    return tuple(items)


def sample(dtype="float32"):
    return np.arange(60).reshape(SHAPE).astype(dtype)


def as_key(key):
    return tuple(torch.from_numpy(i) if isinstance(i, np.ndarray) else i for i in key)


@given(basic_keys())
def test_basic_keys_give_views_as_in_numpy(key):
    array, tensor = sample(), torch.from_numpy(sample())
    view = tensor[key]
    np.testing.assert_array_equal(view.numpy(), array[key])
    assert view._is_view() and view._base is tensor


@given(array_keys(), st.sampled_from(["float32", "int8", "float16", "complex128", "bool", "int64"]))
def test_array_keys_give_copies_as_in_numpy(key, dtype):
    array = sample(dtype)
    found = torch.from_numpy(array)[as_key(key)]
    np.testing.assert_array_equal(found.numpy(), array[key])


@given(basic_keys() | array_keys())
def test_assignment_writes_as_numpy_does(key):
    array, tensor = sample(), torch.from_numpy(sample().copy())
    values = np.random.default_rng(0).random(array[key].shape).astype("float32")
    if values.size > len(set(np.arange(60).reshape(SHAPE)[key].ravel())):
        values[...] = 3  # several values for one element: which one stays is nobody's promise
    array[key] = values
    tensor[as_key(key)] = torch.from_numpy(values)
    np.testing.assert_array_equal(tensor.numpy(), array)


@given(array_keys(), st.sampled_from(["float32", "int32", "bool", "complex64"]))
def test_accumulating_adds_every_occurrence(key, dtype):
    key = tuple(i for i in key if isinstance(i, np.ndarray) and (i < 3).all() and (i >= -3).all())
    assume(key)
    array, tensor = sample(dtype).copy(), torch.from_numpy(sample(dtype).copy())
    values = np.ones(array[key].shape, dtype)
    np.add.at(array, key, values)
    tensor.index_put_(as_key(key), torch.from_numpy(values), accumulate=True)
    np.testing.assert_array_equal(tensor.numpy(), array)


@pytest.mark.parametrize(
    "shape", [(0,), (7,), (3, 5), (2, 3, 4, 5), (70000,), (300, 301), (40000, 2)]
)
@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int16", "int64", "float16", "float32", "float64", "complex64"]
)
def test_masks_keep_the_elements_they_name(shape, dtype, rng):
    mask = rng.random(shape) > 0.6
    array = (rng.integers(1, 100, shape) * mask).astype(dtype)
    t, m = torch.tensor(array), torch.tensor(mask)
    np.testing.assert_array_equal(
        t.nonzero().numpy(), np.argwhere(array).reshape(np.count_nonzero(array), len(shape))
    )
    assert t.count_nonzero().item() == np.count_nonzero(array)
    np.testing.assert_array_equal(t.masked_select(m).numpy(), array[mask])
    np.testing.assert_array_equal(t[m].numpy().reshape(-1), array[mask].reshape(-1))
    source = rng.integers(1, 100, shape).astype(dtype)
    expected = array.copy()
    expected[mask] = source.ravel()[: mask.sum()]
    np.testing.assert_array_equal(t.masked_scatter(m, torch.tensor(source)).numpy(), expected)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gather_and_scatter_walk_any_strides(dtype, dim, rng):
    array = rng.integers(0, 100, (9, 8, 7)).astype(dtype).transpose(2, 0, 1)
    index = rng.integers(0, array.shape[dim], (5, 6, 7)[::-1] if dim else (5, 6, 7))
    index = index[: array.shape[0], : array.shape[1], : array.shape[2]]
    part = tuple(slice(None) if k == dim else slice(0, n) for k, n in enumerate(index.shape))
    t, i = torch.from_numpy(array), torch.from_numpy(index)
    np.testing.assert_array_equal(
        t.gather(dim, i).numpy(), np.take_along_axis(array[part], index, dim)
    )
    expected = array.copy()
    places = list(np.indices(index.shape))
    places[dim] = index
    np.add.at(expected, tuple(places), array[tuple(slice(0, n) for n in index.shape)])
    np.testing.assert_array_equal(t.scatter_add(dim, i, t).numpy(), expected)


# -- threads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1])
def test_results_do_not_depend_on_threads(dim, rng):
    index = torch.from_numpy(rng.integers(0, 300, (300, 301)))
    src = torch.from_numpy(rng.standard_normal((300, 301)).astype("float32"))
    flat = index.reshape(-1)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(
                [
                    torch.zeros(300, 301).scatter_add(dim, index, src),
                    torch.zeros(301).index_put((flat,), src.reshape(-1), True),
                    torch.zeros(300, 301).scatter(dim, index, src),
                    src.gather(dim, index),
                    src[src > 0],
                    src.nonzero(),
                    torch.zeros(300, 301).index_add(0, index[:, 0], src),
                ]
            )
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        for a, b in zip(found[0], other):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_the_last_of_several_writes_stays():
    index = torch.zeros(100, dtype=torch.int64)
    for dtype in (torch.int8, torch.int16, torch.float32, torch.float64, torch.complex128):
        t = torch.zeros(3, dtype=dtype)
        t[index] = torch.arange(100).to(dtype)
        assert t[0].item() == 99


# -- bounds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [5, -6, 2**62, -(2**63), 2**63 - 1])
def test_indices_out_of_bounds_are_named(value):
    index = torch.tensor([1, 0] * 20 + [value])
    with pytest.raises(
        IndexError, match=f"index {value} is out of bounds for dimension 0 with size 5"
    ):
        torch.zeros(5)[index]
    with pytest.raises(
        IndexError, match=f"index {value} is out of bounds for dimension 0 with size 5"
    ):
        torch.zeros(5).index_put_((index,), torch.tensor(1.0))
    with pytest.raises(
        RuntimeError, match=f"index {value} is out of bounds for dimension 0 with size 5"
    ):
        torch.zeros(5).gather(0, index)
    with pytest.raises(
        RuntimeError, match=f"index {value} is out of bounds for dimension 0 with size 5"
    ):
        torch.zeros(5).scatter_add(0, index, torch.ones(41))


# -- derivatives -----------------------------------------------------------------------------------


def numbers(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).uniform(0.5, 2, shape)).requires_grad_()


INDEX = torch.tensor([[0, 1, 1], [2, 0, 1]])
VECTOR = torch.tensor([2, 0, 2])
MASK = torch.tensor([[True, False, True], [False, True, True], [False, False, True]])
DERIVATIVES = {
    "select": lambda x: x[1],
    "slice": lambda x: x[0:2, 1:],
    "chain": lambda x: x[None, 1, ..., ::2],
    "index": lambda x: x[VECTOR],
    "index two": lambda x: x[VECTOR, torch.tensor([0, 0, 1])],
    "index mixed": lambda x: x[:, VECTOR, None],
    "mask": lambda x: x[MASK],
    "rows by mask": lambda x: x[MASK[0]],
    "gather": lambda x: x.gather(0, INDEX),
    "index_select": lambda x: x.index_select(1, VECTOR),
    "take": lambda x: x.take(INDEX),
    "take_along_dim": lambda x: torch.take_along_dim(x, INDEX[:1], 0),
    "masked_select": lambda x: x.masked_select(MASK[0]),
    "masked_fill": lambda x: x.masked_fill(MASK, 2.0),
    "index_fill": lambda x: x.index_fill(1, VECTOR, 3.0),
    "repeat_interleave": lambda x: x.repeat_interleave(torch.tensor([1, 0, 3]), 0),
    "written row": lambda x: _written(x, lambda y: y.__setitem__(1, x[0] * 2)),
    "written rows": lambda x: _written(x, lambda y: y.__setitem__(VECTOR[:2], x[:2] * 2)),
    "written mask": lambda x: _written(x, lambda y: y.__setitem__(MASK, x.sum())),
}
PAIRS = {
    "index_put": lambda x, y: x.index_put((VECTOR[:2],), y[:2]),
    "index_put accumulate": lambda x, y: x.index_put((VECTOR,), y, accumulate=True),
    "scatter": lambda x, y: x.scatter(0, INDEX[:1], y),
    "scatter_add": lambda x, y: x.scatter_add(0, INDEX, y),
    "index_add": lambda x, y: x.index_add(0, VECTOR, y, alpha=2),
    "index_copy": lambda x, y: x.index_copy(0, torch.tensor([2, 0, 1]), y),
    "index_fill": lambda x, y: x.index_fill(0, VECTOR[:2], y[0, 0]),
    "masked_fill": lambda x, y: x.masked_fill(MASK, y[0, 0]),
    "masked_scatter": lambda x, y: x.masked_scatter(MASK, y),
    "put": lambda x, y: x.put(torch.tensor([1, 5, 2]), y[0]),
    "put accumulate": lambda x, y: x.put(torch.tensor([1, 5, 1]), y[0], accumulate=True),
    "scatter_add_": lambda x, y: (x * 1).scatter_add_(1, INDEX, y),
    "index_put_ on a view": lambda x, y: _written(
        x, lambda z: z[1:].index_put_((torch.tensor([0]),), y[:1])
    ),
}
for _reduce in ("sum", "prod", "mean", "amax", "amin"):
    for _self in (True, False):
        PAIRS[f"scatter_reduce {_reduce} {_self}"] = lambda x, y, r=_reduce, s=_self: (
            x.scatter_reduce(0, INDEX, y, r, include_self=s)
        )
        if _reduce != "sum":
            PAIRS[f"index_reduce {_reduce} {_self}"] = lambda x, y, r=_reduce, s=_self: (
                x.index_reduce(0, VECTOR, y, r, include_self=s)
            )


def _written(x, write):
    y = x * 1
    write(y)
    return y


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_agree_with_differences(name):
    x = numbers(3, 3)
    assert gradcheck(DERIVATIVES[name], (x,))
    assert gradgradcheck(DERIVATIVES[name], (x,))


@pytest.mark.parametrize("name", PAIRS)
def test_derivatives_of_writes_agree_with_differences(name):
    inputs = numbers(3, 3), numbers(3, 3, seed=1)
    assert gradcheck(PAIRS[name], inputs)
    assert gradgradcheck(PAIRS[name], inputs)


def test_nodes_are_named_as_in_pytorch():
    x = torch.ones(3, 4, requires_grad=True)
    chain = x[1, 2:4].grad_fn
    assert (
        chain.name() == "SliceBackward0" and chain.next_functions[0][0].name() == "SelectBackward0"
    )
    assert x[VECTOR].grad_fn.name() == "IndexBackward0"
    assert x[None].grad_fn.name() == "UnsqueezeBackward0"
    assert x[...].grad_fn.name() == "AliasBackward0"
    assert x.gather(0, INDEX).grad_fn.name() == "GatherBackward0"


def test_writing_to_a_leaf_that_needs_gradients_is_refused():
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(
        RuntimeError,
        match="a leaf Variable that requires grad is being used in an in-place operation",
    ):
        x.index_put_((VECTOR,), torch.tensor(1.0))
    with pytest.raises(
        RuntimeError,
        match="a view of a leaf Variable that requires grad is being used in an in-place",
    ):
        x[0] = 1
    assert x.tolist() == [1, 1, 1]


# -- against PyTorch -------------------------------------------------------------------------------


@st.composite
def mixed_keys(draw):
    """Everything that may stand between brackets, as text."""
    items = []
    for n in SHAPE[: draw(st.integers(0, 3))]:
        kind = draw(st.sampled_from(["int", "slice", "array", "mask", "tensor", "none", "bool"]))
        if kind in ("none", "bool"):
            items.append("None" if kind == "none" else str(draw(st.booleans())))
            kind = "slice"
        if kind == "int":
            items.append(str(draw(ints(n))))
        elif kind == "slice":
            s = draw(slices(n))
            items.append(f"slice({s.start}, {s.stop}, {s.step})")
        elif kind == "array":
            items.append(f"torch.tensor({draw(st.lists(ints(n), min_size=2, max_size=2))})")
        elif kind == "tensor":
            items.append(f"torch.tensor({draw(ints(n))})")
        else:
            chosen = draw(st.lists(st.integers(0, n - 1), min_size=2, max_size=2, unique=True))
            items.append(f"torch.tensor({[k in chosen for k in range(n)]})")
    if draw(st.booleans()):
        items.append("...")
    return "(" + "".join(i + ", " for i in items) + ")"


def _outcome(module, key, dtype):
    space = {"torch": module}
    t = module.arange(60).reshape(SHAPE).to(getattr(module, dtype))
    try:
        found = t[eval(key, space)]
        view = found._is_view()
        t[eval(key, space)] = 7
        return found.clone().tolist(), tuple(found.shape), view, t.tolist()
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.oracle
@given(mixed_keys(), st.sampled_from(["float32", "int16", "bfloat16", "complex64"]))
def test_any_key_does_what_it_does_in_pytorch(key, dtype):
    assert _outcome(torch, key, dtype) == _outcome(pytest.importorskip("torch"), key, dtype)


@pytest.mark.parametrize("shape, dim", [((2, 0, 2), -1), ((2, 3), 1)])
def test_a_single_number_is_no_slice_for_index_copy(shape, dim):
    index, source = torch.zeros((), dtype=torch.int64), torch.ones(())
    with pytest.raises(RuntimeError, match="must have same slice shapes"):
        torch.index_copy(torch.ones(shape), dim, index, source)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda x: x.repeat_interleave(2, 0), IndexError, "Dimension out of range"),
        (lambda x: x.repeat_interleave(torch.tensor([2]), 0), IndexError, "no dimensions"),
        (
            lambda x: x.expand(5, 0).repeat_interleave(2, 1, output_size=9),
            RuntimeError,
            "expected 0 but got 9",
        ),
    ],
)
def test_repetitions_along_what_is_not_there_are_refused(call, kind, text):
    with pytest.raises(kind, match=text):
        call(torch.tensor(1.0) if kind is IndexError else torch.empty(1, 0))


def test_a_part_of_a_tensor_is_assigned_to_all_of_another_part():
    x = torch.arange(6).reshape(2, 3)
    x[1] = x[1][0]
    assert x.tolist() == [[0, 1, 2], [3, 3, 3]]
    x[:] = x[0:1]
    assert x.tolist() == [[0, 1, 2], [0, 1, 2]]
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to"):
        x[0, 1:] = x[0, :2]
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to"):
        x.copy_(x[0])


@pytest.mark.parametrize(
    ("function", "src"),
    [(torch.scatter_reduce, "src"), (torch.index_reduce, "source")],
)
def test_second_derivatives_of_products_with_zeros(function, src):
    def first(values):
        input = torch.tensor([2.0, 1.0], requires_grad=True)
        given = torch.tensor(values, requires_grad=True)
        out = function(input, 0, torch.tensor([0, 0]), given, "prod")
        return given, torch.autograd.grad(out.sum(), given, create_graph=True)[0]

    given, grad = first([0.0, 3.0])
    assert torch.autograd.grad(grad[0], given)[0].tolist() == [0.0, 2.0]
    given, grad = first([0.0, 0.0])
    assert grad.tolist() == [0.0, 0.0]
    with pytest.raises(RuntimeError, match=f"Double backward is unsupported for {src} when >1"):
        torch.autograd.grad(grad.sum(), given)
