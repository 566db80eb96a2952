"""Launching reductions: which dimensions go, which program runs, how the work is cut.

The innermost dimension in memory decides: if it is reduced, vectors run along it (row program),
else across it (column program). Few results and much to reduce make two launches with states in
between.
"""

from math import prod

from flambeau import _dtype, errors
from flambeau._layout import Size, collapse, contiguous_strides, dense_layout, wrap_dim
from flambeau._tensor import Tensor, empty_like_layout
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import edge_of, init_node, save_input, save_output
from flambeau.codegen import scalar
from flambeau.codegen.llvm_names import COMPUTE_TYPE
from flambeau.eager.binding import bind, store_out, type_error
from flambeau.eager.launching import FRONTS
from flambeau.eager.formula import attach_float, node_class
from flambeau.eager.kernels import load_kernel, pool
from flambeau.eager.outs import not_exact
from flambeau.eager.overriding import notice
from flambeau.eager.plan import MAX_PLANS, cast_value
from flambeau.eager.signatures import Overloads
from flambeau.ops.support import group_of
from flambeau.ops.table import REQUIRED, names_of, public
from flambeau.runtime.allocator import host_allocator
from flambeau.runtime.cpu import words

PIECE = 1 << 17  # elements per piece when a row is cut
CHUNK = 1 << 15  # elements per chunk
LONG = 1 << 13  # elements of a run that is read as several streams
FEW = 64  # results that count as few

_kernels: dict = {}


def normal_dims(dim, ndim, all_if_empty=True):
    """Dimensions to reduce, as a sorted tuple."""
    if dim is None:
        return tuple(range(ndim))
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    if not dims and all_if_empty:
        return tuple(range(ndim))
    found = [wrap_dim(d, ndim) for d in dims]
    for d in found:
        if found.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return tuple(sorted(found)) if ndim else ()


def reduced_shape(shape, dims, keepdim):
    if keepdim:
        return Size(1 if d in dims else s for d, s in enumerate(shape))
    return Size(s for d, s in enumerate(shape) if d not in dims)


class _Call:
    """A reduction row on one layout with given arguments: what it makes and how."""

    __slots__ = (
        "layouts",
        "plan",
        "numbers",
        "values",
        "sources",
        "node_layouts",
        "node_class",
        "note",
    )

    def __init__(self, op, layout, given, overload):
        options = op.options
        compute, outputs = options["result"](layout.dtype, given)
        dims = normal_dims(given.get("dim"), layout.ndim, options.get("all_if_empty", True))
        check = options.get("check")
        if check is not None:
            check(op, layout, dims, given)
        shape = reduced_shape(layout.shape, dims, given.get("keepdim", False))
        self.layouts = tuple(dense_layout(shape, d, layout.device) for d in outputs)
        self.numbers = [given[n] for n in options.get("numbers", ())]
        static = tuple((n, given[n]) for n in options.get("statics", ()))
        self.plan = self.note = None
        if layout.device.runtime.computes:
            if "note" in options:
                self.note = options["note"](layout.shape, dims, given)
            if "refuses" in options and self.layouts[0].numel:
                _refuse(dense_layout(shape, compute, layout.device), *options["refuses"])
            self.plan = _Plan(op, layout, dims, compute, self.layouts, static)
        self.node_layouts = {op.params[0].name: layout}
        self.values = given
        name = op.node_name
        if overload and op.options.get("overloads"):
            name = name[:-1] + "1"  # PyTorch counts the overload with dimensions as the second
        self.node_class = node_class(op, name)
        self.sources = (
            [_source(n, op, given) for n in self.node_class.saved_names]
            if op.grads or op.joint_grad
            else ()
        )

    def run(self, input):
        if self.note is not None:
            self.note()
        outs = [empty_like_layout(layout) for layout in self.layouts]
        if self.plan is not None:
            self.plan.launch(input, outs, self.numbers)
        return outs

    def record(self, op, input, outs):
        node = object.__new__(self.node_class)
        saved = []
        for kind, value in self.sources:
            if kind == "input":
                value = save_input(input)
            elif kind != "value":
                value = save_output(outs[value], value)
            saved.append(value)
        node.layouts, node.out_layouts = self.node_layouts, self.layouts
        init_node(node, (edge_of(input),), tuple(saved), len(outs))
        attach_float(node, outs)


def _refuse(compute, name, groups):
    """PyTorch has no kernel for some dtypes; it says so when there is something to compute."""
    if group_of(compute) in groups.split():
        raise errors.not_implemented(name, compute.dtype)


def _source(name, op, given):
    """Where a saved value of a reduction comes from."""
    if name == op.params[0].name:
        return "input", None
    if name in given:
        return "value", given[name]
    return "out", 0 if name == "out" else int(name[3:])


# What out= does to a reduction, by the row's `out` option: the computation takes out's dtype
# ("cast"), out must have exactly the result's dtype ("exact"), that of the input ("match"), or be
# bool or uint8 ("truth"); without the option the result is cast as usual.


def _fit_out(op, input, given, out):
    rule, dtype = op.options.get("out"), out[0].dtype
    if rule == "nansum":
        if given["dtype"] not in (None, dtype) and given["dtype"].category >= 2:
            raise RuntimeError(
                "nansum: provided dtype must match dtype of result. Got "
                f"{dtype.scalar_name} and {given['dtype'].scalar_name}."
            )
        if input.dtype.is_floating_point and not dtype.is_floating_point:
            raise errors.not_implemented("nansum_cpu", dtype)
        rule = "cast"
    if rule in ("cast", "average"):
        wanted = given["dtype"]
        op.options["result"](input.dtype, given)  # for its complaints
        if wanted is not None and wanted is not dtype:
            raise not_exact(wanted, dtype)
        if rule == "cast" or (wanted is None and dtype.category >= 2 and input.dtype.category >= 2):
            given["dtype"] = dtype
    elif rule == "match" and dtype is not input.dtype:
        raise RuntimeError(
            f"Expected the dtype for input and out to match, but got {input.dtype.scalar_name} for "
            f"input's dtype and {dtype.scalar_name} for out's dtype."
        )
    elif rule == "truth" and dtype.name not in ("bool", "uint8"):
        raise RuntimeError(
            f"{op.name} only supports bool tensor for result, got: {dtype.scalar_name}"
        )


def _check_exact(call, out):
    for layout, o in zip(call.layouts, out):
        if o.dtype is not layout.dtype:
            raise not_exact(layout.dtype, o.dtype)


def reduction_function(op):
    """The public function of a reduction row: worked out once per layout and arguments."""
    calls: dict = {}
    differentiable = bool(op.grads or op.joint_grad)
    wrap = op.options.get("named")
    first, rest = op.params[0].name, op.params[1:]
    name = op.options.get("public", op.name)
    overloads = Overloads(op.name, op.options["signatures"]) if "signatures" in op.options else None

    def arguments(args, kwargs, out):
        """(tensor, number of the overload, the other arguments by name)."""
        if overloads is None:
            bound = bind(op, args, kwargs)
            if not isinstance(bound[first], Tensor):
                raise type_error(op, first, 1, bound[first])
            return bound.pop(first), bound.get("dim") is not None, bound
        overload, bound = overloads.choose(args, kwargs if out is None else {**kwargs, "out": out})
        return bound[first], overload, {p.name: bound.get(p.name, p.default) for p in rest}

    def find(input, overload, given):
        key = (input._layout, overload, *given.items())
        call = calls.get(key)
        if call is None:
            if len(calls) > MAX_PLANS:
                calls.clear()
            call = calls[key] = _Call(op, input._layout, given, overload)
        return call

    def into(args, kwargs, out):
        input, overload, given = arguments(args, kwargs, out)
        outs = out if isinstance(out, (tuple, list)) else (out,)
        _fit_out(op, input, given, outs)
        call = find(input, overload, given)
        if op.options.get("out") == "exact":
            _check_exact(call, outs)
        if differentiable and modes.grad and (input._requires_grad or outs[0]._requires_grad):
            raise errors.out_requires_grad(name)
        return store_out(op, out, call.run(input))

    def function(input=REQUIRED, *args, out=None, **kwargs):
        try:
            key = (input._layout, args, *kwargs.items()) if kwargs else (input._layout, args)
            call = calls.get(key)
        except (TypeError, AttributeError):
            call = key = None
        if call is None or out is not None:
            if notice(type(input)):
                return public(name)(input, *args, **kwargs)
            given = args if input is REQUIRED else (input, *args)
            if out is not None:
                return into(given, kwargs, out)
            input, overload, given = arguments(given, kwargs, None)
            call = find(input, overload, given)
            if key is not None:
                calls[key] = call
        outs = call.run(input)
        if differentiable and input._requires_grad and modes.grad:
            call.record(op, input, outs)
        if len(outs) == 1:
            return outs[0]
        return wrap(outs) if wrap else tuple(outs)

    function.__name__ = function.__qualname__ = op.name
    function.__doc__, function.__module__ = op.doc, "flambeau"
    return function


class _Plan:
    """One reduction of one layout."""

    def __init__(self, op, layout, dims, compute, outs, static):
        self.op = op
        self.r = describe(op, layout.dtype, compute, tuple(o.dtype for o in outs), dict(static))
        self.key = (
            op.name,
            layout.dtype.code,
            compute.code,
            tuple(o.dtype.code for o in outs),
            static,
        )
        self.second = None
        self.scratch = None
        self.results = prod(s for d, s in enumerate(layout.shape) if d not in dims)
        self.count = prod(layout.shape[d] for d in dims)
        if self.results:
            self._cut(layout, dims, outs[0])

    def _cut(self, layout, dims, out):
        size = layout.itemsize
        position = _positions(layout.shape, dims)
        order = sorted(range(layout.ndim), key=lambda d: -abs(layout.strides[d]))
        kept = [d for d in order if d not in dims]
        reduced = (
            sorted(dims) if self.op.options.get("indexed") else [d for d in order if d in dims]
        )
        ks, (kst, kout) = collapse(
            [layout.shape[d] for d in kept],
            [[layout.strides[d] * size for d in kept], [position[d] for d in kept]],
        )
        rs, (rst,) = collapse(
            [layout.shape[d] for d in reduced], [[layout.strides[d] * size for d in reduced]]
        )
        if not rs:
            rs, rst = [1 if self.count else 0], [size]
        columns = (
            bool(ks)
            and ks[-1] > 1
            and abs(kst[-1]) < abs(rst[-1])
            and (ks[-1] >= 8 or kst[-1] == size)
        )
        if columns:
            self._columns(ks, kst, kout, rs, rst, size)
        else:
            self._rows(ks, kst, kout, rs, rst, size)

    def _rows(self, ks, kst, kout, rs, rst, size):
        length, stride = rs[-1], rst[-1]
        outer, outer_strides = rs[:-1], rst[:-1]
        rows, runs = prod(ks), prod(outer)
        total = length * runs
        pieces, piece = 1, max(length, 1) if not outer else runs
        if rows < FEW and total > 2 * PIECE:
            # by elements of a run, or by whole runs
            piece = PIECE if not outer else max(1, PIECE // max(length, 1))
            pieces = -(-(length if not outer else runs) // piece)
        per_chunk = 1 if pieces > 1 else max(1, CHUNK // max(total, 1))
        chunks = pieces * -(-rows // per_chunk)
        long = min(length, piece) >= LONG if not outer else length >= LONG
        shape = (
            len(ks),
            len(outer),
            "c" if stride == size else "n",
            "elements",
            "states" if pieces > 1 else "results",
            long,
        )
        described = [
            chunks,
            per_chunk,
            rows,
            pieces,
            piece,
            length,
            stride,
            self.count,
            1,
            0,
            *ks,
            *kst,
            *kout,
            *outer,
            *outer_strides,
        ]
        self._first(shape, False, described, "c")
        if pieces > 1:
            self._join(pieces, rows, ks, kout)

    def _columns(self, ks, kst, kout, rs, rst, size):
        length, stride, out_stride = ks[-1], kst[-1], kout[-1]
        rows, runs = prod(ks[:-1]), prod(rs)
        pieces, piece = 1, max(runs, 1)
        results = rows * length
        if results < 16 * FEW and runs * results > 4 * PIECE and runs >= 512:
            piece = max(128, 2 * PIECE // length)
            pieces = -(-runs // piece)
        block = length
        if rows * pieces * length * min(runs, piece) > CHUNK:
            # enough columns that a row of them is worth a trip to memory, and a share for everybody
            shares = 1 if rows * pieces > 7 else 4
            block = min(length, max(512, -(-length // shares) + 127 & -128))
        chunks = rows * pieces * -(-length // block)
        shape = (
            len(ks) - 1,
            len(rs),
            "c" if stride == size else "n",
            "elements",
            "states" if pieces > 1 else "results",
        )
        described = [
            chunks,
            block,
            rows,
            pieces,
            piece,
            length,
            stride,
            self.count,
            out_stride,
            0,
            *ks[:-1],
            *kst[:-1],
            *kout[:-1],
            *rs,
            *rst,
        ]
        self._first(shape, True, described, "c" if out_stride == 1 else "n")
        if pieces > 1:
            self._join(pieces, results, ks, kout)

    def _first(self, shape, columns, described, access):
        self.kernel = _kernel(self.key, self.r, shape, columns, access)
        self.keep, self.desc = words(described)
        if described[0] > 1:
            pool().ensure_workers()

    def _join(self, pieces, results, ks, kout):
        """The second launch: states lie as [piece][result]; rows are pieces, columns results."""
        self.scratch = pieces * results
        shape = (len(ks) - 1 if ks else 0, 1, "c", "states", "results")
        length, out_stride = (ks[-1], kout[-1]) if ks else (1, 1)
        rows = results // length
        # strides of states differ in bytes per component: see join_kernel, which scales them itself
        self.second = _join_kernel(self.key, self.r, shape, "c" if out_stride == 1 else "n")
        described = [
            rows,
            max(length, 1),
            rows,
            1,
            pieces,
            length,
            0,
            self.count,
            out_stride,
            results,
            *ks[:-1],
            *_dense(ks),
            *kout[:-1],
            pieces,
            results,
        ]
        self.keep2, self.desc2 = words(described)

    def launch(self, input, outs, numbers):
        if not self.results:
            return
        targets = [o._storage.pointer + o._offset for o in outs]
        source = input._storage.pointer + input._offset
        if self.scratch is None:
            self.kernel(self.desc, *targets, source, *numbers)
            return
        pool = host_allocator.pool_for(8 * self.scratch)
        pointers = []
        try:
            for _ in self.r.state:
                try:
                    pointers.append(pool.pop())
                except IndexError:
                    pointers.append(pool.grow())
            self.kernel(self.desc, *pointers, source, *numbers)
            self.second(self.desc2, *targets, *pointers, *numbers)
        finally:
            pool.extend(pointers)


def _dense(ks):
    return [s * ks[-1] for s in contiguous_strides(ks[:-1])] if ks else []


def _positions(shape, dims):
    """Element strides of the kept dimensions in a dense output."""
    kept = [d for d in range(len(shape)) if d not in dims]
    found = dict(zip(kept, contiguous_strides([shape[d] for d in kept])))
    return [found.get(d, 0) for d in range(len(shape))]


def _kernel(key, r, shape, columns, access):
    full = (key, shape, columns, access)
    found = _kernels.get(full)
    if found is None:
        from flambeau.codegen.templates import reduction  # with llvmlite, on first need

        ir = reduction.build(r, reduction.Shape(*shape), columns, access)
        found = _kernels[full] = load_kernel(ir, key[0])
    return found


def _join_kernel(key, r, shape, access):
    full = (key, "join", shape, access)
    found = _kernels.get(full)
    if found is None:
        from flambeau.codegen.templates import reduction  # with llvmlite, on first need

        ir = reduction.build_join(r, reduction.Shape(*shape), access)
        found = _kernels[full] = load_kernel(ir, key[0] + "_join")
    return found


_WIDE = {"f32": "f64"}  # what totals of sums are kept in


def describe(op, dtype, compute, outputs, static, wide=False):
    """The Reduction of a row: elements are cast to the compute dtype, then contribute."""
    from flambeau.codegen.templates.reduction import Reduction  # with llvmlite, on first need

    options = op.options
    code = compute.code
    body = op.body
    wanted = names_of(body)
    fixed = {n: v for n, v in static.items() if n in wanted}
    state_types = options["state"](COMPUTE_TYPE[code], code)
    wider = None
    if wide:
        state_types = tuple(_WIDE.get(t, t) for t in state_types)
    elif options.get("wide") and any(t in _WIDE for t in state_types):
        wider = describe(op, dtype, compute, outputs, static, True)
    join = options["combine"]
    custom_step = options.get("step")

    def cast_state(values):
        values = values if isinstance(values, tuple) else (values,)
        found = []
        for v in values:
            found.extend((v.re, v.im) if isinstance(v, scalar.Complex) else (v,))
        return tuple(scalar.cast(v, t) for v, t in zip(found, state_types))

    is_complex = code[0] == "c" and options.get("complex_state", True)

    def pack(state):
        """A state as the row sees it: one value, a Complex, or a tuple."""
        if is_complex and len(state) == 2:
            return scalar.Complex(*state)
        return state if len(state) > 1 else state[0]

    def start():
        return cast_state(options["init"](COMPUTE_TYPE[code], code))

    def joined(a, b):
        return cast_state(join(pack(a), pack(b)))

    def step(state, x, index, *numbers):
        x = cast_value(x, code)
        if custom_step is not None:
            return cast_state(custom_step(pack(state), x, index, *numbers))
        arguments = [x]
        if options.get("indexed"):
            arguments.append(index)
        return cast_state(join(pack(state), body(*arguments, *numbers, **fixed)))

    def finish(state, count, *numbers):
        end = options.get("finish")
        value = pack(state)
        if end is None:
            return value
        names = names_of(end)
        extra = {n: static[n] for n in names if n in static}
        arguments = [value, count][: 2 if "count" in names else 1]
        return end(*arguments, *numbers, **extra)

    return Reduction(
        dtype.code,
        tuple(d.code for d in outputs),
        state_types,
        start,
        step,
        joined,
        finish,
        "f" * len(options.get("numbers", ())),
        bool(options.get("indexed")),
        wider,
    )


def _norm_front(op, general):
    """x.norm(), which most calls are, without binding what is not there."""

    def norm(input=REQUIRED, *args, **kwargs):
        alone = not args and not kwargs and isinstance(input, Tensor)
        if alone and input._layout.dtype.category >= _dtype.FLOATING:
            return public("_norm_sum")(input, 2, None, False, dtype=None)
        return general(*(() if input is REQUIRED else (input,)), *args, **kwargs)

    return norm


FRONTS["norm"] = _norm_front
