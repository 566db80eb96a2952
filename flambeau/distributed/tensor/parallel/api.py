"""parallelize_module: styles for the parts of a model, by name."""

import fnmatch
import warnings
from typing import Any

from flambeau.distributed.device_mesh import DeviceMesh, current_mesh
from flambeau.distributed.tensor.parallel.style import ParallelStyle
from flambeau.nn.modules.module import Module

__all__ = ["parallelize_module"]


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Spread a model over a mesh of one dimension.

    Args:
        module: the model; it is changed in place.
        parallelize_plan: a style, or styles by the names of submodules, where * and ? stand for
            parts of a name between dots.
        src_data_rank: whose weights count; None: every process's own.
    """
    mesh = device_mesh if device_mesh is not None else current_mesh()
    if parallelize_plan is None:
        warnings.warn(
            "No parallelize_plan is provided and auto-parallel is not supported at the moment, so "
            "this parallelize_module call will do nothing.",
            stacklevel=2,
        )
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise _unexpected(parallelize_plan)
    for path, style in parallelize_plan.items():
        if not isinstance(style, ParallelStyle):
            raise _unexpected(style)
        style.src_data_rank = src_data_rank
        for part in _found(module, path):
            style._apply(part, mesh)
    return module


def _unexpected(plan: Any) -> TypeError:
    return TypeError(
        "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
        f"{type(plan)} found!"
    )


def _found(module, path):
    """Submodules whose name matches a pattern."""
    level = [module]
    for token in path.split(".") if path else ():
        below = [
            child
            for m in level
            for name, child in m.named_children()
            if fnmatch.fnmatchcase(name, token)
        ]
        if not below:
            warnings.warn(
                f"Parallelize plan key '{path}' could not be resolved: no submodule matching token "
                f"'{token}' in module {level[0]}, skipping this plan entry.",
                stacklevel=3,
            )
            return []
        level = below
    return level
