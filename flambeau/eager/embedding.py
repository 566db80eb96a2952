"""Launching embeddings: lookups, bags, and gradients of tables.

A lookup is planned by the layouts of table and indices. A gradient of a table takes two launches:
links between the places that used a row, then the rows (`codegen/templates/embedding.py`). Rows of
the table: `ops/embedding.py`.
"""

from flambeau import _dtype as d
from flambeau._layout import Size, dense_layout
from flambeau._tensor import empty_like_layout, empty_tensor
from flambeau.autograd import views
from flambeau.autograd.grad_mode import modes
from flambeau.eager.launching import launches
from flambeau.eager.kernels import load_kernel, pool
from flambeau.eager.plan import MAX_PLANS
from flambeau.eager.rows import address, contiguous, is_computed, launch
from flambeau.ops.embedding import MAX, MEAN, SUM
from flambeau.runtime.cpu import words

CHUNK = 1 << 18  # bytes that a chunk writes, about

_kernels: dict = {}
_lookups: dict = {}
_gradients: dict = {}
_bag_plans: dict = {}
_one_hots: dict = {}


def kernel(name, *facts):
    """The kernel that build_<name>(*facts) of the templates describes."""
    found = _kernels.get((name, *facts))
    if found is None:
        from flambeau.codegen.templates import embedding as templates  # on first need

        ir = getattr(templates, "build_" + name)(*facts)
        found = _kernels[name, *facts] = load_kernel(ir, name)
    return found


def _check_indices(layout, function, position=1):
    if layout.dtype not in (d.int64, d.int32):
        raise RuntimeError(
            f"Expected tensor for argument #{position} 'indices' to have one of the following "
            f"scalar types: Long, Int; but got torch.{layout.dtype.scalar_name}Tensor instead "
            f"(while checking arguments for {function})"
        )


def _out_of_range():
    return IndexError("index out of range in self")


def _table(t):
    """A table whose rows lie side by side, each from its first column to its last."""
    return t if t._layout.strides[1] == 1 or t._layout.shape[1] < 2 else contiguous(t)


# -- one row per place -----------------------------------------------------------------------------


@launches("embedding")
def embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse):
    if sparse and weight._requires_grad and modes.grad:
        raise NotImplementedError(
            "embedding: sparse gradients are not there yet; call it with sparse=False"
        )
    found = _lookups.get((weight._layout, indices._layout))
    if found is None:
        found = _plan_lookup(weight, indices)
    layout, run, description, _ = found
    if run is None:  # an operand has to be copied first, or there is nothing to do
        if not layout.numel or layout.device.type != "cpu":
            return empty_like_layout(layout)
        weight, indices = _table(weight), contiguous(indices)
        return embedding(weight, indices, padding_idx, scale_grad_by_freq, False)
    out = empty_like_layout(layout)
    place = indices._storage.pointer + indices._offset
    source = weight._storage.pointer + weight._offset
    if run(description, out._storage.pointer, source, place) is not None:
        raise _out_of_range()
    return out


def _plan_lookup(weight, indices):
    """(layout of the result, kernel, description, its owner)."""
    table, places = weight._layout, indices._layout
    if table.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    _check_indices(places, "embedding")
    rows, columns = table.shape
    layout = dense_layout(Size((*places.shape, columns)), table.dtype, table.device)
    if not rows and places.numel:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    found = layout, None, None, None
    straight = places.is_contiguous and (table.strides[1] == 1 or columns < 2)
    if straight and layout.numel and layout.device.type == "cpu":
        size = table.itemsize
        per_chunk = max(1, CHUNK // (columns * size))
        chunks = -(-places.numel // per_chunk)
        owner, at = words(
            [chunks, places.numel, columns * size, table.strides[0] * size, rows, per_chunk]
        )
        if chunks > 1:
            pool().ensure_workers()
        found = layout, kernel("lookup", size, places.dtype.code), at, owner
    if len(_lookups) > MAX_PLANS:
        _lookups.clear()
    _lookups[table, places] = found
    return found


@launches("embedding_gradient")
def embedding_gradient(grad, indices, rows, padding_idx, averaged):
    return _table_gradient(grad, indices, None, None, rows, padding_idx, averaged)


def _table_gradient(grad, indices, bags, factors, rows, padding_idx, averaged):
    """Sums over the places of each row; bags and factors are per place, or None."""
    factor = "" if factors is None else factors._layout.dtype.code
    key = (grad._layout, indices._layout, bags is None, factor, rows, padding_idx, averaged)
    found = _gradients.get(key)
    if found is None:
        found = _plan_gradient(key)
    layout, links, run, description, second, nexts, more, _ = found
    out = empty_like_layout(layout)
    if links is None:
        if not layout.numel or layout.device.type != "cpu":
            return out
        grad, indices = _plain_rows(grad), contiguous(indices)
        return _table_gradient(grad, indices, bags, factors, rows, padding_idx, averaged)
    chain = empty_like_layout(links)
    firsts = chain._storage.pointer
    if (
        run(description, firsts, firsts + nexts, indices._storage.pointer + indices._offset)
        is not None
    ):
        raise _out_of_range()
    second(
        more,
        out._storage.pointer,
        grad._storage.pointer + grad._offset,
        firsts,
        firsts + nexts,
        0 if bags is None else address(bags),
        0 if factors is None else address(factors),
    )
    return out


def _plan_gradient(key):
    """(layout of the result, of the links, first kernel and description, second kernel, bytes from
    the firsts to the nexts, second description, owners); no links if a copy has to come first.
    """
    grad, indices, plain, factor, rows, padding_idx, averaged = key
    _check_indices(indices, "embedding_backward", 2)
    columns = grad.shape[-1] if grad.ndim else 1
    layout = dense_layout(Size((rows, columns)), grad.dtype, grad.device)
    access, stride, step = _gradient_rows(grad)
    found = layout, *[None] * 7
    if access is not None and indices.is_contiguous and layout.numel and grad.device.type == "cpu":
        places, code = indices.numel, grad.dtype.code
        link, dtype = ("i32", d.int32) if max(places, rows) < 2**31 else ("i64", d.int64)
        links = dense_layout(Size((rows + places,)), dtype, grad.device)
        if code[0] == "c":  # complex numbers as twice as many real ones
            code, columns = {"c64": "f32", "c128": "f64"}[code], 2 * columns
        first, at = words([1, places, rows, padding_idx])
        per_chunk = max(1, CHUNK * rows // layout.nbytes)
        chunks = -(-rows // per_chunk)
        second, more = words([chunks, rows, columns, per_chunk, stride, step])
        if chunks > 1:
            pool().ensure_workers()
        found = (
            layout,
            links,
            kernel("links", indices.dtype.code, link),
            at,
            kernel("linked_sum", code, access, link, not plain, factor, averaged),
            rows * dtype.itemsize,
            more,
            (first, second),
        )
    if len(_gradients) > MAX_PLANS:
        _gradients.clear()
    _gradients[key] = found
    return found


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


def _plain_rows(grad):
    return grad if _gradient_rows(grad._layout)[0] is not None else contiguous(grad)


@launches("embedding_renorm")
def embedding_renorm(table, indices, max_norm, norm_type):
    if table.ndim != 2:
        raise RuntimeError(
            f"Expected 2-dimensional tensor, but got {table.ndim}-dimensional tensor for argument "
            "#1 'self' (while checking arguments for embedding_renorm_)"
        )
    _check_indices(indices._layout, "embedding_renorm_", 2)
    views.check_inplace(table)
    if not indices.numel() or not is_computed(table):
        return table
    shape = list(table.shape)
    plain = views.detached(table)
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
            _check_indices(t._layout, "embedding_bag")
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
    if offsets is not None and offsets.numel() and offsets.device.type == "cpu":
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


class _Bags:
    """A launch over bags, for given layouts and numbers of bags and places."""

    __slots__ = ("at", "bag_of", "out", "owner", "run", "sizes", "whose")

    def __init__(self, table, index, listed, count, places, how_many, mode, weighted, padding):
        rows, columns = table.shape
        device = table.device
        self.out = dense_layout(Size((count, columns)), table.dtype, device)
        self.bag_of = dense_layout(Size((places,)), d.int64, device)
        self.sizes = dense_layout(Size((count,)), d.int64, device)
        self.whose = None
        if mode == MAX:
            self.whose = dense_layout(Size((count, columns)), d.int64, device)
        self.run = None
        if device.type != "cpu" or not count:
            return
        facts = (table.dtype.code, index.code, listed, padding >= 0)
        if mode == MAX:
            self.run = kernel("bag_max", *facts)
        else:
            self.run = kernel("bag_sum", *facts, mode == MEAN, weighted)
        work = max(1, places // count) * max(1, columns) * table.itemsize
        per_chunk = max(1, CHUNK // work)
        stride = table.strides[0] * table.itemsize
        chunks = -(-count // per_chunk)
        described = [count, places, columns, per_chunk, stride, rows, padding, how_many]
        self.owner, self.at = words([chunks, *described])
        if chunks > 1:
            pool().ensure_workers()


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
):
    _check_bags(weight, indices, offsets, mode, per_sample_weights, include_last_offset)
    places = indices._layout.numel
    if offsets is None:
        count, how_many = places // per_bag, per_bag
    else:
        how_many = offsets._layout.numel
        count = how_many - 1 if include_last_offset else how_many
        if include_last_offset and offsets.device.type == "cpu":
            places = offsets[-1].item()
        elif not count:
            places = 0
        if indices.dtype is not offsets.dtype:
            indices, offsets = indices.to(d.int64), offsets.to(d.int64)
        offsets = contiguous(offsets)
    table, indices, weights = _table(weight), contiguous(indices), per_sample_weights
    facts = (offsets is not None, count, places, how_many, mode, weights is not None, padding)
    key = (table._layout, indices._layout.dtype, *facts)
    plan = _bag_plans.get(key)
    if plan is None:
        if len(_bag_plans) > MAX_PLANS:
            _bag_plans.clear()
        plan = _bag_plans[key] = _Bags(*key)
    out, bag_of, sizes = map(empty_like_layout, (plan.out, plan.bag_of, plan.sizes))
    whose = sizes if plan.whose is None else empty_like_layout(plan.whose)
    if plan.run is not None:
        extra = whose if mode == MAX else None if weights is None else contiguous(weights)
        tensors = (out, table, indices, offsets, extra, bag_of, sizes)
        pointers = [0 if t is None else address(t) for t in tensors]
        if plan.run(plan.at, *pointers) is not None:
            raise _bad_bags(indices, weight.shape[0])
    return out, bag_of, sizes, whose


def _bad_bags(indices, rows):
    bad = ((indices < 0) | (indices >= rows)).nonzero()
    if bad.numel():
        place = bad[0, 0].item()
        return RuntimeError(
            f"Index {place} of input takes value {indices[place].item()} which is not in the valid "
            f"range [0, {rows})"
        )
    return RuntimeError(
        "Expected i < index_size to be true, but got false.  (Could this error message be "
        "improved?  If so, please report an enhancement request to PyTorch.)"
    )


@launches("bag_gradient")
def bag_gradient(grad, indices, bags, factors, rows, padding_idx, averaged):
    factors = None if factors is None else contiguous(factors)
    return _table_gradient(grad, indices, contiguous(bags), factors, rows, padding_idx, averaged)


@launches("bag_dots")
def bag_dots(grad, weight, indices, bags, padding_idx):
    out = empty_tensor(indices.shape, grad.dtype, grad.device)
    if is_computed(out):
        grad, table, indices, bags = (
            contiguous(grad),
            _table(weight),
            contiguous(indices),
            contiguous(bags),
        )
        columns = table.shape[1]
        per_chunk = max(1, CHUNK // max(1, columns * table.itemsize))
        places = indices.numel()
        stride = table._layout.strides[0] * table.itemsize
        description = [-(-places // per_chunk), places, columns, per_chunk, stride, padding_idx]
        run = kernel("bag_dots", table._layout.dtype.code, indices._layout.dtype.code)
        pointers = [address(t) for t in (out, grad, table, indices, bags)]
        launch(run, description, *pointers)
    return out


# -- ones at the places of numbers -----------------------------------------------------------------


@launches("ones_at")
def ones_at(places, classes):
    found = _one_hots.get((places._layout, classes))
    if found is None:
        found = _plan_ones(places._layout, classes)
    layout, run, description, _ = found
    out = empty_like_layout(layout)
    if run is not None:
        places = contiguous(places)
        if run(description, out._storage.pointer, places._storage.pointer + places._offset):
            return None
    return out


def _plan_ones(places, classes):
    """(layout of the result, kernel, description, its owner)."""
    layout = dense_layout(Size((*places.shape, classes)), d.int64, places.device)
    found = layout, None, None, None
    if layout.numel and layout.device.type == "cpu":
        per_chunk = max(1, CHUNK // (8 * classes))
        chunks = -(-places.numel // per_chunk)
        owner, at = words([chunks, places.numel, classes, per_chunk])
        if chunks > 1:
            pool().ensure_workers()
        found = layout, kernel("ones_at"), at, owner
    if len(_one_hots) > MAX_PLANS:
        _one_hots.clear()
    _one_hots[places, classes] = found
    return found
