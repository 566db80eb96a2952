"""Run words as machine code on NumPy arrays: the smallest kernel around an expression, without ops.

`call` has the signature of `interpret.call`, so that a test can hold one against the other.
"""

import ctypes
from functools import cache

import numpy as np

from flambeau.codegen import llvm_cpu
from flambeau.codegen.llvm import LLVM_TYPE, Emitter
from flambeau.codegen.loops import I64, PTR, Module, bytes_of, vector
from flambeau.codegen.scalar import Complex, argument
from tests.codegen.interpret import SHORT, TYPES


@cache
def compiled(word, types, is_complex):
    """A function on pointers, a length, and the types of its results."""
    parameters = [argument(k, t) for k, t in enumerate(types)]
    if is_complex:
        parameters = [Complex(*parameters[k : k + 2]) for k in range(0, len(types), 2)]
    result = word(*parameters)
    results = (result.re, result.im) if isinstance(result, Complex) else (result,)
    kinds = [LLVM_TYPE[t] for t in (*types, *(r.type for r in results))]
    width = llvm_cpu.host().target.vector_bytes // max(map(bytes_of, kinds))
    module = Module()
    fn = module.function("body", [(PTR, f"p{k}") for k in range(len(kinds))] + [(I64, "n")])
    *pointers, n = fn.params
    with fn.loop(0, n, width) as i:
        places = [fn.gep(p, i, kind) for p, kind in zip(pointers, kinds)]
        loaded = [
            fn.load(place, vector(kind, width), bytes_of(kind))
            for place, kind in zip(places[: len(types)], kinds)
        ]
        emitter = Emitter(fn, width, loaded)
        values = [emitter.emit(r) for r in results]
        for value, place, kind in zip(values, places[len(types) :], kinds[len(types) :]):
            fn.store(value, place, bytes_of(kind))
    fn.ret()
    text = module.text(llvm_cpu.host().target.attributes)
    address = llvm_cpu.link(llvm_cpu.compile_object(text), ["body"])["body"]
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(kinds), ctypes.c_int64)
    return prototype(address), tuple(r.type for r in results)


def call(word, *arrays):
    """word(*arrays) through the emitter and LLVM."""
    is_complex = any(np.asarray(a).dtype.kind == "c" for a in arrays)
    parts = []
    for a in np.broadcast_arrays(*arrays):
        parts += [a.real, a.imag] if is_complex else [a]
    size = parts[0].size
    padding = -size % 64
    flat = [np.concatenate([p.ravel(), np.ones(padding, p.dtype)]) for p in parts]
    run, types = compiled(word, tuple(SHORT[f.dtype] for f in flat), is_complex)
    results = [np.empty(size + padding, TYPES[t]) for t in types]
    run(*(f.ctypes.data for f in [*flat, *results]), size + padding)
    results = [r[:size].reshape(parts[0].shape) for r in results]
    if len(results) == 1:
        return results[0]
    out = np.empty(parts[0].shape, np.result_type(results[0].dtype, np.complex64))
    out.real, out.imag = results
    return out
