"""How ops are called in the Python that runs a graph.

Operators where Python has one, methods of tensors where there is one, else the function of that
name; what has no such form stands in the table OP_TEXTS.
"""

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau._tensor import Tensor
from flambeau.jit import adapters
from flambeau.jit import types as T
from flambeau.jit.ir import Node
from flambeau.jit.numbering import BY_NUMBER, FORMATS_BY_NUMBER
from flambeau.jit.texts import is_default
from flambeau.nn import functional as F

OP_TEXTS: dict[str, Callable] = {}

_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "eq": "==", "ne": "!=",
              "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "pow": "**", "remainder": "%",
              "floordiv": "//", "__and__": "&", "__or__": "|", "__xor__": "^", "__lshift__": "<<",
              "__rshift__": ">>", "__is__": "is", "__isnot__": "is not",
              "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}  # fmt: skip
_LOGICAL = {"__and__": "and", "__or__": "or", "__xor__": "!="}
_MATH = (
    "sqrt exp log log2 log10 log1p expm1 sin cos tan asin acos atan atan2 sinh cosh tanh asinh "
    "acosh atanh ceil floor fabs degrees radians gcd factorial fmod copysign gamma lgamma erf erfc "
    "ldexp isnan isinf isfinite hypot frexp modf"
).split()
# templates by the name of an op; {0} is the first argument, {rest} all after it
_TEMPLATES = {
    "aten::__not__": "(not {0})",
    "aten::__getitem__": "{0}[{1}]",
    "aten::_set_item": "_set_item({0}, {1}, {2})",
    "aten::Delete": "_delete({0}, {1})",
    "aten::append": "{0}.append({1})",
    "aten::extend": "{0}.extend({1})",
    "aten::insert": "{0}.insert({1}, {2})",
    "aten::remove": "{0}.remove({1})",
    "aten::reverse": "{0}.reverse()",
    "aten::clear": "{0}.clear()",
    "aten::update": "{0}.update({1})",
    "aten::popitem": "{0}.popitem()",
    "aten::setdefault": "{0}.setdefault({1}, {2})",
    "aten::keys": "list({0})",
    "aten::items": "list({0}.items())",
    "aten::dict": "dict({0})",
    "aten::list": "list({0})",
    "aten::Size": "list({0})",
    "aten::join": "{0}.join({1})",
    "aten::percentFormat": "({0} % {1})",
    "aten::format": "_format({0}, {rest})",
    "aten::__range_length": "len(range({0}, {1}, {2}))",
    "aten::__derive_index": "({1} + {0} * {2})",
    "aten::Int": "int({0})",
    "aten::Float": "float({0})",
    "aten::Bool": "bool({0})",
    "aten::Complex": "complex({0}, {rest})",
    "aten::str": "_text({0})",
    "aten::IntImplicit": "int({0})",
    "aten::FloatImplicit": "float({0})",
    "aten::ScalarImplicit": "{0}.item()",
    "aten::ord": "ord({0})",
    "aten::chr": "chr({0})",
    "aten::hash": "hash({0})",
    "aten::hex": "hex({0})",
    "aten::bin": "bin({0})",
    "aten::oct": "oct({0})",
    "aten::divmod": "divmod({0}, {1})",
    "aten::mathremainder": "_math.remainder({0}, {1})",
    "aten::warn": "_warn({0}, {1})",
    "aten::wait": "{0}.wait()",
    "aten::is_scripting": "True",
    "aten::save": "_torch.save({0}, {1})",
    "aten::numpy_T": "{0}.T",
    "aten::matrix_H": "{0}.mH",
    "aten::mT": "{0}.mT",
    "aten::mH": "{0}.mH",
    "aten::real": "{0}.real",
    "aten::imag": "{0}.imag",
    "aten::copy_": "{0}.copy_({1})",
    "aten::lift_fresh": "{0}",
    "aten::lift_fresh_copy": "{0}.clone()",
    "aten::lift": "{0}",
    "aten::dequantize": "{0}.dequantize()",
    "aten::sym_size": "{0}.size({1})",
    "aten::_convolution_mode": "_F.conv{n}({0}, {1}, {2}, {3}, {4}, {5}, {6})",
    "prim::dtype": "_numbers[{0}.dtype]",
    "prim::layout": "_layouts[{0}.layout]",
    "aten::promote_types": "_numbers[_torch.promote_types(_as_dtype({0}), _as_dtype({1}))]",
    "aten::result_type": "_numbers[_torch.result_type({0}, {1})]",
    "aten::get_autocast_dtype": "_numbers[_torch.get_autocast_dtype({0})]",
    "prim::data": "{0}.data",
    "prim::grad": "{0}.grad",
    "prim::requires_grad": "{0}.requires_grad",
    "prim::name": "None",
    "prim::type": "{0}.type",
    "prim::index": "{0}.index",
    "prim::NumToTensor": "_torch.tensor({0})",
    "prim::abs": "abs({0})",
    "prim::EnumName": "{0}.name",
    "prim::EnumValue": "{0}.value",
    "prim::itemsize": "{0}.itemsize",
    "prim::nbytes": "{0}.nbytes",
    "prim::tolist": "_listed_numbers({0}, {1}, {2})",
    "prim::AutogradZero": "None",
    "prim::ImplicitTensorToNum": "{0}.item()",
    "prim::rangelist": "list(range({0}))",
    "prim::id": "id({0})",
}
for _name in (
    "is_cuda is_cpu is_xpu is_sparse is_sparse_csr is_mkldnn is_mps is_vulkan is_ipu is_maia "
    "is_meta is_quantized is_nested is_mtia is_hpu"
).split():
    _TEMPLATES["prim::" + _name] = f"getattr({{0}}, '{_name}', False)"
# methods of strings and lists that Python calls the same
_METHODS = (
    "upper lower capitalize title swapcase strip lstrip rstrip startswith endswith find rfind "
    "rindex isalnum isalpha isdecimal isdigit isidentifier islower isnumeric isprintable isspace "
    "istitle isupper center ljust rjust zfill expandtabs splitlines rsplit partition "
    "rpartition replace"
).split()


def op_text(*names):
    """The text of calls of these ops; the function may give None for the usual one."""

    def register(function):
        for name in names:
            OP_TEXTS[name] = function
        return function

    return register


def _arguments(text, node):
    return [text.read(v) for v in node.ins]


def _has_tensor(node):
    return any(v.type_ == T.TENSOR for v in node.ins)


def _from_template(text, node):
    args = _arguments(text, node)
    template = _TEMPLATES[node.op]
    rest = ", ".join(args[1:])
    return template.format(*args, rest=rest)


for _name in _TEMPLATES:
    OP_TEXTS[_name] = _from_template


@op_text(*[f"aten::{name}" for name in _OPERATORS])
def _operator(text, node):
    name = node.op[6:]
    a, b, *others = node.ins
    if others and not is_default(others[0], 1):
        return None
    if name in ("pow", "remainder") and _has_tensor(node) and a.type_ != T.TENSOR:
        return None
    left, right = text.read(a), text.read(b)
    both_bools = a.type_ == b.type_ == T.BOOL
    symbol = _LOGICAL[name] if both_bools and name in _LOGICAL else _OPERATORS[name]
    if name in ("eq", "ne") and a.type_ == T.ListOf(T.TENSOR):
        return f"{'not ' if name == 'ne' else ''}_equal_lists({left}, {right})"
    if symbol.startswith("is") and a.node.op == "prim::Constant":
        return f"{'not ' if symbol == 'is not' else ''}_is({left}, {right})"
    made = f"({left} {symbol} {right})"
    out = node.outs[0].type_ if node.outs else None
    if out == T.FLOAT and a.type_ != T.FLOAT and b.type_ != T.FLOAT and name != "div":
        return f"float{made}"
    if out == T.INT and T.BOOL in (a.type_, b.type_):
        return f"int{made}"
    return made


@op_text("aten::neg", "aten::bitwise_not")
def _prefix(text, node):
    return f"({'-' if node.op == 'aten::neg' else '~'}{text.read(node.ins[0])})"


@op_text(*[f"aten::{name}" for name in _MATH])
def _math(text, node):
    if _has_tensor(node):
        return None
    made = f"_math.{node.op[6:]}({text.all(node.ins)})"
    kind = node.outs[0].type_
    if node.op in ("aten::ceil", "aten::floor"):
        made = f"{kind.kind}({made})" if kind in (T.INT, T.FLOAT) else made
    return made


@op_text("aten::abs", "aten::round", "aten::sum", "aten::any", "aten::all")
def _reductions(text, node):
    if _has_tensor(node):
        return None
    made = f"{node.op[6:]}({text.all(node.ins)})"
    kind = node.outs[0].type_
    return f"float({made})" if kind == T.FLOAT else made


@op_text("prim::min", "prim::max")
def _extremes(text, node):
    return f"{node.op[6:]}({text.all(node.ins)})"


@op_text("aten::len")
def _len(text, node):
    return f"len({text.read(node.ins[0])})"


@op_text("aten::values")
def _values(text, node):
    found = f"{text.read(node.ins[0])}.values()"
    return found if node.ins[0].type_ == T.TENSOR else f"list({found})"


@op_text("aten::get")
def _get(text, node):
    return f"{text.read(node.ins[0])}.get({text.all(node.ins[1:])})"


@op_text("aten::index")
def _index(text, node):
    first, second = _arguments(text, node)[:2]
    if node.ins[0].type_ == T.TENSOR:
        return f"{first}[_indices({second})]"
    return f"{first}.index({second})"


@op_text("aten::pop", "aten::count", "aten::copy")
def _container_method(text, node):
    return f"{text.read(node.ins[0])}.{node.op[6:]}({text.all(node.ins[1:])})"


@op_text("aten::sort", "aten::sorted")
def _sort(text, node):
    if _has_tensor(node):
        return None
    first, rest = text.read(node.ins[0]), [text.read(v) for v in node.ins[1:]]
    if node.op == "aten::sorted":
        return f"sorted({first})"
    return f"{first}.sort(reverse={rest[0] if rest else False})"


@op_text("aten::__contains__")
def _contains(text, node):
    where, item = _arguments(text, node)
    if node.ins[1].type_ == T.TENSOR:
        return f"_contains({where}, {item})"
    return f"({item} in {where})"


@op_text("aten::add_", "aten::mul_")
def _list_in_place(text, node):
    if not isinstance(node.ins[0].type_, T.ListOf):
        return None
    return f"_{node.op[6:]}list({text.all(node.ins)})"


@op_text("aten::split")
def _split(text, node):
    if node.ins[0].type_ != T.STR:
        return None
    return f"{text.read(node.ins[0])}.split({text.all(node.ins[1:])})"


@op_text(*[f"aten::{name}" for name in _METHODS])
def _string_method(text, node):
    if node.ins[0].type_ != T.STR:
        return None
    rest = list(node.ins[1:])
    while rest and node.schema_ and is_default(rest[-1], node.schema_.arguments[len(rest)].default):
        rest.pop()
    return f"{text.read(node.ins[0])}.{node.op[6:]}({text.all(rest)})"


@op_text("aten::size", "aten::stride")
def _size(text, node):
    first = text.read(node.ins[0])
    name = node.op[6:]
    if len(node.ins) > 1:
        return f"{first}.{name}({text.read(node.ins[1])})"
    return f"list({first}.{name}())"


@op_text("aten::slice")
def _slice(text, node):
    if not _has_tensor(node):
        first, *bounds = node.ins
        return f"{text.read(first)}[{':'.join(_bound(text, b) for b in bounds)}]"
    first, dim, *bounds = node.ins
    known = dim.node.attributes.get("value") if dim.node.op == "prim::Constant" else None
    if isinstance(known, int) and known >= 0:
        inside = ":".join(_bound(text, b) for b in bounds)
        return f"{text.read(first)}[{':, ' * known}{inside}]"
    return f"_slice({text.all(node.ins)})"


def _bound(text, value):
    if value.node.op == "prim::Constant":
        known = value.node.attributes.get("value")
        return "" if known is None or known == 9223372036854775807 else text.read(value)
    return text.read(value)


@op_text("prim::device")
def _device(text, node):
    if node.ins[0].type_ == T.TENSOR:
        return f"{text.read(node.ins[0])}.device"
    return f"_torch.device({text.all(node.ins)})"


@op_text("aten::to")
def _to(text, node):
    """x.to(...) in its many forms."""
    schema = node.schema_
    if schema is None:
        return None
    first, *rest = node.ins
    made = []
    for value, formal in zip(rest, schema.arguments[1:]):
        if is_default(value, formal.default) or formal.name in ("non_blocking", "layout",
                                                                "pin_memory"):  # fmt: skip
            continue
        if formal.name == "dtype" or (formal.type in (T.SCALAR_TYPE,)):
            made.append(f"dtype={as_dtype(text, value)}")
        elif formal.name == "memory_format":
            made.append(f"memory_format={as_format(text, value)}")
        elif formal.name == "other":
            made.append(text.read(value))
        else:
            made.append(f"{formal.name}={text.read(value)}")
    return f"{text.read(first)}.to({', '.join(made)})"


def as_dtype(text: Any, value: Any) -> str:
    """A number as the dtype it stands for."""
    if value.node.op == "prim::Constant":
        number = value.node.attributes.get("value")
        return "None" if number is None else text.hold(BY_NUMBER[number], "_dtype")
    return f"_as_dtype({text.read(value)})"


def as_format(text: Any, value: Any) -> str:
    """A number as the memory format it stands for."""
    if value.node.op == "prim::Constant":
        number = value.node.attributes.get("value")
        return "None" if number is None else text.hold(FORMATS_BY_NUMBER[number], "_format")
    return f"_as_format({text.read(value)})"


def call_text(text: Any, node: Node) -> str:
    """The usual call of an op: the method or the function of its name."""
    name = node.op.partition("::")[2]
    schema = node.schema_
    if schema is None:
        raise RuntimeError(f"Unknown builtin op: {node.op}")
    made = _given(text, node, schema)
    wrapped = any(isinstance(t, T.ListOf) for t in schema.returns) and _has_tensor(node)
    adapter = getattr(adapters, name, None)
    if adapter is not None and adapter.__module__ == adapters.__name__:
        call = f"{text.hold(adapter, '_' + name)}({', '.join(made)})"
    elif schema.arguments and schema.arguments[0].name == "self" and hasattr(Tensor, name) and (
        node.ins[0].type_ == T.TENSOR
    ):  # fmt: skip
        call = f"{made[0]}.{name}({', '.join(made[1:])})"
    else:
        function = _function(name)
        if function is None:
            return f"_missing({node.op!r})"
        call = f"{text.hold(function, '_' + name)}({', '.join(made)})"
    return f"list({call})" if wrapped and len(schema.returns) == 1 else call


def _given(text, node, schema):
    """The arguments of a call, without those that are defaults."""
    formals = schema.arguments
    count = len(node.ins)
    # functions here may have another default for the reduction of a loss
    while count > 1 and is_default(node.ins[count - 1], formals[count - 1].default):
        if formals[count - 1].name == "reduction":
            break
        count -= 1
    made = []
    for value, formal in zip(node.ins[:count], formals):
        bare = formal.type.part if isinstance(formal.type, T.OptionalOf) else formal.type
        if formal.name in ("layout", "pin_memory") and formal.kwarg_only:
            continue
        if formal.kwarg_only and is_default(value, formal.default):
            continue
        if bare == T.SCALAR_TYPE:
            written = as_dtype(text, value)
        elif bare == T.MEMORY_FORMAT:
            written = as_format(text, value)
        else:
            written = text.read(value)
        made.append(f"{formal.name}={written}" if formal.kwarg_only else written)
    return made


def _function(name):
    """The public function of an op."""
    from flambeau.aten import overloads

    for space, prefix in ((flambeau, ""), (F, ""), (flambeau.linalg, "linalg_"),
                          (flambeau.fft, "fft_"), (flambeau.special, "special_")):  # fmt: skip
        if name.startswith(prefix):
            found = getattr(space, name[len(prefix) :], None)
            if callable(found):
                return found
    if name.endswith("_") and callable(getattr(F, name[:-1], None)):
        return adapters.in_place(getattr(F, name[:-1]))
    return overloads._function(name)
