"""The unpickler behind weights_only=False: any class and function, with torch's names found here.

A pickle can run any code, so this is for files whose source is trusted.
"""

import importlib
import io

from flambeau.serialization.rebuilding import ALLOWED

_BUILTIN = ("builtins", "__builtin__", "collections", "_codecs")
# where functions of PyTorch say that they live
_HOMES = {
    "torch._C._nn": "flambeau.nn.functional",
    "torch._C._VariableFunctions": "flambeau",
    "torch._VF": "flambeau",
}


def find_here(module, name):
    """What a name of torch stands for in flambeau; None for the names of others."""
    if module not in _BUILTIN and f"{module}.{name}" in ALLOWED:
        return ALLOWED[f"{module}.{name}"]
    if f"{module}.{name}" == "torch.storage._load_from_bytes":
        return _load_from_bytes
    package, _, rest = module.partition(".")
    if package not in ("torch", "torchvision", "flambeau"):
        return None
    root = "flambeau.vision" if package == "torchvision" else "flambeau"
    here = _HOMES.get(module) or (f"{root}.{rest}" if rest else root)
    # some files of PyTorch's nn are several here; all their classes are in nn itself
    for place in (here, "flambeau.nn") if rest.startswith("nn.") else (here,):
        try:
            return _attribute(importlib.import_module(place), name)
        except (ImportError, AttributeError):
            continue
    raise AttributeError(
        f"Can't get attribute '{name}' on module '{module}'; the file speaks of a part of PyTorch "
        "that flambeau does not have under this name"
    )


def _attribute(found, path):
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _load_from_bytes(data):
    # a storage that was pickled without torch.save is a whole file of its own
    from flambeau.serialization import load

    return load(io.BytesIO(data), weights_only=False)


def unpickle(file, persistent_load, pickle_module, arguments):
    """One pickle of a file."""

    class Unpickler(pickle_module.Unpickler):
        def find_class(self, module, name):
            found = find_here(module, name)
            return super().find_class(module, name) if found is None else found

        def persistent_load(self, identity):
            return persistent_load(identity)

    return Unpickler(file, **arguments).load()
