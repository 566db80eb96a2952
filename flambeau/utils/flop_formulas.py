"""How many floating-point operations an op takes, from its arguments.

One formula per row that multiplies matrices in one way or another; a multiplication and an addition
count as two operations, as in PyTorch. Elementwise work is not counted, except in profiles, where
PyTorch counts `add` and `mul` (ELEMENTWISE). Formulas are told what an observer sees: arguments as
they were passed, and the result (interposing/).
"""

import math
from collections.abc import Callable
from typing import Any

from flambeau._tensor import Tensor

Formula = Callable[[tuple, dict, Any], int]
FORMULAS: dict[str, Formula] = {}  # row -> operations
ELEMENTWISE = frozenset({"add", "mul"})
CONVOLUTIONS = "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d".split()


def _formula(*rows: str) -> Callable[[Formula], Formula]:
    def register(function: Formula) -> Formula:
        for row in rows:
            FORMULAS[row] = function
        return function

    return register


def flops_of(row: str, args: tuple, kwargs: dict, result: Any, elementwise: bool = False) -> int:
    """Operations of one call; 0 for ops that are not counted or were called in an odd way."""
    formula = FORMULAS.get(row)
    try:
        if formula is not None:
            return formula(args, kwargs, result)
        if elementwise and row in ELEMENTWISE and isinstance(result, Tensor):
            return result.numel()
    except (AttributeError, IndexError, KeyError, TypeError):
        return 0
    return 0


def _get(args: tuple, kwargs: dict, position: int, name: str) -> Any:
    return args[position] if len(args) > position else kwargs.get(name)


@_formula("mm", "bmm", "_batched_product", "mv", "matmul", "linear", "inner")
def _product(args: tuple, kwargs: dict, result: Any) -> int:
    return 2 * result.numel() * _get(args, kwargs, 0, "input").shape[-1]


@_formula("linear_to_weight")
def _product_to_weight(args: tuple, kwargs: dict, result: Any) -> int:
    return 2 * _get(args, kwargs, 0, "g_out").numel() * _get(args, kwargs, 1, "input").shape[-1]


@_formula("dot", "vdot")
def _dot(args: tuple, kwargs: dict, result: Any) -> int:
    return 2 * _get(args, kwargs, 0, "input").numel()


@_formula("addmm", "baddbmm", "addmv", "addbmm")
def _added_product(args: tuple, kwargs: dict, result: Any) -> int:
    left = args[1] if len(args) > 1 else next(kwargs[k] for k in _LEFT if k in kwargs)
    right = args[2] if len(args) > 2 else next(kwargs[k] for k in _RIGHT if k in kwargs)
    return 2 * left.numel() * (right.shape[-1] if right.ndim > 1 else 1)


_LEFT, _RIGHT = ("mat1", "batch1", "mat"), ("mat2", "batch2", "vec")


def convolution_flops(small: Any, weight: Any) -> int:
    """Operations of a convolution: `small` is the side of it that strides make smaller."""
    batch = math.prod(small[: len(small) - len(weight) + 1])
    return 2 * batch * math.prod(small[len(small) - len(weight) + 2 :]) * math.prod(weight)


@_formula("conv1d", "conv2d", "conv3d")
def _convolution(args: tuple, kwargs: dict, result: Any) -> int:
    return convolution_flops(result.shape, _get(args, kwargs, 1, "weight").shape)


@_formula("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _transposed(args: tuple, kwargs: dict, result: Any) -> int:
    small = _get(args, kwargs, 0, "input").shape
    return convolution_flops(small, _get(args, kwargs, 1, "weight").shape)


@_formula("convolution")
def _either_convolution(args: tuple, kwargs: dict, result: Any) -> int:
    is_transposed = _get(args, kwargs, 6, "transposed")
    return (_transposed if is_transposed else _convolution)(args, kwargs, result)


@_formula("convolution_to_input")
def _to_input(args: tuple, kwargs: dict, result: Any) -> int:
    return convolution_flops(args[0].shape, args[1].shape)


@_formula("convolution_to_weight", "convolution_to_weight_and_bias")
def _to_weight(args: tuple, kwargs: dict, result: Any) -> int:
    return convolution_flops(args[1].shape, tuple(args[2]))


@_formula("scaled_dot_product_attention", "_attention")
def _attention(args: tuple, kwargs: dict, result: Any) -> int:
    q, k, v = (_get(args, kwargs, n, name) for n, name in enumerate(("query", "key", "value")))
    return 2 * math.prod(q.shape[:-1]) * k.shape[-2] * (q.shape[-1] + v.shape[-1])


@_formula("_attention_backward", "_attention_gradients")
def _attention_backward(args: tuple, kwargs: dict, result: Any) -> int:
    q, k, v = args[1:4]
    # scores once more, then the gradients of values, scores, queries and keys
    return 2 * math.prod(q.shape[:-1]) * k.shape[-2] * (3 * q.shape[-1] + 2 * v.shape[-1])


@_formula("_rnn_layer")
def _recurrence(args: tuple, kwargs: dict, result: Any) -> int:
    steps, weights = args[0].shape[0], [args[3], args[4], args[7]]
    return 2 * steps * sum(w.numel() for w in weights if w is not None)


@_formula("_rnn_layer_backward")
def _recurrence_backward(args: tuple, kwargs: dict, result: Any) -> int:
    steps, weights = args[3].shape[0], [args[6], args[7], args[10]]
    return 4 * steps * sum(w.numel() for w in weights if w is not None)


@_formula("bilinear")
def _bilinear(args: tuple, kwargs: dict, result: Any) -> int:
    weight = _get(args, kwargs, 2, "weight")
    return 2 * (result.numel() // weight.shape[0]) * weight.numel()
