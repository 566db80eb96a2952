"""ZeroRedundancyOptimizer: each process keeps the state of its share of the parameters.

Parameters are dealt out whole, the largest first, each to the process that has least so far. A
process steps its own and broadcasts them. The states together are as large as one. (Rajbhandari and
others, 2020, stage 1.)
"""

from collections.abc import Callable, Iterable
from typing import Any

import flambeau
from flambeau import Tensor, distributed
from flambeau.distributed.algorithms.join import Joinable, JoinHook
from flambeau.optim.optimizer import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer whose state is spread over the processes of a group.

    Args:
        params: all parameters; the same on every process.
        optimizer_class: what steps each share.
        process_group: who shares.
        defaults: options of optimizer_class.
    """

    def __init__(
        self,
        params: Iterable,
        optimizer_class: type,
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        self._group = distributed.groups.given_group(process_group)
        self._class, self._options = optimizer_class, defaults
        self.optim: Any = None
        Optimizer.__init__(self, params, defaults)
        self._deal()
        self._all_states: list[dict] = []
        Joinable.__init__(self)

    def _deal(self):
        """Give every parameter an owner, and make the optimizer of this process's share."""
        size, self.owner = self._group.size(), {}
        loads = [0] * size
        every = [p for group in self.param_groups for p in group["params"]]
        for p in sorted(every, key=lambda p: -p.numel()):
            member = loads.index(min(loads))
            self.owner[p] = member
            loads[member] += p.numel()
        mine = self._group.rank()
        self._places = [k for k, g in enumerate(self.param_groups) if self._share(g, mine)]
        shares = [
            {**self.param_groups[k], "params": self._share(self.param_groups[k], mine)}
            for k in self._places
        ]
        self.optim = self._class(shares, **self._options) if shares else None
        if self.optim is not None:
            for k, inner in zip(self._places, self.optim.param_groups):
                for name, value in inner.items():
                    self.param_groups[k].setdefault(name, value)

    def _share(self, group, member):
        return [p for p in group["params"] if self.owner[p] == member]

    def add_param_group(self, param_group: dict) -> None:
        """More parameters; shares are dealt anew, and begin without state."""
        Optimizer.add_param_group(self, param_group)
        if self.optim is not None:
            self._deal()

    def step(self, closure: Callable | None = None, **kwargs: Any) -> Any:
        """Step this process's share, then exchange."""
        loss = None
        if closure is not None:
            with flambeau.enable_grad():
                loss = closure()
        if self.optim is not None:
            for k, inner in zip(self._places, self.optim.param_groups):
                inner.update({n: v for n, v in self.param_groups[k].items() if n != "params"})
            self.optim.step(**kwargs)
        self._exchange()
        return loss

    def _exchange(self):
        for member in range(self._group.size()):
            owned = [p for p, owner in self.owner.items() if owner == member]
            by_dtype: dict = {}
            for p in owned:
                by_dtype.setdefault(p.dtype, []).append(p.detach())
            for some in by_dtype.values():
                whole = flambeau.cat([p.reshape(-1) for p in some])
                distributed.broadcast(whole, group=self._group, group_src=member)
                if member != self._group.rank():
                    for p, part in zip(some, whole.split([p.numel() for p in some])):
                        p.copy_(part.view(p.shape))

    # -- states ----------------------------------------------------------------------------------
    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring all shares of the state to one process, before state_dict() there."""
        states: list = [None] * self._group.size()
        mine = {} if self.optim is None else self._by_place()
        distributed.all_gather_object(states, mine, self._group)
        self._all_states = states if self._group.rank() == to else []

    def _by_place(self):
        """The state of this process's parameters, by their place among all."""
        places = {p: k for k, p in enumerate(self._every())}
        return {places[p]: dict(state) for p, state in self.optim.state.items()}

    def _every(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def state_dict(self) -> dict:
        """The whole state, as that of one optimizer over all parameters."""
        if not self._all_states:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self._group.rank()})` on all ranks beforehand if you "
                "meant to save the global state."
            )
        state: dict = {}
        for share in self._all_states:
            state.update(share)
        groups, count = [], 0
        for group in self.param_groups:
            numbers = list(range(count, count + len(group["params"])))
            count += len(numbers)
            groups.append({**{n: v for n, v in group.items() if n != "params"}, "params": numbers})
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: dict) -> None:
        """Take this process's share of a whole state."""
        for group, saved in zip(self.param_groups, state_dict["param_groups"]):
            group.update({n: v for n, v in saved.items() if n != "params"})
        if self.optim is None:
            return
        whole, places = state_dict["state"], {p: k for k, p in enumerate(self._every())}
        inner = self.optim.state_dict()
        mine = [p for group in self.optim.param_groups for p in group["params"]]
        inner["state"] = {k: whole[places[p]] for k, p in enumerate(mine) if places[p] in whole}
        self.optim.load_state_dict(inner)

    # -- uneven inputs -----------------------------------------------------------------------------
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """A process without inputs still steps its share."""
        return _StepHook(self)

    @property
    def join_device(self) -> Any:
        """Where its tensors are."""
        return flambeau.device("cpu")

    @property
    def join_process_group(self) -> Any:
        """Who shares."""
        return self._group


class _StepHook(JoinHook):
    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self.optimizer = optimizer

    def main_hook(self) -> None:
        """Somebody else makes a step."""
        self.optimizer.step()
