"""vmap, grad and their kin in a program that is read: what they transform becomes a graph.

The function is read once, on what it is given: samples without their batch, or the very shapes.
The transform itself runs where the graph runs, and on tensors without memory to know its results.
"""

import functools
from typing import Any

import flambeau
from flambeau import func
from flambeau._dynamo.exc import Break
from flambeau._dynamo.known import KNOWN, known
from flambeau._dynamo.regions import Region, filled, leaves_of, module_of, recording, reserved
from flambeau._dynamo.shape_runs import values_in
from flambeau._dynamo.trees import opened_tree
from flambeau._dynamo.values import Partial, TensorValue, holds_symbols
from flambeau._dynamo.varying import Step, seen_of
from flambeau._higher_order_ops.transforms import run_transform, transform_op
from flambeau.autograd.grad_mode import modes

_WHAT = "a function that is transformed"


def transformed(name: str, function: Any, options: dict, *args: Any, **kwargs: Any) -> Any:
    """A call of a transformed function, for programs that run as they are."""
    return getattr(func, name)(function, **options)(*args, **kwargs)


def _making(name, *names):
    """The handler of a transform, whose further arguments have these names."""

    def handler(reader, function, *args, **kwargs):
        options = {**dict(zip(names, args)), **kwargs}
        if len(args) > len(names) or not options.keys() <= set(names):
            raise Break(f"{name} with other arguments")
        options = {key: reader.opened(value) for key, value in options.items()}
        if holds_symbols(list(options.values())):
            raise Break(f"{name} with tensors or objects as options")
        return Partial(transformed, (name, function, options), {})

    return handler


KNOWN[func.vmap] = _making("vmap", "in_dims", "out_dims", "randomness", "chunk_size")
KNOWN[func.grad] = _making("grad", "argnums", "has_aux")
KNOWN[func.grad_and_value] = _making("grad_and_value", "argnums", "has_aux")
KNOWN[func.jacrev] = _making("jacrev", "argnums", "has_aux", "chunk_size")
KNOWN[func.jacfwd] = _making("jacfwd", "argnums", "has_aux", "randomness")


@known(func.hessian)
def _hessian(reader, function, argnums=0):
    inner = KNOWN[func.jacrev](reader, function, argnums)
    return KNOWN[func.jacfwd](reader, inner, argnums)


@known(transformed)
def _transformed(reader, name, function, options, *args, **kwargs):
    args = tuple(opened_tree(reader, a) for a in args)
    call = _Call(reader, function, kwargs)
    if name == "vmap":
        return _vmap(call, options, args)
    if name in ("grad", "grad_and_value"):
        return _grad(call, name, options, args)
    return _jacobian(call, name, options, args)


def _vmap(call, options, args):
    options = dict(options)
    in_dims, out_dims = options.pop("in_dims", 0), options.pop("out_dims", 0)
    if call.kwargs:
        raise Break("vmap with keywords")
    dims: list = []
    inside = _moved(args, in_dims, lambda leaf, dim: call.sample(leaf, dim, dims))
    if not dims:
        raise Break("vmap without a dimension")
    result = call.read(inside, modes.grad)
    outs: list = []
    _moved(result, out_dims, lambda leaf, dim: outs.append(dim))
    plan = {"dims": tuple(dims), "out_dims": tuple(outs), "options": tuple(options.items())}
    found = call.run("vmap", leaves_of(result, _WHAT), plan)
    return filled(result, iter(found))


def _grad(call, name, options, args):
    argnums, has_aux = options.get("argnums", 0), options.get("has_aux", False)
    chosen, inside = _differentiated(call, argnums, args)
    result = call.read(inside, True)
    value, aux = _parted(result, has_aux)
    if not isinstance(value, TensorValue):
        raise Break(f"{_WHAT} that gives something else than a tensor")
    found = iter(call.run("grad_and_value", [value, *leaves_of(aux, _WHAT)], {}))
    grads = tuple(filled(args[k], found) for k in chosen)
    grads = grads[0] if isinstance(argnums, int) else grads
    value, aux = next(found), filled(aux, found)
    if name == "grad_and_value":
        return grads, (value, aux) if has_aux else value
    return (grads, aux) if has_aux else grads


def _jacobian(call, name, options, args):
    options = dict(options)
    argnums, has_aux = options.pop("argnums", 0), options.pop("has_aux", False)
    chosen, inside = _differentiated(call, argnums, args)
    if not isinstance(argnums, int) or not isinstance(args[chosen[0]], TensorValue):
        raise Break(f"{name} of several arguments")
    result = call.read(inside, True)
    main, aux = _parted(result, has_aux)
    leaves = leaves_of(main, _WHAT)
    plan = {"count": len(leaves), "options": tuple(options.items())}
    found = iter(call.run(name, [*leaves, *leaves_of(aux, _WHAT)], plan))
    main, aux = filled(main, found), filled(aux, found)
    return (main, aux) if has_aux else main


def _parted(result, has_aux):
    """(what is differentiated, the rest) of a result."""
    if not has_aux:
        return result, ()
    if type(result) is not tuple or len(result) != 2:
        raise Break(f"{_WHAT} that does not give a pair")
    return result


def _differentiated(call, argnums, args):
    """(numbers of arguments with derivatives, the arguments as the function gets them)."""
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    if type(numbers) is not tuple or not all(type(n) is int for n in numbers):
        raise Break("argnums that are no ints")
    if not all(-len(args) <= n < len(args) for n in numbers):
        raise Break("argnums of arguments that are not there")
    chosen = [n % len(args) for n in numbers]
    inside = list(args)
    for k in chosen:
        leaves = leaves_of(args[k], _WHAT)
        inside[k] = filled(args[k], iter([call.fresh(leaf) for leaf in leaves]))
    return chosen, tuple(inside)


class _Call:
    """A call of a function that is transformed."""

    def __init__(self, reader: Any, function: Any, kwargs: dict) -> None:
        self.reader, self.function, self.kwargs = reader, function, kwargs
        self.names, self.places = reserved(reader, "transformed")
        self.region = Region(reader, _WHAT)
        self.moved: list[TensorValue] = []  # what the transform is about
        self.slots: list[TensorValue] = []  # what the function gets for it

    def sample(self, leaf: Any, dim: Any, dims: list) -> Any:
        """An argument of a function under vmap."""
        if dim is None:
            return leaf
        if not isinstance(leaf, TensorValue) or type(dim) is not int:
            raise Break("vmap of something else than a tensor")
        if not -leaf.fake.dim() <= dim < leaf.fake.dim() or not leaf.fake.shape[dim]:
            raise Break("vmap along a dimension that is not there, or empty")
        dims.append(dim % leaf.fake.dim())
        return self._slot(leaf, _sample, leaf.node, dims[-1])

    def fresh(self, leaf: TensorValue) -> TensorValue:
        """An argument that is differentiated."""
        return self._slot(leaf, _fresh, leaf.node)

    def _slot(self, leaf, function, node, *more):
        reader = self.reader
        slot = reader.added(reader.graph.call_function(function, (node, *more)))
        fake = function(leaf.fake, *more)
        step = Step(slot, function, (node, *more), {}, seen_of(fake, reader.owner_of))
        reader.log.append(step)
        self.moved.append(leaf)
        self.slots.append(reader.result_of(slot, fake, "an argument", leaf.varies))
        return self.slots[-1]

    def read(self, args: tuple, mode: bool) -> Any:
        """The function's result for such arguments."""
        reader = self.reader
        versions = [v.fake._storage.version for v in self.slots]
        reader.transforms += 1
        with recording(reader, mode):
            result = reader.call(self.function, args, self.kwargs)
        reader.transforms -= 1
        if versions != [v.fake._storage.version for v in self.slots]:
            raise Break(f"{_WHAT} that writes its arguments")
        self.region.close()
        return result

    def run(self, name: str, leaves: list, plan: dict) -> list:
        """What the transform gives, given what the function gave."""
        reader, region = self.reader, self.region
        slots, ends = [v.node for v in self.slots], [leaf.node for leaf in leaves]
        nodes = [n for n in region.nodes if n not in slots]
        others = region.used(ends, slots)
        moved = [v.node for v in self.moved]
        inputs = [*slots, *others]
        reader.attributes[self.names[0]] = module_of(nodes, inputs, ends, reader)
        args = (tuple(moved), tuple(others))
        node = reader.graph.call_function(transform_op, (name, *self.places, *args), plan)
        reader.count += 1
        inside = set(nodes)
        steps = [step for step in region.steps if step.node in inside]
        body = functools.partial(_replayed, steps, inputs, ends)
        function = functools.partial(run_transform, name, body, **plan)
        try:
            fakes = function(*[tuple(map(_fake_of, part)) for part in args])
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise Break(f"{name}: {type(error).__name__}: {error}", error) from error
        reader.log.append(Step(node, function, args, {}, seen_of(fakes, reader.owner_of)))
        varies = bool(reader.numbers) or any(v.varies for v in reader.inputs)
        found = reader.result_of(node, tuple(fakes), name, varies)
        region.erase()
        return list(found)


def _fake_of(node):
    return node.meta["example_value"]


def _replayed(steps, inputs, ends, *given):
    """The steps of a function once more, on other tensors."""
    values = dict(zip(inputs, given))
    for step in steps:
        values[step.node] = step.function(*values_in(step.args, values),
                                          **values_in(step.kwargs, values))  # fmt: skip
    return tuple([values[end] for end in ends])


def _sample(value, dim):
    sizes = [size for k, size in enumerate(value.shape) if k != dim]
    return flambeau.empty(sizes, dtype=value.dtype, device=value.device)


def _fresh(value):
    return flambeau.empty_strided(
        value.shape, value.stride(), dtype=value.dtype, device=value.device
    )


def _moved(value, dims, leaf):
    """Arguments with leaf(v, dim) for what is in them; dims is an int, None or a tree like them."""
    if type(value) in (tuple, list, dict) and not isinstance(dims, (int, type(None))):
        if len(value) != len(dims) or isinstance(dims, dict) is not isinstance(value, dict):
            raise Break("dimensions of vmap that are not like what it gets")
        if isinstance(value, dict):
            return {key: _moved(item, dims[key], leaf) for key, item in value.items()}
        return type(value)([_moved(*pair, leaf) for pair in zip(value, dims)])
    if type(value) is dict:
        return {key: _moved(item, dims, leaf) for key, item in value.items()}
    if type(value) in (tuple, list):
        return type(value)([_moved(item, dims, leaf) for item in value])
    return leaf(value, dims)
