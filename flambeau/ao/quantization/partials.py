"""Classes with some arguments given: what a QConfig is made of."""

from collections.abc import Callable
from functools import partial
from typing import Any


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
