"""Models as object files: `compile_to_object(model, example, path)`.

What a model launches for an example is recorded (recording.py) and written to an object file with
its kernels, its weights and a C function that takes pointers; a header says how to call it. A C
program then runs the model without Python. Sizes are those of the example.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from flambeau.autograd.grad_mode import no_grad
from flambeau.compiler import playing, recording
from flambeau.compiler.lifetimes import LINE, laid_out, padded
from flambeau.compiler.recording import Recording, Spoiled, base_of
from flambeau.eager import kernels
from flambeau.func import functional_call
from flambeau.runtime import cpu
from flambeau.utils._pytree import tree_leaves

TYPES = {
    "f32": "float", "f64": "double", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t",
    "i64": "int64_t", "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "bool": "uint8_t", "f16": "uint16_t", "bf16": "uint16_t", "c32": "uint16_t", "c64": "float",
    "c128": "double",
}  # fmt: skip


def compile_to_object(
    model: Any, example: Any, path: Any, *, name: str = "", weights: str = "inside"
) -> Path:
    """Write a model to an object file (or, for a path that ends in .so, a shared library).

    example: a tensor, or a tuple of the model's arguments. weights: "inside" of the file, or
    "beside" it in `<path>.weights`, which a program hands over by `<name>_weights(data)` before the
    first call. A header is written beside the file. Returns the path of the header.

    Example:
        >>> flambeau.compile_to_object(model, x, "model.o")  # doctest: +SKIP
    """
    if weights not in ("inside", "beside"):
        raise ValueError(f"weights must be 'inside' or 'beside', not {weights!r}")
    path = Path(path)
    name = name or "".join(c if c.isalnum() else "_" for c in path.stem)
    if not name.isidentifier():
        raise ValueError(f"{name!r} is no name for a C function; say another one with name=")
    if not recording.can_record():
        raise RuntimeError("models cannot be recorded in this process")
    written = _Written(model, example if isinstance(example, tuple) else (example,), name)
    code, data = written.object(weights == "inside")
    if path.suffix in (".so", ".dylib"):
        code = _shared(code)
    path.write_bytes(code)
    if weights == "beside":
        path.with_name(path.name + ".weights").write_bytes(data)
    header = path.with_suffix(".h")
    header.write_text(written.header(weights == "inside"))
    return header


def _shared(code: bytes) -> bytes:
    """An object as a shared library, by whatever linker there is."""
    linker = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if linker is None:
        raise RuntimeError(
            "a shared library needs a linker (cc); write an object file (.o) instead"
        )
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "model.o"), Path(folder, "model.so")
        source.write_bytes(code)
        subprocess.run([linker, "-shared", "-o", str(target), str(source)], check=True)
        return target.read_bytes()


class _Written:
    """A recorded model."""

    def __init__(self, model, example, name):
        self.name, self.example = name, example
        held = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        self.weights = [t.detach() for t in held.values()]
        inputs = list(tree_leaves(example))
        self.inputs = [t.detach().clone() for t in inputs]

        def run(*tensors):
            given, rest = tensors[: len(inputs)], tensors[len(inputs) :]
            return tree_leaves(functional_call(model, dict(zip(held, rest)), given))

        leaves = [*self.inputs, *[t.clone() for t in self.weights]]
        starts = [t._storage.pointer for t in leaves if t._storage.nbytes]
        if len(starts) != len(set(starts)):
            raise RuntimeError("arguments of a model that share memory cannot be told apart")
        with no_grad():
            run(*leaves)  # kernels and tables that are made once
            self.run = Recording([base_of(t) for t in leaves])
            try:
                self.outs = list(self.run.run(lambda: run(*leaves)))
                self.run.moves()
            except Spoiled as why:
                raise RuntimeError(f"this model cannot be written to a file: {why}") from None
        if self.run.draws():
            raise RuntimeError("this model draws random numbers; call model.eval() first")
        plan = self.run.plan([("input", k) for k in range(len(leaves))], "fresh")
        self.run.launches = plan.launches(lambda block: block[0] != "arena")
        self.memory = playing.Memory(self.run, self.outs)

    def object(self, inside):
        """(the object file, weights as bytes)"""
        from flambeau.codegen.standalone import Address, Function, Writer

        run, writer = self.run, Writer(self.name, kernels.source_of)
        inputs, weights, outs = len(self.inputs), len(self.weights), len(self.outs)
        # bases of the program: inputs, outputs, weights (one piece), room to work in
        first_weight, places, data = inputs + outs, [], bytearray()
        for t in self.weights:
            data += bytes(-len(data) % LINE)
            places.append(len(data))
            data += cpu.read_bytes(t._storage.pointer + t._offset, t._layout.nbytes)
        where = {k: (k, 0) for k in range(inputs)}
        where |= {inputs + k: (first_weight, at) for k, at in enumerate(places)}
        count, found = inputs + weights, run.moves()
        room, size = laid_out(run.lives(found))
        where |= {base: (first_weight + 1, at) for base, at in room.items()}
        for which, block in enumerate(run.fresh):
            whole = self.memory.whole.get(which)
            if whole is not None and self.memory.found[whole].offset == 0:
                where[count + which] = inputs + whole, 0
            else:
                where[count + which] = first_weight + 1, size
                size += padded(block.size)
        moves = {}
        for base, by, launch, place, word in found:
            to, shift = where[base]
            moves[launch, place, word] = Address(to, by + shift)
        for k, launch in enumerate(run.launches):
            arguments = []
            for place, value in enumerate(launch.arguments):
                if type(value) is bytes:
                    value = [
                        moves.get((k, place, n)) or _word(w, Function)
                        for n, w in enumerate(cpu.words_of(value))
                    ]
                arguments.append(moves.get((k, place, None), value))
            writer.launch(launch.definition, arguments)
        for k in range(outs):  # what is no whole block of its own is copied at the end
            if k not in self.memory.whole.values():
                raise RuntimeError("a result of this model is a view of something else")
        bases = [f"%p{k}" for k in range(inputs + outs)]
        variables = []
        if inside:
            bases.append(writer.data(bytes(data)))
        else:
            variables.append(f"@{self.name}_data = internal global ptr null")
            variables.append(
                f"define void @{self.name}_weights(ptr %data) {{\n"
                f"  store ptr %data, ptr @{self.name}_data\n  ret void\n}}"
            )
            bases.append(f"load @{self.name}_data")
        bases.append(writer.room(max(size, LINE)))
        return writer.object(writer.text(bases, inputs + outs, variables)), bytes(data)

    def header(self, inside):
        """The C header."""
        lines = [
            f"/* {self.name}: a model that flambeau wrote. One call at a time. */",
            "#pragma once",
            "#include <stdint.h>",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
        ]
        parameters = []
        for letter, tensors in (("in", self.inputs), ("out", self.outs)):
            for k, t in enumerate(tensors):
                kind = TYPES[t.dtype.code]
                sizes = " x ".join(map(str, t.shape)) or "1"
                numbers = t.numel() * (2 if t.dtype.is_complex else 1)
                lines.append(f"/* {letter}{k}: {sizes}, {t.dtype} */")
                lines.append(f"#define {self.name.upper()}_{letter.upper()}{k}_NUMBERS {numbers}")
                constant = "const " if letter == "in" else ""
                parameters.append(f"{constant}{kind} *{letter}{k}")
        if not inside:
            lines.append(f"/* the content of the file with the weights, aligned to {LINE} bytes */")
            lines.append(f"void {self.name}_weights(const void *data);")
        lines.append("/* 0, or 1 if an index was out of range */")
        lines.append(f"int {self.name}({', '.join(parameters)});")
        lines += ["#ifdef __cplusplus", "}", "#endif", ""]
        return "\n".join(lines)


def _word(word, function):
    """A word of a description: a number, or the address of a native function."""
    if word < recording.LOWEST:
        return word
    if word not in kernels.sources:
        raise RuntimeError("a kernel of this model is given memory that nobody knows")
    return function(word)
