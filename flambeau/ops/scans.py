"""Scans along a dimension, and what is built from running sums and differences.

cumsum, cumprod, cummax, cummin and logcumsumexp are kernels (`codegen/templates/scans.py`); diff,
trapezoid, cov and gradient are written with other ops. Derivatives work on tensors.
"""

from flambeau import _dtype as d
from flambeau import errors
from flambeau.codegen import scalar as m
from flambeau.ops.table import (
    MISSING,
    DType,
    OptionalTensor,
    Scalar,
    composite,
    holds_anywhere,
    public,
    template,
)


def reversed_sum(g, dim):
    """Running sums from the end: the transpose of cumsum."""
    return g.flip(dim).cumsum(dim).flip(dim) if g.ndim and g.numel() > 1 else g


@template("cumsum", grad=lambda g, dim: reversed_sum(g, dim), linear=True, out_dtype=True)
def cumsum(input, dim: int, *, dtype: DType = None):
    """Sums of the elements up to each one along dim."""


def _cumprod_backward(g, input, dim, dtype, out):
    if not input.ndim:
        return g
    if dtype is not None:
        input = input.to(dtype)
    if input.dtype.is_complex:
        input, out = input.conj(), out.conj()
    zero = input == 0
    # asked for without recording, as meta tensors have no values to ask for
    if input.device.runtime.computes and not holds_anywhere(zero):
        return reversed_sum(g * out, dim) / input
    if (g * out).requires_grad:
        return _cumprod_by_parts(g, input, dim)
    before = zero.cumsum(dim)
    clean = before == 0
    first = zero & (before == 1)
    one, nothing = input.new_ones(()), input.new_zeros(())
    # Up to the first zero the usual formula holds, at it the products that leave it out, then zero.
    usual = reversed_sum(m.where(clean, g * out, nothing), dim) / m.where(clean, input, one)
    without = m.where(first, one, input).cumprod(dim)
    at_zero = reversed_sum(m.where(clean, nothing, g * without), dim)
    return m.where(clean, usual, m.where(first, at_zero, nothing))


def _cumprod_by_parts(g, input, dim):
    """One product per element that leaves it out: slow, but it can be differentiated at zeros."""
    n, cat = input.shape[dim], public("cat")
    parts = []
    for k in range(n):
        here = input.narrow(dim, k, 1)
        products = here.new_ones(here.shape)
        if k + 1 < n:
            products = cat([products, input.narrow(dim, k + 1, n - k - 1).cumprod(dim)], dim)
        if k:
            products = products * input.narrow(dim, 0, k).prod(dim, True)
        parts.append((products * g.narrow(dim, k, n - k)).sum(dim, True))
    return cat(parts, dim)


@template("cumprod", grad=_cumprod_backward, out_dtype=True)
def cumprod(input, dim: int, *, dtype: DType = None):
    """Products of the elements up to each one along dim."""


def _added_back(g, input_shape, dim, out1):
    return g.new_zeros(input_shape).scatter_add(dim, out1, g) if input_shape else g


def _followed(t, dim, out1):
    return t.gather(dim, out1) if t.ndim else t


_RUNNING: dict = dict(
    variants="function method out",
    exact_out="expected scalar_type {wanted.scalar_name} but found {got.scalar_name}",
)


@template("cummax", grad=_added_back, jvp=_followed, outputs=2, **_RUNNING)
def cummax(input, dim: int):
    """The largest element up to each one along dim, and where it is (the last such place)."""


@template("cummin", grad=_added_back, jvp=_followed, outputs=2, **_RUNNING)
def cummin(input, dim: int):
    """The smallest element up to each one along dim, and where it is (the last such place)."""


def _logcumsumexp_backward(g, input, dim, out):
    """exp(input) times the sums from the end of g * exp(-out), positive and negative apart."""
    if not input.ndim:
        return g
    if g.dtype.is_complex:
        sums = (g.conj().log() - out).flip(dim).logcumsumexp(dim).flip(dim)
        return (sums + input).exp().conj()
    # the lowest number, not -inf: the second derivative subtracts these from each other
    low = g.new_full((), d.finfo(g.dtype).min)
    parts = []
    for part in (g, -g):
        logs = m.where(part > 0, part, part.new_ones(())).log()
        logs = m.where(part > 0, logs, low) - out
        sums = logs.flip(dim).logcumsumexp(dim).flip(dim)
        parts.append((sums + input).exp())
    return parts[0] - parts[1]


def _logcumsumexp_jvp(t, input, out, dim):
    """The mean of tangents up to each element, weighted by exponentials, positive and negative."""
    if not input.ndim:
        return t
    if t.dtype.is_complex:
        return (input.exp() * t).cumsum(dim) / out.exp()
    low = t.new_full((), d.finfo(t.dtype).min)
    parts = []
    for part in (t, -t):
        logs = m.where(part > 0, part, part.new_ones(())).log()
        logs = m.where(part > 0, logs, low) + input
        parts.append((logs.logcumsumexp(dim) - out).exp())
    return parts[0] - parts[1]


@template("logcumsumexp", grad=_logcumsumexp_backward, jvp=_logcumsumexp_jvp, **_RUNNING)
def logcumsumexp(input, dim: int):
    """Logarithms of the sums of exponentials up to each element along dim."""


# -- differences and integrals ---------------------------------------------------------------------


def _check_beside(input, other, dim):
    if other.ndim != input.ndim:
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    for k in range(input.ndim):
        if k != dim and other.shape[k] != input.shape[k]:
            raise RuntimeError(
                "diff expects the shape of tensor to prepend or append to match that of input "
                f"except along the differencing dimension; input.size({k}) = {input.shape[k]}, "
                f"but got tensor.size({k}) = {other.shape[k]}"
            )


@composite(variants="function method out", bind=True)
def diff(
    input,
    n: int = 1,
    dim: int = -1,
    prepend: OptionalTensor = None,
    append: OptionalTensor = None,
):
    """Differences of neighbours along dim, n times over."""
    if not input.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    parts = [p for p in (prepend, input, append) if p is not None]
    if n == 0 and len(parts) == 1:
        return public("zeros_like")(input).copy_(input)
    dim = _dimension(dim, input.ndim)
    for p in parts:
        if p is not input:
            _check_beside(input, p, dim)
    if n == 0:  # what is beside does not count then
        return public("zeros_like")(input).copy_(input)
    if len(parts) > 1:
        input = public("cat")(parts, dim)
    for _ in range(min(n, input.shape[dim])):
        left = max(input.shape[dim] - 1, 0)
        if not left:
            return input.narrow(dim, 0, 0).clone()
        after, before = input.narrow(dim, 1, left), input.narrow(dim, 0, left)
        input = after.logical_xor(before) if input.dtype is d.bool_ else after - before
    return input


def _dimension(dim, ndim):
    if not -ndim <= dim < ndim:
        raise errors.dimension_out_of_range(dim, ndim)
    return dim % ndim


def _spacing(name, y, x, dim):
    """Distances between sample points, ready to multiply with."""
    if x.dtype is d.bool_:
        raise RuntimeError(f"{name}: received a bool input for `x`, but bool is not supported")
    if x.ndim == 1:
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        shape = [1] * y.ndim
        shape[dim] = x.shape[0]
        x = x.reshape(shape)
    elif x.ndim < y.ndim:
        x = x.reshape([1] * (y.ndim - x.ndim) + list(x.shape))
    return x.diff(dim=dim)


def _sampled(name, y, dx, dim):
    """The dimension along which y was sampled, counted from the front."""
    if name == "trapezoid":  # which complaint comes first is not the same in both
        _check_sampled_dim(y, dim)
    if y.dtype is d.bool_:
        raise RuntimeError(f"{name}: received a bool input for `y`, but bool is not supported")
    if isinstance(dx, complex):
        raise RuntimeError(f"{name}: Currently, we only support dx as a real number.")
    return _check_sampled_dim(y, dim)


def _check_sampled_dim(y, dim):
    if not y.ndim:
        raise errors.no_dimensions(dim)
    return _dimension(dim, y.ndim)


def _pairs(y, dim):
    """Sums of neighbours."""
    n = max(y.shape[dim] - 1, 0)
    return y.narrow(dim, min(1, y.shape[dim]), n) + y.narrow(dim, 0, n)


def _sample_distance(name, y, x, dx):
    """The distance of samples, 1 unless told; where they are and how far apart exclude another."""
    if x is MISSING:
        return 1 if dx is MISSING else dx
    if not hasattr(x, "_layout") or dx is not MISSING:
        forms = "Tensor y, Tensor x, *, int dim = -1", "Tensor y, *, Number dx = 1, int dim = -1"
        raise errors.combination(name, (y, x), forms)
    return 1


@composite(variants="function", bind=True, aliases="trapz")
def trapezoid(y, x: object = MISSING, *, dx: Scalar = MISSING, dim: int = -1):
    """The integral of samples y along dim, by the trapezoidal rule."""
    dx = _sample_distance("trapezoid", y, x, dx)
    dim = _sampled("trapezoid", y, dx, dim)
    if not y.shape[dim]:
        return y.new_zeros((*y.shape[:dim], *y.shape[dim + 1 :]))
    if x is MISSING:  # as PyTorch: all of them, less half of the ends
        ends = (y.select(dim, 0) + y.select(dim, -1)) * 0.5
        return (y.sum(dim) - ends) * dx
    return (_spacing("trapezoid", y, x, dim) * _pairs(y, dim)).sum(dim) / 2.0


@composite(variants="function", bind=True)
def cumulative_trapezoid(y, x: object = MISSING, *, dx: Scalar = MISSING, dim: int = -1):
    """Running integrals of samples y along dim, by the trapezoidal rule."""
    dx = _sample_distance("cumulative_trapezoid", y, x, dx)
    dim = _sampled("cumulative_trapezoid", y, dx, dim)
    if x is MISSING:
        return (_pairs(y, dim) * (dx / 2.0)).cumsum(dim)
    return (_spacing("cumulative_trapezoid", y, x, dim) * _pairs(y, dim)).cumsum(dim) / 2.0


# -- covariance ------------------------------------------------------------------------------------


def _check_weights(name, w, n, is_right, kind):
    if w.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with {w.ndim} "
            "dimensions"
        )
    if not is_right(w.dtype):
        raise RuntimeError(
            f"cov(): expected {name} to have {kind} dtype but got {name} with "
            f"{w.dtype.scalar_name} dtype"
        )
    if w.numel() != n:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input "
            f"but got {w.numel()} != {n}"
        )
    if n and holds_anywhere(w < 0):
        raise RuntimeError(f"cov(): {name} cannot be negative")


def _weights(observations, fweights, aweights):
    """The product of both kinds of weights, or None."""
    weights = None
    if fweights is not None:
        _check_weights(
            "fweights", fweights, observations, lambda t: t.category == d.INTEGER, "integral"
        )
        weights = fweights
    if aweights is not None:
        _check_weights(
            "aweights", aweights, observations, lambda t: t.is_floating_point, "floating point"
        )
        weights = aweights if weights is None else weights * aweights
    return weights


@composite(variants="function method", bind=True)
def cov(
    input,
    *,
    correction: int = 1,
    fweights: OptionalTensor = None,
    aweights: OptionalTensor = None,
):
    """Covariance matrix of variables (rows) over observations (columns)."""
    if input.ndim > 2:
        raise RuntimeError(
            "cov(): expected input to have two or fewer dimensions but got an input with "
            f"{input.ndim} dimensions"
        )
    if input.dtype is d.bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input.reshape(1, -1) if input.ndim < 2 else input
    n = x.shape[1]
    weights = _weights(n, fweights, aweights)
    if not x.dtype.is_floating_point and not x.dtype.is_complex:
        x = x.to(d.default_dtype())
    if weights is None:
        total, centred = n, x - x.sum(1, True) / n
        scaled = centred
    else:
        total = weights.sum()
        if n and holds_anywhere(total == 0):
            raise RuntimeError("cov(): weights sum to zero, can't be normalized")
        centred = x - (x * weights).sum(1, True) / total
        scaled = centred * weights
        squares = 1 if aweights is None else (weights * aweights).sum() / total
    norm = total - correction * (1 if aweights is None else squares)
    norm = max(norm, 0) if weights is None else norm.clamp(min=0)
    other = scaled.t()
    return ((centred @ (other.conj() if x.dtype.is_complex else other)) / norm).squeeze()


@composite(variants="function method", bind=True)
def corrcoef(input):
    """Correlation coefficients of variables (rows) over observations (columns)."""
    if input.ndim > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{input.ndim} dimensions"
        )
    c = input.cov()
    if not c.ndim:
        return c / c
    spread = c.diagonal()
    spread = (spread.real if c.dtype.is_complex else spread).sqrt()
    c = c / spread.unsqueeze(1) / spread.unsqueeze(0)
    return c if c.dtype.is_complex else c.clamp(-1, 1)


# -- numerical gradients ---------------------------------------------------------------------------


def _gradient_dims(input, spacing, dim, edge_order):
    """(dimensions, spacing per dimension) after the checks of PyTorch."""
    if isinstance(dim, (bool, float, complex, str)):
        raise errors.combination("gradient", [input], ["Tensor input, tuple of ints dim"], dim=dim)
    if isinstance(spacing, str) or getattr(spacing, "ndim", 0):
        forms = ["Tensor input, *, Number spacing"]
        raise errors.combination("gradient", [input], forms, spacing=spacing)
    if isinstance(dim, int) and not -errors.LARGEST - 1 <= dim <= errors.LARGEST:
        raise ValueError("Overflow when unpacking long long")
    dims = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if dim is not None and isinstance(spacing, (tuple, list)) and len(spacing) != len(dims):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim "
            f"arguments to have the same length, but got a spacing argument of length "
            f"{len(spacing)} and a dim argument of length {len(dims)}."
        )
    dims = [_dimension(k, input.ndim) for k in dims]
    twice = next((k for n, k in enumerate(dims) if k in dims[:n]), None)
    if twice is not None:
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    if spacing is None or not isinstance(spacing, (tuple, list)):
        steps = [1 if spacing is None else spacing] * len(dims)
    else:
        steps = list(spacing)
        if len(steps) != len(dims):
            raise RuntimeError(
                "torch.gradient expected spacing to be unspecified, a scalar, or a list of length "
                f"equal to 'self.dim() = {input.ndim}', since dim argument was not given, but got "
                f"a list of length {len(steps)}"
            )
        for step in steps:
            if hasattr(step, "device") and step.device != input.device:
                raise RuntimeError(
                    "torch.gradient expected each tensor to be on the same device, but got "
                    f"devices {input.device} and {step.device}!"
                )
    for k in dims:
        if input.shape[k] < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1"
            )
    return dims, steps


def _differences(x, dim, step, edge_order):
    """Derivative estimates along a dimension: central inside, one-sided at the ends."""
    n, cat = x.shape[dim], public("cat")

    def part(start, length=1):
        return x.narrow(dim, start, length)

    if not hasattr(step, "_layout") or not step.ndim:
        middle = (part(2, n - 2) - part(0, n - 2)) / (step * 2)
        if edge_order == 1:
            first, last = (part(1) - part(0)) / step, (part(n - 1) - part(n - 2)) / step
        else:
            first = (part(0) * -3 + part(1) * 4 - part(2)) / (step * 2)
            last = (part(n - 1) * 3 - part(n - 2) * 4 + part(n - 3)) / (step * 2)
        return cat([first, middle, last], dim)
    shape = [1] * x.ndim
    shape[dim] = n - 1
    h = step.diff().reshape(shape)
    a, b = h.narrow(dim, 0, n - 2), h.narrow(dim, 1, n - 2)
    middle = -b / (a * (a + b)) * part(0, n - 2)
    middle = middle + (b - a) / (a * b) * part(1, n - 2) + a / (b * (a + b)) * part(2, n - 2)
    a, z = h.narrow(dim, 0, 1), h.narrow(dim, n - 2, 1)
    if edge_order == 1:
        first, last = (part(1) - part(0)) / a, (part(n - 1) - part(n - 2)) / z
    else:
        b, y = h.narrow(dim, 1, 1), h.narrow(dim, n - 3, 1)
        first = -(a * 2 + b) / (a * (a + b)) * part(0) + (a + b) / (a * b) * part(1)
        first = first - a / (b * (a + b)) * part(2)
        last = z / (y * (y + z)) * part(n - 3) - (y + z) / (y * z) * part(n - 2)
        last = last + (z * 2 + y) / (z * (y + z)) * part(n - 1)
    return cat([first, middle, last], dim)


@composite(variants="function")
def gradient(input, *, spacing: object = None, dim: object = None, edge_order: int = 1):
    """Estimates of the derivatives along each dimension, by differences of second order."""
    if input.dtype is d.uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    dims, steps = _gradient_dims(input, spacing, dim, edge_order)
    return tuple(_differences(input, k, step, edge_order) for k, step in zip(dims, steps))
