"""Ops of aten that only PyTorch's own code calls: on masks, chunks, statistics and gradients.

They are reached as `torch.ops.aten.NAME`, and those that PyTorch also binds as `torch._NAME`.
"""

from typing import Any

import flambeau
from flambeau._decomp.functions import FUNCTIONS as FUNCTIONS
from flambeau._decomp.functions import op
from flambeau._layout import wrap_dim
from flambeau._tensor import Tensor
from flambeau.nn import functional as F
from flambeau.ops.table import public


def _safe(mask, indices):
    """Indices that are in range where mask is False, whatever they were there."""
    return [None if index is None else index.masked_fill(~mask, 0) for index in indices]


@op("_unsafe_masked_index")
def unsafe_masked_index(self: Tensor, mask: Tensor, indices: Any, fill: Any) -> Tensor:
    """self[indices] where mask says so, fill elsewhere; there indices may be out of range."""
    if not self.numel():
        shape = self.new_zeros(1).expand(self.shape)[tuple(_slices(self, indices))].shape
        return self.new_full(flambeau.broadcast_shapes(shape, mask.shape), fill)
    found = self[tuple(_slices(self, _safe(mask, indices)))]
    return found.masked_fill(~mask, fill)


def _slices(self, indices):
    return [slice(None) if index is None else index for index in indices]


@op("_unsafe_masked_index_put_accumulate")
def unsafe_masked_index_put_accumulate(
    self: Tensor, mask: Tensor, indices: Any, values: Tensor
) -> Tensor:
    """self with values added at indices where mask says so."""
    if not self.numel():
        return self.clone()
    places = _slices(self, _safe(mask, indices))
    return flambeau.index_put(self, tuple(places), values.masked_fill(~mask, 0), accumulate=True)


@op("_convolution")
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    benchmark: bool = False,
    deterministic: bool = False,
    cudnn_enabled: bool = False,
    allow_tf32: bool = False,
) -> Tensor:
    """The convolution that all kinds come to; how a device goes about it changes nothing here."""
    return flambeau.convolution(
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )


@op("_chunk_cat")
def chunk_cat(tensors: Any, dim: int, num_chunks: int, *, out: Tensor | None = None) -> Tensor:
    """Each tensor in so many chunks along dim (the last one filled up with zeros), side by side."""
    if not tensors:
        raise RuntimeError("_chunk_cat expects a non-empty input tensor list")
    if num_chunks < 1:
        raise RuntimeError("_chunk_cat expects positive num_chunks")
    if any(t.dtype != tensors[0].dtype for t in tensors):
        raise RuntimeError("_chunk_cat expects same dtype for all input tensors")
    if dim < 0 and any(t.ndim != tensors[0].ndim for t in tensors):
        raise RuntimeError(
            "_chunk_cat expects non-negative dim when input tensors have different ndims"
        )
    dim = wrap_dim(dim, tensors[0].ndim)
    if any(t.ndim <= dim for t in tensors):
        raise RuntimeError("_chunk_cat expects dim < ndim for all input tensors")
    pieces = []
    for t in tensors:
        rest = -t.shape[dim] % num_chunks
        if rest:
            shape = (*t.shape[:dim], rest, *t.shape[dim + 1 :])
            t = flambeau.cat([t, t.new_zeros(shape)], dim)
        pieces.append(t.reshape(*t.shape[:dim], num_chunks, -1))
    found = flambeau.cat(pieces, dim + 1)
    return found if out is None else out._resize_output(found.shape).copy_(found)


@op("native_dropout_backward")
def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """The gradient of native_dropout."""
    return grad_output * (mask.to(grad_output.dtype) * scale)


@op("_batch_norm_with_update")
def batch_norm_with_update(
    input: Tensor, weight: Any, bias: Any, running_mean: Tensor, running_var: Tensor,
    momentum: float, eps: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    """batch_norm while training, its statistics, and nothing for GPUs to keep."""
    found = flambeau.native_batch_norm(
        input, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return (*found, flambeau.empty(0, dtype=flambeau.uint8))


@op("max_pool2d_with_indices_backward")
def max_pool2d_with_indices_backward(
    grad_output: Tensor, self: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, indices: Tensor,
) -> Tensor:  # fmt: skip
    """Gradients added where the largest elements lay."""
    flat = self.new_zeros(*self.shape[:-2], self.shape[-2] * self.shape[-1])
    found = flat.scatter_add(-1, indices.flatten(-2), grad_output.flatten(-2))
    return found.view(self.shape)


@op("_upsample_bilinear2d_aa")
def upsample_bilinear_aa(
    input: Tensor, output_size: Any, align_corners: bool, *scales: Any, scale_factors: Any = None,
    scales_h: Any = None, scales_w: Any = None,
) -> Tensor:  # fmt: skip
    """Both overloads: a list of scales in the place of a size, or one per direction beside it."""
    if len(scales) == 1:
        scale_factors = scales[0]
    elif scales:
        scales_h, scales_w = scales
    if scales_h is not None and scales_w is not None:
        row = public("_upsample_bilinear2d_aa")
        return row(input, tuple(output_size), align_corners, (scales_h, scales_w))
    given = {"align_corners": align_corners, "antialias": True}
    if output_size is None:
        return F.interpolate(input, None, scale_factors, "bilinear", **given)
    return F.interpolate(input, output_size, None, "bilinear", **given)
