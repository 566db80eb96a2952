"""autograd.Function as an op of graphs: forward and backward are graphs of their own."""

from typing import Any

from flambeau._tensor import Tensor
from flambeau.aten.overloads import namespace
from flambeau.autograd.function import Function, once_differentiable

__all__ = ["function_op"]


class CapturedFunction(Function):
    """A custom function whose two halves were read by torch.compile.

    forward gives its results, then what else backward wants. plan.saved: where the inputs of the
    backward graph are among inputs, others and what forward gave; gradients follow them.
    """

    @staticmethod
    def forward(ctx: Any, plan: Any, others: tuple, *inputs: Tensor) -> Any:
        found = plan.forward(*[inputs[k] for k in plan.distinct], *others)
        pool = (*inputs, *others, *found)
        kept = [pool[k] for k in plan.saved]
        ctx.save_for_backward(*[v if isinstance(v, Tensor) else None for v in kept])
        ctx.plan, ctx.numbers = plan, [None if isinstance(v, Tensor) else v for v in kept]
        results = found[: len(plan.wants)]
        ctx.mark_non_differentiable(*[r for r, wants in zip(results, plan.wants) if not wants])
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        pairs = zip(ctx.saved_tensors, ctx.numbers)
        kept = [number if tensor is None else tensor for tensor, number in pairs]
        dense = [g.contiguous() for g in grads]  # as they were taken to be while reading
        return (None, None, *ctx.plan.backward(*kept, *dense))


class OnceFunction(CapturedFunction):
    """The same where backward must not be differentiated."""

    backward = staticmethod(once_differentiable(CapturedFunction.backward))


class Plan:
    """What a call of the op is told, in words of a function."""

    def __init__(
        self, forward: Any, backward: Any, distinct: tuple, saved: tuple, wants: tuple
    ) -> None:
        self.forward, self.backward = forward, backward
        self.distinct, self.saved, self.wants = distinct, saved, wants


def _applied(
    forward: Any, backward: Any, inputs: tuple, others: tuple, *,
    distinct: tuple, saved: tuple, wants: tuple, once: bool,
) -> tuple:  # fmt: skip
    kind = OnceFunction if once else CapturedFunction
    return kind.apply(Plan(forward, backward, distinct, saved, wants), others, *inputs)


function_op = namespace("higher_order").packet("autograd_function_apply")
function_op.function = lambda overload="": _applied
