"""What is remembered of calls: plans, layouts, and what a size that was never met costs."""

import gc
import itertools
import sys

import numpy as np
import pytest

import flambeau
from flambeau import _layout, _tensor
from flambeau._natively import PATIENCE
from flambeau._tensor import MAKERS
from flambeau.codegen.templates.makers import RECENT
from flambeau.eager import fragments
from flambeau.eager.plans import Plans
from flambeau.ops.table import TABLE


def test_a_missing_plan_is_made_once():
    made = []
    plans = Plans(lambda key: made.append(key) or len(made))
    assert [plans["a"], plans["b"], plans["a"]] == [1, 2, 1] and made == ["a", "b"]


def test_plans_in_use_outlive_others():
    made = []
    plans = Plans(lambda key: made.append(key), room=8)
    for k in range(100):
        plans[k], plans["used"]
    assert made.count("used") == 1 and len(made) == 101
    assert len(plans) + len(plans.older) <= 16


def test_plans_for_two_devices_are_refused():
    a, b = (
        _layout.dense_layout((2,), flambeau.float32, flambeau.device(d)) for d in ("cpu", "meta")
    )
    plans = Plans(lambda key: 0)
    assert plans[a, a] == 0
    with pytest.raises(RuntimeError, match="device meta is not on the expected device cpu"):
        plans[a, b]
    with pytest.raises(RuntimeError, match="device meta is not on the expected device cpu"):
        plans[a, (1, (b,))]


def test_layouts_are_the_same_object_while_they_are_in_use():
    facts = ((3, 4), (4, 1), flambeau.float32, flambeau.device("cpu"))
    first = _layout.make_layout(*facts)
    for k in range(5000):
        _layout.make_layout((k, 2), (2, 1), *facts[2:])
        assert _layout.make_layout(*facts) is first


def test_a_forgotten_layout_still_equals_its_twin():
    x = flambeau.ones(7, 3, 5)
    old = x._layout
    for k in range(1, 3 * RECENT):
        _layout.make_layout((k, 7), (7, 1), *(old.dtype, old.device))
    y = x.view(7, 3, 5)
    assert _layout.same_layout(y._layout, old)
    x.add_(y)  # its own elements, not some that overlap
    assert flambeau.equal(x, flambeau.full((7, 3, 5), 2.0))


def _facts(layout):
    return [getattr(layout, name) for name in _layout.Layout.__slots__ if name != "sort"]


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.bool, flambeau.complex128])
def test_native_code_makes_the_same_layouts(dtype):
    flambeau.ones(2) + 1  # the first kernel brings the native maker
    rng, device = np.random.default_rng(0), flambeau.device("cpu")
    for _ in range(2000):
        sizes = tuple(int(s) for s in rng.choice([0, 1, 1, 2, 3, 70], rng.integers(0, 5)))
        strides = _layout.contiguous_strides(sizes)
        if rng.random() < 0.5:
            strides = tuple(int(s) for s in rng.choice([0, 1, 2, 6, -1], len(sizes)))
        native = _layout.make_layout(sizes, strides, dtype, device)
        plain = _layout.worked_out((sizes, strides, dtype, device))
        assert _facts(native) == _facts(plain) and type(native.shape) is flambeau.Size
        assert native.sort is plain.sort or not sizes


@pytest.mark.parametrize("sizes", [(True, 2), (1 << 39, 1 << 20), flambeau.Size((2, 3))])
def test_native_code_leaves_odd_sizes_to_python(sizes):
    flambeau.ones(2) + 1
    facts = (sizes, (1, 1), flambeau.float32, flambeau.device("cpu"))
    assert _layout.make_layout(*facts).numel == sizes[0] * sizes[1]
    assert type(_layout.make_layout(*facts).sizes) is tuple


def _random_item(rng):
    kind = rng.integers(0, 8)
    if kind < 2:
        return int(rng.integers(-4, 4))
    if kind == 2:
        return None
    if kind == 3:
        return Ellipsis
    ends = [None if rng.random() < 0.3 else int(rng.integers(-6, 7)) for _ in range(2)]
    return slice(*ends, rng.choice([None, 1, 2, 3]))


def test_native_subscripts_are_those_of_numpy():
    rng = np.random.default_rng(0)
    wholes = [np.arange(60).reshape(3, 4, 5), np.arange(60).reshape(5, 12).T, np.array(3)]
    made = 0
    for _ in range(4000):
        a = wholes[rng.integers(0, 3)]
        items = tuple(_random_item(rng) for _ in range(rng.integers(0, 5)))
        key = items[0] if len(items) == 1 else items
        x = flambeau.from_numpy(a)
        out = MAKERS["_subscript"](x, key, True)
        if out is None:
            continue
        made += 1
        assert np.array_equal(out.numpy(), a[key]) and out._storage is x._storage
        assert out._is_view() and out._base is x
    assert made > 1500


@pytest.mark.parametrize(
    "key",
    [True, 1.0, 10**30, slice(None, None, -1), slice(1.0), [0], "a", (0,) * 20, slice(0, 2, 0)],
)
def test_native_subscripts_leave_odd_keys_to_python(key):
    flambeau.ones(2) + 1
    assert MAKERS["_subscript"](flambeau.ones(2, 3), key, True) is None
    assert MAKERS["_subscript"](3, 0, True) is None


@pytest.mark.parametrize(
    "shape", [(6,), (2, 3), (-1, 2), (3, -1, 1), (1, 1, 6), ((2, 3),), (flambeau.Size((3, 2)),)]
)
def test_native_reshapes_are_those_of_python(shape):
    flambeau.ones(2) + 1
    x = flambeau.arange(6)[None]
    assert MAKERS["_reshaped"](x[:, ::2], shape, True) is None  # not dense
    plain = shape[0] if type(shape[0]) is not int else shape
    found, wanted = MAKERS["_reshaped"](x[0], shape, True), x.numpy().reshape(plain)
    assert found.stride() == flambeau.from_numpy(wanted.copy()).stride()
    assert np.array_equal(found.numpy(), wanted)


@pytest.mark.parametrize(
    "shape", [(5,), (-1, -1), (-2, 3), (4, -1), (0, 6), (1 << 70,), (2.0, 3), (True, 6), ([2, 3],)]
)
def test_native_reshapes_leave_odd_sizes_to_python(shape):
    flambeau.ones(2) + 1
    assert MAKERS["_reshaped"](flambeau.arange(6), shape, True) is None


def test_native_joins():
    rng = np.random.default_rng(0)
    for shape in ((2,), (2, 3), (1, 1, 4)):
        parts = [rng.random((n, *shape[1:])) for n in (3, 1, 2)]
        tensors = [flambeau.from_numpy(p) for p in parts]
        out = MAKERS["_joined"](tensors, False)
        assert np.array_equal(out.numpy(), np.concatenate(parts)) and out.is_contiguous()
        out = MAKERS["_joined"]((tensors[0], tensors[0]), True)
        assert (
            np.array_equal(out.numpy(), np.stack([parts[0]] * 2)) and out.stride(0) == parts[0].size
        )
        assert MAKERS["_joined"](tensors, True) is None  # of several lengths
    x = flambeau.ones(2, 3)
    for odd in ([], [x, 1], [x, x.double()], [x.T], [x, x[:0]][1:], [x, flambeau.ones(2)], "ab"):
        assert MAKERS["_joined"](odd, False) is None


# -- sizes that were never met ---------------------------------------------------------------------

CALLS = {
    "number": lambda x, y: x + 1.5,
    "two": lambda x, y: x * y - x,
    "compare": lambda x, y: x > y,
    "row": lambda x, y: x[:, None] * y[:3],
    "turned": lambda x, y: (x[: len(x) // 2 * 2].reshape(-1, 2).T + 1).T,
    "sum": lambda x, y: x.sum(),
    "mean": lambda x, y: x.mean(),
    "largest": lambda x, y: x.max(),
    "rows": lambda x, y: x[: len(x) // 3 * 3].reshape(-1, 3).sum(1),
    "columns": lambda x, y: x[: len(x) // 3 * 3].reshape(3, -1).sum(1),
    "slice": lambda x, y: x[len(x) // 2 :],
}


@pytest.mark.parametrize("name", CALLS)
def test_any_size_gives_what_numpy_gives(name):
    call = CALLS[name]
    rng = np.random.default_rng(1)
    for n in [*range(4, 80), 1000, 8191, 8192, 65536, 65537, 262143, 262145]:
        x, y = (rng.random(n, dtype=np.float32) for _ in range(2))
        found = call(flambeau.from_numpy(x), flambeau.from_numpy(y))
        np.testing.assert_allclose(found.numpy(), call(x, y), rtol=2e-5)


def _frames(call):
    """(Python functions entered, changes of file) while call runs."""
    seen = []

    def watch(frame, event, argument):
        if event == "call" and frame.f_code.co_name != "__del__":  # of the result, which goes
            seen.append(frame.f_code.co_filename)

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    seen = seen[1:]  # without call itself
    return len(seen), sum(a != b for a, b in itertools.pairwise(seen))


def test_a_new_size_passes_no_more_places_than_one_that_was_met():
    a, b = flambeau.ones(16), flambeau.ones(16)
    a + b
    warm = _frames(lambda: a + b)
    c, d = flambeau.ones(4711), flambeau.ones(4711)
    fresh = _frames(lambda: c + d)
    assert warm == fresh == (1, 0)


def test_a_new_layout_passes_few_places():
    base = flambeau.ones(64, 64)
    for k in range(2, 2 + PATIENCE):  # arithmetic of planners is native after a few calls
        base[:8, :k] + base[8:16, 8 : 8 + k]
    c, d = base[:9, :7], base[20:29, 8:15]
    places, changes = _frames(lambda: c + d)
    assert places <= 22 and changes <= 14, (places, changes)


@pytest.mark.parametrize("count", [5000, pytest.param(300_000, marks=pytest.mark.slow)])
def test_a_walk_over_many_sizes_keeps_memory_flat(count):
    x = flambeau.randn(1 << 19)

    def walk(first, last):
        for k in range(first, last):
            y = x[: k + 2]
            y = (y * 2 + y[:1]).view(1, -1)
            assert y.sum(1).shape == (1,)

    walk(0, 1500)  # everything is met once: kernels, pools, generations of plans
    gc.collect()
    before = len(gc.get_objects())
    walk(1500, 1500 + count)
    gc.collect()
    assert len(gc.get_objects()) - before < 20_000
    family = TABLE["add"].runtime.variant("tt").family
    assert len(family.plans) + len(family.plans.older) <= 2 * family.plans.room


def test_generated_texts_are_named_by_row_and_pattern():
    x = flambeau.ones(3, requires_grad=True)
    (x * 2 + x).sum().backward()
    for title in ("mul run ts", "add record tt", "add __add__", "sum"):
        assert title in fragments.TEXTS, sorted(fragments.TEXTS)


# -- tensors from native code --------------------------------------------------------------------


def _fields(t):
    names = [n for n in _tensor.Tensor.__slots__ if n[:2] != "__" and n != "_storage"]
    return [getattr(t, n) for n in names if n != "_view"]


def test_native_code_makes_the_same_tensors():
    layout = (flambeau.ones(3, 4) + 1)._layout
    native, plain = _tensor.MAKERS["_fresh"](layout), _tensor.new_tensor(layout)
    assert native is not None and _fields(native) == _fields(plain) and native._view is None
    names = [n for n in ("pointer", "nbytes", "version", "give") if n != "pointer"]
    assert [getattr(native._storage, n) for n in names] == [
        getattr(plain._storage, n) for n in names
    ]
    native.remark = "kept"
    assert gc.is_tracked(native) and native.__dict__ == {"remark": "kept"}


@pytest.mark.parametrize("recording", [True, False])
def test_native_code_makes_the_same_views(recording):
    x = flambeau.ones(6) + 1
    with flambeau.no_grad():
        silent = x[1:]
    for base in (x, x[2:], silent):
        layout, offset = base._layout, base._offset
        pair = [
            make(base, layout, offset, recording)
            for make in (_tensor.MAKERS["_share"], _tensor.new_view)
        ]
        native, plain = pair
        assert _fields(native) == _fields(plain) and native._storage is plain._storage
        for name in ("base", "version", "kind"):
            assert getattr(native._view, name) is getattr(plain._view, name)


def test_memory_of_native_tensors_comes_back():
    layout = (flambeau.ones(33, 7) + 1)._layout
    make = _tensor.MAKERS["_fresh"]
    seen = {make(layout)._storage.pointer for _ in range(100)}
    assert len(seen) == 1
    held = []
    while layout.pool or not held:
        held.append(make(layout))
    held.append(make(layout))  # for which Python finds memory
    free, pointers = len(layout.pool), {t._storage.pointer for t in held}
    assert len(pointers) == len(held)
    held.clear()
    assert len(layout.pool) == len(pointers) + free
