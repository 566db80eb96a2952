"""Ops of quantized tensors that `torch` itself has, from before there was `torch.ops.quantized`."""

from flambeau.ao.quantized_ops import arithmetic, normalization
from flambeau.interposing.overriding import answerable


def _check(input, name):
    if not input.is_quantized:
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the 'CPU' backend. "
            "It takes quantized tensors."
        )


@answerable
def quantized_batch_norm(input, weight, bias, mean, var, eps, output_scale, output_zero_point):
    """Batch norm of a quantized tensor with fixed statistics.

    Args:
        input: quantized, of shape (batch, channels, height, width).
        weight: what each channel is multiplied by.
        bias: what is added to it.
        mean: the mean of each channel.
        var: its variance.
        eps: added to the variance.
        output_scale: of the result.
        output_zero_point: of the result.
    """
    _check(input, "quantized_batch_norm")
    for value, name in ((weight, "Weight"), (bias, "Bias")):
        if value is None:
            raise RuntimeError(f"{name} must be provided")
    facts = weight, bias, mean, var, eps, output_scale, output_zero_point
    return normalization.batch_norm(input, *facts)


@answerable
def quantized_max_pool1d(input, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    """The largest numbers of windows of a quantized tensor."""
    _check(input, "quantized_max_pool1d")
    return arithmetic.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


@answerable
def quantized_max_pool2d(input, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    """The largest numbers of windows of a quantized tensor."""
    _check(input, "quantized_max_pool2d")
    return arithmetic.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)
