"""Batch normalisation over several processes, for nn.SyncBatchNorm.

Forward: each process brings count, mean and squared deviations of its batch per channel; the parts
are put together as Chan, Golub and LeVeque do (1983). Backward: the two sums that the gradient of
the input needs are added over all processes; those of weight and bias stay local, because DDP
averages them like all others.
"""

import flambeau
from flambeau.autograd.function import Function

from .collectives import all_gather_into_tensor, all_reduce
from .groups import get_world_size

__all__ = ["normalized_together"]


def _per_channel(t, values):
    return values.view(1, -1, *[1] * (t.dim() - 2))


def _over_all_but_channels(t):
    return [d for d in range(t.dim()) if d != 1]


class _Normalize(Function):
    @staticmethod
    def forward(ctx, input, weight, bias, eps, group):
        dims, channels = _over_all_but_channels(input), input.shape[1]
        wide = input.dtype if input.dtype is flambeau.float64 else flambeau.float32
        x = input.to(wide)
        count = input.numel() // max(channels, 1)
        mine = flambeau.zeros(2 * channels + 1, dtype=wide, device=input.device)
        if count:
            mean = x.mean(dims)
            mine[:channels] = mean
            mine[channels:-1] = (x - _per_channel(x, mean)).square().sum(dims)
            mine[-1] = count
        table = mine.new_empty(get_world_size(group), mine.numel())
        all_gather_into_tensor(table, mine, group)
        means, squares, counts = table[:, :channels], table[:, channels:-1], table[:, -1:]
        total = counts.sum()
        mean = (means * counts).sum(0) / total
        var = (squares + counts * (means - mean).square()).sum(0) / total
        scale = (var + eps).rsqrt()
        out = (x - _per_channel(x, mean)) * _per_channel(x, scale)
        ctx.save_for_backward(input, weight, mean, scale, total)
        ctx.group = group
        if weight is not None:
            out = out * _per_channel(x, weight.to(wide))
        if bias is not None:
            out = out + _per_channel(x, bias.to(wide))
        ctx.mark_non_differentiable(mean, var, total)
        return out.to(input.dtype), mean, var, total

    @staticmethod
    def backward(ctx, grad, *_):
        input, weight, mean, scale, total = ctx.saved_tensors
        dims, channels = _over_all_but_channels(input), input.shape[1]
        g = grad.to(mean.dtype)
        centred = (input.to(mean.dtype) - _per_channel(input, mean)) * _per_channel(input, scale)
        sums = flambeau.cat([g.sum(dims), (g * centred).sum(dims)])
        of_bias, of_weight = sums[:channels].clone(), sums[channels:].clone()
        all_reduce(sums, group=ctx.group)
        sums /= total
        inner = g - _per_channel(g, sums[:channels]) - centred * _per_channel(g, sums[channels:])
        factor = scale if weight is None else scale * weight.to(scale.dtype)
        of_input = (inner * _per_channel(g, factor)).to(input.dtype)
        return (
            of_input,
            None if weight is None else of_weight.to(weight.dtype),
            of_bias.to(input.dtype) if ctx.needs_input_grad[2] else None,
            None,
            None,
        )


def normalized_together(norm, input):
    """The forward of a SyncBatchNorm in training."""
    out, mean, var, total = _Normalize.apply(
        input, norm.weight, norm.bias, norm.eps, norm.process_group
    )
    if norm.training and norm.track_running_stats and norm.running_mean is not None:
        norm.num_batches_tracked.add_(1)
        momentum = norm.momentum
        if momentum is None:
            momentum = 1.0 / float(norm.num_batches_tracked)
        unbiased = var * (total / (total - 1))
        with flambeau.no_grad():
            norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), momentum)
            norm.running_var.lerp_(unbiased.to(norm.running_var.dtype), momentum)
    return out
