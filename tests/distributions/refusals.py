"""What distributions, constraints and transforms refuse: each entry is called and must raise.

`d` is the module of distributions, `t` the library. The same table is compared with PyTorch and
with what PyTorch was recorded to say.
"""

REFUSALS = {
    "negative scale": lambda d, t: d.Normal(0.0, -1.0),
    "nan loc": lambda d, t: d.Normal(t.tensor([0.0, float("nan")]), 1.0),
    "text parameter": lambda d, t: d.Normal("0", 1.0),
    "both probs and logits": lambda d, t: d.Bernoulli(0.5, 0.5),
    "neither probs nor logits": lambda d, t: d.Categorical(),
    "no odds": lambda d, t: d.Geometric(),
    "probability above 1": lambda d, t: d.Bernoulli(1.5),
    "probabilities of a number": lambda d, t: d.Categorical(t.tensor(0.5)),
    "logits of a number": lambda d, t: d.Categorical(logits=t.tensor(0.5)),
    "negative weights": lambda d, t: d.Categorical(t.tensor([-1.0, 2.0])),
    "logits with nan": lambda d, t: d.Categorical(logits=t.tensor([float("nan"), 2.0])),
    "class out of range": lambda d, t: d.Categorical(t.ones(3)).log_prob(t.tensor(3)),
    "half a class": lambda d, t: d.Categorical(t.ones(3)).log_prob(t.tensor(0.5)),
    "shape that does not broadcast": lambda d, t: d.Normal(t.zeros(3), 1.0).log_prob(t.zeros(2)),
    "event of the wrong size": lambda d, t: d.Dirichlet(t.ones(3)).log_prob(t.ones(2) / 2),
    "value that is no tensor": lambda d, t: d.Normal(0.0, 1.0).log_prob(0.5),
    "value outside the support": lambda d, t: d.Exponential(1.0).log_prob(t.tensor(-1.0)),
    "outside the unit interval": lambda d, t: d.Beta(1.0, 1.0).log_prob(t.tensor(1.5)),
    "fraction for a count": lambda d, t: d.Poisson(3.0).log_prob(t.tensor(0.5)),
    "not one-hot": lambda d, t: d.OneHotCategorical(t.ones(2)).log_prob(t.tensor([1.0, 1.0])),
    "too many counts": lambda d, t: d.Multinomial(2, t.ones(2)).log_prob(t.tensor([2.0, 1.0])),
    "Uniform the wrong way round": lambda d, t: d.Uniform(1.0, 0.0),
    "outside Uniform": lambda d, t: d.Uniform(0.0, 1.0).cdf(t.tensor(2.0)),
    "Pareto below scale": lambda d, t: d.Pareto(1.0, 2.0).log_prob(t.tensor(0.5)),
    "Geometric with probability 0": lambda d, t: d.Geometric(t.tensor([0.0, 0.5])),
    "NegativeBinomial with probability 1": lambda d, t: d.NegativeBinomial(2, t.tensor(1.0)),
    "fraction of trials": lambda d, t: d.Binomial(t.tensor([1.5]), t.tensor([0.5])),
    "counts that differ": lambda d, t: d.Binomial(t.tensor([1, 2]), t.tensor(0.5)).entropy(),
    "support of counts that differ": lambda d, t: (
        d.Binomial(t.tensor([1, 2]), t.tensor(0.5)).enumerate_support()
    ),
    "Multinomial with a tensor": lambda d, t: d.Multinomial(t.tensor([2, 3]), t.ones(2)),
    "ContinuousBernoulli outside": lambda d, t: (
        d.ContinuousBernoulli(t.tensor([1.5]), validate_args=True)
    ),
    "Dirichlet of a number": lambda d, t: d.Dirichlet(t.tensor(1.0)),
    "Dirichlet with 0": lambda d, t: d.Dirichlet(t.tensor([1.0, 0.0])),
    "values off the simplex": lambda d, t: d.Dirichlet(t.ones(2)).log_prob(t.tensor([0.5, 0.6])),
    "Independent of too much": lambda d, t: d.Independent(d.Normal(t.zeros(2), 1.0), 2),
    "support of an Independent": lambda d, t: (
        d.Independent(d.Bernoulli(t.ones(2) / 2), 1).enumerate_support()
    ),
    "mode that is not there": lambda d, t: d.Multinomial(2, t.ones(2)).mode,
    "mean that is not there": lambda d, t: d.LogisticNormal(t.zeros(2), t.ones(2)).mean,
    "cdf that is not there": lambda d, t: d.Poisson(2.0).cdf(t.tensor(1.0)),
    "rsample that is not there": lambda d, t: d.Poisson(2.0).rsample(),
    "expand to less": lambda d, t: d.Normal(t.zeros(2), 1.0).expand((3,)),
    "shape of a number": lambda d, t: d.Normal(0.0, 1.0).sample(3),
    "default that is no bool": lambda d, t: d.Distribution.set_default_validate_args("yes"),
    "MultivariateNormal of a number": lambda d, t: (
        d.MultivariateNormal(t.tensor(0.0), t.eye(1))
    ),
    "two matrices": lambda d, t: d.MultivariateNormal(t.zeros(2), t.eye(2), t.eye(2)),
    "no matrix": lambda d, t: d.MultivariateNormal(t.zeros(2)),
    "covariance of a vector": lambda d, t: d.MultivariateNormal(t.zeros(2), t.ones(2)),
    "root of a vector": lambda d, t: d.MultivariateNormal(t.zeros(2), scale_tril=t.ones(2)),
    "covariance that is not symmetric": lambda d, t: (
        d.MultivariateNormal(t.zeros(2), t.tensor([[1.0, 0.5], [0.0, 1.0]]))
    ),
    "covariance that is not definite": lambda d, t: (
        d.MultivariateNormal(t.zeros(2), t.tensor([[1.0, 2.0], [2.0, 1.0]]))
    ),
    "root with an upper part": lambda d, t: (
        d.MultivariateNormal(t.zeros(2), scale_tril=t.ones(2, 2))
    ),
    "low rank with a vector": lambda d, t: (
        d.LowRankMultivariateNormal(t.zeros(2), t.ones(2), t.ones(2))
    ),
    "factor of the wrong size": lambda d, t: (
        d.LowRankMultivariateNormal(t.zeros(2), t.ones(3, 1), t.ones(2))
    ),
    "diagonal of the wrong size": lambda d, t: (
        d.LowRankMultivariateNormal(t.zeros(2), t.ones(2, 1), t.ones(3))
    ),
    "batches that do not fit": lambda d, t: (
        d.LowRankMultivariateNormal(t.zeros(3, 2), t.ones(2, 2, 1), t.ones(2))
    ),
    "low rank of a number": lambda d, t: (
        d.LowRankMultivariateNormal(t.tensor(0.0), t.ones(2, 1), t.ones(2))
    ),
    "Wishart with few degrees": lambda d, t: d.Wishart(t.tensor(1.0), t.eye(3)),
    "Wishart without a matrix": lambda d, t: d.Wishart(t.tensor(4.0)),
    "Wishart of a vector": lambda d, t: d.Wishart(t.tensor(4.0), t.ones(2)),
    "LKJ of size 1": lambda d, t: d.LKJCholesky(1),
    "LKJ of no root": lambda d, t: d.LKJCholesky(2).log_prob(t.ones(2, 2)),
    "mixture of no Categorical": lambda d, t: (
        d.MixtureSameFamily(d.Normal(0.0, 1.0), d.Normal(t.zeros(2), 1.0))
    ),
    "mixture of no distribution": lambda d, t: d.MixtureSameFamily(d.Categorical(t.ones(2)), 1.0),
    "mixture with other batches": lambda d, t: (
        d.MixtureSameFamily(d.Categorical(t.ones(3, 2)), d.Normal(t.zeros(4, 2), 1.0))
    ),
    "mixture with other components": lambda d, t: (
        d.MixtureSameFamily(d.Categorical(t.ones(2)), d.Normal(t.zeros(3), 1.0))
    ),
    "transforms that are none": lambda d, t: d.TransformedDistribution(d.Normal(0.0, 1.0), [1]),
    "transform that is none": lambda d, t: d.TransformedDistribution(d.Normal(0.0, 1.0), 1),
    "base without dimensions": lambda d, t: (
        d.TransformedDistribution(d.Normal(0.0, 1.0), d.StickBreakingTransform())
    ),
    "divergence that is not there": lambda d, t: (
        d.kl_divergence(d.Normal(0.0, 1.0), d.Poisson(1.0))
    ),
    "divergence of Binomials": lambda d, t: (
        d.kl_divergence(d.Binomial(2, t.tensor(0.5)), d.Binomial(3, t.tensor(0.5)))
    ),
    "divergence of Independents": lambda d, t: (
        d.kl_divergence(
            d.Independent(d.Normal(t.zeros(2, 2), 1.0), 1),
            d.Independent(d.Normal(t.zeros(2, 2), 1.0), 2),
        )
    ),
    "divergence of sizes": lambda d, t: (
        d.kl_divergence(
            d.MultivariateNormal(t.zeros(2), t.eye(2)), d.MultivariateNormal(t.zeros(3), t.eye(3))
        )
    ),
    "biject_to without transform": lambda d, t: d.biject_to(d.constraints.boolean),
    "transform_to without transform": lambda d, t: d.transform_to(d.constraints.one_hot),
    "register something else": lambda d, t: d.biject_to.register(3, lambda c: None),
    "check of a dependent": lambda d, t: d.constraints.dependent.check(t.ones(1)),
    "event_dim of a dependent": lambda d, t: d.constraints.dependent.event_dim,
    "is_discrete of a dependent": lambda d, t: d.constraints.dependent.is_discrete,
    "independent of nothing": lambda d, t: d.constraints.independent(1.0, 1),
    "independent with -1": lambda d, t: d.constraints.independent(d.constraints.real, -1),
    "independent with 1.0": lambda d, t: d.constraints.independent(d.constraints.real, 1.0),
    "too few dimensions": lambda d, t: (
        d.constraints.independent(d.constraints.real, 2).check(t.ones(3))
    ),
    "cat of nothing": lambda d, t: d.constraints.cat([1]),
    "cat with lengths": lambda d, t: d.constraints.cat([d.constraints.real], lengths=[1, 2]),
    "cat out of range": lambda d, t: (
        d.constraints.cat([d.constraints.real], dim=1).check(t.ones(1))
    ),
    "stack out of range": lambda d, t: (
        d.constraints.stack([d.constraints.real], dim=1).check(t.ones(1))
    ),
    "cache of 2": lambda d, t: d.ExpTransform(cache_size=2),
    "event_dim that changes": lambda d, t: d.CorrCholeskyTransform().event_dim,
    "stretch of softmax": lambda d, t: (
        d.SoftmaxTransform().log_abs_det_jacobian(t.ones(2), t.ones(2))
    ),
    "sign of sticks": lambda d, t: d.StickBreakingTransform().sign,
    "reshape to more": lambda d, t: d.ReshapeTransform((2,), (3,)),
    "reshape of less": lambda d, t: d.ReshapeTransform((2, 2), (4,)).forward_shape(t.Size((4,))),
    "reshape of another": lambda d, t: (
        d.ReshapeTransform((2, 2), (4,)).forward_shape(t.Size((4, 2)))
    ),
    "reshape back of another": lambda d, t: (
        d.ReshapeTransform((2, 2), (4,)).inverse_shape(t.Size((4, 2)))
    ),
    "Independent transform of a number": lambda d, t: (
        d.IndependentTransform(d.ExpTransform(), 1)(t.tensor(1.0))
    ),
    "sticks of a number": lambda d, t: d.StickBreakingTransform().forward_shape(t.Size(())),
    "correlations of 2 numbers": lambda d, t: d.CorrCholeskyTransform().forward_shape(t.Size((2,))),
    "correlations of no square": lambda d, t: (
        d.CorrCholeskyTransform().inverse_shape(t.Size((2, 3)))
    ),
    "cat of no transforms": lambda d, t: d.CatTransform([1]),
    "cat of another length": lambda d, t: d.CatTransform([d.ExpTransform()])(t.ones(2)),
    "cat along no dimension": lambda d, t: d.CatTransform([d.ExpTransform()], dim=1)(t.ones(1)),
    "stack of another length": lambda d, t: d.StackTransform([d.ExpTransform()])(t.ones(2)),
    "stack back of another length": lambda d, t: (
        d.StackTransform([d.ExpTransform()]).inv(t.ones(2))
    ),
    "triangle outside": lambda d, t: d.utils.tril_matrix_to_vec(t.ones(2, 2), 2),
    "triangle of 2": lambda d, t: d.utils.vec_to_tril_matrix(t.ones(2)),
    "broadcast of text": lambda d, t: d.utils.broadcast_all("a", 1.0),
}  # fmt: skip


def said(action, d, t):
    """Type and first line of what is raised, as both libraries would say it."""
    import re

    try:
        result = action(d, t)
    except Exception as error:
        text = str(error).partition("\n")[0]
        text = re.sub(r"<class '[\w.]+\.(\w+)'>", r"<class '\1'>", text)
        return [type(error).__name__, re.sub(r" +", " ", text)]
    return ["nothing", str(type(result).__name__)]
