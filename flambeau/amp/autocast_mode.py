"""autocast: products in a lower dtype, delicate ops in float32, inside a `with`.

Here are the settings of a thread and the context manager; which ops change is in op_lists.py, how
they are made to is in redirection.py. Only the CPU computes: settings of other devices are kept and
given back, but change nothing.
"""

import contextlib
import functools
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flambeau import _device, _dtype
from flambeau._dtype import dtype as Dtype
from flambeau._tensor import Tensor
from flambeau.amp.redirection import state, switch

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]

_SUPPORTED = (_dtype.bfloat16, _dtype.float16)
_DEVICES = frozenset("cpu cuda xpu ipu hpu xla mps mtia maia privateuseone".split())
CAST = ("cpu", "cuda")  # where there is something to cast
_LOWER = {"cpu": _dtype.bfloat16, "xla": _dtype.bfloat16, "hpu": _dtype.bfloat16}


class _Others(threading.local):
    """Settings of devices that do not compute here."""

    def __init__(self):
        self.enabled, self.dtype = {}, {}


_others = _Others()


# -- settings --------------------------------------------------------------------------------------


def is_autocast_available(device_type: str) -> bool:
    """Is there an autocast for this kind of device?"""
    device: Any = _device.device(device_type)
    return device.type in _DEVICES


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Is it on? Without a device, CUDA is meant, as in PyTorch."""
    if device_type == "cpu":
        return state.me.on["cpu"]
    if device_type in (None, "cuda"):
        return state.me.on["cuda"]
    return _others.enabled.get(device_type or "cuda", False)


def set_autocast_enabled(device_type: str, enabled: bool | None = None) -> None:
    """Switch it on or off in this thread."""
    if enabled is None:  # set_autocast_enabled(True) is an old form, for CUDA
        device_type, enabled = "cuda", bool(device_type)
    if device_type in CAST:
        switch(bool(enabled), device_type)
    else:
        _others.enabled[device_type] = enabled


def get_autocast_dtype(device_type: str) -> Dtype:
    """The dtype of products."""
    if device_type in CAST:
        return state.me.dtypes[device_type]
    if not is_autocast_available(device_type):
        raise RuntimeError("unsupported scalarType")
    return _others.dtype.get(device_type) or _LOWER.get(device_type, _dtype.float16)


def set_autocast_dtype(device_type: str, dtype: Dtype) -> None:
    """Set the dtype of products in this thread."""
    if device_type in CAST:
        me = state.me
        if me.dtypes[device_type] is not dtype:
            me.cache.clear()
            me.dtypes[device_type] = dtype
    else:
        _others.dtype[device_type] = dtype


def is_autocast_cache_enabled() -> bool:
    """Are casts of parameters kept until the outermost autocast ends?"""
    return state.me.cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    state.me.cache_enabled = enabled


def clear_autocast_cache() -> None:
    """Forget casts of parameters."""
    state.me.cache.clear()


def autocast_increment_nesting() -> int:
    state.me.nesting += 1
    return state.me.nesting


def autocast_decrement_nesting() -> int:
    state.me.nesting -= 1
    return state.me.nesting


def current_settings(device_type: str = "cpu") -> dict[str, Any]:
    """Arguments of an autocast that is like now on a kind of device."""
    return {
        "enabled": state.me.on[device_type],
        "dtype": state.me.dtypes[device_type],
        "cache_enabled": state.me.cache_enabled,
    }


def _old_name(name, new, arguments, function):
    """A function of old: the same, with a warning."""

    def old(*args):
        warnings.warn(
            f"torch.{name}({arguments}) is deprecated. Please use torch.{new} instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        return function(*args)

    old.__name__ = old.__qualname__ = name
    return old


def _add_old_names():
    """get_autocast_cpu_dtype and its kin, from when the device was part of the name."""
    functions = {
        "get_autocast_{}_dtype": ("", get_autocast_dtype),
        "set_autocast_{}_dtype": ("dtype", set_autocast_dtype),
        "is_autocast_{}_enabled": ("", is_autocast_enabled),
        "set_autocast_{}_enabled": ("enabled", set_autocast_enabled),
    }
    for kind, device in (("cpu", "cpu"), ("gpu", "cuda")):
        for pattern, (arguments, function) in functions.items():
            name = pattern.format(kind)
            new = f"{function.__name__}({', '.join(filter(None, [repr(device), arguments]))})"
            run = functools.partial(function, device)
            globals()[name] = _old_name(name, new, arguments, run)


_add_old_names()


def _warn_disabled(device_type):
    if device_type == "cuda":
        text = "CUDA is not available or torch_xla is imported. Disabling autocast."
    else:
        name = device_type.upper()
        text = (
            f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
            f"{name} Autocast only supports dtypes of {', '.join(map(str, _SUPPORTED))} currently."
        )
    warnings.warn(text, stacklevel=3)


# -- the context manager ---------------------------------------------------------------------------


def autocast_decorator(autocast_instance, func):
    """func, always inside of autocast_instance."""

    @functools.wraps(func)
    def decorated(*args, **kwargs):
        with autocast_instance:
            return func(*args, **kwargs)

    return decorated


class autocast:
    """Mixed precision inside: a context manager, and a decorator."""

    def __init__(
        self,
        device_type: str,
        dtype: Dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        _check_device(device_type)
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self.device = device_type
        if device_type not in _DEVICES and not is_autocast_available(device_type):
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'"
            )
        self._cache_enabled = state.me.cache_enabled if cache_enabled is None else cache_enabled
        missing = device_type == "cuda" and not _device.is_there("cuda")
        if enabled and (missing or self.fast_dtype not in _SUPPORTED):
            _warn_disabled(device_type)
            enabled = False
        self._enabled = bool(enabled)

    def __enter__(self):
        me, device = state.me, self.device
        self.prev_cache_enabled, me.cache_enabled = me.cache_enabled, self._cache_enabled
        me.nesting += 1
        if device in CAST:
            self.prev, self.prev_fastdtype = me.on[device], me.dtypes[device]
        else:
            self.prev, self.prev_fastdtype = is_autocast_enabled(device), get_autocast_dtype(device)
        self._set(me, self._enabled, self.fast_dtype)
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any):
        me = state.me
        me.nesting -= 1
        if not me.nesting:
            me.cache.clear()
        self._set(me, self.prev, self.prev_fastdtype)
        me.cache_enabled = self.prev_cache_enabled
        return False

    def _set(self, me, enabled, dtype):
        # training loops enter autocast in every step: nothing is done that is done already
        device = self.device
        if device not in CAST or enabled is not me.on[device]:
            set_autocast_enabled(device, enabled)
        if device not in CAST or dtype is not me.dtypes[device]:
            set_autocast_dtype(device, dtype)

    def __call__(self, func):
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. Did you "
                "mean to use autocast as a context manager? For example:\n"
                "    with torch.autocast(device_type=...):\n        output = model(input)"
            )
        return autocast_decorator(self, func)


def _enter_autocast(*vals: Any) -> Any:
    """Enter an autocast with these arguments, as a node of a graph."""
    mode = autocast(*vals)
    mode.__enter__()
    return mode


@contextlib.contextmanager
def preserved_autocast() -> Iterator[None]:
    """Whatever a block does, and however it ends: afterwards the settings are as before."""
    me = state.me
    before = me.kind, me.nesting, me.cache_enabled
    on, dtypes = dict(me.on), dict(me.dtypes)
    try:
        yield
    finally:
        for kind, enabled in on.items():
            switch(enabled, kind)
        me.kind, me.nesting, me.cache_enabled = before
        me.dtypes.update(dtypes)


def _exit_autocast(mode: Any) -> None:
    """Leave it."""
    mode.__exit__(None, None, None)


# -- custom functions ------------------------------------------------------------------------------


def _cast(value, device_type, dtype):
    """Tensors in value, however deep, in another dtype."""
    whole = isinstance(value, (str, bytes)) or type(value).__name__ == "ndarray"
    if whole or not isinstance(value, (Tensor, Iterable)):
        return value
    if isinstance(value, Tensor):
        narrow = value.is_floating_point() and value.dtype is not _dtype.float64
        return value.to(dtype) if narrow and value.device.type == device_type else value
    inside = functools.partial(_cast, device_type=device_type, dtype=dtype)
    if isinstance(value, Mapping):
        return dict(zip(map(inside, value), map(inside, value.values())))
    return (
        type(value)(map(inside, value)) if isinstance(value, (list, tuple)) else map(inside, value)
    )


def _check_device(device_type):
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def custom_fwd(fwd=None, *, device_type: str, cast_inputs: Dtype | None = None):
    """Decorator for forward of a custom Function.

    It runs in the autocast of the caller; with cast_inputs, outside of it with inputs of that
    dtype.
    """
    _check_device(device_type)
    given: dict[str, Any] = {"device_type": device_type, "cast_inputs": cast_inputs}
    if fwd is None:
        return functools.partial(custom_fwd, **given)

    @functools.wraps(fwd)
    def decorated(ctx, *args, **kwargs):
        on = is_autocast_enabled(device_type)
        casts = on and cast_inputs is not None
        ctx._dtype, ctx._fwd_used_autocast = get_autocast_dtype(device_type), on and not casts
        if not casts:
            return fwd(ctx, *args, **kwargs)
        args, kwargs = _cast((args, kwargs), device_type, cast_inputs)
        with autocast(device_type=device_type, enabled=False):
            return fwd(ctx, *args, **kwargs)

    return decorated


def custom_bwd(bwd=None, *, device_type: str):
    """Decorator for backward of a custom Function: it runs in the autocast of its forward."""
    _check_device(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(ctx, *args, **kwargs):
        settings = {"enabled": ctx._fwd_used_autocast, "dtype": ctx._dtype}
        with autocast(device_type=device_type, **settings):
            return bwd(ctx, *args, **kwargs)

    return decorated
