"""Resampling: interpolate in all its modes, and the older names of it.

`interpolate` finds sizes, checks and picks a row; there is a row per mode and number of spatial
dimensions, and one for its gradient, so that gradients differentiate again. Both are linear and
share a launcher family (`eager/resampling.py`). Sampling at places that a tensor gives is in
`grid_sampling.py`.
"""

import operator
import warnings
from typing import NamedTuple

from flambeau import errors
from flambeau.ops.table import composite, public, remembered, template

NN = "nn.functional"


def _rows(name, kind, node):
    """The row of a mode, and the row of its gradient."""

    def forward(
        input,
        output_size: object,
        align_corners: bool = False,
        scales: object = None,
        kind: str = kind,
    ):
        pass

    def backward(
        grad_output,
        output_size: object,
        align_corners: bool = False,
        scales: object = None,
        input_size: object = None,
        kind: str = kind,
    ):
        pass

    forward.__name__, backward.__name__ = f"_{name}", f"_{name}_backward"
    forward.__doc__ = f"interpolate, as {name}."
    backward.__doc__ = f"The gradient of interpolate, as {name}."
    row = template(
        "resample",
        linear=True,
        variants="",
        node=f"{node}Backward0",
        grad=lambda g, input_shape, output_size, align_corners, scales: turned(
            g, output_size, align_corners, scales, input_shape
        ),
    )(forward)
    turned = template(
        "resample_backward",
        linear=True,
        variants="",
        node=f"{node}BackwardBackward0",
        grad=lambda g, output_size, align_corners, scales: row(
            g, output_size, align_corners, scales
        ),
    )(backward)
    return row


# (mode, spatial dimensions, antialias) -> (row, name in complaints, dtypes beyond floats)
_MODES = {}
for _dims in (1, 2, 3):
    _kernel = (
        "upsample_nearest2d_channels_last" if _dims == 2 else "compute_indices_weights_nearest"
    )
    for _mode, _stem in (("nearest", "Nearest"), ("nearest-exact", "NearestExact")):
        _kind = _mode.replace("-", "_")
        _row = _rows(f"upsample_{_kind}{_dims}d", _kind, f"Upsample{_stem}{_dims}D")
        _MODES[_mode, _dims, False] = _row, _kernel, ("half", "u8")
for _mode, _dims, _kind, _kernel, _more in (
    ("linear", 1, "linear", "compute_indices_weights_linear", ("half",)),
    ("bilinear", 2, "linear", "upsample_bilinear2d_channels_last", ("half", "u8")),
    ("trilinear", 3, "linear", "compute_indices_weights_linear", ("half",)),
    ("bicubic", 2, "cubic", "compute_indices_weights_cubic", ("half", "u8")),
):
    _row = _rows(f"upsample_{_mode}{_dims}d", _kind, f"Upsample{_mode.title()}{_dims}D")
    _MODES[_mode, _dims, False] = _row, _kernel, _more
for _mode, _kind in (("bilinear", "linear"), ("bicubic", "cubic"), ("lanczos", "lanczos")):
    _row = _rows(f"upsample_{_mode}2d_aa", f"smooth_{_kind}", f"Upsample{_mode.title()}2DAa")
    _MODES[_mode, 2, True] = _row, "compute_index_ranges_weights", ("u8",)

_WANTED = {"linear": 3, "bilinear": 4, "trilinear": 5}


@composite(variants="", namespace=NN)
def interpolate(
    input,
    size: object = None,
    scale_factor: object = None,
    mode: str = "nearest",
    align_corners: object = None,
    recompute_scale_factor: object = None,
    antialias: object = False,
):
    """A tensor of batch, channels and 1 to 3 spatial dimensions, resampled to another size.

    Args:
        size: the spatial size of the output; or
        scale_factor: how many times larger it is.
        mode: nearest, nearest-exact, linear, bilinear, bicubic, trilinear, area or lanczos.
        align_corners: are the corner elements at the corners, rather than half a step inside?
        recompute_scale_factor: use the ratio of sizes, not the given factor, as the step.
        antialias: smooth when the output is smaller (bilinear, bicubic and lanczos).
    """
    if type(size) is tuple and float in map(type, size):
        size = list(size)  # which is looked at each time: 2.0 is found where 2 is remembered
    row, arguments = _resolve(
        input._layout, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
    )
    return row(input, *arguments)


@remembered
def _resolve(layout, size, scale_factor, *rest):
    """(row, its arguments) of a call of interpolate, for the layout of its input."""
    known = _settled(layout.ndim, layout.dtype, size, scale_factor, *rest)
    if known is not None and layout.numel:
        row, found, scales, aligned = known
        if scales is not None:
            found = tuple(_scaled(layout.sizes[2:], scales))
        if min(found) > 0:
            return row, (found, aligned, scales)
    return _looked_at(layout, size, scale_factor, *rest)


@remembered
def _settled(ndim, dtype, size, scale_factor, *rest):
    """(row, size or None, scales, align_corners) where the call is right whatever the sizes of its
    input are; None where somebody must look at those.
    """
    sample = Sample((1 << 20,) * ndim, dtype, ndim)
    try:
        row, arguments = _looked_at(sample, size, scale_factor, *rest)
    except (TypeError, ValueError, RuntimeError):  # NotImplementedError is among them
        return None
    if len(arguments) != 3 or rest[2]:  # another row, or sizes in place of scales
        return None
    size, aligned, scales = arguments
    return row, None if scales is not None else size, scales, aligned


class Sample(NamedTuple):
    """What `_looked_at` wants to know of a layout."""

    shape: tuple
    dtype: object
    ndim: int


def _looked_at(input, size, scale_factor, mode, align_corners, recompute, antialias):
    """What `_resolve` finds, checked from the beginning."""
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | "
            "bilinear | bicubic | trilinear"
        )
    corners, align_corners = align_corners, bool(align_corners)
    spatial = list(input.shape)[2:]
    dims = input.ndim - 2
    size, scales = _sizes(spatial, dims, size, scale_factor)
    if recompute and scales is None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if scales is not None and (recompute or mode == "area"):
        size, scales = _scaled(spatial, scales), None
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and dims == 2):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            "a 4-D tensor as input"
        )
    if mode == "area" and 1 <= dims <= 3:
        return public(f"adaptive_avg_pool{dims}d"), (tuple(size),)
    if mode == "lanczos" and dims == 2:
        if align_corners:
            raise ValueError("Lanczos mode does not support align_corners=True")
        if not antialias:
            raise ValueError("Lanczos mode requires antialias=True")
    found = _MODES.get((mode, dims, bool(antialias)))
    if found is None:
        if mode in _WANTED and 1 <= dims <= 3:
            raise NotImplementedError(
                f"Got {dims + 2}D input, but {mode} mode needs {_WANTED[mode]}D input"
            )
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the "
            "modes: nearest | linear | bilinear | bicubic | trilinear | lanczos | area | "
            f"nearest-exact (got {mode})"
        )
    row, kernel, more = found
    size, scales = _numbers(row.name, size, scales, corners, mode, spatial)
    _check(input, size, spatial)
    _check_dtype(input.dtype, kernel, more)
    return row, (size, align_corners, scales)


def _sizes(spatial, dims, size, scale_factor):
    """(size, None) or (None, scales), with an element per spatial dimension."""
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        if not isinstance(size, (list, tuple)):
            return [size] * dims, None
        if len(size) != dims:
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input "
                f"with spatial dimensions of {spatial} and output size of {size}. Please provide "
                "input tensor in (N, C, d1, d2, ...,dK) format and output size in (o1, o2, ...,oK) "
                "format."
            )
        if not all(_is_whole(n) for n in size):
            raise TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, "
                f"int, int], but got size with types {[type(n) for n in size]}"
            )
        return list(size), None
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if not isinstance(scale_factor, (list, tuple)):
        return None, [scale_factor] * dims
    if len(scale_factor) != dims:
        raise ValueError(
            "Input and scale_factor must have the same number of spatial dimensions, but got input "
            f"with spatial dimensions of {spatial} and scale_factor of shape {scale_factor}. "
            "Please provide input tensor in (N, C, d1, d2, ...,dK) format and scale_factor in "
            "(s1, s2, ...,sK) format."
        )
    return None, list(scale_factor)


def _is_whole(n):
    try:
        operator.index(n)
    except TypeError:
        return False
    return True


def _numbers(name, size, scales, align_corners, mode, spatial):
    """Size and scales as tuples of numbers; the size follows from scales if there are any."""
    try:
        if align_corners is not None and type(align_corners) is not bool:
            raise TypeError
        if scales is None:
            if size and type(size[0]) is bool:  # elsewhere it will do
                raise TypeError
            return tuple(operator.index(n) for n in size), None
        scales = tuple(float(s) for s in scales)
    except (TypeError, ValueError):
        flag = () if mode.startswith("nearest") else ("bool",)
        lists = ("list", *flag, "NoneType") if scales is None else ("NoneType", *flag, "list")
        got = ", ".join(("Tensor", *lists))
        raise TypeError(
            f"{name.removeprefix('_')}() received an invalid combination of arguments - got "
            f"({got}), but expected one of:"
        ) from None
    return tuple(_scaled(spatial, scales)), scales


def _scaled(spatial, scales):
    found = []
    for n, s in zip(spatial, scales):
        if not -errors.LARGEST < n * s < errors.LARGEST:
            raise RuntimeError("value cannot be converted to type int64_t without overflow")
        found.append(int(n * s))
    return found


_LETTERS = ("", "W", "HW", "DHW")


def _check(input, size, spatial):
    if min(*spatial, *size) <= 0:
        letters = _LETTERS[len(size)]

        def named(sizes):
            return ", ".join(f"{c}: {n}" for c, n in zip(letters, sizes))

        raise RuntimeError(
            "Input and output sizes should be greater than 0, but got input "
            f"({named(spatial)}) output ({named(size)})"
        )
    if input.shape[1] == 0:
        raise RuntimeError(
            f"Non-empty {input.ndim}D data tensor expected but got a tensor with sizes "
            f"{list(input.shape)}"
        )


def _check_dtype(dtype, kernel, more):
    is_half = dtype.is_floating_point and dtype.itemsize == 2
    fine = dtype.is_floating_point if not is_half else "half" in more
    if not (fine or dtype.code in more):
        raise errors.not_implemented(kernel, dtype)


def _deprecated(name):
    warnings.warn(
        f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=4,
    )


@composite(variants="", namespace=NN)
def upsample(
    input,
    size: object = None,
    scale_factor: object = None,
    mode: str = "nearest",
    align_corners: object = None,
):
    """The old name of interpolate."""
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


@composite(variants="", namespace=NN)
def upsample_nearest(input, size: object = None, scale_factor: object = None):
    """interpolate to the nearest element."""
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, "nearest")


@composite(variants="", namespace=NN)
def upsample_bilinear(input, size: object = None, scale_factor: object = None):
    """interpolate images, with aligned corners."""
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, "bilinear", True)
