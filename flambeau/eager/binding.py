"""From what a caller wrote to what an op wants, and the public functions made of that.

`bind` maps arguments to a row's parameters with PyTorch's complaints; `pointwise_function` and
`row_function` build what users call. For pointwise rows that is generated text with the hot path
inside (see call.py) and a slow path here for everything unusual; other kinds go through `call_row`.
"""

import operator

from flambeau import errors
from flambeau._layout import broadcast_shape, is_dense_in_some_order, overlaps_itself, span
from flambeau._tensor import Tensor, make_tensor
from flambeau.autograd import views
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import Node, SavedInput, SavedOutput, edge_of, init_node
from flambeau.eager.call import SCALARS, compile_text
from flambeau.eager.formula import record_formula, wants_grad
from flambeau.eager.fronts import quick_function
from flambeau.eager.routes import Routes
from flambeau.eager.variants import Variant
from flambeau.ops.table import REQUIRED, TABLE, public

NUMBERS = (bool, int, float, complex)
KEYWORDS = {
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "input",
    "x1": "input",
    "x2": "other",
    "a": "input",
    "axis0": "dim0",
    "axis1": "dim1",
    "split_size": "split_size_or_sections",
}
LAUNCHERS: dict = {}  # template name -> function on plain tensors
FRONTS: dict = {}  # template name -> builder(op, general function) of a quicker public function


def launches(*names):
    """Register a function as the launcher of a template."""

    def register(function):
        for name in names:
            LAUNCHERS[name] = function
        return function

    return register


def type_error(op, param, position, value, wanted="Tensor"):
    where = f" (position {position})" if position else ""
    return TypeError(
        f"{op.name}(): argument '{param}'{where} must be {wanted}, not {type(value).__name__}"
    )


def bind(op, args, kwargs):
    """Arguments by parameter name, in order, checked and normalised."""
    params = op.params
    bound = {}
    if len(args) > len(params) or op.options.get("varargs"):
        args = _pack_rest(op, args)
    for p, value in zip(params, args):
        if p.keyword_only:
            positional = sum(not q.keyword_only for q in params)
            raise TypeError(
                f"{op.name}() takes {positional} positional arguments but {len(args)} were given"
            )
        bound[p.name] = value
    if kwargs:
        names = {p.name for p in params}
        for name, value in kwargs.items():
            target = name if name in names else KEYWORDS.get(name)
            if target not in names:
                raise TypeError(f"{op.name}() got an unexpected keyword argument '{name}'")
            if target in bound:
                raise TypeError(f"{op.name}() got multiple values for argument '{target}'")
            bound[target] = value
    if len(bound) < len(params):
        for p in params:
            if p.name not in bound:
                if p.default is REQUIRED:
                    missing = [
                        q.name for q in params if q.default is REQUIRED and q.name not in bound
                    ]
                    text = ", ".join(f'"{n}"' for n in missing)
                    raise TypeError(
                        f"{op.name}() missing {len(missing)} required positional arguments: {text}"
                    )
                bound[p.name] = p.default
    return {p.name: _normal(op, k, p, bound[p.name]) for k, p in enumerate(params)}


def _pack_rest(op, args):
    """view(2, 3) means view((2, 3)): pack trailing integers into the parameter that wants them."""
    name = op.options.get("varargs")
    if name is None:
        raise TypeError(
            f"{op.name}() takes {len(op.params)} positional arguments but {len(args)} were given"
        )
    k = [p.name for p in op.params].index(name)
    if len(args) > k + 1 or (len(args) == k + 1 and not isinstance(args[k], (tuple, list))):
        return (*args[:k], tuple(args[k:]))
    return ((),) if k == 0 and not args else args


def _native_name(value):
    """The name of a value's class as C code sees it: classes not written in Python say whose."""
    kind = type(value)
    written_in_python = kind.__flags__ & (1 << 9)  # a heap type
    if written_in_python or kind.__module__ == "builtins":
        return kind.__name__
    return f"{kind.__module__}.{kind.__name__}"


def _normal(op, k, p, value):
    kind = p.kind
    if kind == "tensor":
        if isinstance(value, Tensor):
            return value
        welcome = (k > 0 and op.options.get("numbers", True)) or op.first_scalar
        if type(value) in NUMBERS and welcome:
            return value
        number = as_number(value) if welcome else None
        if number is None:
            raise type_error(op, p.name, k + 1, value)
        return number
    if kind == "optional":
        if value is None or isinstance(value, Tensor):
            return value
        number = as_number(value)
        if number is None:
            raise type_error(op, p.name, k + 1, value)
        return number
    if kind == "float":
        return _float(op, k, p, value)
    if kind == "int":
        return value if type(value) is int or value is None else _index(op, k, p, value)
    if kind == "scalar":
        number = value if type(value) in NUMBERS or value is None else as_number(value)
        if number is None and value is not None:
            raise type_error(op, p.name, k + 1, value, "Number")
        return number
    if kind == "tensors":
        if isinstance(value, Tensor):
            raise type_error(op, p.name, k + 1, value, "tuple of Tensors")
        for n, v in enumerate(value):
            if not isinstance(v, Tensor):
                raise TypeError(
                    f"expected Tensor as element {n} in argument {k}, but got {_native_name(v)}"
                )
        return tuple(value)
    return tuple(value) if type(value) is list else value


def _float(op, k, p, value):
    if type(value) is float or value is None:
        return value
    try:
        return float(value)
    except (TypeError, ValueError):
        raise type_error(op, p.name, k + 1, value, "float") from None


def _index(op, k, p, value):
    if isinstance(value, float):
        raise type_error(op, p.name, k + 1, value, "int")
    try:
        return operator.index(value)
    except TypeError:
        raise type_error(op, p.name, k + 1, value, "int") from None


def as_number(value):
    """A Python number for NumPy scalars and the like, else None."""
    if type(value) in NUMBERS:
        return value
    if isinstance(value, Tensor):
        return value.item() if value._layout.ndim == 0 else None
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "shape", None) == ():
        return item()
    if isinstance(value, NUMBERS):
        return value
    return None


def check_out(op, out, shape, dtype):
    """Make out fit for a result: resize it if needed, refuse what cannot be cast."""
    if not isinstance(out, Tensor):
        raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if dtype.category > out.dtype.category:
        raise errors.cannot_cast(dtype, out.dtype)
    if out._requires_grad and modes.grad:
        raise errors.out_requires_grad(op.name)
    if out.shape != shape:
        out._resize_output(shape)


def store_out(op, out, results):
    """Results into out=: one tensor or a tuple of them."""
    outs = out if isinstance(out, (tuple, list)) else (out,)
    for o, r in zip(outs, results):
        if o.dtype is not r.dtype and op.options.get("exact_out"):
            raise RuntimeError(
                f"Expected out tensor to have dtype {r.dtype.cpp_name}, but got "
                f"{o.dtype.cpp_name} instead"
            )
        check_out(op, o, r.shape, r.dtype)
        o.copy_(r)
    return out


# -- pointwise rows --------------------------------------------------------------------------------


class PointwiseCalls:
    """The slow path of one pointwise row, and the variants its fast paths use."""

    def __init__(self, op):
        self.op = op
        self.variants = {}

    def variant(self, pattern, statics=()):
        found = self.variants.get((pattern, statics))
        if found is None:
            found = self.variants[pattern, statics] = Variant(self.op, pattern, statics)
        return found

    def choose(self, bound):
        """The variant for bound arguments, and its arguments."""
        pattern, values, statics = "", [], []
        for p in self.op.params:
            value = bound[p.name]
            if p.kind in ("tensor", "optional"):
                if value is None:
                    statics.append((p.name, None))
                    continue
                pattern += "t" if isinstance(value, Tensor) else "s"
            elif value is None or p.kind == "static" or (p.kind == "scalar" and value == p.default):
                statics.append((p.name, value))
                continue
            else:
                pattern += {"float": "f", "int": "i", "scalar": "n"}[p.kind]
            values.append(value)
        if "t" not in pattern:
            raise TypeError(
                f"{self.op.name}(): at least one argument must be Tensor, not "
                f"{type(values[0]).__name__}"
            )
        return self.variant(pattern, tuple(statics)), values

    def call(self, *args, out=None, **kwargs):
        bound = bind(self.op, args, kwargs)
        return self.call_bound(bound, out)

    def _prepared(self, bound):
        """Let the row look at bound arguments; it may send them to another row (an overload)."""
        options = self.op.options
        if "prepare" in options:
            options["prepare"](bound)
        if "check" in options:
            options["check"](bound)
        name = options["overload"](bound) if "overload" in options else None
        if name is None:
            return self, bound
        other = TABLE[name]
        if other.runtime is None:
            pointwise_function(other)
        return other.runtime, {p.name: bound[p.name] for p in other.params}

    def call_bound(self, bound, out=None):
        target, bound = self._prepared(bound)
        if target is not self:
            return target.call_bound(bound, out)
        variant, values = self.choose(bound)
        if out is not None:
            return self._into(variant, values, out)
        if complex in map(type, values):
            outs = variant.family.run_any(values)
            if modes.grad and any(values[k]._requires_grad for k in variant.differentiable):
                variant.record(*outs, *values)
            return outs[0] if len(outs) == 1 else outs
        return variant.run(*values)

    def _into(self, variant, values, out):
        outs = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        if modes.grad and any(values[k]._requires_grad for k in variant.differentiable):
            raise errors.out_requires_grad(self.op.name)
        _, dtypes = variant._types(variant.family.operands(values))
        shape = broadcast_shape(*[v.shape for v in values if isinstance(v, Tensor)])
        for o, d in zip(outs, dtypes):
            check_out(self.op, o, shape, d)
            check_overlap(o, [v for v in values if isinstance(v, Tensor)])
        variant.family.run_into(outs, values)
        for o in outs:
            o._storage.version += 1
        return out

    def inplace(self, *args, **kwargs):
        calls, bound = self._prepared(bind(self.op, args, kwargs))
        return calls.inplace_bound(args[0], bound)

    def inplace_bound(self, target, bound):
        # some rows have another for this, whose derivative is written in terms of the result
        row = self.op.options.get("inplace_row")
        if row is not None and modes.grad and target._requires_grad:
            if TABLE[row].runtime is None:
                pointwise_function(TABLE[row])
            calls, bound = TABLE[row].runtime._prepared(bound)
            return calls.inplace_bound(target, bound)
        variant, values = self.choose(bound)
        tensors = [v for v in values if isinstance(v, Tensor)]
        _, dtypes = variant._types(variant.family.operands(values))
        if dtypes[0].category > target.dtype.category:
            raise errors.cannot_cast(dtypes[0], target.dtype)
        shape = broadcast_shape(*[t.shape for t in tensors])
        if shape != target.shape:
            raise RuntimeError(
                f"output with shape {list(target.shape)} doesn't match the broadcast shape "
                f"{list(shape)}"
            )
        recording = modes.grad and any(values[k]._requires_grad for k in variant.differentiable)
        if recording or (modes.grad and target._requires_grad):
            views.check_inplace(target)
        if self.op.name != "fill":  # every element gets the same
            check_overlap(target, tensors)
        self.write(variant, values, target, recording)
        if not recording and modes.grad and target._requires_grad:
            views.rebase(target, _flat_node(self.op, target))
        return target

    def write(self, variant, values, target, recording):
        """The write itself, after all checks."""
        node = self.record_inplace(variant, values, target) if recording else None
        variant.family.run_into((target,), values)
        target._storage.version += 1
        if node is not None:
            for k, item in enumerate(node.saved):
                if (
                    type(item) is SavedOutput
                    and item.storage is target._storage
                    and variant.saved_names[k] == "out"
                ):
                    item.version = target._storage.version
            views.rebase(target, node)
        return target

    def resolve(self, bound):
        """(calls, variant, its arguments) for bound arguments, or None if a row changed them."""
        values = tuple(bound.values())
        target, found = self._prepared(bound)
        if any(a is not b for a, b in zip(values, bound.values())):
            return None
        options = target.op.options
        if target is not self and {"prepare", "check", "overload"} & options.keys():
            return None
        return target, *target.choose(found)

    def record_inplace(self, variant, values, target):
        """The node of an in-place call, made before the memory changes."""
        shadow = make_tensor(target._layout, target._storage, target._offset)
        node = variant.record(shadow, *values)
        if self.op.params[0].name in variant.saved_names:
            keep_original(node, target)
        return node


class FlatNode(Node):
    """History of a write whose result does not depend smoothly on anything (x.eq_(y))."""

    __slots__ = ("layout",)

    def apply(self, grads, create_graph):
        return (grads[0].new_zeros(self.layout.shape),)


def _flat_node(op, target):
    node = object.__new__(type(f"{op.name.title()}Backward0", (FlatNode,), {"__slots__": ()}))
    node.layout = target._layout
    return init_node(node, (edge_of(target),), ())


def keep_original(node, target):
    """Where a node saved the tensor that is about to be written, let it keep a copy.

    As in PyTorch only its own place is saved this way: x.mul_(x) still fails in backward.
    """
    for k, (name, item) in enumerate(zip(node.saved_names, node.saved)):
        if name in ("input", "self") and type(item) is SavedInput and item.tensor is target:
            original = SavedInput(target.clone())
            node.saved = (*node.saved[:k], original, *node.saved[k + 1 :])


def check_overlap(target, tensors):
    """Refuse writes that would be read again, or that hit one element twice."""
    if overlaps_itself(target._layout):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )
    for t in tensors:
        if t is target or t._storage.pointer != target._storage.pointer:
            continue
        if t._offset == target._offset and t._layout is target._layout:
            continue
        # as PyTorch: gaps make the question too hard, and then nobody complains
        if (
            is_dense_in_some_order(t._layout)
            and is_dense_in_some_order(target._layout)
            and ranges_meet(t, target)
        ):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to "
                "tensor refer to a single memory location. Please clone() the tensor before "
                "performing the operation."
            )


def ranges_meet(a, b):
    """May two tensors in the same storage share an element?"""
    if a._layout.numel == 0 or b._layout.numel == 0:
        return False
    low_a, low_b = a._offset, b._offset
    high_a = low_a + span(a._layout) * a._layout.itemsize
    high_b = low_b + span(b._layout) * b._layout.itemsize
    if high_a <= low_b or high_b <= low_a:
        return False
    # walks over the same rows side by side (x[:, 0] and x[:, 1]) need not share an element
    if a._layout.strides == b._layout.strides and a._layout.shape == b._layout.shape:
        return not _interleaved(a, b)
    return True


def _interleaved(a, b):
    difference = abs(a._offset - b._offset) // a._layout.itemsize
    inner = min(
        (abs(s) for s, n in zip(a._layout.strides, a._layout.shape) if n > 1 and s), default=0
    )
    return inner > 0 and difference % inner != 0


def _signature(op):
    """Text of a public signature, with defaults by reference, and the names for its scope."""
    parts, scope, starred = [], {}, False
    for p in op.params:
        if p.keyword_only and not starred:
            parts.append("*")
            starred = True
        if p.default is REQUIRED:
            parts.append(p.name)
        else:
            scope[f"_d_{p.name}"] = p.default
            parts.append(f"{p.name}=_d_{p.name}")
    if "out" in op.variants:
        parts.append("out=None" if starred else "*, out=None")
    return ", ".join(parts), scope


def pointwise_function(op):
    """The public function of a pointwise row."""
    calls = op.runtime = PointwiseCalls(op)
    routes = Routes(op, calls.call, calls.resolve)
    ts = [p for p in op.params if p.kind == "tensor"]
    folded = [p for p in op.params if p.kind in ("static", "scalar")]
    numbers = op.options.get("numbers", True)
    if (
        any(p.kind == "optional" for p in op.params)
        or "prepare" in op.options
        or any(p.default is REQUIRED for p in folded)
        or (len(ts) > 2 and numbers and "family" not in op.options)
    ):
        function = routes.front(op.name)
    else:
        function = _direct(op, calls, routes, ts, folded, numbers)
    function.__doc__, function.__module__ = op.doc, "flambeau"
    calls.function = function
    return function


def _direct(op, calls, routes, ts, folded, numbers):
    """A function with the hot path of its most usual call inside; other calls have routes."""
    signature, scope = _signature(op)
    out = "out" in op.variants
    conditions = ["out is not None"] if out else []
    conditions += [f"{p.name} is not _d_{p.name}" for p in folded]
    conditions += [
        f"{p.name} is None" for p in op.params if p.kind in ("float", "int") and p.default is None
    ]
    statics = tuple((p.name, p.default) for p in folded)
    letters = {"tensor": "t", "float": "f", "int": "i"}
    moving = [p for p in op.params if p.kind in letters]
    pattern = "".join(letters[p.kind] for p in moving)
    head = ""
    if conditions:
        head = f"    if {' or '.join(conditions)}:\n" + routes.dispatch_text(" " * 8, out=out)
    if len(ts) == 2 and pattern.startswith("tt") and numbers:
        head += f"    if type({ts[1].name}) in SCALARS and isinstance({ts[0].name}, Tensor):\n"
        head += f"        return with_number({', '.join(p.name for p in moving)})\n"
        scope["with_number"] = calls.variant(pattern.replace("tt", "ts", 1), statics).run
    variant = calls.variant(pattern, statics)
    return variant.family.compile_run(
        [p.name for p in moving],
        variant.record,
        variant.differentiable,
        name=op.name,
        signature=signature,
        head=head,
        fallback=f"return routed({', '.join(p.name for p in op.params)})",
        extra={**scope, **routes.scope(), "routed": routes.routed(), "SCALARS": SCALARS},
    )


def pointwise_operator(op, name, swapped=False):
    """__add__ and the like: the hot path without keywords; NotImplemented for strangers."""
    calls = op.runtime
    statics = tuple((p.name, p.default) for p in op.params if p.kind in ("static", "scalar"))
    variant = calls.variant("tt", statics)
    number = calls.variant("ts", statics).run

    def slow(input, other):
        if not isinstance(other, Tensor):
            number = as_number(other)
            if number is None:
                # NumPy leaves comparisons to us and Python would then compare identities
                if op.name != "eq" or not hasattr(other, "__array_interface__"):
                    return NotImplemented
                number = public("as_tensor")(other)
            other = number
        if swapped and not isinstance(other, Tensor):
            return calls.function(other, input) if op.first_scalar else NotImplemented
        return calls.function(input, other)

    head = (
        "    if type(other) in SCALARS:\n        return with_number(input, other)\n"
        if not swapped
        else ""
    )
    return variant.family.compile_run(
        ["input", "other"],
        variant.record,
        variant.differentiable,
        name=name,
        head=head,
        fallback="return slow(input, other)",
        extra={"with_number": number, "slow": slow},
    )


def pointwise_inplace(op):
    """op_: a short path for two operands when nothing is recorded; other calls have routes."""
    routes = _inplace_routes(op)
    name = op.name + "_"
    kinds = [p.kind for p in op.params if p.kind not in ("scalar", "static")]
    unsettled = {"prepare", "check"} & op.options.keys() and not op.options.get("settled")
    if kinds != ["tensor", "tensor"] or op.error is not None or unsettled:
        function = routes.front(name)
    else:
        function = _direct_inplace(op, routes, name)
    function.__doc__, function.__module__ = op.doc, "flambeau"
    return function


def _inplace_routes(op):
    calls = op.runtime
    routes = Routes(op, calls.inplace, calls.resolve, True, check_overlap)
    row = op.options.get("inplace_row")
    if row is not None:
        if TABLE[row].runtime is None:
            pointwise_function(TABLE[row])
        routes.on_target = _inplace_routes(TABLE[row]).routed()
    return routes


def _direct_inplace(op, routes, name):
    calls = op.runtime
    statics = tuple((p.name, p.default) for p in op.params if p.kind in ("static", "scalar"))
    input, other, *rest = [p.name for p in op.params]
    signature = f"{input}, {other}" + "".join(
        f", {'*, ' if k == 0 else ''}{n}=_d_{n}" for k, n in enumerate(rest)
    )
    guard = ""
    if rest:
        conditions = " or ".join(f"{n} is not _d_{n}" for n in rest)
        guard = f"    if {conditions}:\n" + routes.dispatch_text(" " * 8)
    routed = f"return routed({', '.join((input, other, *rest))})"
    text = f"""def {name}({signature}):
{guard}    if {input}._requires_grad and modes.grad:
        {routed}
    st = {input}._storage
    p = st.pointer + {input}._offset
    if type({other}) in SCALARS:
        found = number_plans.get(({input}._layout, type({other}), {input}._layout))
        if found is None:
            {routed}
        found[0](found[1], p, p, {other})
    else:
        if not isinstance({other}, Tensor) or ({other}._requires_grad and modes.grad):
            {routed}
        if {other}._storage.pointer == st.pointer:
            {routed}
        found = plans.get(({input}._layout, {other}._layout, {input}._layout))
        if found is None:
            {routed}
        found[0](found[1], p, p, {other}._storage.pointer + {other}._offset)
    st.version += 1
    return {input}
"""
    scope = routes.scope() | {
        "SCALARS": SCALARS,
        "Tensor": Tensor,
        "modes": modes,
        "routed": routes.routed(),
        "plans": calls.variant("tt", statics).family.inplace_plans,
        "number_plans": calls.variant("ts", statics).family.inplace_plans,
    }
    return compile_text(text, scope, f"{op.name} inplace")[name]


# -- other kinds -----------------------------------------------------------------------------------


def call_row(op, bound):
    """Run a template or composite on bound arguments and record it."""
    run = LAUNCHERS[op.template] if op.kind == "template" else None
    recording = wants_grad(op, bound)
    if run is None:
        if not recording:
            return op.body(**bound)
        previous, modes.grad = modes.grad, False
        try:
            result = op.body(**bound)
        finally:
            modes.grad = previous
    else:
        result = run(*bound.values())
    if recording:
        results = result if isinstance(result, (tuple, list)) else (result,)
        record_formula(op, bound, results)
    return result


def row_function(op):
    """The public function of a template or composite."""

    def function(*args, out=None, **kwargs):
        bound = bind(op, args, kwargs)
        result = call_row(op, bound)
        if out is not None:
            if wants_grad(op, bound):
                raise errors.out_requires_grad(op.name)
            store_out(op, out, result if isinstance(result, tuple) else (result,))
            if not isinstance(out, Tensor):
                return tuple(out) if type(result) is tuple else type(result)(out)
            return out
        return result

    if (
        op.kind == "composite"
        and not op.grads
        and op.joint_grad is None
        and not op.options.get("bind")
    ):
        function = _composite_function(op)
    if op.template in FRONTS:
        function = FRONTS[op.template](op, function)
    elif op.kind == "template":
        function = quick_function(
            op, LAUNCHERS[op.template], function, lambda bound: call_row(op, bound)
        )
    if function is not op.body:
        function.__name__ = function.__qualname__ = op.name
        function.__doc__, function.__module__ = op.doc, "flambeau"
    return function


def _composite_function(op):
    """Composites without a derivative of their own: the body is the function."""
    body, varargs = op.body, op.options.get("varargs")
    names = [p.name for p in op.params]
    if body.__code__.co_flags & 4:  # *operands: nothing to bind
        return body

    def general(*args, out=None, **kwargs):
        if varargs:
            args = _pack_rest(op, args)
        if kwargs:
            kwargs = {n if n in names else KEYWORDS.get(n, n): v for n, v in kwargs.items()}
        if len(args) + len(kwargs) < len(names) or kwargs or len(args) > len(names):
            bind(op, args, kwargs)  # for its complaints
        if (
            args
            and op.params[0].kind == "tensor"
            and not isinstance(args[0], Tensor)
            and not op.first_scalar
        ):
            raise type_error(op, names[0], 1, args[0])
        result = body(*args, **kwargs)
        if out is None:
            return result
        return store_out(op, out, result if isinstance(result, tuple) else (result,))

    general.__name__ = general.__qualname__ = op.name
    return general if varargs else quick_function(op, body, general)


def row_inplace(op):
    """op_ for rows that are not pointwise.

    If there is a launcher called name_, it writes in place; else the result is copied back.
    """
    write = LAUNCHERS.get(f"{op.template}_")

    def function(input, *args, **kwargs):
        bound = bind(op, (input, *args), kwargs)
        if write is not None:
            return write(op, bound)
        recording = bool(op.grads) and wants_grad(op, bound)
        if recording:
            views.check_inplace(input)
        result = call_row(op, bound)
        node = result._grad_fn
        if (
            not recording
            or node is None
            or result.dtype is not input.dtype
            or result.shape != input.shape
        ):
            return input.copy_(result)
        keep_original(node, input)
        input.detach().copy_(result.detach())
        views.rebase(input, node)
        return input

    function.__name__ = function.__qualname__ = op.name + "_"
    function.__doc__, function.__module__ = op.doc, "flambeau"
    return function
