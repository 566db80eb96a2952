"""Readers: CPython builtins that turn elements at an address into Python numbers.

read_<code>(address) gives one number, list_<code>(address, count) a list of those side by side.
"""

from flambeau.codegen.llvm import from_memory
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_names import MEMORY_TYPE
from flambeau.codegen.loops import I64, PTR, Module

_SIGNED, _UNSIGNED = "PyLong_FromLongLong", "PyLong_FromUnsignedLongLong"


def build(codes):
    """IR with a function read_<code> per dtype code."""
    module = Module()
    for code in codes:
        fn = module.function(
            f"read_{code}", [(PTR, "self"), (PTR, "args"), (I64, "count")], result=PTR
        )
        _, args, _ = fn.params
        address = fn.call("PyLong_AsLongLong", I64, fn.load(args, PTR), pure=False)
        pointer = fn.convert("inttoptr", address, PTR)
        fn.ret(number(fn, from_memory(fn, fn.load(pointer, MEMORY_TYPE[code]), code), code))
    return module_text(module)


def build_lists(codes):
    """IR with a function list_<code> per dtype code."""
    module = Module()
    for code in codes:
        fn = module.function(
            f"list_{code}", [(PTR, "self"), (PTR, "args"), (I64, "count")], result=PTR
        )
        _, args, _ = fn.params
        address, count = (
            fn.call("PyLong_AsLongLong", I64, fn.load(fn.gep(args, k, PTR), PTR), pure=False)
            for k in (0, 1)
        )
        pointer = fn.convert("inttoptr", address, PTR)
        found = fn.call("PyList_New", PTR, count, pure=False)
        nothing = fn.value(0, PTR)
        with fn.when(found != nothing), fn.loop(0, count) as i:
            raw = fn.load(fn.gep(pointer, i, MEMORY_TYPE[code]), MEMORY_TYPE[code])
            one = number(fn, from_memory(fn, raw, code), code)
            # where there is no memory for a number, CPython finds the error that this leaves behind
            fn.call("PyList_SetItem", "i32", found, i, one, pure=False)
        fn.ret(found)
    return module_text(module)


def number(fn, value, code):
    """An element as a Python number."""
    if code == "bool":
        return fn.call("PyBool_FromLong", PTR, fn.convert("zext", value, I64), pure=False)
    if code[0] == "f" or code == "bf16":
        wide = fn.convert("fpext", value, "double")
        return fn.call("PyFloat_FromDouble", PTR, wide, pure=False)
    if code[0] == "u":
        return fn.call(_UNSIGNED, PTR, fn.convert("zext", value, I64), pure=False)
    return fn.call(_SIGNED, PTR, fn.convert("sext", value, I64), pure=False)
