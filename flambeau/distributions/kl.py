"""Kullback-Leibler divergences: which formula belongs to which pair, and how to register more.

KL(p || q) is the mean, under p, of log p(x) - log q(x). The formulas are in `kl_pairs`.
"""

import warnings
from collections.abc import Callable
from typing import Any

from flambeau import Tensor

from .distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Callable], Callable]:
    """A decorator: the function is the divergence of these two classes and their subclasses.

    Where several registrations fit, the nearest classes win, those of p before those of q.
    """
    for kind in (type_p, type_q):
        issubclass(kind, Distribution)  # any class will do, as in PyTorch; other things raise

    def register(function: Callable) -> Callable:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return register


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The formula for two classes, or NotImplemented."""

    def distance(pair):  # steps up from the classes at hand, in the order of their bases
        return type_p.__mro__.index(pair[0]), type_q.__mro__.index(pair[1])

    fitting = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not fitting:
        return NotImplemented
    left = min(fitting, key=distance)
    right = min(fitting, key=lambda pair: distance(pair)[::-1])
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
            f"Please register_kl({left[0].__name__}, {right[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q) for every pair of the batches.

    Raises:
        NotImplementedError: no formula is registered for the two types.

    Example:
        >>> from flambeau.distributions import Normal
        >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
        tensor(0.5000)
    """
    pair = type(p), type(q)
    function = _KL_MEMOIZE.get(pair)
    if function is None:
        function = _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    if function is NotImplemented:
        raise NotImplementedError(
            "No KL(p || q) is implemented for p type "
            f"{type(p).__name__} and q type {type(q).__name__}; register_kl adds one"
        )
    return function(p, q)
