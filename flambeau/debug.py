"""Who made the first nan or inf: `nan_check` names the op, the module and the line.

A handler (interposing/) stands around ops and around nodes of backward, and adds up what each
gives: one pass over memory that is in the cache anyway. Only where the sum is not finite are
results and arguments looked at. An op is to blame if its result has a nan (or an inf) and none of
its arguments has one: so `masked_fill(mask, -inf)` and what follows from it are no news.

Views, copies and ops on integers cannot be to blame and are not looked at.
"""

import contextlib
import linecache
import math
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from flambeau import interposing
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import no_grad
from flambeau.autograd.node import unpack
from flambeau.nn.modules.calling import Calling
from flambeau.ops.table import TABLE
from flambeau.utils import _pytree as pytree

__all__ = ["Finding", "NonFiniteError", "nan_check"]

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# they make room or hand values on
_HARMLESS = frozenset(
    """
    empty empty_like empty_strided new_empty new_empty_strided clone contiguous to detach copy_
    masked_fill masked_fill_ where cat stack relu relu_ clamp clamp_ zeros ones full tensor
    """.split()
)


class Finding(NamedTuple):
    """Where a value that is not finite came from."""

    what: str  # "nan" or "inf"
    op: str  # such as aten::log, or LogBackward0
    is_backward: bool
    module: str  # path and class of the module that called it, "" outside of all
    file: str  # of the line that called it; for a node of backward, of its forward call
    line: int
    shapes: tuple
    from_inf: bool = False  # did arguments have an inf already, as in inf - inf?

    def __str__(self) -> str:
        source = linecache.getline(self.file, self.line).strip()
        place = f" in module {self.module}" if self.module else ""
        where = f"{self.file}:{self.line}: {source}" if self.file else "a line that was not watched"
        given = ", ".join(str(tuple(shape)) for shape in self.shapes)
        is_node = self.is_backward and "::" not in self.op
        called = "; its forward call was at" if is_node else ", called at"
        direction = "backward" if self.is_backward else "forward"
        kind = "arguments with inf" if self.from_inf else "finite arguments"
        return (
            f"{self.op} made the first {self.what} of the {direction} pass from {kind} "
            f"of shapes {given or 'none'}{place}{called} {where}"
        )


class NonFiniteError(RuntimeError):
    """A nan or inf has come up; `finding` says where."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


class _Origin(NamedTuple):
    """Who called an op: the modules around it, and the line."""

    modules: tuple
    file: str
    line: int

    def path(self) -> str:
        """Path and class of the innermost module, from the outermost."""
        if not self.modules:
            return ""
        root, inner = _compiled(self.modules[0]), _compiled(self.modules[-1])
        names = (name for name, module in root.named_modules() if module is inner)
        return f"{next(names, '?') or '(root)'} ({type(inner).__name__})"


def _compiled(module):
    """The module itself, where it is one that torch.compile has wrapped."""
    return module._modules.get("_orig_mod", module)


def _calling_line():
    """(file, line) of the innermost frame that is not this library's."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_HERE, "<")):
            return name, frame.f_lineno
        frame = frame.f_back
    return "", 0


class _Watching(interposing.Handler):
    kinds = frozenset({"op", "node", "module"})
    sees = "inside"
    forks = True

    def __init__(self, wants_inf: bool, report: Callable) -> None:
        self.wants_inf, self.report = wants_inf, report
        self.modules: tuple = ()
        self.node: Any = None  # of backward, that runs now

    def wants(self, place):
        if place.kind != "op":
            return place.kind in self.kinds
        row = TABLE.get(place.row)
        names = {place.row, place.key, str(place.naming).rpartition("::")[2]}
        return names.isdisjoint(_HARMLESS) and (row is None or row.kind != "view")

    def around(self, name, function, args, kwargs):
        kind = name.kind
        if kind == "module":
            before, self.modules = self.modules, (*self.modules, args[0])
            try:
                return function(*args, **kwargs)
            finally:
                self.modules = before
        if kind == "node":
            before, self.node = self.node, args[0]
            try:
                result = function(*args, **kwargs)
            finally:
                self.node = before
            self._look(name, args[0], [g for g in args[1] if g is not None], result)
            return result
        result = function(*args, **kwargs)
        if self.node is not None and not self.node.custom:
            return result  # what the node gives is looked at
        if type(result) is Tensor:
            node = result._grad_fn
            if node is not None:
                file, line = _calling_line()
                node.metadata["origin"] = _Origin(self.modules, file, line)
            if not is_finite(result):
                self._look(name, None, _tensors(args, kwargs), [result])
        elif isinstance(result, (tuple, list)):
            self._look(name, None, _tensors(args, kwargs), result)
        elif result is None and name.place.key == "update":  # parameters, gradients, states
            columns = args[1]
            self._look(name, None, columns[1] or (), columns[0])
        return result

    def _look(self, name, node, given, results):
        found = [t for t in results if isinstance(t, Tensor) and not is_finite(t)]
        if not found:
            return
        if not self._is_news(found, given, node):
            return
        what = "nan" if any(_has_nan(t) for t in found) else "inf"
        if node is None:
            origin = _Origin(self.modules, *_calling_line())
        else:
            origin = node.metadata.get("origin", _Origin((), "", 0))
        shapes = tuple(t.shape for t in given if isinstance(t, Tensor))
        path = origin.path()
        backward = node is not None or self.node is not None
        from_inf = any(_has_inf(t) for t in given)
        self.report(
            Finding(what, str(name), backward, path, origin.file, origin.line, shapes, from_inf)
        )

    def _is_news(self, found, given, node):
        """Is there something that the arguments do not explain?"""
        if node is not None and node.saved:
            given = [*given, *(unpack(item, None) for item in node.saved)]
        has_nan = any(_has_nan(v) for v in given)
        if any(_has_nan(t) for t in found) and not has_nan:
            # inf - inf and inf * 0 are nan, and news all the same
            return True
        if not self.wants_inf or has_nan:
            return False
        return any(_has_inf(t) for t in found) and not any(_has_inf(v) for v in given)


def is_finite(t: Tensor) -> bool:
    """Are all values finite? Sums that overflow are looked at again, value by value."""
    if t.dtype.category < 2 or not t._layout.numel or t.device.type == "meta":
        return True
    with no_grad():
        total = t.sum().item()
        if math.isfinite(abs(total)):
            return True
        return bool(t.isfinite().all())


def _has_nan(value):
    if isinstance(value, Tensor):
        return value.dtype.category >= 2 and bool(value.isnan().any())
    return isinstance(value, float) and math.isnan(value)


def _has_inf(value):
    if isinstance(value, Tensor):
        return value.dtype.category >= 2 and bool(value.isinf().any())
    return isinstance(value, float) and math.isinf(value)


def _tensors(args, kwargs):
    return [v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, (Tensor, float))]


class nan_check(contextlib.ContextDecorator):
    """Inside, the first op that makes a nan or inf from finite values is named; also a decorator.

    Args:
        inf: look for inf, too.
        raises: raise NonFiniteError at once; else warn, and go on to the next.

    Attributes:
        findings: what was found.

    Example:
        >>> x = flambeau.tensor([0.0, 1.0])
        >>> with flambeau.debug.nan_check(raises=False) as checked, warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     y = (x.log() * x).sum()
        >>> [(finding.op, finding.what) for finding in checked.findings]
        [('aten::log', 'inf'), ('aten::mul', 'nan')]
    """

    def __init__(self, inf: bool = True, raises: bool = True) -> None:
        self.raises = raises
        self.findings: list[Finding] = []
        self._watching = _Watching(inf, self._report)

    def __enter__(self) -> "nan_check":
        interposing.offer(Calling.__call__, "nn.Module", "module")
        interposing.push(self._watching)
        return self

    def __exit__(self, *error: object) -> None:
        interposing.pop(self._watching)

    def _report(self, finding: Finding) -> None:
        self.findings.append(finding)
        if self.raises:
            raise NonFiniteError(finding)
        file, line = finding.file or __file__, finding.line
        warnings.warn_explicit(str(finding), RuntimeWarning, file, line)
