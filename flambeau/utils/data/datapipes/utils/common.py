"""Files and streams of pipes, and checks of the functions they are given."""

import contextlib
import fnmatch
import functools
import importlib.util
import inspect
import io
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

__all__ = [
    "StreamWrapper",
    "get_file_binaries_from_pathnames",
    "get_file_pathnames_from_root",
    "match_masks",
    "validate_input_col",
    "validate_pathname_binary_tuple",
]


def validate_input_col(fn: Callable[..., Any], input_col: Any) -> None:
    """Check that a function takes as many arguments as there are input columns.

    Args:
        fn: the function; of builtins whose signature is unknown nothing is checked.
        input_col: one column, or several as a list or tuple; None hands over whole samples.
    """
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return
    name = _name_of(fn)
    own = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if own:
        raise ValueError(
            f"The function {name} takes {len(own)} non-default keyword-only parameters, which is "
            "not allowed."
        )
    given = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in by_place)
    open_ended = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if given < needed or (given > len(by_place) and not open_ended):
        raise ValueError(
            f"The function {name} takes {needed} parameters, but {given} are required."
        )


def _name_of(fn: Any) -> str:
    if isinstance(fn, functools.partial):
        return f"{getattr(fn.func, '__name__', type(fn.func).__name__)}"
    return getattr(fn, "__name__", type(fn).__name__)


def _is_local_fn(fn: Any) -> bool:
    """Whether a function is defined in another one."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if not inspect.isfunction(fn) and not inspect.ismethod(fn):
        fn = type(fn)
        return "<locals>" in fn.__qualname__
    return "<locals>" in fn.__qualname__


def _check_unpickable_fn(fn: Any) -> None:
    """Refuse what is no function; warn of one that cannot go to another process."""
    if not callable(fn):
        raise TypeError(f"A callable function is expected, but {type(fn)} is provided.")
    inner = fn.func if isinstance(fn, functools.partial) else fn
    if importlib.util.find_spec("dill") is not None:
        return
    if getattr(inner, "__name__", "") == "<lambda>":
        kind = "Lambda"
    elif _is_local_fn(inner):
        kind = "Local"
    else:
        return
    warnings.warn(
        f"{kind} function is not supported by pickle, please use regular python function or "
        "functools.partial instead.",
        stacklevel=3,
    )


def match_masks(name: str, masks: str | list[str]) -> bool:
    """Whether a name fits a pattern, or one of several; no pattern fits all names."""
    if not masks:
        return True
    if isinstance(masks, str):
        masks = [masks]
    return any(fnmatch.fnmatch(name, mask) for mask in masks)


def get_file_pathnames_from_root(
    root: str,
    masks: str | list[str],
    recursive: bool = False,
    abspath: bool = False,
    non_deterministic: bool = False,
) -> Iterator[str]:
    """The paths of files in a folder, sorted by name unless any order is fine."""

    def warn(error: OSError) -> None:
        warnings.warn(f"{error.filename} : {error.strerror}", stacklevel=2)
        raise error

    if os.path.isfile(root):
        path = os.path.abspath(root) if abspath else root
        if match_masks(os.path.basename(path), masks):
            yield path
        return
    for folder, folders, names in os.walk(root, onerror=warn):
        if abspath:
            folder = os.path.abspath(folder)
        if not non_deterministic:
            names.sort()
        for name in names:
            if match_masks(name, masks):
                yield os.path.join(folder, name)
        if not recursive:
            break
        if not non_deterministic:
            folders.sort()


def get_file_binaries_from_pathnames(
    pathnames: Any, mode: str, encoding: str | None = None
) -> Iterator[tuple[str, "StreamWrapper"]]:
    """Pairs of a path and its open file."""
    if not isinstance(pathnames, Iterable):
        pathnames = [pathnames]
    if mode in ("b", "t"):
        mode = "r" + mode
    for path in pathnames:
        if not isinstance(path, str):
            raise TypeError(f"Expected string type for pathname, but got {type(path)}")
        yield path, StreamWrapper(open(path, mode, encoding=encoding))  # noqa: SIM115


def validate_pathname_binary_tuple(data: Any) -> None:
    """Check that something is a pair of a path and a stream."""
    if not isinstance(data, tuple):
        raise TypeError(f"pathname binary data should be tuple type, but it is type {type(data)}")
    if len(data) != 2:
        raise TypeError(f"pathname binary stream tuple length should be 2, but got {len(data)}")
    path, stream = data
    if not isinstance(path, str):
        raise TypeError(
            f"pathname within the tuple should have string type pathname, but it is type "
            f"{type(path)}"
        )
    if not isinstance(stream, (io.IOBase, StreamWrapper)):
        raise TypeError(
            "binary stream within the tuple should have IOBase orits subclasses as type, but it is "
            f"type {type(stream)}"
        )


def _deprecation_warning(
    old_class_name: str,
    *,
    deprecation_version: str,
    removal_version: str,
    old_functional_name: str = "",
    old_argument_name: str = "",
    new_class_name: str = "",
    new_functional_name: str = "",
    new_argument_name: str = "",
    deprecate_functional_name_only: bool = False,
) -> None:
    """Warn of a pipe, a functional name or an argument that goes away."""
    if new_functional_name and not old_functional_name:
        raise ValueError("Old functional API needs to be specified for the deprecation warning.")
    if new_argument_name and not old_argument_name:
        raise ValueError("Old argument name needs to be specified for the deprecation warning.")
    if old_functional_name and old_argument_name:
        raise ValueError("Deprecating warning for functional API and argument should be separated.")
    text, verb = f"`{old_class_name}()`", "is"
    if deprecate_functional_name_only:
        text = f"{text}'s functional API `.{old_functional_name}()`"
    elif old_functional_name:
        text, verb = f"{text} and its functional API `.{old_functional_name}()`", "are"
    elif old_argument_name:
        text = f"The argument `{old_argument_name}` of {text}"
    text = (
        f"{text} {verb} deprecated since {deprecation_version} and will be removed in "
        f"{removal_version}.\nSee https://github.com/pytorch/data/issues/163 for details."
    )
    if new_class_name or new_functional_name:
        names = [f"`{new_class_name}()`"] if new_class_name else []
        names += [f"`.{new_functional_name}()`"] if new_functional_name else []
        text += f"\nPlease use {' or '.join(names)} instead."
    elif new_argument_name:
        text += f"\nPlease use `{old_class_name}({new_argument_name}=)` instead."
    warnings.warn(text, FutureWarning, stacklevel=2)


class StreamWrapper:
    """A stream that is closed when nobody keeps it any more.

    Args:
        file_obj: the stream.
        parent_stream: the stream it is read from, such as an archive; it can close when all its
            children have.
        name: for texts.
    """

    session_streams: dict[Any, int] = {}
    debug_unclosed_streams: bool = False

    def __init__(self, file_obj: Any, parent_stream: Any = None, name: str | None = None) -> None:
        self.file_obj = file_obj
        self.child_counter = 0
        self.parent_stream = parent_stream
        self.close_on_last_child = False
        self.name = name
        self.closed = False
        if parent_stream is not None:
            if not isinstance(parent_stream, StreamWrapper):
                raise RuntimeError(
                    f"Parent stream should be StreamWrapper, {type(parent_stream)} was given"
                )
            parent_stream.child_counter += 1
        if StreamWrapper.debug_unclosed_streams:
            StreamWrapper.session_streams[self] = 1

    @classmethod
    def close_streams(cls, v: Any, depth: int = 0) -> None:
        """Close the streams in a sample, in containers too."""
        if depth > 10:
            return
        if isinstance(v, StreamWrapper):
            v.close()
        elif isinstance(v, dict):
            for value in v.values():
                cls.close_streams(value, depth + 1)
        elif isinstance(v, (list, tuple)):
            for value in v:
                cls.close_streams(value, depth + 1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["file_obj"], name)

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Close the stream, and its parent if that waited for it."""
        if self.closed:
            return
        StreamWrapper.session_streams.pop(self, None)
        parent = self.parent_stream
        if parent is not None:
            parent.child_counter -= 1
            if not parent.child_counter and parent.close_on_last_child:
                parent.close()
        with contextlib.suppress(AttributeError):  # of objects that are no streams
            self.file_obj.close(*args, **kwargs)
        self.closed = True

    def autoclose(self) -> None:
        """Close now, or when the last child has closed."""
        self.close_on_last_child = True
        if self.child_counter == 0:
            self.close()

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.file_obj)})

    def __del__(self) -> None:
        if not self.__dict__.get("closed", True):
            self.close()

    def __iter__(self) -> Iterator[Any]:
        yield from self.file_obj

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __repr__(self) -> str:
        shown = f"{self.file_obj!r}" if self.name is None else f"{self.name},{self.file_obj!r}"
        return f"StreamWrapper<{shown}>"

    def __reduce__(self) -> Any:
        return StreamWrapper, (self.file_obj,)
