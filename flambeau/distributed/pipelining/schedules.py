"""In which order stages run small batches, forward and backward.

All processes play the same game with the same rules before the first step: in each round every
process takes one move of those that are possible, by a priority. What a process took is its order.
So orders fit together for any number of stages and small batches, and nobody waits for a message
that is not on its way.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from flambeau.autograd.grad_mode import no_grad
from flambeau.distributed.pipelining.microbatch import (
    merge_chunks,
    split_args_kwargs_into_chunks,
)

__all__ = [
    "PipelineScheduleMulti",
    "PipelineScheduleSingle",
    "Schedule1F1B",
    "ScheduleDualPipeV",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble",
]


class Move(NamedTuple):
    """A small batch through a stage."""

    is_backward: bool
    stage: int
    batch: int


def orders(owners: dict[int, int], batches: int, breadth_first: bool) -> dict[int, list[Move]]:
    """The moves of every process; owners: stage -> process.

    breadth_first: all forwards come first. Otherwise backward goes first where it can, and a
    process has no more batches under way than it needs to keep everybody busy.
    """
    stages, ranks = len(owners), max(owners.values()) + 1
    own = {r: [s for s, owner in owners.items() if owner == r] for r in range(ranks)}
    limits = {
        r: batches * stages if breadth_first else _limit(r, ranks, len(own[r]), owners, own[r])
        for r in range(ranks)
    }
    left = {Move(b, s, k) for b in (False, True) for s in range(stages) for k in range(batches)}
    done: set[Move] = set()
    found: dict[int, list[Move]] = {r: [] for r in range(ranks)}
    while left:
        round_ = {r: _best(own[r], left, done, limits[r], breadth_first, ranks) for r in own}
        if not any(round_.values()):  # limits were too narrow: let everybody go on
            round_ = {r: _best(own[r], left, done, None, breadth_first, ranks) for r in own}
        for r, move in round_.items():
            if move is not None:
                found[r].append(move)
                left.discard(move)
        done.update(m for m in round_.values() if m is not None)
    return found


def _limit(rank, ranks, count, owners, own):
    if count == 1:
        return len(owners) - own[0]
    return (ranks - rank - 1) * 2 + (count - 1) * ranks + 1


def _is_possible(move, done, last):
    if move.is_backward:
        needs = [Move(False, move.stage, move.batch)]
        if move.stage != last:
            needs.append(Move(True, move.stage + 1, move.batch))
    else:
        needs = [Move(False, move.stage - 1, move.batch)] if move.stage else []
    return all(n in done for n in needs)


def _best(own, left, done, limit, breadth_first, ranks):
    last = max(m.stage for m in left | done)
    mine = [m for m in left if m.stage in own and _is_possible(m, done, last)]
    under_way = sum(1 if not m.is_backward else -1 for m in done if m.stage in own)
    if limit is not None and under_way >= limit:
        mine = [m for m in mine if m.is_backward]
    if breadth_first:
        if any(not m.is_backward for m in left if m.stage in own):
            mine = [m for m in mine if not m.is_backward]
        return min(mine, key=lambda m: (-m.stage if m.is_backward else m.stage, m.batch),
                   default=None)  # fmt: skip
    return min(
        mine,
        key=lambda m: (
            not m.is_backward,
            m.batch // ranks,
            -m.stage if m.is_backward else m.stage,
            m.batch,
        ),
        default=None,
    )


class _Schedule:
    """What all schedules do."""

    breadth_first = False

    def __init__(
        self,
        stages: list,
        n_microbatches: int,
        loss_fn: Callable | None,
        args_chunk_spec: Any,
        kwargs_chunk_spec: Any,
        output_merge_spec: Any,
        scale_grads: bool,
    ) -> None:
        self._stages, self._n_microbatches, self._loss_fn = stages, n_microbatches, loss_fn
        self._args_chunk_spec, self._kwargs_chunk_spec = args_chunk_spec, kwargs_chunk_spec
        self._output_merge_spec, self.scale_grads = output_merge_spec, scale_grads
        self._has_backward = loss_fn is not None
        self._owners = self._assigned()
        for stage in stages:
            stage.stage_index_to_group_rank = dict(self._owners)
            stage.has_backward = self._has_backward
        every = orders(self._owners, n_microbatches, self.breadth_first)
        self._order = every[stages[0].group_rank]
        self._by_index = {stage.stage_index: stage for stage in stages}
        for stage in stages:  # stages of one process hand each other what they made
            stage._kept = stages[0]._kept

    def _assigned(self) -> dict[int, int]:
        """Which process has which stage."""
        return dict(self._stages[0].stage_index_to_group_rank)

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run a batch; the process with the last stage gives the result.

        args are for the process with the first stage, target and losses for the one with the last.
        """
        return self._stepped(args, kwargs, target, losses, return_outputs, loss_kwargs or {}, True)

    def eval(
        self,
        *args: Any,
        target: Any = None,
        losses: list | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict | None = None,
        **kwargs: Any,
    ) -> Any:
        """The same without backward."""
        with no_grad():
            return self._stepped(
                args, kwargs, target, losses, return_outputs, loss_kwargs or {}, False
            )

    def _stepped(self, args, kwargs, target, losses, return_outputs, loss_kwargs, trains):
        count = self._n_microbatches
        parts, named = split_args_kwargs_into_chunks(
            args, kwargs, count, self._args_chunk_spec, self._kwargs_chunk_spec
        )
        for label, some in (("arg_mbs", parts if args else None), ("kwarg_mbs", named)):
            if some is not None and len(some) != count:
                raise ValueError(f"Expecting {count} {label} but got {len(some)}")
        goals = list(target.tensor_split(count)) if target is not None else None
        trains = trains and self._has_backward
        for stage in self._stages:
            stage.clear_runtime_states()
            stage.has_backward = trains
        outputs: dict[int, Any] = {}
        found: dict[int, Any] = {}
        last_of = {move.stage: move for move in self._order if move.is_backward}
        for move in self._order:
            stage = self._by_index[move.stage]
            if move.is_backward:
                if trains:
                    loss = found.get(move.batch) if stage.is_last else None
                    stage.backward_one_chunk(
                        move.batch, loss, last_backward=last_of[move.stage] == move
                    )
                continue
            out = stage.forward_one_chunk(move.batch, parts[move.batch], named[move.batch])
            if stage.is_last:
                outputs[move.batch] = out
                if self._loss_fn is not None and goals is not None:
                    found[move.batch] = self._loss_fn(out, goals[move.batch], **loss_kwargs)
        return self._ended(outputs, found, losses, return_outputs, trains)

    def _ended(self, outputs, found, losses, return_outputs, trains):
        for stage in self._stages:
            stage.finish()
            if trains:
                stage.perform_reduce_grad(self._n_microbatches if self.scale_grads else 1)
        if losses is not None:
            losses[:] = [found[k] for k in sorted(found)]
        if not outputs or not return_outputs:
            return None
        return merge_chunks([outputs[k] for k in sorted(outputs)], self._output_merge_spec)


class PipelineScheduleSingle(_Schedule):
    """Schedules of one stage per process."""

    def __init__(
        self,
        stage: Any,
        n_microbatches: int,
        loss_fn: Callable | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        if n_microbatches < stage.num_stages:
            raise ValueError(
                f"Number of microbatches ({n_microbatches}) must be greater than or equal to the "
                f"number of stages ({stage.num_stages})."
            )
        super().__init__(
            [stage],
            n_microbatches,
            loss_fn,
            args_chunk_spec,
            kwargs_chunk_spec,
            output_merge_spec,
            scale_grads,
        )


class ScheduleGPipe(PipelineScheduleSingle):
    """All small batches forward, then all backward."""

    breadth_first = True


class Schedule1F1B(PipelineScheduleSingle):
    """Forward and backward by turns, as soon as the first batch comes back."""


class PipelineScheduleMulti(_Schedule):
    """Schedules of several stages per process."""

    def __init__(
        self,
        stages: list,
        n_microbatches: int,
        loss_fn: Callable | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
        backward_requires_autograd: bool = True,
        defer_pp_recv: bool = False,
    ) -> None:
        super().__init__(
            stages,
            n_microbatches,
            loss_fn,
            args_chunk_spec,
            kwargs_chunk_spec,
            output_merge_spec,
            scale_grads,
        )


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """Forward and backward by turns; stages go around the processes."""


class ScheduleInterleavedZeroBubble(ScheduleInterleaved1F1B):
    """The same order; gradients of inputs and of weights are made together."""


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """All small batches through one stage after the other."""

    breadth_first = True

    def __init__(
        self,
        stages: list,
        n_microbatches: int,
        loss_fn: Callable | None = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
        backward_requires_autograd: bool = True,
        defer_pp_recv: bool = False,
    ) -> None:
        super().__init__(
            stages,
            n_microbatches,
            loss_fn,
            output_merge_spec=output_merge_spec,
            scale_grads=scale_grads,
        )


class ScheduleZBVZeroBubble(PipelineScheduleMulti):
    """Two stages per process, in the shape of a V: the first process has the last stage, too."""

    def _assigned(self) -> dict[int, int]:
        ranks, count = self._stages[0].group_size, self._stages[0].num_stages
        if count != 2 * ranks:
            raise ValueError("ZBV requires exactly 2 stages per rank.")
        return {s: min(s, count - 1 - s) for s in range(count)}


class ScheduleDualPipeV(ScheduleZBVZeroBubble):
    """The same stages in the same order."""
