"""Classes with some arguments given: what a QConfig is made of."""

from collections.abc import Callable
from functools import partial
from typing import Any

import flambeau as torch


class PartialWrapper:
    """A class to be instantiated later; some arguments are known now, some when it is called."""

    def __init__(self, p: partial) -> None:
        self.p = p
        self.callable_args: dict[str, Callable] = {}

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        late = {
            name: make()
            for name, make in self.callable_args.items()
            if name not in keywords and name not in self.p.keywords
        }
        return self.p(*args, **{**late, **keywords})

    def __repr__(self) -> str:
        return f"{self.p!r}{self.callable_args!r}"

    def __getattr__(self, name: str) -> Any:
        if name in ("p", "callable_args"):
            raise AttributeError(name)
        return getattr(self.p.func, name)

    def with_args(self, **kwargs: Any) -> "PartialWrapper":
        """The same with more arguments."""
        return with_args(self, **kwargs)

    def with_callable_args(self, **kwargs: Callable) -> "PartialWrapper":
        """The same with arguments that functions give when it is called."""
        result = with_args(self)
        result.callable_args = {**self.callable_args, **kwargs}
        return result


def with_args(cls_or_self: Any, **kwargs: Any) -> PartialWrapper:
    """A class or a wrapper with more arguments."""
    if isinstance(cls_or_self, PartialWrapper):
        p = cls_or_self.p
        result = PartialWrapper(partial(p.func, *p.args, **{**p.keywords, **kwargs}))
        result.callable_args = dict(cls_or_self.callable_args)
        return result
    return PartialWrapper(partial(cls_or_self, **kwargs))


def with_callable_args(cls_or_self: Any, **kwargs: Callable) -> PartialWrapper:
    """A class with arguments that functions give when it is called."""
    return with_args(cls_or_self).with_callable_args(**kwargs)


# Words by which `described` knows arguments; an argument is written as in PyTorch's texts.
_WORDS: dict[str, dict[str, Any]] = {
    "affine": {"qscheme": torch.per_tensor_affine},
    "symmetric": {"qscheme": torch.per_tensor_symmetric},
    "channels": {"qscheme": torch.per_channel_symmetric},
    "rows": {"qscheme": torch.per_channel_affine_float_qparams},
    "dynamic": {"is_dynamic": True},
    "latest": {"averaging_constant": 1},  # the range is that of the last tensor
    "coarse": {"eps": 2**-12},
    "halved": {"reduce_range": True},
    "whole": {"reduce_range": False},
}
_NUMBERS: dict[str, tuple[str, Callable]] = {
    "scale": ("scale", float),
    "zero": ("zero_point", int),
    "axis": ("ch_axis", int),
}


def described(kind: Any, words: str = "", **more: Any) -> PartialWrapper:
    """A class with the arguments that some words stand for, in their order: "qint8 symmetric"."""
    for word in words.split():
        key, _, number = word.partition("=")
        low, _, high = word.partition("..")
        if word in _WORDS:
            more.update(_WORDS[word])
        elif number:
            name, of = _NUMBERS[key]
            more[name] = of(number)
        elif high:
            more.update(quant_min=int(low), quant_max=int(high))
        else:
            more["dtype"] = getattr(torch, word)
    return kind.with_args(**more)
