"""Drawing from tensors of parameters: bernoulli, poisson, gamma, binomial, multinomial.

Results are new, contiguous tensors, drawn in row-major order. Fills of existing tensors, and the
memory side of both, are in `sampling.py`; the rows are in `ops/sampling.py`.
"""

import math

from flambeau import _dtype as d
from flambeau._layout import broadcast_shape
from flambeau._tensor import empty_like_layout, empty_tensor
from flambeau.autograd import views
from flambeau.eager.arguments import fits
from flambeau.eager.copying import preserved_layout
from flambeau.eager.launching import launches
from flambeau.eager.options import into
from flambeau.eager.rows import is_computed
from flambeau.eager.sampling import (
    COMMON,
    HALF_AND_UP,
    bernoulli_,
    bernoulli_from,
    check_generator,
    exponential_,
    fill,
    gpu_draws,
    kernel,
    require,
    side_by_side,
    stream,
)
from flambeau.errors import combination
from flambeau.ops.sampling_bounds import DIGITS
from flambeau.ops.table import MISSING

PLAIN = frozenset((d.float32, d.float64))
LAST_INTEGER = {d.float16: "2049", d.float32: "2^24+1", d.float64: "2^53+1"}


def _new(shape, like, dtype=None):
    return empty_tensor(shape, dtype or like.dtype, like.device)


@launches("poisson")
def poisson(rates, generator):
    check_generator("poisson", generator, rates.device)
    if rates.device.type == "cuda":
        return gpu_draws().on_host(
            generator, rates.device, lambda g: poisson(views.detached(rates).cpu(), g)
        )
    out = _new(rates.shape, rates)
    if rates.device.runtime.computes:
        require(rates.dtype, HALF_AND_UP, "poisson_cpu")
    if is_computed(out):
        rates = side_by_side(rates)
        run = kernel("poisson", rates.dtype.code, device=out.device)
        if run(stream(generator), out.data_ptr(), rates.data_ptr(), out.numel()) is not None:
            raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return out


@launches("standard_gamma")
def standard_gamma(shapes, generator):
    check_generator("_standard_gamma", generator, shapes.device)
    if shapes.device.type == "cuda":
        return gpu_draws().on_host(
            generator, shapes.device, lambda g: standard_gamma(views.detached(shapes).cpu(), g)
        )
    out = _new(shapes.shape, shapes)
    if shapes.device.runtime.computes:
        require(shapes.dtype, PLAIN, "gamma_cpu")
    _gammas(out, shapes, generator)
    return out


def _gammas(out, shapes, generator):
    if is_computed(out):
        shapes = side_by_side(shapes)
        run = kernel("gamma", shapes.dtype.code, out.dtype.code, device=out.device)
        run(stream(generator), out.data_ptr(), shapes.data_ptr(), out.numel())


@launches("sample_dirichlet")
def sample_dirichlet(alpha, generator):
    """Gammas in float64, so that small ones do not vanish, divided by the sum of their row."""
    check_generator("_sample_dirichlet", generator, alpha.device)
    if alpha.device.type == "cuda":
        return gpu_draws().on_host(
            generator, alpha.device, lambda g: sample_dirichlet(views.detached(alpha).cpu(), g)
        )
    out = _new(alpha.shape, alpha)
    if alpha.device.runtime.computes:
        require(alpha.dtype, PLAIN, "dirichlet")
    if is_computed(out):
        gammas = _new(alpha.shape, alpha, d.float64)
        _gammas(gammas, alpha, generator)
        columns = alpha.shape[-1] if alpha.ndim else 1
        run = kernel("normalize", out.dtype.code, device=out.device)
        run(stream(generator), out.data_ptr(), gammas.data_ptr(), out.numel() // columns, columns)
    return out


@launches("binomial")
def binomial(count, prob, generator):
    check_generator("binomial", generator)
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
    broadcast_shape(count.shape, prob.shape)
    if count.device.runtime.computes:
        require(count.dtype, PLAIN, "binomial_cpu")
    if count.device.type == "cuda":
        pair = [views.detached(t).cpu() for t in (count, prob)]
        return gpu_draws().on_host(generator, count.device, lambda g: binomial(*pair, g))
    out = _new(broadcast_shape(count.shape, prob.shape), count)
    if is_computed(out):
        count, prob = side_by_side(count, out.shape), side_by_side(prob, out.shape)
        run = kernel("binomial", out.dtype.code, device=out.device)
        pointers = out.data_ptr(), count.data_ptr(), prob.data_ptr()
        run(stream(generator), *pointers, out.numel())
    return out


_COMPLAINTS = {
    1: "invalid multinomial distribution (encountering probability entry < 0)",
    2: "invalid multinomial distribution (encountering probability entry = infinity or NaN)",
    3: "invalid multinomial distribution (sum of probabilities <= 0)",
}


@launches("multinomial")
def multinomial(weights, samples, replacement, generator):
    check_generator("multinomial", generator)
    if not 0 < weights.ndim <= 2:
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not weights.dtype.is_floating_point:
        raise RuntimeError(
            "multinomial only supports floating-point dtypes for input, "
            f"got: {weights.dtype.scalar_name}"
        )
    categories = weights.shape[-1]
    if samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and samples > categories:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    if categories > 2**24:
        raise RuntimeError("number of categories cannot exceed 2^24")
    out = _new((*weights.shape[:-1], samples), weights, d.int64)
    if not is_computed(out):
        return out
    if replacement and samples > 1:
        if out.device.type == "cuda":
            gpu_draws().draw_categories(out, views.detached(weights), samples, generator)
        else:
            _draw_categories(out, weights, samples, categories, generator)
        return out
    return _race(views.detached(weights), samples, generator)


def _race(weights, samples, generator):
    """Without replacement: every category waits weights / Exp(1), the largest ones win."""
    if weights.numel() == 0:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
            "identity."
        )
    least, most = weights.aminmax()  # nan is neither
    if not (least.item() >= 0 and most.item() < math.inf):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if weights.sum(-1).amin().item() == 0:
        raise RuntimeError(_COMPLAINTS[3])
    waiting = _empty_like(weights)
    exponential_(waiting, 1.0, generator)
    score = weights / waiting
    if samples == 1:
        return score.argmax(-1, keepdim=True)
    return score.topk(samples)[1]


def _draw_categories(out, weights, samples, categories, generator):
    """With replacement: a uniform number finds its place among the cumulated weights."""
    weights = side_by_side(weights)
    sums = empty_tensor((max(categories, 1),), d.float64, weights.device)
    run = kernel("multinomial", weights.dtype.code, device=out.device)
    pointers = out.data_ptr(), weights.data_ptr(), sums.data_ptr()
    status = run(stream(generator), *pointers, out.numel() // samples, categories, samples)
    if status is not None:
        raise RuntimeError(_COMPLAINTS[status])


def fill_randperm(out, n, generator):
    """0 .. n - 1 in random order into out, which has n elements."""
    dtype = out.dtype
    if dtype in LAST_INTEGER:
        if n > 2 ** DIGITS[dtype] + 1:
            limit = LAST_INTEGER[dtype]
            raise RuntimeError(f"n cannot be greater than {limit} for {dtype.scalar_name} type.")
    elif dtype.category == d.INTEGER and n > 0 and n - 1 > d.iinfo(dtype).max:
        name = f"{'' if dtype.is_signed else 'u'}int{8 * dtype.itemsize}_t"
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")
    if out.device.runtime.computes:
        require(dtype, COMMON, "randperm")
    if out.device.type == "cuda":
        return gpu_draws().fill_permutation(out, n, generator)
    fill(out, "randperm", (dtype.code,), generator)


def _empty_like(t, dtype=None):
    return empty_like_layout(preserved_layout(t._layout, dtype))


_BERNOULLI = (
    "Tensor input, *, torch.Generator generator = None, Tensor out = None",
    "Tensor input, float p, *, torch.Generator generator = None",
)


@launches("bernoulli")
def bernoulli(input, p, generator):
    check_generator("bernoulli", generator)
    out = _new(input.shape, input)
    if p is MISSING:
        bernoulli_from(out, input, generator)
    elif fits("float", p):
        bernoulli_(out, p, generator)
    else:
        raise combination("bernoulli", (input, p), _BERNOULLI)
    return out


@launches("bernoulli_out")
def bernoulli_out(out, input, p, generator):
    """Into out=, whatever its dtype; p is for calls without."""
    if p is not MISSING:
        raise combination("bernoulli", (input, p), _BERNOULLI, out=out)
    check_generator("bernoulli", generator)
    bernoulli_from(into(out, input.shape, name="bernoulli"), input, generator)
    return out
