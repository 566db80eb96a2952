"""Rows as functions of the `torch` namespace take them, where methods and nn.functional take more.

`x.permute(1, 0)` and `x.flip(0)` are methods; `torch.permute` and `torch.flip` want a list. And
`F.max_pool2d` has a `return_indices` that `torch.max_pool2d` has not. Such a row has a second
public function, built from a narrower copy of it; rows among themselves use the first. That copy
is where `sort(x, 0, stable=True)` is refused, too, as function and as method.
"""

import copy

# whose numbers come one by one to methods only; torch.squeeze(x, 0) is a signature of its own
_LISTED = frozenset({"permute", "reshape", "flip", "tile", "broadcast_to"})


def torch_form(op):
    """The row that torch.<name> is made from: op itself for nearly all."""
    hidden, alone = op.options.get("functional_only", ()), op.options.get("alone_with")
    if op.name not in _LISTED and not hidden and not alone:
        return op
    form = copy.copy(op)
    form.runtime = form.function = None
    if hidden:
        form.params = tuple(p for p in op.params if p.name not in hidden)
        return form
    form.options = {**op.options, "strictly_alone" if alone else "listed": alone or True}
    if alone:
        return form
    last = op.params[-1]
    form.params = (*op.params[:-1], last._replace(wants="int list"))
    return form
