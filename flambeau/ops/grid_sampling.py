"""Sampling at places: grid_sample, and affine_grid, which makes regular grids.

The value at a place is a sum over taps, neighbours with weights. Value and gradients are kernels
(`eager/grid_sampling.py`); where a gradient is to be differentiated again, it is written here on
tensors: the same taps, gathered and added up by index. Resampling to another size is in
`resampling.py`.
"""

import math
import warnings

from flambeau import errors
from flambeau.ops.table import IntList, composite, public, remembered, template

_CHANGED = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. "
    "Please specify align_corners=True if the old behavior is desired. See the documentation of "
    "grid_sample for details."
)
_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


def _gradients(g, input, grid, interpolation_mode, padding_mode, align_corners, needs):
    return _grid_sampler_backward(
        g, input, grid, interpolation_mode, padding_mode, align_corners, needs
    )


@template("grid_sampler", joint_grad=_gradients, variants="", node="GridSampler2DBackward0",
          flat=True)  # fmt: skip
def _grid_sampler_2d(input, grid, interpolation_mode: int, padding_mode: int, align_corners: bool):
    """Values of images at the places of a grid."""


@template("grid_sampler", joint_grad=_gradients, variants="", node="GridSampler3DBackward0",
          flat=True)  # fmt: skip
def _grid_sampler_3d(input, grid, interpolation_mode: int, padding_mode: int, align_corners: bool):
    """Values of volumes at the places of a grid."""


def _check(input, grid):
    """What every sampler refuses."""
    if not (input.ndim and grid.ndim):
        raise errors.no_dimensions(0)
    given = f"but got input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
    if input.shape[:1] != grid.shape[:1]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, {given}"
        )
    if grid.shape[-1:] != (input.ndim - 2,):
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {input.ndim - 2} in last dimension, but "
            f"got grid with sizes {list(grid.shape)}"
        )
    for k, n in enumerate(input.shape):
        if k > 1 and n == 0:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input "
                f"has sizes {list(input.shape)} with dimension {k} being empty"
            )
    return given


def _row_of(input, grid, dims, interpolation_mode, padding_mode, _):
    """The row that samples tensors of 4 or 5 dimensions (0: the input tells)."""
    given = _check(input, grid)
    for name, mode in (("interpolation", interpolation_mode), ("padding", padding_mode)):
        if mode not in (0, 1, 2):
            raise RuntimeError(f"grid_sampler(): expected {name}_mode to be 0, 1 or 2, got {mode}")
    dims = dims or (4 if input.ndim == 4 else 5)
    if input.ndim != dims or input.ndim != grid.ndim:
        raise RuntimeError(
            f"grid_sampler(): expected {dims}D input and grid with same number of dimensions, "
            + given
        )
    if input.ndim == 5 and interpolation_mode == 2:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    return _grid_sampler_2d if input.ndim == 4 else _grid_sampler_3d


@composite(variants="function")
def grid_sampler(input, grid, interpolation_mode: int, padding_mode: int, align_corners: bool):
    """grid_sample with modes as numbers."""
    arguments = (interpolation_mode, padding_mode, bool(align_corners))
    return _row_of(input, grid, 0, *arguments)(input, grid, *arguments)


@composite(variants="function")
def grid_sampler_2d(input, grid, interpolation_mode: int, padding_mode: int, align_corners: bool):
    """grid_sampler of images."""
    arguments = (interpolation_mode, padding_mode, bool(align_corners))
    return _row_of(input, grid, 4, *arguments)(input, grid, *arguments)


@composite(variants="function")
def grid_sampler_3d(input, grid, interpolation_mode: int, padding_mode: int, align_corners: bool):
    """grid_sampler of volumes."""
    arguments = (interpolation_mode, padding_mode, bool(align_corners))
    return _row_of(input, grid, 5, *arguments)(input, grid, *arguments)


@composite(variants="", namespace="nn.functional")
def grid_sample(
    input,
    grid,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
):
    """Values of images or volumes at places of a grid, -1 .. 1 along each dimension.

    Args:
        grid: places, (batch, *output size, 2 or 3), the last dimension of the image first.
        mode: bilinear, nearest or bicubic (images only).
        padding_mode: what lies outside: zeros, the border, or a reflection.
        align_corners: are -1 and 1 the centers of the corner elements, rather than their edges?
    """
    try:
        layouts = input._layout, grid._layout
    except AttributeError:
        _check_modes(mode, padding_mode)  # PyTorch reads them first
        raise
    row, arguments = _resolve(*layouts, mode, padding_mode, align_corners)
    if align_corners is None:
        warnings.warn(_CHANGED, stacklevel=3)
    return row(input, grid, *arguments)


@remembered
def _resolve(input, grid, mode, padding_mode, align_corners):
    """(row, its arguments) of a call of grid_sample, for the layouts of its tensors."""
    _check_modes(mode, padding_mode)
    if not (align_corners is None or isinstance(align_corners, bool)):
        raise TypeError(
            "grid_sampler(): argument 'align_corners' (position 5) must be bool, not "
            f"{errors.kind_name(align_corners)}"
        )
    arguments = _MODES[mode], _PADDINGS[padding_mode], bool(align_corners)
    return _row_of(input, grid, 0, *arguments), arguments


def _check_modes(mode, padding_mode):
    if mode not in _MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in _PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )


# -- the gradient on tensors -----------------------------------------------------------------------


def _reflected(x, size, align_corners):
    """(x reflected at the borders, the slope of that)."""
    low, span = (0, size - 1) if align_corners else (-0.5, size)
    if span == 0:
        return x * 0, x.detach() * 0
    away = x - low
    slope = 1 - 2 * (away.detach() < 0).to(x.dtype)
    away = away * slope
    rest = away - (away.detach() / (2 * span)).floor() * (2 * span)
    back = (rest.detach() >= span).to(x.dtype)
    return rest * (1 - 2 * back) + back * (2 * span) + low, slope * (1 - 2 * back)


def _padded(x, size, padding_mode, align_corners):
    """(x brought inside by the padding mode, the slope of that)."""
    slope = x.detach() * 0 + 1
    if padding_mode == 0:
        return x, slope
    if padding_mode == 2:
        x, slope = _reflected(x, size, align_corners)
    inner = ((x.detach() > 0) & (x.detach() < size - 1)).to(x.dtype)
    return x.clamp(0, size - 1), slope * inner


def _cubic(t):
    """Weights of four neighbours, and their slopes."""
    a, u = -0.75, 1 - t

    def near(x):
        return ((a + 2) * x - (a + 3)) * x * x + 1, (3 * (a + 2) * x - 2 * (a + 3)) * x

    def far(x):
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a, (3 * a * x - 10 * a) * x + 8 * a

    pairs = [far(t + 1), near(t), near(u), far(u + 1)]
    return [w for w, _ in pairs], [pairs[0][1], pairs[1][1], -pairs[2][1], -pairs[3][1]]


def _axis(x, size, interpolation_mode, padding_mode, align_corners):
    """Per tap along a dimension (index, inside, weight, slope), and how places follow the grid."""
    factor = (size - 1) / 2 if align_corners else size / 2
    x = (x + 1) * ((size - 1) / 2) if align_corners else ((x + 1) * size - 1) / 2
    if interpolation_mode != 2:
        x, slope = _padded(x, size, padding_mode, align_corners)
        factor = slope * factor
    low = x.detach().floor()
    if interpolation_mode == 1:
        taps, weights, slopes = [x.detach().round()], [1], [0]
    elif interpolation_mode == 0:
        taps, weights, slopes = [low, low + 1], [1 - (x - low), x - low], [-1, 1]
    else:
        taps = [low + k for k in (-1, 0, 1, 2)]
        weights, slopes = _cubic(x - low)
        if padding_mode:
            taps = [_padded(tap, size, padding_mode, align_corners)[0] for tap in taps]
    found = []
    for tap, weight, slope in zip(taps, weights, slopes):
        inside = (tap >= 0) & (tap <= size - 1)
        index = public("where")(inside, tap, tap * 0).long()
        found.append((index, inside, weight, slope))
    return found, factor


@composite("grid_sampler_backward", variants="")
def _grid_sampler_backward(
    g,
    input,
    grid,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    needs: object,
):
    """The gradients of input and grid (None where nobody needs them), in ops that differentiate."""
    batch, channels, sizes = input.shape[0], input.shape[1], input.shape[2:]
    dims = len(sizes)
    flat = input.reshape(batch, channels, -1)
    incoming = g.reshape(batch, channels, -1)
    lines = grid.reshape(batch, -1, dims)
    axes = [
        _axis(lines[..., d], sizes[-1 - d], interpolation_mode, padding_mode, align_corners)
        for d in range(dims)
    ]
    image = input.new_zeros(flat.shape)
    along = [0] * dims
    for taps in _combinations([taps for taps, _ in axes]):
        index, inside, weight = _together(taps, sizes)
        spread = index.unsqueeze(1).expand(batch, channels, index.shape[1])
        there = inside.to(g.dtype).unsqueeze(1)
        image = image.scatter_add(2, spread, incoming * (there * _lifted(weight)))
        if interpolation_mode != 1:
            read = (flat.gather(2, spread) * there * incoming).sum(1)
            for d in range(dims):
                slope = 1
                for k, (_, _, w, s) in enumerate(taps):
                    slope = slope * (s if k == d else w)
                along[d] = along[d] + read * slope
    if interpolation_mode == 1:
        return image.reshape(input.shape), grid * 0
    places = public("stack")([total * factor for total, (_, factor) in zip(along, axes)], -1)
    return image.reshape(input.shape), places.reshape(grid.shape)


def _combinations(axes):
    found = [()]
    for taps in axes:
        found = [(*before, tap) for before in found for tap in taps]
    return found


def _together(taps, sizes):
    """(offset in a plane, inside, weight) of a tap in every dimension."""
    index, inside, weight = taps[-1][:3]
    for d in range(len(taps) - 2, -1, -1):
        index = index * sizes[-1 - d] + taps[d][0]
        inside, weight = inside & taps[d][1], weight * taps[d][2]
    return index, inside, weight


def _lifted(weight):
    return weight if isinstance(weight, int) else weight.unsqueeze(1)


# -- regular grids ---------------------------------------------------------------------------------


_MANY = 1 << 28


def _base(like, size, align_corners):
    """The places of a regular grid, with a one appended: (places, dimensions + 1)."""
    spatial = list(size[2:])
    dims = len(spatial)
    if math.prod(spatial) > _MANY:  # can there be such a grid? Lines come first
        like.new_empty((size[0], *spatial, dims + 1))
    columns = []
    for d in range(dims):
        n = spatial[dims - 1 - d]
        if n == 1:
            line = like.new_zeros((1,))
        else:
            line = public("linspace")(-1, 1, n, dtype=like.dtype, device=like.device)
        if not align_corners:
            line = line * ((n - 1) / n)
        shape = [1] * dims
        shape[dims - 1 - d] = n
        columns.append(line.reshape(shape).expand(spatial).reshape(-1))
    columns.append(like.new_ones(columns[0].shape))
    return public("stack")(columns, -1)


def _expanded_base(like, size, align_corners):
    base = _base(like, size, align_corners)
    return base.unsqueeze(0).expand(size[0], *base.shape)


def _theta_gradient(g, size, align_corners):
    places = g.reshape(size[0], -1, g.shape[-1])
    return places.transpose(1, 2).bmm(_expanded_base(g, size, align_corners))


@composite(variants="function", grad=_theta_gradient)
def affine_grid_generator(theta, size: IntList, align_corners: bool):
    """The places of a regular grid, moved by affine maps."""
    if len(size) not in (4, 5):
        raise RuntimeError("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
    places = _expanded_base(theta, size, align_corners).bmm(theta.transpose(1, 2))
    return places.view(size[0], *size[2:], len(size) - 2)


@composite(variants="", namespace="nn.functional")
def affine_grid(theta, size: IntList, align_corners: bool | None = None):
    """A grid for grid_sample: the places of a regular grid, moved by a batch of affine maps.

    Args:
        theta: maps, (batch, 2, 3) or (batch, 3, 4).
        size: of the images that will be sampled, batch and channels included.
        align_corners: are -1 and 1 the centers of the corner elements, rather than their edges?
    """
    if align_corners is None:
        warnings.warn(_CHANGED, stacklevel=3)
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {size}."
        )
    dims = len(size) - 2
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (dims, dims + 1):
        raise ValueError(
            f"Expected a batch of {dims}D affine matrices of shape Nx{dims}x{dims + 1} for size "
            f"{size}. Got {theta.shape}."
        )
    if align_corners and min(size[2:]) == 1:
        warnings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
            "align_corners=True. This is not an intended use case of affine_grid. See the "
            "documentation of affine_grid for details.",
            stacklevel=3,
        )
    elif min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return affine_grid_generator(theta, tuple(size), bool(align_corners))
