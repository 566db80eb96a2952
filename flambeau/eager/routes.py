"""Routes: what calls of a pointwise row with keywords or numbers come to, resolved once.

A call is recognised by the types of its arguments, its static values and which numbers are at the
defaults that kernels fold. The first such call takes the slow path of binding.py; what that chose
(the variant, the order of its arguments, the kernel per layouts) is kept as a route: generated
text that allocates, runs the kernel and records. Numbers stay arguments of kernels. As in call.py,
speed outranks prose in the generated text.
"""

from flambeau._dtype import Defaults
from flambeau._tensor import Tensor
from flambeau.autograd import views
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import SavedOutput
from flambeau.eager.call import ALLOCATE, SCALARS, compile_text
from flambeau.eager.plan import MAX_PLANS
from flambeau.ops.table import REQUIRED
from flambeau.storage import Storage

_NOTHING = type(None)
_STATIC = frozenset((str, bool, int, float, _NOTHING))
_NUMBERS = {
    "tensor": SCALARS,
    "optional": SCALARS | {_NOTHING},
    "float": SCALARS | {_NOTHING},
    "int": frozenset((int, _NOTHING)),
    "scalar": SCALARS | {_NOTHING},
    "static": _STATIC,
}


def _folds(p):
    """Does a kernel for this parameter's default have it as a constant?"""
    return p.kind == "scalar" and p.default is not REQUIRED and p.default is not None


class Routes:
    """The routes of one row, out of place or in place.

    slow: the general function, which binds and checks; resolve(bound) says which variant (of which
    calls) it would run, with what arguments; check_overlap is binding's.
    """

    def __init__(self, op, slow, resolve, inplace=False, check_overlap=None):
        self.op, self.slow, self.resolve = op, slow, resolve
        self.inplace, self.check_overlap = inplace, check_overlap
        self.names = [p.name for p in op.params]
        self.known: dict = {}  # what is seen of a call -> run of its route
        self.built: dict = {}  # what it comes to -> (run, plans)
        options = op.options
        self.checks = [options[n] for n in ("prepare", "check") if n in options]
        if options.get("settled"):
            self.checks = []
        self.routable = not (
            "family" in options or ("prepare" in options and "overload" in options)
        )
        self.on_target = None  # in place: what runs if the target itself needs a gradient

    # -- text of fronts --------------------------------------------------------------------------
    def key_text(self):
        parts = []
        for p in self.op.params:
            parts.append(p.name if p.kind == "static" else f"type({p.name})")
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
                f"    _route = _routes[{self.key_text()}]",
                "except (KeyError, TypeError):",
                "    _route = None",
                f"if _route is None{extra}{' or out is not None' if out else ''}:",
                f"    return _unusual(({values},){', rest, kwargs' if extra else ''}"
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
        return compile_text(text, self.scope(), f"{name} front")[name]

    def routed(self):
        """The same for a caller that has all arguments in order."""
        out = "" if self.inplace else ", out=None"
        text = f"def routed({', '.join(self.names)}{out}):\n"
        text += self.dispatch_text("    ", "", not self.inplace)
        return compile_text(text, self.scope(), f"{self.op.name} routed")["routed"]

    # -- the slow path, and learning from it -----------------------------------------------------
    def unusual(self, values, rest=(), kwargs=None, out=None):
        """A call without a route: bind, check and run; remember where that led, if types say it."""
        params = self.op.params
        count = 0
        while (
            count < len(params) and not params[count].keyword_only and values[count] is not REQUIRED
        ):
            count += 1
        given = {p.name: v for p, v in zip(params[count:], values[count:]) if v is not p.default}
        if out is not None:
            given["out"] = out
        alone = self.op.options.get("alone")
        if alone and count == 1 and isinstance(values[0], Tensor) and not (given or rest or kwargs):
            return alone(values[0])
        result = self.slow(*values[:count], *rest, **given, **(kwargs or {}))
        if out is None and not rest and not kwargs:
            self.learn(values)
        return result

    def learn(self, values):
        """Make or extend the route of a call that has just succeeded."""
        if not self.routable:
            return
        key = []
        for p, v in zip(self.op.params, values):
            if type(v) not in _NUMBERS[p.kind] and (
                p.kind not in ("tensor", "optional") or not isinstance(v, Tensor)
            ):
                return
            key.append(v if p.kind == "static" else type(v))
            if _folds(p):
                key.append(v == p.default)
        bound = dict(zip(self.names, map(_plain, self.op.params, values)))
        found = self.resolve(bound)
        if found is None:
            return
        calls, variant, arguments = found
        if not self.inplace and variant.pattern == "ts" and "fold" in calls.op.options:
            return  # some values of the number have kernels of their own
        types = tuple(Tensor if isinstance(v, Tensor) else type(v) for v in values)
        mark = (calls.op.name, variant.pattern, variant.statics, types)
        route = self.built.get(mark)
        if route is None:
            route = self.built[mark] = self._build(calls, variant, values)
        run, plans = route
        if len(self.known) > MAX_PLANS:
            self.known.clear()
        self.known[tuple(key) if len(key) > 1 else key[0]] = run
        family = variant.family
        full = family.key_of(arguments)
        if self.inplace:
            plan = family.inplace_plans.get((*full, values[0]._layout))
        else:
            plan = family.plans.get(full if len(full) > 1 else full[0])
        if plan is not None:
            if len(plans) > MAX_PLANS:
                plans.clear()
            layouts = tuple(a._layout for a, c in zip(arguments, variant.pattern) if c == "t")
            plans[layouts if len(layouts) > 1 else layouts[0]] = plan

    # -- text of routes --------------------------------------------------------------------------
    def _build(self, calls, variant, values):
        names = ", ".join(self.names)
        text = f"def run({names}):\n"
        for p, v in zip(self.op.params, values):
            if p.kind == "float" and type(v) in (int, bool):
                text += f"    {p.name} = float({p.name})\n"
        for k in range(len(self.checks)):
            bound = ", ".join(f"'{n}': {n}" for n in self.names)
            text += f"    bound = {{{bound}}}\n    check{k}(bound)\n"
        if self.checks and "prepare" in self.op.options:
            same = " and ".join(f"bound['{n}'] is {n}" for n in self.names)
            text += f"    if not ({same}):\n        return slow({names})\n"
        tensors = [n for n, c in zip(variant.names, variant.pattern) if c == "t"]
        layouts = ", ".join(f"{n}._layout" for n in tensors)
        look = f"    found = plans.get({f'({layouts})' if len(tensors) > 1 else layouts})\n"
        look += f"    if found is None:\n        return miss(({names},))\n"
        arguments = "".join(f", {n}._storage.pointer + {n}._offset" for n in tensors)
        arguments += "".join(f", {n}" for n, c in zip(variant.names, variant.pattern) if c != "t")
        if self.inplace:
            text += self._inplace_text(variant, tensors, look, arguments)
            text += self._recorded_text(variant, tensors, look, arguments)
        else:
            text += self._fresh_text(variant, look, arguments)
        plans: dict = {}
        Defaults.remembered.append(plans)
        space = {
            "plans": plans,
            "miss": self.unusual,
            "slow": self._by_name,
            "new": object.__new__,
            "Storage": Storage,
            "Tensor": Tensor,
            "modes": modes,
            "record": variant.record,
            "on_target": self.on_target,
            "check_inplace": views.check_inplace,
            "rebase": views.rebase,
            "SavedOutput": SavedOutput,
            "record_inplace": lambda target, *values: calls.record_inplace(variant, values, target),
            "check_overlap": self.check_overlap,
            "fail": variant.family.fail,
            **{f"check{k}": check for k, check in enumerate(self.checks)},
        }
        return compile_text(text, space, f"{self.op.name} route")["run"], plans

    def _by_name(self, *values):
        positional = [v for p, v in zip(self.op.params, values) if not p.keyword_only]
        return self.slow(
            *positional, **{p.name: v for p, v in zip(self.op.params, values) if p.keyword_only}
        )

    def _fresh_text(self, variant, look, arguments):
        outs = range(variant.op.outputs)
        text = look
        text += f"    {', '.join(f'layout{k}, pool{k}' for k in outs)}, kernel, desc = found\n"
        text += "".join(ALLOCATE.format(k=k) for k in outs)
        call = f"kernel(desc{''.join(f', p{k}' for k in outs)}{arguments})"
        if variant.family.error is not None:
            text += f"    if {call} is not None:\n        fail()\n"
        else:
            text += f"    {call}\n"
        results = ", ".join(f"out{k}" for k in outs)
        if variant.differentiable:
            wanted = " or ".join(
                f"{variant.names[k]}._requires_grad" for k in variant.differentiable
            )
            text += f"    if ({wanted}) and modes.grad:\n"
            text += f"        record({results}, {', '.join(variant.names)})\n"
        return text + f"    return {results}\n"

    def _inplace_text(self, variant, tensors, look, arguments):
        target, others = self.names[0], tensors[1:]
        wanted = " or ".join(f"{n}._requires_grad" for n in tensors)
        text = f"    if ({wanted}) and modes.grad:\n"
        text += f"        return recorded({', '.join(self.names)})\n"
        text += look + f"    st = {target}._storage\n"
        if self.op.name != "fill":
            for n in others:
                text += f"    if {n}._storage.pointer == st.pointer and {n} is not {target}:\n"
                text += f"        check_overlap({target}, ({n},))\n"
        call = f"found[0](found[1], st.pointer + {target}._offset{arguments})"
        if variant.family.error is not None:
            text += f"    if {call} is not None:\n        fail()\n"
        else:
            text += f"    {call}\n"
        return text + f"    st.version += 1\n    return {target}\n"

    def _recorded_text(self, variant, tensors, look, arguments):
        """An in-place call in grad mode: what depends on layouts alone is known to be fine."""
        names, target = ", ".join(self.names), self.names[0]
        text = f"def recorded({names}):\n"
        if self.on_target is not None:
            text += f"    if {target}._requires_grad:\n        return on_target({names})\n"
        wanted = [f"{variant.names[k]}._requires_grad" for k in variant.differentiable]
        text += f"    if not ({' or '.join(wanted) or 'False'}):\n        return slow({names})\n"
        text += look + f"    check_inplace({target})\n"
        if self.op.name != "fill":
            for n in tensors[1:]:
                text += f"    if {n} is not {target}:\n        check_overlap({target}, ({n},))\n"
        text += f"    node = record_inplace({target}, {', '.join(variant.names)})\n"
        call = f"found[0](found[1], {target}._storage.pointer + {target}._offset{arguments})"
        if variant.family.error is not None:
            text += f"    if {call} is not None:\n        fail()\n"
        else:
            text += f"    {call}\n"
        text += f"    {target}._storage.version += 1\n"
        for k, n in enumerate(variant.saved_names):
            if n == "out":  # saved before it was written
                text += f"    if type(node.saved[{k}]) is SavedOutput:\n"
                text += f"        node.saved[{k}].version = {target}._storage.version\n"
        return text + f"    rebase({target}, node)\n    return {target}\n"


def _plain(p, value):
    return float(value) if p.kind == "float" and type(value) in (int, bool) else value
