"""Launching attention: plans by layout, memory for results, which chunks there are.

The kernels take four dimensions (batch, head, position, width) with any strides but the last;
ops/attention.py brings calls to that form and decides which of them come here. There are two
forward: blocks of queries (codegen/templates/attention.py), and for few queries pieces of keys
(attention_few.py). How work is cut depends on sizes only.
"""

from flambeau import _dtype as d
from flambeau._layout import dense_layout
from flambeau.codegen.descriptions import Attention
from flambeau.eager.copying import preserved_layout
from flambeau.eager.kernels import pool
from flambeau.eager.launching import launches, launches_kernel
from flambeau.eager.planned import constant, idle, planned
from flambeau.eager.plans import Plans
from flambeau.eager.rows import has_work
from flambeau.ops.attention import plain_gradients
from flambeau.ops.table import public as function
from flambeau.planning.convolutions import multiplies_pairs
from flambeau.runtime.cpu import packed
from flambeau.runtime.stacks import alone

HEADS = 8  # with fewer, backward cuts the keys of long heads into pieces
LONG = 256  # keys that a piece should have
FEW = 6  # queries that are taken one by one
FEW_ROWS = 64  # the same for all heads that share their keys
WORK = 1 << 16  # multiplications of few queries that are worth a chunk
MANY = 64  # chunks that are enough for all threads
ALIGNED = 16  # bytes: what libraries of GPUs expect of addresses
BLOCK = 64  # keys are walked over in blocks of so many


def _readable(layout):
    """The layout itself if rows lie side by side, else that of a copy."""
    if layout.strides[-1] == 1 or layout.shape[-1] <= 1:
        return layout
    return dense_layout(layout.sizes, layout.dtype, layout.device)


def preserved(layout):
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


def _queries(code):
    from flambeau.codegen.templates.attention_blocks import queries_per_block  # on first need

    return queries_per_block(code)


QUERIES = Plans(lambda code: alone(_queries, code), by_default=False, cuts=False)


@launches("attention")
def attention(query, key, value, attn_mask, keep, dropout_p, is_causal, scale, logged):
    """Result and logarithms of the sums of exponentials."""
    kept = _kept(dropout_p)
    return _forward(query, key, value, attn_mask, keep, is_causal, logged, scale, kept)


def _kept(p):
    """What survives dropout is multiplied with this."""
    return 1.0 / (1.0 - p) if p < 1 else 0.0


@planned(
    None, "query: fitted, key: fitted, value: fitted, mask: tensor?, keep: tensor?, causal, "
    "logged, scale: number, kept: number", "out, logs", room=True,
)  # fmt: skip
def _forward(query, key, value, mask, keep, causal, logged):
    own = query.device.runtime.attention
    if own is not None:
        return own.forward(query, key, value, mask, keep, causal, logged)
    fitted = query, key, value = _readable(query), _readable(key), _readable(value)
    (batch, heads, length, width), (_, key_heads, keys, value_width) = query.shape, value.shape
    dtype, device = query.dtype, query.device
    out = query if query.is_dense else preserved(query)
    if value_width != width:
        out = dense_layout((batch, heads, length, value_width), dtype, device)
    results = out, dense_layout((batch, heads, length), _sums(dtype), device)
    runtime = device.runtime
    if not has_work(out):
        return *idle(*results), *fitted, None
    tensors = query, key, value, out, mask
    pattern = dtype.code, causal, "" if mask is None else mask.dtype.code, keep is not None
    if length > FEW or heads // key_heads * length > FEW_ROWS:
        blocks = -(-length // QUERIES[dtype.code])
        desc = _describe(batch * heads * blocks, *tensors, blocks=blocks)
        paired = multiplies_pairs(dtype.code)
        how = ("attention:build", *pattern)
        if paired:
            how = ("attention_words:build", *pattern, paired)
        kernel = runtime.kernel("attention_forward", *how)
        return *results, kernel, desc, *fitted, None
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
        return *results, kernel, desc, *fitted, None
    rows = results[1].numel
    per_chunk = max(1, WORK // (8 * pieces * value_width))
    last = _describe(-(-rows // per_chunk), *tensors, per_chunk=per_chunk, items=rows, **cut)
    merge = runtime.kernel("attention_merge", "attention_few:build_merge", dtype.code)
    parts = dense_layout((rows * pieces * (value_width + 2),), results[1].dtype, device)
    return *results, _in_pieces, (kernel, desc, merge, last), *fitted, parts


def _in_pieces(plan, *arguments):
    """The kernel of keys in pieces: parts of results, then what they come to."""
    kernel, description, merge, last = plan
    kernel(description, *arguments)
    merge(last, *arguments)


# -- backward -------------------------------------------------------------------------------------


@launches_kernel("attention_backward")
def attention_backward(grad, query, key, value, out, logs, attn_mask, keep, p, is_causal, scale):
    """Gradients of query, key and value."""
    if grad._offset % ALIGNED and not grad.device.runtime.is_host:
        grad = function("clone")(grad)
    given = query, key, value, out, logs, grad, attn_mask, keep, is_causal, scale, _kept(p)
    own = query.device.runtime.attention
    found = None if own is None else own.side_by_side(*given)
    if found is not None:
        return tuple(found)
    first, *others = _backward(*given)
    if first._layout.ndim > 4:  # sums of pieces of keys
        first = first.sum(0).to(query.dtype)
    return first, *others


def _on_plain_ops(query, key, value, out, logs, grad, mask, keep, causal, scale, kept):
    """Gradients where a library does forward alone."""
    given = [None if t is None else t.detach() for t in (grad, query, key, value, mask)]
    return plain_gradients(*given, keep, 1 - 1 / kept, causal, scale)


@planned(
    None, "query: fitted, key: fitted, value: fitted, out: tensor, logs: tensor, grad: fitted, "
    "mask: tensor?, keep: tensor?, causal, scale: number, kept: number", "d_query, d_key, d_value",
    room=True, otherwise=_on_plain_ops,
)  # fmt: skip
def _backward(query, key, value, out, logs, grad, mask, keep, causal):
    """The gradient of queries has one dimension more where keys are cut into pieces."""
    own = query.device.runtime.attention
    if own is not None:
        return own.backward(query, key, value, out, grad, mask, keep, causal)
    fitted = query, key, value, grad = [_readable(t) for t in (query, key, value, grad)]
    results = [preserved(t) for t in (query, key, value)]
    runtime = query.device.runtime
    batch, heads, keys, _ = key.shape
    if not runtime.computes or not grad.numel or not keys:
        return *constant(0, results), *fitted, None
    pieces, by_piece, first = 1, 0, results[0]
    if batch * heads < HEADS:
        pieces = max(1, min(-(-HEADS // (batch * heads)), keys // LONG))
    if pieces > 1:
        first = dense_layout(query.shape, _sums(query.dtype), query.device)
        results[0] = dense_layout((pieces, *query.shape), first.dtype, query.device)
        by_piece = first.nbytes
    per_piece = -(-keys // (pieces * BLOCK)) * BLOCK
    desc = _describe(
        batch * heads * pieces, query, key, value, out, mask, grad, first, *results[1:],
        pieces=pieces, per_piece=per_piece, by_piece=by_piece,
    )  # fmt: skip
    masked = "" if mask is None else mask.dtype.code
    pattern = query.dtype.code, causal, masked, keep is not None, pieces > 1
    kernel = runtime.kernel("attention_backward", "attention_backward:build", *pattern)
    rounded = None
    if query.dtype.itemsize == 2:
        widths = [(n + 31) & -32 for n in (query.shape[3], value.shape[3])]
        rounded = dense_layout((batch * heads * keys * sum(widths),), d.float32, query.device)
    return *results, kernel, desc, *fitted, rounded
