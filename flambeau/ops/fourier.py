"""Fourier transforms: `torch.fft` and the three kernels' rows it is made of.

`_fft_c2c`, `_fft_r2c` and `_fft_c2r` transform between complex and real numbers; everything else
pads or cuts its input, chooses directions and scales. Frequencies and shifts are at the end.
"""

import math

from flambeau import _dtype as d
from flambeau._layout import wrap_dim
from flambeau.ops.table import Ints, composite, public, template

_COMPLEX = {d.float16: d.complex32, d.float32: d.complex64, d.float64: d.complex128}
_HALF = d.float16, d.bfloat16, d.complex32
_ON_GPUS = d.float16, d.complex32  # which GPUs transform


def _inner(like, dim, n, factor):
    """1 for the first and, if it has no partner, the middle element of a half spectrum."""
    count = n // 2 + 1
    weights = [factor] * count
    weights[0] = 1.0
    if n % 2 == 0:
        weights[-1] = 1.0
    shape = [1] * like.ndim
    shape[dim] = count
    return like.real.new_tensor(weights).reshape(shape)


def _r2c_gradient(g, input_shape, dims, scale, onesided):
    if not onesided:
        return _fft_c2c(g, dims, scale, False).real
    n = input_shape[dims[-1]]
    return _fft_c2r(g * _inner(g, dims[-1], n, 0.5), dims, scale, n)


def _c2r_gradient(g, dims, scale, n):
    found = _fft_r2c(g, dims, scale, True)
    return found * _inner(found, dims[-1], n, 2.0)


@template(
    "fft_c2c",
    linear=True,
    grad=lambda g, dims, scale, forward: _fft_c2c(g, dims, scale, not forward),
    variants="",
    node="FftC2CBackward0",
)
def _fft_c2c(input, dims: object, scale: object, forward: bool):
    """The transform of complex numbers along dims, times scale."""


@template("fft_r2c", linear=True, grad=_r2c_gradient, variants="", node="FftR2CBackward0")
def _fft_r2c(input, dims: object, scale: object, onesided: bool):
    """The transform of real numbers along dims, or its first half along the last of them."""


@template("fft_c2r", linear=True, grad=_c2r_gradient, variants="", node="FftC2RBackward0")
def _fft_c2r(input, dims: object, scale: object, n: object):
    """Real numbers from the first half of their transform along dims, backward."""


# -- arguments ------------------------------------------------------------------------------------


def _floating(input, name, real=False):
    """The input as floating point numbers of a kind there are kernels for."""
    if real:
        _check_real(input, name)
    if input.dtype.category < d.FLOATING:
        input = input.to(d.default_dtype())
    if input.dtype in _HALF and not (input.device.type == "cuda" and input.dtype in _ON_GPUS):
        if input.dtype is d.complex32:
            raise RuntimeError("MKL FFT doesn't support tensors of type: Half")
        raise RuntimeError(f"Unsupported dtype {input.dtype.scalar_name}")
    return input


def _check_real(input, name):
    if input.dtype.is_complex:
        kind = "real" if name in ("rfft", "ihfft") else "real-valued"
        raise RuntimeError(
            f"{name} expects a {kind} input tensor, but got {input.dtype.scalar_name}"
        )


def _as_complex(input):
    return input if input.dtype.is_complex else input.to(_COMPLEX[input.dtype])


def _scale(norm, count, forward):
    """What to multiply with; count: how many numbers a sum goes over."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    if norm == "ortho":
        return 1 / math.sqrt(count)
    plain = forward == (norm != "forward")
    return 1.0 if plain else 1 / count


def _check_count(n):
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")


def _resized(input, dim, n):
    """Cut to n elements along dim, or zeros added."""
    size = input.shape[dim]
    if size == n:
        return input
    if size > n:
        return input.narrow(dim, 0, n)
    pad = (0, 0) * (input.ndim - 1 - dim) + (0, n - size)
    return public("constant_pad_nd")(input, pad, 0)


def _line(input, n, dim):
    """(dim from the front, number of points) of a transform along one dimension."""
    shape = input.shape
    dim = wrap_dim(dim, len(shape), scalar_ok=False)
    n = shape[dim] if n is None else n
    if n < 1:
        _check_count(n)
    return dim, n


def _axes(input, s, dim):
    """(dims from the front, number of points along each) of a transform along several."""
    if dim is not None:
        dims = [dim] if isinstance(dim, int) else list(dim)
        dims = [wrap_dim(k, input.ndim, scalar_ok=False) for k in dims]
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
    if s is not None:
        s = [s] if isinstance(s, int) else list(s)
        if dim is not None and len(dims) != len(s):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if len(s) > input.ndim:
            raise RuntimeError(
                f"Got shape with {len(s)} values but input tensor only has {input.ndim} dimensions."
            )
    if dim is None:
        count = input.ndim if s is None else len(s)
        dims = list(range(input.ndim - count, input.ndim))
    if s is None:
        s = [-1] * len(dims)
    sizes = [input.shape[k] if n == -1 else n for k, n in zip(dims, s)]
    for n in sizes:
        _check_count(n)
    return dims, sizes, s


# -- one dimension --------------------------------------------------------------------------------


def _full(input, n, dim, norm, forward, name):
    is_complex = input.dtype.is_complex
    if not is_complex or input.dtype is d.complex32:
        input = _floating(input, name)
    given, (dim, n) = n, _line(input, n, dim)
    if given is not None:
        input = _resized(input, dim, n)
    scale = 1.0 if forward and norm is None else _scale(norm, n, forward)
    if is_complex:
        return _fft_c2c(input, (dim,), scale, forward)
    found = _fft_r2c(input, (dim,), scale, False)
    return found if forward else found.conj()


def _half(input, n, dim, norm, forward, name):
    input = _floating(input, name, real=True)
    dim, n = _line(input, n, dim)
    found = _fft_r2c(_resized(input, dim, n), (dim,), _scale(norm, n, forward), True)
    return found if forward else found.conj()


def _real(input, n, dim, norm, forward, name):
    input = _floating(input, name)
    dim = wrap_dim(dim, input.ndim, scalar_ok=False)
    n = 2 * (input.shape[dim] - 1) if n is None else n
    _check_count(n)
    input = _resized(_as_complex(input), dim, n // 2 + 1)
    input = input.conj() if forward else input
    return _fft_c2r(input, (dim,), _scale(norm, n, forward), n)


@composite(variants="function out")
def fft_fft(input, n: int | None = None, dim: int = -1, norm: str | None = None):
    """The discrete Fourier transform along dim."""
    return _full(input, n, dim, norm, True, "fft")


@composite(variants="function out")
def fft_ifft(input, n: int | None = None, dim: int = -1, norm: str | None = None):
    """The inverse of fft."""
    return _full(input, n, dim, norm, False, "ifft")


@composite(variants="function out")
def fft_rfft(input, n: int | None = None, dim: int = -1, norm: str | None = None):
    """The first half of the transform of real numbers: the rest mirrors it."""
    return _half(input, n, dim, norm, True, "rfft")


@composite(variants="function out")
def fft_irfft(input, n: int | None = None, dim: int = -1, norm: str | None = None):
    """The inverse of rfft."""
    return _real(input, n, dim, norm, False, "irfft")


@composite(variants="function out")
def fft_hfft(input, n: int | None = None, dim: int = -1, norm: str | None = None):
    """The real transform of a signal of which half is given: the rest mirrors it."""
    return _real(input, n, dim, norm, True, "hfft")


@composite(variants="function out")
def fft_ihfft(input, n: int | None = None, dim: int = -1, norm: str | None = None):
    """The inverse of hfft."""
    return _half(input, n, dim, norm, False, "ihfft")


# -- several dimensions ---------------------------------------------------------------------------


def _full_n(input, s, dim, norm, forward, name):
    dims, sizes, _ = _axes(input, s, dim)
    input = _floating(input, name)
    for k, n in zip(dims, sizes):
        input = _resized(input, k, n)
    scale = _scale(norm, math.prod(sizes), forward)
    if not dims or input.dtype.is_complex:
        return _fft_c2c(_as_complex(input), tuple(dims), scale, forward)
    found = _fft_r2c(input, tuple(dims), scale, False)
    return found if forward else found.conj()


def _half_n(input, s, dim, norm, forward, name):
    if forward:
        _check_real(input, name)
    dims, sizes, _ = _axes(input, s, dim)
    if input.dtype.is_complex:
        raise RuntimeError(
            f"Only supports floating-point dtypes, but found: {input.dtype.scalar_name}"
        )
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    input = _floating(input, name)
    for k, n in zip(dims, sizes):
        input = _resized(input, k, n)
    found = _fft_r2c(input, tuple(dims), _scale(norm, math.prod(sizes), forward), True)
    return found if forward else found.conj()


def _real_n(input, s, dim, norm, forward, name):
    dims, sizes, asked = _axes(input, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    input = _as_complex(_floating(input, name))
    if asked[-1] == -1:
        sizes[-1] = 2 * (input.shape[dims[-1]] - 1)
        _check_count(sizes[-1])
    n = sizes[-1]
    for k, size in zip(dims, [*sizes[:-1], n // 2 + 1]):
        input = _resized(input, k, size)
    input = input.conj() if forward else input
    return _fft_c2r(input, tuple(dims), _scale(norm, math.prod(sizes), forward), n)


@composite(variants="function out")
def fft_fftn(input, s: Ints = None, dim: Ints = None, norm: str | None = None):
    """The transform along several dimensions."""
    return _full_n(input, s, dim, norm, True, "fftn")


@composite(variants="function out")
def fft_ifftn(input, s: Ints = None, dim: Ints = None, norm: str | None = None):
    """The inverse of fftn."""
    return _full_n(input, s, dim, norm, False, "ifftn")


@composite(variants="function out")
def fft_rfftn(input, s: Ints = None, dim: Ints = None, norm: str | None = None):
    """The first half, along the last dimension, of the transform of real numbers."""
    return _half_n(input, s, dim, norm, True, "rfftn")


@composite(variants="function out")
def fft_irfftn(input, s: Ints = None, dim: Ints = None, norm: str | None = None):
    """The inverse of rfftn."""
    return _real_n(input, s, dim, norm, False, "irfftn")


@composite(variants="function out")
def fft_hfftn(input, s: Ints = None, dim: Ints = None, norm: str | None = None):
    """The real transform along several dimensions of a signal given by half."""
    return _real_n(input, s, dim, norm, True, "hfftn")


@composite(variants="function out")
def fft_ihfftn(input, s: Ints = None, dim: Ints = None, norm: str | None = None):
    """The inverse of hfftn."""
    return _half_n(input, s, dim, norm, False, "ihfftn")


@composite(variants="function out")
def fft_fft2(input, s: Ints = None, dim: Ints = (-2, -1), norm: str | None = None):
    """The transform along two dimensions."""
    return _full_n(input, s, dim, norm, True, "fftn")


@composite(variants="function out")
def fft_ifft2(input, s: Ints = None, dim: Ints = (-2, -1), norm: str | None = None):
    """The inverse of fft2."""
    return _full_n(input, s, dim, norm, False, "ifftn")


@composite(variants="function out")
def fft_rfft2(input, s: Ints = None, dim: Ints = (-2, -1), norm: str | None = None):
    """rfftn along two dimensions."""
    return _half_n(input, s, dim, norm, True, "rfftn")


@composite(variants="function out")
def fft_irfft2(input, s: Ints = None, dim: Ints = (-2, -1), norm: str | None = None):
    """irfftn along two dimensions."""
    return _real_n(input, s, dim, norm, False, "irfftn")


@composite(variants="function out")
def fft_hfft2(input, s: Ints = None, dim: Ints = (-2, -1), norm: str | None = None):
    """hfftn along two dimensions."""
    return _real_n(input, s, dim, norm, True, "hfftn")


@composite(variants="function out")
def fft_ihfft2(input, s: Ints = None, dim: Ints = (-2, -1), norm: str | None = None):
    """ihfftn along two dimensions."""
    return _half_n(input, s, dim, norm, False, "ihfftn")


# -- shifts ---------------------------------------------------------------------------------------


def _shifted(input, dim, back):
    dims = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    dims = [wrap_dim(k, input.ndim) for k in dims]
    by = [(input.shape[k] + back) // 2 if input.ndim else 0 for k in dims]
    return input.roll(by, dims)


@composite(variants="function")
def fft_fftshift(input, dim: Ints = None):
    """The zero frequency moved to the middle."""
    return _shifted(input, dim, 0)


@composite(variants="function")
def fft_ifftshift(input, dim: Ints = None):
    """The inverse of fftshift."""
    return _shifted(input, dim, 1)
