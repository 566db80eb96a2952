"""Units of sharding, and when each is gathered, freed and reduced.

A unit is a set of parameters that travel together. Outside of forward and backward a process has
only its shards. Before the module of a unit runs, the unit is gathered: whole parameters, leaves of
the graph, take the place of the shards in the modules. Their memory is freed afterwards and comes
back before backward needs it (memory.py). When all gradients of a unit are there they are added up
over processes, each of which keeps its share, while backward goes on.

`Unit` is what `sharded_parameters.py` (a shard of each parameter) and `flat_parameters.py` (a shard
of all of them as one vector) have in common; `Conductor` is what the units of a model have.
"""

from collections.abc import Iterable
from typing import Any

from flambeau import Tensor
from flambeau.autograd.engine import queue_callback
from flambeau.autograd.grad_mode import is_grad_enabled
from flambeau.utils import _pytree as pytree

SHARDED, GATHERING, WHOLE = "sharded", "gathering", "whole"


class Unit:
    """Parameters that are gathered and reduced together."""

    conductor: "Conductor"

    def __init__(self, group: Any, replicas: Any = None) -> None:
        self.group, self.replicas = group, replicas
        self.state = SHARDED
        self.reshards_after_forward: bool | None = True
        self.reshards_after_backward = True
        self.syncs = self.all_reduces = True
        self.gathers_in_backward = True
        self.divisor: float | None = None
        self.ahead_in_forward: list[Unit] = []
        self.ahead_in_backward: list[Unit] | None = None
        self.leaves: list[Tensor] = []  # whole parameters, by which gradients come
        self._arrived: set[int] = set()
        self._work: Any = None
        self._reducing: Any = None
        self.prepared = False  # has backward reached it in this pass?

    @property
    def size(self) -> int:
        """How many processes share it."""
        return self.group.size()

    def factor(self) -> float:
        """What sums of gradients are divided by."""
        if self.divisor is not None:
            return self.divisor
        return self.size * (self.replicas.size() if self.replicas is not None else 1)

    # -- what kinds of units do --------------------------------------------------------------------
    def _gather_start(self) -> Any:
        """Begin to gather; gives something to wait for."""
        raise NotImplementedError

    def _gather_finish(self) -> None:
        """What has come goes into the memory of the leaves."""
        raise NotImplementedError

    def _install(self, whole: bool) -> None:
        """Put leaves or shards into the modules."""
        raise NotImplementedError

    def _free(self) -> None:
        """Give the memory of the leaves back."""
        raise NotImplementedError

    def _reduce_start(self) -> Any:
        """Begin to add up the gradients of the leaves; gives something to wait for."""
        raise NotImplementedError

    def _reduce_finish(self) -> None:
        """What has come is added to the gradients of the shards."""
        raise NotImplementedError

    # -- gathering and freeing ---------------------------------------------------------------------
    def start(self) -> None:
        """Begin to gather, if nobody has."""
        if self.state == SHARDED:
            self._work = self._gather_start()
            self.state = GATHERING

    def unshard(self) -> None:
        """Whole parameters are in the modules afterwards."""
        self.start()
        if self.state == GATHERING:
            if self._work is not None:
                self._work.wait()
                self._work = None
            self._gather_finish()
            self._install(True)
            self.state = WHOLE

    def reshard(self) -> None:
        """Only shards are in the modules, and in memory, afterwards."""
        if self.state == GATHERING:
            self.unshard()
        if self.state == WHOLE:
            self._install(False)
            self._free()
            self.state = SHARDED

    # -- gradients ---------------------------------------------------------------------------------
    def listen(self) -> None:
        """Hear of gradients of the leaves."""
        for leaf in self.leaves:
            if leaf.requires_grad:
                leaf.register_post_accumulate_grad_hook(self._hear)

    def _hear(self, leaf: Tensor) -> None:
        self._arrived.add(id(leaf))
        if len(self._arrived) == sum(t.requires_grad for t in self.leaves):
            self.end_backward()

    def has_gradients(self) -> bool:
        """Has backward left gradients at its leaves?"""
        return any(leaf.grad is not None for leaf in self.leaves)

    def end_backward(self) -> None:
        """All gradients are there: add them up, and free the parameters."""
        self._arrived.clear()
        if self.syncs and self.has_gradients():
            self.finish_reducing()
            self._reducing = self._reduce_start()
            self.conductor.reducing.append(self)
        if self.reshards_after_backward:
            self.reshard()

    def finish_reducing(self) -> None:
        """Wait for the sums."""
        if self._reducing is not None:
            for work in self._reducing:
                work.wait()
            self._reducing = None
            self._reduce_finish()


class Conductor:
    """The units of a model: who comes next, and what is under way."""

    def __init__(self, root: Unit | None) -> None:
        self.root, self.units = root, [root] if root is not None else []
        self.order: list[Unit] = []  # as forward met them
        self.reducing: list[Unit] = []
        self.in_backward = False
        self.is_last_backward = True
        self.prefetches = True
        self.prefetches_forward = False
        self._last_order: list[Unit] = []

    def adopt(self, other: "Conductor") -> None:
        """The units of a part of the model are led from here."""
        if other is not self:
            for unit in other.units:
                unit.conductor = self
                self.units.append(unit)
            other.units = []

    # -- forward -----------------------------------------------------------------------------------
    def before_forward(self, unit: Unit) -> None:
        """A module is about to run."""
        if unit is self.root and not self.in_backward:
            self._last_order, self.order = self.order, []
        unit.unshard()
        for other in unit.ahead_in_forward:
            other.start()
        if self.prefetches_forward and unit in self._last_order:
            for other in self._last_order[self._last_order.index(unit) + 1 :][:1]:
                other.start()

    def after_forward(self, unit: Unit, output: Any) -> Any:
        """A module has run: free its parameters, and hear when backward comes back to it."""
        if self.in_backward:  # it ran once more, for its backward
            return output
        if not self.order or self.order[-1] is not unit:
            self.order.append(unit)
        keeps = unit.reshards_after_forward
        if keeps or (keeps is None and unit is not self.root):
            unit.reshard()
        if is_grad_enabled():
            for t in tensors_in(output):
                if t.requires_grad:
                    t.register_hook(lambda grad, unit=unit: self.before_backward(unit))
        return output

    # -- backward ----------------------------------------------------------------------------------
    def before_backward(self, unit: Unit) -> None:
        """Backward is about to enter a module."""
        if not self.in_backward:
            self.in_backward = True
            queue_callback(self.after_backward)
        if unit.prepared:
            return
        unit.prepared = True
        if unit.gathers_in_backward:
            unit.unshard()
        for other in self._ahead(unit):
            if not other.prepared and other.gathers_in_backward:
                other.start()

    def _ahead(self, unit):
        """Units that backward will need next."""
        if unit.ahead_in_backward is not None:
            return unit.ahead_in_backward
        if not self.prefetches or unit not in self.order:
            return []
        k = len(self.order) - 1 - self.order[::-1].index(unit)
        return self.order[:k][-1:]

    def after_backward(self) -> None:
        """The pass is over: what is left is reduced, and all sums are waited for."""
        self.in_backward = False
        for unit in self.units:
            if unit._arrived or unit.prepared:
                if unit._arrived:
                    unit.end_backward()
                elif unit.reshards_after_backward:
                    unit.reshard()
            unit.prepared = False
        if self.is_last_backward:
            for unit in self.reducing:
                unit.finish_reducing()
            self.reducing.clear()


def tensors_in(value: Any) -> Iterable[Tensor]:
    """All tensors of an output, in lists, dictionaries and objects."""
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, Tensor):
            yield leaf
        elif hasattr(leaf, "__dataclass_fields__"):
            yield from tensors_in([getattr(leaf, name) for name in leaf.__dataclass_fields__])


def cast_floats(value: Any, dtype: Any) -> Any:
    """Floating-point tensors among arguments, in another dtype."""

    def cast(t):
        return t.to(dtype) if isinstance(t, Tensor) and t.is_floating_point() else t

    return pytree.tree_map(cast, value)


def places_of(modules: Iterable[Any], ignored: set[int]) -> dict[int, tuple[Any, list]]:
    """Parameters of modules, each with all (module, name) under which it is found."""
    found: dict[int, tuple[Any, list]] = {}
    for module in modules:
        for name, p in module._parameters.items():
            if p is not None and id(p) not in ignored:
                found.setdefault(id(p), (p, []))[1].append((module, name))
    return found
