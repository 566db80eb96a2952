"""`torch.utils.data._utils.fetch`; everything lives in `fetch.py` above."""

from ..fetch import Fetcher as _BaseDatasetFetcher
from ..fetch import IterableFetcher as _IterableDatasetFetcher
from ..fetch import MapFetcher as _MapDatasetFetcher

__all__ = ["_BaseDatasetFetcher", "_IterableDatasetFetcher", "_MapDatasetFetcher"]
