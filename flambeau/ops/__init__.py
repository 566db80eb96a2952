"""The op table. Importing this package registers every row."""

from flambeau.ops import copying, activations, comparison, elementary, special_functions, pointwise, reductions, statistics, views

FAMILIES = (copying, activations, comparison, elementary, special_functions, pointwise, reductions, statistics, views)
