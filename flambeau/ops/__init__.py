"""The op table. Importing this package registers every row."""

from flambeau.ops import (
    activations,
    comparison,
    copying,
    elementary,
    indexing,
    pointwise,
    products,
    reductions,
    sampling,
    special_functions,
    statistics,
    views,
)

FAMILIES = (
    activations,
    comparison,
    copying,
    elementary,
    indexing,
    pointwise,
    products,
    reductions,
    sampling,
    special_functions,
    statistics,
    views,
)
