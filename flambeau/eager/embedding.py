"""Launching embeddings: lookups, bags, and gradients of tables.

A lookup is planned by the layouts of table and indices. A gradient of a table takes two launches:
links between the places that used a row, then the rows (`codegen/templates/embedding.py`). Rows of
the table: `ops/embedding.py`.
"""

from flambeau import _dtype as d
from flambeau._layout import dense_layout
from flambeau._tensor import empty_like_layout
from flambeau.autograd import views
from flambeau.codegen.descriptions import BagDots, Bags, LinkedSums, Links, Lookup, Rows
from flambeau.eager.launching import launches
from flambeau.eager.planned import idle, launch, planned
from flambeau.eager.plans import Plans
from flambeau.eager.rows import (
    address,
    chunks_of,
    contiguous,
    dense_like,
    has_work,
    is_computed,
    lengthened,
    vector_layout,
)
from flambeau.ops.embedding import MAX, MEAN, SUM, wrong_class
from flambeau.runtime.base import nothing
from flambeau.runtime.cpu import packed

CHUNK = 1 << 18  # bytes that a chunk writes, about


def _kernel(device, name, *facts):
    return device.runtime.kernel(name, "embedding:build_" + name, *facts)


def _check_indices(dtype, function, position=1):
    if dtype not in (d.int64, d.int32):
        raise RuntimeError(
            f"Expected tensor for argument #{position} 'indices' to have one of the following "
            f"scalar types: Long, Int; but got torch.{dtype.scalar_name}Tensor instead "
            f"(while checking arguments for {function})"
        )


def _out_of_range(*given):
    return IndexError("index out of range in self")


def _table(t):
    """A table whose rows lie side by side, each from its first column to its last."""
    return t if _has_rows(t._layout) else contiguous(t)


def _has_rows(table):
    return table.strides[1] == 1 or table.shape[1] < 2


# -- one row per place -----------------------------------------------------------------------------


def _plan_table(key):
    """What sizes of places do not change: (kernel, words of a description)."""
    table, dtype = key
    if table.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    _check_indices(dtype, "embedding")
    (rows, columns), size = table.sizes, table.itemsize
    length, kernel = columns * size, nothing
    if table.device.runtime.computes:
        kernel = _kernel(table.device, "lookup", size, dtype.code)
    step = (table.strides[0] if _has_rows(table) else columns) * size
    return kernel, (length, step, rows, CHUNK // (length or 1) or 1)


TABLES = Plans(_plan_table, by_default=False)


@planned(
    "embedding",
    "weight: fitted, indices: dense, padding_idx: number, scale_grad_by_freq: number, "
    "sparse: number", order="result weight indices", fails=_out_of_range,
)  # fmt: skip
def embedding(weight, indices):
    """The rows of a table; what is said of gradients does not matter here."""
    kernel, words = TABLES[weight, indices.dtype]
    layout, count = lengthened(indices, weight.sizes[1], weight.dtype), indices.numel
    if not words[2] and count:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    if not layout.numel or kernel is nothing:
        return *idle(layout), weight
    per_chunk = words[3]
    chunks = 1 if count <= per_chunk else chunks_of(count, per_chunk)
    table = weight if _has_rows(weight) else dense_like(weight)
    return layout, kernel, packed(Lookup(chunks, count, *words)), table


@launches("embedding_gradient")
def embedding_gradient(grad, indices, rows, padding_idx, averaged):
    return bag_gradient(grad, indices, None, None, rows, padding_idx, averaged)


@launches("sparse_table_gradient")
def sparse_table_gradient(grad, indices, rows, padding_idx):
    from flambeau._sparse.conversion import rows_at  # with the first sparse gradient

    return rows_at(grad, indices, rows, padding_idx)


@planned(
    "bag_gradient",
    "grad: fitted, indices: dense, bags: dense?, factors: dense?, rows, padding_idx, averaged",
    room=True, fails=_out_of_range,
)  # fmt: skip
def bag_gradient(grad, indices, bags, factors, rows, padding_idx, averaged):
    """Sums over the places of each row; bags and factors are per place, or None."""
    _check_indices(indices.dtype, "embedding_backward", 2)
    columns = grad.shape[-1] if grad.ndim else 1
    layout = dense_layout((rows, columns), grad.dtype, grad.device)
    if not has_work(layout):
        return *idle(layout), grad, None
    grad = grad if _gradient_rows(grad)[0] is not None else dense_like(grad)
    access, stride, step = _gradient_rows(grad)
    places, code, device = indices.numel, grad.dtype.code, grad.device
    link, dtype = ("i32", d.int32) if max(places, rows) < 2**31 else ("i64", d.int64)
    if code[0] == "c":  # complex numbers as twice as many real ones
        code, columns = {"c64": "f32", "c128": "f64"}[code], 2 * columns
    factor = "" if factors is None else factors.dtype.code
    if device.runtime.sorts is not None:
        facts = code, access, indices.dtype.code, bags is not None, factor, averaged
        words = rows, columns, places, stride, step
        add = device.runtime.sorts.table_sums(indices.dtype, padding_idx, facts, words)
        return layout, add, device, grad, None
    per_chunk = max(1, CHUNK * rows // layout.nbytes)
    plan = (
        _kernel(device, "links", indices.dtype.code, link),
        packed(Links(1, places, rows, padding_idx)),
        _kernel(device, "linked_sum", code, access, link, bags is not None, factor, averaged),
        packed(
            LinkedSums(chunks_of(rows, per_chunk), rows, columns, per_chunk, stride, step)
        ),
        rows * dtype.itemsize,
    )  # fmt: skip
    return layout, _add_linked, plan, grad, vector_layout(rows + places, dtype, device)


def _add_linked(plan, out, grad, indices, bags, factors, links):
    """Two kernels: links between the places that used a row, then the sums of rows."""
    link, link_described, add, add_described, firsts = plan
    if link(link_described, links, links + firsts, indices) is not None:
        return 1
    return add(add_described, out, grad, links, links + firsts, bags, factors)


def _gradient_rows(layout):
    """(access along a row, bytes from row to row, bytes from column to column).

    No access: rows do not lie at equal distances.
    """
    size = layout.itemsize
    columns = layout.shape[-1] if layout.ndim else 1
    if layout.is_contiguous:
        return "c", columns * size, size
    if layout.dtype.is_complex:
        return None, 0, 0
    if not any(layout.strides):
        return "s", 0, 0  # the gradient of a sum: one number for all
    if layout.ndim == 2:
        access = {1: "c", 0: "s"}.get(layout.strides[1], "n")
        return access, layout.strides[0] * size, layout.strides[1] * size
    return None, 0, 0


@launches("embedding_renorm")
def embedding_renorm(table, indices, max_norm, norm_type):
    if table.ndim != 2:
        raise RuntimeError(
            f"Expected 2-dimensional tensor, but got {table.ndim}-dimensional tensor for argument "
            "#1 'self' (while checking arguments for embedding_renorm_)"
        )
    _check_indices(indices.dtype, "embedding_renorm_", 2)
    if table._requires_grad:
        views.check_inplace(table)
    if indices.numel() and not table.shape[1]:
        views.detached(table).reshape(-1).norm(norm_type)  # some norms of nothing do not exist
    if not indices.numel() or not is_computed(table):
        return table
    shape = list(table.shape)
    plain = views.detached(table)
    if table.dtype.category < d.FLOATING:
        plain.norm(norm_type)  # which says no
    used = indices.reshape(-1).unique()
    for index in (used[0].item(), used[-1].item()):
        if not 0 <= index < shape[0]:
            raise IndexError(
                f"select(): index {index} out of range for tensor of size {shape} at dimension 0"
            )
    used = used.to(d.int64)
    rows = plain.index_select(0, used)
    norms = rows.norm(norm_type, 1, keepdim=True)
    large = (norms > max_norm).reshape(-1)
    if bool(large.any()):
        rows, norms, used = rows[large], norms[large], used[large]
        plain.index_copy_(0, used, rows * (max_norm / (norms.to(d.float64) + 1e-7)).to(rows.dtype))
    return table


# -- bags ------------------------------------------------------------------------------------------


def _check_bags(weight, indices, offsets, mode, per_sample_weights, include_last_offset):
    for t in (indices, offsets):
        if t is not None:
            _check_indices(t.dtype, "embedding_bag")
    if per_sample_weights is not None and per_sample_weights.dtype is not weight.dtype:
        ours, theirs = (t.dtype.scalar_name for t in (weight, per_sample_weights))
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument "
            f"#1 'per_sample_weights'; but type torch.{ours}Tensor does not equal "
            f"torch.{theirs}Tensor (while checking arguments for embedding_bag)"
        )
    if per_sample_weights is not None and mode != SUM:
        raise RuntimeError(
            "embedding_bag: per_sample_weights only supported with mode='sum', got "
            f"mode='{('sum', 'mean', 'max')[mode]}'"
        )
    if include_last_offset and not offsets.numel():
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if offsets is not None and is_computed(offsets):
        first, last = offsets[0].item(), offsets[-1].item()
        if first != 0:
            raise RuntimeError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start "
                f"from position 0. However, got {first}"
            )
        if last > indices.shape[0]:
            raise RuntimeError(
                f"offsets[-1] can not be greater than input's length {indices.shape[0]} but got "
                f"offsets[-1] of {last}"
            )


def _plan_bags(key):
    """(layouts of the sums, bags of places, sizes and places of maxima; kernel, description)."""
    table, index, listed, count, places, how_many, mode, weighted, padding = key
    (rows, columns), device = table.shape, table.device
    out = dense_layout((count, columns), table.dtype, device)
    bag_of, sizes = vector_layout(places, d.int64, device), vector_layout(count, d.int64, device)
    whose = dense_layout((count, columns), d.int64, device) if mode == MAX else None
    layouts = out, bag_of, sizes, whose
    if not count or not device.runtime.computes:
        return *layouts, nothing, b""
    facts = table.dtype.code, index.code, listed, padding >= 0
    if mode == MAX:
        kernel = _kernel(device, "bag_max", *facts)
    else:
        kernel = _kernel(device, "bag_sum", *facts, mode == MEAN, weighted)
    work = max(1, places // count) * max(1, columns) * table.itemsize
    per_chunk = max(1, CHUNK // work)
    chunks, stride = chunks_of(count, per_chunk), table.strides[0] * table.itemsize
    described = packed(
        Bags(chunks, count, places, columns, per_chunk, stride, rows, padding, how_many)
    )
    return *layouts, kernel, described


BAGS = Plans(_plan_bags)


@launches("bags")
def bags(
    weight,
    indices,
    offsets,
    per_bag,
    scale_grad_by_freq,
    mode,
    per_sample_weights,
    include_last_offset,
    padding,
    sparse,
):
    _check_bags(weight, indices, offsets, mode, per_sample_weights, include_last_offset)
    places = indices._layout.numel
    if offsets is None:
        count, how_many = places // per_bag, per_bag
    else:
        how_many = offsets._layout.numel
        count = how_many - 1 if include_last_offset else how_many
        if include_last_offset and offsets.device.runtime.computes:
            places = offsets[-1].item()
        elif not count:
            places = 0
        if indices.dtype is not offsets.dtype:
            indices, offsets = indices.to(d.int64), offsets.to(d.int64)
        offsets = contiguous(offsets)
    table, indices, weights = _table(weight), contiguous(indices), per_sample_weights
    facts = (offsets is not None, count, places, how_many, mode, weights is not None, padding)
    *layouts, kernel, described = BAGS[table._layout, indices._layout.dtype, *facts]
    out, bag_of, sizes = map(empty_like_layout, layouts[:3])
    whose = sizes if layouts[3] is None else empty_like_layout(layouts[3])
    extra = whose if mode == MAX else None if weights is None else contiguous(weights)
    tensors = (out, table, indices, offsets, extra, bag_of, sizes)
    pointers = [0 if t is None else address(t) for t in tensors]
    if kernel(described, *pointers) is not None:
        raise _bad_bags(indices, weight.shape[0], mode == MAX or padding >= 0)
    return out, bag_of, sizes, whose


def _bad_bags(indices, rows, is_rare):
    """The complaint about what a kernel met; rare bags have words of their own in PyTorch."""
    bad = ((indices < 0) | (indices >= rows)).nonzero()
    if bad.numel():
        place = bad[0, 0].item()
        if is_rare:
            return RuntimeError(
                "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be "
                f"{indices[place].item()}"
            )
        return RuntimeError(
            f"Index {place} of input takes value {indices[place].item()} which is not in the valid "
            f"range [0, {rows})"
        )
    return RuntimeError(
        "Expected i < index_size to be true, but got false.  (Could this error message be "
        "improved?  If so, please report an enhancement request to PyTorch.)"
    )


@planned(
    "bag_dots", "grad: dense, weight: fitted, indices: dense, bags: dense, padding_idx"
)  # fmt: skip
def bag_dots(grad, weight, indices, bags, padding):
    table = weight if _has_rows(weight) else dense_like(weight)
    layout = dense_layout(indices.shape, grad.dtype, table.device)
    if not has_work(layout):
        return *idle(layout), table
    columns = table.shape[1]
    per_chunk = max(1, CHUNK // max(1, columns * table.itemsize))
    stride = table.strides[0] * table.itemsize
    words = BagDots(
        -(-indices.numel // per_chunk), indices.numel, columns, per_chunk, stride, padding
    )
    facts = table.dtype.code, indices.dtype.code
    return *launch(layout, words, "bag_dots", "embedding:build_bag_dots", *facts), table


# -- ones at the places of numbers -----------------------------------------------------------------


@planned("ones_at", "places: dense, classes", fails=wrong_class)
def ones_at(places, classes):
    layout = lengthened(places, classes, d.int64)
    if not has_work(layout):
        return idle(layout)
    per_chunk = max(1, CHUNK // (8 * classes))
    words = Rows(-(-places.numel // per_chunk), places.numel, classes, per_chunk)
    return launch(layout, words, "ones_at", "embedding:build_ones_at")
