"""Launching dropout: one kernel that draws coins and applies them.

What a tensor without gaps holds is walked in the order of memory, whatever its strides. Everything
else (gaps, channels at a time, dtypes without a kernel) multiplies with noise that is drawn first.
Where gradients are wanted the kernel also keeps the mask, a byte per element. Rows:
`ops/dropout.py`; kernel: `codegen/templates/dropout.py`.
"""

import math

from flambeau import _dtype as d
from flambeau._layout import dense_layout, is_dense_in_some_order, make_layout
from flambeau._tensor import empty_like_layout
from flambeau.autograd import views
from flambeau.autograd.grad_mode import modes
from flambeau.eager.copying import copy_into, preserved_layout
from flambeau.eager.launching import LAUNCHERS, call_row, launches, overwrite
from flambeau.eager.plans import Plans
from flambeau.eager.rows import address, dense_like, is_computed
from flambeau.eager.sampling import (
    HALF_AND_UP,
    bernoulli_,
    check_generator,
    gpu_draws,
    kernel,
    require,
    side_by_side,
    stream,
    uniform_,
)
from flambeau.ops.dropout import (
    SELU_FLOOR,
    alpha_dropout_with_mask,
    alpha_factor,
    dropout_with_mask,
)
from flambeau.ops.dropout import rrelu_with_noise as noisy_rrelu
from flambeau.runtime.base import nothing


def _is_walkable(input):
    layout = input._layout
    whole = layout.is_contiguous or is_dense_in_some_order(layout)
    return whole and layout.dtype in HALF_AND_UP


def _multiplies_noise(input):
    """GPUs have one kernel for dropout alone; its relatives multiply with noise there."""
    return input._layout.device.type == "cuda"


def _toss(kind, input, keep, factor=0.0, shift=0.0, share=0.0, out=None, masked=None):
    """(result, mask or None) of a tensor without gaps; into out, if it is given."""
    layout = input._layout
    masked = input._requires_grad and modes.grad if masked is None else masked
    out = empty_like_layout(layout) if out is None else out
    mask_layout, run = PLANS[layout, kind, masked]
    mask = None if mask_layout is None else empty_like_layout(mask_layout)
    run(
        stream(None),
        out._storage.pointer + out._offset,
        0 if mask is None else mask._storage.pointer,
        input._storage.pointer + input._offset,
        layout.numel,
        keep,
        factor,
        shift,
        share,
    )
    return out, mask


def _plan(key):
    """(layout of the mask, kernel)."""
    layout, kind, masked = key
    mask = None
    if masked:
        mask = make_layout(layout.sizes, layout.strides, d.bool_, layout.device)
    if not layout.numel:
        return mask, nothing
    if layout.device.type == "cuda":
        return mask, gpu_draws().dropout(layout, kind, masked)
    facts = layout.dtype.code, kind, masked
    return mask, layout.device.runtime.kernel(kind + "_dropout", "dropout:build_dropout", *facts)


PLANS = Plans(_plan)


@launches("coins")
def coins(input, p):
    return _toss("plain", input, 1 - p)


@launches("alpha_coins")
def alpha_coins(input, p):
    return _toss("alpha", input, 1 - p, *_alpha_numbers(p))


def _alpha_numbers(p):
    a = alpha_factor(p)
    return a, SELU_FLOOR * a, SELU_FLOOR * a * p


# -- functions of torch ----------------------------------------------------------------------------


def _check_p(p):
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")


def _empty_like(t, dtype=None):
    return empty_like_layout(preserved_layout(t._layout, dtype))


def _noise(input, p, by_channel):
    """What to multiply with: 0 with probability p, else 1."""
    if by_channel:
        if input.ndim < 2:
            raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
        shape = (*input.shape[:2], *(1,) * (input.ndim - 2))
        out = empty_like_layout(dense_layout(shape, input.dtype, input.device))
    else:
        out = _empty_like(input)
    bernoulli_(out, 1 - p, None)
    return out


def _scaled(input, p, by_channel):
    return input * _noise(input, p, by_channel).div_(1 - p)


def _alpha_scaled(input, p, by_channel):
    noise = _noise(input, p, by_channel)
    a, shift, share = _alpha_numbers(p)
    offset = noise.add(-1).mul_(shift).add_(share)
    return (input * noise.mul_(a)).add_(offset)


def _launcher(with_mask, otherwise, by_channel):
    def launch(input, p, train):
        _check_p(p)
        if p == 0 or not train or input._layout.numel == 0:
            return input
        if p == 1:
            return input * input.new_zeros(())
        plain = with_mask is dropout_with_mask or not _multiplies_noise(input)
        if not by_channel and plain and _is_walkable(input):
            return with_mask(input, p)[0]
        return otherwise(input, p, by_channel)

    return launch


launches("dropout")(_launcher(dropout_with_mask, _scaled, False))
launches("feature_dropout")(_launcher(None, _scaled, True))
launches("alpha_dropout")(_launcher(alpha_dropout_with_mask, _alpha_scaled, False))
launches("feature_alpha_dropout")(_launcher(None, _alpha_scaled, True))


def _write(kind=None, numbers=None):
    """A launcher of dropout_ and the like; kind: the kernel that writes in place, if one does."""

    def write(op, bound):
        input, p, train = bound.values()
        _check_p(p)
        if not train or p == 0 or not input._layout.numel:
            return input
        recording = modes.grad and input._requires_grad
        if recording:
            views.check_inplace(input)
        if kind == "plain" and p < 1 and _multiplies_noise(input):
            return input.mul_(_noise(input, p, False).div_(1 - p))
        if kind and not recording and train and 0 < p < 1 and _is_walkable(input):
            _toss(kind, input, 1 - p, *numbers(p), out=input, masked=False)
            input._storage.version += 1
            return input
        return overwrite(input, lambda: call_row(op, bound))

    return write


def _write_rrelu(op, bound):
    return overwrite(bound["input"], lambda: call_row(op, bound))


LAUNCHERS |= {
    "dropout_": _write("plain", lambda p: ()),
    "alpha_dropout_": _write("alpha", _alpha_numbers),
    "feature_dropout_": _write(),
    "feature_alpha_dropout_": _write(),
    "rrelu_": _write_rrelu,
}


@launches("rrelu")
def rrelu(input, lower, upper, training, generator):
    noise = empty_like_layout(dense_like(input._layout))
    run = noisy_rrelu if input._requires_grad and modes.grad else rrelu_with_noise
    return run(input, noise, lower, upper, training, generator)


@launches("native_dropout")
def native_dropout(input, p, train):
    if input._layout.numel == 0:
        return _empty_like(input), _empty_like(input)
    if train is False:
        out = _empty_like(input)
        copy_into(out, input)
        return out, _empty_like(input, d.bool_).fill_(True)
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={1 - p:g}")
    factor = 0.0 if p == 1 else 1 / (1 - p)
    if _is_walkable(input):
        return _toss("native", input, 1 - p, factor, masked=True)
    mask = _empty_like(input, d.bool_)
    bernoulli_(mask, 1 - p, None)
    return views.detached(input).mul(mask).mul_(factor), mask


@launches("rrelu_with_noise")
def rrelu_with_noise(input, noise, lower, upper, training, generator):
    check_generator("rrelu_with_noise", generator)
    for bound, name in ((lower, "lower"), (upper, "upper")):
        if not math.isfinite(bound):
            raise RuntimeError(f"rrelu: {name} bound must be finite, got {bound:g}")
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    out = empty_like_layout(dense_like(input._layout))
    if input.device.runtime.computes:
        if training:
            require(input.dtype, HALF_AND_UP - {d.float16}, "rrelu_with_noise_out_cpu")
        require(input.dtype, HALF_AND_UP, "leaky_relu_cpu")
    if not is_computed(out):
        return out
    source = side_by_side(input)
    if training and _multiplies_noise(input):
        drawn = _empty_like(noise)
        uniform_(drawn, lower, upper, generator)
        source = views.detached(source)
        noise.copy_((source <= 0) * drawn + (source > 0))
        return source * noise
    if not training:
        source = views.detached(source)
        return source.clamp(min=0) + source.clamp(max=0) * ((lower + upper) / 2)
    slopes = noise
    if not noise._layout.is_contiguous:
        slopes = empty_like_layout(dense_like(input._layout))
    run = kernel("rrelu", input.dtype.code)
    pointers = address(out), address(slopes), address(source)
    run(stream(generator), *pointers, out._layout.numel, lower, upper)
    if slopes is not noise:
        copy_into(noise, slopes)
    noise._storage.version += 1
    return out
