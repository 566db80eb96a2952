"""FullyShardedDataParallel: a wrapper around a model, and around parts of it, that shards."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import flambeau
from flambeau import Tensor, distributed
from flambeau.distributed.fsdp import building, state_dicts
from flambeau.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    MixedPrecision,
    OptimStateKeyType,
    ShardingStrategy,
    StateDictSettings,
    StateDictType,
)
from flambeau.distributed.fsdp.api import FullOptimStateDictConfig as FullOptimStateDictConfig
from flambeau.distributed.fsdp.api import FullStateDictConfig as FullStateDictConfig
from flambeau.distributed.fsdp.api import LocalOptimStateDictConfig as LocalOptimStateDictConfig
from flambeau.distributed.fsdp.api import LocalStateDictConfig as LocalStateDictConfig
from flambeau.distributed.fsdp.api import OptimStateDictConfig as OptimStateDictConfig
from flambeau.distributed.fsdp.api import ShardedOptimStateDictConfig as ShardedOptimStateDictConfig
from flambeau.distributed.fsdp.api import ShardedStateDictConfig as ShardedStateDictConfig
from flambeau.distributed.fsdp.api import StateDictConfig as StateDictConfig
from flambeau.distributed.fsdp.building import HYBRID
from flambeau.distributed.fsdp.flat_parameters import FlatUnit
from flambeau.distributed.fsdp.optim_methods import OptimizerStates
from flambeau.distributed.fsdp.state_dicts import FLAT, WRAPPED, clean
from flambeau.distributed.fsdp.units import Conductor, cast_floats, places_of
from flambeau.distributed.fsdp.wrap import wrap_parts
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

__all__ = ["FullyShardedDataParallel", "OptimStateKeyType"]

KEEPS = (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)


class FullyShardedDataParallel(OptimizerStates, Module):
    """A model of which each process has a part.

    Parameters of the module, but for those of parts that are wrapped themselves, are put into one
    vector which is cut evenly; it is gathered when the module runs, forward and backward, and
    gradients are added up and cut in the same way.

    Args:
        module: the model.
        process_group: who shares it; for hybrid strategies a pair (shards, replicas).
        sharding_strategy: what is cut and when; FULL_SHARD by default.
        auto_wrap_policy: which parts are wrapped on their own (wrap.py).
        backward_prefetch: gather for backward ahead of time.
        mixed_precision: dtypes.
        ignored_modules: modules that are left alone; ignored_states: the same, or parameters.
        param_init_fn: gives parameters of a module on the meta device values.
        sync_module_states: take parameters and buffers of the first process.
        forward_prefetch: gather for forward ahead of time.
        use_orig_params: show each parameter's part to optimizers instead of the vector.
        device_mesh: of one dimension, which shards, or of two, the first of which replicates.
    """

    def __init__(
        self,
        module: Module,
        process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Any = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], None] | None = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Any = None,
        device_mesh: Any = None,
    ) -> None:
        super().__init__()
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        if not isinstance(strategy, ShardingStrategy):
            raise AssertionError(f"{strategy} is no ShardingStrategy")
        if ignored_modules is not None and ignored_states is not None:
            raise ValueError(
                "Cannot pass both ignored_modules and ignored_states at the same time. Please just "
                "pass ignored_states."
            )
        ignored, states = building.ignored(ignored_modules, ignored_states)
        group, replicas = building.groups(process_group, device_mesh, strategy)
        own = dict(
            process_group=process_group,
            sharding_strategy=strategy,
            cpu_offload=cpu_offload,
            backward_prefetch=backward_prefetch,
            mixed_precision=mixed_precision,
            param_init_fn=param_init_fn,
            device_id=device_id,
            sync_module_states=sync_module_states,
            forward_prefetch=forward_prefetch,
            limit_all_gathers=limit_all_gathers,
            use_orig_params=use_orig_params,
            ignored_states=ignored_states if ignored_modules is None else list(ignored_modules),
            device_mesh=device_mesh,
        )
        if strategy in HYBRID and process_group is None and device_mesh is None:
            own["process_group"] = (group, replicas)  # parts share the groups
        if auto_wrap_policy is not None:
            building.wrap_exceptions(
                FullyShardedDataParallel, module, mixed_precision, own, ignored
            )
            wrap_parts(module, auto_wrap_policy, FullyShardedDataParallel, own, ignored)
        self._fsdp_wrapped_module = module
        self.__dict__["_ignored"], self.__dict__["_ignored_params"] = ignored, states
        self.process_group, self.sharding_strategy = group, strategy
        self.mixed_precision = mixed_precision or MixedPrecision()
        self.cpu_offload = cpu_offload or CPUOffload()
        self.backward_prefetch, self.forward_prefetch = backward_prefetch, forward_prefetch
        self.limit_all_gathers, self.training = limit_all_gathers, module.training
        self.__dict__["_settings"] = state_dicts.settings_for(StateDictType.FULL_STATE_DICT)
        self.__dict__["_is_summoned"] = False
        self.__dict__["_is_root"] = None
        modules = [m for m in building.owned(module) if id(m) not in ignored]
        building.materialize(modules, param_init_fn)
        if sync_module_states:
            building.synchronize(modules, group, replicas)
        found = places_of(modules, states)
        self.__dict__["_unit"] = self._made_unit(
            found, modules, group, replicas, strategy, use_orig_params
        )
        self.register_load_state_dict_post_hook(_clean_keys)

    def _made_unit(self, found, modules, group, replicas, strategy, use_orig_params):
        if not found:
            self.__dict__["_own"] = Conductor(None)
            return None
        paths = {id(m): name for name, m in self._fsdp_wrapped_module.named_modules()}
        names = {
            key: clean(f"{paths[id(places[0][0])]}.{places[0][1]}").lstrip(".")
            for key, (_, places) in found.items()
        }
        shards = strategy is not ShardingStrategy.NO_SHARD
        unit = FlatUnit(
            found, names, group, replicas, shards, use_orig_params, self.mixed_precision
        )
        if strategy in KEEPS or not shards:
            unit.reshards_after_forward = False
        else:
            unit.reshards_after_forward = None  # all but the root
        if not use_orig_params:
            self._fsdp_wrapped_module._parameters[FLAT] = unit.flat_param
        self.__dict__["_own"] = unit.conductor = Conductor(unit)
        return unit

    # -- the model inside --------------------------------------------------------------------------
    @property
    def module(self) -> Any:
        """The module that is wrapped."""
        return self._fsdp_wrapped_module

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == WRAPPED:
                raise
            return getattr(self._fsdp_wrapped_module, name)

    def __getitem__(self, key: Any) -> Any:
        return self.module[key]

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list["FullyShardedDataParallel"]:
        """All wrapped parts of a module; root_only: those that are not within others."""
        if not root_only:
            return [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        if isinstance(module, FullyShardedDataParallel):
            return [module]
        return [
            f for c in module.children() for f in FullyShardedDataParallel.fsdp_modules(c, True)
        ]

    def check_is_root(self) -> bool:
        """Is it the outermost one?"""
        self._lead()
        return bool(self._is_root)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Parameter]]:
        """Names and parameters; names are the model's own while whole parameters are summoned."""
        for name, p in super().named_parameters(*args, **kwargs):
            yield (clean(name) if self._is_summoned else name), p

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Tensor]]:
        """Names and buffers; names are the model's own while whole parameters are summoned."""
        for name, b in super().named_buffers(*args, **kwargs):
            yield (clean(name) if self._is_summoned else name), b

    def apply(self, fn: Callable[[Module], None]) -> "FullyShardedDataParallel":
        """fn of every module, which sees whole parameters."""
        with self.summon_full_params(self):
            return super().apply(fn)

    def _apply(self, fn: Callable, recurse: bool = True) -> Any:
        for m in self.fsdp_modules(self):
            if m._unit is not None:
                m._unit.reshard()
        applied = super()._apply(fn, recurse)
        if self._unit is not None:
            self._unit.refresh()
        return applied

    # -- running -----------------------------------------------------------------------------------
    def _lead(self):
        """The first one that runs leads all parts of it."""
        if self._is_root is not None:
            return
        conductor = self._own
        conductor.prefetches = self.backward_prefetch is not None
        conductor.prefetches_forward = self.forward_prefetch
        for m in self.fsdp_modules(self):
            m.__dict__["_is_root"] = m is self
            if m is not self:
                conductor.adopt(m._own)
                m.__dict__["_own"] = conductor
            if m.mixed_precision.buffer_dtype is not None:
                building.cast_buffers(m, m.mixed_precision.buffer_dtype)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self._lead()
        unit, conductor, precision = self._unit, self._own, self.mixed_precision
        if unit is not None:
            conductor.before_forward(unit)
        casts = precision.cast_forward_inputs or (
            self._is_root and precision.cast_root_forward_inputs
        )
        if casts and precision.param_dtype is not None:
            args, kwargs = cast_floats((args, kwargs), precision.param_dtype)
        output = self._fsdp_wrapped_module(*args, **kwargs)
        return output if unit is None else conductor.after_forward(unit, output)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients stay on this process in here; the next backward outside adds them up, too."""
        self._lead()
        if not self._is_root:
            raise RuntimeError(
                "`no_sync()` on inner FSDP instances is not supported. Please call `no_sync()` on "
                "root FSDP module."
            )
        units = [m._unit for m in self.fsdp_modules(self) if m._unit is not None]
        for unit in units:
            unit.syncs = False
        try:
            yield
        finally:
            for unit in units:
                unit.syncs = True

    def register_comm_hook(self, state: object, hook: Callable) -> None:
        """hook(state, gradients, part) adds up the gradients of all and writes this one's part."""
        if not self.check_is_root():
            raise AssertionError("register_comm_hook can only be called on a root instance.")
        for m in self.fsdp_modules(self):
            if m.sharding_strategy in HYBRID:
                raise AssertionError(
                    "Communication hook is currently not supported for hybrid strategies: "
                    f"{m.sharding_strategy}"
                )
            if m._unit is not None:
                m._unit.hook, m._unit.hook_state = hook, state

    @flambeau.no_grad()
    def clip_grad_norm_(self, max_norm: float | int, norm_type: float | int = 2.0) -> Tensor:
        """Scale gradients so that their norm, over all processes, is at most max_norm."""
        self._lead()
        if not self._is_root:
            raise RuntimeError(
                "`clip_grad_norm_()` should only be called on the root FSDP instance"
            )
        max_norm, norm_type = float(max_norm), float(norm_type)
        cut = {
            id(p)
            for m in self.fsdp_modules(self)
            if m._unit is not None and m._unit.shards
            for p in m._unit.parameters()
        }
        params = [p for p in self.parameters() if p.grad is not None]
        mine = _norm([p.grad for p in params if id(p) in cut], norm_type)
        whole = _norm([p.grad for p in params if id(p) not in cut], norm_type)
        if norm_type == float("inf"):
            distributed.all_reduce(mine, op=distributed.ReduceOp.MAX, group=self.process_group)
            total = flambeau.maximum(mine, whole)
        else:
            mine = mine**norm_type
            distributed.all_reduce(mine, group=self.process_group)
            total = (mine + whole**norm_type) ** (1.0 / norm_type)
        factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for p in params:
            p.grad.mul_(factor.to(p.grad.dtype))  # type: ignore[union-attr]
        kinds = {p.grad.dtype for p in params}  # type: ignore[union-attr]
        return total.to(kinds.pop() if len(kinds) == 1 else flambeau.float32)

    # -- whole parameters --------------------------------------------------------------------------
    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """Whole parameters stand in the modules in here.

        Args:
            recurse: those of all parts, too.
            writeback: keep what is written to them (not on ranks that rank0_only leaves out).
            with_grads: whole gradients, too.
        """
        every = FullyShardedDataParallel.fsdp_modules(module)
        every = [m for m in every if not m._is_summoned and (recurse or m is module)]
        writeback = writeback and not (rank0_only and distributed.get_rank())
        with contextlib.ExitStack() as stack:
            for m in every:
                if m._own.in_backward:
                    raise AssertionError(
                        "Cannot manually unshard parameters during forward/backward"
                    )
                stack.enter_context(
                    state_dicts.summoned(m._unit, m._fsdp_wrapped_module, writeback, with_grads)
                )
                m.__dict__["_is_summoned"] = True
            try:
                yield
            finally:
                for m in every:
                    m.__dict__["_is_summoned"] = False

    # -- state dicts -------------------------------------------------------------------------------
    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """The state of the model inside, in the kind that `state_dict_type` says."""
        given = dict(zip(("destination", "prefix", "keep_vars"), args))
        destination = given.get("destination", destination)
        prefix = given.get("prefix", prefix)
        return state_dicts.saved(self, destination, prefix, given.get("keep_vars", keep_vars))

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        state_dicts.offered(self, state_dict, prefix, missing_keys, error_msgs)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> StateDictSettings:
        """Which state dicts all wrapped parts give from now on; gives the settings before."""
        settings = state_dicts.settings_for(
            state_dict_type, state_dict_config, optim_state_dict_config
        )
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for m in FullyShardedDataParallel.fsdp_modules(module):
            m.__dict__["_settings"] = settings
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """Which state dicts the wrapped parts give."""
        found = [m._settings for m in FullyShardedDataParallel.fsdp_modules(module)]
        if any(s != found[0] for s in found):
            raise AssertionError("All FSDP modules must have the same state dict settings.")
        return found[0] if found else state_dicts.settings_for(StateDictType.FULL_STATE_DICT)

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> Iterator[None]:
        """A context with another kind of state dicts."""
        set_to = FullyShardedDataParallel.set_state_dict_type
        before = set_to(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            set_to(
                module,
                before.state_dict_type,
                before.state_dict_config,
                before.optim_state_dict_config,
            )


def _norm(grads, order):
    dtype = (
        flambeau.float64 if any(g.dtype is flambeau.float64 for g in grads) else flambeau.float32
    )
    parts = [flambeau.linalg.vector_norm(g.detach().to(dtype), order) for g in grads if g.numel()]
    if not parts:
        return flambeau.zeros((), dtype=dtype)
    return flambeau.linalg.vector_norm(flambeau.stack(parts), order)


def _clean_keys(module, keys):
    for names in keys:
        names[:] = [clean(name) for name in names]
