"""Launching attention: plans by layout, memory for results, which chunks there are.

The kernels (codegen/templates/attention.py and attention_backward.py) take four dimensions (batch,
head, position, width) with any strides but the last; ops/attention.py brings calls to that form and
decides which of them come here. A plan is made once per combination of layouts.
"""

from flambeau import _dtype as d
from flambeau._layout import Size, dense_layout
from flambeau._tensor import empty_like_layout, empty_tensor
from flambeau.autograd.grad_mode import modes
from flambeau.eager.launching import FRONTS, launches
from flambeau.eager.copying import preserved_layout
from flambeau.eager.kernels import load_kernel, pool
from flambeau.eager.plan import MAX_PLANS
from flambeau.eager.rows import address, contiguous, is_computed
from flambeau.ops.table import public
from flambeau.runtime.cpu import words

_kernels: dict = {}
_plans: dict = {}
HEADS = 8  # with fewer, backward cuts the keys of long heads into pieces
LONG = 256  # keys that a piece should have


def _kernel(*key):
    found = _kernels.get(key)
    if found is None:
        # with llvmlite, on first need
        from flambeau.codegen.templates import attention, attention_backward

        build = attention.build if key[0] == "forward" else attention_backward.build
        found = _kernels[key] = load_kernel(build(*key[1:]), f"attention_{key[0]}")
    return found


def _readable(t):
    """The tensor itself if its rows lie side by side, else a copy."""
    layout = t._layout
    return t if layout.strides[-1] == 1 or layout.shape[-1] <= 1 else contiguous(t)


def _strides(layout, count=3):
    return [s * layout.itemsize for s in layout.strides[:count]]


def _preserved(layout):
    """A dense layout in the order of another, rows side by side."""
    found = preserved_layout(layout)
    if found.strides[-1] != 1:
        found = dense_layout(layout.shape, layout.dtype, layout.device)
    return found


def _plan(key, make):
    found = _plans.get(key)
    if found is None:
        if len(_plans) > MAX_PLANS:
            _plans.clear()
        found = _plans[key] = make(*key[1:])
    return found


def _described(query, key, value, mask, tensors, pieces=1, by_piece=0):
    """Description words, but for the number of chunks, and the number of blocks of queries.

    tensors: layouts of out, and for backward those of grad and of the three gradients.
    """
    from flambeau.codegen.templates.attention_blocks import queries_per_block

    _, heads, length, width = query.shape
    blocks = -(-length // queries_per_block(query.dtype.code))
    sharing = heads // key.shape[1] if key.shape[1] else 1
    sizes = [heads, sharing, length, key.shape[2], width, value.shape[3]]
    strides = [s for t in (query, key, value, tensors[0]) for s in _strides(t)]
    strides += _strides(mask, 4) if mask is not None else [0] * 4
    strides += [s for t in tensors[1:] for s in _strides(t)] or [0] * 12
    return [blocks, pieces, *sizes, *strides, by_piece], blocks


def _launch(chunks, described):
    if chunks > 1:
        pool().ensure_workers()
    return words([chunks, *described])


def _mask_code(mask):
    return "" if mask is None else mask.dtype.code


# -- forward --------------------------------------------------------------------------------------


def _plan_forward(query, key, value, mask, keep, causal):
    shape = Size((*query.shape[:3], value.shape[3]))
    like = (
        query
        if value.shape[3] == query.shape[3]
        else dense_layout(shape, query.dtype, query.device)
    )
    out = _preserved(like)
    compute = d.float64 if query.dtype is d.float64 else d.float32
    logs = dense_layout(shape[:3], compute, query.device)
    if not out.numel or query.device.type != "cpu":
        return out, logs, None, None, None
    batch, heads = query.shape[:2]
    described, blocks = _described(query, key, value, mask, (out,))
    owner, at = _launch(batch * heads * blocks, described)
    kernel = _kernel("forward", query.dtype.code, causal, _mask_code(mask), keep)
    return out, logs, kernel, at, owner


@launches("attention")
def attention(query, key, value, attn_mask, keep, dropout_p, is_causal, scale):
    """Result and logarithms of the sums of exponentials."""
    query, key, value = _readable(query), _readable(key), _readable(value)
    mask = None if attn_mask is None else attn_mask._layout
    call = ("forward", query._layout, key._layout, value._layout, mask, keep is not None, is_causal)
    out_layout, log_layout, kernel, description, _ = _plan(call, _plan_forward)
    out, logs = empty_like_layout(out_layout), empty_like_layout(log_layout)
    if kernel is not None:
        kernel(
            description,
            out._storage.pointer,
            logs._storage.pointer,
            query._storage.pointer + query._offset,
            key._storage.pointer + key._offset,
            value._storage.pointer + value._offset,
            address(attn_mask) if attn_mask is not None else 0,
            address(keep) if keep is not None else 0,
            scale,
            1.0 / (1.0 - dropout_p) if dropout_p < 1 else 0.0,
        )
    return out, logs


# -- backward -------------------------------------------------------------------------------------


def _plan_backward(grad, query, key, value, out, mask, keep, causal):
    """Layouts of the gradients; kernel and description; layout of parts; room for half types."""
    layouts = [_preserved(t) for t in (query, key, value)]
    if query.device.type != "cpu" or not grad.numel or not key.shape[2]:
        return layouts, None, None, None, 0, None
    batch, heads = key.shape[:2]
    pieces, parts, by_piece = 1, None, 0
    if batch * heads < HEADS:
        pieces = max(1, min(-(-HEADS // (batch * heads)), key.shape[2] // LONG))
    written = list(layouts)
    if pieces > 1:
        compute = d.float64 if query.dtype is d.float64 else d.float32
        parts = dense_layout(Size((pieces, *query.shape)), compute, query.device)
        written[0] = dense_layout(query.shape, compute, query.device)
        by_piece = written[0].nbytes
    tensors = (out, grad, *written)
    described, _ = _described(query, key, value, mask, tensors, pieces, by_piece)
    owner, at = _launch(batch * heads * pieces, described)
    kernel = _kernel("backward", query.dtype.code, causal, _mask_code(mask), keep, pieces > 1)
    rounded = 0
    if query.dtype.itemsize == 2:
        widths = [(n + 31) & -32 for n in (query.shape[3], value.shape[3])]
        rounded = batch * heads * key.shape[2] * sum(widths)
    return layouts, kernel, at, parts, rounded, owner


@launches("attention_backward")
def attention_backward(grad, query, key, value, out, logs, attn_mask, keep, p, is_causal, scale):
    """Gradients of query, key and value."""
    grad, query, key, value = _readable(grad), _readable(query), _readable(key), _readable(value)
    mask = None if attn_mask is None else attn_mask._layout
    tensors = (grad, query, key, value, out)
    call = ("backward", *[t._layout for t in tensors], mask, keep is not None, is_causal)
    layouts, kernel, description, parts, rounded, _ = _plan(call, _plan_backward)
    results = [empty_like_layout(layout) for layout in layouts]
    if kernel is None:
        return tuple(r.zero_() if is_computed(r) else r for r in results)
    sums = empty_tensor(Size((rounded,)), d.float32, query.device) if rounded else None
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


def _backward_front(op, general):
    """Where gradients of gradients are wanted, plain ops; else the kernel."""
    composite = public("_attention_gradients")

    def function(grad, query, key, value, out, logs, attn_mask, keep, p, is_causal, scale):
        wanted = (grad, query, key, value)
        if modes.grad and any(t._requires_grad for t in wanted):
            return composite(grad, query, key, value, attn_mask, keep, p, is_causal, scale)
        return attention_backward(
            grad, query, key, value, out, logs, attn_mask, keep, p, is_causal, scale
        )

    return function


FRONTS["attention_backward"] = _backward_front
