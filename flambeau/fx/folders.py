"""A graph module as a package of source code and weights."""

import os
import sys
import warnings
from pathlib import Path

import flambeau
from flambeau import nn
from flambeau.fx import generated
from flambeau.fx.graph_module import GraphModule

_PRINTABLE = (
    nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d,
)  # fmt: skip


def write(module: GraphModule, folder: str | os.PathLike, module_name: str) -> None:
    """Write the source, the weights, and modules that have no text as pickles."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    weights = place / "state_dict.pt"
    flambeau.save(module.state_dict(), weights)
    lines = [*_modules(module, place), *_tensors(module)]
    lines.append(f"self.load_state_dict(torch.load(r'{weights}'))")
    body = "".join(f"        {line}\n" for line in lines)
    code = module.graph.python_code("self")
    forward = code.src.replace("\n", "\n    ").rstrip(" ")
    text = f"""{_imports(code.globals)}
class {module_name}(torch.nn.Module):
    def __init__(self):
        super().__init__()
{body}
    {forward}
"""
    (place / "module.py").write_text(text)
    (place / "__init__.py").write_text("from .module import *")


def _imports(names):
    """What the code needs; programs that say `import torch` find it under that name."""
    block = f"import torch\n{generated.import_block(names)}\n\nfrom torch.nn import *"
    if sys.modules.get("torch") is flambeau:
        return block
    block = block.replace("import torch\n", "import flambeau as torch\n")
    return block.replace("from torch", "from flambeau").replace("import torch.", "import flambeau.")


def _modules(module, place):
    pickled = []
    for name, child in module.named_children():
        if isinstance(child, _PRINTABLE):
            yield f"setattr(self, '{name}', {child!r})"
            continue
        pickled.append(name)
        file = place / f"{name}.pt"
        flambeau.save(child, file)
        said = " ".join(repr(child).split())
        yield (f"setattr(self, '{name}', torch.load(r'{file}', weights_only=False)) # {said}")
    if pickled:
        warnings.warn(
            "Was not able to save the following children modules as reprs -saved as pickled files "
            f"instead: {pickled}",
            stacklevel=3,
        )


def _tensors(module):
    for name, value in module._buffers.items():
        if value is not None:
            shape, kind = list(value.shape), value.dtype
            yield f"self.register_buffer('{name}', torch.empty({shape}, dtype={kind}))"
    for name, value in module._parameters.items():
        if value is not None:
            shape, kind = list(value.shape), value.dtype
            empty = f"torch.empty({shape}, dtype={kind})"
            yield f"setattr(self, '{name}', torch.nn.Parameter({empty}))"
