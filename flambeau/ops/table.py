"""The table: one row per operation, and the decorators that make rows.

A row is a Python function plus what its decorator says: the signature is the schema (names and
defaults are PyTorch's), the docstring the documentation, the body what `kind` wants (see
docs/adding_an_op.md), `grad` the derivative. Everything else reads rows: eager execution, autograd,
tests, docs.

A bare parameter is a tensor (a Python number is welcome too, except as the first); `float` and
`int` reach kernels as run-time arguments; `Scalar` is any number, folded into the kernel at its
default; `bool`, `str` and the rest are static. `g` in a derivative is the incoming gradient, `out`
the result, `x_layout` only the layout of argument x; every other name is an argument, and is saved.
"""

from collections.abc import Callable
from functools import lru_cache
from types import FunctionType as Function
from types import NoneType
from typing import Any, NamedTuple

TABLE: dict = {}


class Scalar:
    """Annotation: any Python number."""


class Tensors:
    """Annotation: a sequence of tensors."""


class OptionalTensor:
    """Annotation: a tensor or None."""


class Dims:
    """Annotation: None, a dimension or several."""


class Ints:
    """Annotation: an int or several."""


class IntList:
    """Annotation: several ints."""


class Sizes:
    """Annotation: an int or several, or None for some of them."""


class Indices:
    """Annotation: a sequence of tensors and None."""


class Padding:
    """Annotation: an int, several, or a word."""


class Count:
    """Annotation: an int that is a constant of kernels."""


class Start:
    """Annotation: an int, or a tensor without dimensions that holds one."""


class DType:
    """Annotation: a dtype or None."""


class MemoryFormat:
    """Annotation: a memory format or None."""


class LayoutName:
    """Annotation: torch.strided or None."""


class Param(NamedTuple):
    """One parameter of a row. kind: tensor, float, int, scalar, static, tensors or optional.

    wants: what PyTorch's parser lets through, "" for anything; may_be_none: None as well?
    """

    name: str
    kind: str
    default: Any
    keyword_only: bool
    wants: str = ""
    may_be_none: bool = False


# the default of parameters for which None is not the same as nothing
MISSING: Any = type("MISSING", (), {"__repr__": lambda self: "..."})()
REQUIRED: Any = type("REQUIRED", (), {"__repr__": lambda self: "REQUIRED"})()
_KINDS = {
    float: "float",
    int: "int",
    Scalar: "scalar",
    Tensors: "tensors",
    OptionalTensor: "optional",
}
_WANTED = {
    bool: "bool",
    int: "int",
    Count: "int",
    Start: "start",
    float: "float",
    str: "str",
    Scalar: "Scalar",
    Dims: "ints",
    Ints: "ints",
    IntList: "int list",
    Sizes: "sizes",
    Padding: "ints or str",
    Indices: "indices",
    DType: "dtype",
    MemoryFormat: "memory_format",
    LayoutName: "layout",
}


class Formula(NamedTuple):
    """A derivative and the names of what it wants."""

    function: Callable
    names: tuple


class Op:
    """A row of the table."""

    __slots__ = (
        "name",
        "kind",
        "body",
        "params",
        "tensor_names",
        "rule",
        "grads",
        "joint_grad",
        "variants",
        "namespaces",
        "domain",
        "doc",
        "template",
        "outputs",
        "node_name",
        "first_scalar",
        "linear",
        "jvp",
        "flat",
        "edges",
        "smooth",
        "error",
        "options",
        "aliases",
        "dtypes",
        "runtime",
        "function",
    )

    @property
    def is_differentiable(self):
        """Does it say what its derivative is?"""
        return bool(self.grads) or self.joint_grad is not None

    def __repr__(self):
        return f"<Op {self.name} ({self.kind})>"

    def __call__(self, *args, **kwargs):
        """Rows use each other by name: this runs the row's public function on tensors."""
        if self.function is None:
            self.function = public(self.name)
        return self.function(*args, **kwargs)


_public = None


def bind_public(lookup):
    """Tell rows how to run: lookup(name) gives the function that users call."""
    global _public
    _public = lookup


def public(name):
    """The public function of that name, for bodies and derivatives."""
    return _public(name)


def holds_anywhere(condition):
    """Does a condition hold for an element, of any sample if this is inside of a transform?"""
    condition = getattr(condition, "_bottom", condition)
    return condition.device.runtime.computes and condition.any().item()


def remembered(function):
    """Remember what a function of layouts and plain arguments finds; the oldest is forgotten."""
    known = lru_cache(4096, typed=True)(function)  # 1 is not True

    def find(*arguments):
        try:
            return known(*arguments)
        except TypeError:  # lists cannot be looked up; or this is a complaint, which comes again
            return function(*arguments)

    return find


def _params(body):
    code, notes = body.__code__, body.__annotations__
    positional = code.co_varnames[: code.co_argcount]
    keyword = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    defaults = dict(zip(reversed(positional), reversed(body.__defaults__ or ())))
    defaults.update(body.__kwdefaults__ or {})
    return tuple(
        Param(
            n,
            _KINDS.get(notes.get(n), "static") if n in notes else "tensor",
            defaults.get(n, REQUIRED),
            n in keyword,
            *_wanted(notes.get(n), defaults.get(n, REQUIRED)),
        )
        for n in positional + keyword
    )


def _wanted(note, default):
    """Of an annotation: which word of PyTorch's parser it is, and whether None will do."""
    kinds = getattr(note, "__args__", (note,))  # those of `int | None`
    word = next((_WANTED[k] for k in kinds if k in _WANTED), "")
    return word, default is None or NoneType in kinds or note in (
        Dims,
        DType,
        MemoryFormat,
        LayoutName,
    )


def names_of(function):
    code = function.__code__
    return code.co_varnames[: code.co_argcount]


def _grads(grad, tensor_names):
    """A formula per differentiable parameter; a lone function belongs to the first tensor."""
    if grad is None:
        return {}
    if callable(grad):
        grad = {tensor_names[0]: grad}
    return {name: Formula(f, names_of(f)) for name, f in grad.items() if f is not None}


def _camel(name):
    return "".join(part.title() for part in name.strip("_").split("_"))


# What rows of a kind may say besides, and of which type it must be; see the decorators below and
# ops/reductions.py, ops/views.py.
EXACT = bool | str | tuple | Function  # words, those for each result, or a function of two dtypes
OPTIONS: dict[str, dict[str, Any]] = {
    "pointwise": {
        "alone": Function,  # what a call with the first argument alone does (where)
        "check": Function,
        "exact_out": EXACT,  # must out= have the result's dtype? And what is said if not
        "exact_numbers": bool,  # are numbers not rounded to half types before the body?
        "family": str,  # another kind of kernel around the same body: "total"
        "fits": bool,  # must numbers in the place of tensors lie within the dtype?
        "fold": tuple,
        "inplace_row": str,
        "loose": bool,  # does autograd not care for its writes?
        "number_pairs": bool,  # may numbers stand for all tensors? add(1, 2)
        "numbers": bool,  # may numbers stand for tensors?
        "numbers_for": tuple,  # for which of them, if not for all
        "old_orders": tuple,  # of arguments that all come without names, numbers among them
        "overlapping": bool,  # may it write an element twice, in place?
        "overload": Function,
        "prepare": Function,
        "settled": bool,
        "sparing": bool,  # does it leave some elements as they are?
    },
    "template": {
        "alone_with": str,  # a parameter beside which others than the first come by name
        "apart": str,  # arguments with which out= must share no memory
        "bare_node": str,  # the name of nodes where a tensor is missing or a number
        "before_out": Function,  # what it says about out= and its arguments
        # who speaks, and what out= is called, where it cannot hold the result
        "castable_out": str,
        "exact_out": EXACT,
        "out_dtype": bool,  # is the result computed in the dtype of out=?
        "numbers": bool,
        "numbers_for": tuple,
        "old_orders": tuple,
        "varargs": str,  # the parameter that takes the rest of the arguments: view(2, 3)
    },
    "composite": {
        "alone_with": str,
        "apart": str,
        "bind": bool,  # are arguments bound and checked before the body?
        "castable_out": str,
        "choose": Function,  # runs the overload that fits
        "before_out": Function,
        "exact_inplace": str,  # what is said of results of another dtype in place
        "exact_out": EXACT,
        "functional_only": tuple,  # parameters of nn.functional that torch.<name> has not
        "lone_list": bool,  # may one list stand for all of varargs?
        "numbers": bool,
        "old_orders": tuple,
        "python": bool,  # does PyTorch have it in Python, where the parser of an op inside is last?
        "signatures": tuple,  # overloads, as PyTorch's parser lists them
        "unrecorded_out": bool,  # is out= refused where the result wants a gradient?
        "varargs": str,
    },
    "reduction": {
        "all_if_empty": bool,  # does an empty list of dimensions mean all?
        "arguments": tuple,  # names of parameters that kernels take as numbers
        "check": Function,
        "combine": Function,
        "complex_state": bool,
        "filter": bool,  # does the body see elements before they are cast?
        "finish": Function,
        "indexed": bool,  # does an element's place count?
        "init": Function,
        "note": Function,
        "out": str,
        "overloads": bool,  # does PyTorch have an overload with dimensions?
        "public": str,
        "refuses": tuple,
        "result": Function,
        "signatures": tuple,
        "state": Function,
        "statics": tuple,  # names of parameters that are constants of kernels
        "step": Function,
        "wide": bool,
    },
    "view": {
        "absolute": bool,  # is the place counted from the start of the storage?
        "aligned": Function,
        "fresh": bool,  # is the result no view for autograd?
        "multi": bool,
        "naming": Function,
        "natively": str,  # the maker (_tensor.MAKERS) that does it where nothing is recorded
        "number": Function,
        "otherwise": Function,
        "overloads": int,
        "turning": tuple,  # the rank it is done natively for, and the other arguments then
        "varargs": str,
    },
}


def _checked(name, kind, options):
    """The options of a row; unknown ones and wrong types are mistakes."""
    known = OPTIONS[kind]
    for option, value in options.items():
        if option not in known:
            raise TypeError(f"row {name}: {kind} rows have no option '{option}'")
        if not isinstance(value, known[option]):
            wanted, found = known[option].__name__, type(value).__name__
            raise TypeError(f"row {name}: option '{option}' must be {wanted}, not {found}")
    return options


def _row(
    kind,
    body,
    *,
    dtype=None,
    grad=None,
    joint_grad=None,
    variants="function method inplace out",
    namespace="",
    domain=None,
    template=None,
    outputs=1,
    node=None,
    first_scalar=False,
    linear=False,
    jvp=None,
    flat=False,
    edges="",
    smooth=None,
    error=None,
    aliases="",
    dtypes=None,
    **options,
):
    op = Op()
    op.name = body.__name__
    op.kind, op.body, op.rule, op.domain, op.template = kind, body, dtype, domain, template
    op.params = _params(body)
    op.tensor_names = tuple(p.name for p in op.params if p.kind in ("tensor", "optional"))
    op.grads = _grads(grad, op.tensor_names)
    op.joint_grad = Formula(joint_grad, names_of(joint_grad)) if joint_grad else None
    op.variants, op.namespaces = tuple(variants.split()), tuple(namespace.split())
    op.doc, op.outputs, op.first_scalar, op.linear, op.error = (
        body.__doc__,
        outputs,
        first_scalar,
        linear,
        error,
    )
    op.jvp = Formula(jvp, names_of(jvp)) if jvp else None
    op.node_name = node or _camel(op.name) + "Backward0"
    op.options, op.aliases = _checked(op.name, kind, options), tuple(aliases.split())
    op.dtypes, op.runtime = dtypes, None
    op.flat, op.edges, op.smooth = flat, tuple(edges.split()), smooth
    op.function = None
    if op.name in TABLE:
        raise ValueError(f"op {op.name} has two rows")
    TABLE[op.name] = op
    return op


def _decorator(kind):
    def decorate(template=None, /, **facts):
        return lambda body: _row(kind, body, template=template, **facts)

    decorate.__name__ = kind
    return decorate


pointwise = _decorator("pointwise")
"""The body is the value of one element, in the scalar language.

dtype: rule; grad: formula per tensor, in the scalar language; outputs: how many values the body
returns. Less usual facts: dtypes(op, operands) refuses dtypes (ops/support.py); check(bound) looks
at arguments that are not at their defaults, settled=True says that it looks at dtypes, types,
static values and whether there are dimensions only (it may be given layouts for tensors);
prepare(bound) may change any, at the price of a slower call; overload(bound) names another row for
some arguments (div with a rounding_mode); inplace_row names the row whose derivative the in-place
form uses; numbers=False wants tensors only (other kinds do unless they say numbers=True); fold
lists numbers that become constants of the kernel (x ** 2); node may be a function of the tensor
arguments (PowBackward0 or 1); flat says that the derivative counts as one of the inputs though it
is made of steps (so may rows of other kinds).

Forward mode follows from grad, here and in all kinds: the tangent takes the place of g. Rows that
are not pointwise say linear=True if they are linear in all tensors that have derivatives, or
linear="input bias, weight bias": linear in input and bias together while weight is fixed, and so
on. Others may have jvp=, a function of the tangent t of the first tensor (`weight_t`: that of
another, None if it does not move), `out` and arguments.
"""

reduction = _decorator("reduction")
"""The body is what one element contributes; see ops/reductions.py for init, combine and finish."""

view = _decorator("view")
"""The body takes a Layout and the arguments and gives (shape, strides, offset in elements)."""

template = _decorator("template")
"""The decorator names a launcher (eager/...); derivatives work on tensors.

edges lists the parameters that nodes show in next_functions where that is not all that have
derivatives, in their order: PyTorch's. "weight.t" is shown behind a TBackward0. smooth is the
number of results that gradients flow through, if not all do.
"""

composite = _decorator("composite")
"""The body works on tensors with other ops; without `grad` it differentiates by itself."""
