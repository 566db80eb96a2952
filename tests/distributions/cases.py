"""Distributions to try: how to make them, and values to ask them about.

`CASES` maps a name to a function of the library (`torch` or flambeau) that gives a distribution, so
that one table drives the comparison with PyTorch, the recorded numbers and the checks that need
neither. Parameters are made with `p`, which gives tensors that want gradients.
"""

from typing import NamedTuple


class Parameters:
    """Makes tensors of one library and remembers them, to ask for their gradients later."""

    def __init__(self, library, dtype="float64", requires_grad=True):
        self.library, self.dtype = library, getattr(library, dtype)
        self.requires_grad, self.made = requires_grad, []

    def __call__(self, values):
        tensor = self.library.tensor(values, dtype=self.dtype)
        if self.requires_grad:
            tensor.requires_grad_()
        self.made.append(tensor)
        return tensor


class Case(NamedTuple):
    make: object  # (distributions, p) -> distribution
    value: object = None  # nested list; None: values are drawn


def case(make, value=None):
    return Case(make, value)


COVARIANCE = [[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.5]]
ROOT = [[1.2, 0.0, 0.0], [0.3, 0.9, 0.0], [-0.4, 0.2, 0.7]]
PROBS = [[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]]
LOGITS = [[-0.5, 1.5, 0.2], [0.0, 0.3, -2.0]]

CASES = {
    "Bernoulli": case(lambda d, p: d.Bernoulli(p([0.1, 0.5, 0.8])), [0.0, 1.0, 1.0]),
    "Bernoulli logits": case(lambda d, p: d.Bernoulli(logits=p([-1.0, 0.0, 3.0])), [0.0, 1.0, 1.0]),
    "Beta": case(lambda d, p: d.Beta(p([0.5, 2.0, 30.0]), p([0.7, 1.0, 20.0])), [0.2, 0.5, 0.6]),
    "Binomial": case(lambda d, p: d.Binomial(10, p([0.1, 0.5, 0.8])), [0.0, 4.0, 10.0]),
    "Binomial logits": case(lambda d, p: d.Binomial(7, logits=p([[-2.0], [1.0]])), [[3.0], [4.0]]),
    "Categorical": case(lambda d, p: d.Categorical(p(PROBS)), [2, 0]),
    "Categorical logits": case(lambda d, p: d.Categorical(logits=p(LOGITS)), [1, 1]),
    "Cauchy": case(lambda d, p: d.Cauchy(p([0.0, 3.0]), p([1.0, 0.2])), [1.5, 2.9]),
    "Chi2": case(lambda d, p: d.Chi2(p([0.5, 3.0, 11.0])), [0.3, 2.0, 14.0]),
    "ContinuousBernoulli": case(
        lambda d, p: d.ContinuousBernoulli(p([0.1, 0.4995, 0.9])), [0.2, 0.7, 1.0]
    ),
    "ContinuousBernoulli logits": case(
        lambda d, p: d.ContinuousBernoulli(logits=p([-2.0, 0.0, 0.7])), [0.0, 0.7, 0.4]
    ),
    "Dirichlet": case(
        lambda d, p: d.Dirichlet(p([[0.5, 1.5, 3.0], [2.0, 2.0, 8.0]])),
        [[0.2, 0.3, 0.5], [0.1, 0.6, 0.3]],
    ),
    "Exponential": case(lambda d, p: d.Exponential(p([0.3, 2.0])), [1.0, 0.7]),
    "FisherSnedecor": case(
        lambda d, p: d.FisherSnedecor(p([1.0, 5.0, 3.0]), p([2.0, 9.0, 4.5])), [0.4, 1.3, 0.9]
    ),
    "Gamma": case(lambda d, p: d.Gamma(p([0.3, 1.0, 7.5]), p([1.0, 0.5, 2.0])), [0.1, 1.0, 4.0]),
    "GeneralizedPareto": case(
        lambda d, p: d.GeneralizedPareto(
            p([0.0, 1.0, 0.5]), p([1.0, 2.0, 0.5]), p([0.3, -0.5, 1.2])
        ),
        [0.5, 2.0, 3.0],
    ),
    "GeneralizedPareto exponential": case(
        lambda d, p: d.GeneralizedPareto(p([0.0]), p([1.5]), 0.0), [0.5]
    ),
    "Geometric": case(lambda d, p: d.Geometric(p([0.1, 0.6, 1.0])), [4.0, 1.0, 0.0]),
    "Geometric logits": case(lambda d, p: d.Geometric(logits=p([-1.0, 0.6])), [4.0, 1.0]),
    "Gumbel": case(lambda d, p: d.Gumbel(p([0.0, 1.0]), p([1.0, 2.5])), [0.3, 4.0]),
    "HalfCauchy": case(lambda d, p: d.HalfCauchy(p([1.0, 2.5])), [0.3, 4.0]),
    "HalfNormal": case(lambda d, p: d.HalfNormal(p([1.0, 2.5])), [0.3, 4.0]),
    "Independent": case(
        lambda d, p: d.Independent(d.Normal(p([[0.0, 1.0], [2.0, 3.0]]), p([[1.0], [2.0]])), 1),
        [[0.5, 0.5], [1.0, -1.0]],
    ),
    "InverseGamma": case(
        lambda d, p: d.InverseGamma(p([0.8, 1.7, 3.5]), p([1.0, 0.5, 2.0])), [0.1, 1.0, 4.0]
    ),
    "Kumaraswamy": case(
        lambda d, p: d.Kumaraswamy(p([0.5, 1.5, 3.0]), p([1.2, 0.8, 2.0])), [0.1, 0.5, 0.8]
    ),
    "LKJCholesky": case(lambda d, p: d.LKJCholesky(3, p([0.7, 2.0]))),
    "Laplace": case(lambda d, p: d.Laplace(p([0.0, 3.0]), p([1.0, 0.2])), [1.5, 2.9]),
    "LogNormal": case(lambda d, p: d.LogNormal(p([0.0, 0.5]), p([1.0, 0.2])), [1.5, 1.9]),
    "LogisticNormal": case(
        lambda d, p: d.LogisticNormal(p([[0.0, 0.5], [1.0, -1.0]]), p([[1.0, 0.2], [0.7, 0.5]])),
        [[0.2, 0.3, 0.5], [0.1, 0.6, 0.3]],
    ),
    "LowRankMultivariateNormal": case(
        lambda d, p: d.LowRankMultivariateNormal(
            p([0.0, 1.0, -1.0]), p([[1.0, 0.3], [-0.5, 0.8], [0.2, 0.1]]), p([0.5, 1.0, 2.0])
        ),
        [0.3, 0.2, -0.1],
    ),
    "LowRankMultivariateNormal batch": case(
        lambda d, p: d.LowRankMultivariateNormal(
            p([[0.0, 1.0], [2.0, 3.0]]), p([[1.0], [-0.5]]), p([[0.5, 1.0], [0.3, 0.2]])
        ),
        [[0.3, 0.2], [1.0, 4.0]],
    ),
    "MixtureSameFamily": case(
        lambda d, p: d.MixtureSameFamily(
            d.Categorical(p([0.2, 0.5, 0.3])), d.Normal(p([-1.0, 0.0, 2.0]), p([0.5, 1.0, 0.3]))
        ),
        0.4,
    ),
    "MixtureSameFamily vectors": case(
        lambda d, p: d.MixtureSameFamily(
            d.Categorical(logits=p([[0.2, 0.5], [0.0, 1.0]])),
            d.Independent(
                d.Normal(p([[[0.0, 1, 2], [1, 1, 1]], [[2, 0, 1], [3, 1, 0.5]]]), p([0.5, 1, 2])), 1
            ),
        ),
        [[0.1, 0.2, 0.3], [1.0, 0.0, -1.0]],
    ),
    "Multinomial": case(
        lambda d, p: d.Multinomial(5, p(PROBS)), [[1.0, 1.0, 3.0], [0.0, 5.0, 0.0]]
    ),
    "Multinomial logits": case(
        lambda d, p: d.Multinomial(4, logits=p(LOGITS)), [[1.0, 0.0, 3.0], [2.0, 2.0, 0.0]]
    ),
    "MultivariateNormal covariance": case(
        lambda d, p: d.MultivariateNormal(p([0.0, 1.0, 2.0]), p(COVARIANCE)), [0.5, 0.5, 0.5]
    ),
    "MultivariateNormal precision": case(
        lambda d, p: d.MultivariateNormal(
            p([[0.0, 1.0, 2.0], [1.0, 1.0, 1.0]]), precision_matrix=p(COVARIANCE)
        ),
        [[0.5, 0.5, 0.5], [1.0, 2.0, 3.0]],
    ),
    "MultivariateNormal root": case(
        lambda d, p: d.MultivariateNormal(
            p([0.0, 1.0, 2.0]), scale_tril=p([ROOT, [[1.0, 0, 0], [0, 2.0, 0], [0, 0, 3.0]]])
        ),
        [[0.5, 0.5, 0.5], [1.0, 2.0, 3.0]],
    ),
    "NegativeBinomial": case(
        lambda d, p: d.NegativeBinomial(p([3.0, 5.5]), p([0.3, 0.8])), [2.0, 20.0]
    ),
    "NegativeBinomial logits": case(
        lambda d, p: d.NegativeBinomial(4, logits=p([-1.0, 0.5])), [2.0, 0.0]
    ),
    "Normal": case(lambda d, p: d.Normal(p([0.0, 3.0]), p([1.0, 0.2])), [1.5, 2.9]),
    "Normal numbers": case(lambda d, p: d.Normal(0.5, 2.0), 1.5),
    "OneHotCategorical": case(
        lambda d, p: d.OneHotCategorical(p(PROBS)), [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    ),
    "OneHotCategoricalStraightThrough": case(
        lambda d, p: d.OneHotCategoricalStraightThrough(logits=p(LOGITS)),
        [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]],
    ),
    "Pareto": case(lambda d, p: d.Pareto(p([1.0, 0.5, 2.0]), p([0.8, 1.5, 4.0])), [1.5, 0.7, 9.0]),
    "Poisson": case(lambda d, p: d.Poisson(p([0.5, 4.0, 50.0])), [0.0, 3.0, 47.0]),
    "RelaxedBernoulli": case(
        lambda d, p: d.RelaxedBernoulli(p([0.7]), p([0.1, 0.5, 0.8])), [0.2, 0.9, 0.5]
    ),
    "RelaxedOneHotCategorical": case(
        lambda d, p: d.RelaxedOneHotCategorical(p(0.7), logits=p(LOGITS)),
        [[0.2, 0.3, 0.5], [0.1, 0.6, 0.3]],
    ),
    "StudentT": case(
        lambda d, p: d.StudentT(p([0.9, 1.5, 6.0]), p([0.0, 1.0, 2.0]), p([1.0, 0.5, 3.0])),
        [0.3, 2.0, -4.0],
    ),
    "TransformedDistribution": case(
        lambda d, p: d.TransformedDistribution(
            d.Normal(p([[0.0, 1.0]]), p([1.0, 0.5])),
            [d.TanhTransform(), d.AffineTransform(p([[0.5], [1.0]]), 2.0)],
        ),
        [[0.1, 0.7], [1.0, 2.0]],
    ),
    "TransformedDistribution falling": case(
        lambda d, p: d.TransformedDistribution(
            d.Uniform(p([0.0, 0.0]), p([1.0, 1.0])),
            [d.SigmoidTransform().inv, d.AffineTransform(1.0, p([-2.0, 3.0]))],
        ),
        [0.1, 0.7],
    ),
    "Uniform": case(lambda d, p: d.Uniform(p([0.0, -1.0]), p([1.0, 2.5])), [0.3, 2.0]),
    "VonMises": case(
        lambda d, p: d.VonMises(p([0.0, 1.0, 3.0]), p([0.5, 4.0, 30.0])), [0.1, 2.0, 3.1]
    ),
    "Weibull": case(lambda d, p: d.Weibull(p([1.0, 2.0]), p([0.7, 3.0])), [0.3, 2.0]),
    "Wishart": case(lambda d, p: d.Wishart(p([4.0, 6.0]), p(COVARIANCE))),
    "Wishart root": case(lambda d, p: d.Wishart(p(5.5), scale_tril=p(ROOT))),
}  # fmt: skip


# -- everything one can ask ------------------------------------------------------------------------

SEED = 7
QUESTIONS = {
    "mean": lambda d, v: d.mean,
    "mode": lambda d, v: d.mode,
    "variance": lambda d, v: d.variance,
    "stddev": lambda d, v: d.stddev,
    "sample": lambda d, v: d.sample((3,)),
    "rsample": lambda d, v: d.rsample((2,)),
    "log_prob": lambda d, v: d.log_prob(v),
    "log_prob of samples": lambda d, v: d.log_prob(d.sample((2,))),
    "cdf": lambda d, v: d.cdf(v),
    "icdf": lambda d, v: d.icdf(v * 0 + 0.3),
    "entropy": lambda d, v: d.entropy(),
    "perplexity": lambda d, v: d.perplexity(),
    "enumerate_support": lambda d, v: d.enumerate_support(),
    "enumerate_support of one": lambda d, v: d.enumerate_support(expand=False),
    "expand": lambda d, v: d.expand((2, *d.batch_shape)).sample(),
    "expand log_prob": lambda d, v: d.expand((2, *d.batch_shape)).log_prob(v),
    "expand entropy": lambda d, v: d.expand((2, *d.batch_shape)).entropy(),
}
DIFFERENTIATED = "mean variance rsample log_prob cdf icdf entropy".split()


def make(name, library, dtype="float64", requires_grad=True):
    """The distribution of a case, its parameters and its value."""
    p = Parameters(library, dtype, requires_grad)
    distribution = CASES[name].make(library.distributions, p)
    value = CASES[name].value
    if value is None:
        library.manual_seed(SEED)
        value = quietly(distribution.sample)
    else:
        value = library.tensor(value, dtype=None if name.startswith("Categorical") else p.dtype)
    return distribution, p.made, value


def answers(name, library, dtype="float64"):
    """What a distribution answers: lists of numbers, text, or what it raised."""
    distribution, made, value = make(name, library, dtype)
    found = {
        "repr": repr(distribution),
        "expanded repr": repr(distribution.expand((2, *distribution.batch_shape))),
        "shapes": [list(distribution.batch_shape), list(distribution.event_shape)],
        "abilities": [distribution.has_rsample, distribution.has_enumerate_support],
        "support": str(distribution.support),
        "constraints": str(distribution.arg_constraints),
    }
    for question, ask in QUESTIONS.items():
        library.manual_seed(SEED)
        try:
            answer = quietly(lambda: ask(distribution, value))  # noqa: B023
        except (NotImplementedError, ValueError) as error:
            found[question] = type(error).__name__
            continue
        except (RuntimeError, AttributeError) as error:
            found[question] = f"stumbled: {error}"
            continue
        found[question] = answer.detach().tolist()
        found[f"{question} is"] = f"{answer.dtype} {list(answer.shape)} {answer.requires_grad}"
        if question in DIFFERENTIATED and answer.requires_grad:
            found[f"{question} gradient"] = gradient(name, library, answer, made)
    return found


def quietly(function):
    """PyTorch's Wishart calls every sample singular."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function()


def gradient(name, library, answer, made):
    """Gradients of a weighed sum with respect to the parameters."""
    weights = (1.0 + library.arange(answer.numel(), dtype=answer.dtype)).cos().view(answer.shape)
    try:
        total = (answer * weights).sum()
        grads = library.autograd.grad(total, made, allow_unused=True, retain_graph=True)
    except RuntimeError as error:
        return f"stumbled: {error}"
    if name == "Wishart root":  # nobody reads the upper part of a root; PyTorch's gradient is not 0
        grads = [grads[0], grads[1].tril()]
    return [None if g is None else g.tolist() for g in grads]
