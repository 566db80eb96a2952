"""Pipes of data frames, such as those of pandas.

What is done to such a pipe as to a frame (`pipe["c"] = pipe["a"] + pipe.b`) is recorded
(`dataframes.py`) and done to each frame when it comes; as samples, a pipe of frames gives rows.
The pipes between are in `datapipes.py`; `dataframe_wrapper.py` knows how to ask frames.
"""

from ..datapipe import DFIterDataPipe as DFIterDataPipe
from .dataframes import CaptureDataFrame as CaptureDataFrame
from .datapipes import DataFramesAsTuplesPipe as DataFramesAsTuplesPipe

__all__ = ["CaptureDataFrame", "DFIterDataPipe", "DataFramesAsTuplesPipe"]
