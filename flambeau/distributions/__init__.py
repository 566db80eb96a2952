"""`torch.distributions`: probability distributions, their samples, likelihoods and divergences.

Distributions that belong together share a file; `torch.distributions.normal` and the like are
names of those files too (`_HOMES`). `distribution` says what all of them have in common,
`constraints` what their parameters and values may be, `transforms` how one becomes another, `kl`
how far they are apart.
"""

import sys as _sys

from . import categorical as categorical
from . import composition as composition
from . import constraints as constraints
from . import counts as counts
from . import distribution as distribution
from . import gammas as gammas
from . import kl as kl
from . import kl_pairs as kl_pairs
from . import location_scale as location_scale
from . import utils as utils
from .categorical import Categorical as Categorical
from .categorical import Multinomial as Multinomial
from .categorical import OneHotCategorical as OneHotCategorical
from .categorical import OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough
from .composition import Independent as Independent
from .composition import MixtureSameFamily as MixtureSameFamily
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

# PyTorch keeps every distribution in a file of its own: which of ours those are
_HOMES = {
    categorical: "multinomial one_hot_categorical",
    composition: "independent mixture_same_family",
    counts: "bernoulli binomial geometric negative_binomial poisson",
    distribution: "exp_family",
    gammas: "beta chi2 dirichlet exponential fishersnedecor gamma studentT",
    location_scale: "cauchy laplace normal uniform von_mises",
}
for _home, _names in _HOMES.items():
    for _name in _names.split():
        globals()[_name] = _sys.modules[f"{__name__}.{_name}"] = _home
