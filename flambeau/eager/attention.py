"""Launching attention: plans by layout, memory for results, which chunks there are.

The kernels take four dimensions (batch, head, position, width) with any strides but the last;
ops/attention.py brings calls to that form and decides which of them come here. There are two
forward: blocks of queries (codegen/templates/attention.py), and for few queries pieces of keys
(attention_few.py). How work is cut depends on sizes only.
"""

from flambeau import _dtype as d
from flambeau._layout import dense_layout
from flambeau._tensor import empty_like_layout
from flambeau.codegen.descriptions import Attention
from flambeau.eager.copying import preserved_layout
from flambeau.eager.kernels import pool
from flambeau.eager.launching import launches, launches_kernel
from flambeau.eager.plans import Plans
from flambeau.eager.rows import address, contiguous, is_computed
from flambeau.runtime.base import nothing
from flambeau.runtime.cpu import packed
from flambeau.runtime.stacks import alone

HEADS = 8  # with fewer, backward cuts the keys of long heads into pieces
LONG = 256  # keys that a piece should have
FEW = 6  # queries that are taken one by one
FEW_ROWS = 64  # the same for all heads that share their keys
WORK = 1 << 16  # multiplications of few queries that are worth a chunk
MANY = 64  # chunks that are enough for all threads
BLOCK = 64  # keys are walked over in blocks of so many


def _readable(t):
    """The tensor itself if its rows lie side by side, else a copy."""
    layout = t._layout
    return t if layout.strides[-1] == 1 or layout.shape[-1] <= 1 else contiguous(t)


def _preserved(layout):
    """A dense layout in the order of another, rows side by side."""
    if layout.is_dense:
        return layout
    found = preserved_layout(layout)
    if found.strides[-1] != 1:
        found = dense_layout(layout.shape, layout.dtype, layout.device)
    return found


def _sums(dtype):
    return d.float64 if dtype is d.float64 else d.float32


def _describe(
    chunks, query, key, value, out, mask, *grads,
    per_chunk=1, blocks=1, pieces=1, per_piece=0, items=0, by_piece=0,
):  # fmt: skip
    """A description for layouts in the order of STRIDES."""
    _, heads, length, width = query.shape
    _, key_heads, source_length, _ = key.shape
    _, _, _, value_width = value.shape
    words = [*Attention(
        chunks=chunks, items=items, per_chunk=per_chunk, blocks=blocks, pieces=pieces,
        per_piece=per_piece, heads=heads, sharing=heads // key_heads if key_heads else 1,
        length=length, source_length=source_length, width=width, value_width=value_width,
        by_piece=by_piece,
    )]  # fmt: skip
    for layout in (query, key, value, out):
        words += _strides(layout)
    if mask is None:
        words += (0, 0, 0, 0)
    else:
        words += (*_strides(mask), mask.strides[3] * mask.itemsize)
    for layout in grads:
        words += _strides(layout)
    if chunks > 1:
        pool().ensure_workers()
    return packed(words)


def _strides(layout):
    """Bytes from batch to batch, head to head and row to row."""
    size, (batch, head, row, _) = layout.itemsize, layout.strides
    return batch * size, head * size, row * size


# -- forward --------------------------------------------------------------------------------------


def _plan_forward(key):
    """(layouts of result and logarithms, kernel, description, layout of parts, how to join them)"""
    query, key, value, mask, keep, causal = key
    (batch, heads, length, width), (_, key_heads, keys, value_width) = query.shape, value.shape
    dtype, device = query.dtype, query.device
    out = query if query.is_dense else _preserved(query)
    if value_width != width:
        out = dense_layout((batch, heads, length, value_width), dtype, device)
    logs = dense_layout((batch, heads, length), _sums(dtype), device)
    runtime = device.runtime
    if not out.numel or not runtime.computes:
        return out, logs, nothing, b"", None, None
    tensors = query, key, value, out, mask
    pattern = dtype.code, causal, "" if mask is None else mask.dtype.code, keep
    if length > FEW or heads // key_heads * length > FEW_ROWS:
        blocks = -(-length // QUERIES[dtype.code])
        desc = _describe(batch * heads * blocks, *tensors, blocks=blocks)
        kernel = runtime.kernel("attention_forward", "attention:build", *pattern)
        return out, logs, kernel, desc, None, None
    # few queries: pieces of keys that are worth a chunk, and several heads where keys are few
    groups = batch * key_heads
    each = keys * (width + value_width) * (heads // key_heads) * length
    pieces = max(1, min(each // WORK, -(-MANY // groups), keys // LONG))
    per_piece = -(-keys // (pieces * BLOCK)) * BLOCK or BLOCK
    pieces = -(-keys // per_piece) or 1
    per_chunk = WORK * pieces // (each or 1) or 1
    items = groups * pieces
    cut = {"pieces": pieces, "per_piece": per_piece}
    desc = _describe(-(-items // per_chunk), *tensors, per_chunk=per_chunk, items=items, **cut)
    kernel = runtime.kernel("attention_few", "attention_few:build", *pattern, pieces > 1)
    if pieces == 1:
        return out, logs, kernel, desc, None, None
    rows = logs.numel
    parts = dense_layout((rows * pieces * (value_width + 2),), logs.dtype, device)
    per_chunk = max(1, WORK // (8 * pieces * value_width))
    last = _describe(-(-rows // per_chunk), *tensors, per_chunk=per_chunk, items=rows, **cut)
    merge = runtime.kernel("attention_merge", "attention_few:build_merge", dtype.code)
    return out, logs, kernel, desc, parts, (merge, last)


def _queries(code):
    from flambeau.codegen.templates.attention_blocks import queries_per_block  # on first need

    return queries_per_block(code)


QUERIES = Plans(lambda code: alone(_queries, code), by_default=False)
FORWARD = Plans(_plan_forward, by_default=False)


@launches("attention")
def attention(query, key, value, attn_mask, keep, dropout_p, is_causal, scale):
    """Result and logarithms of the sums of exponentials."""
    query, key, value = _readable(query), _readable(key), _readable(value)
    mask = None if attn_mask is None else attn_mask._layout
    out_layout, log_layout, kernel, description, parts, merge = FORWARD[
        query._layout, key._layout, value._layout, mask, keep is not None, is_causal
    ]
    out, logs = empty_like_layout(out_layout), empty_like_layout(log_layout)
    pointers = (
        out._storage.pointer,
        logs._storage.pointer,
        query._storage.pointer + query._offset,
        key._storage.pointer + key._offset,
        value._storage.pointer + value._offset,
        0 if attn_mask is None else address(attn_mask),
        0 if keep is None else address(keep),
    )
    kept = 1.0 / (1.0 - dropout_p) if dropout_p < 1 else 0.0
    if parts is None:
        kernel(description, *pointers, 0, scale, kept)
        return out, logs
    apart = empty_like_layout(parts)
    kernel(description, *pointers, apart._storage.pointer, scale, kept)
    merge[0](merge[1], *pointers, apart._storage.pointer, scale, kept)
    return out, logs


# -- backward -------------------------------------------------------------------------------------


def _plan_backward(key):
    """Layouts of the gradients; kernel and description; layouts of parts and of room for half
    types, or None."""
    grad, query, key, value, out, mask, keep, causal = key
    layouts = [_preserved(t) for t in (query, key, value)]
    runtime = query.device.runtime
    batch, heads, keys, _ = key.shape
    if not runtime.computes or not grad.numel or not keys:
        return layouts, None, None, None, None
    pieces, parts, by_piece, first = 1, None, 0, layouts[0]
    if batch * heads < HEADS:
        pieces = max(1, min(-(-HEADS // (batch * heads)), keys // LONG))
    sums = _sums(query.dtype)
    if pieces > 1:
        parts = dense_layout((pieces, *query.shape), sums, query.device)
        first = dense_layout(query.shape, sums, query.device)
        by_piece = first.nbytes
    per_piece = -(-keys // (pieces * BLOCK)) * BLOCK
    desc = _describe(
        batch * heads * pieces, query, key, value, out, mask, grad, first, *layouts[1:],
        pieces=pieces, per_piece=per_piece, by_piece=by_piece,
    )  # fmt: skip
    pattern = query.dtype.code, causal, "" if mask is None else mask.dtype.code, keep, pieces > 1
    kernel = runtime.kernel("attention_backward", "attention_backward:build", *pattern)
    rounded = None
    if query.dtype.itemsize == 2:
        widths = [(n + 31) & -32 for n in (query.shape[3], value.shape[3])]
        rounded = dense_layout((batch * heads * keys * sum(widths),), d.float32, query.device)
    return layouts, kernel, desc, parts, rounded


BACKWARD = Plans(_plan_backward, by_default=False)


@launches_kernel("attention_backward")
def attention_backward(grad, query, key, value, out, logs, attn_mask, keep, p, is_causal, scale):
    """Gradients of query, key and value."""
    grad, query, key, value = _readable(grad), _readable(query), _readable(key), _readable(value)
    mask = None if attn_mask is None else attn_mask._layout
    tensors = [t._layout for t in (grad, query, key, value, out)]
    layouts, kernel, description, parts, rounded = BACKWARD[
        *tensors, mask, keep is not None, is_causal
    ]
    results = [empty_like_layout(layout) for layout in layouts]
    if kernel is None:
        return tuple(r.zero_() if is_computed(r) else r for r in results)
    sums = None if rounded is None else empty_like_layout(rounded)
    first = results[0] if parts is None else empty_like_layout(parts)
    kernel(
        description,
        first._storage.pointer,
        results[1]._storage.pointer,
        results[2]._storage.pointer,
        query._storage.pointer + query._offset,
        key._storage.pointer + key._offset,
        value._storage.pointer + value._offset,
        out._storage.pointer + out._offset,
        logs._storage.pointer + logs._offset,
        grad._storage.pointer + grad._offset,
        address(attn_mask) if attn_mask is not None else 0,
        address(keep) if keep is not None else 0,
        address(sums) if sums is not None else 0,
        scale,
        1.0 / (1.0 - p) if p < 1 else 0.0,
    )
    if parts is not None:
        results[0] = first.sum(0).to(query.dtype)
    return tuple(results)
