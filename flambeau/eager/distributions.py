"""Launching the kernels that draw from tensors of parameters: poisson, gamma, binomial, categories.

Results are new, contiguous tensors, drawn in row-major order. Fills of existing tensors, and the
memory side of both, are in `sampling.py`; the rows are in `ops/sampling.py`.
"""

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import broadcast_shape
from flambeau._tensor import empty_tensor
from flambeau.eager.sampling import (
    COMMON,
    DIGITS,
    HALF_AND_UP,
    fill,
    is_computed,
    kernel,
    side_by_side,
    stream,
)

PLAIN = frozenset((d.float32, d.float64))
LAST_INTEGER = {d.float16: "2049", d.float32: "2^24+1", d.float64: "2^53+1"}


def _require(dtype, supported, kernel_name):
    if dtype not in supported:
        raise errors.not_implemented(kernel_name, dtype)


def _new(shape, like, dtype=None):
    return empty_tensor(shape, dtype or like.dtype, like.device)


def poisson(rates, generator):
    out = _new(rates.shape, rates)
    if rates.device.type == "cpu":
        _require(rates.dtype, HALF_AND_UP, "poisson_cpu")
    if is_computed(out):
        rates = side_by_side(rates)
        run = kernel("poisson", rates.dtype.code)
        if run(stream(generator), out.data_ptr(), rates.data_ptr(), out.numel()) is not None:
            raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return out


def standard_gamma(shapes, generator):
    out = _new(shapes.shape, shapes)
    if shapes.device.type == "cpu":
        _require(shapes.dtype, PLAIN, "gamma_cpu")
    _gammas(out, shapes, generator)
    return out


def _gammas(out, shapes, generator):
    if is_computed(out):
        shapes = side_by_side(shapes)
        run = kernel("gamma", shapes.dtype.code, out.dtype.code)
        run(stream(generator), out.data_ptr(), shapes.data_ptr(), out.numel())


def sample_dirichlet(alpha, generator):
    """Gammas in float64, so that small ones do not vanish, divided by the sum of their row."""
    out = _new(alpha.shape, alpha)
    if alpha.device.type == "cpu":
        _require(alpha.dtype, PLAIN, "dirichlet")
    if is_computed(out):
        gammas = _new(alpha.shape, alpha, d.float64)
        _gammas(gammas, alpha, generator)
        columns = alpha.shape[-1] if alpha.ndim else 1
        run = kernel("normalize", out.dtype.code)
        run(stream(generator), out.data_ptr(), gammas.data_ptr(), out.numel() // columns, columns)
    return out


def binomial(count, prob, generator):
    for t, name in ((count, "count"), (prob, "prob")):
        if not t.dtype.is_floating_point:
            raise ValueError(
                f"binomial only supports floating-point dtypes for {name}, "
                f"got: {t.dtype.scalar_name}"
            )
    if prob.dtype is not count.dtype:
        raise RuntimeError(
            f"Found dtype {prob.dtype.scalar_name} but expected {count.dtype.scalar_name}"
        )
    if count.device.type == "cpu":
        _require(count.dtype, PLAIN, "binomial_cpu")
    out = _new(broadcast_shape(count.shape, prob.shape), count)
    if is_computed(out):
        count, prob = side_by_side(count, out.shape), side_by_side(prob, out.shape)
        run = kernel("binomial", out.dtype.code)
        pointers = out.data_ptr(), count.data_ptr(), prob.data_ptr()
        run(stream(generator), *pointers, out.numel())
    return out


_COMPLAINTS = {
    1: "invalid multinomial distribution (encountering probability entry < 0)",
    2: "invalid multinomial distribution (encountering probability entry = infinity or NaN)",
    3: "invalid multinomial distribution (sum of probabilities <= 0)",
}


def multinomial_with_replacement(weights, samples, generator):
    """Indices drawn with the probabilities of each row; weights has one or two dimensions."""
    *rows, categories = weights.shape
    out = _new((*rows, samples), weights, d.int64)
    if is_computed(out):
        weights = side_by_side(weights)
        sums = empty_tensor((categories,), d.float64, weights.device)
        run = kernel("multinomial", weights.dtype.code)
        pointers = out.data_ptr(), weights.data_ptr(), sums.data_ptr()
        status = run(stream(generator), *pointers, out.numel() // samples, categories, samples)
        if status is not None:
            raise RuntimeError(_COMPLAINTS[status])
    return out


def randperm(out, n, generator):
    """0 .. n - 1 in random order into out, which has n elements."""
    dtype = out.dtype
    if dtype in LAST_INTEGER:
        if n > 2 ** DIGITS[dtype] + 1:
            limit = LAST_INTEGER[dtype]
            raise RuntimeError(f"n cannot be greater than {limit} for {dtype.scalar_name} type.")
    elif dtype.category == d.INTEGER and n > 0 and n - 1 > d.iinfo(dtype).max:
        name = f"{'' if dtype.is_signed else 'u'}int{8 * dtype.itemsize}_t"
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")
    if out.device.type == "cpu":
        _require(dtype, COMMON, "randperm")
    fill(out, "randperm", (dtype.code,), generator)


def rrelu_with_noise(input, lower, upper, generator):
    """(input times a random slope where it is not positive, the slopes)."""
    out, noise = _new(input.shape, input), _new(input.shape, input)
    if is_computed(out):
        _require(input.dtype, HALF_AND_UP, "rrelu_with_noise_out_cpu")
        input = side_by_side(input)
        run = kernel("rrelu", input.dtype.code)
        pointers = out.data_ptr(), noise.data_ptr(), input.data_ptr()
        run(stream(generator), *pointers, out.numel(), lower, upper)
    return out, noise
