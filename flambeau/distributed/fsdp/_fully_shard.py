"""fully_shard: the parameters of a module become shards, which are gathered when it runs."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.distributed.device_mesh import DeviceMesh, init_device_mesh
from flambeau.distributed.fsdp.policies import MixedPrecisionPolicy, OffloadPolicy
from flambeau.distributed.fsdp.sharded_parameters import ShardedUnit
from flambeau.distributed.fsdp.units import Conductor, cast_floats, places_of
from flambeau.distributed.groups import get_world_size, is_initialized
from flambeau.nn import ModuleDict, ModuleList
from flambeau.nn.modules.module import Module

__all__ = ["FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method"]


def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable | None = None,
    mp_policy: MixedPrecisionPolicy = MixedPrecisionPolicy(),  # noqa: B008  frozen
    offload_policy: OffloadPolicy = OffloadPolicy(),  # noqa: B008  has no state
    ignored_params: set | None = None,
    dp_mesh_dims: Any = None,
) -> Any:
    """Shard the parameters of a module, but for those of submodules that are sharded already.

    Apply it to parts first, then to the whole: each call makes a unit that is gathered on its own.
    The module gets the methods of `FSDPModule`; its parameters are DTensors. Optimizers are made
    afterwards.

    Args:
        module: a module, or several that are gathered together.
        mesh: of one dimension, which shards; of two, the first of which replicates.
        reshard_after_forward: free whole parameters after forward; by default all but the root's.
        shard_placement_fn: param -> Shard(dim), or None for the first dimension.
        mp_policy: dtypes.
        ignored_params: parameters that are left alone.
    """
    modules = [module] if isinstance(module, Module) else list(module)
    for m in modules:
        if isinstance(m, (ModuleList, ModuleDict)) and type(m).forward is Module.forward:
            raise ValueError(
                f"fully_shard does not support containers that do not implement forward: {m}"
            )
        assert not isinstance(m, FSDPModule), (
            "Each distinct composable distributed API can only be applied to a module once. "
            f"fully_shard has already been applied to the following module:\n{m}"
        )
    mesh = mesh if mesh is not None else _world_mesh(modules)
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    size = mesh.get_all_groups()[-1].size()
    if type(reshard_after_forward) is int and (
        reshard_after_forward < 1 or size % reshard_after_forward
    ):
        raise ValueError(
            "If passing reshard_after_forward as an int, it should be a factor of "
            f"{size}, not {reshard_after_forward}"
        )
    ignored = {id(p) for p in ignored_params or ()}
    found = places_of(_owned(modules), ignored)
    unit = ShardedUnit(found, mesh, mp_policy, shard_placement_fn) if found else None
    state = _State(modules, unit, mp_policy, reshard_after_forward)
    for m in modules:
        kind: Any = type(m)
        m.__class__ = _sharded_class(kind)
        m.__dict__["_fsdp_state"] = state
        m.register_state_dict_pre_hook(lambda *_: state.reshard())
        m.register_load_state_dict_pre_hook(lambda *_: state.reshard())
    return module


def _world_mesh(modules):
    """All processes; on the kind of device that parameters are on."""
    kinds = {p.device.type for m in modules for p in m.parameters()} - {"meta"}
    size = get_world_size() if is_initialized() else 1
    return init_device_mesh(kinds.pop() if len(kinds) == 1 else "cpu", (size,))


def _owned(modules):
    """Modules whose parameters are not those of a part that is sharded already."""
    seen: set[int] = set()
    found = []

    def visit(m):
        if id(m) in seen or isinstance(m, FSDPModule):
            return
        seen.add(id(m))
        found.append(m)
        for child in m.children():
            visit(child)

    for m in modules:
        visit(m)
    return found


@functools.cache
def _sharded_class(kind: Any) -> Any:
    """The class of a module with the methods of FSDPModule."""
    return type(f"FSDP{kind.__name__}", (FSDPModule, kind), {"_fsdp_original": kind})


class _State:
    """What a sharded module keeps."""

    def __init__(self, modules, unit, policy, reshard_after_forward):
        self.modules, self.unit, self.policy = modules, unit, policy
        self.own = Conductor(unit)
        self.is_ready = False
        self.is_root = False
        if unit is not None:
            unit.conductor = self.own
            unit.reshards_after_forward = (
                None if reshard_after_forward is None else bool(reshard_after_forward)
            )
        self._running = 0
        self._inputs_cast = policy.param_dtype if policy.cast_forward_inputs else None
        first, last = modules[0], modules[-1]
        for m in modules:
            m.register_forward_pre_hook(self.before, prepend=True, with_kwargs=True)
            m.register_forward_hook(self.after, always_call=m is last and first is last)

    @property
    def conductor(self) -> Conductor:
        return self.unit.conductor if self.unit is not None else self.own

    def _lead(self):
        """The first module that runs leads the units of all parts of it."""
        self.is_root = True
        for m in self.modules:
            for part in m.modules():
                state = part.__dict__.get("_fsdp_state")
                if state is not None:
                    if state is not self:
                        self.own.adopt(state.own)
                        state.own = self.own
                        state.is_root = False
                    state.is_ready = True

    def before(self, module: Module, args: tuple, kwargs: dict) -> tuple:
        if not self.is_ready:
            self._lead()
        self._running += 1
        if self.unit is not None:
            self.conductor.before_forward(self.unit)
        if self._inputs_cast is not None:
            args, kwargs = cast_floats((args, kwargs), self._inputs_cast)
        return args, kwargs

    def after(self, module: Module, args: tuple, output: Any) -> Any:
        self._running -= 1
        if output is not None and self.policy.output_dtype is not None:
            output = cast_floats(output, self.policy.output_dtype)
        if self._running % len(self.modules) == 0 and self.unit is not None:
            self.conductor.after_forward(self.unit, output)
        return output

    def reshard(self) -> None:
        if self.unit is not None:
            self.unit.reshard()


class UnshardHandle:
    """A gathering that is under way."""

    def __init__(self, unit: Any) -> None:
        self._unit = unit

    def wait(self) -> None:
        """Whole parameters are in the module afterwards."""
        if self._unit is not None:
            self._unit.unshard()
            self._unit = None


class FSDPModule:
    """What `fully_shard` adds to a module."""

    _fsdp_state: Any
    _fsdp_original: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A new module of this kind is a plain one."""
        kind = cls._fsdp_original
        made = kind.__new__(kind)
        made.__init__(*args, **kwargs)
        return made

    def _get_fsdp_state(self) -> Any:
        return self._fsdp_state

    def _units(self, recurse: bool = True) -> list:
        modules = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        states = [m.__dict__.get("_fsdp_state") for m in modules]
        units = [s.unit for s in states if s is not None and s.unit is not None]
        return list(dict.fromkeys(units))

    def _conductors(self) -> list:
        return list({id(u.conductor): u.conductor for u in self._units()}.values())

    def reshard(self) -> None:
        """Free whole parameters; only this module's own."""
        self._fsdp_state.reshard()

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather parameters; only this module's own."""
        unit = self._fsdp_state.unit
        if unit is not None:
            unit.start()
        handle = UnshardHandle(unit)
        if async_op:
            return handle
        handle.wait()
        return None

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Is the next backward the last one before the optimizer steps?"""
        for conductor in self._conductors():
            conductor.is_last_backward = is_last_backward

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Add up gradients over processes in backward? Otherwise they wait on this process."""
        for unit in self._units(recurse):
            unit.syncs = unit.all_reduces = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Add up gradients over replicas in backward?"""
        for unit in self._units(recurse):
            unit.all_reduces = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Free whole parameters after forward?"""
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(
                f"reshard_after_forward should be a bool, got {type(reshard_after_forward)}"
            )
        for unit in self._units(recurse):
            unit.reshards_after_forward = reshard_after_forward

    def set_reshard_after_backward(
        self, reshard_after_backward: bool, *, recurse: bool = True
    ) -> None:
        """Free whole parameters after backward?"""
        for unit in self._units(recurse):
            unit.reshards_after_backward = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules: Sequence[Any]) -> None:
        """Modules whose gathering starts when this one runs."""
        _check_modules(modules)
        for unit in self._units(recurse=False):
            unit.ahead_in_forward = [u for m in modules for u in m._units(recurse=False)]

    def set_modules_to_backward_prefetch(self, modules: Sequence[Any]) -> None:
        """Modules whose gathering starts when backward enters this one."""
        _check_modules(modules)
        for unit in self._units(recurse=False):
            unit.ahead_in_backward = [u for m in modules for u in m._units(recurse=False)]

    def set_all_reduce_hook(self, hook: Callable, *, stream: Any = None) -> None:
        """hook(sums) after sums over replicas."""
        for unit in self._units(recurse=False):
            unit.after_all_reduce = hook

    def set_gradient_divide_factor(self, factor: float) -> None:
        """What sums of gradients are divided by; the number of processes by default."""
        for unit in self._units(recurse=False):
            unit.divisor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Gather parameters for backward? Not needed where it does not read them."""
        for unit in self._units(recurse=False):
            unit.gathers_in_backward = unshard_in_backward

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Sums are always made by adding and dividing afterwards."""

    def set_allocate_memory_from_process_group_for_comm(self, enable: bool) -> None:
        """Memory for collectives needs no registration here."""

    def set_post_optim_event(self, event: Any) -> None:
        """There are no streams to wait for."""

    def reset_iter_state(self) -> None:
        """Forget a forward that was broken off."""
        for conductor in self._conductors():
            conductor.in_backward = False
            for unit in conductor.units:
                unit.prepared = False
                unit._arrived.clear()

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        for unit in self._units():
            unit.reshard()
        applied = super()._apply(*args, **kwargs)  # type: ignore[misc]
        for unit in self._units():
            unit.refresh()
        return applied


def _check_modules(modules):
    for m in modules:
        if not isinstance(m, FSDPModule):
            raise ValueError(f"Expects FSDPModule but got {type(m)}")


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Another method of a sharded module that counts as forward: parameters are gathered for it."""
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    method = getattr(type(module), method_name)
    state = module._fsdp_state

    @functools.wraps(method)
    def gathered(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = state.before(module, args, kwargs)
        return state.after(module, args, method(module, *args, **kwargs))

    module.__dict__[method_name] = gathered


def share_comm_ctx(modules: Sequence[Any]) -> None:
    """Several models are led together, as stages of a pipeline are."""
    first = modules[0]._fsdp_state
    for m in modules[1:]:
        first.conductor.adopt(m._fsdp_state.conductor)
