"""Rows become functions and methods, when first touched.

`function(name)` builds the public function of a row; `attach` puts stubs on Tensor that replace
themselves by the real thing on their first call, so that import pays only for what is used.
"""

import functools

from flambeau import errors
from flambeau._tensor import Tensor
from flambeau.codegen import scalar
from flambeau.eager import creation
from flambeau.eager.arguments import argument
from flambeau.eager.launching import row_function, row_inplace
from flambeau.eager.method_forms import method_form
from flambeau.eager.pointwise import pointwise_function, pointwise_inplace, pointwise_operator
from flambeau.eager.reducing import reduction_function
from flambeau.eager.stub_signatures import sign
from flambeau.eager.torch_forms import torch_form
from flambeau.eager.viewing import view_function, view_inplace
from flambeau.interposing import offer
from flambeau.interposing.overriding import asking_first
from flambeau.ops.table import TABLE, bind_public

_functions: dict = {}
_aliases: dict = {}


def function(name):
    """The public function of a row (or of an alias of one)."""
    found = _functions.get(name)
    if found is None:
        if name.endswith("_copy") and name not in TABLE:
            return _keep(name, _view_copy(name))
        op = TABLE[_aliases.get(name, name)]
        found = _keep(name, _built(op))
        if (
            torch_form(op) is not op
        ):  # torch.<name> is another function: where pickles find this one
            if "functional_only" in op.options:
                found.__module__ = "flambeau.nn.functional"
            else:
                found.__qualname__ = f"Tensor.{name}"
    return found


def _built(op):
    if op.kind == "pointwise":
        return pointwise_function(op)
    if op.kind == "view":
        return view_function(op)
    return reduction_function(op) if op.kind == "reduction" else row_function(op)


def torch_function(name):
    """The function of a row that is called torch.<name>; some take less than others of the row."""
    row = TABLE.get(_aliases.get(name, name))
    form = torch_form(row) if row is not None else row
    if form is row:
        return function(name)
    found = sign(_built(form), name)
    offer(found, key=name)
    return found


def _keep(name, built):
    _functions[name] = sign(built, name)
    offer(built, key=name)
    return built


# what PyTorch calls the forms with out= of functions that copy several views
_COPIES_INTO = {"unbind_copy": "unbind_copy_int_out", "split_copy": "split_copy_Tensor_out()"}


def _view_copy(name):
    """transpose_copy and the like: the view, then a copy of it."""
    view = function(name.removesuffix("_copy"))
    row = TABLE.get(name.removesuffix("_copy"))
    many = row is not None and (row.options.get("multi") or row.name == "split")
    word = "Tensors" if many else "Tensor"

    def copied(*args, out=None, **kwargs):
        if out is not None:
            argument(name, "out", 0, word, out)
        found = view(*args, **kwargs)
        if isinstance(found, (tuple, list)):
            found = tuple(_copied(t, name) for t in found)
            if out is None:
                return found
            if len(out) != len(found):
                raise RuntimeError(
                    f"{_COPIES_INTO.get(name, name + '_out')} expected an out= argument of size "
                    f"{len(found)}, got size {len(out)}"
                )
            for o, t in zip(out, found):
                if o.dtype is not t.dtype and name != "split_copy":
                    raise errors.not_exact_out(t.dtype, o.dtype)
                o._resize_output(t.shape).copy_(t)
            return None
        found = _copied(found, name)
        if out is None:
            return found
        if out.dtype is not found.dtype:
            raise errors.not_exact_out(found.dtype, out.dtype)
        if out.shape != found.shape:
            out._resize_output(found.shape)
        return out.copy_(found)

    copied.__name__ = copied.__qualname__ = name
    copied.__module__ = "flambeau"  # where pickles find it
    return asking_first(copied)


def _copied(view, name):
    """A copy of a view, which hangs in the graph by the view's own node."""
    node = view._grad_fn
    if node is None or not view._requires_grad:
        return view.clone()
    found = view.detach().clone()
    if not type(node).__name__.endswith("_copy"):  # parts share a node
        node.__class__ = _copy_class(type(node), name)
    found._grad_fn, found._output_nr, found._requires_grad = node, view._output_nr, True
    return found


@functools.cache
def _copy_class(kind, name):
    name = "NarrowCopyBackward0" if name == "narrow_copy" else kind.__name__ + "_copy"
    return type(name, (kind,), {"__slots__": ()})


def view_copies():
    """The names of functions that copy what a view shows."""
    names = (name + "_copy" for name in TABLE)
    return [name for name in names if name not in TABLE and is_function(name)]


def is_function(name):
    """Does a row (or alias) of this name have a public function?"""
    if name.endswith("_copy") and name not in TABLE:
        row = TABLE.get(name.removesuffix("_copy"))
        return row is not None and (row.kind == "view" or row.name == "split")
    row = TABLE.get(_aliases.get(name, name))
    return row is not None and "function" in row.variants


def is_inplace(name):
    row = TABLE.get(_aliases.get(name, name))
    return row is not None and "inplace" in row.variants


def public_names():
    return [name for name in {*TABLE, *_aliases} if is_function(name)]


def _method(name):
    """The method of Tensor of a row (or of an alias of one)."""
    op = TABLE[_aliases.get(name, name)]
    base = torch_function(name) if "alone_with" in op.options else function(name)
    found = method_form(base, op)
    return found if found is base else sign(found, name, method=True)


def inplace_function(name):
    """op_ of a row."""
    found = _functions.get(name + "_")
    if found is None:
        op = TABLE[_aliases.get(name, name)]
        function(op.name)
        if op.kind == "pointwise":
            found = pointwise_inplace(op)
        elif op.kind == "view":
            found = view_inplace(op)
        else:
            found = row_inplace(op)
        _keep(name + "_", found)
    return found


def operator(name, row, swapped=False):
    """A dunder method of Tensor from a row with two tensors."""
    op = TABLE[row]
    function(row)
    return pointwise_operator(op, name, swapped)


def inplace_operator(name, row):
    """__iadd__ and the like: op_ that leaves strangers to Python; handlers know it as op_."""
    function(row)
    found = sign(pointwise_inplace(TABLE[row], name), row + "_")
    offer(found, key=row + "_")
    return found


class _Stub:
    """A method or property that is built when somebody looks at it."""

    __slots__ = ("build", "name")

    def __init__(self, name, build):
        self.name, self.build = name, build

    def __get__(self, instance, owner=None):
        real = self.build()
        setattr(Tensor, self.name, real)
        offer(real, key=self.name)
        return real.__get__(instance, owner)


class _PropertyStub(_Stub):
    """The same for a property, which may also be written first."""

    __slots__ = ()

    def __set__(self, instance, value):
        self.__get__(None, Tensor)
        getattr(Tensor, self.name).__set__(instance, value)


def _property(name, row):
    """A property of a row; parts of tensors that are functions too may be written."""

    def write(self, value):
        part = function(name)(self)
        if isinstance(value, Tensor):
            part.copy_(value)
        else:
            part[...] = value

    return property(function(name), write if "function" in row.variants else None)


OPERATORS = {
    "__add__": "add",
    "__sub__": "sub",
    "__mul__": "mul",
    "__truediv__": "div",
    "__div__": "div",
    "__pow__": "pow",
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "__mod__": "remainder",
    "__floordiv__": "floor_divide",
    "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift",
    "__eq__": "eq",
    "__ne__": "ne",
    "__lt__": "lt",
    "__le__": "le",
    "__gt__": "gt",
    "__ge__": "ge",
}
COMMUTING = {
    "__radd__": "add",
    "__rmul__": "mul",
    "__rand__": "bitwise_and",
    "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor",
}
INPLACE = {
    "__iadd__": "add",
    "__isub__": "sub",
    "__imul__": "mul",
    "__itruediv__": "div",
    "__idiv__": "div",
    "__ipow__": "pow",
    "__iand__": "bitwise_and",
    "__ior__": "bitwise_or",
    "__ixor__": "bitwise_xor",
    "__imod__": "remainder",
    "__ifloordiv__": "floor_divide",
    "__ilshift__": "bitwise_left_shift",
    "__irshift__": "bitwise_right_shift",
}
UNARY = {"__neg__": "neg", "__invert__": "bitwise_not", "__abs__": "abs"}


def attach():
    """Give Tensor its operators and methods."""
    for op in TABLE.values():
        for name in (op.name, *op.aliases):
            _aliases[name] = op.name
            if "method" in op.variants and name not in Tensor.__dict__:
                setattr(Tensor, name, _Stub(name, lambda n=name: _method(n)))
            if "property" in op.variants and name not in Tensor.__dict__:
                make = functools.partial(_property, name, op)
                setattr(Tensor, name, _PropertyStub(name, make))
            if "inplace" in op.variants and name + "_" not in Tensor.__dict__:
                setattr(Tensor, name + "_", _Stub(name + "_", lambda n=name: inplace_function(n)))
    for table in (OPERATORS, COMMUTING):
        for dunder, row in table.items():
            if row in TABLE:
                setattr(Tensor, dunder, _Stub(dunder, lambda d=dunder, r=row: operator(d, r)))
    for dunder, row in INPLACE.items():
        if row in TABLE:
            setattr(Tensor, dunder, _Stub(dunder, lambda d=dunder, r=row: inplace_operator(d, r)))
    for dunder, row in UNARY.items():
        if row in TABLE:
            setattr(Tensor, dunder, _Stub(dunder, lambda r=row: function(r)))


_WORDS = {
    "rem": "fmod",
    "fma": None,
    "rint": "round",
    "isnan": "isnan",
    "select": "where",
    "lgamma": "lgamma",
    "normal_cdf": "special_ndtr",
}


def _tensor_word(name):
    """How a word of the scalar language runs on tensors."""
    name = _WORDS.get(name) or name
    return function(name if name in TABLE else "special_" + name)


scalar.bind_tensor_words(_tensor_word)


def public(name):
    """A function users call: a row's, its in-place form, or one that creates tensors."""
    if name[-1] == "_" and name not in TABLE and is_inplace(name[:-1]):
        return inplace_function(name[:-1])
    return function(name) if name in TABLE or name in _aliases else getattr(creation, name)


bind_public(public)
