"""Launching reductions: which dimensions go, which program runs, how the work is cut.

The innermost dimension in memory decides: if it is reduced, vectors run along it (row program),
else across it (column program). Few results and much to reduce make two launches with states in
between.
"""

from flambeau import _dtype, errors
from flambeau._layout import Size, dense_layout, wrap_dim
from flambeau._tensor import Tensor, empty_like_layout
from flambeau.autograd.grad_mode import modes
from flambeau.codegen import scalar
from flambeau.codegen.llvm_names import COMPUTE_TYPE
from flambeau.eager.binding import bind, store_out, take_out, type_error, wrote
from flambeau.eager.formula import recorder
from flambeau.eager.fragments import compile_text
from flambeau.eager.kernels import pool
from flambeau.eager.launching import FRONTS
from flambeau.eager.plan import cast_value
from flambeau.eager.plans import Plans
from flambeau.eager.signatures import Overloads
from flambeau.interposing.overriding import notice
from flambeau.ops.support import GROUPS, is_refused
from flambeau.ops.table import REQUIRED, names_of, public
from flambeau.planning import reductions as walks
from flambeau.runtime.cpu import packed
from flambeau.runtime.stacks import alone
from flambeau.runtime.threads import planned


def normal_dims(dim, ndim, all_if_empty=True):
    """Dimensions to reduce, as a sorted tuple."""
    if dim is None:
        return tuple(range(ndim))
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    if not dims and all_if_empty:
        return tuple(range(ndim))
    if ndim > 64:  # PyTorch keeps the dimensions as bits of a word
        raise RuntimeError("only tensors with up to 64 dims are supported")
    found = [wrap_dim(d, ndim) for d in dims]
    for d in found:
        if found.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return tuple(sorted(found)) if ndim else ()


def reduced_shape(shape, dims, keepdim):
    if keepdim:
        return Size(1 if d in dims else s for d, s in enumerate(shape))
    return Size(s for d, s in enumerate(shape) if d not in dims)


class Kind:
    """A reduction row for a dtype, a rank and given arguments: all that sizes do not change."""

    def __init__(self, op, sample, overload, given):
        options = op.options
        self.op, self.given = op, given
        self.compute, self.dtypes = options["result"](sample.dtype, given)
        all_if_empty = options.get("all_if_empty", True)
        self.dims = normal_dims(given.get("dim"), sample.ndim, all_if_empty)
        self.keepdim = given.get("keepdim", False)
        self.numbers = [given[n] for n in options.get("arguments", ())]
        static = tuple((n, given[n]) for n in options.get("statics", ()))
        codes = tuple(d.code for d in self.dtypes)
        self.key = (op.name, sample.dtype.code, self.compute.code, codes, static)
        self.runtime = sample.device.runtime
        self.on_gpu = sample.device.type == "cuda"
        self.reduction = None
        if self.runtime.computes:
            types = tuple([type(v) for _, v in static])  # 1, 1.0 and True are different things
            self.reduction = _DESCRIBED[op, sample.dtype, self.compute, self.dtypes, static, types]
        self.is_whole = len(self.dims) == sample.ndim and not self.keepdim
        name = op.node_name
        if overload and options.get("overloads"):
            name = name[:-1] + "1"  # PyTorch counts the overload with dimensions as the second
        self.recorder = recorder(op, name) if op.is_differentiable else None
        self.check, self.note = options.get("check"), options.get("note")
        self.kernels = {}  # pattern of a launch -> kernel
        # one result without anything to see to: the public function does it all
        self.is_plain = len(self.dtypes) == 1 and not self.numbers and self.note is None
        self.is_whole = self.is_whole and self.is_plain and self.runtime.computes
        if self.is_whole and "refuses" in options:
            self.is_whole = not is_refused(op, GROUPS[self.compute], options["refuses"][1].split())

    def whole_plan(self, sample, short):
        """All elements of a dense layout, too few to be cut: the kernel is told how many."""
        if self.check is not None:
            self.check(self.op, sample, self.dims, self.given)
        out = dense_layout((), self.dtypes[0], sample.device)
        kernel = self.kernel("build_rows", (0, 0, "c", "elements", "results", not short))
        return out, kernel, packed((0, sample.itemsize)), self

    def kernel(self, build, *pattern):
        """The kernel of a program for a pattern of a launch."""
        found = self.kernels.get((build, pattern))
        if found is None:
            full = (self.key, build, pattern)
            found = self.runtime.kernels.get(full)
            if found is None:
                key = (self.reduction, *pattern)
                found = self.runtime.load(self.op.name, f"reduction:{build}", key)
                self.runtime.kernels[full] = found
            self.kernels[build, pattern] = found
        return found

    def record(self, input, outs):
        """The history of results."""
        self.recorder(outs, input, *self.given.values())


class Call:
    """A reduction of one layout: what it makes and how."""

    __slots__ = ("kind", "layouts", "note", "results", "first", "second", "states")

    def __init__(self, kind, layout):
        self.kind = kind
        op, dims = kind.op, kind.dims
        if kind.check is not None:
            kind.check(op, layout, dims, kind.given)
        shape = () if kind.is_whole else _reduced_sizes(layout.sizes, dims, kind.keepdim)
        device = layout.device
        self.layouts = tuple([dense_layout(shape, d, device) for d in kind.dtypes])
        self.note = self.second = self.states = None
        self.results = self.layouts[0].numel if kind.runtime.computes else 0
        if kind.note is not None and kind.runtime.computes:
            self.note = kind.note(layout.shape, dims, kind.given)
        if not self.results:
            return
        if "refuses" in op.options and layout.numel:
            kernel, groups = op.options["refuses"]
            if is_refused(op, GROUPS[kind.compute], groups.split()):
                raise errors.not_implemented(kernel, kind.compute)
        columns, *walk = walks.cut(
            layout.sizes, layout.strides, dims, layout.itemsize, layout.numel,
            bool(op.options.get("indexed")),
        )  # fmt: skip
        facts = *walk, layout.itemsize, layout.numel // self.results
        (self._columns if columns else self._rows)(*facts)

    def _rows(self, ks, kst, kout, rs, rst, size, count):
        pieces, rows, long, side_by_side, chunks, desc = walks.along_rows(
            ks, kst, kout, rs, rst, size, count, self.kind.on_gpu
        )
        access, sink = "c" if side_by_side else "n", "states" if pieces > 1 else "results"
        shape = (len(ks), len(rs) - 1, access, "elements", sink, bool(long))
        self._launch(self.kind.kernel("build_rows", shape), chunks, desc)
        if pieces > 1:
            self._join(pieces, rows, count, ks, kout)

    def _columns(self, ks, kst, kout, rs, rst, size, count):
        pieces, results, side_by_side, chunks, desc = walks.down_columns(
            ks, kst, kout, rs, rst, size, count, 0 if self.kind.on_gpu else planned()
        )
        access, sink = "c" if side_by_side else "n", "states" if pieces > 1 else "results"
        shape = (len(ks) - 1, len(rs), access, "elements", sink)
        self._launch(
            self.kind.kernel("build_columns", shape, "c" if kout[-1] == 1 else "n"), chunks, desc
        )
        if pieces > 1:
            self._join(pieces, results, count, ks, kout)

    def _launch(self, kernel, chunks, desc):
        self.first = kernel, desc
        if chunks > 1:
            pool().ensure_workers()

    def _join(self, pieces, results, count, ks, kout):
        """The second launch, over the states of pieces."""
        self.states = self.kind.runtime.pool_for(8 * pieces * results)
        shape = (len(ks) - 1 if ks else 0, 1, "c", "states", "results")
        kernel = self.kind.kernel("build_join", shape, "c" if not ks or kout[-1] == 1 else "n")
        self.second = kernel, walks.joined(ks, kout, pieces, results, count)

    def run(self, input):
        """Fresh tensors with the results."""
        if self.note is not None:
            self.note()
        outs = [empty_like_layout(layout) for layout in self.layouts]
        if self.results:
            self._compute(input, [o._storage.pointer for o in outs])
        return outs

    def _compute(self, input, targets):
        kernel, desc = self.first
        source, numbers = input._storage.pointer + input._offset, self.kind.numbers
        if self.second is None:
            kernel(desc, *targets, source, *numbers)
            return
        states = []
        try:
            for _ in self.kind.reduction.state:
                try:
                    states.append(self.states.pop())
                except IndexError:
                    states.append(self.states.grow())
            kernel(desc, *states, source, *numbers)
            kernel, desc = self.second
            kernel(desc, *targets, *states, *numbers)
        finally:
            self.states.extend(states)


def _reduced_sizes(sizes, dims, keepdim):
    if keepdim:
        return tuple([1 if d in dims else s for d, s in enumerate(sizes)])
    return tuple([s for d, s in enumerate(sizes) if d not in dims])


# What out= does to a reduction, by the row's `out` option: the computation takes out's dtype
# ("cast"), out must have exactly the result's dtype ("exact"), that of the input ("match"), one
# that the input can be cast to ("castable"), or be bool or uint8 ("truth"); without the option the
# result is cast as usual.


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
            raise errors.not_exact_out(wanted, dtype)
        if rule == "cast" or (wanted is None and dtype.category >= 2 and input.dtype.category >= 2):
            given["dtype"] = dtype
    elif rule == "match" and dtype is not input.dtype:
        raise RuntimeError(
            f"Expected the dtype for input and out to match, but got {input.dtype.scalar_name} for "
            f"input's dtype and {dtype.scalar_name} for out's dtype."
        )
    elif rule == "castable" and input.dtype.category > dtype.category:
        raise RuntimeError(
            "Expected canCast( typeMetaToScalarType(self.dtype()), "
            "typeMetaToScalarType(out.dtype())) to be true, but got false."
        )
    elif rule == "truth" and dtype.name not in ("bool", "uint8"):
        raise RuntimeError(
            f"{op.name} only supports bool tensor for result, got: {dtype.scalar_name}"
        )


def _check_exact(call, out):
    for layout, o in zip(call.layouts, out):
        if o.dtype is not layout.dtype:
            raise errors.not_exact_out(layout.dtype, o.dtype)


_TEXT = """def {name}(input=REQUIRED, *args, out=None, **kwargs):
    try:
        layout = input._layout
        n = layout.numel
        if kwargs:
            layout0, kernel, desc, call = plans[layout, args, *kwargs.items()]
        else:
            found = sorts[layout.sort, layout.ndim, args, n < LONG] if n <= MOST{order} else None
            if found is None:
                found = plans[layout, args]
            layout0, kernel, desc, call = found
    except (AttributeError, TypeError):
        call = None
    if call is None or out is not None:
        return slow(input, args, kwargs, out=out)
    out0 = _reduced(layout0, args, kwargs)
    if out0 is None:
        return slow(input, args, kwargs)
    if kernel is None:
        return several(call, input)
    p0 = out0._storage.pointer
    kernel(desc, p0, input._storage.pointer + input._offset, n)
    if input._requires_grad and modes.grad and differentiable:
        call.record(input, (out0,))
    return out0
"""


class Reducer:
    """The public function of a reduction row, and its slow path."""

    def __init__(self, op):
        self.op, options = op, op.options
        self.differentiable = op.is_differentiable
        self.name = options.get("public", op.name)
        signatures = options.get("signatures")
        self.overloads = Overloads(op.name, signatures) if signatures else None
        self.plans, self.kinds = Plans(self._plan, mixed=True), Plans(self._kind, mixed=True)
        self.sorts = Plans(self._whole, mixed=True)
        scope = {
            "plans": self.plans,
            "sorts": self.sorts,
            "LONG": walks.LONG,
            "MOST": 2 * walks.PIECE,
            "slow": self.slow,
            "several": self.several,
            "REQUIRED": REQUIRED,
            "differentiable": self.differentiable,
        }
        # places count in row-major order, sums may take elements as they lie
        order = " and layout.is_dense" if options.get("indexed") else ""
        text = _TEXT.format(name=op.name, order=order)
        self.function = compile_text(text, scope, op.name)[op.name]

    def arguments(self, args, kwargs, out=None):
        """(tensor, number of the overload, the other arguments by name)."""
        first, *rest = self.op.params
        if self.overloads is None:
            bound = bind(self.op, args, kwargs)
            if not isinstance(bound[first.name], Tensor):
                raise type_error(self.op, first.name, 1, bound[first.name])
            return bound.pop(first.name), bound.get("dim") is not None, bound
        overload, bound = self.overloads.choose(
            args, kwargs if out is None else {**kwargs, "out": out}
        )
        return bound[first.name], overload, {p.name: bound.get(p.name, p.default) for p in rest}

    def _kind(self, key):
        """The Kind of (dtype, device, rank, arguments as they were written)."""
        dtype, device, ndim, args, *kwargs = key
        sample = dense_layout((1,) * ndim, dtype, device)
        _, overload, given = self.arguments((public("empty")(0), *args), dict(kwargs))
        return Kind(self.op, sample, overload, given)

    def _whole(self, key):
        """The same for all elements of a dense layout, whatever their number; None where the
        arguments want something else.
        """
        sort, ndim, args, short = key
        if sort is None or (not short and sort.device.type == "cuda"):  # one group is not enough
            return None
        kind = self.kinds[sort.dtype, sort.device, ndim, args]
        return kind.whole_plan(sort, short) if kind.is_whole else None

    def _plan(self, key):
        """(layout of the result, kernel, description, kind), or a Call behind three None."""
        layout, *rest = key
        kind = self.kinds[layout.dtype, layout.device, layout.ndim, *rest]
        call = Call(kind, layout)
        out = call.layouts[0]
        if kind.is_plain and call.second is None and call.results:
            return out, *call.first, kind
        return None, None, None, call

    def several(self, call, input):
        """Several results, none at all, or more than one launch."""
        outs = call.run(input)
        if self.differentiable and input._requires_grad and modes.grad:
            call.kind.record(input, outs)
        return outs[0] if len(outs) == 1 else tuple(outs)

    def slow(self, input, args, kwargs, out=None):
        quick = type(out) is Tensor and input is not REQUIRED
        if quick and wrote(self.function, out, (input, *args), kwargs):
            return out
        if notice(type(input)):
            return public(self.name)(input, *args, **kwargs)
        given = args if input is REQUIRED else (input, *args)
        input, overload, bound = self.arguments(given, kwargs, out)
        outs = None if out is None else out if isinstance(out, (tuple, list)) else (out,)
        if outs is not None:
            if self.overloads is None and "out" in self.op.variants:
                take_out(self.op, out)
            _fit_out(self.op, input, bound, outs)
        call = Call(Kind(self.op, input._layout, overload, bound), input._layout)
        if outs is None:
            return self.several(call, input)
        if self.op.options.get("out") == "exact":
            _check_exact(call, outs)
        wanted = input._requires_grad or outs[0]._requires_grad
        if self.differentiable and modes.grad and wanted:
            raise errors.out_requires_grad(self.name)
        return store_out(self.op, out, call.run(input))


def reduction_function(op):
    """The public function of a reduction row: worked out once per layout and arguments."""
    op.runtime = Reducer(op)
    function = op.runtime.function
    function.__doc__, function.__module__ = op.doc, "flambeau"
    return function


_WIDE = {"f32": "f64"}  # what totals of sums are kept in


def _describe(op, dtype, compute, outputs, static, types=None, wide=False):
    """The Reduction of a row: elements are cast to the compute dtype, then contribute."""
    from flambeau.codegen.templates.reduction import Reduction  # with llvmlite, on first need

    options = op.options
    code = compute.code
    body = op.body
    wanted, static = names_of(body), dict(static)
    fixed = {n: v for n, v in static.items() if n in wanted}
    state_types = options["state"](COMPUTE_TYPE[code], code)
    wider = None
    if wide:
        state_types = tuple(_WIDE.get(t, t) for t in state_types)
    elif options.get("wide") and any(t in _WIDE for t in state_types):
        wider = _describe(op, dtype, compute, outputs, tuple(static.items()), types, True)
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
        if options.get("filter"):
            x = body(x)
        x = cast_value(x, code)
        if custom_step is not None:
            return cast_state(custom_step(pack(state), x, index, *numbers))
        arguments = [x]
        if options.get("indexed"):
            arguments.append(index)
        if options.get("filter"):
            return cast_state(join(pack(state), x))
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
        "f" * len(options.get("arguments", ())),
        bool(options.get("indexed")),
        wider,
    )


_DESCRIBED = Plans(lambda key: alone(_describe, *key), by_default=False)


def _norm_front(op, general):
    """x.norm(), which most calls are, without binding what is not there."""

    def norm(input=REQUIRED, *args, **kwargs):
        bare = not args and not kwargs and isinstance(input, Tensor)
        if bare and input._layout.dtype.category >= _dtype.FLOATING:
            return public("_norm_sum")(input, 2, None, False, dtype=None)
        return general(*(() if input is REQUIRED else (input,)), *args, **kwargs)

    return norm


FRONTS["norm"] = _norm_front
