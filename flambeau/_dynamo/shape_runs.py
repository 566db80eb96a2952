"""Which sizes vary, and whether what was read with some sizes holds for others.

A graph that was read with sizes that vary is run once without memory for each new set of sizes: if
every op and every question gives the answers that were seen while reading, then reading again would
give the same graph. The answer is remembered by layouts.
"""

from typing import Any

import flambeau
from flambeau import _device
from flambeau._dynamo import config
from flambeau._dynamo.exc import Break
from flambeau._dynamo.surroundings import reading
from flambeau._dynamo.varying import seen_of
from flambeau._tensor import Tensor
from flambeau.amp.redirection import state as autocasting
from flambeau.autograd.grad_mode import modes
from flambeau.fx.experimental.symbolic_shapes import ConstraintViolationError
from flambeau.fx.node import Node
from flambeau.nn.parameter import Parameter
from flambeau.random import default_generator

META = _device.device("meta")
_KEPT = 1024  # sets of sizes that a run remembers


class Sizes:
    """What the inputs of a frame were in earlier calls, by where they come from."""

    def __init__(self, dynamic: bool | None) -> None:
        self.dynamic = dynamic
        self.first: dict[tuple, Any] = {}
        self.moving: dict[tuple, set[int]] = {}
        self.is_off = False

    def dims(self, source: tuple, tensor: Any) -> frozenset[int]:
        """Which dimensions of a tensor vary."""
        count = tensor.dim()
        marked = _marked(tensor, "_dynamo_dynamic_indices", count)
        marked |= _marked(tensor, "_dynamo_weak_dynamic_indices", count)
        marked |= _marked(tensor, "_dynamo_unbacked_indices", count)
        static = _marked(tensor, "_dynamo_static_indices", count)
        if self.is_off or not config.dynamic_shapes:
            return frozenset()
        if isinstance(tensor, Parameter) and config.force_parameter_static_shapes:
            return marked - static
        if self.dynamic or (self.dynamic is None and not config.assume_static_by_default):
            marked |= {dim for dim, size in enumerate(tensor.shape) if size > 1}
        elif self.dynamic is None and config.automatic_dynamic_shapes:
            marked |= self._changed(source, tuple(tensor.shape))
        return marked - static

    def _changed(self, source, shape):
        first = self.first.setdefault(source, shape)
        moving = self.moving.setdefault(source, set())
        if type(first) is tuple and len(first) == len(shape):
            moving |= {dim for dim, (a, b) in enumerate(zip(first, shape)) if a != b}
        return frozenset(dim for dim in moving if dim < len(shape))

    def is_moving(self, source: tuple, value: Any) -> bool:
        """Does an int or a float among the arguments vary? 0 and 1 are what they are."""
        if self.is_off or not config.dynamic_shapes or not _is_argument(source):
            return False
        fixed = config.specialize_int if type(value) is int else config.specialize_float
        if fixed or value in (0, 1) or value != value or self.dynamic is False:
            return False
        if self.dynamic:
            return True
        first = self.first.setdefault(source, value)
        if type(first) is type(value) and first != value and config.automatic_dynamic_shapes:
            self.moving.setdefault(source, set())
        return source in self.moving


def _marked(tensor, name, count):
    found = getattr(tensor, name, ())
    return frozenset(dim % count if count else dim for dim in found if -count <= dim < count)


def _is_argument(source):
    """An argument, or an item of one: not an attribute of an object."""
    while source[0] == "item":
        source = source[1]
    return source[0] in ("arg", "kwarg")


class ShapeRun:
    """A graph without memory, and what was seen of it while it was read."""

    def __init__(self, reader: Any) -> None:
        self.log, self.grad = tuple(reader.log), modes.grad
        self.fixed = [
            (v.node, v.real._layout, v.fake_kind()) for v in reader.inputs if not v.varies
        ]
        self.varying = [
            (v.node, v.real._layout.dtype, tuple(v.real.shape), v.moving, v.fake_kind())
            for v in reader.inputs
            if v.varies
        ]
        self.hints = {v.node: v.hint for v in reader.numbers.values()}
        self.numbers = list(self.hints)
        self.results: list[Any] = []  # numbers that the program gives back
        self.known: dict[tuple, Any] = {}
        self.place = reader.place or _device.device("cpu")

    def holds(self, *given: Any) -> Any:
        """The numbers that the program gives back; False if it has to be read again."""
        key = tuple([x._layout if isinstance(x, Tensor) else x for x in given])
        found = self._found(given)
        if len(self.known) >= _KEPT:
            self.known.pop(next(iter(self.known)), None)
        self.known[key] = found
        return found

    def _found(self, given):
        values: dict = {}
        count = len(self.varying)
        for tensor, (node, dtype, shape, moving, kind) in zip(given, self.varying):
            sizes = tuple(tensor.shape)
            if tensor.dtype is not dtype or len(sizes) != len(shape):
                return False
            if tensor._layout.device != self.place:
                return False
            if any(sizes[d] != shape[d] for d in range(len(shape)) if d not in moving):
                return False
            values[node] = made_fake(tensor._layout, kind)
        for node, number in zip(self.numbers, given[count:]):
            if number in (0, 1) or number != number:
                return False  # as with sizes, what happens then is often something else
            values[node] = number
        try:
            with reading(), _device.device(META):
                return self._ran(values)
        except Break:
            return False

    def _ran(self, values):
        numbers = default_generator._bytes
        drawn, mode = bytes(numbers), modes.grad
        try:
            modes.grad = self.grad
            autocasting.me.stands["meta"] = self.place.type
            for node, layout, kind in self.fixed:
                values[node] = made_fake(layout, kind)
            return self._compared(values)
        except Exception:  # whatever is wrong shows when the program is read, or run as it is
            return False
        finally:
            modes.grad = mode
            if numbers != drawn:
                numbers[:] = drawn

    def _compared(self, values):
        owners = {id(v): node for node, v in values.items() if isinstance(v, Tensor)}
        owner_of = lambda tensor: owners.get(id(tensor))
        for node, function, args, kwargs, seen in self.log:
            found = function(*values_in(args, values), **values_in(kwargs, values))
            if node is None:
                if type(found) is not type(seen) or found != seen:
                    return False
                continue
            if seen is not None and seen_of(found, owner_of) != seen:
                return False
            values[node] = found
            if isinstance(found, Tensor):
                owners.setdefault(id(found), node)
        return tuple([values[node] for node in self.results])

    def allows(self, changes: dict[tuple[int, int], int]) -> bool:
        """Do other sizes give the same answers? changes: (which that varies, dimension) -> size."""
        given: list = []
        for k, (_, dtype, shape, _, _) in enumerate(self.varying):
            sizes = [changes.get((k, dim), size) for dim, size in enumerate(shape)]
            given.append(flambeau.empty(sizes, dtype=dtype, device=self.place))
        given += [self.hints[node] for node in self.numbers]
        return self._found(given) is not False


def guard_sizes(reader: Any, builder: Any) -> None:
    """The last guard: what was read holds for the sizes of this call."""
    guards = reader.guards
    run = ShapeRun(reader)
    run.results = builder.numbers
    varying = [v for v in reader.inputs if v.varies]
    check_marks(run, varying, guards)
    names = [guards.variable(v.source) for v in varying]
    numbers = [guards.variable(source) for source in reader.numbers]
    key = "".join(f"{word}, " for word in (*(f"{n}._layout" for n in names), *numbers))
    guards.lines += [
        f"z = {guards.constant(run.known)}.get(({key}))",
        f"if z is None: z = {guards.constant(run.holds)}({', '.join((*names, *numbers))})",
    ]
    guards.require("z is not False")


def check_marks(run: ShapeRun, varying: list, guards: Any) -> None:
    """Sizes that were marked as dynamic must be free: something else than now is possible."""
    hints = {
        (k, dim): size
        for k, v in enumerate(varying)
        for dim, size in enumerate(v.real.shape)
        if dim in v.moving
    }
    bad = []
    for k, v in enumerate(varying):
        for dim in _marked(v.real, "_dynamo_dynamic_indices", v.real.dim()) & v.moving:
            hint = hints[k, dim]
            alike = [place for place, size in hints.items() if size == hint]
            others = (hint + 1, 2 * hint, hint + 2, hint + 8)
            together = any(run.allows(dict.fromkeys(alike, n)) for n in others)
            if not together and not any(run.allows({(k, dim): n}) for n in others):
                bad.append((f"{_shown(v)}.size()[{dim}]", hint))
    if bad:
        names = ", ".join(name for name, _ in bad)
        told = "".join(
            f"  - You marked {name} as dynamic but your code specialized it to be a constant "
            f"({hint}). If you're using mark_dynamic, either remove it or use maybe_mark_dynamic. "
            "If you're using Dim.DYNAMIC, replace it with either Dim.STATIC or Dim.AUTO.\n"
            for name, hint in bad
        )
        raise ConstraintViolationError(
            f"Constraints violated ({names})! For more information, run with "
            f'TORCH_LOGS="+dynamic".\n{told}'
        )


def _shown(value):
    """An input as PyTorch writes it."""
    return f"L['{value.node.name}']"


def values_in(value: Any, values: dict) -> Any:
    """Arguments with values in place of nodes, devices and all as they were when reading."""
    kind = type(value)
    if kind in (tuple, list):
        return kind([values_in(v, values) for v in value])
    if kind is dict:
        return {k: values_in(v, values) for k, v in value.items()}
    if kind is slice:
        return slice(*[values_in(v, values) for v in (value.start, value.stop, value.step)])
    if kind is Node:
        return values[value]
    return value


def made_fake(layout: Any, kind: tuple[bool, bool]) -> Any:
    """A tensor without memory. kind: does it want a gradient, is it computed from others?"""
    wants, computed = kind
    fake = flambeau.empty_strided(layout.shape, layout.strides, dtype=layout.dtype, device=META)
    if not wants:
        return fake
    fake.requires_grad_()
    if not computed:
        return fake
    grad, modes.grad = modes.grad, True
    try:
        made = fake.clone()
    finally:
        modes.grad = grad
    return made if made._layout is fake._layout else fake
