"""The op table. Importing this package registers every row."""

from flambeau.ops import copying, pointwise, reductions, statistics, views

FAMILIES = (copying, pointwise, reductions, statistics, views)
