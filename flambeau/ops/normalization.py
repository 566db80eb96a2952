"""Normalisation: layer_norm, rms_norm, group_norm, batch_norm and instance_norm.

The `native_` rows are kernels and save the statistics that their backwards use; the bodies of the
backward rows say the same in other ops, for second derivatives. Rows called `functional_...` are
those of `nn.functional` whose arguments come in another order than those of the same name in
`torch`.
"""

import math

from flambeau import _dtype as d
from flambeau import errors
from flambeau.ops.support import refuse_complex32
from flambeau.ops.table import IntList, OptionalTensor, composite, template

NN = "nn.functional"


# -- layer_norm ------------------------------------------------------------------------------------


def _leading(g, count):
    """The sum over the first dimensions."""
    return g.sum(tuple(range(count))) if count else g


@composite("layer_norm_backward", variants="")
def _layer_norm_backward(
    g, input, normalized_shape: object, mean, rstd, weight: OptionalTensor,
    bias: object, needs: object, eps: float,
):  # fmt: skip
    """Gradients of layer_norm for input, weight and bias (of which only the layout is given)."""
    lead = input.ndim - len(normalized_shape)
    dims = tuple(range(lead, input.ndim))
    away = input - input.mean(dims, keepdim=True)
    scale = ((away * away).mean(dims, keepdim=True) + eps).rsqrt()
    normal = away * scale
    h = g if weight is None else g * weight
    dx = dw = db = None
    if needs[0]:
        slope = (h * normal).mean(dims, keepdim=True)
        dx = scale * (h - h.mean(dims, keepdim=True) - normal * slope)
    if needs[1]:
        dw = _leading(g * normal, lead)
    if needs[2]:
        db = _leading(g, lead)
    return dx, dw, db


def _layer_norm_gradients(g, input, normalized_shape, weight, bias_layout, eps, out1, out2, needs):
    return _layer_norm_backward(
        g, input, normalized_shape, out1, out2, weight, bias_layout, needs, eps
    )


@template("native_layer_norm", variants="function", outputs=3, smooth=1,
          joint_grad=_layer_norm_gradients)  # fmt: skip
def native_layer_norm(
    input, normalized_shape: IntList, weight: OptionalTensor, bias: OptionalTensor, eps: float
):
    """layer_norm, and the mean and 1/deviation of each row."""


def _sizes(name, shape):
    if type(shape) is tuple:
        return shape
    if not isinstance(shape, (tuple, list)):
        raise TypeError(
            f"{name}(): argument 'normalized_shape' (position 2) must be tuple of ints, not "
            f"{type(shape).__name__}"
        )
    return tuple(shape)


@composite(variants="function", namespace=NN)
def layer_norm(
    input,
    normalized_shape: IntList,
    weight: OptionalTensor = None,
    bias: OptionalTensor = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
):
    """Rows (the last dimensions) brought to mean 0 and variance 1, then weight and bias."""
    if type(normalized_shape) is not tuple:
        normalized_shape = _sizes("layer_norm", normalized_shape)
    return native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


# -- rms_norm --------------------------------------------------------------------------------------


@composite("rms_norm_backward", variants="")
def _rms_norm_backward(
    g, input, normalized_shape: object, rstd, weight: OptionalTensor, needs: object, eps: float
):
    """Gradients of rms_norm for input and weight."""
    lead = input.ndim - len(normalized_shape)
    dims = tuple(range(lead, input.ndim))
    scale = ((input * input).mean(dims, keepdim=True) + eps).rsqrt()
    normal = input * scale
    h = g if weight is None else g * weight
    dx = scale * (h - normal * (h * normal).mean(dims, keepdim=True)) if needs[0] else None
    return dx, _leading(g * normal, lead) if needs[1] else None


def _rms_norm_gradients(g, input, normalized_shape, weight, eps, out1, needs):
    return _rms_norm_backward(g, input, normalized_shape, out1, weight, needs, eps)


@template(
    "rms_norm_rows",
    variants="",
    outputs=2,
    node="FusedRmsNormBackward0",
    joint_grad=_rms_norm_gradients,
)
def _fused_rms_norm(input, normalized_shape: object, weight: OptionalTensor, eps: float):
    """rms_norm, and 1 / root of the mean square of each row."""


@composite(variants="function", namespace=NN)
def rms_norm(
    input, normalized_shape: IntList, weight: OptionalTensor = None, eps: float | None = None
):
    """Rows (the last dimensions) divided by the root of their mean square, then weight."""
    if type(normalized_shape) is not tuple:
        normalized_shape = _sizes("rms_norm", normalized_shape)
    dtype = input.dtype
    if not normalized_shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            "element, but got normalized_shape = []"
        )
    if weight is not None:
        _check_rms_weight(weight, normalized_shape)
    if input.ndim < len(normalized_shape):
        raise ValueError(
            f"Input tensor must have at least {len(normalized_shape)} dimensions, but got "
            f"{input.ndim}"
        )
    if dtype.is_floating_point and (weight is None or weight.dtype is dtype):
        eps = d.finfo(_accumulated(dtype)).eps if eps is None else float(eps)
        return _fused_rms_norm(input, normalized_shape, weight, eps)[0]
    refuse_complex32("rms_norm", input)
    return _mixed_rms_norm(input, normalized_shape, weight, eps)


def _accumulated(dtype):
    return d.float32 if dtype in (d.float16, d.bfloat16) else dtype.to_real()


def _check_rms_weight(weight, normalized_shape):
    if tuple(weight.shape) != normalized_shape:
        raise RuntimeError(
            "Expected weight to be of same shape as normalized_shape, but got weight of shape "
            f"{list(weight.shape)} and normalized_shape = {list(normalized_shape)}"
        )


def _mixed_rms_norm(input, normalized_shape, weight, eps):
    """The same in other ops: complex numbers, and weights of another dtype."""
    if tuple(input.shape[input.ndim - len(normalized_shape) :]) != normalized_shape:
        text = ", ".join(map(str, normalized_shape))
        raise RuntimeError(
            f"Given normalized_shape={list(normalized_shape)}, expected input with shape [*{text}],"
            f" but got input of size{list(input.shape)}"
        )
    if input.dtype.category < d.FLOATING:
        raise errors.not_implemented("rms_norm", input.dtype)
    eps = d.finfo(_accumulated(input.dtype)).eps if eps is None else eps
    wide = input.float() if input.dtype in (d.float16, d.bfloat16) else input
    dims = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    normal = wide * (wide.pow(2).mean(dims, keepdim=True) + eps).rsqrt()
    return (normal if weight is None else normal * weight).to(input.dtype)


# -- group_norm ------------------------------------------------------------------------------------


@composite("group_norm_backward", variants="")
def _group_norm_backward(
    g, input, mean, rstd, weight: OptionalTensor, bias: object, N: int, C: int, HxW: int,
    group: int, needs: object, eps: float,
):  # fmt: skip
    """Gradients of group_norm for input, weight and bias (of which only the layout is given)."""
    shape = (N, group, C // group, HxW)
    x, g = input.reshape(shape), g.reshape(shape)
    away = x - x.mean((2, 3), keepdim=True)
    scale = ((away * away).mean((2, 3), keepdim=True) + eps).rsqrt()
    normal = away * scale
    h = g if weight is None else g * weight.reshape(1, group, C // group, 1)
    dx = dw = db = None
    if needs[0]:
        slope = (h * normal).mean((2, 3), keepdim=True)
        dx = scale * (h - h.mean((2, 3), keepdim=True) - normal * slope)
        dx = dx.reshape(input.shape)
    if needs[1]:
        dw = (g * normal).sum((0, 3)).reshape(C)
    if needs[2]:
        db = g.sum((0, 3)).reshape(C)
    return dx, dw, db


def _group_norm_gradients(
    raw_gs, input, weight, bias_layout, N, C, HxW, group, eps, out1, out2, needs
):
    """Those of the mean and of 1/deviation count where there is one of the result, too."""
    g, of_mean, of_scale = raw_gs
    if g is None:
        return None, None, None
    dx, dw, db = _group_norm_backward(
        g, input, out1, out2, weight, bias_layout, N, C, HxW, group, needs, eps
    )
    if needs[0] and not (of_mean is None and of_scale is None):
        x = input.reshape(N, group, -1)
        size, more = x.shape[2], 0
        if of_mean is not None:
            more = of_mean.unsqueeze(2) / size
        if of_scale is not None:
            away = x - out1.unsqueeze(2)
            more = more - (of_scale * out2**3).unsqueeze(2) / size * away
        dx = dx + more.expand_as(x).reshape(input.shape)
    return dx, dw, db


@template("native_group_norm", variants="function", outputs=3, joint_grad=_group_norm_gradients)
def native_group_norm(
    input, weight: OptionalTensor, bias: OptionalTensor, N: int, C: int, HxW: int, group: int,
    eps: float,
):  # fmt: skip
    """group_norm, and the mean and 1/deviation of each group."""


@composite(variants="function")
def group_norm(
    input,
    num_groups: int,
    weight: OptionalTensor = None,
    bias: OptionalTensor = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
):
    """Groups of channels of each image brought to mean 0 and variance 1, then weight and bias."""
    shape = input.shape
    N, C = input.size(0), input.size(1)
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if C % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(shape)} and num_groups={num_groups}"
        )
    size = math.prod(shape[2:])
    return native_group_norm(input, weight, bias, N, C, size, num_groups, eps)[0]


@composite(variants="", namespace=NN)
def functional_group_norm(
    input,
    num_groups: int,
    weight: OptionalTensor = None,
    bias: OptionalTensor = None,
    eps: float = 1e-5,
):
    """Groups of channels of each image brought to mean 0 and variance 1, then weight and bias."""
    shape = input.shape
    if len(shape) < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {len(shape)}"
        )
    # groups in the place of channels, the rest of these beside the images
    rows = shape[0] * shape[1] // num_groups
    if rows * math.prod(shape[2:]) == 1:
        sizes = [rows, num_groups, *shape[2:]]
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {sizes}"
        )
    return group_norm(input, num_groups, weight, bias, eps)


# -- batch_norm ------------------------------------------------------------------------------------


@composite("batch_norm_backward", variants="")
def _batch_norm_backward(
    g, input, weight: OptionalTensor, bias: object, mean, second, training: bool,
    eps: float, needs: object,
):  # fmt: skip
    """Gradients of batch_norm for input, weight and bias (of which only the layout is given)."""
    dims = (0, *range(2, input.ndim))
    shape = (1, -1, *([1] * (input.ndim - 2)))
    if training:
        away = input - input.mean(dims, keepdim=True)
        scale = ((away * away).mean(dims, keepdim=True) + eps).rsqrt()
    else:
        away = input - mean.reshape(shape)
        scale = (second.reshape(shape) + eps).rsqrt()
    normal = away * scale
    h = g if weight is None else g * weight.reshape(shape)
    dx = dw = db = None
    if needs[0]:
        dx = scale * h
        if training:
            slope = (h * normal).mean(dims, keepdim=True)
            dx = scale * (h - h.mean(dims, keepdim=True) - normal * slope)
    if needs[1]:
        dw = (g * normal).sum(dims)
    if needs[2]:
        db = g.sum(dims)
    return dx, dw, db


def _batch_norm_gradients(
    g, input, weight, bias_layout, running_mean, running_var, training, eps, out1, out2, needs
):
    mean, second = (out1, out2) if training else (running_mean, running_var)
    found = _batch_norm_backward(
        g, input, weight, bias_layout, mean, second, training, eps, needs[:3]
    )
    return (*found, None, None)


@template("native_batch_norm", variants="function out", outputs=3, smooth=1,
          edges="input weight bias", joint_grad=_batch_norm_gradients)  # fmt: skip
def native_batch_norm(
    input, weight: OptionalTensor, bias: OptionalTensor, running_mean: OptionalTensor,
    running_var: OptionalTensor, training: bool, momentum: float, eps: float,
):  # fmt: skip
    """batch_norm, and the mean and 1/deviation of each channel (nothing while evaluating)."""


def _check_momentum(name, momentum):
    if momentum is None:
        raise TypeError(f"{name}(): argument 'momentum' (position 7) must be float, not NoneType")


def _batch_norm(input, weight, bias, *rest):
    if input.numel():
        return native_batch_norm(input, weight, bias, *rest)[0]
    # nothing is normalised, whatever the sizes of the rest; gradients are zeros
    out = input.clone()
    out = out if weight is None else out * weight.select(0, 0)
    return out if bias is None else out + bias.select(0, 0)


@composite(variants="function")
def batch_norm(
    input, weight: OptionalTensor, bias: OptionalTensor, running_mean: OptionalTensor,
    running_var: OptionalTensor, training: bool, momentum: float, eps: float,
    cudnn_enabled: bool,
):  # fmt: skip
    """Channels brought to mean 0 and variance 1, then weight and bias."""
    _check_momentum("batch_norm", momentum)
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


@composite(variants="", namespace=NN)
def functional_batch_norm(
    input,
    running_mean: OptionalTensor,
    running_var: OptionalTensor,
    weight: OptionalTensor = None,
    bias: OptionalTensor = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
):
    """Channels brought to mean 0 and variance 1, then weight and bias.

    In training by the statistics of the batch, towards which running ones move by momentum; else by
    running ones.
    """
    if training:
        shape = input.shape
        if not shape:
            raise IndexError("tuple index out of range")
        if shape[0] * math.prod(shape[2:]) == 1:
            raise ValueError(
                f"Expected more than 1 value per channel when training, got input size {shape}"
            )
        if eps <= 0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    elif eps < 0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    if momentum is None:
        _check_momentum("batch_norm", momentum)
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


# -- instance_norm ---------------------------------------------------------------------------------


@composite(variants="function")
def instance_norm(
    input, weight: OptionalTensor, bias: OptionalTensor, running_mean: OptionalTensor,
    running_var: OptionalTensor, use_input_stats: bool, momentum: float, eps: float,
    cudnn_enabled: bool,
):  # fmt: skip
    """Channels of each image brought to mean 0 and variance 1, then weight and bias."""
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError(
            "Expected running_mean and running_var to be defined when use_input_stats is false"
        )
    shape = input.shape
    batch, channels = shape[0], shape[1]

    def repeated(t):
        return None if t is None else t.repeat(batch)

    mean, var = repeated(running_mean), repeated(running_var)
    if input.dtype is d.float64 and mean is not None:
        mean, var = mean.double(), var.double()
    joined = input.contiguous().view(1, batch * channels, *shape[2:])
    out = native_batch_norm(
        joined, repeated(weight), repeated(bias), mean, var, use_input_stats, momentum, eps
    )[0]
    for running, found in ((running_mean, mean), (running_var, var)):
        if running is not None and use_input_stats:
            running.detach().copy_(found.view(batch, channels).mean(0))
    return out.view(shape)


@composite(variants="", namespace=NN)
def functional_instance_norm(
    input,
    running_mean: OptionalTensor = None,
    running_var: OptionalTensor = None,
    weight: OptionalTensor = None,
    bias: OptionalTensor = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
):
    """Channels of each image brought to mean 0 and variance 1, then weight and bias."""
    if use_input_stats and math.prod(input.shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {input.shape}"
        )
    return instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False
    )
