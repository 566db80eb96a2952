"""grid_sample and affine_grid: against loops written out here, against PyTorch where installed."""

import itertools
import math

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau.autograd import gradcheck, gradgradcheck
from tests.ops.both import bits_with_threads, check, draw, outcome, tensor

CASES = [
    (dims, mode, padding, align)
    for dims in (2, 3)
    for mode, padding, align in itertools.product(
        ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)
    )
    if not (dims == 3 and mode == "bicubic")
]


def brought_inside(x, size, padding, align):
    if padding == "zeros":
        return x
    if padding == "reflection":
        low, high = (0, size - 1) if align else (-0.5, size - 0.5)
        if low == high:
            return 0.0
        while not low <= x <= high:
            x = 2 * low - x if x < low else 2 * high - x
    return min(max(x, 0.0), size - 1.0)


def taps(x, size, mode, padding, align):
    """(index, weight) along a dimension; indices may lie outside."""
    x = (x + 1) / 2 * (size - 1) if align else ((x + 1) * size - 1) / 2
    if mode == "bicubic":
        low = math.floor(x)
        places = [low + k for k in (-1, 0, 1, 2)]
        return [(int(brought_inside(float(k), size, padding, align)), cubic(x - k)) for k in places]
    x = brought_inside(x, size, padding, align)
    if mode == "nearest":
        return [(round(x), 1.0)]
    low = math.floor(x)
    return [(low, 1 - (x - low)), (low + 1, x - low)]


def cubic(x, a=-0.75):
    x = abs(x)
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def reference(image, grid, mode, padding, align):
    sizes = image.shape[2:]
    out = np.zeros((*image.shape[:2], *grid.shape[1:-1]))
    for place in np.ndindex(*grid.shape[:-1]):
        batch, *where = place
        axes = [taps(x, n, mode, padding, align) for x, n in zip(grid[place][::-1], sizes)]
        for combination in itertools.product(*axes):
            if all(0 <= i < n for (i, _), n in zip(combination, sizes)):
                weight = math.prod(w for _, w in combination)
                index = tuple(i for i, _ in combination)
                out[(batch, slice(None), *where)] += weight * image[(batch, slice(None), *index)]
    return out


def sample(image, grid, case):
    _, mode, padding, align = case
    return F.grid_sample(image, grid, mode=mode, padding_mode=padding, align_corners=align)


def arrays(dims, sizes=(4, 5, 7), places=(3, 5, 4), seed=0):
    return draw((2, 3, *sizes[-dims:]), seed), draw((2, *places[-dims:], dims), seed + 1, 0.9)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values(case):
    for seed, sizes in enumerate(((4, 5, 7), (1, 1, 1), (2, 9, 3))):
        image, grid = arrays(case[0], sizes, seed=seed)
        wanted = reference(image, grid, *case[1:])
        for dtype, limit in (("float64", 1e-10), ("float32", 1e-4)):
            ours = sample(tensor(flambeau, image, dtype), tensor(flambeau, grid, dtype), case)
            np.testing.assert_allclose(ours.detach().numpy(), wanted, rtol=limit, atol=limit)


def test_half_types_and_strides():
    image, grid = arrays(2)
    wanted = reference(image.transpose(0, 1, 3, 2), grid, "bilinear", "border", False)
    for dtype, limit in (("float16", 2e-2), ("bfloat16", 1e-1)):
        view = tensor(flambeau, image, dtype).transpose(2, 3)
        places = tensor(flambeau, np.moveaxis(grid, 3, 1), dtype).permute(0, 2, 3, 1)
        ours = F.grid_sample(view, places, padding_mode="border", align_corners=False)
        assert ours.dtype is view.dtype and ours.is_contiguous()
        np.testing.assert_allclose(ours.float().detach().numpy(), wanted, rtol=limit, atol=limit)
        ours.sum().backward()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients(case):
    image, grid = arrays(case[0], (2, 2, 3), (1, 1, 3))
    given = tensor(flambeau, image[:1, :1], "float64"), tensor(flambeau, grid[:1], "float64")
    assert gradcheck(lambda x, y: sample(x, y, case), given, eps=1e-7, atol=1e-4)
    if case[1] != "nearest" and case[3]:
        assert gradgradcheck(lambda x, y: sample(x, y, case), given, eps=1e-7, atol=1e-4)


def test_places_that_are_no_numbers_read_nothing_outside():
    image = flambeau.arange(12.0).reshape(1, 1, 3, 4)
    for value in (math.nan, math.inf, -math.inf, 1e30):
        grid = flambeau.full((1, 1, 17, 2), value)
        for _, mode, padding, align in CASES[:18]:
            sample(image, grid, (2, mode, padding, align))


def test_empty_and_meta():
    image, grid = flambeau.ones(1, 2, 4, 4), flambeau.zeros(1, 3, 5, 2)
    assert F.grid_sample(image[:0], grid[:0], align_corners=False).shape == (0, 2, 3, 5)
    assert F.grid_sample(image, grid[:, :0], align_corners=False).shape == (1, 2, 0, 5)
    assert F.grid_sample(image[:, :0], grid, align_corners=False).shape == (1, 0, 3, 5)
    meta = F.grid_sample(image.to("meta"), grid.to("meta"), align_corners=False)
    assert meta.shape == (1, 2, 3, 5) and meta.device.type == "meta"


def test_threads_give_the_same_bits():
    image, grid = (
        tensor(flambeau, draw((2, 16, 20, 30))),
        tensor(flambeau, draw((2, 50, 60, 2), 1, 0.7)),
    )

    def run():
        y = F.grid_sample(image, grid, align_corners=True)
        return y, *flambeau.autograd.grad(y, (image, grid), flambeau.ones_like(y))

    one, two = bits_with_threads(run)
    assert one == two


@pytest.mark.parametrize("align", [False, True])
def test_affine_grid(align):
    for size in ((2, 3, 4, 5), (2, 1, 3, 4, 2)):
        dims = len(size) - 2
        theta = draw((2, dims, dims + 1))
        lines = []
        for n in size[2:]:
            ends = 1 if align else 1 - 1 / n
            lines.append(np.linspace(-ends, ends, n) if n > 1 else np.zeros(1))
        columns = list(np.meshgrid(*lines, indexing="ij"))
        places = np.stack([*reversed(columns), np.ones(size[2:])], -1)
        wanted = np.einsum("...k,njk->n...j", places, theta)
        ours = F.affine_grid(tensor(flambeau, theta, "float64"), size, align_corners=align)
        np.testing.assert_allclose(ours.detach().numpy(), wanted, rtol=1e-12, atol=1e-12)
        given = tensor(flambeau, theta, "float64")
        assert gradcheck(lambda t, s=size: F.affine_grid(t, s, align_corners=align), (given,))
        assert gradgradcheck(lambda t, s=size: F.affine_grid(t, s, align_corners=align), (given,))


def test_the_identity_samples_the_image_itself():
    image = flambeau.arange(40.0).reshape(1, 2, 4, 5)
    theta = flambeau.eye(2, 3)[None]
    for align in (False, True):
        grid = F.affine_grid(theta, image.shape, align_corners=align)
        ours = F.grid_sample(image, grid, align_corners=align)
        np.testing.assert_allclose(ours.numpy(), image.numpy(), atol=1e-5)


def test_defaults_warn():
    image, grid = flambeau.ones(1, 1, 2, 2), flambeau.zeros(1, 1, 1, 2)
    for _ in range(2):
        with pytest.warns(
            UserWarning, match="Default grid_sample and affine_grid behavior"
        ) as seen:
            F.grid_sample(image, grid)
        assert seen[0].filename == __file__
    with pytest.warns(UserWarning, match="Default grid_sample and affine_grid behavior") as seen:
        F.affine_grid(flambeau.ones(1, 2, 3), (1, 1, 2, 2))
    assert seen[0].filename == __file__


BAD = {
    "mode": lambda lib, x, g: lib.nn.functional.grid_sample(x, g, mode="cubic"),
    "padding": lambda lib, x, g: lib.nn.functional.grid_sample(x, g, padding_mode="edge"),
    "dtype": lambda lib, x, g: lib.grid_sampler(x, g.double(), 0, 0, False),
    "integers": lambda lib, x, g: lib.grid_sampler(x.long(), g.long(), 0, 0, False),
    "integers 3d": lambda lib, x, g: lib.grid_sampler_3d(
        lib.ones(1, 1, 2, 2, 2).int(), lib.ones(1, 1, 1, 1, 3).int(), 0, 0, False
    ),
    "batch": lambda lib, x, g: lib.grid_sampler(x, g.expand(2, 3, 3, 2), 0, 0, False),
    "dims": lambda lib, x, g: lib.grid_sampler(x, g[0], 0, 0, False),
    "last": lambda lib, x, g: lib.grid_sampler(x, lib.zeros(1, 3, 3, 3), 0, 0, False),
    "empty": lambda lib, x, g: lib.grid_sampler(x[:, :, :0], g, 0, 0, False),
    "2d": lambda lib, x, g: lib.grid_sampler_2d(
        lib.ones(1, 1, 2, 2, 2), lib.ones(1, 1, 1, 1, 3), 0, 0, False
    ),
    "3d": lambda lib, x, g: lib.grid_sampler_3d(x, g, 0, 0, False),
    "bicubic": lambda lib, x, g: lib.nn.functional.grid_sample(
        lib.ones(1, 1, 2, 2, 2), lib.ones(1, 1, 1, 1, 3), "bicubic", align_corners=False
    ),
    "grid of more dims": lambda lib, x, g: lib.grid_sampler(x, g[:, None], 0, 0, False),
    "theta integers": lambda lib, x, g: lib.nn.functional.affine_grid(
        lib.ones(1, 2, 3).long(), (1, 1, 2, 2), False
    ),
    "theta shape": lambda lib, x, g: lib.nn.functional.affine_grid(
        lib.ones(1, 2, 3), (1, 1, 2, 2, 2), False
    ),
    "theta shape 2d": lambda lib, x, g: lib.nn.functional.affine_grid(
        lib.ones(1, 3, 3), (1, 1, 2, 2), False
    ),
    "sizes": lambda lib, x, g: lib.nn.functional.affine_grid(lib.ones(1, 2, 3), (1, 1, 2), False),
    "size 0": lambda lib, x, g: lib.nn.functional.affine_grid(
        lib.ones(1, 2, 3), (1, 1, 0, 2), False
    ),
    "size 1": lambda lib, x, g: lib.nn.functional.affine_grid(
        lib.ones(1, 2, 3), (1, 1, 1, 2), True
    ),
    "generator": lambda lib, x, g: lib.affine_grid_generator(lib.ones(1, 2, 3), (1, 1, 2), True),
    "batches": lambda lib, x, g: lib.affine_grid_generator(lib.ones(1, 2, 3), (3, 1, 2, 2), True),
    "default": lambda lib, x, g: lib.nn.functional.grid_sample(x, g),
}


def test_complaints():
    image, grid = flambeau.ones(1, 2, 4, 4), flambeau.zeros(1, 3, 3, 2)
    with pytest.raises(RuntimeError, match="expected grid and input to have same batch size"):
        F.grid_sample(image, grid.expand(2, 3, 3, 2), align_corners=False)
    with pytest.raises(ValueError, match="expected mode to be 'bilinear', 'nearest' or 'bicubic'"):
        F.grid_sample(image, grid, mode="cubic")
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        F.grid_sample(image, grid.double(), align_corners=False)


@pytest.mark.oracle
@pytest.mark.parametrize("name", BAD)
def test_complaints_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    ours, theirs = (
        outcome(BAD[name], lib, lib.ones(1, 2, 4, 4), lib.zeros(1, 3, 3, 2))
        for lib in (flambeau, torch)
    )
    assert ours == theirs


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES, ids=str)
def test_as_pytorch(case):
    torch = pytest.importorskip("torch")
    dims, mode, padding, align = case
    for seed, sizes in enumerate(((4, 6, 7), (1, 1, 1), (9, 4, 33))):
        given = arrays(dims, sizes, seed=seed)
        for dtype in ("float32", "float64"):

            def function(lib, image, grid):
                return lib.nn.functional.grid_sample(image, grid, mode, padding, align)

            check(torch, function, given, dtype)


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES, ids=str)
def test_second_gradients_as_pytorch(case):
    torch = pytest.importorskip("torch")
    dims, mode, padding, align = case
    image, grid = arrays(dims)
    found = []
    for lib in (flambeau, torch):
        given = tensor(lib, image, "float64"), tensor(lib, grid, "float64")
        y = lib.nn.functional.grid_sample(*given, mode, padding, align)
        g = tensor(lib, draw(tuple(y.shape), 3), "float64")
        first = lib.autograd.grad(y, given, g, create_graph=True)
        total = sum((t * t).sum() for t in first)
        second = lib.autograd.grad(total, (g, *given), allow_unused=True)
        found.append(
            [None if t is None else t.numpy() for t in (*(f.detach() for f in first), *second)]
        )
    for ours, theirs in zip(*found):
        zero = np.zeros(())
        np.testing.assert_allclose(
            zero if ours is None else ours, zero if theirs is None else theirs, rtol=1e-8, atol=1e-8
        )
