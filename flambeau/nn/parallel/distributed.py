"""DistributedDataParallel: one replica of a model per process, gradients averaged over all.

`reducer.py` does the averaging. Saved states begin with "module.", as PyTorch's do.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import flambeau
from flambeau import Tensor, distributed
from flambeau.autograd.grad_mode import is_grad_enabled
from flambeau.distributed.algorithms.join import Join, Joinable, JoinHook
from flambeau.nn.modules.module import Module
from flambeau.nn.parallel.reducer import FIRST_BUCKET, Reducer, broadcast_coalesced
from flambeau.utils import _pytree as pytree

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module, Joinable):
    """A model whose gradients are averaged over the processes of a group.

    Each process feeds its own part of a batch. In backward, gradients are gathered in buckets of
    bucket_cap_mb megabytes that are averaged while the pass goes on; afterwards `.grad` is the same
    everywhere, and so is every optimizer step.

    Args:
        module: the model; its parameters and buffers become those of process 0.
        broadcast_buffers: give everybody the buffers of process 0 before each forward.
        process_group: who takes part; everybody by default.
        bucket_cap_mb: how much travels together.
        find_unused_parameters: look through the graph for parameters without a gradient.
        gradient_as_bucket_view: `.grad` is memory of the bucket, which saves a copy.
        static_graph: the same parameters are used in the same way in every step.

    Example:
        >>> import flambeau as torch
        >>> import flambeau.distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
        >>> model(torch.ones(4, 2)).sum().backward()
        >>> model.module.bias.grad
        tensor([4.])
        >>> dist.destroy_process_group()
    """

    module: Any

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[int] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        Module.__init__(self)
        if device_mesh is not None:
            process_group = device_mesh.get_group(0)
        group = distributed.groups.given_group(process_group)
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = [
            (name, p)
            for name, p in module.named_parameters()
            if p.requires_grad and name not in ignored
        ]
        if not named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters "
                "that require a gradient."
            )
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        places = {p.device for p in module.parameters()}
        if (device_ids or output_device is not None) and "cuda" not in {d.type for d in places}:
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with "
                "single-device/multiple-device GPU modules or CPU modules, but got device_ids "
                f"{device_ids}, output_device {output_device}, and module parameters {places}."
            )
        self.module, self.process_group = module, group
        self.device_ids, self.output_device, self.dim = device_ids, output_device, dim
        self.device = next(iter(places))
        self.broadcast_buffers = broadcast_buffers is not False
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * (1 << 20))
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.parameters_to_ignore = ignored
        self._buffers_to_sync = [b for n, b in module.named_buffers() if n not in ignored]
        if init_sync:
            self._check_alike(group)
            broadcast_coalesced(
                [p for n, p in module.named_parameters() if n not in ignored]
                + self._buffers_to_sync,
                group,
            )
        first = min(FIRST_BUCKET, self.bucket_bytes_cap)
        self.__dict__["reducer"] = Reducer(
            [p for _, p in named],
            [name for name, _ in named],
            group,
            first if bucket_cap_mb is None else self.bucket_bytes_cap,
            self.bucket_bytes_cap,
            find_unused_parameters,
            gradient_as_bucket_view,
            static_graph,
        )
        Joinable.__init__(self)

    def _check_alike(self, group):
        """All replicas must have the same parameters."""
        mine = [(tuple(p.shape), str(p.dtype)) for p in self.module.parameters()]
        everybodys: list = [None] * group.size()
        distributed.all_gather_object(everybodys, mine, group)
        for member, theirs in enumerate(everybodys):
            if len(theirs) != len(mine):
                raise RuntimeError(
                    f"DDP expects same model across all ranks, but Rank {group._world.rank} has "
                    f"{len(mine)} params, while rank {group._ranks[member]} has inconsistent "
                    f"{len(theirs)} params."
                )
            for k, (ours, other) in enumerate(zip(mine, theirs)):
                if ours != other:
                    raise RuntimeError(
                        f"[{member}]: params[{k}] in this process with sizes {list(ours[0])} "
                        f"appears not to match sizes of the same param in process {member}."
                    )

    # -- forward -----------------------------------------------------------------------------------
    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        Join.notify_join_context(self)
        self.reducer.divisor = self._divisor()
        if self.broadcast_buffers and self.require_forward_param_sync:
            broadcast_coalesced(self._buffers_to_sync, self.process_group)
        wants = is_grad_enabled() and self.require_backward_grad_sync
        if wants and not self.reducer.finished:
            self.reducer.prepare([])  # raises
        if self.device_ids:  # inputs may still be on the host
            inputs, kwargs = pytree.tree_map_only(
                Tensor, lambda t: t.to(self.device), (inputs, kwargs)
            )
        output = self.module(*inputs, **kwargs)
        if wants:
            leaves = [t for t in pytree.tree_leaves(output) if isinstance(t, Tensor)]
            self.reducer.prepare(leaves)
            self.require_forward_param_sync = True
        else:
            self.require_forward_param_sync = False
        return output

    def _divisor(self):
        config = self._join_config
        if config.enable and not config.by_initial_size:
            return config.active
        return self.process_group.size()

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Forwards in here let gradients add up on each process; the next one outside reduces."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: object, hook: Callable) -> None:
        """hook(state, bucket) sends each bucket and returns a future of its average."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        self.reducer.register(state, hook)

    def _set_static_graph(self):
        self.static_graph = self.reducer.static = True

    # -- uneven inputs -----------------------------------------------------------------------------
    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """A context in which processes may run out of inputs at different times."""
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What this model does on a process that has no inputs left."""
        return _DDPJoinHook(self)

    @property
    def join_device(self) -> Any:
        """Where its tensors are."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """Who takes part."""
        return self.process_group

    # -- pickling: groups stay where they are ------------------------------------------------------
    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k not in ("process_group", "reducer")}

    def __setstate__(self, state):
        module, options = state["_modules"]["module"], dict(state)
        self.__init__(
            module,
            broadcast_buffers=options["broadcast_buffers"],
            bucket_cap_mb=options["bucket_bytes_cap"] / (1 << 20),
            find_unused_parameters=options["find_unused_parameters"],
            gradient_as_bucket_view=options["gradient_as_bucket_view"],
            static_graph=options["static_graph"],
            init_sync=False,
        )


class _DDPJoinHook(JoinHook):
    def __init__(self, ddp: DistributedDataParallel) -> None:
        self.ddp = ddp

    def main_hook(self) -> None:
        """Somebody else makes a step."""
        ddp = self.ddp
        ddp.reducer.divisor = ddp._divisor()
        if ddp.broadcast_buffers and ddp._buffers_to_sync:
            broadcast_coalesced(ddp._buffers_to_sync, ddp.process_group)
        ddp.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Everybody gets the model of the last who made steps."""
        ddp = self.ddp
        last = flambeau.tensor([ddp.process_group.rank() if is_last_joiner else -1])
        distributed.all_reduce(last, op=distributed.ReduceOp.MAX, group=ddp.process_group)
        tensors = [*ddp.module.parameters(), *ddp._buffers_to_sync]
        broadcast_coalesced(tensors, ddp.process_group, int(last))
