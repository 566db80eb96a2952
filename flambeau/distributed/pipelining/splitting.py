"""A model cut into stages: at submodules, or where its forward says `pipe_split()`."""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import flambeau
from flambeau.distributed.pipelining.stage import PipelineStage
from flambeau.nn.modules.module import Module

fx: Any = flambeau.fx

__all__ = ["Pipe", "PipeInfo", "SplitPoint", "build_stage", "pipe_split", "pipeline"]


class SplitPoint(Enum):
    """Before a submodule runs, or after."""

    BEGINNING = 1
    END = 2


@fx.wrap
def pipe_split() -> None:
    """In a forward: a new stage begins here. It does nothing when the model runs."""


class PipeInfo(NamedTuple):
    """What stages are made from."""

    graph: Any
    num_stages: int
    has_loss_and_backward: bool


class _Tracer(fx.Tracer):
    """Looks into modules that have split points inside, and into the model itself."""

    def __init__(self, points: dict) -> None:
        super().__init__()
        self._around = {name[:k] for name in points for k, c in enumerate(name) if c == "."}

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return module_qualified_name not in self._around and not _marks(m)


def _marks(module):
    """Does a forward of a module, or of one inside, say `pipe_split`?"""
    for m in module.modules():
        code = getattr(type(m).forward, "__code__", None)
        if code is not None and "pipe_split" in code.co_names:
            return True
    return False


class Pipe:
    """A model in stages."""

    def __init__(self, split_gm: Any, num_stages: int, has_loss_and_backward: bool = False,
                 loss_spec: Any = None) -> None:  # fmt: skip
        self.split_gm, self.num_stages = split_gm, num_stages
        self.has_loss_and_backward, self.loss_spec = has_loss_and_backward, loss_spec

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.split_gm(*args, **kwargs)

    def get_stage_module(self, stage_idx: int) -> Any:
        """The part of a stage."""
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}!")
        return getattr(self.split_gm, f"submod_pp_{stage_idx}")

    def info(self) -> PipeInfo:
        """What stages are made from."""
        return PipeInfo(self.split_gm.graph, self.num_stages, self.has_loss_and_backward)

    def build_stage(self, stage_index: int, device: Any, group: Any = None) -> PipelineStage:
        """A stage of this process."""
        return build_stage(self.get_stage_module(stage_index), stage_index, self.info(), device,
                           group)  # fmt: skip

    def print_readable(self) -> None:
        """Print the stages as code."""
        self.split_gm.print_readable()

    def __str__(self) -> str:
        return str(self.split_gm)

    __repr__ = __str__


def build_stage(
    stage_module: Module, stage_index: int, pipe_info: PipeInfo, device: Any, group: Any = None
) -> PipelineStage:
    """A stage with a part that has been cut already."""
    return PipelineStage(stage_module, stage_index, pipe_info.num_stages, device, group=group)


def pipeline(
    module: Module,
    mb_args: tuple,
    mb_kwargs: dict | None = None,
    split_spec: dict[str, SplitPoint] | None = None,
    split_policy: Callable | None = None,
) -> Pipe:
    """Cut a model into stages.

    Args:
        module: the model.
        mb_args: arguments of a small batch, as an example.
        split_spec: names of submodules, and whether a stage begins or ends with them.
        split_policy: changes the graph, with calls of `pipe_split` where stages begin.
    """
    if split_spec is not None and split_policy is not None:
        raise ValueError(
            "Cannot specify both `split_spec` and `split_policy`. Please use only one of them."
        )
    points = split_spec or {}
    for name in points:
        module.get_submodule(name)
    tracer = _Tracer(points)
    traced = fx.GraphModule(module, tracer.trace(module))
    if split_policy is not None:
        traced = split_policy(traced)
    numbers, count = _numbered(traced.graph, points)
    for node in list(traced.graph.nodes):
        if node.target is pipe_split:
            traced.graph.erase_node(node)
    traced.recompile()
    split = fx.passes.split_module.split_module(
        traced, module, lambda node: numbers[node.name], partition_affix="pp"
    )
    return Pipe(split, count)


def _numbered(graph, points):
    """The stage of each node, and how many stages there are."""
    numbers: dict[str, int] = {}
    stage, is_over = 0, False
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            numbers[node.name] = stage
            continue
        point = points.get(node.target) if node.op == "call_module" else None
        if is_over or node.target is pipe_split or point is SplitPoint.BEGINNING:
            stage += 1
        is_over = point is SplitPoint.END
        numbers[node.name] = stage
    return numbers, stage + 1
