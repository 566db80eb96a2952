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
from flambeau.storage import SavedInferenceTensorError

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
            found.append("tuple([e is not None for e in node.edges])")
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
    names = ", ".join(p.name for p in op.params)
    tensors = [p for p in op.params if p.kind in ("tensor", "optional", "tensors")]
    given = {p.name: _given(op, p) for p in tensors}
    every = " and ".join(f"isinstance({p.name}, Tensor)" for p in tensors)
    kinds = {p.name: p.kind for p in op.params}
    saved = [_saved(n, kinds) for n in node_class.saved_names]
    lines = [_quickly(k, n, kinds, given) for k, n in enumerate(node_class.saved_names)]
    quick = "".join(f"s{k}, " if line else f"{saved[k]}, " for k, line in enumerate(lines))
    saving = _guarded(lines, _needed_saves(op, node_class.saved_names, kinds, given))
    # only casts, and lists that begin with integers, may leave the numbers that have gradients
    leaves = op.name == "_to_copy" or "tensors" in kinds.values()
    refused = "" if leaves else "    else:\n        raise unsupported(out0)\n"
    text = f"""def record(outs, {names}):
    node = new({f"Node if {every} else Bare" if bare else "Node"})
    node.edges = ({"".join(_edge(p, given, allowed) + ", " for p in tensors)})
    node.layouts = {{{", ".join(f"'{p.name}': {_layout(p, given)}" for p in tensors)}}}
    out0, count = outs[0], len(outs)
    node.out_layouts = (out0._layout,) if count == 1 else tuple([o._layout for o in outs])
    if modes.watched:
        init_node(node, node.edges, ({"".join(s + ", " for s in saved)}), count)
    else:
{saving}        node.saved = ({quick})
        node.outputs, node.hooks, node.seq = count, None, next_sequence()
    if out0._layout.dtype.category >= 2:
        out0._grad_fn, out0._output_nr, out0._requires_grad = node, 0, True
{refused}    if count > 1:
        attach_others(node, outs{"" if op.smooth is None else f"[:{op.smooth}]"})
    return node
"""
    space = {"Tensor": Tensor, "modes": modes, "Node": node_class, "Bare": bare, "PLAIN": _PLAIN}
    space |= {"new": object.__new__, "next_sequence": next_sequence, "edge_of": edge_of}
    space |= {"SavedInput": SavedInput, "SavedOutput": SavedOutput, "save_static": _save_static}
    space |= {"save_input": save_input, "save_output": save_output, "init_node": init_node}
    space |= {"SavedInferenceTensorError": SavedInferenceTensorError}
    space |= {"unsupported": _unsupported, "attach_others": _attach_others}
    return compile_text(text, space, f"{op.name} record")["record"]


def _given(op, p):
    """The condition that an argument is a tensor; nothing where it always is."""
    options = op.options
    if op.first_scalar or options.get("numbers") or p.name in options.get("numbers_for", ()):
        return f"isinstance({p.name}, Tensor)"
    return f"{p.name} is not None" if p.kind == "optional" else ""


def _edge(p, given, allowed):
    n = p.name
    if p.kind == "tensors":
        return f"*[edge_of(t) if t._requires_grad else None for t in {n}]"
    if n not in allowed:
        return "None"
    present = f"{given[n]} and " if given[n] else ""
    return f"edge_of({n}) if {present}{n}._requires_grad else None"


def _layout(p, given):
    if p.kind == "tensors":
        return f"tuple([t._layout for t in {p.name}])"
    return f"{p.name}._layout" + (f" if {given[p.name]} else None" if given[p.name] else "")


def _saved(name, kinds):
    """What is saved, with hooks or without."""
    kind = kinds.get(name)
    if kind in ("tensor", "optional"):
        return f"save_input({name})"
    if kind in _NUMBERS:
        return name
    if kind is not None:
        return f"{name} if type({name}) in PLAIN else save_static({name})"
    number = 0 if name == "out" else int(name[3:])
    return f"save_output(outs[{number}], {number})"


def _quickly(k, name, kinds, given):
    """Lines that save a tensor as s{k}, where there are no hooks."""
    pad, text = " " * 12, ""
    if name not in kinds:
        number = 0 if name == "out" else int(name[3:])
        return f"{pad}s{k} = SavedOutput(outs[{number}], {number})\n"
    if kinds[name] not in ("tensor", "optional"):
        return ""
    if given[name]:
        text = f"{pad}s{k} = {name}\n{pad}if {given[name]}:\n"
        pad += "    "
    lines = f"s{k} = new(SavedInput)", f"s{k}.tensor = {name}"
    return text + "".join(
        f"{pad}{x}\n" for x in (*lines, f"s{k}.version = +{name}._storage.version")
    )


def _guarded(lines, otherwise):
    """Lines that save tensors, and what to do where one of them may not be saved."""
    if not any(lines):
        return ""
    pad = " " * 8
    return (
        f"{pad}try:\n{''.join(lines)}{pad}except SavedInferenceTensorError:\n{pad}    {otherwise}\n"
    )


def _needed_saves(op, names, kinds, given):
    """A line that saves tensors anew, if one of them is of inference mode: each only if somebody
    who wants a gradient asks for it.
    """
    if op.joint_grad is not None:
        return "raise"
    parts = []
    for k, name in enumerate(names):
        if kinds.get(name) in ("tensor", "optional"):
            users = [p for p, formula in op.grads.items() if name in formula.names]
            wanted = " or ".join(f"getattr({p}, '_requires_grad', False)" for p in users)
            present = f"not ({given[name]}) or " if given[name] else ""
            saved = f"save_input({name})"
            parts.append(f"s{k} = {saved} if {present}{wanted} else None")
        elif name not in kinds:
            number = 0 if name == "out" else int(name[3:])
            parts.append(f"s{k} = SavedOutput(outs[{number}], {number})")
    return "; ".join(parts) or "raise"


def _save_static(value):
    """A static argument, which may be a tensor or hold some."""
    if type(value) in (list, tuple) and any(isinstance(v, Tensor) for v in value):
        return [save_input(v) for v in value]
    return save_input(value)


def _attach_others(node, outs):
    for k in range(1, len(outs)):
        out = outs[k]
        if out._layout.dtype.category >= 2:
            out._grad_fn, out._output_nr, out._requires_grad = node, k, True


def _unsupported(out):
    return RuntimeError(f"Autograd not support dtype: {out._layout.dtype.scalar_name}")
