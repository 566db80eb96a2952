"""Quick recording and quick derivatives of rows whose formulas work on tensors, as generated text.

`formula.py` says what recording and running a derivative mean; here the same is written out for one
row, without loops over parameters and look-ups by name. Hooks on saved values and anomaly mode go
the general way. Speed outranks prose in the generated text.
"""

from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import SavedInput, SavedOutput, edge_of, next_sequence, unpack
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


def recorder(op, classes, allowed, run, general):
    """A function of the row's parameters that runs it and records it.

    general(bound) does the same with everything that is unusual.
    """
    node_class, bare = classes
    names = [p.name for p in op.params]
    tensors = [p for p in op.params if p.kind in ("tensor", "optional")]
    missing = " or ".join(f"{p.name} is None" for p in tensors if p.kind == "optional")
    kind = f"Bare if {missing} else Node" if bare and missing else "Node"
    bound = ", ".join(f"'{n}': {n}" for n in names)
    edges = "".join(_edge(p, allowed) + ", " for p in tensors)
    layouts = ", ".join(f"'{p.name}': {_layout(p)}" for p in tensors)
    kinds = {p.name: p.kind for p in op.params}
    saved = "".join(_saved(n, kinds) + ", " for n in node_class.saved_names)
    text = f"""def record({", ".join(names)}):
    if modes.saved_hooks or modes.anomaly:
        return general({{{bound}}})
    result = run({", ".join(names)})
    outs = (result,) if isinstance(result, Tensor) else result
    node = new({kind})
    node.edges = ({edges})
    node.layouts = {{{layouts}}}
    node.saved = ({saved})
    node.out_layouts = tuple([o._layout for o in outs])
    node.outputs, node.hooks, node.seq = len(outs), None, next_sequence()
    k = 0
    for o in outs{"" if op.smooth is None else f"[:{op.smooth}]"}:
        if o._layout.dtype.category >= 2:
            o._grad_fn, o._output_nr, o._requires_grad = node, k, True
        k += 1
    return result
"""
    space = {"Tensor": Tensor, "modes": modes, "run": run, "general": general, "Node": node_class}
    space["Bare"] = bare
    space |= {"new": object.__new__, "next_sequence": next_sequence, "edge_of": edge_of}
    space |= {"SavedInput": SavedInput, "SavedOutput": SavedOutput, "save": _save_any}
    space |= {"PLAIN": _PLAIN}
    return compile_text(text, space, f"{op.name} record")["record"]


def _edge(p, allowed):
    if p.name not in allowed:
        return "None"
    given = "" if p.kind == "tensor" else f"{p.name} is not None and "
    return f"edge_of({p.name}) if {given}{p.name}._requires_grad else None"


def _layout(p):
    return f"{p.name}._layout" + (f" if {p.name} is not None else None" * (p.kind == "optional"))


def _saved(name, kinds):
    kind = kinds.get(name)
    if kind == "tensor":
        return f"SavedInput({name})"
    if kind == "optional":
        return f"SavedInput({name}) if {name} is not None else None"
    if kind in _NUMBERS:
        return name
    if kind is not None:
        return f"{name} if type({name}) in PLAIN else save({name})"
    number = 0 if name == "out" else int(name[3:])
    return f"SavedOutput(outs[{number}], {number})"


def _save_any(value):
    """A static argument, which may be a tensor or hold some."""
    if isinstance(value, Tensor):
        return SavedInput(value)
    if type(value) in (list, tuple) and any(isinstance(v, Tensor) for v in value):
        return [SavedInput(v) if isinstance(v, Tensor) else v for v in value]
    return value
