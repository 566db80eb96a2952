"""Ops on each element: one dtype for all operands, as promotion has it."""

import math
import operator
from typing import Any

import flambeau as torch
from flambeau.onnx.building import Size, Value
from flambeau.onnx.translations.table import translates

UNARY = {
    "abs": "Abs",
    "neg": "Neg",
    "floor": "Floor",
    "ceil": "Ceil",
    "round": "Round",
    "sign": "Sign",
    "erf": "Erf",
    "isnan": "IsNaN",
    "isinf": "IsInf",
    "bitwise_not": "Not",
    "logical_not": "Not",
}
# These make floating point numbers of integers.
FLOATING = {
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "reciprocal": "Reciprocal",
    "relu": "Relu",
    "mish": "Mish",
    "hardswish": "HardSwish",
}


def unary(kind: str, floating: bool) -> Any:
    def write(g: Any, x: Any, *, out: Any, **ignored: Any) -> Any:
        if kind == "Not" and x.dtype is not torch.bool:
            x = g.cast(x, torch.bool) if out.dtype is torch.bool else x
            return g.op("BitwiseNot" if x.dtype is not torch.bool else "Not", x)
        if floating:
            x = g.cast(x, out.dtype)
        if kind == "Mish" and g.opset < 18:
            return g.op("Mul", x, g.op("Tanh", g.op("Softplus", x)))
        if kind == "HardSwish" and g.opset < 14:
            return g.op("Mul", x, g.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))
        return g.op(kind, x)

    return write


for _name, _kind in UNARY.items():
    translates(_name)(unary(_kind, False))
for _name, _kind in FLOATING.items():
    translates(_name)(unary(_kind, True))


def promoted(a: Any, b: Any) -> Any:
    """The dtype in which two operands meet."""
    if isinstance(a, Value) and isinstance(b, Value):
        if isinstance(a, Size):
            return b.dtype
        if isinstance(b, Size):
            return a.dtype
        if a.shape == () and b.shape != ():
            return torch.result_type(torch.zeros([], dtype=a.dtype), torch.zeros(1, dtype=b.dtype))
        if b.shape == () and a.shape != ():
            return torch.result_type(torch.zeros(1, dtype=a.dtype), torch.zeros([], dtype=b.dtype))
        return torch.promote_types(a.dtype, b.dtype)
    tensor, number = (a, b) if isinstance(a, Value) else (b, a)
    return torch.result_type(torch.zeros(1, dtype=tensor.dtype), number)


def operand(g: Any, x: Any, dtype: Any) -> Value:
    """A tensor, a size or a number, as a tensor of this dtype."""
    if isinstance(x, Size):
        return g.cast(g.squeeze(x, [0]), dtype)
    return g.cast(x, dtype) if isinstance(x, Value) else g.number(x, dtype)


def pair(g: Any, a: Any, b: Any, dtype: Any = None) -> tuple[Value, Value]:
    dtype = promoted(a, b) if dtype is None else dtype
    return operand(g, a, dtype), operand(g, b, dtype)


def scaled(g: Any, b: Any, alpha: Any, dtype: Any) -> Any:
    return b if alpha == 1 else g.op("Mul", operand(g, b, dtype), g.number(alpha, dtype))


@translates("add")
def add(g: Any, a: Any, b: Any, *, alpha: Any = 1, out: Any) -> Value:
    if out.dtype is torch.bool:
        return g.op("Or", *pair(g, a, b, torch.bool))
    return g.op("Add", *pair(g, a, scaled(g, b, alpha, out.dtype), out.dtype))


@translates("sub")
def sub(g: Any, a: Any, b: Any, *, alpha: Any = 1, out: Any) -> Value:
    return g.op("Sub", *pair(g, a, scaled(g, b, alpha, out.dtype), out.dtype))


@translates("rsub")
def rsub(g: Any, a: Any, b: Any, alpha: Any = 1, *, out: Any) -> Value:
    return g.op("Sub", *pair(g, b, scaled(g, a, alpha, out.dtype), out.dtype))


@translates("mul")
def mul(g: Any, a: Any, b: Any, *, out: Any) -> Value:
    if out.dtype is torch.bool:
        return g.op("And", *pair(g, a, b, torch.bool))
    return g.op("Mul", *pair(g, a, b, out.dtype))


@translates("div", "true_divide")
def div(g: Any, a: Any, b: Any, *, rounding_mode: str | None = None, out: Any) -> Value:
    if rounding_mode == "floor":
        return floor_divide(g, a, b, out=out)
    quotient = g.op("Div", *pair(g, a, b, out.dtype))
    if rounding_mode == "trunc" and out.dtype.is_floating_point:
        return g.op("Mul", g.op("Floor", g.op("Abs", quotient)), g.op("Sign", quotient))
    return quotient


@translates("floor_divide")
def floor_divide(g: Any, a: Any, b: Any, *, out: Any) -> Value:
    left, right = pair(g, a, b, out.dtype)
    if out.dtype.is_floating_point:
        return g.op("Floor", g.op("Div", left, right))
    # Integers are divided towards zero; what is left over says whether to go one lower.
    rest = g.op("Mod", left, right)
    return g.op("Div", g.op("Sub", left, rest), right)


@translates("remainder")
def remainder(g: Any, a: Any, b: Any, *, out: Any) -> Value:
    left, right = pair(g, a, b, out.dtype)
    if not out.dtype.is_floating_point:
        return g.op("Mod", left, right)
    whole = g.op("Floor", g.op("Div", left, right))
    return g.op("Sub", left, g.op("Mul", whole, right))


@translates("fmod")
def fmod(g: Any, a: Any, b: Any, *, out: Any) -> Value:
    return g.op("Mod", *pair(g, a, b, out.dtype), fmod=1)


@translates("pow")
def power(g: Any, a: Any, b: Any, *, out: Any) -> Value:
    return g.op("Pow", *pair(g, a, b, out.dtype))


COMPARISONS = {"lt": "Less", "gt": "Greater", "le": "LessOrEqual", "ge": "GreaterOrEqual"}


def comparison(kind: str) -> Any:
    def write(g: Any, a: Any, b: Any, *, out: Any) -> Value:
        left, right = pair(g, a, b)
        if left.dtype is torch.bool:
            left, right = g.cast(left, torch.int32), g.cast(right, torch.int32)
        made = g.op(kind.removeprefix("Not"), left, right, dtype=torch.bool)
        return g.op("Not", made) if kind.startswith("Not") else made

    return write


for _name, _kind in {**COMPARISONS, "eq": "Equal", "ne": "NotEqual"}.items():
    translates(_name)(comparison(_kind))


def logical(kind: str) -> Any:
    def write(g: Any, a: Any, b: Any, *, out: Any) -> Value:
        if out.dtype is not torch.bool:
            return g.op(f"Bitwise{kind}", *pair(g, a, b, out.dtype))
        return g.op(kind, *pair(g, a, b, torch.bool))

    return write


for _name, _kind in {"and": "And", "or": "Or", "xor": "Xor"}.items():
    translates(f"logical_{_name}", f"bitwise_{_name}", f"__{_name}__")(logical(_kind))


@translates("maximum")
def maximum(g: Any, a: Any, b: Any, *, out: Any) -> Value:
    return g.op("Max", *pair(g, a, b, out.dtype))


@translates("minimum")
def minimum(g: Any, a: Any, b: Any, *, out: Any) -> Value:
    return g.op("Min", *pair(g, a, b, out.dtype))


@translates("clamp", "clamp_min", "clip")
def clamp(g: Any, x: Value, low: Any = None, high: Any = None, *, out: Any, **named: Any) -> Value:
    low = named.get("min", named.get("min_val", low))
    high = named.get("max", named.get("max_val", high))
    return bounded(g, x, low, high, out.dtype)


def bounded(g: Any, x: Value, low: Any, high: Any, dtype: Any) -> Value:
    x = g.cast(x, dtype)
    if isinstance(low, Value) or isinstance(high, Value):
        if low is not None:
            x = g.op("Max", x, operand(g, low, dtype))
        return x if high is None else g.op("Min", x, operand(g, high, dtype))
    bounds = [None if bound is None else g.number(bound, dtype) for bound in (low, high)]
    return g.op("Clip", x, *bounds)


@translates("clamp_max")
def clamp_max(g: Any, x: Value, high: Any, *, out: Any) -> Value:
    return bounded(g, x, None, high, out.dtype)


@translates("hardtanh")
def hardtanh(g: Any, x: Value, low: Any = -1.0, high: Any = 1.0, *, out: Any) -> Value:
    return bounded(g, x, low, high, out.dtype)


@translates("relu6")
def relu6(g: Any, x: Value, *, out: Any) -> Value:
    return bounded(g, x, 0.0, 6.0, out.dtype)


@translates("where")
def where(g: Any, condition: Value, a: Any = None, b: Any = None, *, out: Any) -> Value:
    return g.op("Where", condition, *pair(g, a, b, out.dtype), dtype=out.dtype)


@translates("masked_fill")
def masked_fill(g: Any, x: Value, mask: Value, value: Any, *, out: Any) -> Value:
    return g.op("Where", mask, operand(g, value, out.dtype), g.cast(x, out.dtype), dtype=out.dtype)


@translates("leaky_relu")
def leaky_relu(g: Any, x: Value, slope: float = 0.01, *, out: Any) -> Value:
    return g.op("LeakyRelu", x, alpha=float(slope))


@translates("prelu")
def prelu(g: Any, x: Value, weight: Value, *, out: Any) -> Value:
    if weight.size(0) > 1 and x.rank > 2:
        weight = g.unsqueeze(weight, list(range(1, x.rank - 1)))
    return g.op("PRelu", x, weight)


@translates("elu")
def elu(
    g: Any, x: Value, alpha: float = 1.0, scale: float = 1, inner: float = 1, *, out: Any
) -> Any:
    made = g.op("Elu", x if inner == 1 else g.op("Mul", x, inner), alpha=float(alpha))
    return made if scale == 1 else g.op("Mul", made, scale)


@translates("selu")
def selu(g: Any, x: Value, *, out: Any) -> Value:
    return g.op("Selu", x)


@translates("celu")
def celu(g: Any, x: Value, alpha: float = 1.0, *, out: Any) -> Value:
    return g.op("Celu", x, alpha=float(alpha))


@translates("gelu")
def gelu(g: Any, x: Value, *, approximate: str = "none", out: Any) -> Value:
    if g.opset >= 20:
        return g.op("Gelu", x, approximate=approximate)
    half = g.op("Mul", x, 0.5)
    if approximate == "tanh":
        cube = g.op("Mul", g.op("Mul", g.op("Mul", x, x), x), 0.044715)
        inner = g.op("Mul", g.op("Add", x, cube), math.sqrt(2 / math.pi))
        return g.op("Mul", half, g.op("Add", g.op("Tanh", inner), 1.0))
    return g.op("Mul", half, g.op("Add", g.op("Erf", g.op("Mul", x, math.sqrt(0.5))), 1.0))


@translates("silu")
def silu(g: Any, x: Value, *, out: Any) -> Value:
    return g.op("Mul", x, g.op("Sigmoid", x))


@translates("hardsigmoid")
def hardsigmoid(g: Any, x: Value, *, out: Any) -> Value:
    return g.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@translates("softplus")
def softplus(g: Any, x: Value, beta: float = 1, threshold: float = 20, *, out: Any) -> Value:
    if beta == 1:
        return g.op("Softplus", x)
    return g.op("Div", g.op("Softplus", g.op("Mul", x, float(beta))), float(beta))


@translates("log_sigmoid")
def log_sigmoid(g: Any, x: Value, *, out: Any) -> Value:
    return g.op("Neg", g.op("Softplus", g.op("Neg", x)))


@translates("threshold")
def threshold(g: Any, x: Value, bound: float, value: float, *, out: Any) -> Value:
    over = g.op("Greater", x, bound, dtype=torch.bool)
    return g.op("Where", over, x, g.number(value, x.dtype), dtype=x.dtype)


@translates("rsqrt")
def rsqrt(g: Any, x: Value, *, out: Any) -> Value:
    return g.op("Reciprocal", g.op("Sqrt", g.cast(x, out.dtype)))


@translates("square")
def square(g: Any, x: Value, *, out: Any) -> Value:
    return g.op("Mul", x, x)


@translates("log1p")
def log1p(g: Any, x: Value, *, out: Any) -> Value:
    return g.op("Log", g.op("Add", g.cast(x, out.dtype), 1.0))


@translates("expm1")
def expm1(g: Any, x: Value, *, out: Any) -> Value:
    return g.op("Sub", g.op("Exp", g.cast(x, out.dtype)), 1.0)


@translates("log2")
def log2(g: Any, x: Value, *, out: Any) -> Value:
    return g.op("Div", g.op("Log", g.cast(x, out.dtype)), math.log(2))


@translates("log10")
def log10(g: Any, x: Value, *, out: Any) -> Value:
    return g.op("Div", g.op("Log", g.cast(x, out.dtype)), math.log(10))


@translates("addcmul")
def addcmul(g: Any, x: Value, a: Value, b: Value, *, value: float = 1, out: Any) -> Value:
    product = g.op("Mul", a, b)
    return g.op("Add", x, product if value == 1 else g.op("Mul", product, value))


@translates("lerp")
def lerp(g: Any, a: Value, b: Value, weight: Any, *, out: Any) -> Value:
    return g.op("Add", a, g.op("Mul", g.op("Sub", b, a), operand(g, weight, out.dtype)))


@translates("_to_copy", "to", "type_as")
def cast(g: Any, x: Value, *rest: Any, out: Any, **named: Any) -> Value:
    return x if out is None else g.cast(x, out.dtype)


ARITHMETIC: dict[Any, str] = {
    operator.add: "Add",
    operator.sub: "Sub",
    operator.mul: "Mul",
    operator.mod: "Mod",
    operator.floordiv: "Div",
    torch.sym_max: "Max",
    torch.sym_min: "Min",
}


def size_arithmetic(g: Any, function: Any, a: Any, b: Any) -> Size | None:
    """What programs compute with sizes, on vectors of one integer."""
    if function not in ARITHMETIC:
        return None
    left, right = (v if isinstance(v, Value) else g.ints([v]) for v in (a, b))
    made = g.op(ARITHMETIC[function], left, right, dtype=torch.int64)
    return Size(made.name, torch.int64, (1,))
