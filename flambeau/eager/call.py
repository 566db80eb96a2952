"""The hot path: arguments -> plan -> memory -> kernel.

In this file speed outranks prose. A `Family` is one computation for one pattern of arguments; its
`run` is generated from text, so that a call is a dictionary look-up, an allocation, a native call
and, if somebody wants gradients, a node (variants.py). Everything unusual (first call with new
layouts, keywords, numbers of odd types) leaves through `plan` or the slow path in binding.py.

Pattern letters, one per argument: t tensor; s number in place of a tensor (takes part in
promotion); n any other number (cast to the compute type); f float and i int parameters.
"""

import itertools
import linecache

from flambeau._dtype import Defaults
from flambeau._tensor import Tensor, empty_like_layout, pool_of
from flambeau.autograd.grad_mode import modes
from flambeau.codegen import scalar
from flambeau.eager.plan import MAX_PLANS, cast_value, plan_nest, scalar_kinds
from flambeau.storage import Storage

HALVES = ("f16", "bf16")

SCALARS = frozenset((bool, int, float))
_new = object.__new__
_count = 0


def compile_text(text, names, title):
    """exec generated source, visible to tracebacks and debuggers."""
    global _count
    _count += 1
    filename = f"<flambeau {title} {_count}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    exec(compile(text, filename, "exec"), names)
    return names


ALLOCATE = """
    try:
        p{k} = pool{k}.pop()
    except IndexError:
        p{k} = pool{k}.grow()
    st = new(Storage)
    st.pointer = p{k}
    st.give = pool{k}.give
    st.version = 0
    st.nbytes = layout{k}.nbytes
    out{k} = new(Tensor)
    out{k}._layout = layout{k}
    out{k}._storage = st
    out{k}._offset = 0
    out{k}._requires_grad = False
    out{k}._grad = out{k}._grad_fn = out{k}._view = out{k}._extra = None
    out{k}._output_nr = 0
"""


def _key(pattern, names):
    parts = [
        f"{n}._layout" if c == "t" else f"type({n})" for c, n in zip(pattern, names) if c in "tsn"
    ]
    return ", ".join(parts)


def _kernel_arguments(pattern, names):
    return "".join(
        f", {n}._storage.pointer + {n}._offset" for c, n in zip(pattern, names) if c == "t"
    ) + "".join(f", {n}" for c, n in zip(pattern, names) if c != "t")


def run_text(
    pattern,
    names,
    outputs,
    differentiable,
    checked,
    head="",
    name="run",
    signature=None,
    fallback=None,
):
    """Source of a family's run function.

    head: lines before the look-up; fallback: what a miss does.
    """
    outs = range(outputs)
    unpacked = ", ".join(f"layout{k}, pool{k}" for k in outs)
    text = f"def {name}({signature or ', '.join(names)}):\n{head}"
    # a miss must leave the except clause first, or every error below would be chained to a KeyError
    text += f"    try:\n        found = plans[{_key(pattern, names)}]\n"
    text += "    except (KeyError, AttributeError):\n        found = None\n"
    text += (
        f"    if found is None:\n        {fallback or 'found = plan(' + ', '.join(names) + ')'}\n"
    )
    text += f"    {unpacked}, kernel, desc = found\n"
    text += "".join(ALLOCATE.format(k=k) for k in outs)
    call = f"kernel(desc{''.join(f', p{k}' for k in outs)}{_kernel_arguments(pattern, names)})"
    text += f"    if {call} is not None:\n        fail()\n" if checked else f"    {call}\n"
    if differentiable:
        condition = " or ".join(f"{names[k]}._requires_grad" for k in differentiable)
        text += f"    if ({condition}) and modes.grad:\n"
        text += f"        record({', '.join(f'out{k}' for k in outs)}, {', '.join(names)})\n"
    return text + f"    return {', '.join(f'out{k}' for k in outs)}\n"


class Family:
    """Kernels of one computation for one pattern of arguments."""

    plan_nest = staticmethod(plan_nest)  # how layouts become a kernel; other kinds have their own

    def __init__(self, key, trace, pattern, types, outputs=1, error=None, promoting=True):
        self.key, self.trace, self.pattern = key, trace, pattern
        self.types, self.outputs = types, outputs
        self.plans, self.inplace_plans, self.keep = {}, {}, []
        Defaults.remembered += self.plans, self.inplace_plans
        self.error, self.promoting = error, promoting
        self.narrows = False  # do operands of other dtypes become half types before the body?

    # -- planning ----------------------------------------------------------------------------
    def operands(self, args):
        return [a._layout if c == "t" else type(a) for c, a in zip(self.pattern, args) if c in "ts"]

    def key_of(self, args):
        return tuple(
            a._layout if c == "t" else type(a) for c, a in zip(self.pattern, args) if c in "tsn"
        )

    def work_out(self, args, outs=None):
        """The plan of a call: output layouts, kernel, description."""
        operands = self.operands(args)
        compute, out_dtypes = self.types(operands)
        kinds = "".join(
            scalar_kinds(type(a)) if c in "sn" else c
            for c, a in zip(self.pattern, args)
            if c != "t"
        )
        layouts = [a._layout for c, a in zip(self.pattern, args) if c == "t"]
        check_devices(layouts)
        key = (
            self.key,
            compute.code,
            self.pattern,
            tuple(type(a) for c, a in zip(self.pattern, args) if c in "sn"),
        )
        trace = self._tracer(compute, [type(a) for a in args], layouts)
        found = self.plan_nest(
            key, trace, layouts, kinds, out_dtypes, outs, shape=outs[0].shape if outs else None
        )
        self.keep.append(found[3])
        return found

    def _tracer(self, compute, types, layouts):
        """The computation on a kernel's arguments: cast to the compute type, then the body."""
        pattern, code = self.pattern, compute.code
        real = compute.to_real().code
        foreign = [layout.dtype.code != code for layout in layouts]

        def fitted(value, is_foreign):
            value = cast_value(value, code)
            if is_foreign and self.narrows and code in HALVES:
                return scalar.narrowed(value, code)
            return value

        def trace(*arguments):
            tensors = list(arguments[: pattern.count("t")])
            numbers = list(arguments[pattern.count("t") :])
            values = []
            for c, kind in zip(pattern, types):
                if c == "t":
                    place = len(foreign) - len(tensors)
                    value = tensors.pop(0)
                    values.append(fitted(value, foreign[place]) if self.promoting else value)
                elif c in "sn" and kind is complex:
                    values.append(cast_value(scalar.Complex(numbers.pop(0), numbers.pop(0)), code))
                elif c in "sn":
                    values.append(fitted(numbers.pop(0), c == "s"))
                elif c == "f":
                    number = numbers.pop(0)
                    values.append(cast_value(number, real) if compute.category >= 2 else number)
                else:
                    values.append(numbers.pop(0))
            result = self.trace(*values)
            return result if isinstance(result, tuple) else (result,)

        return trace

    def plan(self, *args):
        for c, a in zip(self.pattern, args):
            if c == "t" and not isinstance(a, Tensor):
                raise TypeError(f"expected Tensor, got {type(a).__name__}")
        layouts, kernel, desc, _ = self.work_out(args)
        pairs = [(layout, pool_of(layout)) for layout in layouts]
        found = (*itertools.chain(*pairs), kernel, desc)
        key = self.key_of(args)
        if complex not in key:
            if len(self.plans) > MAX_PLANS:
                self.plans.clear()
            self.plans[key if len(key) > 1 else key[0]] = found
        return found

    # -- running without generated text: numbers of odd types, given outputs -----------------------
    def native_arguments(self, args):
        found = [a._storage.pointer + a._offset for c, a in zip(self.pattern, args) if c == "t"]
        for c, a in zip(self.pattern, args):
            if c != "t":
                found.extend((a.real, a.imag) if type(a) is complex else (a,))
        return found

    def run_into(self, outs, args):
        """Compute into given tensors (which have the right shape)."""
        key = self.key_of(args) + tuple(o._layout for o in outs)
        found = self.inplace_plans.get(key)
        if found is None:
            _, kernel, desc, _ = self.work_out(args, tuple(o._layout for o in outs))
            if len(self.inplace_plans) > MAX_PLANS:
                self.inplace_plans.clear()
            found = self.inplace_plans[key] = kernel, desc
        kernel, desc = found
        pointers = [o._storage.pointer + o._offset for o in outs]
        if kernel(desc, *pointers, *self.native_arguments(args)) is not None:
            self.fail()

    def run_any(self, args):
        """Compute into fresh tensors, for any arguments."""
        layouts, kernel, desc, _ = self.work_out(args)
        outs = tuple(empty_like_layout(layout) for layout in layouts)
        pointers = [o._storage.pointer for o in outs]
        if kernel(desc, *pointers, *self.native_arguments(args)) is not None:
            self.fail()
        return outs

    def fail(self):
        raise self.error

    def compile_run(self, names, record=None, differentiable=(), name="run", extra=(), **parts):
        differentiable = differentiable if record else ()
        text = run_text(
            self.pattern,
            names,
            self.outputs,
            differentiable,
            self.error is not None,
            name=name,
            **parts,
        )
        space = {
            "plans": self.plans,
            "plan": self.plan,
            "new": _new,
            "Storage": Storage,
            "Tensor": Tensor,
            "modes": modes,
            "record": record,
            "fail": self.fail,
            "SCALARS": SCALARS,
            **dict(extra),
        }
        return compile_text(text, space, f"{self.key} {name}")[name]


def check_devices(layouts):
    first = layouts[0].device
    for layout in layouts[1:]:
        # a 0-d cpu tensor may meet any device
        if layout.device is not first and layout.ndim and layouts[0].ndim:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{first} and {layout.device}!"
            )
