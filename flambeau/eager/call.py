"""The hot path of pointwise rows: arguments -> plan -> memory -> kernel -> node.

A `Family` is one computation for one pattern of arguments; its `run` is generated from text, so
that a call is a dictionary look-up, an allocation, a native call and, if somebody wants gradients,
a node (variants.py). Operands of one layout without gaps are found by dtypes alone (`sorts`), so
that their size does not matter. Other layouts have a plan each, which `Plans` works out from the
layouts: dtypes lead to a `Kind` (what is computed, in which dtype), sizes to words. Everything
unusual (keywords, numbers of odd types) leaves for the routes of pointwise.py.

Pattern letters, one per argument: t tensor; s number in place of a tensor (takes part in
promotion); n any other number (cast to the compute type); f float and i int parameters.
"""

from flambeau import errors
from flambeau._device import cpu
from flambeau._dtype import as_64_bits
from flambeau._layout import Layout, broadcast_shape, make_layout
from flambeau._tensor import empty_like_layout
from flambeau.codegen import scalar
from flambeau.eager.fragments import addresses, allocated, compile_text, indented
from flambeau.eager.kernels import pool
from flambeau.eager.plan import (
    cast_value,
    describe_run,
    facts_of,
    nest_kernel,
    plan_nest,
    scalar_kinds,
)
from flambeau.eager.plans import Plans
from flambeau.runtime.cpu import packed
from flambeau.storage import brought

HALVES = ("f16", "bf16")


def key_text(pattern, names):
    """What a plan is found by: layouts of tensors, types of numbers."""
    return ", ".join(
        f"{n}._layout" if c == "t" else f"type({n})" for c, n in zip(pattern, names) if c in "tsn"
    )


def call_text(family, names, size):
    """The native call; one with checks may come back with a status. size: the last argument."""
    tensors = [n for c, n in zip(family.pattern, names) if c == "t"]
    numbers = [n for c, n in zip(family.pattern, names) if c != "t"]
    call = f"kernel(desc{''.join(f', p{k}' for k in range(family.outputs))}{addresses(tensors)}"
    call += "".join(f", {n}" for n in numbers) + f", {size})"
    if family.error is not None:
        text = f"    if {call} is not None:\n        fail()\n"
    else:
        text = f"    {call}\n"
    if "s" in family.pattern or "n" in family.pattern:
        return guarded(text, f"return wide({', '.join(names)})")
    return text


def guarded(text, wide):
    """Lines around a call with numbers: wide is what to do with integers beyond 64 bits."""
    return f"    try:\n{indented(text)}    except OverflowError:\n        {wide}\n"


def alike_text(pattern, names):
    """(condition that all tensors have the layout of the first, key by sort)."""
    tensors = [n for c, n in zip(pattern, names) if c == "t"]
    same = " and ".join(f"{n}._layout is layout0" for n in tensors[1:])
    types = "".join(f", type({n})" for c, n in zip(pattern, names) if c in "sn")
    return same, f"sorts[layout0.sort{types}]" + (f" if {same} else None" if same else "")


def fresh_text(family, names, differentiable, miss):
    """Lines from the look-up to the return. miss: what to do with arguments that are no tensors.

    Dense operands of one layout need no plan of their own: the kernel is told how many elements
    there are, and the result has the same layout.
    """
    outs = range(family.outputs)
    first = names[family.pattern.index("t")]
    unpacked = f"{', '.join(f'layout{k}' for k in outs)}, kernel, desc"
    key = key_text(family.pattern, names)
    # a miss must leave the except clause first, or errors below would be chained to another
    if family.outputs == 1:
        text = f"    try:\n        layout0 = {first}._layout\n"
        text += f"        found = {alike_text(family.pattern, names)[1]}\n"
        text += f"        if found is None:\n            {unpacked} = plans[{key}]\n"
        text += "        else:\n            kernel, desc = found\n"
    else:
        text = f"    try:\n        {unpacked} = plans[{key}]\n"
    text += "    except AttributeError:\n        desc = None\n"
    text += f"    if desc is None:\n        {miss}\n"
    text += allocated(family.outputs)
    text += call_text(family, names, "layout0.numel")
    results = ", ".join(f"out{k}" for k in outs)
    if differentiable:
        condition = " or ".join(f"{names[k]}._requires_grad" for k in differentiable)
        text += f"    if ({condition}) and modes.grad:\n"
        text += f"        record({results}, {', '.join(names)})\n"
    return text + f"    return {results}\n"


class Kind:
    """A family for given dtypes on a device: what is computed, and its kernels."""

    __slots__ = (
        "key",
        "trace",
        "scalars",
        "dtypes",
        "codes",
        "steps",
        "facts",
        "device",
        "runtime",
        "kernels",
    )

    def __init__(self, family, marks):
        compute, self.dtypes = family.types([m for m, c in zip(marks, family.keyed) if c != "n"])
        layouts = [m for m in marks if type(m) is Layout]
        numbers = [m for m in marks if type(m) is not Layout]
        self.key = (family.key, compute.code, family.pattern, tuple(numbers))
        self.trace = family.tracer(compute, numbers, layouts)
        kinds = iter(numbers)
        self.scalars = "".join(
            scalar_kinds(next(kinds)) if c in "sn" else c for c in family.pattern if c != "t"
        )
        self.device = common_device(layouts)
        self.runtime = self.device.runtime
        operands = (*self.dtypes, *(layout.dtype for layout in layouts))
        self.codes = [d.code for d in operands]
        self.facts = self.steps, _ = facts_of(operands)
        self.kernels = {}  # mark of a walk, or accesses of a run -> kernel, elements per chunk

    def run_kernel(self, accesses):
        """(kernel, elements per chunk) for one run of elements; accesses: of the inputs."""
        found = self.kernels.get(accesses)
        if found is None:
            pattern = tuple(zip(self.codes, "c" * len(self.dtypes) + accesses))
            outputs, inputs = pattern[: len(self.dtypes)], pattern[len(self.dtypes) :]
            found = self.kernels[accesses] = nest_kernel(
                self.runtime, self.key, self.trace, outputs, inputs, self.scalars, 0
            )
        return found

    def describe(self, n, accesses):
        """(kernel, description) of a run of n elements."""
        kernel, chunk = self.run_kernel(accesses)
        steps = self.steps
        if "s" in accesses:
            steps = [
                st if a == "c" else 0 for st, a in zip(steps, "c" * len(self.dtypes) + accesses)
            ]
        return kernel, describe_run(n, chunk, steps)


class Family:
    """Kernels of one computation for one pattern of arguments."""

    plan_nest = staticmethod(plan_nest)  # how layouts become a kernel; other kinds have their own
    elementwise = True  # is a result as large as its operands?

    def __init__(self, key, trace, pattern, types, outputs=1, error=None, promoting=True):
        self.key, self.trace, self.pattern = key, trace, pattern
        self.types, self.outputs = types, outputs
        self.keyed = [c for c in pattern if c in "tsn"]
        self.plans, self.into = Plans(self._fresh, mixed=True), Plans(self._given, mixed=True)
        self.sorts = Plans(self._dense, mixed=True)
        self.shaped = Plans(self._shaped, mixed=True)
        self.kinds: dict = Plans(lambda marks: None)
        self.error, self.promoting = error, promoting
        self.check = None  # of dtypes, types and whether there are dimensions
        self.narrows = False  # do operands of other dtypes become half types before the body?

    # -- plans -----------------------------------------------------------------------------------
    def kind(self, key):
        """The Kind of a key of layouts and types."""
        mark = tuple([(k.dtype, k.device, not k.ndim) if type(k) is Layout else k for k in key])
        found = self.kinds[mark]
        if found is None:
            try:
                if self.check is not None:
                    self.check(key)
                found = self.kinds[mark] = Kind(self, key)
            except NotImplementedError:  # that there is no kernel is said last
                broadcast_shape(*[k.shape for k in key if type(k) is Layout])
                raise
        return found

    def _dense(self, key):
        """(kernel, description) for operands of one layout without gaps, of any size, if all
        results have that layout, too; else None. key: the sort of the layout, types of numbers.
        """
        sort, *types = key if type(key) is tuple else (key,)
        if sort is None:
            return None
        numbers = iter(types)
        found = self.shaped[tuple([sort if c == "t" else next(numbers) for c in self.keyed])]
        if found is None or any(d is not sort.dtype for d in found[2]):
            return None
        return found[:2]

    def _shaped(self, key):
        """(kernel, description, dtypes of the results) for operands of one shape without gaps, by
        their sorts; None where there is no such kernel.
        """
        kind = self.kind(key)
        if not self.elementwise or not kind.runtime.computes:
            return None
        kernel, chunk = kind.run_kernel("c" * self.keyed.count("t"))
        pool().ensure_workers()
        return kernel, packed((0, chunk, *kind.steps)), kind.dtypes

    def _fresh(self, key):
        """(layout of each result, kernel, description) for a key of layouts and types."""
        if type(key) is not tuple:
            key = (key,)
        sorts = sorts_of(key)
        found = self.shaped[sorts] if sorts is not None else None
        layouts = [k for k in key if type(k) is Layout]
        if found is not None:
            kernel, desc, dtypes = found
            return (*[_with_dtype(layouts[0], d) for d in dtypes], kernel, desc)
        kind = self.kind(key)
        whole = _run_of(layouts) if self.elementwise and kind.runtime.computes else None
        if whole is not None:
            first, accesses = whole
            kernel, desc = kind.describe(first.numel, accesses)
            outs = [_with_dtype(first, d) for d in kind.dtypes]
        else:
            facts = kind.key, kind.trace, layouts, kind.scalars, kind.dtypes
            known = {"kind": kind} if self.elementwise else {}
            outs, kernel, desc = self.plan_nest(*facts, device=kind.device, **known)
            kernel = _with_numbers(kernel, layouts, len(outs), kind.device)
        return (*outs, kernel, desc)

    def _given(self, key):
        """(kernel, description) where the last layouts of the key are those of given results."""
        outs, key = key[-self.outputs :], key[: -self.outputs]
        dtypes = tuple([o.dtype for o in outs])
        sorts = sorts_of((*key, *outs)) if self.elementwise else None
        try:
            found = self.shaped[sorts[: -self.outputs]] if sorts is not None else None
            kind = self.kind(key)
        except NotImplementedError:  # that there is no kernel is said last
            self.check_target(key, outs[0])
            raise
        if found is not None and found[2] == dtypes:
            return found[:2]
        self.check_target(key, outs[0])
        layouts = [k for k in key if type(k) is Layout]
        if self.elementwise and kind.runtime.computes and dtypes == kind.dtypes:
            whole = _run_of((*outs, *layouts))
            if whole is not None and whole[1].startswith("c" * len(outs)):
                return kind.describe(outs[0].numel, whole[1][len(outs) :])
        device = common_device((*layouts, *outs))
        _, kernel, desc = self.plan_nest(
            kind.key, kind.trace, layouts, kind.scalars, kind.dtypes, outs, outs[0].shape
        )
        return _with_numbers(kernel, layouts, len(outs), device), desc

    def check_target(self, key, target):
        """Complain about a layout that results cannot be written to."""

    def operands(self, args):
        return [a._layout if c == "t" else type(a) for c, a in zip(self.pattern, args) if c in "ts"]

    def key_of(self, args):
        return tuple(
            a._layout if c == "t" else type(a) for c, a in zip(self.pattern, args) if c in "tsn"
        )

    def tracer(self, compute, numbers, layouts):
        """The computation on a kernel's arguments: cast to the compute type, then the body."""
        pattern, code = self.pattern, compute.code
        real = compute.to_real().code
        foreign = [layout.dtype.code != code for layout in layouts]

        def fitted(value, is_foreign):
            value = cast_value(value, code)
            if code == "c32":  # numbers become one, whatever the row
                return scalar.complex_half(value)
            if is_foreign and self.narrows and code in HALVES:
                return scalar.narrowed(value, code)
            return value

        def trace(*arguments):
            tensors = list(zip(arguments[: len(layouts)], foreign))
            given, kinds = list(arguments[len(layouts) :]), list(numbers)
            values = []
            for c in pattern:
                kind = kinds.pop(0) if c in "sn" else None
                if c == "t":
                    value, is_foreign = tensors.pop(0)
                    values.append(fitted(value, is_foreign) if self.promoting else value)
                elif kind is complex:
                    number = scalar.Complex(given.pop(0), given.pop(0))
                    values.append(fitted(number, False))
                elif c in "sn":
                    values.append(fitted(given.pop(0), c == "s"))
                elif c == "f":
                    number = given.pop(0)
                    values.append(cast_value(number, real) if compute.category >= 2 else number)
                else:
                    values.append(given.pop(0))
            result = self.trace(*values)
            return result if isinstance(result, tuple) else (result,)

        return trace

    # -- running without generated text: complex numbers, given outputs --------------------------
    def native_arguments(self, args):
        found = [a._storage.pointer + a._offset for c, a in zip(self.pattern, args) if c == "t"]
        for c, a in zip(self.pattern, args):
            if c != "t":
                found.extend((a.real, a.imag) if type(a) is complex else (a,))
        return found

    def run_into(self, outs, args):
        """Compute into given tensors (which have the right shape)."""
        kernel, desc = self.into[(*self.key_of(args), *(o._layout for o in outs))]
        pointers = [o._storage.pointer + o._offset for o in outs]
        if kernel(desc, *pointers, *self.native_arguments(args), outs[0].numel()) is not None:
            self.fail()

    def run_any(self, args):
        """Compute into fresh tensors, for any arguments."""
        key = self.key_of(args)
        *layouts, kernel, desc = self.plans[key if len(key) > 1 else key[0]]
        outs = tuple(empty_like_layout(layout) for layout in layouts)
        pointers = [o._storage.pointer for o in outs]
        if kernel(desc, *pointers, *self.native_arguments(args), layouts[0].numel) is not None:
            self.fail()
        return outs

    def fitted(self, args):
        """Arguments whose integers fit 64 bits."""
        tensors = [a for a, c in zip(args, self.pattern) if c == "t"]
        floating = any(t._layout.dtype.category >= 2 for t in tensors)
        return [
            as_64_bits(a, floating) if c in "sn" and type(a) is int else a
            for a, c in zip(args, self.pattern)
        ]

    def fail(self):
        raise self.error

    def compile_run(
        self, names, record=None, differentiable=(), name="run", title="", signature=None, head="",
        miss="raise TypeError('expected Tensor')", extra=(),
    ):  # fmt: skip
        """A function around the hot path. head: lines before the look-up."""
        text = f"def {name}({signature or ', '.join(names)}):\n{head}"
        text += fresh_text(self, names, differentiable if record else (), miss)
        scope = {"plans": self.plans, "sorts": self.sorts, "record": record, "fail": self.fail}
        scope |= dict(extra)
        title = title or f"{_plain(self.key)} {name} {self.pattern}"
        scope = compile_text(text, scope, title)
        scope["wide"] = lambda *args: scope[name](*self.fitted(args))
        return scope[name]


def _plain(key):
    while isinstance(key, tuple):
        key = key[0]
    return key


def _with_dtype(layout, dtype):
    if layout.dtype is dtype:
        return layout
    return make_layout(layout.sizes, layout.strides, dtype, layout.device)


def sorts_of(key):
    """The key with sorts for layouts, if those walk one block of memory alike; else None."""
    first, found = None, []
    for k in key:
        if type(k) is Layout:
            if k.sort is None:
                return None
            if first is None:
                first = k
            elif k is not first and (k.sizes != first.sizes or k.strides != first.strides):
                return None
            k = k.sort
        found.append(k)
    return tuple(found)


def _run_of(layouts):
    """(the largest layout, access of each) where a kernel can walk all in one run: each is dense
    and as large as the largest, or the same value everywhere. Else None.
    """
    whole = layouts[0]
    for layout in layouts:
        if layout.is_dense and (layout.numel > whole.numel or not whole.is_dense):
            whole = layout
    if not whole.is_dense or not whole.numel:
        return None
    sizes, device, found = whole.sizes, whole.device, ""
    for layout in layouts:
        if layout is whole:
            found += "c"
        elif layout.device is not device:
            return None
        elif layout.sizes == sizes:
            if layout.is_dense:
                found += "c"
            elif any(layout.strides):
                return None
            else:
                found += "s"
        elif layout.numel == 1 and layout.ndim <= whole.ndim:
            found += "s"
        else:
            return None
    return whole, found


def _with_numbers(kernel, layouts, outputs, device):
    """The kernel; where numbers of the host meet another device's tensors, they go there first."""
    if device is cpu or not device.runtime.computes:
        return kernel
    moved = [(1 + outputs + k, x.itemsize) for k, x in enumerate(layouts) if x.device is cpu]
    if not moved:
        return kernel

    def launch(*args):
        args, held = list(args), []
        for place, nbytes in moved:
            held.append(brought(args[place], nbytes, device))
            args[place] = held[-1].pointer
        return kernel(*args)

    return launch


def common_device(layouts):
    """Where a result is: numbers of the host may meet any device, all others must agree."""
    found = None
    for layout in layouts:
        if layout.device is not found and (layout.ndim or layout.device is not cpu):
            if found is not None:
                raise errors.different_devices(found, layout.device)
            found = layout.device
    return found or cpu
