"""Layers that image models are put together from (the name of this file is torchvision's).

A convolution with its normalization and activation, squeeze-and-excitation, perceptrons in a row,
batch normalization with frozen statistics. None of them is new mathematics; their places in a
Sequential are what published weights refer to.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import flambeau
from flambeau import Tensor, nn

Layer = Callable[..., nn.Module]
Numbers = int | tuple[int, ...]


class FrozenBatchNorm2d(nn.Module):
    """Batch normalization whose statistics and coefficients never change: all four are buffers."""

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", flambeau.ones(num_features))
        self.register_buffer("bias", flambeau.zeros(num_features))
        self.register_buffer("running_mean", flambeau.zeros(num_features))
        self.register_buffer("running_var", flambeau.ones(num_features))

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        state_dict.pop(prefix + "num_batches_tracked", None)  # of a BatchNorm2d that learned
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def forward(self, x: Tensor) -> Tensor:
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale.reshape(1, -1, 1, 1) + shift.reshape(1, -1, 1, 1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.weight.shape[0]}, eps={self.eps})"


def _of_one_kind(*values: Any) -> tuple[Any, ...]:
    """Numbers as they are; beside tuples, numbers become tuples too."""
    counts = [len(value) for value in values if isinstance(value, Sequence)]
    if not counts:
        return values
    return tuple(tuple(v) if isinstance(v, Sequence) else (v,) * counts[0] for v in values)


def _half_of_kernel(kernel_size: Any, dilation: Any) -> Any:
    """The padding that keeps sizes."""
    if isinstance(kernel_size, tuple):
        return tuple(_half_of_kernel(k, d) for k, d in zip(kernel_size, dilation, strict=True))
    return (kernel_size - 1) // 2 * dilation


class ConvNormActivation(nn.Sequential):
    """Convolution, normalization, activation; see Conv2dNormActivation."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Numbers = 3,
        stride: Numbers = 1,
        padding: Numbers | str | None = None,
        groups: int = 1,
        norm_layer: Layer | None = nn.BatchNorm2d,
        activation_layer: Layer | None = nn.ReLU,
        dilation: Numbers = 1,
        inplace: bool | None = True,
        bias: bool | None = None,
        conv_layer: Layer = nn.Conv2d,
    ) -> None:
        if padding is None:
            kernel_size, dilation = _of_one_kind(kernel_size, dilation)
            padding = _half_of_kernel(kernel_size, dilation)
        convolution = conv_layer(
            *(in_channels, out_channels, kernel_size, stride, padding),
            dilation=dilation,
            groups=groups,
            bias=(norm_layer is None) if bias is None else bias,
        )
        layers: list[nn.Module] = [convolution]
        layers += [norm_layer(out_channels)] if norm_layer else []
        options = {} if inplace is None else {"inplace": inplace}
        layers += [activation_layer(**options)] if activation_layer else []
        super().__init__(*layers)
        self.out_channels = out_channels
        if type(self) is ConvNormActivation:
            warnings.warn(
                "Don't use ConvNormActivation directly, please use Conv2dNormActivation and "
                "Conv3dNormActivation instead.",
                stacklevel=2,
            )


def _with(convolution: Layer, normalization: Layer) -> Callable[..., None]:
    """__init__ for one kind of convolution, and its normalization unless another is given."""

    def __init__(
        self: ConvNormActivation,
        in_channels: int,
        out_channels: int,
        kernel_size: Numbers = 3,
        stride: Numbers = 1,
        padding: Numbers | str | None = None,
        groups: int = 1,
        norm_layer: Layer | None = normalization,
        activation_layer: Layer | None = nn.ReLU,
        dilation: Numbers = 1,
        inplace: bool | None = True,
        bias: bool | None = None,
    ) -> None:
        sizes = in_channels, out_channels, kernel_size, stride, padding, groups
        rest = norm_layer, activation_layer, dilation, inplace, bias
        ConvNormActivation.__init__(self, *sizes, *rest, convolution)

    return __init__


class Conv2dNormActivation(ConvNormActivation):
    """A convolution of images with its normalization and activation.

    Args:
        padding: half of the kernel unless given, so that sizes stay.
        norm_layer: called with the number of channels; None for no normalization.
        activation_layer: called with `inplace` unless that is None; None for no activation.
        bias: of the convolution; by default there is one if there is no normalization.
    """

    __init__ = _with(nn.Conv2d, nn.BatchNorm2d)


class Conv3dNormActivation(ConvNormActivation):
    """The same for films; see Conv2dNormActivation."""

    __init__ = _with(nn.Conv3d, nn.BatchNorm3d)


class SqueezeExcitation(nn.Module):
    """Channels scaled by what a small perceptron makes of their means (Hu et al. 2018)."""

    def __init__(
        self,
        input_channels: int,
        squeeze_channels: int,
        activation: Layer = nn.ReLU,
        scale_activation: Layer = nn.Sigmoid,
    ) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        ends = input_channels, squeeze_channels
        self.fc1, self.fc2 = nn.Conv2d(*ends, 1), nn.Conv2d(*ends[::-1], 1)
        self.activation, self.scale_activation = activation(), scale_activation()

    def _scale(self, input: Tensor) -> Tensor:
        hidden = self.activation(self.fc1(self.avgpool(input)))
        return self.scale_activation(self.fc2(hidden))

    def forward(self, input: Tensor) -> Tensor:
        return self._scale(input) * input


class MLP(nn.Sequential):
    """Linear layers in a row, with activation and dropout between them, and dropout at the end.

    Args:
        hidden_channels: the widths, the last one being that of the result.
        norm_layer: called with each width but the last; None for no normalization.
        inplace: for activations and dropout; None leaves it to their defaults.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: list[int],
        norm_layer: Layer | None = None,
        activation_layer: Layer | None = nn.ReLU,
        inplace: bool | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        options = {} if inplace is None else {"inplace": inplace}
        drop = partial(nn.Dropout, dropout, **options)
        active: Any = activation_layer
        *widths, last = in_channels, *hidden_channels
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            normal = [] if norm_layer is None else [norm_layer(after)]
            layers += [nn.Linear(before, after, bias), *normal, active(**options), drop()]
        super().__init__(*layers, nn.Linear(widths[-1], last, bias), drop())


class Permute(nn.Module):
    """`torch.permute` as a layer."""

    def __init__(self, dims: list[int]) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(self.dims)
