"""`torch.utils._contextlib`: managers that can stand before a function, too."""

import functools
import inspect
from typing import Any

__all__: list[str] = []


def _wrap_generator(make, function):
    """A generator that runs inside of a manager of its own, and only while it runs."""

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        generator = function(*args, **kwargs)
        send, value = generator.send, None
        while True:
            with make():
                try:
                    out = send(value)
                except StopIteration as stop:
                    return stop.value
            try:
                send, value = generator.send, (yield out)
            except GeneratorExit:
                with make():
                    generator.close()
                raise
            except BaseException as error:
                send, value = generator.throw, error

    return wrapped


def context_decorator(ctx: Any, func: Any) -> Any:
    """The function inside of a manager: an object to be used again, or what makes one."""
    make = ctx if callable(ctx) and not hasattr(ctx, "__enter__") else lambda: ctx
    if isinstance(func, type):
        raise RuntimeError(
            "Cannot decorate classes; it is ambiguous whether or not only the constructor"
        )
    if inspect.isgeneratorfunction(func):
        return _wrap_generator(make, func)

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        with make():
            return func(*args, **kwargs)

    return wrapped


class _DecoratorContextManager:
    """A base of managers: `@manager(...)` runs each call inside of a copy of it."""

    def __call__(self, orig_func: Any) -> Any:
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> Any:
        raise NotImplementedError

    def clone(self) -> Any:
        """A copy of it; those with arguments write their own."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """The same for managers without arguments: `@manager` is enough."""

    def __new__(cls, orig_func: Any = None) -> Any:
        self = super().__new__(cls)
        return self if orig_func is None else self(orig_func)
