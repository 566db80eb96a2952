"""The op table. Importing this package registers every row."""

from flambeau.ops import (
    activations,
    comparison,
    copying,
    elementary,
    indexing,
    joining,
    padding,
    pointwise,
    products,
    rearranging,
    reductions,
    sampling,
    special_functions,
    splitting,
    statistics,
    views,
)

FAMILIES = (
    activations,
    comparison,
    copying,
    elementary,
    indexing,
    joining,
    padding,
    pointwise,
    products,
    rearranging,
    reductions,
    sampling,
    special_functions,
    splitting,
    statistics,
    views,
)
