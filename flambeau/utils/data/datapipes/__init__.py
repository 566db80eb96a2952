"""Datapipes: datasets that are built step by step, `source.map(f).shuffle().batch(8)`.

A pipe (`datapipe.py`) is a dataset whose source is another one. Steps are classes in `iter/`
(samples in their own order) and `map/` (samples by index), and methods of every pipe by their
functional names. `torch.utils.data.graph` finds the pipes that a pipe is made of, `graph_settings`
sets seeds, shuffling and shards for all of them at once, as loaders do.
"""

from . import dataframe as dataframe
from . import iter as iter
from . import map as map
