"""Records the public names of torch.optim and their signatures: writes optim.json beside this file.

A signature is a list of parameters, each with its kind and the text of its default.
"""

import inspect
import json
import pathlib

HERE = pathlib.Path(__file__).parent
MODULES = ["optim", "optim.lr_scheduler", "optim.swa_utils"]


def parameters(function):
    """[name, kind, default] of every parameter."""
    return [
        [p.name, p.kind.name, None if p.default is p.empty else repr(p.default)]
        for p in inspect.signature(function).parameters.values()
    ]


def surface(value):
    """What can be called on a public value: the value itself and, of classes, public methods."""
    if inspect.ismodule(value):
        return {}
    found = {"()": parameters(value)}
    if inspect.isclass(value):
        for name, member in inspect.getmembers(value):
            hook_types = name in ("OptimizerPreHook", "OptimizerPostHook")
            if not name.startswith("_") and callable(member) and not hook_types:
                found[name] = parameters(member)
    return found


def names_of(lib):
    """{module: {name: surface}} for one library."""
    found = {}
    for path in MODULES:
        module = lib
        for part in path.split("."):
            module = getattr(module, part)
        found[path] = {name: surface(getattr(module, name)) for name in sorted(module.__all__)}
    return found


if __name__ == "__main__":
    import torch

    # methods of modules are recorded with nn
    recorded = names_of(torch)
    recorded["optim.swa_utils"]["AveragedModel"] = {
        name: found
        for name, found in recorded["optim.swa_utils"]["AveragedModel"].items()
        if name in ("()", "forward", "update_parameters")
    }
    lines = []
    for path, names in recorded.items():
        rows = ",\n".join(f"{json.dumps(n)}: {json.dumps(s)}" for n, s in names.items())
        lines.append(f'"{path}": {{\n{rows}\n}}')
    head = f'"torch": "{torch.__version__}"'
    (HERE / "optim.json").write_text("{" + ",\n".join([head, *lines]) + "}\n")
