"""`torch._dynamo.explain`: what of a program is captured, and what is not."""

import dataclasses
from typing import Any

from flambeau._dynamo.eval_frame import compiled_by
from flambeau._dynamo.settings import Settings

_OPS = ("call_function", "call_method", "call_module")


@dataclasses.dataclass
class GraphCompileReason:
    """Why a graph ends where it does."""

    reason: str
    user_stack: list[Any]
    graph_break: bool = True


@dataclasses.dataclass
class ExplainOutput:
    """What `explain` found; its text is for people."""

    graphs: list[Any]
    graph_count: int
    graph_break_count: int
    break_reasons: list[GraphCompileReason]
    op_count: int
    ops_per_graph: list[list[Any]] | None = None
    out_guards: list[Any] | None = None
    compile_times: str | None = None

    def __str__(self) -> str:
        lines = [
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
            "Break Reasons:",
        ]
        for k, found in enumerate(self.break_reasons, 1):
            lines += [f"  Break Reason {k}:", f"    Reason: {found.reason}", "    User Stack:"]
            lines += [f"      {frame}" for frame in found.user_stack]
        if self.ops_per_graph is not None:
            lines.append("Ops per Graph:")
            for k, ops in enumerate(self.ops_per_graph, 1):
                lines += [f"  Ops {k}:", *(f"    {op}" for op in ops)]
        if self.out_guards is not None:
            lines.append("Out Guards:")
            for k, guard in enumerate(self.out_guards, 1):
                lines += [f"  Guard {k}:", f"    {guard}"]
        if self.compile_times is not None:
            lines.append(f"Compile Times: {self.compile_times}")
        return "\n".join(lines) + "\n"


class _Listener:
    """Takes down what happens while a program is compiled."""

    def __init__(self) -> None:
        self.graphs: list = []
        self.reasons: list = []
        self.guards: list = []

    def graph(self, module: Any, inputs: list) -> None:
        self.graphs.append(module)

    def broke(self, found: Any, fn: Any) -> None:
        stack = [f"{file}:{line} in {name}" for file, line, name in reversed(found.stack)]
        self.reasons.append(GraphCompileReason(found.reason, stack))

    def guarded(self, lines: list[str]) -> None:
        self.guards += [line for line in lines if line.startswith("if not")]


def explain(f: Any, *extra_args: Any, **extra_kwargs: Any) -> Any:
    """Call a function as compiled and tell how many graphs it became, and why: explain(f)(*args).

    Example:
        >>> from flambeau import _dynamo
        >>> def program(x):
        ...     y = x * 2
        ...     print("between")
        ...     return y + 1
        >>> _dynamo.explain(program)(flambeau.ones(3)).graph_count
        between
        2
    """

    def inner(*args: Any, **kwargs: Any) -> ExplainOutput:
        settings = Settings("eager", False, None, {})
        settings.listener = heard = _Listener()
        compiled_by(settings, f)(*args, **kwargs)
        ops = [[n.target for n in g.graph.nodes if n.op in _OPS] for g in heard.graphs]
        count = len(heard.graphs)
        return ExplainOutput(
            heard.graphs, count, max(count - 1, 0), heard.reasons, sum(map(len, ops)), ops,
            heard.guards,
        )  # fmt: skip

    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner
