"""Activations: what networks put between their layers.

Most live in `nn.functional` and `nn`; those that PyTorch also offers as `torch.relu` and the like
have "function" among their variants. Numbers that are almost always left at their default are
`Scalar`, so that the kernel holds them as constants.
"""

import math

from flambeau import _dtype as d
from flambeau import errors
from flambeau.codegen import scalar as m
from flambeau.ops.rules import promoted, same
from flambeau.ops.support import INTEGRAL, group_of, refuses
from flambeau.ops.table import Scalar, composite, pointwise

NN = "nn.functional"
NO_INTEGERS = INTEGRAL + " complex"


def run(name, *args):
    """Call a row that has no public name."""
    return m.tensor_word(name)(*args)


def _floats(name):
    return refuses(name, NO_INTEGERS)


_NO_COMPLEX = (NotImplementedError, "clamp is not supported for complex types")

# -- straight lines --------------------------------------------------------------------------------


@pointwise(
    dtype=promoted,
    namespace=NN,
    variants="function method inplace",
    dtypes=refuses(
        "clamp_min_scalar_cpu",
        "wide",
        complex=_NO_COMPLEX,
        bool=(RuntimeError, "Boolean inputs not supported for relu"),
    ),
    grad=lambda g, out: m.where(out <= 0, 0, g),
    flat=True,
)
def relu(input):
    """input where positive, else 0."""
    return m.where(input < 0, 0, input)  # -0.0 and nan stay


def _between(x, low, high):
    low, high = m.cast(low, x.type), m.cast(high, x.type)
    x = m.where(x < low, low, x)
    x = m.where(x > high, high, x)
    return m.where((low != low) | (high != high), low + high, x)  # nan, if one of them is


def _check_limits(bound):
    low, high = bound["min_val"], bound["max_val"]
    dtype = bound["input"].dtype
    if dtype is d.bool_:
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if dtype is d.uint8 and (int(low) < 0 or int(high) < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")


@pointwise(
    dtype=promoted,
    namespace=NN,
    variants="",
    prepare=_check_limits,
    inplace_row="hardtanh_of_result",
    dtypes=refuses("clamp_scalar_cpu", "wide", complex=_NO_COMPLEX),
    grad=lambda g, input, min_val, max_val: m.where((input <= min_val) | (input >= max_val), 0, g),
    flat=True,
)
def hardtanh(input, min_val: Scalar = -1.0, max_val: Scalar = 1.0):
    """input, no less than min_val and no more than max_val."""
    return _between(input, min_val, max_val)


@pointwise(
    dtype=promoted,
    variants="",
    node="HardtanhBackward0",
    grad=lambda g, out, min_val, max_val: m.where((out <= min_val) | (out >= max_val), 0, g),
    flat=True,
)
def hardtanh_of_result(input, min_val: Scalar = -1.0, max_val: Scalar = 1.0):
    """hardtanh, with the derivative told by the result."""
    return _between(input, min_val, max_val)


@composite(variants="", namespace=NN)
def relu6(input):
    """input between 0 and 6."""
    return run("hardtanh", input, 0.0, 6.0)


def _check_threshold(bound):
    dtype = bound["input"].dtype
    if dtype.category == d.INTEGER:
        for name in ("threshold", "value"):
            d.check_fits(bound[name], dtype)


@pointwise(
    dtype=same,
    namespace=NN,
    variants="function inplace",
    dtypes=refuses("threshold_cpu", "bool wide complex"),
    overlapping=True,
    check=_check_threshold,
    grad=lambda g, input, threshold: m.where(input <= threshold, 0, g),
    flat=True,
)
def threshold(input, threshold: Scalar, value: Scalar):
    """input where it is above the threshold, else value."""
    return m.where(input <= threshold, value, input)


@pointwise(
    dtype=same,
    namespace=NN,
    variants="",
    dtypes=_floats("leaky_relu_cpu"),
    inplace_row="leaky_relu_of_result",
    grad=lambda g, input, negative_slope: m.where(input > 0, g, g * negative_slope),
    flat=True,
)
def leaky_relu(input, negative_slope: float = 0.01):
    """input where positive, a small multiple of it elsewhere."""
    return m.where(input > 0, input, input * negative_slope)


def _check_slope(bound):
    if bound["negative_slope"] < 0:
        raise RuntimeError(
            "In-place leakyReLu backward calculation is triggered with a negative slope which is "
            "not supported. This is caused by calling in-place forward function with a negative "
            "slope, please call out-of-place version instead."
        )


@pointwise(
    dtype=same,
    variants="",
    node="LeakyReluBackward0",
    prepare=_check_slope,
    grad=lambda g, out, negative_slope: m.where(out > 0, g, g * negative_slope),
    flat=True,
)
def leaky_relu_of_result(input, negative_slope: float = 0.01):
    """leaky_relu, with the derivative told by the result."""
    return m.where(input > 0, input, input * negative_slope)


@pointwise(
    dtype=promoted,
    variants="",
    dtypes=_floats("prelu_cpu"),
    node="PreluKernelBackward0",
    grad=dict(
        input=lambda g, input, weight: m.where(input > 0, g, weight * g),
        weight=lambda g, input: m.where(input > 0, 0, input * g),
    ),
    flat=True,
)
def prelu_kernel(input, weight):
    """input where positive, weight times it elsewhere."""
    return m.where(input > 0, input, weight * input)


@composite(namespace=NN, variants="function method")
def prelu(input, weight):
    """input where positive, elsewhere weight times it: one weight for all or one per channel."""
    if input.dtype is not weight.dtype:
        raise RuntimeError(
            "prelu: Type promoting not supported. Got "
            f"{_lower(input.dtype)} and {_lower(weight.dtype)}"
        )
    one = weight.numel() == 1
    if not one:
        if input.ndim == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input.shape[1] if input.ndim > 1 else 1
        if channels != weight.numel():
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.numel()} and channel size = {channels}."
            )
    if weight.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}"
        )
    if weight.ndim and not (one and input.ndim):  # one number is as good as a view of it
        shape = [1] * max(input.ndim, 1)
        shape[1 if input.ndim > 1 else 0] = weight.numel()
        weight = weight.reshape(shape[: input.ndim])
    return run("prelu_kernel", input, weight)


def _lower(dtype):
    return dtype.scalar_name.lower()


@pointwise(
    dtype=same,
    namespace=NN,
    variants="",
    dtypes=_floats("hardsigmoid_cpu"),
    grad=lambda g, input: m.where((input > -3) & (input < 3), g / 6, 0),
    flat=True,
)
def hardsigmoid(input):
    """A sigmoid of straight lines."""
    return m.minimum(m.maximum(input + 3, 0), 6) / 6


@pointwise(
    dtype=same,
    namespace=NN,
    variants="",
    dtypes=_floats("hardswish_cpu"),
    grad=lambda g, input: m.where(input <= -3, 0, m.where(input < 3, g * (input / 3 + 0.5), g)),
)
def hardswish(input):
    """input times hardsigmoid(input)."""
    return input * m.minimum(m.maximum(input + 3, 0), 6) / 6


@pointwise(
    dtype=same,
    namespace=NN,
    variants="function method out",
    dtypes=_floats("hardshrink_cpu"),
    grad=lambda g, input, lambd: m.where((input >= -lambd) & (input <= lambd), 0, g),
    flat=True,
    exact_out=True,
)
def hardshrink(input, lambd: Scalar = 0.5):
    """0 between -lambd and lambd, elsewhere input."""
    return m.where((input >= -lambd) & (input <= lambd), 0, input)


_LARGEST = {
    "float32": "3.40282e+38",
    "float64": "1.79769e+308",
    "float16": "65504",
    "bfloat16": "3.38953e+38",
}


def _check_lambda(bound):
    if isinstance(bound["lambd"], complex):
        raise d.overflow(d.float64)
    if group_of(bound["input"]) not in ("half", "float"):
        raise errors.not_implemented("softshrink_check", bound["input"].dtype)
    if not 0 <= bound["lambd"] < float("inf"):
        dtype = bound["input"].dtype
        raise RuntimeError(
            f"lambda must be in range [0, {_LARGEST.get(dtype.name)}] for input dtype "
            f"{dtype.scalar_name}, but found {bound['lambd']:g}"
        )


@pointwise(
    dtype=same,
    namespace=NN,
    variants="out",
    dtypes=_floats("softshrink_check"),
    check=_check_lambda,
    grad=lambda g, input, lambd: m.where((input >= -lambd) & (input <= lambd), 0, g),
    flat=True,
)
def softshrink(input, lambd: Scalar = 0.5):
    """input, brought nearer to 0 by lambd."""
    inside = m.where(input != input, input, 0)
    return m.where(input > lambd, input - lambd, m.where(input < -lambd, input + lambd, inside))


# -- curves ----------------------------------------------------------------------------------------


@pointwise(
    dtype=same,
    namespace=NN,
    variants="",
    dtypes=_floats("elu_cpu"),
    inplace_row="elu_of_result",
    grad=lambda g, input, alpha: m.where(input <= 0, g * alpha * m.exp(input), g),
)
def elu(input, alpha: Scalar = 1.0):
    """input where positive, alpha * (exp(input) - 1) elsewhere."""
    return m.where(input < 0, m.expm1(input) * alpha, input)


def _check_alpha(bound):
    if bound["alpha"] < 0:
        raise RuntimeError(
            "In-place elu backward calculation is triggered with a negative slope which is not "
            "supported. This is caused by calling in-place forward function with a negative slope, "
            "please call out-of-place version instead."
        )


@pointwise(
    dtype=same,
    variants="",
    node="EluBackward0",
    check=_check_alpha,
    grad=lambda g, out, alpha: m.where(out <= 0, g * (out + alpha), g),
)
def elu_of_result(input, alpha: Scalar = 1.0):
    """elu, with the derivative told by the result."""
    return m.where(input < 0, m.expm1(input) * alpha, input)


SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _selu(input):
    curve = m.expm1(input) * (SELU_ALPHA * SELU_SCALE)
    return m.where(input <= 0, curve, input * SELU_SCALE)


@pointwise(
    dtype=same,
    namespace=NN,
    variants="function inplace",
    dtypes=_floats("elu_cpu"),
    node="EluBackward0",
    inplace_row="selu_of_result",
    grad=lambda g, input: m.where(
        input <= 0, g * (SELU_ALPHA * SELU_SCALE) * m.exp(input), g * SELU_SCALE
    ),
)
def selu(input):
    """elu scaled so that means and variances stay what they are."""
    return _selu(input)


@pointwise(
    dtype=same,
    variants="",
    node="EluBackward0",
    grad=lambda g, out: m.where(out <= 0, g * (out + SELU_ALPHA * SELU_SCALE), g * SELU_SCALE),
)
def selu_of_result(input):
    """selu, with the derivative told by the result."""
    return _selu(input)


def _check_celu(bound):
    if bound["alpha"] == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")


@pointwise(
    dtype=same,
    namespace=NN,
    variants="function inplace",
    dtypes=_floats("elu_cpu"),
    check=_check_celu,
    inplace_row="celu_of_result",
    grad=lambda g, input, alpha: m.where(input <= 0, g * m.exp(input / alpha), g),
)
def celu(input, alpha: Scalar = 1.0):
    """input where positive, alpha * (exp(input / alpha) - 1) elsewhere."""
    return m.where(input < 0, m.expm1(input / alpha) * alpha, input)


@pointwise(
    dtype=same,
    variants="",
    node="CeluBackward0",
    grad=lambda g, out, alpha: m.where(out <= 0, g * (out / alpha + 1), g),
)
def celu_of_result(input, alpha: Scalar = 1.0):
    """celu, with the derivative told by the result."""
    return m.where(input < 0, m.expm1(input / alpha) * alpha, input)


_TANH_SCALE, _CUBE = math.sqrt(2 / math.pi), 0.044715


def _normal_share(x, approximate):
    """How much of a normal distribution lies below x."""
    if approximate == "none":
        return m.normal_cdf(x)
    return 0.5 * (1 + m.tanh(_TANH_SCALE * (x + _CUBE * (x * x * x))))


def _gelu_gradient(g, input, approximate):
    x = input
    if approximate == "none":
        if isinstance(x, m.Expr):
            return g * m.gelu_slope(x)
        density = m.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
        return g * (_normal_share(x, "none") + x * density)
    t = m.tanh(_TANH_SCALE * (x + _CUBE * (x * x * x)))
    slope = _TANH_SCALE * (1 + 3 * _CUBE * (x * x))
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)


def _check_approximate(bound):
    if bound["approximate"] not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")


@pointwise(
    dtype=same,
    namespace=NN,
    variants="out",
    dtypes=_floats("GeluKernelImpl"),
    check=_check_approximate,
    settled=True,
    grad=_gelu_gradient,
)
def gelu(input, *, approximate: str = "none"):
    """input times the share of a normal distribution below it."""
    return input * _normal_share(input, approximate)


def _silu_gradient(g, input):
    s = m.sigmoid(input)
    return g * m.conj(s * (1 + input * (1 - s)))


@pointwise(
    dtype=same, namespace=NN, variants="", dtypes=refuses("silu_cpu", INTEGRAL), grad=_silu_gradient
)
def silu(input):
    """input times sigmoid(input)."""
    if isinstance(input, m.Complex):
        return input / (1 + m.exp(-input))
    return input * m.sigmoid(input)


def _mish_gradient(g, input):
    # tanh(log(1 + e^x)) by sigmoids: softplus is spelled with a kink at 0, which a second
    # derivative would see
    s, q = m.sigmoid(input), m.sigmoid(-input)
    t = s * (1 + q) / (1 + q * q)
    sech = 2 * q / (1 + q * q)
    return g * (t + input * s * sech * sech)


def _softplus(x):
    """log(1 + exp(x)) without overflow, on expressions and tensors."""
    return m.where(x > 0, x, 0) + m.log1p(m.exp(-m.abs(x)))


@pointwise(dtype=same, namespace=NN, variants="", dtypes=_floats("mish_cpu"), grad=_mish_gradient)
def mish(input):
    """input times tanh(softplus(input))."""
    return input * m.tanh(_softplus(input))


def _softplus_gradient(g, input, beta, threshold):
    z = input * beta
    return m.where(z > threshold, g, g * m.sigmoid(z))


@pointwise(
    dtype=same,
    namespace=NN,
    variants="out",
    dtypes=_floats("softplus_cpu"),
    grad=_softplus_gradient,
)
def softplus(input, beta: Scalar = 1.0, threshold: Scalar = 20.0):
    """log(1 + exp(beta * input)) / beta; input itself where beta * input is above the threshold."""
    z = input * beta
    return m.where(z > threshold, input, m.log1p(m.exp(z)) / beta)


@pointwise(
    dtype=same,
    namespace=NN,
    variants="out",
    dtypes=_floats("log_sigmoid_cpu"),
    node="LogSigmoidBackward0",
    grad=lambda g, input: g * m.sigmoid(-input),
)
def logsigmoid(input):
    """log(sigmoid(input)), without overflow."""
    return m.minimum(input, 0) - m.log1p(m.exp(-m.abs(input)))


@composite(namespace=NN, variants="")
def softsign(input):
    """input / (1 + |input|)."""
    return input / (input.abs() + 1)


@composite(namespace=NN, variants="")
def tanhshrink(input):
    """input - tanh(input)."""
    return input - input.tanh()


# -- with more than one input ----------------------------------------------------------------------


@composite(namespace=NN, variants="", python=False)
def glu(input, dim: int = -1):
    """The first half along dim times the sigmoid of the second."""
    if input.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    place = dim + input.ndim if dim < 0 else dim
    if input.shape[dim] % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {place} is size {input.shape[dim]}"
        )
    if not input.dtype.is_floating_point:
        raise errors.not_implemented("glu_cpu", input.dtype)
    half = input.shape[dim] // 2
    first, second = input.narrow(dim, 0, half), input.narrow(dim, half, half)
    return first * second.sigmoid()
