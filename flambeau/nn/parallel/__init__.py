"""`torch.nn.parallel`: one model over several devices or processes."""

import importlib
from typing import Any

from flambeau.nn.parallel.data_parallel import DataParallel as DataParallel
from flambeau.nn.parallel.data_parallel import data_parallel as data_parallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


def __getattr__(name: str) -> Any:
    """DistributedDataParallel, with torch.distributed, when it is first asked for."""
    if name == "DistributedDataParallel":
        return importlib.import_module("flambeau.nn.parallel.distributed").DistributedDataParallel
    if name == "distributed":
        return importlib.import_module("flambeau.nn.parallel.distributed")
    raise AttributeError(f"module 'torch.nn.parallel' has no attribute '{name}'")
