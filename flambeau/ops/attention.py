"""Attention: scaled_dot_product_attention and its derivative.

Calls are brought to one form (batch, head, position, width) and run by one kernel forward and one
backward (eager/attention.py). What the kernels do not do, gradients of masks and gradients of
gradients, is written on plain ops here; bad shapes run through the same plain ops, on the meta
device, for their complaints. Attention with projections around it is in multi_head_attention.py.
"""

import math

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import broadcast_shape
from flambeau.ops.table import OptionalTensor, composite, public, remembered, template

MAX_WIDTH = 512  # elements of a row: blocks of wider ones would not fit the stacks of all threads

HIDDEN = -60000.0  # what libraries add to scores of hidden keys: all types hold it, sums stay exact


# -- on plain ops ---------------------------------------------------------------------------------


def _widened(*tensors):
    """Half types compute in float32."""
    return [t.float() if t.dtype.itemsize == 2 and t.dtype.category == 2 else t for t in tensors]


def _repeated(query, t):
    """Keys or values for every head of the query."""
    heads, given = query.shape[-3], t.shape[-3]
    return t if heads == given else t.repeat_interleave(heads // given, -3)


def _weights(query, key, attn_mask, is_causal, scale):
    """softmax(query @ key.T * scale + mask), zero in rows that see nothing."""
    scores = (query * scale).matmul(key.mT)
    hidden = None
    if is_causal:
        seen = query.new_ones(scores.shape[-2:], dtype=d.bool_).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    if attn_mask is not None:
        if attn_mask.dtype.category == 0:
            shape = broadcast_shape(scores.shape, attn_mask.shape)
            if shape != scores.shape:
                raise _not_broadcast(scores, shape)
            scores = scores.masked_fill(~attn_mask, -math.inf)
        else:
            added = scores + attn_mask.to(scores.dtype)
            if added.shape != scores.shape:
                raise _not_broadcast(scores, added.shape)
            scores = added
        hidden = scores.detach().eq(-math.inf).all(-1, keepdim=True)
        scores = scores.masked_fill(hidden, 0.0)
    weights = scores.softmax(-1)
    return weights if hidden is None else weights.masked_fill(hidden, 0.0)


def _not_broadcast(scores, shape):
    return RuntimeError(
        f"output with shape {list(scores.shape)} doesn't match the broadcast shape {list(shape)}"
    )


def _factors(keep, p, dtype):
    """What dropout multiplies weights with."""
    return keep.to(dtype) * (1.0 / (1.0 - p))


def _plain_attention(query, key, value, attn_mask, dropout_p, is_causal, scale):
    """Attention on plain ops; it differentiates by itself."""
    dtype = query.dtype
    query, key, value = _widened(query, key, value)
    weights = _weights(query, key, attn_mask, is_causal, scale)
    if dropout_p > 0:
        weights = public("dropout")(weights, dropout_p, True)
    return weights.matmul(value).to(dtype)


@composite("attention_backward", variants="")
def _attention_backward(
    grad,
    query,
    key,
    value,
    result,
    logsumexp,
    attn_mask: OptionalTensor,
    keep: OptionalTensor,
    dropout_p: float,
    is_causal: bool,
    scale: float,
):
    """Gradients of query, key and value; on plain ops where they have gradients in turn."""
    if keep is not None and keep.dtype is not d.bool_:
        raise RuntimeError(
            "derivative for attention_backward is not implemented where weights were dropped on "
            "a GPU"
        )
    return plain_gradients(grad, query, key, value, attn_mask, keep, dropout_p, is_causal, scale)


def plain_gradients(grad, query, key, value, attn_mask, keep, dropout_p, is_causal, scale):
    """The same on plain ops."""
    g, query, key, value = _widened(grad, query, key, value)
    every_key, every_value = _repeated(query, key), _repeated(query, value)
    weights = _weights(query, every_key, attn_mask, is_causal, scale)
    dropped, slopes = weights, g.matmul(every_value.mT)
    if keep is not None:
        factors = _factors(keep, dropout_p, weights.dtype)
        dropped, slopes = weights * factors, slopes * factors
    slopes = weights * (slopes - (slopes * weights).sum(-1, keepdim=True))
    grad_query = slopes.matmul(every_key) * scale
    grad_key, grad_value = slopes.mT.matmul(query) * scale, dropped.mT.matmul(g)
    return grad_query, _shared(grad_key, key), _shared(grad_value, value)


def _shared(grad, t):
    """Sum over the heads of the query that share a head of t."""
    given = t.shape[1]
    if grad.shape[1] == given:
        return grad
    return grad.unflatten(1, (given, grad.shape[1] // given)).sum(2)


# -- rows with kernels ----------------------------------------------------------------------------


def _gradients(
    g, query, key, value, out, out1, attn_mask, keep, dropout_p, is_causal, scale, logged
):  # fmt: skip
    found = _attention_backward(
        g, query, key, value, out, out1, attn_mask, keep, dropout_p, is_causal, scale
    )
    return *found, None, None


@template(
    "attention",
    variants="",
    outputs=2,
    edges="query key value",
    joint_grad=_gradients,
    node="ScaledDotProductFlashAttentionForCpuBackward0",
)
def _attention(
    query,
    key,
    value,
    attn_mask: OptionalTensor,
    keep: OptionalTensor,
    dropout_p: float,
    is_causal: bool,
    scale: float,
    logged: bool = True,
):
    """Attention in four dimensions, and the logarithms of its sums of exponentials.

    logged: will somebody look at those? Libraries may leave them out.
    """


# -- checks, in PyTorch's words and order ---------------------------------------------------------


def _type_error(name, value, wanted):
    return TypeError(
        f"scaled_dot_product_attention(): argument {name!r}{_POSITIONS.get(name, '')} must be "
        f"{wanted}, not {type(value).__name__}"
    )


# which of PyTorch's implementations a call may choose; on the host ours stands for these two
ALLOWED = dict.fromkeys(("flash", "mem_efficient", "math", "cudnn", "overrideable"), True)

_POSITIONS = {"attn_mask": " (position 4)"}  # PyTorch gives those that may be positional


def _check_types(attn_mask, is_causal, enable_gqa):
    if attn_mask is not None and not hasattr(attn_mask, "_layout"):
        raise _type_error("attn_mask", attn_mask, "Tensor")
    for name, value in (("is_causal", is_causal), ("enable_gqa", enable_gqa)):
        if type(value) is not bool:
            raise _type_error(name, value, "bool")


def _check(query, key, value, attn_mask):
    tensors = (query, key, value)
    names = ("query", "key", "value")
    if not query.dtype is key.dtype is value.dtype:
        found = [f"{n}.dtype: {t.dtype.cpp_name}" for n, t in zip(names, tensors)]
        raise _mismatch("have the same dtype", found)
    if not query.device == key.device == value.device:
        found = [f"{n}.device: {t.device}" for n, t in zip(names, tensors)]
        raise _mismatch("have the same device type", found)
    if query.ndim < 2 or key.ndim < 2 or value.ndim < 2:
        found = [f"{n}.dim: {t.ndim}" for n, t in zip(names, tensors)]
        raise _mismatch("all be  at least 2 dimensional", found)
    if attn_mask is None:
        return
    dtype = attn_mask.dtype
    if dtype.name not in ("bool", "float32") and dtype is not query.dtype:
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {dtype.cpp_name} and  query.dtype: {query.dtype.cpp_name} instead."
        )


def _mismatch(what, found):
    return RuntimeError(
        f"Expected query, key, and value to {what}, but got {found[0]} {found[1]} and {found[2]} "
        "instead."
    )


def _check_allowed(query):
    if query.device.runtime.is_host:
        raise RuntimeError(
            "No viable backend for scaled_dot_product_attention was found. This is likely due to "
            "turning off both the math kernel and the fused kernels."
        )


def _check_floating(dtype):
    if dtype.is_complex:
        kernel = "bmm" if dtype is d.complex32 else "softmax_lastdim_kernel_impl"
        raise errors.not_implemented(kernel, dtype)
    if not dtype.is_floating_point:
        raise RuntimeError(f"expected scalar type Float but found {dtype.scalar_name}")


def _check_heads(query, key, value):
    """Heads of key and value that go into those of the query."""
    heads = query.shape[-3] if query.ndim > 2 else _no_heads(query)
    for t in (key, value):
        given = t.shape[-3] if t.ndim > 2 else _no_heads(t)
        if given and heads % given:
            raise RuntimeError(
                "Number of heads in key and value must divide the number of heads in query"
            )


def _no_heads(t):
    raise IndexError(
        f"Dimension out of range (expected to be in range of [-{t.ndim}, {t.ndim - 1}], but got -3)"
    )


def _fits(query, key, value, mask, sharing):
    """Do the shapes go together? sharing: heads of the query are those of all."""
    if query[-1] != key[-1] or key[-2] != value[-2]:
        return False
    batches = [query[:-2], key[:-2], value[:-2]]
    if sharing:
        batches = [(*b[:-1], query[-3]) for b in batches]
    try:
        batch = batches[0]
        if not batch == batches[1] == batches[2]:
            batch = broadcast_shape(*batches)
        scores = (*batch, query[-2], key[-2])
        return mask is None or tuple(broadcast_shape(scores, mask)) == scores
    except RuntimeError:
        return False


def _complain(query, key, value, attn_mask, is_causal):
    """Let the plain ops find what is wrong, without computing."""
    tensors = [None if t is None else t.detach().to("meta") for t in (query, key, value, attn_mask)]
    _plain_attention(*tensors, 0.0, is_causal, 1.0)
    raise RuntimeError("shapes of query, key and value do not go together")


# -- the public function --------------------------------------------------------------------------


def _is_plain(query, key, value):
    """Is nothing unusual about three layouts? Then nothing else need be asked."""
    dtype = query.dtype
    if not (dtype is key.dtype is value.dtype and dtype.is_floating_point):
        return False
    if not (query.device is key.device is value.device):
        return False
    q, k, v = query.shape, key.shape, value.shape
    if not len(q) == len(k) == len(v) == 4:
        return False
    (b, h, _, e), (b1, h1, s1, e1), (b2, h2, s2, e2) = q, k, v
    return b == b1 == b2 and h == h1 == h2 and s1 == s2 and e == e1 <= MAX_WIDTH >= e2


@remembered
def _route(query, key, value, attn_mask, learned, dropout_p, is_causal, enable_gqa):
    """How a call with some layouts is run: by the kernel, "four" dimensions as they are or after
    "bring"ing inputs to that form, or on "plain" ops; None if shapes do not go together.

    learned: does the mask want a gradient?
    """
    on_host = query.device.runtime.is_host
    has_kernel = on_host or _library_takes(query, key, value, attn_mask, dropout_p, is_causal)
    if attn_mask is None and dropout_p == 0 and _is_plain(query, key, value):
        return "four" if has_kernel else "plain"
    _check(query, key, value, attn_mask)
    _check_floating(query.dtype)
    if enable_gqa:
        _check_heads(query, key, value)
    q, k, v = tuple(query.shape), tuple(key.shape), tuple(value.shape)
    same = q[:-2] == k[:-2] == v[:-2]
    shared = enable_gqa and k[:-2] == v[:-2] and q[:-3] == k[:-3]
    learned = learned or not has_kernel
    four = len(q) == 4 and (same or (shared and k[1] > 0))
    if attn_mask is not None and is_causal:
        fused = four and dropout_p == 0 and q[3] == v[3] and not learned and on_host
        if not fused:
            raise RuntimeError(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
                "is_causal=True"
            )
    if not dropout_p >= 0:
        raise RuntimeError(
            "scaled_dot_product_attention_flash_attention: Currently do not support dropout > 0"
        )
    if dropout_p > 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p:g}")
    mask = None if attn_mask is None else tuple(attn_mask.shape)
    if not _fits(q, k, v, mask, enable_gqa and not same):
        return None
    if learned or max(q[-1], v[-1]) > MAX_WIDTH or dropout_p == 1:
        return "plain"
    return "four" if four else "bring"


def _library_takes(query, key, value, mask, dropout_p, is_causal):
    """Does a library of the device do a call with such layouts?"""
    own = query.device.runtime.attention
    if own is None or not query.ndim == key.ndim == value.ndim == 4:
        return False
    if (mask is not None and mask.ndim > 4) or not 0 <= dropout_p < 1:
        return False
    shape = None if mask is None else mask.sizes
    try:
        if not _fits(query.sizes, key.sizes, value.sizes, shape, True):
            return False
    except IndexError:
        return False
    if not query.dtype is key.dtype is value.dtype or query.sizes[0] != key.sizes[0]:
        return False
    if key.sizes[:2] != value.sizes[:2] or not key.sizes[1] or query.sizes[1] % key.sizes[1]:
        return False
    return own.takes(query, key, value, shape, dropout_p > 0, is_causal)


def _arranged(out, query):
    """The result in the order of memory that the kernel would have given it."""
    if query.ndim == 4 and query.stride(1) < query.stride(2):
        return out.transpose(1, 2).contiguous().transpose(1, 2)
    return out


def _brought(query, key, value, enable_gqa):
    """Leading dimensions of the result, and the three in four dimensions, broadcast."""
    tensors = [query, key, value]
    if not enable_gqa:
        batch = broadcast_shape(*[t.shape[:-2] for t in tensors])
        tensors = [t.expand(*batch, *t.shape[-2:]) for t in tensors]
    else:
        if key.shape[-3] != value.shape[-3]:
            tensors[1:] = _repeated(query, key), _repeated(query, value)
        lead = broadcast_shape(*[t.shape[:-3] for t in tensors])
        batch = (*lead, query.shape[-3])
        tensors = [t.expand(*lead, *t.shape[-3:]) for t in tensors]
    if len(batch) > 1:
        count = math.prod(batch[:-1])
        return batch, *[t.reshape(count, *t.shape[-3:]) for t in tensors]
    tensors = [t if batch else t.unsqueeze(0) for t in tensors]
    return batch, *[t.unsqueeze(0) for t in tensors]


def _mask_plane(mask, query, key, batch):
    """A mask as a view with an element for every score."""
    if query.dtype is d.float64 and mask.dtype.category == 2:
        mask = mask.to(query.dtype)
    scores = (query.shape[2], key.shape[2])
    if batch is None:
        return mask.expand(*query.shape[:2], *scores)
    return mask.expand(*batch, *scores).reshape(*query.shape[:2], *scores)


def _by_library(query, key, value, attn_mask, dropout_p, is_causal, scale):
    """Attention by a library of a GPU: masks are added, and what is dropped is a seed's matter."""
    runtime = query.device.runtime
    query, key, value = [t.clone() if t._offset % 16 else t for t in (query, key, value)]
    hidden = keep = None
    if attn_mask is not None:
        attn_mask, hidden = _added(attn_mask, query, key, runtime)
    if dropout_p > 0:
        keep = runtime.attention.seed(query.device)
    logged = query._requires_grad or key._requires_grad or value._requires_grad
    given = attn_mask, keep, dropout_p, is_causal, scale, logged
    out = _attention(query, key, value, *given)[0]
    return out if hidden is None else out.masked_fill(hidden, 0.0)


def _added(mask, query, key, runtime):
    """A mask as numbers that are added to scores, and the rows in which no key is seen.

    Those rows get equal weights, which are finite; the result is zero there all the same.
    """
    layout = runtime.attention.mask(mask.shape, query._layout, key._layout)
    mask = mask.expand(layout.shape)
    if mask.dtype.category == 0:
        seen, zero = mask, query.new_zeros((), dtype=query.dtype)
        mask = zero.expand(layout.shape).masked_fill(~mask, HIDDEN)
    else:
        seen = mask.ne(-math.inf)
        mask = mask.to(query.dtype).clamp(min=HIDDEN)
    return mask.contiguous(), ~seen.any(-1, keepdim=True)


def scale_of(query, scale):
    """1 / sqrt(width) unless told otherwise; products of no elements are zero at any scale."""
    if scale is not None:
        if isinstance(scale, (str, bytes)) or not hasattr(scale, "__float__"):
            raise _type_error("scale", scale, "float")
        return float(scale)
    return 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0


@composite(variants="", namespace="nn.functional", python=False)
def scaled_dot_product_attention(
    query,
    key,
    value,
    attn_mask: OptionalTensor = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
):
    """softmax(query @ key.T * scale + mask) @ value, over the last two dimensions.

    A mask is added to the scores, or, if boolean, says which keys a query may see; `is_causal`
    hides later keys. Weights are dropped with probability `dropout_p`. With `enable_gqa`, several
    heads of the query (dimension -3) share a head of key and value. Memory grows with the length,
    not with its square, unless a mask wants a gradient or weights are dropped.
    """
    masked = attn_mask is not None
    if masked or type(is_causal) is not bool or type(enable_gqa) is not bool:
        _check_types(attn_mask, is_causal, enable_gqa)
    if not (ALLOWED["math"] or ALLOWED["flash"]):
        _check_allowed(query)
    layouts = query._layout, key._layout, value._layout, attn_mask._layout if masked else None
    learned = masked and attn_mask._requires_grad
    route = _route(*layouts, learned, dropout_p, is_causal, enable_gqa)
    if route is None:
        if enable_gqa:
            key, value = _repeated(query, key), _repeated(query, value)
        _complain(query, key, value, attn_mask, is_causal)
    scale = scale_of(query, scale)
    if route == "plain":
        if enable_gqa:
            key, value = _repeated(query, key), _repeated(query, value)
        out = _plain_attention(query, key, value, attn_mask, dropout_p, is_causal, scale)
        return _arranged(out, query)
    if not query._layout.device.runtime.is_host:
        given = query, key, value, attn_mask, dropout_p, is_causal, scale
        return _by_library(*given)
    shape = None
    if route == "bring":
        shape, query, key, value = _brought(query, key, value, enable_gqa)
    keep = None
    if masked:
        attn_mask = _mask_plane(attn_mask, query, key, shape)
    if dropout_p > 0:
        size = (*query.shape[:3], key.shape[2])
        keep = query.new_empty(size, dtype=d.bool_).bernoulli_(1 - dropout_p)
    out = _attention(query, key, value, attn_mask, keep, dropout_p, is_causal, scale)[0]
    return out if shape is None else out.reshape((*shape, *out.shape[-2:]))
