"""What stands between a call and a kernel, as text: generated functions, plans, descriptions.

For `python -m flambeau explain`, which shows these before the stages of the kernel itself.
"""

import struct

from flambeau._layout import Layout
from flambeau.codegen.descriptions import Reducing, Walk
from flambeau.eager.fragments import TEXTS
from flambeau.eager.pointwise import Pointwise
from flambeau.eager.reducing import Reducer
from flambeau.ops.table import TABLE


def texts(name):
    """The functions that were generated for a row."""
    found = [f"# {title}\n{text}" for title, text in TEXTS.items() if title.split(" ")[0] == name]
    return "\n".join(found).rstrip() or None


def plans(name):
    """The plans that a row keeps at the moment, with the words of their launches."""
    op = TABLE.get(name)
    runtime = op.runtime if op is not None else None
    lines = []
    if isinstance(runtime, Pointwise):
        for variant in runtime.variants.values():
            family = variant.family
            for kept in (family.sorts, family.plans, family.into):
                lines += _listed(kept, Walk)
    elif isinstance(runtime, Reducer):
        lines += _listed(runtime.sorts, Reducing) + _listed(runtime.plans, Reducing)
    return "\n".join(lines) or None


def _listed(kept, words):
    lines = []
    for key, plan in kept.items():
        if plan is not None:
            lines.append(f"{_shown(key)}")
            lines += [f"    {_result(part, words)}" for part in plan if part is not None]
    return lines


def _shown(key):
    parts = key if isinstance(key, tuple) else (key,)
    return ", ".join(p.__name__ if isinstance(p, type) else repr(p) for p in parts)


def _result(part, words):
    if type(part) is bytes:
        return "description: " + _described(struct.unpack(f"{len(part) // 8}q", part), words)
    if type(part) is Layout:
        return f"result: {part}"
    return f"kernel: {part}" if callable(part) else f"{type(part).__name__}"


def _described(values, words):
    """Words by name; a first word of 0 says that the kernel works out the others itself."""
    if values[0] == 0:
        return f"any number of elements, told at the call; {list(values[1:])}"
    head = [f"{n}={v}" for n, v in zip(words._fields, values)]
    return ", ".join(head) + f"; sizes and strides {list(values[len(head) :])}"
