"""Graph modules as text of classes, for people."""

import textwrap
from typing import Any

from flambeau.fx.graph_module import GraphModule


def class_text(module: GraphModule, name: str | None = None, **options: Any) -> str:
    """A class with the code of a module; those of graph modules in it follow inside."""
    name = name or type(module).__name__ or "GraphModule"
    code = module.graph.python_code("self", verbose=True, **options).src
    lines = code.lstrip("\n").rstrip(" ").split("\n")
    body = "\n".join("    " + line if line.strip() else "" for line in lines)
    text = f"class {name}(torch.nn.Module):\n{body}"
    for child, inner in module.named_children():
        if isinstance(inner, GraphModule):
            below = class_text(inner, child, **options)
            text += "\n" + textwrap.indent(below, "    ", lambda line: bool(line.strip()))
    return text
