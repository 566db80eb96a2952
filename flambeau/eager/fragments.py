"""Fragments of generated text, each written down once: a new tensor, a view, a look-up, a kernel.

Hot paths are generated as text and compiled, so that a call has no loops over arguments and no
calls in between; speed outranks prose in that text. `compile_text` names every piece by what it
does; tracebacks and debuggers show it, `python -m flambeau explain` prints it.
"""

import linecache

from flambeau._tensor import Tensor, View
from flambeau.autograd.grad_mode import modes
from flambeau.storage import Storage

SCALARS = frozenset((bool, int, float))
TEXTS: dict = {}  # title -> text of everything that was generated

# What fragments mention.
SCOPE = {
    "new": object.__new__,
    "Storage": Storage,
    "Tensor": Tensor,
    "View": View,
    "modes": modes,
    "SCALARS": SCALARS,
}


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
    exec(compile(text, filename, "exec"), names)
    return names


# Memory and fields of result k, from layout{k} and pool{k}. Its address is in p{k}.
ALLOCATE = """
    try:
        p{k} = pool{k}.pop()
    except IndexError:
        p{k} = pool{k}.grow()
    st = new(Storage)
    st.pointer = p{k}
    st.give = pool{k}.give
    st.version = 0
    st.nbytes = layout{k}.nbytes
    out{k} = new(Tensor)
    out{k}._layout = layout{k}
    out{k}._storage = st
    out{k}._offset = 0
    out{k}._requires_grad = False
    out{k}._grad = out{k}._grad_fn = out{k}._view = out{k}._extra = None
    out{k}._output_nr = 0
"""

# A tensor over the memory of input.
SHARE = """
    out = new(Tensor)
    out._layout = layout
    storage = out._storage = input._storage
    out._offset = {offset}
    out._requires_grad = False
    out._grad = out._grad_fn = out._extra = None
    out._output_nr = 0
"""

# And why it is a view.
VIEW = """
    view = out._view = new(View)
    above = input._view
    if above is None:
        view.base = input
        view.kind = "plain" if modes.grad else "no_grad"
    else:
        view.base = above.base
        kind = above.kind
        view.kind = kind if kind != "plain" or modes.grad else "no_grad"
    view.version = storage.version
"""


def allocated(outputs):
    """Lines that make so many results."""
    return "".join(ALLOCATE.format(k=k) for k in range(outputs))


def addresses(names):
    """Arguments of a kernel: where tensors begin, each after a comma."""
    return "".join(f", {n}._storage.pointer + {n}._offset" for n in names)


def indented(text):
    return "".join(f"    {line}\n" for line in text.splitlines() if line)
