"""`torch.nn.parallel`: one model over several devices or processes."""

import importlib
from typing import Any

from flambeau.nn.parallel.data_parallel import DataParallel as DataParallel
from flambeau.nn.parallel.data_parallel import data_parallel as data_parallel

# functions that are called as their files: the function is what stays
from flambeau.nn.parallel.parallel_apply import parallel_apply as parallel_apply
from flambeau.nn.parallel.replicate import replicate as replicate
from flambeau.nn.parallel.scatter_gather import gather as gather
from flambeau.nn.parallel.scatter_gather import scatter as scatter

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]


def __getattr__(name: str) -> Any:
    """DistributedDataParallel, with torch.distributed, when it is first asked for."""
    if name == "DistributedDataParallel":
        return importlib.import_module("flambeau.nn.parallel.distributed").DistributedDataParallel
    if name == "distributed":
        return importlib.import_module("flambeau.nn.parallel.distributed")
    raise AttributeError(f"module 'torch.nn.parallel' has no attribute '{name}'")
