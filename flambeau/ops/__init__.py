"""The op table. Importing this package registers every row."""

from flambeau.ops import copying, pointwise, reductions, views

FAMILIES = (copying, pointwise, reductions, views)
