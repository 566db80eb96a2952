"""Launchers that follow from their plans: layouts in, one kernel call out.

A family of ops says what a call comes to by its layouts and static arguments, in a function that
never sees a tensor: layouts of results, a kernel, its description. `planned` writes the launcher
around that function, the same way for all: look the plan up, bring operands into the layouts that
the kernel wants, make the results, run the kernel.

    @planned("grid_sampler", "input: dense, grid: dense, mode, padding, align_corners")
    def grid_sampler(input, grid, mode, padding, align_corners):
        ...
        return launch(out, words, "grid_sample", "grid_sampling:build_sample", *facts)

The signature is that of the launcher. What stands behind a name:

    (nothing)   a static argument, part of the plan's key
    tensor      its layout is part of the key, its address goes to the kernel
    dense       the same, copied first where it is not contiguous
    fitted      the same, copied first where it has not the layout that the plan names
    layout      its layout is part of the key, and no more
    number      goes to the kernel (unless `order` has it not), and is no part of the key

`?` behind a kind: may be None. A kernel gets its description, the addresses of results, those of
operands, that of the room it works in, and numbers; 0 for what is not there.
"""

from itertools import takewhile

from flambeau import return_types
from flambeau._layout import Layout
from flambeau._tensor import empty_like_layout
from flambeau.eager.copying import COPIES, plan_fill
from flambeau.eager.fragments import ALLOCATE, compile_text, indented
from flambeau.eager.fronts import kernel_unless_recorded
from flambeau.eager.kernels import pool
from flambeau.eager.launching import FRONTS, LAUNCHERS
from flambeau.eager.plan import NO_WORK
from flambeau.eager.plans import ROOM, Plans
from flambeau.eager.rows import as_layout, contiguous, has_work
from flambeau.runtime.base import nothing
from flambeau.runtime.cpu import packed


def launch(results, words, name, build, *facts):
    """A plan: layouts of results, the kernel that `build` makes for facts, its description."""
    results = (results,) if type(results) is Layout else results
    kernel = next(filter(None, results)).device.runtime.kernel(name, build, *facts)
    if words[0] > 1:  # chunks
        pool().ensure_workers()
    return *results, kernel, packed(words)


def idle(*results):
    """The plan of a call that computes nothing."""
    return *results, nothing, NO_WORK


def constant(value, results, left_out=False):
    """A plan whose results are one number throughout; left_out: as `planned` is told."""
    fills = []
    for k, layout in enumerate([x for x in results if x is not None] if left_out else results):
        if layout is not None and has_work(layout):
            fills.append((k, *plan_fill(layout, type(value))))
    return *results, _fill, (value, fills)


def _fill(plan, *addresses):
    """A kernel, so to speak, that fills results."""
    value, fills = plan
    for k, kernel, description in fills:
        kernel(description, addresses[k], value)


def on_zeros(layout, kernel, description):
    """(kernel, description) of a kernel whose first result is to be zero before it begins."""
    return _fill_first, (*plan_fill(layout, int), kernel, description)


def _fill_first(plan, result, *rest):
    fill, fill_description, kernel, description = plan
    fill(fill_description, result, 0)
    return kernel(description, result, *rest)


def through(computed, result, kernel, description):
    """(kernel, description) where the first result is computed in one layout, wanted in another."""
    if computed is result:
        return kernel, description
    return _copied_through, (computed, kernel, description, *COPIES[result, computed])


def _copied_through(plan, result, *rest):
    layout, kernel, description, copy, copy_description = plan
    computed = empty_like_layout(layout)
    status = kernel(description, computed._storage.pointer, *rest)
    copy(copy_description, result, computed._storage.pointer)
    return status


class Operand:
    """A parameter of a launcher."""

    def __init__(self, text):
        self.name, _, kind = [part.strip() for part in text.partition(":")]
        self.kind, self.optional = kind.rstrip("?"), kind.endswith("?")

    def key(self):
        """What a plan's key has of it."""
        if self.kind in ("", "number"):
            return self.name
        found = f"{self.name}._layout"
        return f"None if {self.name} is None else {found}" if self.optional else found

    def place(self):
        found = f"{self.name}._storage.pointer + {self.name}._offset"
        return f"0 if {self.name} is None else {found}" if self.optional else found

    def made_ready(self):
        """Lines that copy it where it does not lie as the kernel wants."""
        n = self.name
        given = f"{n} is not None and " if self.optional else ""
        if self.kind == "dense":
            return f"    if {given}not {n}._layout.is_contiguous:\n        {n} = contiguous({n})\n"
        if self.kind == "fitted":
            test = f"{given}{n}._layout is not {n}_layout"
            return f"    if {test}:\n        {n} = as_layout({n}, {n}_layout)\n"
        return ""


class Result:
    """One of a launcher's results; its layout may be None."""

    def __init__(self, text, number):
        self.name, self.optional = text.strip().rstrip("?"), text.strip().endswith("?")
        self.number = number
        self.layout, self.out, self.place = f"layout{number}", f"out{number}", f"p{number}"

    def made(self):
        """Lines that make it."""
        if self.optional:
            absent = f"    {self.out}, {self.place} = None, 0\n    if {self.layout} is not None:\n"
            return absent + indented(ALLOCATE.format(k=self.number))
        return ALLOCATE.format(k=self.number)


class Launcher:
    """A launcher, written when it is first asked for."""

    def __init__(self, name, plan, plans, text, space):
        self.name, self.plan, self.plans, self.text, self.run = name, plan, plans, text, None
        self.space = {"plans": plans, "complain": _complain, **space}
        self.space |= {"contiguous": contiguous, "as_layout": as_layout}

    def function(self):
        if self.run is None:
            title = f"{self.name} launcher"
            self.run = compile_text(self.text(self.name), self.space, title)[self.name]
            self.run.plan, self.run.plans, self.run.function = self.plan, self.plans, self.function
        return self.run

    def __call__(self, *args):
        """The first call by name; the function then takes the place of this, without a detour."""
        run, space = self.function(), self.plan.__globals__
        if space.get(self.plan.__name__) is self:
            space[self.plan.__name__] = run
        return run(*args)


def planned(
    name, signature, results="result", *, order="", backward=False, left_out=False, room=False,
    keeps=False, fails=None, otherwise=None, gives=None, remembered=ROOM,
    mixed=False,
):  # fmt: skip
    """Make a function of layouts and static arguments the plan of a launcher, which is returned.

    name: of the template; backward: it is the kernel of a composite, whose body is for calls that
    are recorded. order: names of what the kernel gets (or numbers), where that is another order.
    left_out: the kernel gets nothing for what is None. room: the plan ends with the layout of
    memory that the kernel works in, or None; keeps: and with what must stay while the plan does.
    fails(*arguments): the error if the kernel reports something, or None; without it and without
    results the launcher gives what the kernel reports. otherwise: does the work where the plan has
    no kernel. gives: of return_types. remembered, mixed: of the plans, how many there
    are and whether layouts may be on several devices.
    """

    def text(called):
        operands = [Operand(part) for part in signature.split(",")]
        outs = [Result(part, k) for k, part in enumerate(results.split(",") if results else ())]
        return _text(called, operands, outs, order, left_out, room, keeps, fails, otherwise, gives)

    def register(plan):
        space = {"fails": fails, "otherwise": otherwise}
        if gives is not None:
            space["gives"] = getattr(return_types, gives)
        plans = Plans(lambda key: plan(*key), remembered, by_default=False, mixed=mixed)
        launcher = Launcher(name or plan.__name__, plan, plans, text, space)
        if backward:
            FRONTS[name] = lambda *row: kernel_unless_recorded(launcher.function())(*row)
        elif name is not None:
            LAUNCHERS.later[name] = launcher.function
        return launcher

    return register


def _complain(error):
    if error is not None:
        raise error


def _text(called, operands, outs, order, left_out, room, keeps, fails, otherwise, gives):
    """The source of a launcher."""
    names = ", ".join(o.name for o in operands)
    key = "".join(f"{o.key()}, " for o in operands if o.kind != "number")
    unpacked = [*[o.layout for o in outs], "kernel", "desc"]
    unpacked += [f"{o.name}_layout" for o in operands if o.kind == "fitted"]
    text = f"def {called}({names}):\n"
    unpacked += ["room"] * room + ["_"] * keeps
    text += f"    {', '.join(unpacked)} = plans[{key}]\n"
    if otherwise is not None:
        text += f"    if kernel is None:\n        return otherwise({names})\n"
    text += "".join(o.made_ready() for o in operands) + "".join(o.made() for o in outs)
    if room:
        text += "    room = None if room is None else _fresh(room)\n"
    given = _arguments(operands, outs, room)
    passed = [given.get(n, (n, None)) for n in order.split()] if order else list(given.values())
    call = f"kernel(desc, {', '.join(place for place, _ in passed)})"
    if left_out:
        text, call = text + _listed(passed), "kernel(desc, *places)"
    if not outs and fails is None:
        return text + f"    return {call}\n"
    if fails is not None:
        call = f"if {call} is not None:\n        complain(fails({names}))"
    text += f"    {call}\n"
    found = ", ".join(o.out for o in outs) or "None"
    return text + f"    return {found if gives is None else f'gives(({found}))'}\n"


def _arguments(operands, outs, room):
    """Name -> (what a kernel gets for it, what may be None), in the usual order."""
    given = {o.name: (o.place, o.out if o.optional else None) for o in outs}
    for o in operands:
        if o.kind in ("tensor", "dense", "fitted"):
            given[o.name] = o.place(), o.name if o.optional else None
    if room:
        given["room"] = "0 if room is None else room._storage.pointer", None
    return given | {o.name: (o.name, None) for o in operands if o.kind == "number"}


def _listed(passed):
    """Lines that list what there is for a kernel."""
    fixed = list(takewhile(lambda pair: pair[1] is None, passed))
    text = f"    places = [{', '.join(place for place, _ in fixed)}]\n"
    for place, absent in passed[len(fixed) :]:
        if absent is not None:
            place = place.removeprefix(f"0 if {absent} is None else ")
            text += f"    if {absent} is not None:\n    "
        text += f"    places.append({place})\n"
    return text
