"""Pairs for KL(p || q): a few members of every family that has divergences."""

MEMBERS = {
    "Bernoulli": [
        lambda d, p: d.Bernoulli(p([[0.1, 0.5], [0.0, 1.0]])),
        lambda d, p: d.Bernoulli(p([[0.3, 0.0], [0.2, 1.0]])),
    ],
    "Binomial": [
        lambda d, p: d.Binomial(5, p([0.1, 0.5])),
        lambda d, p: d.Binomial(5, p([0.3, 0.9])),
        lambda d, p: d.Binomial(4, p([0.3, 0.9])),
    ],
    "Beta": [
        lambda d, p: d.Beta(p([0.5, 2.0]), p([1.5, 3.0])),
        lambda d, p: d.Beta(p([1.5, 2.2]), p([0.5, 3.0])),
    ],
    "Categorical": [
        lambda d, p: d.Categorical(p([[0.1, 0.5, 0.4], [0.0, 0.5, 0.5]])),
        lambda d, p: d.Categorical(p([[0.3, 0.5, 0.2], [0.5, 0.5, 0.0]])),
    ],
    "OneHotCategorical": [
        lambda d, p: d.OneHotCategorical(p([[0.1, 0.5, 0.4], [0.0, 0.5, 0.5]])),
        lambda d, p: d.OneHotCategorical(logits=p([[0.3, 0.5, 0.2], [0.5, 0.5, 0.0]])),
    ],
    "Cauchy": [
        lambda d, p: d.Cauchy(p([0.1, 0.5]), p([1.0, 2.0])),
        lambda d, p: d.Cauchy(p([0.0, 0.9]), p([2.0, 2.0])),
    ],
    "Chi2": [lambda d, p: d.Chi2(p([0.7, 2.5])), lambda d, p: d.Chi2(p([1.1, 5.0]))],
    "ContinuousBernoulli": [
        lambda d, p: d.ContinuousBernoulli(p([0.1, 0.4997])),
        lambda d, p: d.ContinuousBernoulli(p([0.6, 0.8])),
    ],
    "Dirichlet": [
        lambda d, p: d.Dirichlet(p([[0.1, 0.5, 3.0], [1.0, 1.0, 2.0]])),
        lambda d, p: d.Dirichlet(p([1.1, 2.5, 3.0])),
    ],
    "Exponential": [
        lambda d, p: d.Exponential(p([0.1, 0.5])),
        lambda d, p: d.Exponential(p([1.1, 2.5])),
    ],
    "Gamma": [
        lambda d, p: d.Gamma(p([0.1, 2.5]), p([1.0, 3.0])),
        lambda d, p: d.Gamma(p([1.1, 2.5]), p([2.0, 0.3])),
    ],
    "Geometric": [
        lambda d, p: d.Geometric(p([0.1, 0.5])),
        lambda d, p: d.Geometric(p([0.3, 0.9])),
    ],
    "Gumbel": [
        lambda d, p: d.Gumbel(p([0.1, 2.5]), p([1.0, 3.0])),
        lambda d, p: d.Gumbel(p([1.1, 2.5]), p([2.0, 1.3])),
    ],
    "HalfNormal": [
        lambda d, p: d.HalfNormal(p([0.1, 0.5])),
        lambda d, p: d.HalfNormal(p([0.3, 0.9])),
    ],
    "Independent": [
        lambda d, p: d.Independent(d.Normal(p([[0.1, 0.2], [0.3, 0.4]]), p([1.0, 2.0])), 1),
        lambda d, p: d.Independent(d.Normal(p([[1.1, 0.2], [0.1, 0.2]]), p([2.0, 0.5])), 1),
    ],
    "Laplace": [
        lambda d, p: d.Laplace(p([0.1, 2.5]), p([1.0, 3.0])),
        lambda d, p: d.Laplace(p([1.1, 2.5]), p([2.0, 1.3])),
    ],
    "LogNormal": [
        lambda d, p: d.LogNormal(p([0.1, 2.5]), p([1.0, 3.0])),
        lambda d, p: d.LogNormal(p([1.1, 2.5]), p([2.0, 1.3])),
    ],
    "LowRankMultivariateNormal": [
        lambda d, p: d.LowRankMultivariateNormal(p([0.1, 0.2]), p([[2.0], [0.3]]), p([1.0, 0.5])),
        lambda d, p: d.LowRankMultivariateNormal(
            p([[1.0, 0.2], [3.0, 4.0]]), p([[1.0], [-0.3]]), p([[0.4, 0.5], [1.0, 2.0]])
        ),
    ],
    "MultivariateNormal": [
        lambda d, p: d.MultivariateNormal(p([0.1, 0.2]), p([[2.0, 0.3], [0.3, 1.0]])),
        lambda d, p: d.MultivariateNormal(
            p([[1.0, 0.2], [0.0, 1.0]]), scale_tril=p([[1.0, 0.0], [0.3, 1.0]])
        ),
    ],
    "Normal": [
        lambda d, p: d.Normal(p([0.1, 2.5]), p([1.0, 3.0])),
        lambda d, p: d.Normal(p([1.1, 2.5]), p([2.0, 1.3])),
    ],
    "Pareto": [
        lambda d, p: d.Pareto(p([0.1, 2.5]), p([0.9, 3.0])),
        lambda d, p: d.Pareto(p([1.1, 2.5]), p([2.0, 1.3])),
        lambda d, p: d.Pareto(p([0.05, 0.05]), p([2.0, 1.3])),
    ],
    "Poisson": [lambda d, p: d.Poisson(p([0.1, 2.5])), lambda d, p: d.Poisson(p([1.1, 2.5]))],
    "Uniform": [
        lambda d, p: d.Uniform(p([0.1, 0.2]), p([0.9, 0.8])),
        lambda d, p: d.Uniform(p([-0.5, -0.5]), p([2.0, 0.5])),
        lambda d, p: d.Uniform(p([0.0, 0.0]), p([1.0, 1.0])),
    ],
    "Wishart": [
        lambda d, p: d.Wishart(p([4.0, 5.0]), p([[2.0, 0.3], [0.3, 1.0]])),
        lambda d, p: d.Wishart(p([3.0, 4.5]), p([[1.0, 0.3], [0.3, 1.0]])),
    ],
}


def divergences(p_name, q_name, library, parameters):
    """KL of all members of two families, with gradients where all are finite."""
    found = []
    for make_p in MEMBERS[p_name]:
        for make_q in MEMBERS[q_name]:
            params = parameters(library)
            p, q = (make(library.distributions, params) for make in (make_p, make_q))
            try:
                value = library.distributions.kl_divergence(p, q)
            except (NotImplementedError, RuntimeError) as error:
                found.append(type(error).__name__)
                continue
            found.append({"value": value.detach().tolist()})
            if value.requires_grad and value.isfinite().all():
                grads = library.autograd.grad(value.sum(), params.made, allow_unused=True)
                # a parameter that does not matter has no gradient, or one of 0
                zeros = [library.zeros_like(x) for x in params.made]
                grads = [z if g is None else g for g, z in zip(grads, zeros)]
                found[-1]["gradients"] = [g.tolist() for g in grads]
    return found
