"""KL(p || q): the formulas.

Two distributions of the same family have a formula of their own. Different ones go through
KL(p || q) = -entropy of p - mean under p of log q(x): a moment or two of p, put into log q. Where q
gives no probability to something that p may draw, the divergence is infinite.
"""

import math

import flambeau
from flambeau.linalg import solve_triangular
from flambeau.nn import functional as F

from .categorical import Categorical, OneHotCategorical
from .composition import Independent
from .counts import Bernoulli, Binomial, Geometric, Poisson
from .distribution import ExponentialFamily
from .gammas import Beta, Dirichlet, Exponential, Gamma
from .kl import kl_divergence, register_kl
from .location_scale import Cauchy, Laplace, Normal, Uniform
from .multivariate import LowRankMultivariateNormal, MultivariateNormal
from .relaxed import ContinuousBernoulli
from .transformed import Gumbel, HalfNormal, Pareto
from .transformed_distribution import TransformedDistribution
from .utils import _sum_rightmost, euler_constant

INF = math.inf
EULER = euler_constant


def _infinite_where(condition, value):
    return flambeau.where(condition, INF, value)


# -- distributions made of others ------------------------------------------------------------------


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    """A one to one transform changes nothing."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_families(p, q):
    """F(θq) - F(θp) - <θq - θp, F'(θp)>, a Bregman divergence of the log normalizer F."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot "
            "be computed using Bregman divergences"
        )
    height, tangent = p._tangent()
    theta = q._natural_params
    distance = q._log_normalizer(*theta) - height
    for there, (here, slope) in zip(theta, tangent):
        distance = distance - _sum_rightmost((there - here) * slope, len(q.event_shape))
    return distance


# -- the same family: discrete ---------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    one = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    zero = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    one = flambeau.where(p.probs == 0, 0.0, _infinite_where(q.probs == 0, one))
    zero = flambeau.where(p.probs == 1, 0.0, _infinite_where(q.probs == 1, zero))
    return one + zero


@register_kl(Binomial, Binomial)
def _binomial(p, q):
    n, more = p.total_count, p.total_count - q.total_count
    if (more < 0).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    success, failure = p.logits - q.logits, (-p.probs).log1p() - (-q.probs).log1p()
    return _infinite_where(more > 0, n * (p.probs * success + failure))


@register_kl(Categorical, Categorical)
def _categorical(p, q):
    terms = _infinite_where(q.probs == 0, p.probs * (p.logits - q.logits))
    return flambeau.where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p, q):
    return _categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _geometric(p, q):
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p, q):
    a, b = p.rate, q.rate
    return a * (a.log() - b.log()) - (a - b)


# -- the same family: continuous -------------------------------------------------------------------


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio = (p.scale / q.scale).square()
    shift = ((p.loc - q.loc) / q.scale).square()
    return 0.5 * (ratio + shift - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p, q):
    return _normal(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    outside = (q.low > p.low) | (q.high < p.high)
    inner, outer = p.high - p.low, q.high - q.low
    return _infinite_where(outside, (outer / inner).log())


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return distance / q.scale + ratio * (-distance / p.scale).exp() - ratio.log() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p, q):
    square = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return square.log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p, q):
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    falling = ((1 + ratio).lgamma() - shift).exp()
    return shift - ratio.log() + ratio * EULER + falling - (1 + EULER)


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _gamma(p, q):
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log()
        + (b.lgamma() - a.lgamma())
        + (a - b) * a.digamma()
        + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p, q):
    a, b = p.concentration, q.concentration
    mean_logs = a.digamma() - a.sum(-1, True).digamma()
    normalizers = a.sum(-1).lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return normalizers + ((a - b) * mean_logs).sum(-1)


@register_kl(Beta, Beta)
def _beta(p, q):
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Pareto, Pareto)
def _pareto(p, q):
    ratio = q.alpha / p.alpha
    inside = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return _infinite_where(p.scale < q.scale, inside)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p, q):
    return -p.entropy() - _mean_log_continuous_bernoulli(q, p.mean)


# -- normal vectors --------------------------------------------------------------------------------


def _trace(matrix):
    """tr(X X^T)"""
    return matrix.square().sum((-2, -1))


def _factors(p):
    """Matrices whose squares add up to the covariance of p."""
    if isinstance(p, MultivariateNormal):
        return [p._unbroadcasted_scale_tril]
    return [p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()]


def _trace_of_ratio(p, q):
    """tr(Q^-1 P) for the covariances P and Q."""
    if isinstance(q, MultivariateNormal):
        root = q._unbroadcasted_scale_tril
        return sum(_trace(solve_triangular(root, factor, upper=False)) for factor in _factors(p))
    # Woodbury: Q^-1 = D^-1 - A^T A
    part = solve_triangular(q._capacitance_tril, q._weighed_factor(), upper=False)
    weights = q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1)
    return sum(_trace(weights * factor) - _trace(part @ factor) for factor in _factors(p))


def _normal_vectors(p, q):
    if p.event_shape != q.event_shape:
        low_rank = [isinstance(d, LowRankMultivariateNormal) for d in (p, q)]
        kind = "Low Rank " if all(low_rank) else "(Low Rank) " if any(low_rank) else ""
        raise ValueError(
            f"KL-divergence between two {kind}Multivariate Normals with"
            "                          different event shapes cannot be computed"
        )
    shift = q._squared_length(q.loc - p.loc)
    size = p.event_shape[0]
    log_dets = q._half_log_det() - p._half_log_det()
    return log_dets + 0.5 * (_trace_of_ratio(p, q) + shift - size)


for _p in (MultivariateNormal, LowRankMultivariateNormal):
    for _q in (MultivariateNormal, LowRankMultivariateNormal):
        register_kl(_p, _q)(_normal_vectors)


# -- different families: infinite ------------------------------------------------------------------

# q ends, or begins, where p still has values
_INFINITE: dict[type, list[type]] = {
    Beta: [Pareto],
    ContinuousBernoulli: [Pareto],
    Exponential: [Beta, ContinuousBernoulli, Pareto, Uniform],
    Gamma: [Beta, ContinuousBernoulli, Pareto, Uniform],
    Gumbel: [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform],
    Laplace: [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform],
    Normal: [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform],
    Pareto: [Beta, ContinuousBernoulli, Uniform],
    Poisson: [Bernoulli, Binomial],
}


def _infinity(p, q):
    return flambeau.full_like(p.mean, INF)


for _finite, _others in _INFINITE.items():
    for _other in _others:
        register_kl(_finite, _other)(_infinity)


# -- different families: the mean of log q under p -------------------------------------------------


def _mean_log_normal(q, mean, variance):
    squares = (variance + (mean - q.loc).square()) / (2 * q.scale.square())
    return -squares - q.scale.log() - 0.5 * math.log(2 * math.pi)


def _mean_log_exponential(q, mean):
    return q.rate.log() - q.rate * mean


def _mean_log_gamma(q, mean, mean_log):
    a = q.concentration
    return a * q.rate.log() - a.lgamma() + (a - 1) * mean_log - q.rate * mean


def _mean_log_gumbel(q, mean, mean_falling):
    """mean_falling: the mean of exp(-x / scale)."""
    falling = (q.loc / q.scale).exp() * mean_falling
    return -q.scale.log() - (mean - q.loc) / q.scale - falling


def _mean_log_continuous_bernoulli(q, mean):
    return mean * q.logits + (-q.probs).log1p() + q._cont_bern_log_norm()


def _mean_log_uniform(q):
    return -q.entropy()


def _mean_log(p):
    """The mean of log x."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Gamma):
        return p.concentration.digamma() - p.rate.log()
    if isinstance(p, Exponential):
        return -EULER - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    # a uniform x
    return (p.high.xlogy(p.high) - p.low.xlogy(p.low)) / (p.high - p.low) - 1


def _mean_falling(p, scale):
    """The mean of exp(-x / scale)."""
    if isinstance(p, Exponential):
        return p.rate / (p.rate + 1 / scale)
    if isinstance(p, Gamma):
        return (1 + 1 / (p.rate * scale)).pow(-p.concentration)
    if isinstance(p, Normal):
        return (0.5 * (p.scale / scale).square() - p.loc / scale).exp()
    # a uniform x
    return scale * ((-p.low / scale).exp() - (-p.high / scale).exp()) / (p.high - p.low)


def _register(ps, q, mean_log_q):
    """KL(p || q) = -entropy of p - mean_log_q(p, q), for several classes of p."""
    for p in ps:
        register_kl(p, q)(lambda p, q: -p.entropy() - mean_log_q(p, q))


_register(
    [Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform],
    Normal,
    lambda p, q: _mean_log_normal(q, p.mean, p.variance),
)
_register(
    [Beta, ContinuousBernoulli, Gamma, Pareto],
    Exponential,
    lambda p, q: _mean_log_exponential(q, p.mean),
)
_register([Beta, Exponential, Pareto], Gamma, lambda p, q: _mean_log_gamma(q, p.mean, _mean_log(p)))
_register(
    [Exponential, Gamma, Normal, Uniform],
    Gumbel,
    lambda p, q: _mean_log_gumbel(q, p.mean, _mean_falling(p, q.scale)),
)
_register([Beta], ContinuousBernoulli, lambda p, q: _mean_log_continuous_bernoulli(q, p.mean))
_register([Bernoulli], Poisson, lambda p, q: p.probs * q.rate.log() - q.rate)


@register_kl(Normal, Laplace)
def _normal_laplace(p, q):
    # the mean of |x - q.loc|
    shift = p.loc - q.loc
    z = shift / p.scale
    near = math.sqrt(2 / math.pi) * p.scale * (-0.5 * z.square()).exp()
    distance = near + shift * (math.sqrt(0.5) * z).erf()
    return -p.entropy() + (2 * q.scale).log() + distance / q.scale


# supports that may or may not lie inside each other


@register_kl(Beta, Uniform)
def _beta_uniform(p, q):
    return _infinite_where((q.low > 0) | (q.high < 1), -p.entropy() - _mean_log_uniform(q))


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_uniform(p, q):
    # PyTorch's condition: infinite unless q lies around [0, 1] on the left and inside on the right
    return _infinite_where((q.low >= 0) | (q.high <= 1), -p.entropy() - _mean_log_uniform(q))


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p, q):
    inside = -p.entropy() - _mean_log_continuous_bernoulli(q, p.mean)
    return _infinite_where((p.high >= 1) | (p.low <= 0), inside)


@register_kl(Uniform, Beta)
def _uniform_beta(p, q):
    a, b = q.concentration1, q.concentration0
    mirrored_log = ((1 - p.low).xlogy(1 - p.low) - (1 - p.high).xlogy(1 - p.high)) / (
        p.high - p.low
    ) - 1
    mean_log_q = (a - 1) * _mean_log(p) + (b - 1) * mirrored_log
    mean_log_q = mean_log_q + (a + b).lgamma() - a.lgamma() - b.lgamma()
    return _infinite_where((p.high > 1) | (p.low < 0), -p.entropy() - mean_log_q)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p, q):
    return _infinite_where(p.low < 0, -p.entropy() - _mean_log_exponential(q, p.mean))


@register_kl(Uniform, Gamma)
def _uniform_gamma(p, q):
    return _infinite_where(p.low < 0, -p.entropy() - _mean_log_gamma(q, p.mean, _mean_log(p)))


@register_kl(Uniform, Pareto)
def _uniform_pareto(p, q):
    mean_log_q = q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_log(p)
    return _infinite_where(p.low < q.scale, -p.entropy() - mean_log_q)
