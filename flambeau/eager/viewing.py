"""View rows become functions: a look-up, a tensor over the same memory and, if wanted, a node.

What a view row does depends only on the input's layout and the other arguments, so it is worked
out once and kept as a plan; the public functions are generated text around the look-up (as in
call.py, speed outranks prose in that text). Rows may return several views, no view at all (their
`otherwise` then makes a copy) or a place in the storage instead of one relative to the input
(`absolute`).
"""

from flambeau import errors
from flambeau._layout import Size, make_layout, span
from flambeau._tensor import Tensor, new_view
from flambeau._tensor.admission import check_place
from flambeau.autograd import views
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import Node, edge_of, init_node, next_sequence
from flambeau.eager.binding import bind, judged, pack_rest, type_error
from flambeau.eager.fragments import compile_text, indented
from flambeau.eager.plans import Plans
from flambeau.eager.variants import fit
from flambeau.interposing.overriding import as_written, notice
from flambeau.ops.table import REQUIRED

_new = object.__new__
_classes: dict = {}
_INT = frozenset((int,))


class ViewNode(Node):
    """History of a view: everything it needs is in the plan that made it."""

    __slots__ = ("plan",)
    frees = False

    def apply(self, grads, create_graph):
        plan = self.plan
        values = plan.arguments.copy()
        for k, name in plan.moving:
            values[k] = grads[0] if name == "g" else self._all(grads)
        return (fit(plan.formula(*values), plan.input),)

    def _all(self, grads):
        """Gradients of all outputs, zeros for those that nobody used."""
        like = next(g for g in grads if g is not None)
        return [
            like.new_zeros(part[0].shape, dtype=part[0].dtype) if g is None else g
            for g, part in zip(grads, self.plan.parts)
        ]


class ViewPlan:
    """What a view row does to one layout.

    parts: (layout, byte offset from the input) per output. What a derivative needs is worked out
    when somebody first records such a view: formula with arguments, where `moving` lists the places
    that incoming gradients take.
    """

    __slots__ = (
        "op",
        "input",
        "values",
        "parts",
        "name",
        "origin",
        "formula",
        "arguments",
        "moving",
        "saved",
        "node_class",
    )


def _node_class(op, name):
    found = _classes.get((op.name, name))
    if found is None:
        names = next(iter(op.grads.values())).names
        kept = tuple(
            n for n in names if n not in ("g", "gs") and not n.endswith(("_shape", "_layout"))
        )
        found = _classes[op.name, name] = type(
            name, (ViewNode,), {"__slots__": (), "saved_names": kept}
        )
    return found


def node_name(op, layout, values, inplace=False):
    """PyTorch numbers the overloads of an op, those in place after the others."""
    number = op.options.get("number")
    if "naming" in op.options:
        return op.options["naming"](layout)
    if number is None and not inplace:
        return op.node_name
    count = op.options.get("overloads", 1)
    return f"{op.node_name[:-1]}{(number(*values) if number else 0) + (count if inplace else 0)}"


def make_plan(op, layout, values, found, name=None, origin=0):
    """The plan of a view row for a layout. found: what the row's body gave."""
    plan = _new(ViewPlan)
    plan.op, plan.input, plan.values, plan.name, plan.origin = op, layout, values, name, origin
    if type(found) is list:
        plan.parts = tuple([_part(layout, *place) for place in found])
    elif len(found) == 3:
        shape, strides, offset = found
        new = make_layout(tuple(shape), tuple(strides), layout.dtype, layout.device)
        plan.parts = ((new, offset * new.itemsize),)
    else:
        plan.parts = (_part(layout, *found),)
    plan.node_class = None
    return plan


def _prepare(plan):
    """Work out what a derivative needs."""
    op, layout, (derivative,) = plan.op, plan.input, plan.op.grads.values()
    first = op.params[0].name
    known = dict(zip([p.name for p in op.params[1:]], plan.values))
    known |= {f"{first}_shape": layout.shape, f"{first}_layout": layout, "origin": plan.origin}
    plan.formula, names = derivative.function, derivative.names
    plan.arguments = [known.get(n) for n in names]
    plan.moving = [(k, n) for k, n in enumerate(names) if n in ("g", "gs")]
    cls = _node_class(op, plan.name or node_name(op, layout, plan.values))
    plan.saved = tuple(known[n] for n in cls.saved_names)
    plan.node_class = cls


def _part(layout, shape, strides, offset, dtype=None):
    new = make_layout(tuple(shape), tuple(strides), dtype or layout.dtype, layout.device)
    start = offset * new.itemsize
    if dtype is not None:  # elements of another size must not reach further than before
        check_place(new.sizes, new.strides, start, new.itemsize, span(layout) * layout.itemsize)
    return new, start


def history(plan, input):
    """The node of a view of input."""
    if plan.node_class is None:
        _prepare(plan)
    node = _new(plan.node_class)
    node.edges, node.saved, node.outputs = (edge_of(input),), plan.saved, len(plan.parts)
    node.plan, node.seq, node.hooks = plan, next_sequence(), None
    if modes.anomaly:
        init_node(node, node.edges, node.saved, node.outputs)
    return node


def record(plan, input, *outs):
    """Make the history of the outputs, unless nobody is recording."""
    if not modes.grad or not plan.op.grads:
        if outs[0]._view is not None and not plan.op.options.get("fresh"):
            # PyTorch: a view of what needs gradients does too, though it has no history
            for out in outs:
                out._requires_grad = True
        return
    node = history(plan, input)
    for k, out in enumerate(outs):
        out._grad_fn, out._requires_grad, out._output_nr = node, True, k


def _function_text(op):
    """Source of a view row's public function; its first parameter is called input."""
    names = [p.name for p in op.params[1:]]
    if op.options.get("varargs"):
        signature, key, arguments = "input, *args, **kwargs", "input._layout, args", "args"
    else:
        signature = ", ".join(["input", *[f"{n}=_d_{n}" for n in names], "**kwargs"])
        key = ", ".join(["input._layout", *names])
        arguments = f"({''.join(n + ', ' for n in names)})"
    multi = op.options.get("multi")
    first = "parts" if multi else "layout"
    text = f"def {op.name}({signature}):\n"
    if op.options.get("listed"):
        text += "    if args and type(args[0]) is int:\n        slow(input, args, kwargs)\n"
    text += "    try:\n"
    if "natively" in op.options:
        given, some = ("args", "args and ") if op.options.get("varargs") else (", ".join(names), "")
        if "turning" in op.options:
            rank, given = op.options["turning"]
            some = f"input._layout.ndim == {rank} and "
        text += f"        if {some}not (kwargs or input._requires_grad):\n"
        text += f"            out = {op.options['natively']}(input, {given}, modes.grad)\n"
        text += "            if out is not None:\n                return out\n"
    text += f"        {first}, delta, plan = plans[{key}]\n"
    text += f"    except (TypeError, AttributeError):\n        {first} = plan = None\n"
    text += f"    if {first} is None or kwargs:\n        if plan is None or kwargs:\n"
    text += f"            return slow(input, {arguments}, kwargs)\n"
    text += "        return otherwise(input, *plan)\n"
    # True and 1.0 find the plans of 1: the maker of views looks at the types of arguments
    ints = [p.name for p in op.params[1:] if p.wants in ("int", "ints", "start")]
    looked = ", args" if op.options.get("varargs") else "".join(f", {n}" for n in ints)
    odd = f"    if out is None:\n        return slow(input, {arguments}, kwargs)\n" * bool(looked)
    fresh = "    out._view = None\n" if op.options.get("fresh") else ""
    if multi:
        kind = "" if fresh else '        out._view.kind = "multi"\n'
        text += "    outs, at = [], input._offset\n    for layout, delta in parts:\n"
        text += f"        out = _share(input, layout, at + delta, modes.grad{looked})\n"
        text += indented(odd + fresh) + kind + "        outs.append(out)\n"
        return (
            text
            + "    if input._requires_grad:\n        record(plan, input, *outs)\n"
            + "    return tuple(outs)\n"
        )
    text += f"    out = _share(input, layout, input._offset + delta, modes.grad{looked})\n{odd}"
    if "aligned" in op.options:
        text += "    if out._offset % layout.itemsize:\n        misaligned(input, layout)\n"
    text += fresh + "    if input._requires_grad:\n        record(plan, input, out)\n"
    return text + "    return out\n"


class Viewer:
    """The slow path of one view row: binds, asks the body, keeps plans."""

    def __init__(self, op):
        self.op, self.options = op, op.options
        self.packs = "varargs" in op.options
        self.names = [p.name for p in op.params[1:]]
        self.lists = [p.wants == "int list" for p in op.params[1:]]
        self.plans = Plans(self._plan, by_default=False, mixed=True, cuts=False)

    def _plan(self, key):
        """(layout, byte offset, ViewPlan), or (None, None, arguments) where only a copy will do."""
        if type(key) is not tuple:
            layout, args = key, ()
        elif self.packs:
            layout, args = key
            if _INT.issuperset(map(type, args)) and len(self.op.params) == 2 and args:
                args = (args,)
            elif all(map(_keepable, args)):
                args = self._packed(layout, args)
            else:
                raise TypeError("to be bound")
        else:
            layout, *args = key
            for a, lists in zip(args, self.lists):
                if type(a) is int:
                    if lists or not -(1 << 63) <= a < 1 << 63:
                        raise TypeError("to be bound")
                elif not _keepable(a):
                    raise TypeError("to be bound")
        found = self._asked(layout, args)
        if found is None:
            return None, None, args
        plan = make_plan(self.op, layout, args, found)
        return (plan.parts, None, plan) if self.options.get("multi") else (*plan.parts[0], plan)

    def _asked(self, layout, values):
        """What the body says; integers that are too large are found where something else was."""
        try:
            return self.op.body(layout, *values)
        except Exception as error:
            raise judged(self.op, error, dict(zip(self.names, values)))  # noqa: B904

    def _packed(self, layout, args):
        """All arguments after the first, where the rest of a call is one argument."""
        args = pack_rest(self.op, (layout, *args))[1:]
        missing = self.op.params[len(args) + 1 :]
        if any(p.default is REQUIRED for p in missing):
            raise TypeError("to be bound")
        return (*args, *[p.default for p in missing])

    def values(self, input, args, kwargs):
        """The row's arguments after the first, checked."""
        if not isinstance(input, Tensor):
            raise type_error(self.op, self.op.params[0].name, 1, input)
        if "dtype" in kwargs and self.op.name == "view":
            kwargs = {("size" if n == "dtype" else n): v for n, v in kwargs.items()}
        if not self.options.get("varargs"):
            # the generated function passes every argument on, those left at their defaults too
            rest = [(p, a) for p, a in zip(self.op.params[1:], args) if a is not p.default]
            count = sum(p.default is REQUIRED for p, _ in rest)
            named = {p.name: a for p, a in rest[count:]}
            for name in named.keys() & kwargs.keys():
                raise TypeError(f"{self.op.name}() got multiple values for argument '{name}'")
            kwargs, args = named | kwargs, (*args[:count], *args[len(self.names) :])
        return tuple(bind(self.op, (input, *args), kwargs).values())[1:]

    def slow(self, input, args, kwargs):
        """A call without a plan; an input that is no tensor may answer it."""
        if not isinstance(input, Tensor) and notice(type(input)):
            args, kwargs = as_written(self.op, (input, *args), kwargs)
            return self.function(*args, **kwargs)
        if list in map(type, args) and not kwargs and isinstance(input, Tensor):
            plain = tuple([tuple(a) if type(a) is list else a for a in args])
            if all(map(_keepable, plain)):  # unhashable, but the same as tuples
                return self.function(input, *plain)
        values = self.values(input, args, kwargs)
        found = self._asked(input._layout, values)
        if found is None:
            return self.options.get("otherwise", _no_view)(input, *values)
        return self.outputs(make_plan(self.op, input._layout, values, found), input)

    def outputs(self, plan, input):
        """What the generated function does with a plan, in plain words."""
        outs = tuple(
            new_view(input, layout, input._offset + delta, modes.grad)
            for layout, delta in plan.parts
        )
        for out in outs:
            if self.options.get("fresh"):
                out._view = None
            elif self.options.get("multi"):
                out._view.kind = "multi"
        if "aligned" in self.options and outs[0]._offset % outs[0]._layout.itemsize:
            self.misaligned(input, outs[0]._layout)
        if input._requires_grad:
            record(plan, input, *outs)
        return outs if self.options.get("multi") else outs[0]

    def misaligned(self, input, layout):
        raise self.options["aligned"](input, layout)


def _no_view(input, *values):
    raise RuntimeError(
        "view size is not compatible with input tensor's size and stride (at least one dimension "
        "spans across two contiguous subspaces). Use .reshape(...) instead."
    )


def _keepable(argument):
    """May a plan's key hold this argument?"""
    kind = type(argument)
    return (
        kind is int
        or argument is None
        or kind is Size
        or (kind is tuple and all(type(a) is int for a in argument))
    )


def view_function(op):
    """The public function of a view row."""
    viewer = op.runtime = Viewer(op)
    if op.options.get("absolute"):
        function = _absolute_function(op)
    else:
        space = {
            "plans": viewer.plans,
            "slow": viewer.slow,
            "otherwise": op.options.get("otherwise", _no_view),
            "record": record,
            "misaligned": viewer.misaligned,
            **{f"_d_{p.name}": p.default for p in op.params},
        }
        function = compile_text(_function_text(op), space, op.name)[op.name]
        viewer.function = function
    function.__doc__, function.__module__ = op.doc, "flambeau"
    function.__name__ = function.__qualname__ = op.name
    return function


def _absolute_function(op):
    """as_strided: the place is counted from the start of the storage and must lie inside it."""

    def plan_of(key):
        *place, args = key
        if not all(map(_keepable, args)) or not 2 <= len(args) <= 3:
            raise TypeError("to be bound")
        return absolute_plan(op, *place, (*args, None)[:3])

    plans = Plans(plan_of, by_default=False, cuts=False)

    def function(input, *args, **kwargs):
        try:
            found = plans[input._layout, input._offset, input._storage.nbytes, args]
        except (TypeError, AttributeError):
            found = None
        if found is None or kwargs:
            values = op.runtime.values(input, args, kwargs)
            found = absolute_plan(op, *_place(input), values)
        plan, offset = found
        out = new_view(input, plan.parts[0][0], offset, modes.grad)
        if input._requires_grad:
            record(plan, input, out)
        return out

    return function


def _place(input):
    return input._layout, input._offset, input._storage.nbytes


def absolute_plan(op, layout, place, room, values, name=None):
    """The plan of an absolute view and its byte offset in the storage, which has so much room."""
    shape, strides, offset = op.body(layout, *values)
    origin = place // layout.itemsize
    offset = origin if offset is None else offset
    if not layout.device.runtime.computes:
        room = errors.LARGEST
    check_place(shape, strides, offset * layout.itemsize, layout.itemsize, room)
    plan = make_plan(op, layout, (shape, strides, offset), (shape, strides, 0), name, origin)
    return plan, offset * layout.itemsize


def view_inplace(op):
    """t_, unsqueeze_ and the like: the tensor itself takes the new layout."""

    if op.runtime is None:
        view_function(op)

    def write(input, *args, **kwargs):
        values = op.runtime.values(input, args, kwargs)
        if input._requires_grad and modes.grad:
            views.check_inplace(input)
        name = node_name(op, input._layout, values, inplace=True)
        if op.options.get("absolute"):
            plan, offset = absolute_plan(op, *_place(input), values, name)
        else:
            plan = make_plan(op, input._layout, values, op.body(input._layout, *values), name)
            offset = input._offset + plan.parts[0][1]
        if input._requires_grad and modes.grad:
            input._grad_fn, input._output_nr = history(plan, input), 0
        input._layout, input._offset = plan.parts[0][0], offset
        input._storage.version += 1
        if input._view is not None:
            input._view.version = input._storage.version  # its own history is up to date
        return input

    write.__name__ = write.__qualname__ = op.name + "_"
    write.__doc__, write.__module__ = op.doc, "flambeau"
    return write
