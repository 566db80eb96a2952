"""The product of a sparse matrix by rows and a dense one, as a row.

Its derivatives are those of embedding bags: a row of the sparse matrix is a bag of rows of the
dense one, its values are their weights. Launcher: `eager/sparse_products.py`; sparse tensors
themselves: `flambeau/_sparse/`.
"""

from flambeau.ops.embedding import bag_dots, bag_gradient
from flambeau.ops.table import template


def _bags(pointers, count):
    """The row of each element."""
    lengths = pointers.diff()
    numbers = lengths.new_ones(lengths.shape).cumsum(0) - 1
    return numbers.repeat_interleave(lengths, output_size=count).long()


def _values_gradient(g, pointers, places, dense):
    return bag_dots(g, dense, places, _bags(pointers, places.shape[0]), -1)


def dense_gradient(g, pointers, places, values, dense_shape):
    bags = _bags(pointers, places.shape[0])
    return bag_gradient(g, places, bags, values, dense_shape[0], -1, False)


@template(
    "rows_product",
    variants="",
    node="SparseAddmmBackward0",
    grad=dict(values=_values_gradient, dense=dense_gradient),
)
def rows_product(pointers, places, values, dense):
    """Sums of rows of a dense matrix, each times a value: those from pointers[i] to pointers[i + 1]
    give row i.
    """
