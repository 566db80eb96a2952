"""One element as a Python number, by a native reader per dtype: what `item` and `bool` are made of.

A reader is a builtin that takes an address. All readers are one small piece of machine code, loaded
when the first element is read.
"""

from flambeau import _dtype
from flambeau.eager.kernels import load_functions
from flambeau.runtime.cpu import builtin

READERS: dict = {}


def reader(dtype):
    """The builtin that reads an element of a dtype, or None where Python code must do it."""
    if not READERS:
        _load()
    return READERS.get(dtype)


def _load():
    from flambeau.codegen.templates import readers  # with llvmlite, on first need

    codes = [d.code for d in _dtype.ALL if not d.is_complex]
    addresses = load_functions(readers.build(codes), [f"read_{c}" for c in codes])
    for code in codes:
        READERS[_dtype.BY_CODE[code]] = builtin(f"read_{code}", addresses[f"read_{code}"])
