"""Going on where a pipe was, by reading again up to there."""

from typing import Any

from ...graph_settings import apply_random_seed
from .._hook_iterator import _SnapshotState


def _simple_graph_snapshot_restoration(datapipe: Any, n_iterations: int, rng: Any = None) -> None:
    """Let the next iteration of a pipe begin after a number of samples.

    Args:
        datapipe: not restored already.
        n_iterations: how many samples were handed out.
        rng: the generator of seeds, as it was at the beginning.
    """
    pipe = datapipe
    if pipe._snapshot_state is _SnapshotState.Restored:
        raise RuntimeError(
            "Snapshot restoration cannot be applied. You can only restore simple snapshot to the "
            "graph if your graph has not been restored."
        )
    pipe.reset()
    apply_random_seed(pipe, rng)
    iterator = iter(pipe)
    for _ in range(n_iterations):
        try:
            next(iterator)
        except StopIteration as error:
            raise RuntimeError(
                f"Fast-forward {pipe} by {n_iterations} iterations exceeds the number of samples "
                "available."
            ) from error
    pipe._fast_forward_iterator = iterator
    pipe._snapshot_state = _SnapshotState.Restored
