"""The text of a sparse tensor."""

from flambeau._sparse.tensors import BY_ROWS, is_coo, nnz, parts_of
from flambeau.printing import appended, contents, grad_suffix, says_dtype

_PREFIX = "tensor("


def _listed(name, t):
    """A part by its name; the size of one without elements is said."""
    if not t.numel():
        return f"{name}=tensor([], size={tuple(t.shape)})"
    return f"{name}=tensor({contents(t, 2 * len(_PREFIX) + len(name) + 1)})"


def sparse_text(t):
    """As PyTorch prints it: places, values, size, count, layout."""
    parts = parts_of(t)
    if is_coo(t):
        named = [("indices", parts.indices)]
    else:
        first, second = ("crow", "col") if t._layout.kind in BY_ROWS else ("ccol", "row")
        named = [(first + "_indices", parts.compressed), (second + "_indices", parts.plain)]
    named.append(("values", parts.values.detach()))
    lead = ",\n" + " " * len(_PREFIX)
    text = _PREFIX + lead.join(_listed(*pair) for pair in named)
    words = [f"size={tuple(t.shape)}", f"nnz={nnz(t)}"]
    if t.device.type != "cpu":
        words.insert(0, f"device='{t.device}'")
    if says_dtype(parts.values.new_zeros(1)):
        words.append(f"dtype={t.dtype}")
    words.append(f"layout={t._layout.kind}")
    grad = grad_suffix(t)
    return appended(text, [*words, grad] if grad else words, len(_PREFIX), is_coo(t))
