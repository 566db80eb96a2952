"""What a loader does with pipes: shuffling on or off, seeds that all processes share, and shards.

Every process of a job and each of its workers has the whole graph of pipes. Shufflers get the same
seeds everywhere, so that all put samples into the same order; `sharding_filter` then lets through
every n-th, where n counts the workers of all processes.
"""

import functools
import sys
from typing import Any

import flambeau
from flambeau import Generator

from .sampler import fresh_seed


def is_pipe(dataset: Any, kinds: tuple[str, ...] = ("IterDataPipe", "MapDataPipe")) -> bool:
    """Whether a dataset is a pipe. Before pipes are loaded, none is."""
    module = sys.modules.get("flambeau.utils.data.datapipes.datapipe")
    return module is not None and isinstance(dataset, tuple(getattr(module, k) for k in kinds))


def is_iterable_pipe(dataset: Any) -> bool:
    return is_pipe(dataset, ("IterDataPipe",))


def prepared(dataset: Any, shuffle: bool | None) -> Any:
    """A pipe as a loader keeps it, told whether to shuffle."""
    from .datapipes import datapipe as pipes
    from .graph_settings import apply_shuffle_settings

    if not is_iterable_pipe(dataset):
        return pipes._MapDataPipeSerializationWrapper(dataset)
    if shuffle is not None:
        dataset = apply_shuffle_settings(dataset, shuffle=shuffle)
    return pipes._IterDataPipeSerializationWrapper(dataset)


def place_in_job() -> tuple[int, int]:
    """How many processes a job has, and which one this is."""
    distributed = sys.modules.get("flambeau.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 1, 0
    return distributed.get_world_size(), distributed.get_rank()


def shared_seed(loader: Any) -> int:
    """A seed for the shufflers of an epoch, the same in all processes of a job."""
    seed = fresh_seed(loader.generator)
    if place_in_job()[0] == 1:
        return seed
    import flambeau.distributed as distributed

    if loader._group is None:
        loader._group = distributed.new_group(backend="gloo")
    word = flambeau.tensor(seed, dtype=flambeau.int64)
    distributed.broadcast(word, src=0, group=loader._group)
    return int(word.item())


def seed_pipes(dataset: Any, seed: int) -> None:
    """Seeds for the pipes of a dataset."""
    from .graph_settings import apply_random_seed

    apply_random_seed(dataset, Generator().manual_seed(seed))


def shard(dataset: Any) -> None:
    """The share of a loader without workers."""
    from .graph_settings import apply_sharding

    apply_sharding(dataset, *place_in_job())


def sharding_init_fn(init_fn: Any) -> Any:
    """A `worker_init_fn` that sets the share of each worker, then calls the user's."""
    return functools.partial(shard_worker, init_fn, *place_in_job())


def shard_worker(init_fn: Any, processes: int, process: int, worker_id: int) -> None:
    """The share of a worker, then the user's function."""
    from .graph_settings import apply_sharding
    from .worker import get_worker_info

    info = get_worker_info()
    assert info is not None
    apply_sharding(info.dataset, info.num_workers * processes, worker_id * processes + process)
    if init_fn is not None:
        init_fn(worker_id)
