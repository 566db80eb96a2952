"""Launching indexed walks: index, gather, scatter and their kin on plain tensors.

Each launcher checks its arguments in PyTorch's order and words, describes a walk (see
index_plans.py) and runs it. The `writer`s write their first argument; the op itself copies first,
its in-place form does not (`write_row` then tells autograd). Indices become int64 before a kernel
sees them. What a kernel refuses is looked up again, to name the offending index.
"""

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import Size, broadcast_shape, dense_layout, expanded_strides, wrap_dim
from flambeau._memory_format import contiguous_format
from flambeau._tensor import Tensor, empty_like_layout, empty_tensor, make_tensor
from flambeau.autograd import views
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import SavedInput, SavedOutput, save_input
from flambeau.eager.launching import FRONTS, LAUNCHERS, launches
from flambeau.eager.overlaps import check_overlap
from flambeau.eager.copying import clone, copy_into, filled
from flambeau.eager.formula import record_formula, wants_grad
from flambeau.eager.index_plans import kernel, plan_walk
from flambeau.eager.plan import MAX_PLANS
from flambeau.runtime.cpu import read_bytes, words

_plans: dict = {}
WRITERS: dict = {}


# -- common ground ---------------------------------------------------------------------------------


def address(t):
    return t._storage.pointer + t._offset


def planned(key, build):
    """A plan, made once per key."""
    found = _plans.get(key)
    if found is None:
        if len(_plans) > MAX_PLANS:
            _plans.clear()
        found = _plans[key] = build()
    return found


def writer(name, keep_order=False):
    """Register a function that writes its first argument: the op does it on a copy."""

    def register(write):
        def launch(input, *rest):
            out = clone(input, None if keep_order else contiguous_format)
            write(out, *rest)
            return out

        WRITERS[name] = write
        LAUNCHERS[name] = launch
        LAUNCHERS[name + "_"] = write_row
        return write

    return register


def write_row(op, bound):
    """Run a writer on its target itself, and make that part of the target's history."""
    target = bound["input"]
    recording = wants_grad(op, bound)
    if recording:
        views.check_inplace(target)
    _check_write(target, list(bound.values())[1:])
    node = _record_write(op, bound, target) if recording else None
    WRITERS[op.template](*bound.values())
    target._storage.version += 1
    if node is not None:
        for k, item in enumerate(node.saved):
            if type(item) is SavedOutput and node.saved_names[k] == "out":
                item.version = target._storage.version
        views.rebase(target, node)
    return target


def _check_write(target, others):
    """Nothing that is read may lie where the target is written, not even in the same places."""
    tensors = [
        t for v in others for t in (v if type(v) is tuple else (v,)) if isinstance(t, Tensor)
    ]
    check_overlap(target, tensors)
    for t in tensors:
        if (
            t._storage.pointer == target._storage.pointer
            and t._offset == target._offset
            and t._layout is target._layout
            and t._layout.numel
        ):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to "
                "tensor refer to a single memory location. Please clone() the tensor before "
                "performing the operation."
            )


def _record_write(op, bound, target):
    """The node of a write that is about to happen."""
    shadow = make_tensor(target._layout, target._storage, target._offset)
    node = record_formula(op, bound, (shadow,))
    if any(type(item) is SavedInput and item.tensor is target for item in node.saved):
        before = clone(target, None)  # the derivative wants what the write is about to destroy
        before._grad_fn, before._output_nr = target._grad_fn, target._output_nr
        before._requires_grad = target._requires_grad
        node.saved = tuple(
            save_input(before) if type(item) is SavedInput and item.tensor is target else item
            for item in node.saved
        )
    return node


def tensor_argument(op, name, position, value):
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{op}(): argument '{name}' (position {position}) must be Tensor, not "
            f"{type(value).__name__}"
        )


def index64(index):
    """The index as int64, whatever its strides."""
    if index._layout.dtype is d.int64:
        return index
    out = empty_tensor(index.shape, d.int64, index.device)
    copy_into(out, index)
    return out


def side_by_side(t):
    """t itself if it is contiguous, else a copy unknown to autograd."""
    return t if t._layout.is_contiguous else clone(t, contiguous_format)


def first_outside(index, low, high):
    """The first index outside [low, high)."""
    index = side_by_side(index)
    owner, at = words([1])
    position = kernel("find")(at, address(index), index._layout.numel, low, high)
    del owner
    if position is None:
        return None
    return int.from_bytes(read_bytes(address(index) + 8 * (position - 1), 8), "little", signed=True)


def out_of_bounds(index, dim, size, wraps=False, kind=RuntimeError, start=""):
    """The complaint about the first index that is out of bounds."""
    value = first_outside(index, -size if wraps else 0, size)
    return kind(f"{start}index {value} is out of bounds for dimension {dim} with size {size}")


def byte_strides(layout):
    return tuple(s * layout.itemsize for s in layout.strides) if layout.ndim else (0,)


def is_meta(*tensors):
    return "meta" in [t._layout.device.type for t in tensors]


# -- an index per element --------------------------------------------------------------------------


def _index_dtype(op, index):
    if index.dtype not in (d.int64, d.int32):
        raise RuntimeError(f"{op}(): Expected dtype int32/int64 for index")


@launches("gather")
def gather(input, dim, index, sparse_grad):
    tensor_argument("gather", "index", 3, index)
    layout = input._layout
    dim = wrap_dim(dim, layout.ndim)
    if index._layout.numel == 0:
        return empty_tensor(index.shape, layout.dtype, layout.device)
    _index_dtype("gather", index)
    _check_gather(layout, dim, index._layout)
    out = empty_tensor(index.shape, layout.dtype, layout.device)
    if is_meta(input, index):
        return out
    index = index64(index)

    def build():
        table = list(byte_strides(layout))
        step, table[dim] = table[dim], 0
        return plan_walk(
            "read",
            layout.dtype,
            index.shape or (1,),
            table,
            byte_strides(out._layout),
            [byte_strides(index._layout)],
            [layout.shape[dim] if layout.ndim else 1],
            [step],
        )

    run, description, *_ = planned(
        ("gather", layout, index._layout, dim), lambda: (*build(), out._layout)
    )
    if run(description, address(input), address(out), address(index)) is not None:
        raise _gather_failed(input, dim, index)
    return out


def _gather_failed(input, dim, index):
    return out_of_bounds(index, dim, input._layout.shape[dim] if input._layout.ndim else 1)


def quick_front(failed):
    """A front for gather and index_select: when a plan for these layouts exists, use it."""

    def build(op, general):
        name = op.template
        plans = _plans

        def function(input, *args, **kwargs):
            if len(args) != 2 or kwargs:
                return general(input, *args, **kwargs)
            dim, index = args
            try:
                layout = input._layout
                found = plans.get(
                    (name, layout, index._layout, dim if dim >= 0 else dim + layout.ndim)
                )
            except (AttributeError, TypeError):
                found = None
            if found is None:
                return general(input, dim, index)
            run, description, _, to = found
            out = empty_like_layout(to)
            at = input._storage.pointer + input._offset
            if (
                run(description, at, out._storage.pointer, index._storage.pointer + index._offset)
                is not None
            ):
                raise failed(input, dim if dim >= 0 else dim + layout.ndim, index)
            if input._requires_grad and modes.grad:
                record_formula(
                    op, {"input": input, "dim": dim, "index": index, "sparse_grad": False}, (out,)
                )
            return out

        return function

    return build


FRONTS["gather"] = quick_front(_gather_failed)


def _check_gather(layout, dim, index):
    if max(layout.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    for k in range(layout.ndim if index.ndim else 0):
        if k != dim and index.shape[k] > layout.shape[k]:
            raise RuntimeError(
                f"Size does not match at dimension {k} expected index {list(index.shape)} to be no "
                f"larger than self {list(layout.shape)} apart from dimension {dim}"
            )


def scatter_walk(mode, target, dim, index, src):
    """Send src (0-d: one for all) into target along dim; True if an index was out of bounds."""
    layout = target._layout
    index = index64(index)

    def build():
        shape = index.shape or Size((1,))
        table = list(byte_strides(layout))
        step, table[dim] = table[dim], 0
        items = byte_strides(src._layout) if src._layout.ndim else (0,) * len(shape)
        return plan_walk(
            mode,
            layout.dtype,
            shape,
            table,
            items,
            [byte_strides(index._layout)],
            [layout.shape[dim] if layout.ndim else 1],
            [step],
            [k != dim for k in range(len(shape))],
        )

    run, description, _ = planned((mode, layout, index._layout, src._layout, dim), build)
    return run(description, address(target), address(src), address(index)) is not None


def _check_scatter(layout, dim, index, src):
    """index and src are tensors; src None for a number."""
    if index.dtype not in (d.int64, d.int32) and index.numel():
        raise RuntimeError("scatter(): Expected dtype int32/int64 for index")
    if src is not None and src.dtype is not layout.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    if not index.numel():
        return
    ndim = max(layout.ndim, 1)
    if ndim != max(index.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    sizes = index.shape or (1,)
    own = layout.shape or (1,)
    given = None if src is None else src.shape or (1,)
    if given is not None and len(given) < ndim:
        wrap_dim(len(given), len(given))  # the complaint PyTorch stumbles into
    fits = all(k == dim or sizes[k] <= own[k] for k in range(ndim))
    if given is not None and ndim != len(given):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if not fits or (given is not None and any(a > b for a, b in zip(sizes, given))):
        tail = "" if src is None else f" and to be no larger size than src {list(src.shape)}"
        raise RuntimeError(
            f"Expected index {list(index.shape)} to be no larger than self {list(layout.shape)} "
            f"apart from dimension {dim}{tail}"
        )


def scatter_along(mode, target, dim, index, src):
    """Checked arguments in, target written."""
    if not index._layout.numel or is_meta(target, index):
        return
    if mode != "set" and target.dtype in (d.float16, d.bfloat16):
        # many small additions in half precision would lose most of them; PyTorch widens too
        wide = views.detached(target).to(d.float32)
        scatter_along(mode, wide, dim, index, views.detached(src).to(d.float32))
        copy_into(target, wide)
        return
    if scatter_walk(mode, target, dim, index, src):
        layout = target._layout
        raise out_of_bounds(index64(index), dim, layout.shape[dim] if layout.ndim else 1)


def number_tensor(value, dtype, device):
    """A 0-d tensor holding a number."""
    return filled(dense_layout(Size(()), dtype, device), value)


@writer("scatter")
def scatter(target, dim, index, src, value, reduce):
    tensor_argument("scatter", "index", 3, index)
    if src is None and value is None:
        raise TypeError(
            "scatter() received an invalid combination of arguments - got (Tensor, int, Tensor)"
        )
    dim = wrap_dim(dim, target._layout.ndim)
    if reduce is not None and reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    number = value if src is None else src
    if isinstance(number, Tensor):
        _check_scatter(target._layout, dim, index, number)
    else:
        _check_scatter(target._layout, dim, index, None)
        number = number_tensor(number, target.dtype, target.device)
    scatter_along(
        {None: "set", "add": "add", "multiply": "mul"}[reduce], target, dim, index, number
    )


@writer("scatter_add")
def scatter_add(target, dim, index, src):
    tensor_argument("scatter_add", "index", 3, index)
    tensor_argument("scatter_add", "src", 4, src)
    dim = wrap_dim(dim, target._layout.ndim)
    _check_scatter(target._layout, dim, index, src)
    scatter_along("add", target, dim, index, src)


_MODES = {"sum": "add", "prod": "mul", "mean": "add", "amax": "max", "amin": "min"}


@writer("scatter_reduce")
def scatter_reduce(target, dim, index, src, reduce, include_self):
    tensor_argument("scatter_reduce", "index", 3, index)
    tensor_argument("scatter_reduce", "src", 4, src)
    dim = wrap_dim(dim, target._layout.ndim)
    if reduce not in _MODES:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    _check_scatter(target._layout, dim, index, src)
    if target.dtype.is_complex and reduce in ("amax", "amin"):
        raise errors.not_implemented(f"scatter_gather_tensor_cpu_reduce_{reduce}", target.dtype)
    reduce_along(target, dim, index, src, reduce, include_self, scatter_along)


def reduce_along(target, dim, index, src, reduce, include_self, run):
    """scatter_reduce with checked arguments; run(mode, target, dim, index, src) writes."""
    if not index._layout.numel or is_meta(target, index):
        return
    if not include_self:
        run(
            "set",
            target,
            dim,
            index,
            number_tensor(_identity(reduce, target.dtype), target.dtype, target.device),
        )
    run(_MODES[reduce], target, dim, index, src)
    if reduce == "mean":
        plain = views.detached(target)
        count = filled(
            dense_layout(target.shape, target.dtype, target.device), 1 if include_self else 0
        )
        run("add", count, dim, index, number_tensor(1, target.dtype, target.device))
        count.masked_fill_(count == 0, 1)
        if target.dtype.category < d.FLOATING:
            plain.div_(count, rounding_mode="floor")
        else:
            plain.div_(count)


def _identity(reduce, dtype):
    """What a reduction starts from."""
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype.category == d.FLOATING:
        return float("-inf") if reduce == "amax" else float("inf")
    if dtype is d.bool_:
        return reduce == "amin"
    limits = d.iinfo(dtype)
    value = limits.min if reduce == "amax" else limits.max
    return value - 2**64 if value >= 2**63 else value


# -- the tensor as if it were flat -----------------------------------------------------------------


def _flat_walk(mode, table, index, items):
    layout = table._layout

    def build():
        shape = index.shape or (1,)
        return plan_walk(
            mode,
            layout.dtype,
            shape,
            (0,) * len(shape),
            byte_strides(items._layout),
            [byte_strides(index._layout)],
            [layout.numel],
            [layout.itemsize],
            [False] * len(shape),
            wraps=True,
        )

    run, description, _ = planned(("flat", mode, layout, index._layout, items._layout), build)
    if run(description, address(table), address(items), address(index)) is not None:
        value = first_outside(index, -layout.numel, layout.numel)
        raise IndexError(
            f"out of range: tried to access index {value} on a tensor of {layout.numel} elements."
        )


@launches("take")
def take(input, index):
    tensor_argument("take", "index", 2, index)
    if index.dtype is not d.int64:
        raise RuntimeError(
            f"take(): Expected a long tensor for index, but got {index.dtype.scalar_name}"
        )
    if not input._layout.numel and index._layout.numel:
        raise IndexError("take(): tried to take from an empty tensor")
    out = empty_tensor(index.shape, input.dtype, input.device)
    if index._layout.numel and not is_meta(input, index):
        _flat_walk("read", side_by_side(input), index, out)
    return out


@writer("put", keep_order=True)
def put(target, index, source, accumulate):
    tensor_argument("put", "index", 2, index)
    tensor_argument("put", "source", 3, source)
    if index.dtype is not d.int64:
        raise RuntimeError(
            f"put_(): Expected a long tensor for index, but got {index.dtype.scalar_name}"
        )
    if target.dtype is not source.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{target.dtype.scalar_name} and source.dtype = {source.dtype.scalar_name}"
        )
    if source._layout.numel != index._layout.numel:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source._layout.numel}, index.numel() = {index._layout.numel}"
        )
    if not target._layout.numel and index._layout.numel:
        raise IndexError("put_(): Tried to put elements into an empty tensor")
    if not index._layout.numel or is_meta(target, index):
        return
    if source._layout.shape != index._layout.shape:
        index, source = side_by_side(index), side_by_side(source)
        source = make_tensor(
            dense_layout(index.shape, source.dtype, source.device), source._storage, source._offset
        )
    whole = side_by_side(target)
    _flat_walk("add" if accumulate else "set", whole, index, source)
    if whole is not target:
        copy_into(target, whole)


# -- a[...] with tensors ---------------------------------------------------------------------------


class Subscript:
    """Index tensors placed: the shape of the result and how the walk steps."""

    __slots__ = ("shape", "table", "indices", "sizes", "steps", "safe", "dims")

    def __init__(self, layout, indices):
        """indices: int64 layouts per dimension of the table, None where it stays."""
        dims = self.dims = [k for k, i in enumerate(indices) if i is not None]
        common = broadcast_indices([indices[k] for k in dims])
        adjacent = dims[-1] - dims[0] == len(dims) - 1
        first = dims[0] if adjacent else 0
        kept = [k for k in range(layout.ndim) if k >= len(indices) or indices[k] is None]
        before, after = kept[:first], kept[first:]
        strides, n = byte_strides(layout), len(common)
        self.shape = Size(
            [*(layout.shape[k] for k in before), *common, *(layout.shape[k] for k in after)]
        )
        self.table = [*(strides[k] for k in before), *[0] * n, *(strides[k] for k in after)]
        self.safe = [True] * len(before) + [False] * n + [True] * len(after)
        self.indices = [
            [0] * len(before)
            + [8 * s for s in expanded_strides(indices[k], common)]
            + [0] * len(after)
            for k in dims
        ]
        self.sizes, self.steps = [layout.shape[k] for k in dims], [strides[k] for k in dims]

    def plan(self, mode, dtype, items):
        return plan_walk(
            mode,
            dtype,
            self.shape or (1,),
            self.table or (0,),
            items or (0,),
            [i or (0,) for i in self.indices],
            self.sizes,
            self.steps,
            self.safe or (False,),
            wraps=True,
        )


def broadcast_indices(layouts):
    try:
        return broadcast_shape(*[i.shape for i in layouts])
    except RuntimeError:
        shapes = ", ".join(str(list(i.shape)) for i in layouts)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None


def index_tensors(input, indices):
    """Index tensors per dimension as int64 (or None), masks turned into coordinates."""
    found = []
    for t in indices:
        if t is None or t._layout.dtype is d.int64:
            found.append(t)
        elif t._layout.dtype in (d.bool_, d.uint8):
            found.extend(_mask_columns(input, t, len(found)))
        elif t._layout.dtype is d.int32:
            found.append(index64(t))
        else:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    if len(found) > input._layout.ndim:
        raise IndexError(
            f"too many indices for tensor of dimension {input._layout.ndim} (got {len(found)})"
        )
    return found


def check_mask(input, mask, dim):
    shape, own = mask._layout.shape, input._layout.shape
    for k, size in enumerate(shape):
        if dim + k >= len(own) or own[dim + k] != size:
            raise IndexError(
                f"The shape of the mask {list(shape)} at index {k} does not match the shape of the "
                f"indexed tensor {list(own)} at index {dim + k}"
            )


def _mask_columns(input, mask, dim):
    check_mask(input, mask, dim)
    rows = LAUNCHERS["nonzero"](mask)
    count = rows._layout.shape[0]
    layout = dense_layout(Size((count,)), d.int64, rows.device)
    return [
        make_tensor(layout, rows._storage, rows._offset + 8 * count * k)
        for k in range(mask._layout.ndim)
    ]


def whole_mask(input, indices):
    """The mask, if indices are a single boolean mask of input's own shape."""
    if len(indices) == 1 and indices[0] is not None and indices[0]._layout.dtype is d.bool_:
        mask = indices[0]
        if mask._layout.shape == input._layout.shape and mask._layout.ndim:
            return mask
    return None


def _is_mask(indices):
    """Is there one mask and nothing else?"""
    tensors = [i for i in indices if i is not None]
    return len(tensors) == 1 and tensors[0]._layout.dtype is d.bool_


def _subscript(input, indices):
    layouts = tuple([None if i is None else i._layout for i in indices])
    key = ("subscript", input._layout, layouts)
    return planned(key, lambda: Subscript(input._layout, layouts)), layouts


def _refuse(tensors, subscript):
    if 0 in subscript.sizes:
        raise IndexError("index is out of bounds for dimension with size 0")
    for k, (t, size) in enumerate(zip(tensors, subscript.sizes)):
        if first_outside(t, -size, size) is not None:
            # PyTorch counts the tensors, not the dimensions
            raise out_of_bounds(t, k, size, wraps=True, kind=IndexError)
    raise IndexError("index out of bounds")


@launches("index")
def index(input, indices):
    layout = input._layout
    found = _plans.get(
        ("index", layout, tuple([None if i is None else i._layout for i in indices]))
    )
    if found is None:
        mask = whole_mask(input, indices)
        if mask is not None and not is_meta(input):
            return LAUNCHERS["masked_select"](input, mask)
        indices = index_tensors(input, indices)
        if all(i is None for i in indices):
            return clone(input, None)
        subscript, layouts = _subscript(input, indices)
        to = dense_layout(subscript.shape, layout.dtype, layout.device)
        if not to.numel or is_meta(input):
            _check_empty(subscript, indices)
            return empty_like_layout(to)
        found = planned(
            ("index", layout, layouts),
            lambda: (to, subscript, *subscript.plan("read", layout.dtype, byte_strides(to))),
        )
    to, subscript, run, description, _ = found
    out = empty_like_layout(to)
    tensors = [i for i in indices if i is not None]
    places = [i._storage.pointer + i._offset for i in tensors]
    if (
        run(description, input._storage.pointer + input._offset, out._storage.pointer, *places)
        is not None
    ):
        _refuse(tensors, subscript)
    return out


def _check_empty(subscript, indices):
    """An empty result may still hide an index into a dimension of size 0."""
    numel = 1
    for i in indices:
        if i is not None:
            numel *= i._layout.numel
    if numel and 0 in subscript.sizes:
        raise IndexError("index is out of bounds for dimension with size 0")


@writer("index_put", keep_order=True)
def index_put(target, indices, values, accumulate):
    tensor_argument("index_put_", "values", 3, values)
    layout = target._layout
    if (
        values.dtype is not layout.dtype
        and values._layout.numel == 1
        and _is_mask(indices)
        and not accumulate
    ):
        values = views.detached(values).to(layout.dtype)  # as masked_fill does
    if values.dtype is not layout.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{layout.dtype.scalar_name} for the destination and {values.dtype.scalar_name} for "
            "the source."
        )
    mask = whole_mask(target, indices)
    if mask is not None and not accumulate and not is_meta(target):
        if values._layout.numel == 1:
            views.detached(target).masked_fill_(mask, views.detached(values).reshape(()))
            return
        if LAUNCHERS["masked_put"](target, mask, values):
            return
    indices = index_tensors(target, indices)
    if all(i is None for i in indices):
        raise RuntimeError("sym_strides() called on an undefined Tensor")
    subscript, layouts = _subscript(target, indices)
    _check_values(values._layout, subscript.shape)
    if not subscript.shape.numel() or is_meta(target):
        _check_empty(subscript, indices)
        return
    tensors = [i for i in indices if i is not None]

    def build():
        strides = [s * layout.itemsize for s in expanded_strides(values._layout, subscript.shape)]
        return subscript.plan("add" if accumulate else "set", layout.dtype, strides)

    run, description, _ = planned(("put", layout, layouts, values._layout, accumulate), build)
    if run(description, address(target), address(values), *map(address, tensors)) is not None:
        _refuse(tensors, subscript)


def _check_values(values, shape):
    fits = len(values.shape) <= len(shape)
    if fits:
        missing = len(shape) - len(values.shape)
        fits = all(v in (1, s) for v, s in zip(values.shape, shape[missing:]))
    if not fits:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to "
            f"indexing result of shape {list(shape)}"
        )
