"""Fake quantization: numbers rounded to the levels that integers would have, in floats.

Gradients pass where a number lay within the levels. With learnable scales and zero points they
reach those, too. All is made of the row `faked` and of ops.
"""

from flambeau._tensor import Tensor
from flambeau.eager.quantized import chosen
from flambeau.interposing import offer
from flambeau.ops.quantization import faked
from flambeau.ops.table import public


def _check_bounds(quant_min, quant_max):
    if quant_min > quant_max:
        raise RuntimeError("`quant_min` should be less than or             equal to `quant_max`.")


def fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max):
    """Numbers as one scale and zero point would leave them."""
    _check_bounds(quant_min, quant_max)
    if isinstance(scale, Tensor):
        scale, zero_point = scale.item(), zero_point.item()
        return faked(input, scale, float(zero_point), float(quant_min), float(quant_max))
    if not quant_min <= zero_point <= quant_max:
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    return faked(input, scale, float(zero_point), float(quant_min), float(quant_max))


def fake_quantize_per_channel_affine(input, scale, zero_point, axis, quant_min, quant_max):
    """Numbers as a scale and a zero point per channel would leave them."""
    _check_bounds(quant_min, quant_max)
    _check_channels(input, scale, zero_point, axis)
    return faked(
        input,
        _spread(scale.detach(), input, axis).clone(),  # an observer may write to it before backward
        _spread(zero_point.detach(), input, axis).clone(),
        float(quant_min),
        float(quant_max),
    )


def _check_channels(input, scale, zero_point, axis):
    if scale.dim() != 1 or zero_point.dim() != 1:
        raise RuntimeError("scale and zero point should be 1-D tensors")
    if scale.numel() != zero_point.numel() or scale.numel() != input.size(axis):
        raise RuntimeError(
            "dimensions of scale and zero-point are not consistent with input tensor"
        )


def _spread(t, input, axis):
    axis = axis % input.ndim
    shape = [-1 if k == axis else 1 for k in range(input.ndim)]
    return t.to(input.dtype).reshape(shape)


# -- learnable scales ------------------------------------------------------------------------------


def _fake_quantize_learnable_per_tensor_affine(
    input, scale, zero_point, quant_min, quant_max, grad_factor=1.0
):
    """With gradients towards scale and zero point, times grad_factor."""
    shift = public("clamp")(zero_point.detach().round(), quant_min, quant_max)
    return _learnable(input, scale, zero_point, shift, quant_min, quant_max, grad_factor, None)


def _fake_quantize_learnable_per_channel_affine(
    input, scale, zero_point, axis, quant_min, quant_max, grad_factor=1.0
):
    """The same per channel."""
    shift = public("clamp")(zero_point.detach().round(), quant_min, quant_max)
    return _learnable(input, scale, zero_point, shift, quant_min, quant_max, grad_factor, axis)


def _learnable(input, scale, zero_point, shift, low, high, factor, axis):
    from flambeau.autograd.function import Function  # with the first learnable scale

    global _Learnable
    if _Learnable is None:
        _Learnable = _learnable_class(Function)
    return _Learnable.apply(input, scale, zero_point, shift, low, high, factor, axis)


_Learnable = None


def _learnable_class(function):
    class FakeQuantizeLearnable(function):
        @staticmethod
        def forward(ctx, input, scale, zero_point, shift, low, high, factor, axis):
            s, z = (_shaped(t, input, axis) for t in (scale, shift))
            ctx.save_for_backward(input, s, z, scale, zero_point)
            ctx.facts = low, high, factor, axis
            return faked(input, s, z, float(low), float(high))

        @staticmethod
        def backward(ctx, g):
            input, s, z, scale, zero_point = ctx.saved_tensors
            low, high, factor, axis = ctx.facts
            level = (input * (1 / s)).round() + z
            inside = (level >= low) & (level <= high)
            bounded = level.clamp(low, high)
            where = public("where")
            to_scale = where(inside, (bounded - z) - input / s, bounded - z) * g * factor
            to_zero = where(inside, input * 0, -s.expand_as(input)) * g * factor
            dims = None if axis is None else [k for k in range(input.ndim) if k != axis]
            summed = [(t.sum() if dims is None else t.sum(dims)) for t in (to_scale, to_zero)]
            return (
                where(inside, g, g * 0),
                summed[0].reshape(scale.shape),
                summed[1].reshape(zero_point.shape),
                None, None, None, None, None,
            )  # fmt: skip

    return FakeQuantizeLearnable


def _shaped(t, input, axis):
    return (
        t.detach().to(input.dtype).reshape(()) if axis is None else _spread(t.detach(), input, axis)
    )


# -- observed and faked in one go ------------------------------------------------------------------


def fused_moving_avg_obs_fake_quant(
    input,
    observer_on,
    fake_quant_on,
    running_min,
    running_max,
    scale,
    zero_point,
    averaging_const,
    quant_min,
    quant_max,
    ch_axis,
    per_row_fake_quant=False,
    symmetric_quant=False,
):
    """Follows the range of what passes, keeps scale and zero point for it, and fakes."""
    if not input.numel():
        return input.clone()
    if observer_on.item():
        _observe(input.detach(), running_min, running_max, averaging_const, ch_axis,
                 per_row_fake_quant)  # fmt: skip
        _choose(running_min, running_max, scale, zero_point, quant_min, quant_max, symmetric_quant)
    if not fake_quant_on.item():
        return input.clone()
    if per_row_fake_quant:
        return fake_quantize_per_channel_affine(
            input, scale, zero_point, ch_axis, quant_min, quant_max
        )
    return fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max)


def _observe(input, running_min, running_max, share, axis, per_row):
    if per_row:
        rows = input.movedim(axis, 0).flatten(1)
        low, high = rows.amin(1), rows.amax(1)
        if running_min.numel() != low.numel():
            for running, fresh in ((running_min, float("inf")), (running_max, float("-inf"))):
                running.resize_(low.shape).fill_(fresh)
    else:
        low, high = public("aminmax")(input)
    if running_min.isinf().any():
        running_min.copy_(low.reshape(running_min.shape))
        running_max.copy_(high.reshape(running_max.shape))
    else:
        running_min.add_((low.reshape(running_min.shape) - running_min) * share)
        running_max.add_((high.reshape(running_max.shape) - running_max) * share)


def _choose(running_min, running_max, scale, zero_point, low, high, symmetric):
    pairs = zip(running_min.reshape(-1).tolist(), running_max.reshape(-1).tolist())
    found = [chosen_for(least, most, low, high, symmetric) for least, most in pairs]
    if scale.numel() != len(found):
        scale.resize_(len(found))
        zero_point.resize_(len(found))
    tensor = public("tensor")
    scale.copy_(tensor([s for s, _ in found], dtype=scale.dtype).reshape(scale.shape))
    zeros = tensor([z for _, z in found], dtype=zero_point.dtype)
    zero_point.copy_(zeros.reshape(zero_point.shape))


def chosen_for(least, most, low, high, symmetric):
    """(scale, zero point) for a range; symmetric ones have zero in the middle of the levels."""
    if not (symmetric and least < 0 < most):
        return chosen(least, most, low, high)
    above = (high - low) // 2
    scale = max(-least / (above + 1), most / above)
    return chosen(-scale * (above + 1), scale * above, low, high)


PUBLIC = (
    "fake_quantize_per_tensor_affine fake_quantize_per_channel_affine "
    "_fake_quantize_learnable_per_tensor_affine _fake_quantize_learnable_per_channel_affine "
    "fused_moving_avg_obs_fake_quant"
).split()
for _name in PUBLIC:
    offer(globals()[_name], "aten::" + _name)
