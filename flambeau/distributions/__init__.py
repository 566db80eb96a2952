"""`torch.distributions`: probability distributions, their samples, likelihoods and divergences.

Distributions that belong together share a file; `torch.distributions.normal` and the like are
names of those files too (`_HOMES`). `distribution` says what all of them have in common,
`constraints` what their parameters and values may be, `transforms` how one becomes another, `kl`
how far they are apart.
"""

import sys as _sys

from . import categorical as categorical
from . import composition as composition
from . import constraint_registry as constraint_registry
from . import constraints as constraints
from . import counts as counts
from . import distribution as distribution
from . import gammas as gammas
from . import kl as kl
from . import kl_pairs as kl_pairs
from . import location_scale as location_scale
from . import matrices as matrices
from . import multivariate as multivariate
from . import relaxed as relaxed
from . import transformed as transformed
from . import transformed_distribution as transformed_distribution
from . import transforms as transforms
from . import utils as utils
from .categorical import Categorical as Categorical
from .categorical import Multinomial as Multinomial
from .categorical import OneHotCategorical as OneHotCategorical
from .categorical import OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough
from .composition import Independent as Independent
from .composition import MixtureSameFamily as MixtureSameFamily
from .constraint_registry import biject_to as biject_to
from .constraint_registry import transform_to as transform_to
from .counts import Bernoulli as Bernoulli
from .counts import Binomial as Binomial
from .counts import Geometric as Geometric
from .counts import NegativeBinomial as NegativeBinomial
from .counts import Poisson as Poisson
from .distribution import Distribution as Distribution
from .distribution import ExponentialFamily as ExponentialFamily
from .gammas import Beta as Beta
from .gammas import Chi2 as Chi2
from .gammas import Dirichlet as Dirichlet
from .gammas import Exponential as Exponential
from .gammas import FisherSnedecor as FisherSnedecor
from .gammas import Gamma as Gamma
from .gammas import StudentT as StudentT
from .kl import kl_divergence as kl_divergence
from .kl import register_kl as register_kl
from .location_scale import Cauchy as Cauchy
from .location_scale import Laplace as Laplace
from .location_scale import Normal as Normal
from .location_scale import Uniform as Uniform
from .location_scale import VonMises as VonMises
from .matrices import LKJCholesky as LKJCholesky
from .matrices import Wishart as Wishart
from .multivariate import LowRankMultivariateNormal as LowRankMultivariateNormal
from .multivariate import MultivariateNormal as MultivariateNormal
from .relaxed import ContinuousBernoulli as ContinuousBernoulli
from .relaxed import RelaxedBernoulli as RelaxedBernoulli
from .relaxed import RelaxedOneHotCategorical as RelaxedOneHotCategorical
from .transformed import GeneralizedPareto as GeneralizedPareto
from .transformed import Gumbel as Gumbel
from .transformed import HalfCauchy as HalfCauchy
from .transformed import HalfNormal as HalfNormal
from .transformed import InverseGamma as InverseGamma
from .transformed import Kumaraswamy as Kumaraswamy
from .transformed import LogisticNormal as LogisticNormal
from .transformed import LogNormal as LogNormal
from .transformed import Pareto as Pareto
from .transformed import Weibull as Weibull
from .transformed_distribution import TransformedDistribution as TransformedDistribution
from .transforms import AbsTransform as AbsTransform
from .transforms import AffineTransform as AffineTransform
from .transforms import CatTransform as CatTransform
from .transforms import ComposeTransform as ComposeTransform
from .transforms import CorrCholeskyTransform as CorrCholeskyTransform
from .transforms import CumulativeDistributionTransform as CumulativeDistributionTransform
from .transforms import ExpTransform as ExpTransform
from .transforms import IndependentTransform as IndependentTransform
from .transforms import LowerCholeskyTransform as LowerCholeskyTransform
from .transforms import PositiveDefiniteTransform as PositiveDefiniteTransform
from .transforms import PowerTransform as PowerTransform
from .transforms import ReshapeTransform as ReshapeTransform
from .transforms import SigmoidTransform as SigmoidTransform
from .transforms import SoftmaxTransform as SoftmaxTransform
from .transforms import SoftplusTransform as SoftplusTransform
from .transforms import StackTransform as StackTransform
from .transforms import StickBreakingTransform as StickBreakingTransform
from .transforms import TanhTransform as TanhTransform
from .transforms import Transform as Transform
from .transforms import identity_transform as identity_transform

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "CatTransform",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "ContinuousBernoulli",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "identity_transform",
    "kl_divergence",
    "register_kl",
    "transform_to",
]

# PyTorch keeps every distribution in a file of its own: which of ours those are
_HOMES = {
    categorical: "multinomial one_hot_categorical",
    composition: "independent mixture_same_family",
    counts: "bernoulli binomial geometric negative_binomial poisson",
    distribution: "exp_family",
    gammas: "beta chi2 dirichlet exponential fishersnedecor gamma studentT",
    location_scale: "cauchy laplace normal uniform von_mises",
    matrices: "lkj_cholesky wishart",
    multivariate: "lowrank_multivariate_normal multivariate_normal",
    relaxed: "continuous_bernoulli relaxed_bernoulli relaxed_categorical",
    transformed: "generalized_pareto gumbel half_cauchy half_normal inverse_gamma kumaraswamy "
    "log_normal logistic_normal pareto weibull",
}
for _home, _names in _HOMES.items():
    for _name in _names.split():
        globals()[_name] = _sys.modules[f"{__name__}.{_name}"] = _home
