"""A stage of a pipeline: a part of a model, and what it sends to its neighbours."""

import contextlib
from typing import Any

import flambeau
from flambeau import Tensor, distributed
from flambeau._dtype import BY_NAME
from flambeau.distributed.groups import get_global_rank, given_group
from flambeau.nn.modules.module import Module
from flambeau.utils import _pytree as pytree

__all__ = ["PipelineStage"]

HEADER = 256  # numbers that tell what follows: how many tensors, of which kinds and shapes
LIMIT = 1 << 12  # small batches per step, as far as tags tell them apart
FORWARD, BACKWARD = 0, 1
_NAMES = sorted(BY_NAME)


class PipelineStage:
    """A part of a model on this process.

    Args:
        submodule: the part.
        stage_index: its place.
        num_stages: how many there are; stages go around the processes of the group.
        device: where it runs.
        group: who takes part.

    Shapes travel with the data, so `input_args` and `output_args` are not needed.
    """

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: Any,
        input_args: Any = None,
        output_args: Any = None,
        output_grads: Any = None,
        input_grads: Any = None,
        group: Any = None,
        dw_builder: Any = None,
        get_mesh: Any = None,
    ) -> None:
        if stage_index >= num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device, self.group = device, given_group(group)
        self.group_size, self.group_rank = self.group.size(), self.group.rank()
        if self.group_size > num_stages:
            raise RuntimeError(
                f"Pipeline group size {self.group_size} cannot be larger than number of stages "
                f"{num_stages}"
            )
        # which process has which stage; schedules may say otherwise
        self.stage_index_to_group_rank = {k: k % self.group_size for k in range(num_stages)}
        self.has_backward = False
        self._sends: list = []
        self._inputs: dict[int, list] = {}
        self._outputs: dict[int, list] = {}
        self._kept: dict[tuple, Any] = {}  # what stages of one process hand each other

    @property
    def is_first(self) -> bool:
        """Does it get the batch?"""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Does it give the result?"""
        return self.stage_index == self.num_stages - 1

    # -- messages ----------------------------------------------------------------------------------
    def _peer(self, stage):
        return get_global_rank(self.group, self.stage_index_to_group_rank[stage])

    def _is_here(self, stage):
        return self.stage_index_to_group_rank[stage] == self.group_rank

    def _tag(self, kind, sender, batch):
        return ((sender * LIMIT + batch) * 2 + kind) % (1 << 20)

    def _send(self, tensors, to, kind, batch):
        """Tensors to another stage; None where there is nothing."""
        if self._is_here(to):
            self._kept[kind, self.stage_index, batch] = tensors
            return
        peer, tag = self._peer(to), self._tag(kind, self.stage_index, batch)
        header = flambeau.tensor(_described(tensors), dtype=flambeau.int64)
        for t in (header, *[t.detach().contiguous() for t in tensors if t is not None]):
            self._sends.append((distributed.isend(t, peer, self.group, tag), t))

    def _receive(self, source, kind, batch):
        if self._is_here(source):
            return self._kept.pop((kind, source, batch))
        peer, tag = self._peer(source), self._tag(kind, source, batch)
        header = flambeau.empty(HEADER, dtype=flambeau.int64)
        distributed.recv(header, peer, self.group, tag)
        found = []
        for fact in _facts(header.tolist()):
            if fact is None:
                found.append(None)
                continue
            dtype, shape, requires_grad = fact
            t = flambeau.empty(shape, dtype=dtype)
            if t.numel():
                distributed.recv(t, peer, self.group, tag)
            found.append(t.requires_grad_(requires_grad))
        return found

    # -- steps -------------------------------------------------------------------------------------
    def forward_one_chunk(self, fwd_chunk_id: int, args: tuple, kwargs: dict | None = None) -> Any:
        """Run a small batch, and send on what it gives."""
        if not self.is_first:
            given = self._receive(self.stage_index - 1, FORWARD, fwd_chunk_id)
            # what came from here is cut off: backward stops at stages
            given = [t.detach().requires_grad_(t.requires_grad) for t in given]
            self._inputs[fwd_chunk_id] = given
            args = tuple(given)
        else:
            self._inputs[fwd_chunk_id] = [t for t in pytree.tree_leaves(args) if _flows(t)]
        with contextlib.nullcontext() if self.has_backward else flambeau.no_grad():
            output = self._run(args, kwargs or {})
        outputs = list(output) if isinstance(output, (tuple, list)) else [output]
        self._outputs[fwd_chunk_id] = outputs
        if not self.is_last:
            self._send(outputs, self.stage_index + 1, FORWARD, fwd_chunk_id)
        return output

    def _run(self, args, kwargs):
        if self._is_replicated():
            with self.submod.no_sync():
                return self.submod(*args, **kwargs)
        return self.submod(*args, **kwargs)

    def _is_replicated(self):
        from flambeau.nn.parallel import DistributedDataParallel

        return isinstance(self.submod, DistributedDataParallel)

    def backward_one_chunk(
        self,
        bwd_chunk_id: int,
        loss: Any = None,
        full_backward: bool = True,
        last_backward: bool = False,
    ) -> None:
        """Backward of a small batch, from its loss or from what the next stage sends."""
        outputs, inputs = self._outputs.pop(bwd_chunk_id), self._inputs.pop(bwd_chunk_id)
        if hasattr(self.submod, "set_requires_gradient_sync"):
            self.submod.set_requires_gradient_sync(last_backward)
        if self.is_last:
            loss.backward()
        else:
            grads = self._receive(self.stage_index + 1, BACKWARD, bwd_chunk_id)
            wanted = [(t, g) for t, g in zip(outputs, grads) if _flows(t) and g is not None]
            if wanted:
                flambeau.autograd.backward([t for t, _ in wanted], [g for _, g in wanted])
        if not self.is_first:
            back = [t.grad if isinstance(t, Tensor) else None for t in inputs]
            self._send(back, self.stage_index - 1, BACKWARD, bwd_chunk_id)

    def finish(self) -> None:
        """Wait until everything has been sent."""
        for work, _ in self._sends:
            work.wait()
        self.clear_runtime_states()

    def clear_runtime_states(self) -> None:
        """Forget the small batches of a step."""
        self._sends.clear()
        self._inputs.clear()
        self._outputs.clear()
        self._kept.clear()

    def scale_grads(self, grad_scale_factor: int) -> None:
        """Divide gradients, as those of small batches have been added up."""
        for p in self.submod.parameters():
            if p.grad is not None and grad_scale_factor != 1:
                p.grad.div_(grad_scale_factor)

    def perform_reduce_grad(self, grad_scale_factor: int) -> None:
        """Average gradients over replicas where the part has some, then scale them."""
        if self._is_replicated():
            group = self.submod.process_group
            for p in self.submod.parameters():
                if p.grad is not None:
                    distributed.all_reduce(p.grad, distributed.ReduceOp.AVG, group)
        self.scale_grads(grad_scale_factor)


def _flows(t):
    return isinstance(t, Tensor) and t.requires_grad


def _described(tensors):
    """Numbers that tell what tensors follow."""
    numbers = [len(tensors)]
    for t in tensors:
        if t is None:
            numbers.append(-1)
            continue
        numbers += [_NAMES.index(t.dtype.name), int(t.requires_grad), t.dim(), *t.shape]
    if len(numbers) > HEADER:
        raise ValueError(f"a stage gives too many tensors: {len(tensors)}")
    return numbers + [0] * (HEADER - len(numbers))


def _facts(numbers):
    rest = iter(numbers)
    for _ in range(next(rest)):
        kind = next(rest)
        if kind < 0:
            yield None
            continue
        requires_grad, ndim = bool(next(rest)), next(rest)
        yield BY_NAME[_NAMES[kind]], tuple(next(rest) for _ in range(ndim)), requires_grad
