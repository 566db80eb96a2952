"""Elements as Python numbers, by native readers per dtype: what `item` and `tolist` are made of.

A reader is a builtin that takes an address (and a count, if it gives a list). All readers of a kind
are one small piece of machine code, loaded when the first element is read.
"""

from flambeau import _dtype, errors
from flambeau.eager.kernels import load_functions
from flambeau.runtime.cpu import builtin
from flambeau.runtime.stacks import alone

READERS: dict = {}
LISTS: dict = {}


def reader(dtype):
    """The builtin that reads an element of a dtype, or None where Python code must do it."""
    if not READERS:
        alone(_load, "read", READERS, _dtype.ALL)
    if dtype.name in _dtype.FLOAT8 and dtype not in READERS:
        alone(_load, "read", READERS, _dtype.FLOAT8.values())
    return READERS.get(dtype)


def list_reader(dtype):
    """The builtin that reads elements of a dtype (not a complex one) into a list."""
    if not LISTS:
        alone(_load, "list", LISTS, _dtype.ALL)
    if isinstance(dtype, _dtype.NamedOnly):
        raise errors.not_implemented("_local_scalar_dense_cpu", dtype)
    if dtype not in LISTS:
        alone(_load, "list", LISTS, _dtype.FLOAT8.values())
    return LISTS[dtype]


def _load(kind, found, dtypes):
    from flambeau.codegen.templates import readers  # with llvmlite, on first need

    codes = [d.code for d in dtypes if not d.is_complex]
    ir = (readers.build if kind == "read" else readers.build_lists)(codes)
    addresses = load_functions(ir, [f"{kind}_{c}" for c in codes])
    names = {_dtype.BY_CODE[code]: f"{kind}_{code}" for code in codes}
    # all at once, for threads that see a table that is not empty
    found.update({dtype: builtin(name, addresses[name]) for dtype, name in names.items()})
