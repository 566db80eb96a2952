"""`torch.utils.data`: datasets, samplers and loaders. Code of workers loads when needed."""

from typing import Any

from .collate import default_collate as default_collate
from .convert import default_convert as default_convert
from .dataloader import DataLoader as DataLoader
from .dataloader import _DatasetKind as _DatasetKind
from .dataset import ChainDataset as ChainDataset
from .dataset import ConcatDataset as ConcatDataset
from .dataset import Dataset as Dataset
from .dataset import IterableDataset as IterableDataset
from .dataset import StackDataset as StackDataset
from .dataset import Subset as Subset
from .dataset import TensorDataset as TensorDataset
from .dataset import random_split as random_split
from .distributed import DistributedSampler as DistributedSampler
from .sampler import BatchSampler as BatchSampler
from .sampler import RandomSampler as RandomSampler
from .sampler import Sampler as Sampler
from .sampler import SequentialSampler as SequentialSampler
from .sampler import SubsetRandomSampler as SubsetRandomSampler
from .sampler import WeightedRandomSampler as WeightedRandomSampler

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DFIterDataPipe",
    "DataChunk",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterDataPipe",
    "IterableDataset",
    "MapDataPipe",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "_DatasetKind",
    "argument_validation",
    "default_collate",
    "default_convert",
    "functional_datapipe",
    "get_worker_info",
    "guaranteed_datapipes_determinism",
    "non_deterministic",
    "random_split",
    "runtime_validation",
    "runtime_validation_disabled",
]


# Pipes load when somebody names one.
_PIPES = frozenset(("DataChunk", "DFIterDataPipe", "IterDataPipe", "MapDataPipe"))
_DECORATORS = frozenset(
    (
        "argument_validation",
        "functional_datapipe",
        "guaranteed_datapipes_determinism",
        "non_deterministic",
        "runtime_validation",
        "runtime_validation_disabled",
    )
)


def __getattr__(name: str) -> Any:
    import importlib

    if name in _PIPES or name in _DECORATORS:
        importlib.import_module("flambeau.utils.data.datapipes")
        place = "datapipe" if name in _PIPES else "_decorator"
        return getattr(importlib.import_module(f"flambeau.utils.data.datapipes.{place}"), name)
    if name == "get_worker_info":
        from .worker import get_worker_info

        return get_worker_info
    if name in ("_utils", "datapipes", "graph", "graph_settings"):
        return importlib.import_module(f"flambeau.utils.data.{name}")
    raise AttributeError(f"module 'flambeau.utils.data' has no attribute '{name}'")
