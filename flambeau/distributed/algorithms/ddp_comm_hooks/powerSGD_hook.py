"""PowerSGD: matrices of gradients travel as two thin factors.

One step of subspace iteration per pass: P = M Q, averaged and made orthogonal; Q = M^T P, averaged;
M is P Q^T. What is lost is added to the next gradient (error feedback). Vectors travel as they are.
(Vogels, Karimireddy and Jaggi, 2019.)
"""

from typing import Any

import flambeau
from flambeau import distributed
from flambeau.futures import Future

from .default_hooks import allreduce_hook

__all__ = ["PowerSGDState", "powerSGD_hook"]


class PowerSGDState:
    """Settings, and what is kept between passes.

    Args:
        process_group: who takes part.
        matrix_approximation_rank: columns of the factors.
        start_powerSGD_iter: passes that go uncompressed at first.
        min_compression_rate: matrices that would not become so much smaller travel as they are.
        use_error_feedback: add what was lost to the next gradient.
        warm_start: begin with the factor of the last pass.
        random_seed: of the first factors.
    """

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if start_powerSGD_iter <= 1 and (use_error_feedback or warm_start):
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is "
                "enabled, because PowerSGD can only be applied after the first two iterations in "
                "DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.generator = flambeau.Generator().manual_seed(random_seed)
        self.error_dict: dict = {}
        self.q_memory_dict: dict = {}
        self.iter = 0

    def maybe_increase_iter(self, bucket: Any) -> None:
        """Count passes."""
        if bucket.is_last():
            self.iter += 1


def powerSGD_hook(state: PowerSGDState, bucket: Any) -> Future:
    """The approximate average of a bucket."""
    group = state.process_group
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(group, bucket)
    size, buffer = distributed.get_world_size(group), bucket.buffer()
    index = bucket.index()
    if state.use_error_feedback and index in state.error_dict:
        buffer.add_(state.error_dict[index])
    before = buffer.clone()
    plain = []
    for k, grad in enumerate(bucket.gradients()):
        matrix = grad.view(grad.shape[0], -1) if grad.dim() > 1 else None
        if matrix is not None and _is_worth(matrix, state):
            matrix.copy_(_approximated(matrix, (index, k), state, group, size))
        else:
            plain.append(grad)
    if plain:
        distributed.all_reduce_coalesced(plain, group=group)
        for grad in plain:
            grad.div_(size)
    if state.use_error_feedback:
        state.error_dict[index] = before - buffer
        for grad, place in _plain_places(bucket, plain):
            state.error_dict[index][place : place + grad.numel()] = 0
    state.maybe_increase_iter(bucket)
    done: Future = Future()
    done.set_result(buffer)
    return done


def _plain_places(bucket, plain):
    """Where in the buffer the gradients lie that were not compressed."""
    start, kept = 0, {grad.data_ptr() for grad in plain}
    for grad in bucket.gradients():
        if grad.data_ptr() in kept:
            yield grad, start
        start += grad.numel()


def _is_worth(matrix, state):
    rows, columns = matrix.shape
    rank = min(rows, columns, state.matrix_approximation_rank)
    return (rows + columns) * rank * state.min_compression_rate < rows * columns


def _approximated(matrix, key, state, group, size):
    rank = min(*matrix.shape, state.matrix_approximation_rank)
    q = state.q_memory_dict.get(key) if state.warm_start else None
    if q is None:
        q = flambeau.randn(matrix.shape[1], rank, generator=state.generator, dtype=matrix.dtype)
    q = flambeau.linalg.qr(q)[0].contiguous()
    p = matrix @ q
    distributed.all_reduce(p, group=group)
    p = flambeau.linalg.qr(p)[0].contiguous()
    q = matrix.t() @ p
    distributed.all_reduce(q, group=group)
    q.div_(size)
    state.q_memory_dict[key] = q
    return p @ q.t()
