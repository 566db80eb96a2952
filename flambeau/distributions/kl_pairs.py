"""KL(p || q): the formulas."""

import flambeau
from flambeau.nn import functional as F

from .categorical import Categorical, OneHotCategorical
from .composition import Independent
from .counts import Bernoulli
from .kl import kl_divergence, register_kl
from .location_scale import Normal, Uniform
from .utils import _sum_rightmost

INF = float("inf")


@register_kl(Bernoulli, Bernoulli)
def _bernoulli_bernoulli(p, q):
    one = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    zero = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    one = flambeau.where(p.probs == 0, 0.0, flambeau.where(q.probs == 0, INF, one))
    zero = flambeau.where(p.probs == 1, 0.0, flambeau.where(q.probs == 1, INF, zero))
    return one + zero


@register_kl(Categorical, Categorical)
def _categorical_categorical(p, q):
    terms = p.probs * (p.logits - q.logits)
    terms = flambeau.where(p.probs == 0, 0.0, flambeau.where(q.probs == 0, INF, terms))
    return terms.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_one_hot(p, q):
    return _categorical_categorical(p._categorical, q._categorical)


@register_kl(Independent, Independent)
def _independent_independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(Normal, Normal)
def _normal_normal(p, q):
    ratio = (p.scale / q.scale).square()
    shift = ((p.loc - q.loc) / q.scale).square()
    return 0.5 * (ratio + shift - 1 - ratio.log())


@register_kl(Uniform, Uniform)
def _uniform_uniform(p, q):
    outside = (q.low > p.low) | (q.high < p.high)
    return flambeau.where(outside, INF, ((q.high - q.low) / (p.high - p.low)).log())
