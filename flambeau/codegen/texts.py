"""Generated Python: what a long text was compiled to is kept on disk, as kernels are.

The key is a hash of the text, of the name that tracebacks show, and of the interpreter that made
code of it; the entry is as safe as that of a kernel (cache.py).
"""

import importlib.util
import marshal
import sys
import types

from flambeau.codegen import cache

LONG = 1 << 14  # characters from which on looking for it is quicker than compiling it
_PYTHON = f"python {sys.version} {importlib.util.MAGIC_NUMBER!r} {sys.flags.optimize}"


def code_of(text: str, filename: str) -> types.CodeType:
    """The code of a module's text."""
    if len(text) < LONG:
        return compile(text, filename, "exec", dont_inherit=True)
    key = cache.key_of(text, f"{_PYTHON} {filename}")
    found = _loaded(cache.read(key))
    if found is None:
        found = compile(text, filename, "exec", dont_inherit=True)
        cache.write(key, marshal.dumps(found))
    return found


def _loaded(image):
    try:
        found = None if image is None else marshal.loads(image)
    except (ValueError, EOFError, TypeError):
        return None
    return found if isinstance(found, types.CodeType) else None
