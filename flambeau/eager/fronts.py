"""Quick public functions for templates and composites.

The general function of a row (binding.row_function) binds by names, checks and normalises; that
takes microseconds. A front is generated text with the row's own signature: if every argument
already has the plain type the row wants, it calls the launcher (or the body) at once; everything
unusual goes to the general function. Speed outranks prose in the generated text.
"""

import keyword

from flambeau._dtype import dtype
from flambeau._memory_format import layout, memory_format
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import modes
from flambeau.eager.binding import bind, judged
from flambeau.eager.formula import recorder
from flambeau.eager.fragments import allocated, compile_text, indented
from flambeau.ops.table import MISSING, REQUIRED

_PLAIN = {
    "tensor": "isinstance({n}, Tensor)",
    "optional": "({n} is None or isinstance({n}, Tensor))",
    "static": "type({n}) is not list",
    "tensors": "(type({n}) is list or type({n}) is tuple)",
}
_TYPED = {
    "bool": "({n} is True or {n} is False)",
    "int": "type({n}) is int",
    "ints": "(type({n}) is int or _integers({n}))",
    "sizes": "type({n}) is int",  # lists are looked at
    "int list": "_integers({n})",
    "ints or str": "(type({n}) is int or type({n}) is str or _integers({n}))",
    "indices": "type({n}) is tuple",
    "float": "type({n}) is float",
    "Scalar": "type({n}) in NUMBERS",
    "str": "type({n}) is str",
    # parameters are called like the classes, so the text knows these by other names
    "dtype": "type({n}) is a_dtype",
    "memory_format": "type({n}) is a_memory_format",
    "layout": "type({n}) is a_layout",
}
WHOLE = ("int", "ints", "int list", "ints or str", "sizes")
_NUMBERS = frozenset((bool, int, float, complex))
_DTYPES = (dtype, type(None))


def quick_function(op, run, general, recording=False):
    """A front for general; run takes all parameters in order. recording: is it told to autograd?"""
    params, varargs = op.params, op.options.get("varargs")
    kinds = [p.kind for p in params]
    if kinds[:1] == ["tensors"] and not varargs and recording:
        return _list_function(op, run, general)
    if "tensors" in kinds or kinds[:1] != ["tensor"]:
        return general
    if varargs:
        if len(params) != 2:
            return general
        text = _packing_text(op)
    else:
        text = _plain_text(op)
    text += _call_text(op, recording)
    return compile_text(text, _space(op, run, general), f"{op.name} front")[op.name]


def _space(op, run, general):
    """What the text of a front refers to."""
    return {
        "Tensor": Tensor,
        "NUMBERS": _NUMBERS,
        "NOTHING": MISSING,
        "a_dtype": dtype,
        "a_memory_format": memory_format,
        "a_layout": layout,
        "modes": modes,
        "run": run,
        "general": general,
        "record": recorder(op) if op.is_differentiable else None,
        "needed": lambda value: () if value is REQUIRED else (value,),
        "judged": lambda error, values: judged(op, error, values),
        **{f"_d_{p.name}": p.default for p in op.params},
    }


def _written(p):
    """A parameter's name in the text; that of uniform_(from, to) is a word of Python."""
    return p.name + "_" if keyword.iskeyword(p.name) else p.name


def _list_function(op, run, general):
    """A front for rows of a sequence of tensors, such as cat.

    A launcher may have `plans`, keyed by its other arguments and the layouts: then it does no more
    than what is written out here. `stacks`: is it the native maker's way to join for dim 0?
    """
    first, *rest = [_written(p) for p in op.params]
    others = "".join(f"{n}, " for n in rest)
    launched = f"        out0 = run({first}, {others})\n"
    if hasattr(run, "plans"):
        launched = (
            f"        out0 = None if dim else _joined({first}, {run.stacks})\n"
            "        if out0 is None:\n"
            f"            key = ({others}*[t._layout for t in {first}],)\n"
            "            layout0, kernel, desc, pack = plans[key]\n"
            f"            places = pack(*[t._storage.pointer + t._offset for t in {first}])\n"
            f"{indented(indented(allocated(1)))}"
            "            kernel(desc, p0, places, 0)\n"
        )
    text = _plain_text(op) + (
        "    try:\n"
        f"{launched}"
        f"        for t in {first}:\n"
        "            if t._requires_grad:\n"
        "                if modes.grad:\n"
        f"                    record((out0,), {first}, {others})\n"
        "                break\n"
        "        return out0\n"
        "    except AttributeError:  # not all of them are tensors\n"
        f"        return general({first}, {others})\n"
        f"    except Exception as error:\n        raise judged(error, {_by_name(op)})\n"
    )
    space = {**_space(op, run, general), "plans": getattr(run, "plans", None)}
    return compile_text(text, space, f"{op.name} front")[op.name]


def kernel_unless_recorded(run):
    """A front for composites with a kernel: the body runs only where the call is recorded.

    That is how backward rows are differentiated again: their bodies are written in other ops.
    """

    def build(op, general):
        typed = next((k for k, p in enumerate(op.params) if p.wants == "dtype"), None)

        def function(*args, **kwargs):
            if kwargs:
                return general(*args, **kwargs)
            if typed is not None and not isinstance(args[typed:] and args[typed], _DTYPES):
                return general(*args)
            if modes.grad:
                for a in args:
                    if isinstance(a, Tensor) and a._requires_grad:
                        return op.body(*args)
            try:
                return run(*args)
            except (AttributeError, TypeError):
                bind(op, args, {})  # for its complaints, which come first
                raise

        return function

    return build


def _plain_text(op):
    parts, starred, alone = [], False, "strictly_alone" in op.options
    for p in op.params:
        if (p.keyword_only or (alone and parts)) and not starred:
            parts.append("*rest" if alone or op.options.get("old_orders") else "*")
            starred = True
        missing = alone and p.name == op.options["strictly_alone"]
        parts.append(f"{_written(p)}={'NOTHING' if missing else '_d_' + p.name}")
        if _written(p) != p.name:  # by its true name it is one of kwargs
            parts.append("/")
    parts += ["out=None"] if starred else ["*", "out=None"]
    conditions = " and ".join(_condition(p) for p in op.params)
    # what must be there goes on by position, which complaints tell; the rest by name
    needed, named = [], list(op.params)
    while named and named[0].default is REQUIRED and not named[0].keyword_only:
        needed.append(f"*needed({_written(named.pop(0))})")
    defaults = ["NOTHING" if alone and p.keyword_only else f"_d_{p.name}" for p in named]
    given = "".join(f"('{p.name}', {_written(p)}, {d}), " for p, d in zip(named, defaults))
    more = "*rest, " if alone or op.options.get("old_orders") else ""
    return (
        f"def {op.name}({', '.join(parts)}, **kwargs):\n"
        f"{_unpacked(op) if alone else ''}"
        f"    if kwargs{more and ' or rest'} or out is not None or not ({conditions}):\n"
        f"        given = {{n: v for n, v, d in ({given}) if v is not d}}\n"
        "        if out is not None:\n"
        "            given['out'] = out\n"
        f"        return general({''.join(n + ', ' for n in needed)}{more}**given, **kwargs)\n"
    )


def _unpacked(op):
    """Lines that name what came by position, unless something is given that forbids it."""
    alone = op.options["strictly_alone"]
    text = f"    if {alone} is NOTHING:\n        {alone} = _d_{alone}\n        if rest:\n"
    names = [q.name for q in op.params[1:] if not q.keyword_only]
    for k in range(1, len(names) + 1):
        text += f"            if len(rest) == {k}:\n"
        text += f"                {', '.join(names[:k])}, = rest\n                rest = ()\n"
    return text


def _condition(p):
    """Is an argument of the plain type that the row wants?"""
    text = _TYPED[p.wants] if p.wants else _PLAIN[p.kind]
    found = text.format(n=_written(p))
    none = p.may_be_none or p.default is None
    return f"({_written(p)} is None or {found})" if none else found


def _packing_text(op):
    """f(input, 1, 2) and f(input, (1, 2)): the rest becomes a tuple."""
    first, rest = (p.name for p in op.params)
    listed = " or type(args[0]) is int" if op.options.get("listed") else ""
    return (
        f"def {op.name}({first}, *args, **kwargs):\n"
        f"    if kwargs or not args or not isinstance({first}, Tensor){listed}:\n"
        f"        return general({first}, *args, **kwargs)\n"
        f"    {rest} = args[0] if type(args[0]) is tuple and len(args) == 1 else args\n"
        f"    if not {rest} or not _integers({rest}):\n"
        f"        return general({first}, *args)\n"
    )


def _call_text(op, recording):
    names = [_written(p) for p in op.params]
    arguments = ", ".join(names)
    if not recording:  # the body of a composite, which has its own keyword-only parameters
        arguments = ", ".join(f"{p.name}={p.name}" if p.keyword_only else p.name for p in op.params)
    text = f"result = run({arguments})\n"
    if recording and op.is_differentiable:
        needs = " or ".join(
            f"{p.name}._requires_grad"
            if p.kind == "tensor"
            else f"({p.name} is not None and {p.name}._requires_grad)"
            for p in op.params
            if p.kind in ("tensor", "optional")
        )
        text += f"if ({needs}) and modes.grad:\n"
        outs = "(result,) if isinstance(result, Tensor) else result"
        text += f"    record({outs}, {arguments})\n"
    return _judged_text(op, text + "return result\n", _by_name(op))


def _by_name(op):
    """The arguments of a row by their names, in the text of a front."""
    return "{" + ", ".join(f"'{p.name}': {_written(p)}" for p in op.params) + "}"


def _judged_text(op, text, by_name):
    """Lines that run a row; integers that are too large are found where something else was."""
    if not any(p.wants in (*WHOLE, "indices") for p in op.params):
        return indented(text)
    return (
        f"    try:\n{indented(indented(text))}"
        f"    except Exception as error:\n        raise judged(error, {by_name})\n"
    )
