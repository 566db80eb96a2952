"""Launching products of sparse matrices by rows (`codegen/templates/sparse.py`)."""

from flambeau._layout import dense_layout
from flambeau.codegen.descriptions import RowsProduct
from flambeau.eager.embedding import CHUNK
from flambeau.eager.planned import idle, launch, planned
from flambeau.eager.rows import dense_like, has_work


def _bad_places(*given):
    return RuntimeError(
        "found an index that is out of bounds for the size of a sparse tensor, or rows that do not "
        "begin where the last one ends"
    )


@planned(
    "rows_product",
    "pointers: dense, places: dense, values: dense, dense: fitted",
    fails=_bad_places,
)
def rows_product(pointers, places, values, dense):
    rows, (high, columns) = pointers.numel - 1, dense.shape
    layout = dense_layout((rows, columns), dense.dtype, dense.device)
    if not has_work(layout):
        return *idle(layout), dense
    table = dense if dense.strides[1] == 1 or columns < 2 else dense_like(dense)
    work = max(1, -(-places.numel // rows)) * columns * dense.itemsize
    per_chunk = max(1, CHUNK // max(1, work))
    words = RowsProduct(
        -(-rows // per_chunk), rows, places.numel, columns, per_chunk,
        table.strides[0] * table.itemsize, high,
    )  # fmt: skip
    name = "vector_product" if columns == 1 else "rows_product"
    facts = dense.dtype.code, places.dtype.code
    return *launch(layout, words, name, f"sparse:build_{name}", *facts), table
