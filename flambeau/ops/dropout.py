"""Noise on the way through a network: dropout in all its forms, rrelu, gumbel_softmax.

The functions of torch are rows; those of nn.functional, which check the probability and may write
in place, are composites at the end. Coins and slopes are PyTorch's for the same seed. Launchers:
`eager/dropout.py`.
"""

import warnings

from flambeau.codegen import scalar as m
from flambeau.ops.rules import same
from flambeau.ops.table import composite, pointwise, public, template

NN = "nn.functional"
SELU_FLOOR = 1.7580993408473766  # where SELU ends for large negative inputs: scale times alpha


# -- what backward multiplies with -----------------------------------------------------------------


@pointwise(
    dtype=same,
    variants="",
    node="MulBackward0",
    grad={"input": lambda g, mask, factor: g * mask * factor},
)
def masked_scale(input, mask, factor: float):
    """input times factor where the mask holds, times zero elsewhere."""
    return input * mask * factor


# -- functions of torch ----------------------------------------------------------------------------


@template("dropout", variants="function inplace")
def dropout(input, p: float, train: bool):
    """Zeros with probability p, the rest scaled by 1 / (1 - p); input itself unless training."""


@template(
    "coins",
    variants="",
    outputs=2,
    node="MulBackward0",
    grad={"input": lambda g, out1, p: masked_scale(g, out1, 1 / (1 - p))},
)
def dropout_with_mask(input, p: float):
    """(dropout of input, the mask of what was kept)."""


@template("feature_dropout", variants="function inplace")
def feature_dropout(input, p: float, train: bool):
    """Like dropout, for whole channels (dimension 1) at a time."""


@template("alpha_dropout", variants="function inplace")
def alpha_dropout(input, p: float, train: bool):
    """Dropout that keeps the mean and the variance of SELU's outputs."""


def alpha_factor(p):
    """What alpha_dropout multiplies with, so that the variance stays what it was."""
    return ((SELU_FLOOR * SELU_FLOOR * p + 1) * (1 - p)) ** -0.5


@template(
    "alpha_coins",
    variants="",
    outputs=2,
    node="AddBackward0",
    grad={"input": lambda g, out1, p: masked_scale(g, out1, alpha_factor(p))},
)
def alpha_dropout_with_mask(input, p: float):
    """(alpha_dropout of input, the mask of what was kept)."""


@template("feature_alpha_dropout", variants="function inplace")
def feature_alpha_dropout(input, p: float, train: bool):
    """Like alpha_dropout, for whole channels (dimension 1) at a time."""


def _native_gradient(g, out1, p, train):
    if train is False:
        return g
    return masked_scale(g, out1, 0.0 if p == 1 else 1 / (1 - p))


@template(
    "native_dropout",
    variants="function",
    outputs=2,
    smooth=1,
    grad={"input": _native_gradient},
)
def native_dropout(input, p: float, train: bool | None):
    """(dropout of input, the mask of what was kept)."""


def _rrelu_gradient(g, input, noise, lower, upper, training):
    if training and upper - lower > 1e-6:
        return g * noise
    return m.where(input > 0, g, g * ((lower + upper) / 2))


@template("rrelu_with_noise", variants="", grad={"input": _rrelu_gradient}, flat=True)
def rrelu_with_noise(
    input,
    noise,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: object = None,
):
    """input where positive, elsewhere input times a slope from [lower, upper), kept in noise."""


@template("rrelu", variants="function inplace", namespace=NN)
def rrelu(
    input,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: object = None,
):
    """leaky_relu with a slope drawn between lower and upper (their mean when not training)."""


# -- functions of nn.functional --------------------------------------------------------------------


def _check_probability(p):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _apply(row, input, p, training, inplace):
    _check_probability(p)
    p = float(p)
    return public(row + "_")(input, p, training) if inplace else public(row)(input, p, training)


@composite(namespace=NN, variants="")
def functional_dropout(input, p: object = 0.5, training: bool = True, inplace: object = False):
    """Zeros with probability p, the rest scaled by 1 / (1 - p); input itself unless training."""
    return _apply("dropout", input, p, training, inplace)


@composite(namespace=NN, variants="")
def functional_alpha_dropout(
    input, p: object = 0.5, training: bool = False, inplace: object = False
):
    """Dropout that keeps the mean and the variance of SELU's outputs."""
    return _apply("alpha_dropout", input, p, training, inplace)


@composite(namespace=NN, variants="")
def functional_feature_alpha_dropout(
    input, p: object = 0.5, training: bool = False, inplace: object = False
):
    """Like alpha_dropout, for whole channels (dimension 1) at a time."""
    return _apply("feature_alpha_dropout", input, p, training, inplace)


@composite(namespace=NN, variants="")
def dropout1d(input, p: object = 0.5, training: bool = True, inplace: object = False):
    """Dropout of whole channels of (N, C, L) or (C, L)."""
    _check_probability(p)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, "
            "a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return _by_channel(input, p, training, inplace, input.ndim == 2)


@composite(namespace=NN, variants="")
def dropout2d(input, p: object = 0.5, training: bool = True, inplace: object = False):
    """Dropout of whole channels of (N, C, H, W)."""
    _check_probability(p)
    if input.ndim not in (3, 4):
        _warn_dimensions("dropout2d", input.ndim, "2", "3D or 4D")
    if input.ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel "
            "dim. This behavior will change in a future release to interpret the input as one "
            "without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise "
            "dropout behavior, please switch to using dropout1d instead.",
            stacklevel=3,
        )
    return _by_channel(input, p, training, inplace, False)


@composite(namespace=NN, variants="")
def dropout3d(input, p: object = 0.5, training: bool = True, inplace: object = False):
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    _check_probability(p)
    if input.ndim not in (4, 5):
        _warn_dimensions("dropout3d", input.ndim, "3", "4D or 5D")
    return _by_channel(input, p, training, inplace, input.ndim != 5)


def _warn_dimensions(name, ndim, spatial, wanted):
    warnings.warn(
        f"{name}: Received a {ndim}-D input to {name}, which is deprecated and will result in an "
        "error in a future release. To retain the behavior and silence this warning, please use "
        f"dropout instead. Note that {name} exists to provide channel-wise dropout on inputs with "
        f"{spatial} spatial dimensions, a channel dimension, and an optional batch dimension "
        f"(i.e. {wanted} inputs).",
        stacklevel=4,
    )


def _by_channel(input, p, training, inplace, unbatched):
    if not inplace:
        result = feature_dropout(input.unsqueeze(0) if unbatched else input, float(p), training)
        return result.squeeze(0) if unbatched else result
    # a view would do, but the tensor itself is what has to come back
    target = input.unsqueeze(0) if unbatched else input
    public("feature_dropout_")(target, float(p), training)
    return input


@composite(namespace=NN, variants="")
def functional_rrelu(
    input,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: object = False,
):
    """leaky_relu with a slope drawn between lower and upper (their mean when not training)."""
    if inplace:
        return public("rrelu_")(input, lower, upper, training)
    return rrelu(input, lower, upper, training)


@composite(namespace=NN, variants="")
def gumbel_softmax(
    logits, tau: object = 1, hard: object = False, eps: object = 1e-10, dim: int = -1
):
    """A sample of the softmax of logits, by adding Gumbel noise.

    Args:
        tau: the temperature. hard: one-hot vectors, with the gradient of the soft ones?
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=3)
    noise = logits.detach().new_empty(logits.shape).exponential_().log()
    soft = ((logits - noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.detach().argmax(dim, keepdim=True)
    one_hot = logits.detach().new_zeros(logits.shape).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft


for _row in (
    functional_dropout,
    functional_alpha_dropout,
    functional_feature_alpha_dropout,
    functional_rrelu,
):
    _row.name = _row.name.removeprefix("functional_")  # what messages call them
