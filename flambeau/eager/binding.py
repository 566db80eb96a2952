"""From what a caller wrote to what a row wants: arguments by name, checked and normalised.

`bind` maps arguments to a row's parameters with PyTorch's complaints, `check_out` and `store_out`
deal with out=. Public functions are built in pointwise.py, reducing.py, viewing.py, launching.py.
"""

import operator

from flambeau import errors
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import modes
from flambeau.ops.table import REQUIRED

NUMBERS = (bool, int, float, complex)
KEYWORDS = {
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "input",
    "x1": "input",
    "x2": "other",
    "a": "input",
    "axis0": "dim0",
    "axis1": "dim1",
    "split_size": "split_size_or_sections",
}


def type_error(op, param, position, value, wanted="Tensor"):
    where = f" (position {position})" if position else ""
    return TypeError(
        f"{op.name}(): argument '{param}'{where} must be {wanted}, not {type(value).__name__}"
    )


def bind(op, args, kwargs):
    """Arguments by parameter name, in order, checked and normalised."""
    params = op.params
    bound = {}
    if len(args) > len(params) or op.options.get("varargs"):
        args = pack_rest(op, args)
    for p, value in zip(params, args):
        if p.keyword_only:
            positional = sum(not q.keyword_only for q in params)
            raise TypeError(
                f"{op.name}() takes {positional} positional arguments but {len(args)} were given"
            )
        bound[p.name] = value
    if kwargs:
        names = {p.name for p in params}
        for name, value in kwargs.items():
            target = name if name in names else KEYWORDS.get(name)
            if target not in names:
                raise TypeError(f"{op.name}() got an unexpected keyword argument '{name}'")
            if target in bound:
                raise TypeError(f"{op.name}() got multiple values for argument '{target}'")
            bound[target] = value
    if len(bound) < len(params):
        for p in params:
            if p.name not in bound:
                if p.default is REQUIRED:
                    missing = [
                        q.name for q in params if q.default is REQUIRED and q.name not in bound
                    ]
                    text = ", ".join(f'"{n}"' for n in missing)
                    raise TypeError(
                        f"{op.name}() missing {len(missing)} required positional arguments: {text}"
                    )
                bound[p.name] = p.default
    return {p.name: _normal(op, k, p, bound[p.name]) for k, p in enumerate(params)}


def pack_rest(op, args):
    """view(2, 3) means view((2, 3)): pack trailing integers into the parameter that wants them."""
    name = op.options.get("varargs")
    if name is None:
        raise TypeError(
            f"{op.name}() takes {len(op.params)} positional arguments but {len(args)} were given"
        )
    k = [p.name for p in op.params].index(name)
    if len(args) > k + 1 or (len(args) == k + 1 and not isinstance(args[k], (tuple, list))):
        return (*args[:k], tuple(args[k:]))
    return ((),) if k == 0 and not args else args


def _native_name(value):
    """The name of a value's class as C code sees it: classes not written in Python say whose."""
    kind = type(value)
    written_in_python = kind.__flags__ & (1 << 9)  # a heap type
    if written_in_python or kind.__module__ == "builtins":
        return kind.__name__
    return f"{kind.__module__}.{kind.__name__}"


def _normal(op, k, p, value):
    kind = p.kind
    if kind == "tensor":
        if isinstance(value, Tensor):
            return value
        welcome = (k > 0 and op.options.get("numbers", True)) or op.first_scalar
        if type(value) in NUMBERS and welcome:
            return value
        number = as_number(value) if welcome else None
        if number is None:
            raise type_error(op, p.name, k + 1, value)
        return number
    if kind == "optional":
        if value is None or isinstance(value, Tensor):
            return value
        number = as_number(value)
        if number is None:
            raise type_error(op, p.name, k + 1, value)
        return number
    if kind == "float":
        return _float(op, k, p, value)
    if kind == "int":
        return value if type(value) is int or value is None else _index(op, k, p, value)
    if kind == "scalar":
        number = value if type(value) in NUMBERS or value is None else as_number(value)
        if number is None and value is not None:
            raise type_error(op, p.name, k + 1, value, "Number")
        return number
    if kind == "tensors":
        if isinstance(value, Tensor):
            raise type_error(op, p.name, k + 1, value, "tuple of Tensors")
        for n, v in enumerate(value):
            if not isinstance(v, Tensor):
                raise TypeError(
                    f"expected Tensor as element {n} in argument {k}, but got {_native_name(v)}"
                )
        return tuple(value)
    return tuple(value) if type(value) is list else value


def _float(op, k, p, value):
    if type(value) is float or value is None:
        return value
    try:
        return float(value)
    except (TypeError, ValueError):
        raise type_error(op, p.name, k + 1, value, "float") from None


def _index(op, k, p, value):
    if isinstance(value, float):
        raise type_error(op, p.name, k + 1, value, "int")
    try:
        return operator.index(value)
    except TypeError:
        raise type_error(op, p.name, k + 1, value, "int") from None


def as_number(value):
    """A Python number for NumPy scalars and the like, else None."""
    if type(value) in NUMBERS:
        return value
    if isinstance(value, Tensor):
        return value.item() if value._layout.ndim == 0 else None
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "shape", None) == ():
        return item()
    if isinstance(value, NUMBERS):
        return value
    return None


def check_out(op, out, shape, dtype):
    """Make out fit for a result: resize it if needed, refuse what cannot be cast."""
    if not isinstance(out, Tensor):
        raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if dtype.category > out.dtype.category:
        raise errors.cannot_cast(dtype, out.dtype)
    if out._requires_grad and modes.grad:
        raise errors.out_requires_grad(op.name)
    if out.shape != shape:
        out._resize_output(shape)


def store_out(op, out, results):
    """Results into out=: one tensor or a tuple of them."""
    outs = out if isinstance(out, (tuple, list)) else (out,)
    for o, r in zip(outs, results):
        if o.dtype is not r.dtype and op.options.get("exact_out"):
            raise errors.not_exact_out(r.dtype, o.dtype)
        check_out(op, o, r.shape, r.dtype)
        o.copy_(r)
    return out
