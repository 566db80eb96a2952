"""`torch.utils.data.graph_settings`: seeds, shuffling and shards for all pipes of a graph.

Loaders call it; `loader_pipes.py` says when.
"""

import inspect
import warnings
from typing import Any

import flambeau

from .datapipes.iter.sharding import SHARDING_PRIORITIES, _ShardingIterDataPipe
from .graph import DataPipeGraph, traverse_dps
from .sampler import fresh_seed

__all__ = [
    "apply_random_seed",
    "apply_sharding",
    "apply_shuffle_seed",
    "apply_shuffle_settings",
    "get_all_graph_pipes",
]


def get_all_graph_pipes(graph: DataPipeGraph) -> list[Any]:
    """The pipes of a graph, each once, the last one first."""
    found: dict[int, Any] = {}

    def walk(part: DataPipeGraph) -> None:
        for key, (pipe, sources) in part.items():
            if key not in found:
                found[key] = pipe
                walk(sources)

    walk(graph)
    return list(found.values())


def _has_method(pipe: Any, *names: str) -> bool:
    return all(inspect.ismethod(getattr(pipe, name, None)) for name in names)


def _is_sharding_datapipe(pipe: Any) -> bool:
    return isinstance(pipe, _ShardingIterDataPipe) or _has_method(pipe, "apply_sharding")


def _is_shuffle_datapipe(pipe: Any) -> bool:
    return _has_method(pipe, "set_shuffle", "set_seed")


def _is_random_datapipe(pipe: Any) -> bool:
    return _has_method(pipe, "set_seed")


def apply_sharding(
    datapipe: Any,
    num_of_instances: int,
    instance_id: int,
    sharding_group: Any = SHARDING_PRIORITIES.DEFAULT,
) -> Any:
    """Tell the pipes with `apply_sharding` which share of the samples is theirs.

    Args:
        datapipe: the last pipe. Two such pipes in a row are an error.
        num_of_instances: how many shares there are.
        instance_id: which one this is.
        sharding_group: of what the shares are.
    """

    def walk(graph: DataPipeGraph, before: Any) -> None:
        for pipe, sources in graph.values():
            applied = before
            if _is_sharding_datapipe(pipe):
                if before is not None:
                    raise RuntimeError(
                        "Sharding twice on a single pipeline is likely unintended and will cause "
                        f"data loss. Sharding already applied to {before} while trying to apply "
                        f"to {pipe}"
                    )
                if len(inspect.signature(pipe.apply_sharding).parameters) < 3:
                    pipe.apply_sharding(num_of_instances, instance_id)
                else:
                    pipe.apply_sharding(
                        num_of_instances, instance_id, sharding_group=sharding_group
                    )
                applied = pipe
            walk(sources, applied)

    walk(traverse_dps(datapipe), None)
    return datapipe


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Switch the shufflers of a graph on or off.

    Args:
        datapipe: the last pipe.
        shuffle: on or off; None leaves them as they are. If there is none to switch on, a shuffler
            is put after the last pipe.

    Returns:
        The last pipe.
    """
    if shuffle is None:
        return datapipe
    pipes = get_all_graph_pipes(traverse_dps(datapipe))
    shufflers = [pipe for pipe in pipes if _is_shuffle_datapipe(pipe)]
    if shuffle and not shufflers:
        warnings.warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at "
            "the end. Be aware that the default buffer size might not be sufficient for your task.",
            stacklevel=2,
        )
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for shuffler in shufflers:
        shuffler.set_shuffle(shuffle)
    return datapipe


def apply_shuffle_seed(datapipe: Any, rng: Any) -> Any:
    """An older name of `apply_random_seed`."""
    warnings.warn(
        "`apply_shuffle_seed` is deprecated since 1.12 and will be removed in the future releases. "
        "Please use `apply_random_seed` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return apply_random_seed(datapipe, rng)


def apply_random_seed(datapipe: Any, rng: flambeau.Generator) -> Any:
    """Give each pipe with `set_seed` a seed.

    Args:
        datapipe: the last pipe.
        rng: where seeds are drawn from.
    """
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if _is_random_datapipe(pipe):
            pipe.set_seed(fresh_seed(rng))
    return datapipe
