"""Every distribution: everything one can ask it, live against PyTorch and against its record.

The cases and the questions are in `cases.py`, refusals in `refusals.py`. The first half compares,
the second half needs no reference.
"""

import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest

import flambeau
import flambeau.distributions as ours
from flambeau.distributions import constraints
from tests.distributions.cases import CASES, answers, make
from tests.distributions.refusals import REFUSALS, said

RECORD = json.loads((Path(__file__).parents[1] / "golden/distributions.json").read_text())

# samples that are no more than what the generator gives: equal to the last bit
EXACT = {"Bernoulli", "Bernoulli logits", "Binomial", "Binomial logits", "Categorical",
         "Categorical logits", "Geometric", "Multinomial", "Multinomial logits",
         "NegativeBinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough", "Poisson",
         "Uniform"}  # fmt: skip
# PyTorch approximates how gamma and Dirichlet samples move; ours is exact
MOVED_BY_GAMMAS = {"Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma", "InverseGamma",
                   "StudentT", "Wishart", "Wishart root"}  # fmt: skip


def tolerance(name, question, dtype, live):
    if question == "sample" and name in EXACT:
        return 0.0 if live else 1e-12
    if question == "rsample gradient" and name in MOVED_BY_GAMMAS:
        return 1e-3
    return 1e-9 if dtype == "float64" else 1e-3 if "gradient" in question else 5e-5


def compare(name, mine, theirs, dtype, live):
    for question, expected in theirs.items():
        where = f"{name}: {question}"
        if isinstance(expected, str) and expected.startswith("stumbled"):
            continue  # where PyTorch fails for no good reason we need not
        answer = mine.get(question)
        if isinstance(expected, str) or question in ("shapes", "abilities"):
            assert answer == expected, where
            continue
        parts = zip(answer, expected) if "gradient" in question else [(answer, expected)]
        for a, e in parts:
            assert (a is None) == (e is None), where
            if a is not None:
                near = tolerance(name, question, dtype, live)
                np.testing.assert_allclose(a, e, rtol=near, atol=near, err_msg=where)


@pytest.mark.parametrize("name", CASES)
def test_answers_are_those_recorded_from_pytorch(name):
    compare(name, answers(name, flambeau), RECORD["answers"][name], "float64", live=False)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", CASES)
def test_answers_are_pytorchs(name, dtype):
    torch = pytest.importorskip("torch")
    compare(name, answers(name, flambeau, dtype), answers(name, torch, dtype), dtype, live=True)


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_begin_with_pytorchs_words(name):
    kind, text = said(REFUSALS[name], ours, flambeau)
    expected_kind, expected = RECORD["refusals"][name]
    assert kind == expected_kind and text.startswith(expected), text


@pytest.mark.oracle
@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    torch.distributions.Distribution.set_default_validate_args(True)  # its compiler turns it off
    kind, text = said(REFUSALS[name], ours, flambeau)
    expected_kind, expected = said(REFUSALS[name], torch.distributions, torch)
    assert kind == expected_kind and text.startswith(expected), text


@pytest.mark.oracle
def test_modules_names_and_signatures_are_pytorchs():
    pytest.importorskip("torch")
    import importlib
    import inspect
    import pkgutil

    import torch.distributions as theirs

    def parameters(function):
        return [(p.name, p.kind, str(p.default).replace("torch.Size([])", "()"))
                for p in inspect.signature(function).parameters.values()]  # fmt: skip

    assert set(theirs.__all__) <= set(ours.__all__)
    for found in pkgutil.iter_modules(theirs.__path__):
        expected = importlib.import_module(f"torch.distributions.{found.name}")
        module = importlib.import_module(f"flambeau.distributions.{found.name}")
        for name in expected.__all__ if hasattr(expected, "__all__") else ():
            one, other = getattr(module, name), getattr(expected, name)
            if not inspect.isclass(other):
                continue
            for method in [m for m in dir(other) if not m.startswith("_") or m == "__init__"]:
                assert hasattr(one, method), f"{name}.{method}"
                function = getattr(other, method)
                if inspect.isfunction(function):
                    given = parameters(getattr(one, method))
                    assert given == parameters(function), f"{name}.{method}"


# -- without a reference ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_distributions_survive_pickling(name):
    distribution, _, value = make(name, flambeau, requires_grad=False)
    loaded = pickle.loads(pickle.dumps(distribution))
    assert repr(loaded) == repr(distribution)
    assert flambeau.equal(loaded.log_prob(value), distribution.log_prob(value))
    flambeau.manual_seed(1)
    one = loaded.expand((2, *loaded.batch_shape)).sample()
    assert one.shape == (2, *loaded.batch_shape, *loaded.event_shape)


# a large sample of each: its mean and its spread are those that are claimed
NO_SECOND_MOMENT = {"Cauchy", "HalfCauchy", "FisherSnedecor", "GeneralizedPareto", "InverseGamma",
                    "Pareto", "StudentT", "VonMises"}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in CASES if name not in NO_SECOND_MOMENT])
def test_moments_are_those_of_samples(name):
    distribution, _, _ = make(name, flambeau)
    count = 20000 if "Wishart" not in name else 2000
    flambeau.manual_seed(0)
    samples = distribution.sample((count,)).double()
    assert samples.shape == (count, *distribution.batch_shape, *distribution.event_shape)
    assert not samples.requires_grad
    if name in ("LKJCholesky", "LogisticNormal", "Categorical", "Categorical logits") or (
        "Relaxed" in name or "Transformed" in name
    ):
        return  # these claim no moments
    error = distribution.stddev.detach() / math.sqrt(count)
    mean = distribution.mean.detach()
    assert ((samples.mean(0) - mean).abs() <= 6 * error + 1e-12).all()
    variance = distribution.variance.detach().double()
    assert flambeau.allclose(samples.var(0), variance, rtol=0.25, atol=1e-3)


WITH_CDF = """Cauchy Chi2 Exponential Gamma GeneralizedPareto Gumbel HalfCauchy
HalfNormal InverseGamma Kumaraswamy Laplace LogNormal MixtureSameFamily Normal Pareto Uniform
Weibull""".split()


@pytest.mark.parametrize("name", WITH_CDF)
def test_log_prob_is_the_slope_of_cdf_and_icdf_undoes_it(name):
    distribution, _, value = make(name, flambeau, requires_grad=False)
    x = value.clone().requires_grad_()
    probability = distribution.cdf(x)
    (slope,) = flambeau.autograd.grad(probability.sum(), x)
    np.testing.assert_allclose(
        slope.tolist(), distribution.log_prob(value).exp().tolist(), rtol=1e-6
    )
    if name not in ("Chi2", "Gamma", "InverseGamma", "MixtureSameFamily"):
        again = distribution.icdf(probability)
        np.testing.assert_allclose(again.tolist(), value.tolist(), rtol=1e-6)


LISTED = [n for n in CASES if n.startswith(("Bernoulli", "Binomial", "Categorical", "OneHot"))]


@pytest.mark.parametrize("name", LISTED)
def test_probabilities_of_the_whole_support_sum_to_one(name):
    distribution, _, _ = make(name, flambeau)
    log_prob = distribution.log_prob(distribution.enumerate_support())
    assert flambeau.allclose(log_prob.exp().sum(0), flambeau.ones(()).double())
    entropy = -(log_prob.exp() * log_prob).sum(0)
    assert flambeau.allclose(entropy, distribution.entropy())


def quantile_slope(mpmath, cdf, parameter, x):
    """How a sample moves with a parameter, if it stays at its quantile."""
    return float(
        -mpmath.diff(lambda s: cdf(s, x), parameter) / mpmath.diff(lambda y: cdf(parameter, y), x)
    )


@pytest.mark.parametrize("a", [0.05, 0.6, 1.0, 3.0, 40.0, 150.0, 300.0, 5000.0])
def test_samples_of_gamma_move_as_their_quantiles(a, rng):
    mpmath = pytest.importorskip("mpmath")
    x = rng.gamma(a, size=3)
    with mpmath.workdps(40):
        cdf = lambda s, y: mpmath.gammainc(s, 0, y, regularized=True)
        expected = [quantile_slope(mpmath, cdf, mpmath.mpf(a), mpmath.mpf(v)) for v in x]
    concentration = flambeau.full((3,), a, dtype=flambeau.float64)
    found = flambeau._standard_gamma_grad(concentration, flambeau.tensor(x))
    np.testing.assert_allclose(found.tolist(), expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("a", "b"), [(0.3, 0.7), (2.0, 1.0), (30.0, 20.0), (0.2, 50.0), (5.0, 900.0)]
)
def test_samples_of_beta_move_as_their_quantiles(a, b, rng):
    mpmath = pytest.importorskip("mpmath")
    x = rng.beta(a, b, size=3)
    with mpmath.workdps(40):
        cdf = lambda s, y: mpmath.betainc(s, mpmath.mpf(b), 0, y, regularized=True)
        slopes = [quantile_slope(mpmath, cdf, mpmath.mpf(a), mpmath.mpf(v)) for v in x]
    parameters = [flambeau.full((3,), v, dtype=flambeau.float64) for v in (a, a + b)]
    found = flambeau._dirichlet_grad(flambeau.tensor(x), *parameters)
    np.testing.assert_allclose(found.tolist(), np.array(slopes) / (1 - x), rtol=1e-9)


# -- checks, expanding, subclasses -----------------------------------------------------------------


def test_checks_can_be_turned_off():
    assert ours.Normal(0.0, -1.0, validate_args=False).scale == -1
    assert ours.Poisson(1.0, validate_args=False).log_prob(flambeau.tensor(0.5)).isfinite()
    ours.Distribution.set_default_validate_args(False)
    try:
        ours.Normal(0.0, -1.0)
        with pytest.raises(ValueError):
            ours.Normal(0.0, -1.0, validate_args=True)
    finally:
        ours.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError):
        ours.Normal(0.0, -1.0)


def test_an_expanded_distribution_shares_memory_and_keeps_its_checks():
    normal = ours.Normal(flambeau.zeros(3), flambeau.ones(3), validate_args=False)
    wide = normal.expand((2, 3))
    assert wide.loc.data_ptr() == normal.loc.data_ptr()
    assert wide._validate_args is False
    assert wide.batch_shape == (2, 3) and isinstance(wide, ours.Normal)


class Shifted(ours.Normal):
    def __init__(self, by):
        super().__init__(by, 1.0)


class Renamed(ours.Normal):
    pass


def test_subclasses_with_their_own_init_expand_by_themselves_only():
    assert type(Renamed(0.0, 1.0).expand((2,))) is Renamed
    message = "Subclass Shifted of Normal that defines a custom __init__ method must also define"
    with pytest.raises(NotImplementedError, match=message):
        Shifted(1.0).expand((2,))


class Bare(ours.Distribution):
    pass


def test_a_distribution_of_ones_own_says_what_it_lacks():
    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        bare = Bare()
    with pytest.warns(UserWarning, match="does not define `support`"):
        bare._validate_sample(flambeau.ones(()))
    for question in ("mean", "variance", "support", "arg_constraints"):
        with pytest.raises(NotImplementedError):
            getattr(bare, question)
    for action in (bare.sample, bare.entropy, bare.enumerate_support, lambda: bare.expand((2,))):
        with pytest.raises(NotImplementedError):
            action()
    with pytest.warns(FutureWarning, match="sample_n"):
        assert ours.Normal(0.0, 1.0).sample_n(3).shape == (3,)


def test_lazy_properties_are_computed_once_and_with_gradients():
    logits = flambeau.zeros(3, requires_grad=True)
    distribution = ours.Categorical(logits=logits)
    with flambeau.no_grad():
        probs = distribution.probs
    assert probs.requires_grad and distribution.probs is probs
    assert isinstance(ours.Categorical.probs, property)


def test_parameters_of_a_module_keep_their_class_in_messages():
    scale = flambeau.nn.Parameter(flambeau.tensor([-1.0]))
    with pytest.raises(ValueError, match=r"Expected parameter scale \(Parameter of shape \(1,\)\)"):
        ours.Normal(flambeau.zeros(1), scale)


def test_a_policy_learns_through_log_prob_and_a_latent_through_rsample():
    flambeau.manual_seed(0)
    logits = flambeau.zeros(3, requires_grad=True)
    optimizer = flambeau.optim.SGD([logits], lr=0.5)
    for _ in range(60):
        policy = ours.Categorical(logits=logits)
        action = policy.sample((32,))
        reward = (action == 2).float()
        loss = -(policy.log_prob(action) * (reward - reward.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert ours.Categorical(logits=logits).probs[2] > 0.8

    concentration = flambeau.tensor([1.0, 1.0], requires_grad=True)
    sample = ours.Dirichlet(concentration.expand(4000, 2)).rsample()
    (slope,) = flambeau.autograd.grad(sample[:, 0].mean(), concentration)
    # the mean is a / (a + b): it moves by 1/4 up and down
    np.testing.assert_allclose(slope.tolist(), [0.25, -0.25], atol=0.02)


def test_supports_of_classes_are_constraints():
    assert ours.Normal.support is constraints.real
    assert constraints.is_dependent(ours.Categorical.support)
    assert ours.Categorical.support.is_discrete


def test_the_size_of_a_cauchy_number_wants_a_tensor():
    half = ours.HalfCauchy(1.0)
    with pytest.raises(ValueError, match="The value argument to log_prob must be a Tensor"):
        half.log_prob(1)
    assert ours.HalfCauchy(1.0, validate_args=False).log_prob(1).shape == ()
