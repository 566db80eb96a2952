"""Public functions of templates and composites: arguments, then a launcher or the body.

A template names a launcher, a function on plain tensors that is registered with `@launches`. The
general function binds by names, checks and normalises; where all arguments already have the plain
types that the row wants, `fronts.py` goes to the launcher at once.
"""

from flambeau import errors
from flambeau._tensor import Tensor
from flambeau.autograd import views
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import Node, next_sequence
from flambeau.eager.binding import bind, is_python, own_complaint, store_out, take_out, wrote
from flambeau.eager.formula import recorder, wants_grad
from flambeau.eager.fronts import kernel_unless_recorded, quick_function
from flambeau.eager.overlaps import check_apart
from flambeau.eager.pointwise import keep_original
from flambeau.interposing.overriding import answering


class Launchers(dict):
    """template name -> function on plain tensors; later: functions that make those, by name."""

    later: dict = {}

    def __missing__(self, name):
        self[name] = found = self.later[name]()
        return found


LAUNCHERS = Launchers()
FRONTS: dict = {}  # template name -> builder(op, general function) of a quicker public function


def launches(*names):
    """Register a function as the launcher of a template."""

    def register(function):
        for name in names:
            LAUNCHERS[name] = function
        return function

    return register


def launches_kernel(name):
    """Register the kernel of a composite, whose body runs only where a call is recorded."""

    def register(function):
        FRONTS[name] = kernel_unless_recorded(function)
        return function

    return register


def call_row(op, bound):
    """Run a template or composite on bound arguments and record it."""
    run = LAUNCHERS[op.template] if op.kind == "template" else None
    recording = wants_grad(op, bound)
    if run is None:
        if not recording:
            return op.body(**bound)
        previous, modes.grad = modes.grad, False
        try:
            result = op.body(**bound)
        finally:
            modes.grad = previous
    else:
        result = run(*bound.values())
    if recording:
        results = result if isinstance(result, (tuple, list)) else (result,)
        recorder(op)(results, *bound.values())
    return result


def row_function(op):
    """The public function of a template or composite."""
    own_out = any(p.name == "out" for p in op.params)  # the body writes it
    quick = "out" in op.variants and op.outputs == 1 and not own_out and not _minds_out(op)

    def general(*args, out=None, **kwargs):
        if quick and type(out) is Tensor and wrote(function, out, args, kwargs):
            return out
        if own_out and out is not None:
            kwargs, out = {**kwargs, "out": out}, None
        if out is not None:
            take_out(op, out)
        try:
            bound = bind(op, args, kwargs)
        except TypeError:
            complaint = own_complaint(op, args, kwargs) if is_python(op) else None
            if complaint is None:
                raise
            raise complaint from None
        return call_row(op, bound) if out is None else _call_into(op, bound, out)

    function = answering(general, op)
    if op.template in FRONTS:
        function = FRONTS[op.template](op, function)
    elif op.kind == "template":
        function = quick_function(op, LAUNCHERS[op.template], function, recording=True)
    elif not (op.is_differentiable or op.options.get("bind")):
        function = _composite_function(op, function)
    if function is not op.body:
        function.__name__ = function.__qualname__ = op.name
        function.__doc__, function.__module__ = op.doc, "flambeau"
    return function


def _minds_out(op):
    """Does a row look at out= before it computes, write there itself, or draw numbers?"""
    return (
        not {"before_out", "apart", "out_dtype", "unrecorded_out"}.isdisjoint(op.options)
        or f"{op.template}_out" in LAUNCHERS
        or any(p.name == "generator" for p in op.params)
    )


def _call_into(op, bound, out):
    """Run a row on bound arguments; out= takes the results."""
    if "before_out" in op.options:
        op.options["before_out"](out, **bound)
    for name in op.options.get("apart", "").split():
        given = bound[name]
        for target in (out,) if isinstance(out, Tensor) else out:
            check_apart(target, (given,) if isinstance(given, Tensor) else given)
    if op.options.get("out_dtype"):
        if bound["dtype"] not in (None, out.dtype):
            raise errors.not_exact_out(bound["dtype"], out.dtype)
        bound["dtype"] = out.dtype
    write = LAUNCHERS.get(f"{op.template}_out")
    if write is not None:
        return write(out, *bound.values())
    result = call_row(op, bound)
    refused = op.options.get("unrecorded_out") and modes.grad and result._requires_grad
    if refused or wants_grad(op, bound):
        raise errors.out_requires_grad(op.name)
    store_out(op, out, result if isinstance(result, tuple) else (result,))
    if isinstance(out, Tensor):
        return out
    return tuple(out) if type(result) is tuple else type(result)(out)


def _composite_function(op, general):
    """Composites without a derivative of their own: the body is the function."""
    if op.body.__code__.co_flags & 4:  # *operands: nothing to bind
        return answering(op.body, op)
    return general if op.options.get("varargs") else quick_function(op, op.body, general)


def overwrite(input, compute, exact=None):
    """input becomes what compute() gives, which may need the values that are there now.

    exact: what is said of a result of another dtype, where that is refused.
    """
    if modes.grad and input._requires_grad:
        views.check_inplace(input)
    since = next_sequence()
    result = compute()
    if exact is not None and result.dtype is not input.dtype:
        raise errors.not_exact_out(result.dtype, input.dtype, exact)
    if result.dtype.category > input.dtype.category:
        raise errors.cannot_cast(result.dtype, input.dtype)
    node = result._grad_fn
    if node is None:
        return input.copy_(result)
    _keep_originals(node, input, since)
    if result.dtype is not input.dtype or result.shape != input.shape:
        return input.copy_(result)
    input.detach().copy_(result.detach())
    views.rebase(input, node)
    return input


def _keep_originals(node, target, since):
    """Let all nodes made since then keep a copy of a tensor that is about to be written."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Node) and node.seq > since:
            keep_original(node, target)
            waiting.extend(e[0] for e in node.edges if e is not None)


def row_inplace(op):
    """op_ for rows that are not pointwise.

    If there is a launcher called name_, it writes in place; else the result is copied back. The
    launcher may have something `quick` for arguments of plain types. (One called name_out writes
    out= itself.)
    """
    write, exact = LAUNCHERS.get(f"{op.template}_"), op.options.get("exact_inplace")

    def function(input, *args, **kwargs):
        bound = bind(op, (input, *args), kwargs, "_")
        if write is not None:
            return write(op, bound)
        return overwrite(input, lambda: call_row(op, bound), exact)

    if hasattr(write, "quick"):
        function = quick_function(op, write.quick(op), function)
    function.__name__ = function.__qualname__ = op.name + "_"
    function.__doc__, function.__module__ = op.doc, "flambeau"
    return function
