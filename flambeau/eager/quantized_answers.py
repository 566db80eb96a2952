"""Ordinary functions that take quantized tensors, and what they do with them.

A handler (interposing/) comes with the first quantized tensor of a process; it is told of
calls of the functions in FUNCTIONS only, and goes on where no argument is quantized. So programs
without quantized tensors pay nothing. Views need no answer: the storage knows the quantizer. Most
functions work on the integers and keep the quantizer (`_on_integers`), some on the numbers, which
are quantized again (`_through_floats`). The rest is refused where a kernel asks for the dtype.
"""

from flambeau import _dtype as d
from flambeau import interposing
from flambeau._tensor import Tensor, alias
from flambeau.eager.quantized import (
    PerChannel,
    PerTensor,
    alike,
    dequantize,
    dequantized_by_vectors,
    integers_of,
    is_quantized,
    leveled,
    quantize_per_channel,
    quantize_per_tensor,
    quantized_over,
    quantizer_of,
)
from flambeau.ops.table import public
from flambeau.storage import twin


def _per_tensor_of(q):
    quantizer = quantizer_of(q)
    if type(quantizer) is not PerTensor:
        raise RuntimeError(
            "Expected quantizer->qscheme() == kPerTensorAffine to be true, but got false.  (Could "
            "this error message be improved?  If so, please report an enhancement request to "
            "PyTorch.)"
        )
    return quantizer


def _looked_at(value):
    """An argument with integers in place of quantized tensors."""
    if isinstance(value, Tensor):
        return integers_of(value) if is_quantized(value) else value
    if type(value) in (list, tuple):
        return type(value)(map(_looked_at, value))
    return value


def _first(args, kwargs):
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor) and is_quantized(value):
            return value
        if type(value) in (list, tuple):
            found = _first(value, {})
            if found is not None:
                return found
    return None


def _wrapped(q, result):
    """Results of a computation on integers; indices among them stay what they are."""
    if isinstance(result, Tensor):
        return alike(q, result) if result.dtype is d.QUANTIZED[q.dtype] else result
    items = [_wrapped(q, item) for item in result]
    return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)


def _on_integers(name, function, args, kwargs):
    """Computed with the integers; the quantizer stays."""
    q = _first(args, kwargs)
    _per_tensor_of(q)
    result = function(
        *map(_looked_at, args), **{key: _looked_at(value) for key, value in kwargs.items()}
    )
    return _wrapped(q, result)


def _moved(name, function, args, kwargs):
    """The same for what only moves elements, which channels survive."""
    q = _first(args, kwargs)
    moved = function(*map(_looked_at, args), **kwargs)
    if isinstance(moved, Tensor) and moved._storage is q._storage:
        return function(*args, **kwargs)  # nothing moved: q itself, or a view of it
    return _wrapped(q, moved)


def _followed(name, function, args, kwargs):
    """Parts of a tensor; those of one with channels have the channels of their elements."""
    q, *rest = args
    quantizer = quantizer_of(q)
    if type(quantizer) is PerTensor:
        return _wrapped(q, function(integers_of(q), *rest, **kwargs))
    numbers = public("arange")(q.shape[quantizer.axis])
    shape = [-1 if k == quantizer.axis else 1 for k in range(q.ndim)]
    probe = numbers.reshape(shape).expand(q.shape)
    parts, probes = (function(t, *rest, **kwargs) for t in (integers_of(q), probe))
    if isinstance(parts, Tensor):
        return _with_channels(q, quantizer, parts, probes)
    return type(parts)(_with_channels(q, quantizer, *pair) for pair in zip(parts, probes))


def _with_other_axes(name, function, args, kwargs):
    """Views with dimensions of one element more or less: the channels may lie elsewhere."""
    quantizer = quantizer_of(args[0])
    if type(quantizer) is PerTensor or args[0].shape[quantizer.axis] == 1:
        return function(*args, **kwargs)
    return _followed(name, function, args, kwargs)


def _with_channels(q, quantizer, part, probe):
    """A part of q; probe holds the numbers of channels, and steps along their axis only."""
    if part._storage is not q._storage:
        raise RuntimeError("parts of tensors with channels can only be views of them")
    axes = [k for k, stride in enumerate(probe.stride()) if stride and probe.shape[k] > 1]
    part = alias(part, part._layout, part._offset)
    part._storage = twin(q._storage, q._storage.version)
    if not axes:
        number = probe.reshape(-1)[0].item()
        scale, shift = quantizer.scales[number].item(), quantizer.zero_points[number].item()
        return quantized_over(part, q.dtype, PerTensor(scale, shift))
    axis = axes[0]
    kept = probe.movedim(axis, 0).reshape(probe.shape[axis], -1)[:, 0]
    found = PerChannel(quantizer.scales[kept], quantizer.zero_points[kept], axis)
    return quantized_over(part, q.dtype, found)


def _strided(name, function, args, kwargs):
    """Views with other strides; channels would not know where they are."""
    if type(quantizer_of(_first(args, kwargs))) is not PerTensor:
        raise RuntimeError("Setting strides is possible only on uniformly quantized tensor")
    return function(*args, **kwargs)


def _through_floats(scale=None, zero_point=None, by_vectors=False):
    """Computed with the numbers, then quantized: like the input, or with a range of its own.

    by_vectors: does PyTorch scale and round as its elementwise ops do?
    """

    def answer(name, function, args, kwargs):
        q, *rest = args
        quantizer = _per_tensor_of(q)
        if scale is not None:
            shift = {d.quint8: zero_point, d.qint8: zero_point - 128}.get(q.dtype, 0)
            quantizer = PerTensor(scale, shift)
        if by_vectors:
            result = function(dequantized_by_vectors(q), *rest, **kwargs)
            return leveled(result, quantizer, q.dtype)
        result = function(dequantize(q), *rest, **kwargs)
        return quantize_per_tensor(result, *quantizer, q.dtype)

    return answer


def _compared(name, function, args, kwargs):
    """Numbers against numbers."""
    return function(*[dequantize(a) if _is_one(a) else a for a in args], **kwargs)


def _is_one(value):
    return isinstance(value, Tensor) and is_quantized(value)


def _item(name, function, args, kwargs):
    return dequantize(args[0]).item()


def _equal(name, function, args, kwargs):
    a, b = args
    if not (_is_one(a) and _is_one(b)) or a.dtype is not b.dtype or a.shape != b.shape:
        return False
    return quantizer_of(a).like(quantizer_of(b)) and function(integers_of(a), integers_of(b))


def _bound(value, quantizer, dtype):
    """A number as the integer that stands for it."""
    one = public("full")((), float(value), dtype=d.float32)
    return integers_of(quantize_per_tensor(one, *quantizer, dtype)).item()


def _relu(name, function, args, kwargs):
    quantizer = _per_tensor_of(args[0])
    return alike(args[0], integers_of(args[0]).clamp(min=quantizer.zero_point))


def _relu_in_place(name, function, args, kwargs):
    integers_of(args[0]).clamp_(min=_per_tensor_of(args[0]).zero_point)
    return args[0]


def _clamped(lowest, highest):
    """Numbers within bounds, which come with the call or are these."""

    def answer(name, function, args, kwargs):
        q, *given = args
        quantizer = _per_tensor_of(q)
        low, high = [*given, *[None] * 2][:2]
        low = kwargs.get("min", kwargs.get("min_val", low))
        high = kwargs.get("max", kwargs.get("max_val", high))
        low, high = lowest if low is None else low, highest if high is None else high
        bounds = [None if b is None else _bound(b, quantizer, q.dtype) for b in (low, high)]
        return alike(q, integers_of(q).clamp(*bounds))

    return answer


def _relu6(name, function, args, kwargs):
    return _clamped(0.0, 6.0)(name, function, args[:1], {})


def _cat(name, function, args, kwargs):
    """All become like the first."""
    tensors = kwargs.get("tensors", args[0] if args else ())
    first = tensors[0]
    if not all(type(quantizer_of(t)) is PerTensor for t in tensors):
        raise RuntimeError("Only per-tensor quantization is supported in 'cat'!")
    quantizer = quantizer_of(first)
    pieces = [integers_of(requantized(t, quantizer, first.dtype)) for t in tensors]
    rest = {key: value for key, value in kwargs.items() if key != "tensors"}
    return alike(first, function(pieces, *args[1:], **rest))


def requantized(q, quantizer, dtype):
    """A quantized tensor with another scale and zero point, if they are others."""
    if q.dtype is dtype and quantizer_of(q) == quantizer:
        return q
    return quantize_per_tensor(dequantize(q), *quantizer, dtype)


def _pad(name, function, args, kwargs):
    names = ("input", "pad", "mode", "value")
    given = {**dict(zip(names, args)), **kwargs}
    q = given.pop("input")
    value = given.pop("value", None) or 0.0
    if given.get("mode", "constant") == "constant":
        given["value"] = _bound(value, _per_tensor_of(q), q.dtype)
    return alike(q, function(integers_of(q), **given))


def _copy(name, function, args, kwargs):
    target, source, *rest = args
    if not is_quantized(target):
        raise RuntimeError(
            "Copying from quantized Tensor to non-quantized Tensor is not allowed, "
            "please use dequantize to get a float Tensor from a quantized Tensor"
        )
    quantizer = quantizer_of(target)
    if is_quantized(source):
        if source.dtype is not target.dtype:
            raise RuntimeError("Quantized Copy only works with same data type")
        if quantizer_of(source).scheme is not quantizer.scheme:
            raise RuntimeError("Quantized Copy only works with same qscheme")
        target._storage.quantizer = quantizer_of(source)
        integers_of(target).copy_(integers_of(source), *rest)
        return target
    integers_of(target).copy_(integers_of(_quantized_like(target, source.float())))
    return target


def _quantized_like(q, numbers):
    quantizer = quantizer_of(q)
    if type(quantizer) is PerTensor:
        return quantize_per_tensor(numbers, *quantizer, q.dtype)
    numbers = numbers.expand(q.shape)
    parts = (quantizer.scales, quantizer.zero_points, quantizer.axis)
    return quantize_per_channel(numbers, *parts, q.dtype)


def _fill(name, function, args, kwargs):
    target, value = args
    value = value if isinstance(value, Tensor) else public("full")((), float(value))
    integers_of(target).copy_(integers_of(_quantized_like(target, value.float())))
    return target


def _set_item(name, function, args, kwargs):
    target, key, value = args
    if not is_quantized(target):
        return function(*args)
    place = _followed(name, type(target).__getitem__, (target, key), {})
    if not isinstance(value, Tensor):
        value = public("full")((), float(value))
    if not is_quantized(value):
        value = _quantized_like(place, value.float())
    integers_of(target)[key] = integers_of(value)
    return None


def _masked_fill(name, function, args, kwargs):
    q, mask, value = args
    level = _bound(value, _per_tensor_of(q), q.dtype)
    return alike(q, function(integers_of(q), mask, level))


def _masked_fill_in_place(name, function, args, kwargs):
    _masked_fill(name, function, args, kwargs)
    return args[0]


def _index_put_in_place(name, function, args, kwargs):
    q, places, value = args
    if not _is_one(value):
        value = _quantized_like(q, value.float())
    function(integers_of(q), places, integers_of(value), **kwargs)
    return q


def _empty_like(name, function, args, kwargs):
    q = args[0]
    kwargs = {key: value for key, value in kwargs.items() if key != "dtype"}
    return quantized_over(function(integers_of(q), **kwargs), q.dtype, quantizer_of(q))


def _ones_like(name, function, args, kwargs):
    q = args[0]
    ones = public("ones_like")(integers_of(q), dtype=d.float32)
    return _quantized_like(q, ones)


_NO_CAST = "Creation of quantized tensor requires quantized dtype like torch.quint8"


def _to(name, function, args, kwargs):
    dtypes = [v for v in (*args[1:], *kwargs.values()) if isinstance(v, d.dtype)]
    if dtypes and dtypes[0] is not args[0].dtype:
        raise RuntimeError(_NO_CAST)
    return _moved(name, function, [a for a in args if not isinstance(a, d.dtype)],
                  {k: v for k, v in kwargs.items() if not isinstance(v, d.dtype)})  # fmt: skip


def _refused(kind, words):
    def answer(name, function, args, kwargs):
        raise kind(words.format(_first(args, kwargs).dtype.scalar_name))

    return answer


def _interpolated(name, function, args, kwargs):
    """Nearest neighbours are integers that move; others are computed with the numbers."""
    mode = kwargs.get("mode", args[3] if len(args) > 3 else "nearest")
    if mode in ("nearest", "nearest-exact"):
        return _on_integers(name, function, args, kwargs)
    return _through_floats()(name, function, args, kwargs)


def _pooled_lines(name, function, args, kwargs):
    """max_pool1d has no kernel for bytes; that for pictures does it."""
    names = ("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode")
    given = {**dict(zip(names, args)), **kwargs}
    q = given.pop("input")
    _per_tensor_of(q)

    def one(value, first):
        value = value[0] if isinstance(value, (list, tuple)) else value
        return (first, value)

    size = one(given.pop("kernel_size"), 1)
    stride = given.pop("stride", None)
    stride = size if stride is None else one(stride, 1)
    padding, dilation = one(given.pop("padding", 0), 0), one(given.pop("dilation", 1), 1)
    ceil_mode = given.pop("ceil_mode", False)
    picture = integers_of(q).unsqueeze(-2)
    found = public("max_pool2d")(picture, size, stride, padding, dilation, ceil_mode)
    return alike(q, found.squeeze(-2))


def _dropout(name, function, args, kwargs):
    return args[0]


def _named(names, answer):
    return dict.fromkeys(names.split(), answer)


FUNCTIONS = {
    **_named("clone contiguous reshape flatten reshape_as unflatten ravel cpu", _moved),
    **_named(
        "max_pool2d max_pool3d flip index_select repeat tile channel_shuffle "
        "pixel_shuffle pixel_unshuffle sort topk max min amax amin masked_select "
        "take_along_dim unique rot90 resize_",
        _on_integers,
    ),
    **_named(
        "transpose permute t T mT expand expand_as as_strided unfold movedim moveaxis swapaxes "
        "swapdims broadcast_to",
        _strided,
    ),
    **_named("__getitem__ select narrow unbind split chunk tensor_split __iter__", _followed),
    **_named("squeeze unsqueeze", _with_other_axes),
    **_named("eq ne lt le gt ge __eq__ __ne__ __lt__ __le__ __gt__ __ge__ allclose", _compared),
    **_named("relu", _relu),
    **_named("relu_", _relu_in_place),
    **_named("clamp clip hardtanh", _clamped(None, None)),
    **_named("relu6", _relu6),
    **_named("sigmoid hardsigmoid", _through_floats(1.0 / 256.0, 0)),
    **_named("tanh", _through_floats(2.0 / 256.0, 128)),
    **_named(
        "gelu avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d "
        "adaptive_avg_pool2d adaptive_avg_pool3d mean std",
        _through_floats(),
    ),
    **_named("leaky_relu threshold", _through_floats(by_vectors=True)),
    "hardtanh": _clamped(-1.0, 1.0),
    "interpolate": _interpolated,
    "cat": _cat,
    "concat": _cat,
    "stack": _cat,
    "pad": _pad,
    "copy_": _copy,
    "fill_": _fill,
    "__setitem__": _set_item,
    "masked_fill": _masked_fill,
    "masked_fill_": _masked_fill_in_place,
    "index_put_": _index_put_in_place,
    "empty_like": _empty_like,
    "ones_like": _ones_like,
    "to": _to,
    **_named("float double half bfloat16", _refused(RuntimeError, _NO_CAST)),
    "max_pool1d": _pooled_lines,
    "equal": _equal,
    "item": _item,
    "dropout": _dropout,
    "tolist": _refused(RuntimeError, "load_scalar: invalid type"),
    "numpy": _refused(TypeError, "Got unsupported ScalarType {}"),
    "zero_": _refused(
        NotImplementedError,
        "Could not run 'aten::zero_' with arguments from the 'QuantizedCPU' backend.",
    ),
}


class _Answers(interposing.Handler):
    """Lets quantized arguments be handled by FUNCTIONS."""

    kinds = frozenset({"op", "python", "data", "method"})
    level = -10
    all_threads = is_lasting = forks = True

    def wants(self, place):
        return place.key in FUNCTIONS

    def around(self, name, function, args, kwargs):
        if _first(args, kwargs) is None:
            return function(*args, **kwargs)
        return FUNCTIONS[name.place.key](name, function, args, kwargs)


ANSWERS = _Answers()
