"""How a tensor prints: the text of `repr(tensor)`, letter for letter PyTorch's.

Three steps: take the visible elements out as nested Python lists (hidden middles are sliced away
first, so a huge tensor costs no more than its corners), choose one number style for all of them,
lay the numbers out under the line width. `suffixes` then adds what the numbers do not tell:
`device=`, `size=`, `dtype=`, `grad_fn=`.

Everything here is a pure function of a tensor object and of the options set by
`set_printoptions`; the tensor is only asked for its shape, basic slices and `tolist()`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from flambeau import _dtype

__all__ = ["get_printoptions", "printoptions", "set_printoptions", "tensor_format", "tensor_repr"]


class Options(NamedTuple):
    """What `set_printoptions` sets; replaced as a whole, never changed in place."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": Options(),
    "short": Options(precision=2, edgeitems=2),
    "full": Options(threshold=math.inf),
}

_options = Options()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print.

    Args:
        precision: digits after the point of floating numbers (4).
        threshold: more elements than this are summarised (1000).
        edgeitems: elements shown at each end of a summarised dimension (3).
        linewidth: characters on a line before it is broken (80).
        profile: start from ``"default"``, ``"short"`` or ``"full"``; the others override it.
        sci_mode: force scientific notation on or off; None lets the numbers decide.

    Example:
        >>> import flambeau as torch
        >>> torch.set_printoptions(precision=2)
        >>> torch.tensor([1.12345])
        tensor([1.12])
        >>> torch.set_printoptions(profile="default")
    """
    global _options
    start = _PROFILES.get(profile, _options) if profile is not None else _options
    asked = zip(Options._fields, (precision, threshold, edgeitems, linewidth), strict=False)
    given: dict[str, Any] = {name: value for name, value in asked if value is not None}
    # PyTorch forgets sci_mode at every call that does not repeat it.
    _options = start._replace(**given, sci_mode=sci_mode)


def get_printoptions() -> dict[str, Any]:
    """The current options, as keywords for `set_printoptions`."""
    return _options._asdict()


@contextlib.contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """`set_printoptions(**options)` for the length of a `with` block."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


# Which elements are visible. A cut dimension is marked by one _HIDDEN between its two ends.

_HIDDEN = object()


def _join(start, end, depth):
    """Two nested lists as one, put together at the given depth with the mark between."""
    if depth == 0:
        return [*start, _HIDDEN, *end]
    return [_join(a, b, depth - 1) for a, b in zip(start, end, strict=True)]


def _visible(block, dim, edge):
    """Nested lists of a block's elements, with every dimension from `dim` on cut to its ends."""
    # Whole blocks are cut, not single rows: 2 ** ndim slices at most, whatever `edge` is.
    while dim < block.dim() and block.shape[dim] <= 2 * edge:
        dim += 1
    if dim == block.dim():
        return block.tolist()
    size = block.shape[dim]
    before = (slice(None),) * dim
    start = _visible(block[(*before, slice(0, edge))], dim + 1, edge)
    end = _visible(block[(*before, slice(size - edge, size))], dim + 1, edge)
    return _join(start, end, dim)


def _elements(rows, depth):
    """The numbers of nested lists, one after the other, marks left out."""
    if depth == 0:
        yield rows
        return
    for row in rows:
        if row is not _HIDDEN:
            yield from _elements(row, depth - 1)


# One number.


class Style(NamedTuple):
    """How every number of a tensor is written: the format of one, and the width of the widest."""

    spec: str
    point: str
    width: int

    def text(self, value) -> str:
        written = format(value, self.spec) if self.spec else str(value)
        if self.point and math.isfinite(value):
            written += self.point
        return written.rjust(self.width)


def _real_style(values) -> Style:
    """The style of floating numbers: fixed, scientific, or whole numbers with a bare point."""
    seen = [v for v in values if v != 0 and math.isfinite(v)]
    if not seen:
        return Style(".0f", ".", 1)
    precision, scientific = _options.precision, _options.sci_mode
    if scientific is None:
        sizes = [abs(v) for v in seen]
        low, high = min(sizes), max(sizes)
        scientific = high / low > 1000.0 or high > 1.0e8 or low < 1.0e-4
    if scientific:
        style = Style(f".{precision}e", "", 1)
    elif all(v.is_integer() for v in seen):
        style = Style(".0f", ".", 1)
    else:
        style = Style(f".{precision}f", "", 1)
    return style._replace(width=max(len(style.text(v)) for v in seen))


class Writer(NamedTuple):
    """Writes the elements of one tensor; complex ones need a style for each part."""

    real: Style
    imag: Style | None

    @property
    def width(self) -> int:
        return self.real.width + (self.imag.width + 1 if self.imag else 0)

    def text(self, value) -> str:
        if value is _HIDDEN:
            return " ..."
        if self.imag is None:
            return self.real.text(value)
        imag = self.imag.text(value.imag).lstrip()
        sign = "" if imag.startswith("-") else "+"
        return f"{self.real.text(value.real)}{sign}{imag}j"


def _writer(dtype, values) -> Writer:
    if dtype.is_complex:
        values = list(values)
        return Writer(_real_style(v.real for v in values), _real_style(v.imag for v in values))
    if dtype.is_floating_point:
        return Writer(_real_style(values), None)
    return Writer(Style("", "", max((len(str(v)) for v in values), default=1)), None)


# All of them.


def _rows_text(rows, depth, indent, writer) -> str:
    """Brackets, commas and line breaks around nested lists; `indent` is where the text starts."""
    if depth == 0:
        return writer.text(rows)
    inside = " " * (indent + 1)
    if depth == 1:
        written = [writer.text(value) for value in rows]
        per_line = max(1, (_options.linewidth - indent) // (writer.width + 2))
        lines = (written[i : i + per_line] for i in range(0, len(written), per_line))
        return "[" + f",\n{inside}".join(", ".join(line) for line in lines) + "]"
    written = [
        "..." if row is _HIDDEN else _rows_text(row, depth - 1, indent + 1, writer) for row in rows
    ]
    return "[" + ("," + "\n" * (depth - 1) + inside).join(written) + "]"


def contents(t, indent) -> str:
    """The numbers of a tensor that has some, as text that starts in column `indent`."""
    if t.is_quantized:
        t = t.dequantize()
    ndim = t.dim()
    if t.numel() > _options.threshold and ndim:
        if _options.edgeitems == 0:
            return "[...]"
        rows = _visible(t, 0, _options.edgeitems)
    else:
        rows = t.tolist()
    writer = _writer(t.dtype, _elements(rows, ndim))
    return _rows_text(rows, ndim, indent, writer)


# What the numbers do not tell.


def says_dtype(t) -> bool:
    """Whether the dtype has to be said, because the numbers alone suggest another one."""
    if t.dtype == _dtype.default_dtype():
        return False
    if t.is_meta or t.numel() == 0:
        return True
    # a default of float16 does not speak for complex32
    wide = _dtype.default_dtype() is _dtype.float64
    complex_ = _dtype.complex128 if wide else _dtype.complex64
    return t.dtype not in (_dtype.int64, _dtype.bool_, complex_)


def grad_suffix(t) -> str | None:
    try:
        node = t.grad_fn
    except RuntimeError:
        # The history of a view that was written to without grad mode cannot be rebuilt.
        return "grad_fn=<Invalid>"
    if node is not None:
        return f"grad_fn=<{type(node).__name__}>"
    return "requires_grad=True" if t.requires_grad else None


def suffixes(t) -> list[str]:
    """The words after the numbers, in PyTorch's order."""
    words = []
    if t.device.type != "cpu":
        words.append(f"device='{t.device}'")
    if t.is_quantized:
        from flambeau.eager.quantized import described

        return [*words, f"size={tuple(t.shape)}", f"dtype={t.dtype}", *described(t)]
    empty = t.numel() == 0
    if t.is_meta or (t.dim() != 1 if empty else not _options.edgeitems):
        words.append(f"size={tuple(t.shape)}")
    if says_dtype(t):
        words.append(f"dtype={t.dtype}")
    grad = grad_suffix(t)
    return [*words, grad] if grad else words


def appended(text, words, indent, below=False) -> str:
    """Each word after a comma, on a new line where the current one would get too long.

    Args:
        below: begin with a new line.
    """
    column = _options.linewidth if below else len(text) - text.rfind("\n") + 1
    for word in words:
        if column + len(word) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + word
            column = indent + len(word)
        else:
            text += ", " + word
            column += len(word) + 2
    return text + ")"


def tensor_repr(t, *, tensor_contents: str | None = None) -> str:
    """The text of `repr(t)`; `tensor_contents` stands in for the numbers when it is given."""
    kind = type(t).__name__
    plain = kind in ("Tensor", "Parameter")
    prefix = "tensor(" if plain else f"{kind}("
    words = suffixes(t)
    if tensor_contents is None:
        if t.is_meta:
            tensor_contents = "..."
        elif t.numel() == 0:
            tensor_contents = "[]"
        else:
            tensor_contents = contents(t.detach(), len(prefix))
    text = appended(prefix + tensor_contents, words, len(prefix))
    is_param = any(base.__name__ == "Parameter" for base in type(t).__mro__)
    if not plain and (is_param or t.__dict__.get("_is_param")):
        return f"Parameter({text})"
    return text


def tensor_format(t, format_spec: str) -> str:
    """The text of `format(t, format_spec)`: one number formats as a number, the rest as `str`."""
    if t.dim() == 0 and not t.is_meta and type(t).__name__ == "Tensor":
        return format(t.detach().item(), format_spec)
    return object.__format__(t, format_spec)
