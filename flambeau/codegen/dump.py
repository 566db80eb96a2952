"""Every stage of a kernel as text: scalar expression, nest, LLVM IR after each pass, assembly.

`record` collects the kernels that are loaded inside a `with`; the functions below print them. The
row a kernel came from is known to the caller (`python -m flambeau explain`), not here.
"""

import re
import struct
from contextlib import contextmanager
from typing import NamedTuple

from flambeau.codegen import scalar

STAGES = ("scalar", "nest", "llvm", "passes", "assembly", "device")


class Kernel(NamedTuple):
    """A kernel as it was handed to LLVM."""

    name: str
    ir: str
    nest: object = None  # the pointwise nest it was built from, if it was
    gpu: dict | None = None  # facts of a kernel of a GPU: how it works, registers, ptx()


seen: list | None = None  # where load_kernel leaves kernels while somebody records


@contextmanager
def record():
    """Collect the kernels loaded meanwhile (those in memory already are not loaded again)."""
    global seen
    before, seen = seen, []
    try:
        yield seen
    finally:
        seen = before


def describe(kernel, stage):
    """One stage of a kernel as text; None if the kernel has no such stage."""
    return {
        "scalar": scalar_text, "nest": nest_text, "llvm": llvm_text, "passes": passes_text,
        "assembly": assembly_text, "device": device_text,
    }[stage](kernel)  # fmt: skip


def scalar_text(kernel):
    """The value of one element, in the scalar language."""
    if kernel.nest is None:
        return None
    parts = []
    for k, value in enumerate(kernel.nest.values):
        parts.append(f"out{k} =\n{scalar.show(value)}" if k else scalar.show(value))
    return "\n".join(parts)


_ACCESS = {"c": "side by side", "r": "backwards", "s": "one value for all", "n": "with a stride"}


def nest_text(kernel):
    """The loops around it: what is read and written, and how."""
    from flambeau.codegen.build import vector_width  # with llvmlite, which dumping alone needs

    nest = kernel.nest
    if nest is None:
        return None
    lines = [f"for each of {nest.rank} outer dimensions" if nest.rank else "one run of elements"]
    lines.append(f"  for vectors of {vector_width(nest)} elements, the last one masked")
    for kind, operands in (("read arg", nest.inputs), ("write out", nest.outputs)):
        for k, (dtype, access) in enumerate(operands):
            lines.append(f"    {kind}{k}: {dtype}, {_ACCESS[access]}")
    for k, kind in enumerate(nest.scalars):
        lines.append(
            f"    arg{len(nest.inputs) + k}: a number ({'double' if kind == 'f' else 'i64'})"
        )
    return "\n".join(lines)


def llvm_text(kernel):
    """The IR of the body, as written."""
    return functions(kernel.ir)


def passes_text(kernel):
    """The IR of the body after each pass."""
    if kernel.gpu is not None:
        return None  # LLVM's usual ones
    parts, before = [], None
    for title, ir in after_each_pass(kernel.ir):
        text = functions(ir)
        parts.append(f"; after: {title}\n{text if text != before else '; (no change)'}")
        before = text
    return "\n\n".join(parts)


def after_each_pass(ir):
    """(title, IR text) pairs, one per pass."""
    from flambeau.codegen import llvm_cpu  # with llvmlite

    found = []
    for count, (title, _) in enumerate(llvm_cpu.PASSES, 1):
        with llvm_cpu.host().lock:
            found.append((title, str(llvm_cpu.optimise(llvm_cpu.parse(ir), count))))
    return found


def functions(ir):
    """The functions of a module without the one that unpacks Python's arguments."""
    bodies = re.findall(r"^define .*?^}", ir, re.M | re.S)
    kept = [b for b in bodies if not re.match(r"define [^\n]*@entry\(", b)]
    return readable("\n\n".join(kept or bodies))


def readable(ir):
    """Vectors of equal numbers as one, and doubles in decimals."""

    def shorten(match):
        items = match[1].split(", ")
        return f"splat ({items[0]})" if len(set(items)) == 1 and len(items) > 1 else match[0]

    def decimal(match):
        return repr(struct.unpack(">d", bytes.fromhex(match[1]))[0])

    ir = re.sub(r"<((?:float|double|i\d+) [^<>]*)>", shorten, ir)
    return re.sub(r"\b0x([0-9A-F]{16})\b", decimal, ir)


def assembly_text(kernel):
    """The machine code of the body; PTX for a GPU."""
    if kernel.gpu is not None:
        return kernel.gpu["ptx"]()
    from flambeau.codegen import llvm_cpu  # with llvmlite

    text = llvm_cpu.assembly(kernel.ir)
    # from the label of each function to its end mark; directives carry no code
    found = []
    for name, body in re.findall(
        r"^(\w+):\s*(?:#[^\n]*)?\n(.*?)^\.?L?func_end\d+:", text, re.M | re.S
    ):
        if name != "entry":
            found.append(f"{name}:\n{_code(body)}")
    return "\n\n".join(found) or _code(text)


def device_text(kernel):
    """What is known of a kernel of a GPU besides its text."""
    if kernel.gpu is None:
        return None
    facts = {name: value for name, value in kernel.gpu.items() if name != "ptx"}
    return "\n".join(f"{name}: {value}" for name, value in facts.items())


def _code(text):
    lines = [line.split("#")[0].rstrip() for line in text.splitlines()]
    return "\n".join(x for x in lines if x.strip() and not re.match(r"\s+\.(?!L)|^\.Lfunc", x))
