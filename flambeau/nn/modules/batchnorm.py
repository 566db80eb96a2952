"""Batch normalisation: statistics of each channel over the batch; running ones in evaluation.

`_NormBase` holds what instancenorm.py needs as well: weights, running statistics and how older
checkpoints are read.
"""

import sys
from dataclasses import KW_ONLY, InitVar
from typing import Any

from flambeau._dtype import int64
from flambeau._tensor import Tensor
from flambeau.eager.creation import ones, zeros
from flambeau.nn import functional as F
from flambeau.nn.modules.declaring import layer, told
from flambeau.nn.modules.filling import fill_neutral, make_parameters
from flambeau.nn.modules.lazy import LazyModuleMixin
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
]


_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


@layer(constants="track_running_stats momentum eps num_features affine")
class _NormBase(Module):
    """y = (x - mean) / sqrt(var + eps) * weight + bias, per channel."""

    num_features: int
    eps: float = 1e-5
    momentum: float | None = 0.1
    affine: bool = True
    track_running_stats: bool = True
    device: InitVar[Any] = None
    dtype: InitVar[Any] = None
    _: KW_ONLY
    bias: InitVar[bool] = True

    _version = 2

    def _settle(self, device, dtype, bias):
        channels = (self.num_features,)
        shape = channels if self.affine else None
        make_parameters(self, device, dtype, weight=shape, bias=shape if bias else None)
        made: tuple = (None, None, None)
        if self.track_running_stats:
            mean, var = (start(channels, device=device, dtype=dtype) for start in (zeros, ones))
            made = mean, var, zeros((), device=device, dtype=int64)
        for name, statistic in zip(_STATISTICS, made):
            self.register_buffer(name, statistic)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget what was seen."""
        if self.track_running_stats:
            for name, start in zip(_STATISTICS, (0, 1, 0)):
                getattr(self, name).fill_(start)

    def reset_parameters(self) -> None:
        """Weights of one, biases of zero, nothing seen yet."""
        self.reset_running_stats()
        fill_neutral(self.weight, self.bias)

    def _check_input_dim(self, input):
        raise NotImplementedError

    def extra_repr(self) -> str:
        options = told(self, "eps", "momentum", "affine")
        bias, tracks = self.bias is not None, told(self, "track_running_stats")
        return f"{self.num_features}, {options}, bias={bias}, {tracks}"

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        counted = prefix + "num_batches_tracked"
        old = (local_metadata.get("version") or 1) < 2  # the first version did not count batches
        if old and self.track_running_stats and counted not in state_dict:
            own = self.num_batches_tracked
            known = own is not None and not own.is_meta
            state_dict[counted] = own if known else zeros((), dtype=int64)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        mean, var = self.running_mean, self.running_var
        training = self.training
        momentum = self.momentum
        if not training:
            return F.batch_norm(
                input, mean, var, self.weight, self.bias, mean is None and var is None,
                0.0 if momentum is None else momentum, self.eps,
            )  # fmt: skip
        if not self.track_running_stats:
            mean = var = None
        else:
            seen = self.num_batches_tracked
            if seen is not None:
                seen.add_(1)
                if momentum is None:  # the plain average of all batches
                    momentum = 1.0 / float(seen)
        return F.batch_norm(
            input, mean, var, self.weight, self.bias, True,
            0.0 if momentum is None else momentum, self.eps,
        )  # fmt: skip


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """num_features is the second size of the first input."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        # neither weights nor statistics yet: nothing is made that would be thrown away
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine, self.track_running_stats = affine, track_running_stats
        given = {"device": device, "dtype": dtype}
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            if wanted:
                setattr(self, name, UninitializedParameter(**given))
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**given)
            self.running_var = UninitializedBuffer(**given)
            self.num_batches_tracked = zeros((), device=device, dtype=int64)

    def reset_parameters(self) -> None:
        if self.num_features != 0 and not self.has_uninitialized_params():
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            for tensor in (*self._parameters.values(), *self._buffers.values()):
                if is_lazy(tensor):
                    tensor.materialize((self.num_features,))
            self.reset_parameters()


def _expect(input, *ranks):
    if input.dim() not in ranks:
        raise ValueError(
            f"expected {' or '.join(f'{n}D' for n in ranks)} input (got {input.dim()}D input)"
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (N, C) or (N, C, L)."""

    def _check_input_dim(self, input):
        _expect(input, 2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (N, C, H, W)."""

    def _check_input_dim(self, input):
        _expect(input, 4)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (N, C, D, H, W)."""

    def _check_input_dim(self, input):
        _expect(input, 5)


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """BatchNorm1d without num_features."""

    cls_to_become = BatchNorm1d
    _check_input_dim = BatchNorm1d._check_input_dim


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """BatchNorm2d without num_features."""

    cls_to_become = BatchNorm2d
    _check_input_dim = BatchNorm2d._check_input_dim


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """BatchNorm3d without num_features."""

    cls_to_become = BatchNorm3d
    _check_input_dim = BatchNorm3d._check_input_dim


def has_company(process_group):
    """Are there other processes in this group? Without torch.distributed there are none."""
    dist = sys.modules.get("flambeau.distributed")
    return bool(dist and dist.is_initialized() and dist.get_world_size(process_group) > 1)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation of (N, C, *) over all processes of a group.

    A process on its own has nobody to ask: it normalises its own batch. Others exchange sums, see
    `flambeau/distributed/batch_norm.py`.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def forward(self, input: Tensor) -> Tensor:
        batch = self.training or self.running_mean is None
        if not batch or not has_company(self.process_group):
            return super().forward(input)
        self._check_input_dim(input)
        from flambeau.distributed.batch_norm import normalized_together  # with its collectives

        return normalized_together(self, input)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The same model with every batch normalisation in it replaced, weights kept."""
        norm = isinstance(module, _BatchNorm)
        found = SyncBatchNorm._like(module, process_group) if norm else module
        for name, child in module.named_children():
            found.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return found

    @staticmethod
    def _like(norm, process_group):
        """One with the options and the very tensors of another: an optimizer may know them."""
        options = {name: getattr(norm, name) for name in _NormBase._kept}
        made = SyncBatchNorm(**options, process_group=process_group, bias=norm.bias is not None)
        made._parameters.update(norm._parameters)
        made._buffers.update(norm._buffers)
        made.training = norm.training
        if hasattr(norm, "qconfig"):
            made.qconfig = norm.qconfig
        return made
