"""One of several classes: by number, as a one-hot vector, and counted over many draws."""

import math
from collections.abc import Sequence

import flambeau
from flambeau import Size, Tensor
from flambeau.nn import functional as F

from . import constraints
from .counts import Binomial, ChanceDistribution, the_chance_given
from .distribution import Distribution
from .utils import passed_on

__all__ = [
    "Categorical",
    "Multinomial",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
]


class Categorical(ChanceDistribution):
    """Numbers 0 to K - 1 with given probabilities.

    Args:
        probs: probabilities along the last dimension, or weights: they are scaled to sum to 1.
        logits: their logarithms, up to a constant; give one of the two.

    Example:
        >>> coin = Categorical(torch.tensor([0.25, 0.75]))
        >>> coin.log_prob(torch.tensor(1)).exp()
        tensor(0.7500)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _batched = {"probs": 1, "logits": 1, "_param": 1}
    _shared = ("_num_events",)
    _is_binary = False

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, given = the_chance_given(probs, logits)
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if name == "probs":
            scaled = given / given.sum(-1, keepdim=True)
        else:
            scaled = given - given.logsumexp(dim=-1, keepdim=True)
        self.__dict__[name] = self._param = scaled
        *batch, self._num_events = scaled.shape
        super().__init__(Size(batch), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """nan: classes have no mean."""
        return self.probs.new_full(self._extended_shape(), math.nan)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        """nan, like the mean."""
        return self.mean

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        count = Size(sample_shape).numel()
        drawn = flambeau.multinomial(self.probs.reshape(-1, self._num_events), count, True)
        return drawn.T.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        index, logits = flambeau.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        # impossible classes count 0 * lowest number = 0, where 0 * -inf would be nan
        logits = self.logits.clamp(min=flambeau.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        classes = flambeau.arange(self._num_events, device=self._param.device)
        return self._along_batch(classes, expand)


class _OverCategorical(Distribution):
    """Parameters and shapes come from a Categorical; events are vectors over its classes."""

    def __init__(self, categorical: Categorical, validate_args: bool | None) -> None:
        self._categorical = categorical
        batch_shape, event_shape = categorical.batch_shape, categorical.param_shape[-1:]
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def _new(self, *args, **kwargs):
        return self._categorical._new(*args, **kwargs)

    probs = passed_on("_categorical.probs")
    logits = passed_on("_categorical.logits")
    param_shape = passed_on("_categorical.param_shape")


class OneHotCategorical(_OverCategorical):
    """Vectors with a single 1, at a place that a Categorical draws.

    Args:
        probs: probabilities or weights of the places.
        logits: their logarithms, up to a constant; give one of the two.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True
    _batched = {"_categorical": 0}

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(Categorical(probs, logits), validate_args)

    _param = passed_on("_categorical._param")
    mean = passed_on("probs")

    @property
    def mode(self) -> Tensor:
        return self._vectors(self.probs.argmax(dim=-1))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _vectors(self, classes):
        return F.one_hot(classes, self._categorical._num_events).to(self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._vectors(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        classes = flambeau.arange(self._categorical._num_events, device=self._param.device)
        return self._along_batch(self._vectors(classes), expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot vectors whose gradient goes straight to the probabilities (Bengio et al., 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(_OverCategorical):
    """How often each class came up in total_count draws.

    Args:
        total_count: the number of draws, one for the whole batch.
        probs: probabilities or weights of the classes.
        logits: their logarithms, up to a constant; give one of the two.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _batched = {"_categorical": 0}
    _shared = ("total_count", "_binomial")

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        categorical = Categorical(probs, logits)
        self._binomial = Binomial(total_count, probs=categorical.probs)
        super().__init__(categorical, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
        counts = drawn.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, drawn, flambeau.ones_like(drawn)).type_as(self.probs)

    def entropy(self) -> Tensor:
        # n H(class) - log n! + the mean of log(count!) of every class, whose counts are binomial
        n = flambeau.tensor(self.total_count)
        counts = self._binomial.enumerate_support(expand=False)[1:]
        chances = self._binomial.log_prob(counts).exp()
        log_factorials = (chances * (counts + 1).lgamma()).sum((0, -1))
        return n * self._categorical.entropy() - (n + 1).lgamma() + log_factorials

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        log_factorial = (value + 1).lgamma().sum(-1)
        orders = (value.sum(-1) + 1).lgamma() - log_factorial
        # impossible classes that never came up say nothing: 0 * -inf = 0 here
        nothing = value.eq(0) & self.logits.isneginf()
        terms = (self.logits * value).masked_fill(nothing, 0.0)
        return orders + terms.sum(-1)
