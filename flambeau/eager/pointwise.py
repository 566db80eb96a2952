"""Public functions of pointwise rows: function, operator, in-place form and out=.

All are signatures over the same plans (call.py). The text of a function holds the hot path of its
most usual call; any other call is recognised by the types of its arguments, its static values and
which numbers are at defaults that kernels fold. What such a call comes to is resolved once
(`Pointwise.resolve`) and kept as a route, which is again a hot path, over the plans of its variant.
"""

from functools import partial, reduce

from flambeau import errors
from flambeau._dtype import (
    FLOATING,
    bfloat16,
    check_fill,
    check_fits,
    float16,
    float32,
    int64,
    promote_types,
)
from flambeau._layout import broadcast_shape, overlaps_itself
from flambeau._tensor import Tensor, make_tensor
from flambeau.autograd import views
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import SavedInput, SavedOutput
from flambeau.eager import flat
from flambeau.eager.binding import as_number, bind, check_out, take_out
from flambeau.eager.call import addresses, alike_text, fresh_text, guarded, key_text
from flambeau.eager.fragments import SCALARS, compile_text, indented
from flambeau.eager.overlaps import check_overlap, ranges_meet
from flambeau.eager.plans import Plans
from flambeau.eager.variants import Variant
from flambeau.interposing.overriding import notice, speakers, tried_again
from flambeau.ops.table import REQUIRED, TABLE, public

_NOTHING = type(None)
_SCALAR_FORMS = (
    "Tensor input, Tensor other, *, Tensor out = None",
    "Number self, Tensor other",
    "Tensor input, Number other, *, Tensor out = None",
)
_FOUND = "Found dtype {got.scalar_name} but expected {wanted.scalar_name}"
_ROUTABLE = {  # types of arguments that a route may be known by
    "tensor": SCALARS,
    "optional": SCALARS | {_NOTHING},
    "float": SCALARS | {_NOTHING},
    "int": frozenset((int, _NOTHING)),
    "scalar": SCALARS | {_NOTHING},
    "static": frozenset((str, bool, int, float, _NOTHING)),
}
_LETTERS = {"float": "f", "int": "i", "scalar": "n"}


def calls_of(op):
    """The Pointwise of a row."""
    if op.runtime is None:
        op.runtime = Pointwise(op)
    return op.runtime


class Pointwise:
    """One pointwise row: from bound arguments to a variant, and the variants there are."""

    def __init__(self, op):
        self.op = op
        self.variants = {}
        self.defaults = tuple(
            (p.name, p.default) for p in op.params if p.kind in ("static", "scalar")
        )

    def variant(self, pattern, statics=None):
        """The row for a pattern of arguments; statics: what is not among them."""
        if statics is None:
            statics = self.defaults
        key = pattern, statics, tuple([type(v) for _, v in statics])  # 1 is not 1.0
        found = self.variants.get(key)
        if found is None:
            found = self.variants[key] = Variant(self.op, pattern, statics)
        return found

    def resolve(self, bound):
        """(calls, variant, its arguments) for bound arguments; rows may send them elsewhere."""
        options = self.op.options
        if "prepare" in options:
            options["prepare"](bound)
        if "check" in options:
            options["check"](bound)
        name = options["overload"](bound) if "overload" in options else None
        if name is not None:
            return calls_of(TABLE[name]).resolve(
                {p.name: bound[p.name] for p in TABLE[name].params}
            )
        fits = options.get("fits")
        for p in self.op.params:
            value = bound[p.name]
            if (p.kind == "scalar" and value is not p.default) or (fits and _is_number(value)):
                tensors = [v for v in bound.values() if isinstance(v, Tensor)]
                floats = any(t.dtype.category >= FLOATING for t in tensors)
                if self.op.name == "fill":
                    check_fill(value, tensors[0].dtype)
                elif type(value) is not float or floats:
                    exact = bool(options.get("exact_numbers"))
                    check_number(value, *tensors, exact=exact)  # of others rows complain
        return self, *self._choose(bound)

    def _choose(self, bound):
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
                pattern += _LETTERS[p.kind]
            values.append(value)
        if "t" not in pattern:
            if self.op.options.get("number_pairs"):
                for value in values:
                    if type(value) is int:
                        check_fits(value, int64)
                first = self.op.params[0].name
                return self._choose({**bound, first: public("tensor")(bound[first])})
            raise TypeError(
                f"{self.op.name}(): at least one argument must be Tensor, not "
                f"{type(values[0]).__name__}"
            )
        variant = self.variant(pattern, tuple(statics))
        if int in map(type, values):
            values = variant.family.fitted(values)
        return variant, values

    # -- into fresh tensors, and into given ones ---------------------------------------------------
    def run(self, variant, values):
        """The call itself, for any types of numbers."""
        if complex not in map(type, values):
            return variant.run(*values)
        outs = variant.family.run_any(values)
        if modes.grad and any(values[k]._requires_grad for k in variant.differentiable):
            variant.record(*outs, *values)
        return outs[0] if len(outs) == 1 else outs

    def into(self, variant, values, out, learn):
        """The results into out. learn: called with the family if nothing was in the way."""
        outs = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        if modes.grad and any(values[k]._requires_grad for k in variant.differentiable):
            raise errors.out_requires_grad(self.op.name)
        operands, refusal = variant.family.operands(values), None
        try:
            _, dtypes = variant._types(operands)
        except NotImplementedError as error:  # that there is no kernel is said last
            (_, dtypes), refusal = variant.promoted(operands), error
        tensors = [v for v in values if isinstance(v, Tensor)]
        shape = broadcast_shape(*[t.shape for t in tensors])
        meeting = False
        for o, d in zip(outs, dtypes):
            exact = self.op.options.get("exact_out")
            if exact and o.dtype is not d:
                given = tensors[0].dtype
                # sizes of complex numbers go into real numbers, or among numbers of their kind
                wanted = given if d.category == FLOATING and given.is_complex else d
                if wanted is d or (o.dtype.is_complex and o.dtype is not given):
                    raise errors.not_exact_out(wanted, o.dtype, _FOUND if exact is True else exact)
            check_overlap(o, tensors)  # as it is given, before it gets another size
            resized = o.shape != shape
            check_out(self.op, o, shape, d)
            meeting |= resized and any(_share(o, t) for t in tensors)
            # what is wider would show digits that a result of the op's own dtype does not have
            meeting |= o.dtype is not d and d.category >= FLOATING
        if refusal is not None:
            raise refusal
        if meeting:  # operands must not change while they are read
            for o, result in zip(outs, variant.family.run_any(values)):
                o.copy_(result)
            return out
        variant.family.run_into(outs, values)
        for o in outs:
            o._storage.version += 1
        learn(variant.family, values, out)
        return out

    # -- in place ----------------------------------------------------------------------------------
    def write(self, variant, values, target):
        """target becomes the result; in the general case, which may be recorded."""
        recording = modes.grad and any(values[k]._requires_grad for k in variant.differentiable)
        wanted = modes.grad and target._requires_grad and not self.op.options.get("loose")
        if recording or wanted:
            views.check_inplace(target)
        family = variant.family
        kernel, desc = family.into[(*family.key_of(values), target._layout)]
        tensors = [v for v in values if isinstance(v, Tensor)]
        check_overlap(target, tensors, not self.op.options.get("overlapping"))
        if self.op.options.get("sparing") and overlaps_itself(target._layout):
            return _fill_places(*values)
        node = self._record_write(variant, values, target) if recording else None
        place = target._storage.pointer + target._offset
        count = target._layout.numel
        if kernel(desc, place, *family.native_arguments(values), count) is not None:
            family.fail()
        target._storage.version += 1
        if node is not None:
            for name, item in zip(variant.saved_names, node.saved):
                if type(item) is SavedOutput and name == "out" and item.storage is target._storage:
                    item.version = target._storage.version  # saved before it was written
            views.rebase(target, node)
        elif wanted:
            views.rebase(target, flat.written(self.op, target))
        return target

    def _record_write(self, variant, values, target):
        """The node of an in-place call, made before the memory changes."""
        shadow = make_tensor(target._layout, target._storage, target._offset)
        node = variant.record(shadow, *values)
        if self.op.params[0].name in variant.saved_names:
            keep_original(node, target)
        return node


def _fill_places(target, mask, value):
    """masked_fill_ where elements share memory: those that the mask leaves out are not written."""
    value = value if isinstance(value, Tensor) else target.new_full((), value)
    places = mask.expand(target.shape).nonzero().unbind(1)
    return public("index_put_")(target, places, value.to(target.dtype))


def _share(a, b):
    return a._storage is b._storage and ranges_meet(a, b)


def keep_original(node, target):
    """Where a node saved the tensor that is about to be written, let it keep a copy.

    As in PyTorch only its own place is saved this way: x.mul_(x) still fails in backward.
    """
    for k, (name, item) in enumerate(zip(node.saved_names, node.saved)):
        if name in ("input", "self") and type(item) is SavedInput and item.tensor is target:
            original = SavedInput(target.clone())
            node.saved = (*node.saved[:k], original, *node.saved[k + 1 :])


# -- routes ----------------------------------------------------------------------------------------


def _folds(p):
    """Does a kernel for this parameter's default have it as a constant?"""
    return p.kind == "scalar" and p.default is not REQUIRED and p.default is not None


class Routes:
    """What calls of one row come to, out of place or in place, by the types of their arguments."""

    def __init__(self, op, inplace=False, is_operator=False):
        self.op, self.calls, self.inplace = op, calls_of(op), inplace
        self.is_operator = is_operator
        self.names = [p.name for p in op.params]
        self.known = Plans(lambda key: None)  # what is seen of a call -> run of its route
        self.into = Plans(
            lambda key: None, mixed=True
        )  # layouts of operands and of out= -> how it is run
        self.built: dict = {}  # what it comes to -> the same
        options = op.options
        self.checks = [options[n] for n in ("prepare", "check") if n in options]
        if options.get("settled"):
            self.checks = []
        self.routable = not ("prepare" in options and "overload" in options)
        row = options.get("inplace_row") if inplace else None
        # in place: some rows have another for targets that need a gradient, whose derivative is
        # written in terms of the result
        self.on_target = Routes(TABLE[row], True) if row else None

    # -- text of fronts --------------------------------------------------------------------------
    def _key_text(self):
        parts = []
        for p in self.op.params:
            parts.append(p.name if p.kind == "static" else f"type({p.name})")
            if _has_twins(p):
                parts.append(f"type({p.name})")
            if _folds(p):
                parts.append(f"{p.name} == _d_{p.name}")
        return ", ".join(parts)

    def scope(self):
        return {
            "_routes": self.known,
            "_unusual": self.unusual,
            **{f"_d_{p.name}": p.default for p in self.op.params},
        }

    def dispatch_text(self, pad, extra="", out=False):
        """Lines that leave by the route of a call, or by the slow path. extra: more conditions."""
        values = ", ".join(self.names)
        return "".join(
            pad + line + "\n"
            for line in (
                "try:",
                f"    _route = _routes[{self._key_text()}]",
                "except TypeError:",
                "    _route = None",
                f"if _route is None{extra}{' or out is not None' if out else ''}:",
                f"    return _unusual(({values},){', rest' if extra else ''}"
                f"{', kwargs' if 'kwargs' in extra else ''}"
                f"{', out=out' if out else ''})",
                f"return _route({values})",
            )
        )

    def front(self, name):
        """The public function: any call, first recognised, then sent along its route."""
        parts, starred = [], False
        for p in self.op.params:
            if p.keyword_only and not starred:
                parts.append("*rest")
                starred = True
            parts.append(f"{p.name}=_d_{p.name}")
        parts += [] if starred else ["*rest"]
        parts += [] if self.inplace else ["out=None"]
        text = f"def {name}({', '.join(parts)}, **kwargs):\n"
        text += self.dispatch_text("    ", " or rest or kwargs", not self.inplace)
        return compile_text(text, self.scope(), name)[name]

    # -- the slow path, and learning from it -----------------------------------------------------
    def unusual(self, values, rest=(), kwargs=None, out=None):
        """A call without a route, and one that objects which are no tensors may answer."""
        if type(out) is Tensor and not rest and not kwargs and self._ran_into(values, out):
            return out
        try:
            return self._unusual(values, rest, kwargs, out)
        except TypeError:
            if self.is_operator and _is_strange(values[1]):
                return NotImplemented
            function = public(self.op.name + "_" * self.inplace)
            given = {p.name: v for p, v in zip(self.op.params, values) if v is not REQUIRED}
            named = {**given, **(kwargs or {}), **({} if out is None else {"out": out})}
            return tried_again(function, self.op, rest, named)

    def _unusual(self, values, rest, kwargs, out):
        """Bind, check and run; remember where that led, if types say it."""
        params, op = self.op.params, self.op
        count = 0
        while (
            count < len(params) and not params[count].keyword_only and values[count] is not REQUIRED
        ):
            count += 1
        given = {p.name: v for p, v in zip(params[count:], values[count:]) if v is not p.default}
        alone = op.options.get("alone")
        if alone and count == 1 and isinstance(values[0], Tensor) and not (given or rest or kwargs):
            return alone(values[0])
        ending = "_" * self.inplace
        bound = bind(op, (*values[:count], *rest), {**given, **(kwargs or {})}, ending)
        if self.inplace:
            return self._write(values, bound, learns=not rest and not kwargs)
        before = tuple(bound.values())
        calls, variant, arguments = self.calls.resolve(bound)
        if out is not None:
            take_out(op, out)
            if op.first_scalar == "fresh" and not isinstance(arguments[0], Tensor):
                raise errors.combination(op.name, arguments, _SCALAR_FORMS, out=out)
            return calls.into(variant, arguments, out, partial(self._learn_into, values))
        result = calls.run(variant, arguments)
        same = all(a is b for a, b in zip(before, bound.values()))
        if not rest and not kwargs and same:
            self._learn(values, calls, variant)
        return result

    # -- out= ------------------------------------------------------------------------------------
    def _ran_into(self, values, out):
        """Was it a call with out= that layouts tell all about, and is it done?"""
        layout, storage, offset = out._layout, out._storage, out._offset
        wanted = out._requires_grad
        key, places = [layout], []
        for p, v in zip(self.op.params, values):
            if type(v) is Tensor:
                own = v._storage
                if own is storage and (v._layout is not layout or v._offset != offset):
                    return False  # it may be written while it is read
                wanted = wanted or v._requires_grad
                key.append(v._layout)
                places.append(own.pointer + v._offset)
            elif v is p.default:
                key.append(None)
            else:
                return False
        found = self.into[tuple(key)]
        if found is None or (wanted and modes.grad):
            return False
        kernel, description, family = found
        if kernel(description, storage.pointer + offset, *places, layout.numel) is not None:
            family.fail()
        storage.version += 1
        return True

    def _learn_into(self, values, family, arguments, out):
        """Remember a call of tensors alone that has just written to out=."""
        tensors = [id(v) for v in values if type(v) is Tensor]
        plain = all(type(v) is Tensor or v is p.default for p, v in zip(self.op.params, values))
        # in the order in which they were given, which two of the same would not show
        ordered = tensors == [id(a) for a in arguments] and len(set(tensors)) == len(tensors)
        if self.checks or type(out) is not Tensor or not plain or not ordered:
            return
        kernel, description = family.into[(*family.key_of(arguments), out._layout)]
        key = [None if type(v) is not Tensor else v._layout for v in values]
        self.into[(out._layout, *key)] = kernel, description, family

    # -- in place --------------------------------------------------------------------------------
    def _write(self, values, bound, learns=True):
        target = values[0]
        if self.on_target is not None and modes.grad and target._requires_grad:
            return self.on_target._write(values, bound, learns)
        before = tuple(bound.values())
        calls, variant, arguments = self.calls.resolve(bound)
        calls.write(variant, arguments, target)
        if learns and all(a is b for a, b in zip(before, bound.values())):
            self._learn(values, calls, variant)
        return target

    def _learn(self, values, calls, variant):
        """Make the route of a call that has just succeeded."""
        if not self.routable or (calls is not self.calls and _looks(calls.op)):
            return
        if not self.inplace and variant.pattern == "ts" and "fold" in calls.op.options:
            return  # some values of the number have kernels of their own
        key = []
        for p, v in zip(self.op.params, values):
            if type(v) not in _ROUTABLE[p.kind] and (
                p.kind not in ("tensor", "optional") or not isinstance(v, Tensor)
            ):
                return
            key.append(v if p.kind == "static" else type(v))
            if _has_twins(p):
                key.append(type(v))
            if _folds(p):
                key.append(v == p.default)
        types = tuple(Tensor if isinstance(v, Tensor) else type(v) for v in values)
        mark = (calls.op.name, variant.pattern, variant.statics, types)
        run = self.built.get(mark)
        if run is None:
            run = self.built[mark] = self._build(calls, variant, values)
        self.known[tuple(key) if len(key) > 1 else key[0]] = run

    # -- text of routes --------------------------------------------------------------------------
    def _guards(self, values):
        known = list(zip(self.op.params, values))
        tensors = ", ".join(p.name for p, v in known if isinstance(v, Tensor))
        fits = self.op.options.get("fits")
        numbers = [(p.name, type(v)) for p, v in known if p.kind == "scalar" or fits]
        unusual = f"return unusual(({', '.join(self.names)},))"
        return "".join(guard_text(name, kind, tensors, unusual) for name, kind in numbers)

    def _build(self, calls, variant, values):
        names = ", ".join(self.names)
        text = f"def run({names}):\n"
        for p, v in zip(self.op.params, values):
            if p.kind == "float" and type(v) in (int, bool):
                text += f"    {p.name} = float({p.name})\n"
        text += self._guards(values)
        for k in range(len(self.checks)):
            bound = ", ".join(f"'{n}': {n}" for n in self.names)
            text += f"    bound = {{{bound}}}\n    check{k}(bound)\n"
        if self.checks and "prepare" in self.op.options:
            same = " and ".join(f"bound['{n}'] is {n}" for n in self.names)
            text += f"    if not ({same}):\n        return unusual(({names},))\n"
        unusual = f"return unusual(({names},))"
        if self.inplace:
            text += written_text(variant, unusual, self.names[0])
        else:
            text += fresh_text(variant.family, variant.names, variant.differentiable, unusual)
        scope = {"unusual": self.unusual, **fresh_scope(variant), **write_scope(variant)}
        scope |= {f"check{k}": check for k, check in enumerate(self.checks)}
        scope["is_large"] = is_large
        form = "_ route" if self.inplace else " route"
        return compile_text(text, scope, f"{self.op.name}{form} {variant.pattern}")["run"]


def check_number(value, *tensors, exact=False):
    """Complain about a number that the dtype of the tensors cannot hold.

    exact: is it not rounded to half types?
    """
    if value is None or not tensors:
        return
    dtype = reduce(promote_types, [t._layout.dtype for t in tensors])
    check_fits(value, float32 if exact and dtype in (float16, bfloat16) else dtype)


def is_large(value, *tensors):
    """Is this a number that the dtype of the tensors cannot hold?"""
    try:
        check_number(value, *tensors)
    except RuntimeError:
        return True
    return False


def _is_number(value):
    return isinstance(value, (int, float, complex))


def guard_text(name, kind, tensors, otherwise):
    """Lines that leave where a number is too large; one that fits every dtype costs a look."""
    if kind not in (int, float):
        return ""
    within = f"{kind(-128)} <= {name} <= {kind(127)}"
    if kind is float and tensors:  # below zero nothing fits an unsigned dtype
        first = tensors.partition(",")[0]
        within = f"({within} and ({name} >= 0.0 or {first}._layout.dtype.is_signed))"
    return f"    if not {within} and is_large({name}, {tensors}):\n        {otherwise}\n"


def _has_twins(p):
    """Is this a static parameter whose values equal others in dictionaries, as 1 does True?"""
    return p.kind == "static" and p.wants in ("int", "bool")


def _looks(op):
    """Does a row look at the values of its arguments?"""
    return {"prepare", "check", "overload"} & op.options.keys()


def fresh_scope(variant):
    family = variant.family
    return {
        "plans": family.plans,
        "sorts": family.sorts,
        "record": variant.record,
        "fail": family.fail,
        "wide": lambda *args: variant.run(*family.fitted(args)),
    }


def write_scope(variant, suffix=""):
    return {
        f"targets{suffix}": variant.family.into,
        f"sorts{suffix}": variant.family.sorts,
        "fail": variant.family.fail,
        "check_overlap": check_overlap,
    }


def written_text(variant, recorded, target, suffix=""):
    """Lines of an in-place call: look-up, kernel, version. recorded: what to do if somebody
    differentiates it, and with integers beyond 64 bits.
    """
    tensors = [n for n, c in zip(variant.names, variant.pattern) if c == "t"]
    numbers = [n for n, c in zip(variant.names, variant.pattern) if c != "t"]
    wanted = " or ".join(f"{n}._requires_grad" for n in tensors)
    text = f"    if ({wanted}) and modes.grad:\n        {recorded}\n"
    key = key_text(variant.pattern, variant.names)
    look = alike_text(variant.pattern, variant.names)[1].replace("sorts", f"sorts{suffix}")
    text += f"    layout0 = {target}._layout\n"
    if variant.op.options.get("sparing"):  # see _fill_places
        text += f"    if not layout0.is_dense:\n        {recorded}\n"
    text += f"    found = {look}\n    if found is None:\n"
    text += f"        found = targets{suffix}[{key}, layout0]\n    kernel, desc = found\n"
    text += f"    st = {target}._storage\n    p = st.pointer + {target}._offset\n"
    for n in tensors if not variant.op.options.get("overlapping") else ():
        if n != target:
            text += f"    if {n}._storage.pointer == st.pointer and {n} is not {target}:\n"
            text += f"        check_overlap({target}, ({n},))\n"
    places = addresses(n for n in tensors if n != target)
    call = f"kernel(desc, p{', p' if target in tensors else ''}{places}"
    call += "".join(f", {n}" for n in numbers) + ", layout0.numel)"
    if variant.family.error is not None:
        call = f"    if {call} is not None:\n        fail()\n"
    else:
        call = f"    {call}\n"
    text += guarded(call, recorded) if numbers else call
    return text + f"    st.version += 1\n    return {target}\n"


# -- public functions ------------------------------------------------------------------------------


def _signature(op):
    """Text of a public signature, with defaults by reference, and the names for its scope."""
    parts, scope, starred = [], {}, False
    for p in op.params:
        if p.keyword_only and not starred:
            parts.append("*rest" if op.options.get("old_orders") else "*")
            starred = True
        if p.default is REQUIRED:
            parts.append(p.name)
        else:
            scope[f"_d_{p.name}"] = p.default
            parts.append(f"{p.name}=_d_{p.name}")
    if "out" in op.variants:
        parts.append("out=None" if starred else "*, out=None")
    return ", ".join(parts), scope


def _named(function, op):
    function.__doc__, function.__module__ = op.doc, "flambeau"
    return function


def pointwise_function(op):
    """The public function of a pointwise row."""
    calls, routes = calls_of(op), Routes(op)
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
    calls.function = _named(function, op)
    return function


def _fitting_text(op, name, tensor):
    """Lines that leave where a number may not lie within the dtype of a tensor."""
    values = "".join(p.name + ", " for p in op.params)
    known = next(p.default is not REQUIRED for p in op.params if p.name == name)
    given = f"{name} is not _d_{name} and " if known else ""
    outside = f"({name}.__class__ is complex or not -128.0 <= {name} <= 127.0)"
    large = f"isinstance({tensor}, Tensor) and is_large({name}, {tensor})"
    return f"    if {given}{outside} and {large}:\n        return _unusual(({values}))\n"


def _direct(op, calls, routes, ts, folded, numbers):
    """A function with the hot path of its most usual call inside; other calls have routes."""
    signature, scope = _signature(op)
    out = "out" in op.variants
    conditions = ["out is not None"] if out else []
    more = bool(op.options.get("old_orders"))
    conditions += ["rest"] if more else []
    conditions += [f"{p.name} is not _d_{p.name}" for p in folded]
    conditions += [
        f"{p.name} is None" for p in op.params if p.kind in ("float", "int") and p.default is None
    ]
    letters = {"tensor": "t", "float": "f", "int": "i"}
    moving = [p for p in op.params if p.kind in letters]
    pattern = "".join(letters[p.kind] for p in moving)
    head = ""
    if conditions:
        leave = routes.dispatch_text(" " * 8, " or rest" if more else "", out)
        head = f"    if {' or '.join(conditions)}:\n" + leave
    if len(ts) == 2 and pattern.startswith("tt") and numbers:
        head += f"    if type({ts[1].name}) in SCALARS and isinstance({ts[0].name}, Tensor):\n"
        if op.options.get("fits"):
            head += indented(_fitting_text(op, ts[1].name, ts[0].name))
        head += f"        return with_number({', '.join(p.name for p in moving)})\n"
        scope["with_number"] = calls.variant(pattern.replace("tt", "ts", 1)).run
    if op.options.get("fits"):
        for p in moving:
            if p.kind == "float":
                head += _fitting_text(op, p.name, ts[0].name)
        scope["is_large"] = is_large
    variant = calls.variant(pattern)
    return variant.family.compile_run(
        [p.name for p in moving],
        variant.record,
        variant.differentiable,
        name=op.name,
        title=op.name,
        signature=signature,
        head=head,
        miss=f"return _unusual(({''.join(p.name + ', ' for p in op.params)}))",
        extra={**scope, **routes.scope()},
    )


def pointwise_operator(op, name, swapped=False):
    """__add__ and the like: the hot path without keywords; NotImplemented for strangers."""
    calls = calls_of(op)
    variant = calls.variant("tt")

    def slow(input, other):
        if not isinstance(other, Tensor):
            number = as_number(other)
            if number is None:
                if notice(type(other)):
                    return getattr(Tensor, name)(input, other)
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
        title=f"{op.name} {name}",
        head=head,
        miss="return slow(input, other)",
        extra={"with_number": calls.variant("ts").run, "slow": slow},
    )


def _is_strange(other):
    """Is this an operand that only Python can find an answer for?"""
    return not isinstance(other, Tensor) and as_number(other) is None and not speakers([other])


def pointwise_inplace(op, operator=None):
    """op_: a short path for two operands when nothing is recorded; other calls have routes.

    As an operator, such as __iadd__, it gives NotImplemented for strangers.
    """
    routes = Routes(op, True, operator is not None)
    name = operator or op.name + "_"
    kinds = [p.kind for p in op.params if p.kind not in ("scalar", "static")]
    unsettled = {"prepare", "check"} & op.options.keys() and not op.options.get("settled")
    if kinds != ["tensor", "tensor"] or op.error is not None or unsettled:
        return _named(routes.front(name), op)
    return _named(_direct_inplace(op, routes, name), op)


def _direct_inplace(op, routes, name):
    calls = calls_of(op)
    target, other, *rest = [p.name for p in op.params]
    more = bool(op.options.get("old_orders"))
    star = "*rest, " if more else "*, "
    signature = f"{target}, {other}" + "".join(
        f", {star if k == 0 else ''}{n}=_d_{n}" for k, n in enumerate(rest)
    )
    text = f"def {name}({signature}):\n"
    if rest:
        conditions = " or ".join([*["rest"][:more], *(f"{n} is not _d_{n}" for n in rest)])
        text += f"    if {conditions}:\n"
        text += routes.dispatch_text(" " * 8, " or rest" if more else "")
    unusual = f"return _unusual(({', '.join((target, other, *rest))},))"
    with_tensor, with_number = calls.variant("tt"), calls.variant("ts")
    text += f"    if type({other}) in SCALARS:\n"
    if op.options.get("fits"):
        check = f"check_number({other}, {target})"
        if op.name == "fill":
            check = f"check_fill({other}, {target}._layout.dtype)"
        text += f"        if type({other}) is float:\n"
        text += indented(indented(guard_text(other, float, target, check)))
        text += f"        else:\n{indented(indented(guard_text(other, int, target, check)))}"
    text += indented(written_text(with_number, unusual, target, "_number"))
    text += f"    if not isinstance({other}, Tensor):\n        {unusual}\n"
    text += written_text(with_tensor, unusual, target)
    scope = {**routes.scope(), **write_scope(with_number, "_number"), **write_scope(with_tensor)}
    scope |= {"check_number": check_number, "check_fill": check_fill, "is_large": is_large}
    return compile_text(text, scope, name)[name]
