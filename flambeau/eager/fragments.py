"""Fragments of generated text, each written down once: a new tensor, a view, a look-up, a kernel.

Hot paths are generated as text and compiled, so that a call has no loops over arguments and no
calls in between; speed outranks prose in that text. `compile_text` names every piece by what it
does; tracebacks and debuggers show it, `python -m flambeau explain` prints it.
"""

import linecache

from flambeau._tensor import MAKERS, Tensor
from flambeau.autograd.grad_mode import modes

SCALARS = frozenset((bool, int, float))
TEXTS: dict = {}  # title -> text of everything that was generated

# What fragments mention, besides what makes tensors (_tensor.MAKERS).
SCOPE = {
    "new": object.__new__,
    "Tensor": Tensor,
    "modes": modes,
    "SCALARS": SCALARS,
}
_scopes: list | None = []  # of generated functions that make tensors, until native code does


def compile_text(text, names, title):
    """exec generated source, visible to tracebacks and debuggers."""
    number, plain = 1, title
    while title in TEXTS:  # the same row for another pattern of types
        number += 1
        title = f"{plain} #{number}"
    TEXTS[title] = text
    filename = f"<flambeau {title}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    names = SCOPE | names
    follow_makers(names)
    exec(compile(text, filename, "exec"), names)
    return names


def follow_makers(names):
    """Let a scope know what makes tensors: Python at first, then native code."""
    names.update(MAKERS)
    if not is_native():
        _scopes.append(names)


def is_native():
    """Does native code make tensors by now?"""
    return _scopes is None


def use_makers():
    """Tell all generated functions of new makers of tensors."""
    global _scopes
    for names in _scopes or ():
        names.update(MAKERS)
    _scopes = None


# Memory and fields of result k, from layout{k}. Its address is in p{k}.
ALLOCATE = """\
    out{k} = _fresh(layout{k})
    p{k} = out{k}._storage.pointer
"""


def allocated(outputs):
    """Lines that make so many results."""
    return "".join(ALLOCATE.format(k=k) for k in range(outputs))


def addresses(names):
    """Arguments of a kernel: where tensors begin, each after a comma."""
    return "".join(f", {n}._storage.pointer + {n}._offset" for n in names)


def indented(text):
    return "".join(f"    {line}\n" for line in text.splitlines() if line)
