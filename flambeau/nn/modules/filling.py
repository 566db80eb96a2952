"""How the parameters of layers are made, and the numbers they start with."""

import math
from typing import Any

from flambeau.eager.creation import empty
from flambeau.nn import init
from flambeau.nn.parameter import Parameter


def make_parameters(module: Any, device: Any, dtype: Any, **shapes: Any) -> None:
    """Register parameters that hold no values yet; None in the place of those without a shape."""
    for name, shape in shapes.items():
        made = None if shape is None else Parameter(empty(shape, device=device, dtype=dtype))
        module.register_parameter(name, made)


def fill_by_inputs(weight: Any, bias: Any) -> None:
    """Uniform numbers up to 1 / sqrt(n), where n inputs add up to one output."""
    init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        inputs = math.prod(weight.shape[1:])
        bound = 1 / math.sqrt(inputs) if inputs else 0.0
        init.uniform_(bias, -bound, bound)


def fill_neutral(weight: Any, bias: Any = None) -> None:
    """Weights of one, biases of zero: what is normalised passes as it is."""
    if weight is not None:
        init.ones_(weight)
    if bias is not None:
        init.zeros_(bias)
