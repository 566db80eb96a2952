"""Names and signatures of a namespace of classes, as plain text that can be recorded."""

import inspect
import re
import types


def signature_of(function):
    """Parameters with their kinds and defaults, without annotations."""
    found = inspect.signature(function)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    text = str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    return re.sub(r" at 0x\w+", "", text.replace("flambeau", "torch"))


def class_signatures(cls, base):
    """What a class is made with, and its methods beyond those of the base class."""
    found = {"__init__": signature_of(cls.__init__)}
    for name in dir(cls):
        value = inspect.getattr_static(cls, name)
        if name.startswith("_") or not isinstance(value, (type(signature_of), classmethod)):
            continue
        if cls is base or getattr(base, name, None) is not getattr(cls, name):
            found[name] = signature_of(getattr(cls, name))
    return found


def functions(namespace):
    """Public functions of a namespace, with the names of their parameters where they are told."""
    found = {}
    for name in dir(namespace):
        value = getattr(namespace, name)
        module = getattr(value, "__module__", None) or namespace.__name__
        own = module == namespace.__name__ or isinstance(value, types.BuiltinFunctionType)
        own = own and "torch_function" not in name
        if name.startswith("_") or not own or isinstance(value, type) or not callable(value):
            continue
        try:
            named = inspect.signature(value).parameters.values()
        except ValueError:  # written in C++
            found[name] = None
            continue
        told = [p.name for p in named if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        found[name] = told or None
    return found


# methods that only other makers' devices, or several devices, have a use for
LEFT_OUT = {
    "Module": ("ipu", "xpu", "mtia"),
    "DataParallel": ("gather", "parallel_apply", "replicate", "scatter"),
}


def signatures(nn):
    """Classes of a namespace, by name; parameters and buffers are tensors and not among them."""
    found = {
        name: class_signatures(value, nn.Module)
        for name, value in sorted(vars(nn).items())
        if inspect.isclass(value) and issubclass(value, nn.Module) and not name.startswith("_")
    }
    for name, methods in LEFT_OUT.items():
        for method in methods:
            found.get(name, {}).pop(method, None)
    return found
