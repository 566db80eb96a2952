"""Recording of rows whose formulas work on tensors, and what formulas are called with, as text.

Both are written out for one row, without loops over parameters and look-ups by name. Speed outranks
prose in the generated text.
"""

from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import (
    SavedInput,
    SavedOutput,
    edge_of,
    init_node,
    next_sequence,
    save_input,
    save_output,
    unpack,
)
from flambeau.eager.fragments import compile_text

_PLAIN = frozenset((bool, int, float, str, type(None)))
_NUMBERS = ("float", "int")


def arguments(op, formula, saved_names, missing):
    """A function of (node, grads): what a formula is called with."""
    kinds = {p.name: p.kind for p in op.params}
    lines, found = [], []
    for k, name in enumerate(formula.names):
        if name == "g":
            lines.append("    g = grads[0] if grads[0] is not None else missing(node, grads, 0)\n")
            found.append("g")
        elif name == "gs":
            found.append(
                "[x if x is not None else missing(node, grads, k) for k, x in enumerate(grads)]"
            )
        elif name == "raw_gs":
            found.append("list(grads)")
        elif name == "needs":
            found.append("[e is not None for e in node.edges]")
        elif name not in saved_names:
            stem, what = name.rsplit("_", 1)
            shape = ".shape" if what == "shape" else ""
            found.append(f"node.layouts['{stem}']{shape}")
        elif kinds.get(name) in _NUMBERS:
            found.append(f"saved[{saved_names.index(name)}]")
        else:
            lines.append(_UNPACK.format(k=k, place=saved_names.index(name)))
            found.append(f"v{k}")
    text = "def arguments(node, grads):\n    saved = node.saved\n" + "".join(lines)
    text += f"    return ({''.join(f + ', ' for f in found)})\n"
    space = {"missing": missing, "unpack": unpack, "SavedInput": SavedInput}
    return compile_text(text, space, f"{op.name} formula")["arguments"]


_UNPACK = """    v{k} = saved[{place}]
    if type(v{k}) is SavedInput and v{k}.tensor._storage.version == v{k}.version:
        v{k} = v{k}.tensor
    elif type(v{k}) is list:
        v{k} = [unpack(v, node) for v in v{k}]
    else:
        v{k} = unpack(v{k}, node)
"""


def recorder(op, node_class, bare, allowed):
    """record(outs, *parameters): makes the node of a call of a row, and returns it.

    bare: the class of nodes where a tensor is missing; allowed: names of the parameters that can
    receive gradients.
    """
    names = [p.name for p in op.params]
    tensors = [p for p in op.params if p.kind in ("tensor", "optional", "tensors")]
    absent = " and ".join(f"isinstance({p.name}, Tensor)" for p in tensors)
    kinds = {p.name: p.kind for p in op.params}
    saved = "".join(_saved(n, kinds) + ", " for n in node_class.saved_names)
    refused = "        elif not k:\n            raise unsupported(o)\n" * (op.kind == "reduction")
    text = f"""def record(outs, {", ".join(names)}):
    _save, _keep = (save_input, save_output) if modes.watched else (SavedInput, SavedOutput)
    node = new({f"Node if {absent} else Bare" if bare else "Node"})
    node.edges = ({"".join(_edge(p, allowed) + ", " for p in tensors)})
    node.layouts = {{{", ".join(f"'{p.name}': {_layout(p)}" for p in tensors)}}}
    node.saved = ({saved})
    node.out_layouts = tuple([o._layout for o in outs])
    node.outputs, node.hooks, node.seq = len(outs), None, next_sequence()
    if modes.watched:
        init_node(node, node.edges, node.saved, node.outputs)
    k = 0
    for o in outs{"" if op.smooth is None else f"[:{op.smooth}]"}:
        if o._layout.dtype.category >= 2:
            o._grad_fn, o._output_nr, o._requires_grad = node, k, True
{refused}        k += 1
    return node
"""
    space = {"Tensor": Tensor, "modes": modes, "Node": node_class, "Bare": bare, "PLAIN": _PLAIN}
    space |= {"new": object.__new__, "next_sequence": next_sequence, "edge_of": edge_of}
    space |= {"SavedInput": SavedInput, "SavedOutput": SavedOutput, "save_static": _save_static}
    space |= {"save_input": save_input, "save_output": save_output, "init_node": init_node}
    space |= {"unsupported": _unsupported}
    return compile_text(text, space, f"{op.name} record")["record"]


def _edge(p, allowed):
    n = p.name
    if p.kind == "tensors":
        return f"*[edge_of(t) if t._requires_grad else None for t in {n}]"
    if n not in allowed:
        return "None"
    return f"edge_of({n}) if isinstance({n}, Tensor) and {n}._requires_grad else None"


def _layout(p):
    if p.kind == "tensors":
        return f"tuple([t._layout for t in {p.name}])"
    return f"{p.name}._layout if isinstance({p.name}, Tensor) else None"


def _saved(name, kinds):
    kind = kinds.get(name)
    if kind in ("tensor", "optional"):
        return f"_save({name}) if isinstance({name}, Tensor) else {name}"
    if kind in _NUMBERS:
        return name
    if kind is not None:
        return f"{name} if type({name}) in PLAIN else save_static({name})"
    number = 0 if name == "out" else int(name[3:])
    return f"_keep(outs[{number}], {number})"


def _save_static(value):
    """A static argument, which may be a tensor or hold some."""
    if type(value) in (list, tuple) and any(isinstance(v, Tensor) for v in value):
        return [save_input(v) for v in value]
    return save_input(value)


def _unsupported(out):
    return RuntimeError(f"Autograd not support dtype: {out._layout.dtype.scalar_name}")
