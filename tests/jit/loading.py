"""The programs of programs.py in flambeau and in PyTorch, and comparisons of their results."""

import enum
import functools
import importlib.util
import os
import pathlib
import re
import sys
import tempfile

import flambeau

HERE = pathlib.Path(__file__).parent


@functools.cache
def programs(library="flambeau", name="programs"):
    """A file of programs, with one library or the other under the name of torch."""
    text = (HERE / f"{name}.py").read_text()
    if library == "flambeau":
        text = text.replace("import torch.nn.functional", "import flambeau.nn.functional")
        text = text.replace("import torch\n", "import flambeau as torch\n")
        text = text.replace("from torch import", "from flambeau import")
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, f"{name}.py")
    with open(path, "w") as file:
        file.write(text)
    # both under one name, since names of programs have their module's name in them
    spec = importlib.util.spec_from_file_location(f"jit_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[f"jit_{name}"] = module
    spec.loader.exec_module(module)
    return module


def plain(value):
    """Tensors of any library as lists with their dtypes; all else as it is."""
    if hasattr(value, "detach"):
        value = value.detach()
        return ("tensor", str(value.dtype), tuple(value.shape), value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def close(a, b, tolerance=1e-5):
    """Are two plain values the same, up to rounding?"""
    if isinstance(a, enum.Enum):
        return str(a) == str(b)
    if isinstance(a, (list, tuple)):
        return (
            isinstance(b, (list, tuple))
            and len(a) == len(b)
            and all(close(x, y, tolerance) for x, y in zip(a, b))
        )
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k], tolerance) for k in a)
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= tolerance * max(1.0, abs(a)) or (a != a and b != b)
    return type(a) is type(b) and a == b


def copied_inputs(inputs):
    return [i.clone() if hasattr(i, "clone") else i for i in inputs]


def fill(model):
    """Give parameters and buffers numbers that are the same everywhere."""
    library = flambeau if isinstance(model, flambeau.nn.Module) else sys.modules["torch"]
    with library.no_grad():
        for k, tensor in enumerate([*model.parameters(), *model.buffers()]):
            if tensor.is_floating_point():
                numbers = library.arange(tensor.numel(), dtype=library.float32)
                values = (numbers * 0.37 + k).sin() * 0.3 + 0.4
                tensor.copy_(values.reshape(tensor.shape))
    return model


_CONSTANT = re.compile(r"^\s*%(\S+) : \S+ = prim::Constant(\[.*\])?\(\)$")


def normal_graph(text):
    """A graph's text without places, with constants where they are read and values by number."""
    text = re.sub(r"___torch_mangle_\d+\.", "", text)
    lines = [line.partition(" # ")[0].rstrip() for line in text.splitlines()]
    constants, kept = {}, []
    for line in lines:
        found = _CONSTANT.match(line)
        if found:
            constants["%" + found.group(1)] = (found.group(2) or "None").replace("value=", "")
        else:
            kept.append(line)
    names = {}

    def number(match):
        name = match.group(0)
        return constants.get(name) or names.setdefault(name, f"%{len(names)}")

    return re.sub(r"%[\w.]+", number, "\n".join(kept))
