"""From what a caller wrote to what a row wants: arguments by name, checked and normalised.

`bind` maps arguments to a row's parameters with PyTorch's complaints, `check_out` and `store_out`
deal with out=. Public functions are built in pointwise.py, reducing.py, viewing.py, launching.py.
"""

import warnings

from flambeau import errors
from flambeau._dtype import dtype as DType
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import modes
from flambeau.eager.arguments import fits, is_int, number, taken, wrong
from flambeau.errors import kind_name
from flambeau.ops.table import REQUIRED

NUMBERS = (bool, int, float, complex)
_REDUCTIONS = ("none", "mean", "sum", "batchmean")
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
    name = op.name.removeprefix("functional_")
    return TypeError(wrong(name, param, position, wanted, value))


def bind(op, args, kwargs, ending=""):
    """Arguments by parameter name, in order, checked and normalised. ending: "_" in place."""
    params = op.params
    bound = {}
    for order in op.options.get("old_orders", ()):
        if len(args) == len(order) and _is_old(op, order, args):
            args, kwargs = _reordered(op, order, dict(zip(order, args)), kwargs, ending)
    if len(args) > len(params) or op.options.get("varargs"):
        args = pack_rest(op, args)
    if len(args) > 1 and op.options.get("strictly_alone", 0) in kwargs:
        raise TypeError(
            f"{op.name}() received an invalid combination of arguments - got (Tensor, "
            f"{', '.join(kind_name(a) for a in args[1:])}, "
            f"{', '.join(f'{n}={kind_name(v)}' for n, v in kwargs.items())})"
        )
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
    if "reduction" in bound:
        _look_at_reduction(op, bound)
    # PyTorch's functions in Python hand everything on by position; tensors mostly come so, too
    all_places = op.name.startswith("functional_") or op.name == "pad"
    found, overflow = {}, None
    for k, p in enumerate(params):
        position = k + 1 if all_places or k < len(args) or p.kind == "optional" else 0
        try:
            found[p.name] = _normal(op, p, bound[p.name], k, position)
        except (ValueError, OverflowError) as error:  # a number too large: found after wrong types
            overflow = overflow or error
    if overflow is not None:
        raise overflow
    return found


def _look_at_reduction(op, bound):
    """PyTorch reads it in Python, before all else, or not at all beside an old argument."""
    if bound.get("size_average") is not None or bound.get("reduce") is not None:
        bound["reduction"] = "mean"
    elif any(p.name == "reduction" and p.wants == "str" for p in op.params):
        value = bound["reduction"]
        wrong = op.options.get("python") is False and value not in _REDUCTIONS
        if wrong or not isinstance(value, str):
            raise ValueError(f"{value} is not a valid value for reduction")


def _is_old(op, order, args):
    """Are numbers where this order has numbers? Elsewhere only pointwise rows take them, too."""
    numbers = {p.name for p in op.params if p.keyword_only}
    return all(
        as_number(value) is not None
        if name in numbers
        else isinstance(value, Tensor) or op.kind == "pointwise"
        for name, value in zip(order, args)
    )


def _reordered(op, order, given, kwargs, ending):
    """add(input, alpha, other), from before alpha had a name, as add(input, other, alpha=alpha)."""
    global _has_warned
    if (not _has_warned or errors.warns_always()) and op.name != "rsub":
        _has_warned = True
        warnings.warn(_deprecated(op, order, ending), stacklevel=4)
    places = tuple(given.pop(p.name) for p in op.params if not p.keyword_only)
    return places, {**kwargs, **given}


def _deprecated(op, order, ending):
    """PyTorch's words for such a call; it says them once, whichever function it is."""
    is_method = bool(ending) or (order[0] == "input" and "beta" in order)
    name = op.name + ending
    first, rest = [f"Tensor {p.name}" for p in op.params if not p.keyword_only], ""
    if is_method:
        first = first[1:]
    elif "out" in op.variants:
        rest = ", Tensor out = None"
    kinds = {p.name: "Number" if p.keyword_only else "Tensor" for p in op.params}
    old = ", ".join(f"{kinds[name]} {name}" for name in order[is_method:])
    new = "".join(f", Number {p.name} = {p.default}" for p in op.params if p.keyword_only)
    return (
        f"This overload of {name} is deprecated:\n\t"
        f"{name}({old}{rest and ', *' + rest})"
        "\nConsider using one of the following signatures instead:\n\t"
        f"{name}({', '.join(first)}, *{new}{rest})"
    )


_has_warned = False


def is_python(op):
    """Does PyTorch have this function in Python? Then its own checks come before the parser's."""
    told = op.options.get("python")
    if told is not None:
        return told
    return op.kind == "composite" and not op.variants and op.namespaces == ("nn.functional",)


def own_complaint(op, args, kwargs):
    """What the body of a row says about arguments that the parser has refused; None if nothing."""
    try:
        op.body(*args, **kwargs)
    except (ValueError, AssertionError, RuntimeError, LookupError, ZeroDivisionError) as complaint:
        return complaint  # also of an op that it calls: what that was given is of the right types
    except Exception:  # what comes of a wrong type further on is not the row's own check
        return None
    return None


def judged(op, error, values):
    """What to raise where a call with these arguments failed: the parser's complaint is first."""
    if op.options.get("python") or (
        isinstance(error, (ValueError, AssertionError)) and is_python(op)
    ):
        return error
    try:
        for k, p in enumerate(op.params):
            if p.wants and p.name in values:
                _normal(op, p, values[p.name], k, k + 1)
    except (TypeError, ValueError) as complaint:
        complaint.__suppress_context__ = True
        return complaint
    return error


def pack_rest(op, args):
    """view(2, 3) means view((2, 3)): pack trailing integers into the parameter that wants them."""
    name = op.options.get("varargs")
    if name is None:
        raise TypeError(
            f"{op.name}() takes {len(op.params)} positional arguments but {len(args)} were given"
        )
    k = [p.name for p in op.params].index(name)
    if op.options.get("listed"):  # a function, not a method
        if len(args) > k + 1:
            raise TypeError(
                f"{op.name}() takes {k + 1} positional arguments but {len(args)} were given"
            )
        return args
    if len(args) > k + 1 or (len(args) == k + 1 and _begins(op, op.params[k], args[k])):
        return (*args[:k], tuple(args[k:]))
    return ((),) if k == 0 and not args else args


def _begins(op, p, value):
    """Is a lone argument the first of several, rather than all of them or something wrong?"""
    if p.kind == "tensors" and not op.options.get("lone_list"):
        return True
    if isinstance(value, (tuple, list, DType, type)):
        return False
    return p.wants != "ints" or is_int(value)


def _native_name(value):
    """The name of a value's class as C code sees it: classes not written in Python say whose."""
    kind = type(value)
    written_in_python = kind.__flags__ & (1 << 9)  # a heap type
    if written_in_python or kind.__module__ == "builtins":
        return kind.__name__
    return f"{kind.__module__}.{kind.__name__}"


def _normal(op, p, value, k, position):
    if value is p.default:
        return value
    kind = p.kind
    if kind == "tensor":
        if isinstance(value, Tensor):
            return value
        found = as_number(value) if _takes_number(op, p, k) else None
        if found is None:
            raise type_error(op, p.name, position, value)
        return number(found)
    if kind == "optional":
        if value is None or isinstance(value, Tensor):
            return value
        found = as_number(value) if _takes_number(op, p, 1) else None
        if found is None:
            raise type_error(op, p.name, position, value)
        return number(found)
    if kind == "tensors":
        return _tensors(op, p.name, value, k, position)
    if p.wants:
        return _wanted(op, p, value, position)
    return tuple(value) if type(value) is list else value


def _takes_number(op, p, k):
    """May a number stand for a tensor? Which is parameter p, the k-th."""
    names = op.options.get("numbers_for")
    if names is not None:
        return p.name in names
    return op.first_scalar or (k > 0 and op.options.get("numbers", op.kind == "pointwise"))


def _wanted(op, p, value, position):
    """An argument of a parameter that says what it wants."""
    if value is None and p.may_be_none:
        return None
    if not fits(p.wants, value):
        raise type_error(op, p.name, position, value, p.wants)
    value = taken(op.name, p.name, p.wants, value)
    return float(value) if p.kind == "float" else value


def _tensors(op, name, value, k, position):
    if not isinstance(value, (tuple, list)):
        raise type_error(op, name, position, value, "Tensors")
    for n, v in enumerate(value):
        if not isinstance(v, Tensor):
            raise TypeError(
                f"expected Tensor as element {n} in argument {k}, but got {_native_name(v)}"
            )
    return tuple(value)


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


def take_out(op, out):
    """Complain about an out= that the row does not take, or that is of another kind."""
    if "out" not in op.variants:
        raise TypeError(f"{op.name}() got an unexpected keyword argument 'out'")
    word = "Tensor" if op.outputs == 1 else "Tensors"
    if not fits(word, out):
        if word == "Tensors":
            _tensors(op, "out", out, len(op.params), 0)
        raise type_error(op, "out", 0, out, word)
    if word == "Tensors" and len(out) != op.outputs:
        raise TypeError(f"expected tuple of {op.outputs} elements but got {len(out)}")


def check_out(op, out, shape, dtype):
    """Make out fit for a result: resize it if needed, refuse what cannot be cast."""
    if dtype.category > out.dtype.category:
        raise errors.cannot_cast(dtype, out.dtype)
    if out._requires_grad and modes.grad:
        raise errors.out_requires_grad(op.name)
    if out.shape != shape:
        out._resize_output(shape)


def _check_castable(text, outs, results):
    """PyTorch's words for what out= cannot hold; text: "function: name of each" or "function"."""
    name, _, names = text.partition(": ")
    if not names and results[0].dtype.category > outs[0].dtype.category:
        wanted = outs[0].dtype.scalar_name
        raise TypeError(f"{name}: input types can't be cast to the desired output type {wanted}")
    for what, o, r in zip(names.split(), outs, results):
        if r.dtype.category > o.dtype.category:
            raise RuntimeError(
                f"{name}: Expected {what} to be safely castable from {r.dtype.scalar_name} dtype, "
                f"but got {what} with dtype {o.dtype.scalar_name}"
            )


def wrote(function, out, args, kwargs):
    """Is a call with out= done, because what it gives without it fits there as it is?

    Then it costs a quick call and a copy. What is refused is left to those who say it in words of
    calls with out=; they ask again.
    """
    if out._requires_grad and modes.grad:
        return False
    try:
        result = function(*args, **kwargs)
    except (TypeError, RuntimeError, ValueError, IndexError):
        return False
    if type(result) is not Tensor or result._layout is not out._layout or result._requires_grad:
        return False
    out.copy_(result)
    return True


def store_out(op, out, results):
    """Results into out=: one tensor or a tuple of them."""
    outs = out if isinstance(out, (tuple, list)) else (out,)
    castable = op.options.get("castable_out")
    if castable is not None:
        _check_castable(castable, outs, results)
    exact = op.options.get("exact_out")
    for k, (o, r) in enumerate(zip(outs, results) if exact else ()):
        if o.dtype is not r.dtype:
            said = exact[k] if isinstance(exact, tuple) else exact
            raise errors.not_exact_out(r.dtype, o.dtype, said)
    for o, r in zip(outs, results):
        check_out(op, o, r.shape, r.dtype)
        o.copy_(r)
    return out
