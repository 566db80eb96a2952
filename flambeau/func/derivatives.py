"""grad, vjp and jvp: derivatives of functions of trees of tensors.

Reverse mode is the tape of the tensors that a function is given: fresh leaves of the level that
runs now, so that nested calls cannot mistake each other's. Forward mode is a level of its own.
"""

import functools
from collections.abc import Callable
from typing import Any

from flambeau import autograd, interposing
from flambeau._memory_format import preserve_format
from flambeau._tensor import Tensor
from flambeau.aten.overloads import current_recorder
from flambeau.autograd.grad_mode import inference_mode, modes
from flambeau.eager import creation
from flambeau.nn.parameter import Parameter
from flambeau.ops.table import public
from flambeau.storage import is_uncounted
from flambeau.transforms import levels
from flambeau.transforms import rules as rules
from flambeau.transforms.duals import DualLevel, checked_tangent, moving_on
from flambeau.transforms.levels import Wrapped, is_at
from flambeau.utils._pytree import tree_flatten, tree_map, tree_unflatten

# -- leaves ----------------------------------------------------------------------------------------


def fresh(x: Any) -> Any:
    """A tensor to differentiate at: at the level that runs, with its history outside of us."""
    if not isinstance(x, Tensor):
        raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
    if x.dtype.category < 2:
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    if is_uncounted(x._storage):
        with inference_mode(False):
            x = x.clone()
    level = levels.innermost()
    if level is None:
        if x._requires_grad and modes.grad:
            return _unseen(public("alias"), x)
        return _bare(x).requires_grad_()
    lifted = x if is_at(x, level) else level.lift(x)
    if lifted._requires_grad and modes.grad:
        return public("alias")(lifted)
    out = levels.same(lifted)
    out._requires_grad = True
    return out


def _bare(x):
    """The same tensor without history; whoever records takes it for what it was."""
    return _unseen(Tensor.detach, x)


def _unseen(function, x):
    if type(x) not in (Tensor, Parameter):
        return function(x)
    with interposing.switched_off(*interposing.handlers()):
        out = function(x)
    recorder = current_recorder()
    if hasattr(recorder, "take_for"):
        recorder.take_for(out, x)
    return out


class _Taping:
    """A function runs to be differentiated; history is recorded wherever we are."""

    def __enter__(self) -> None:
        self.mode, self.settled = inference_mode(False), levels.settled()
        self.settled.__enter__()
        self.mode.__enter__()
        levels.running.tapes += 1

    def __exit__(self, *error: Any) -> None:
        levels.running.tapes -= 1
        self.mode.__exit__(*error)
        self.settled.__exit__(*error)


def reaches_others(outs: list, inputs: list) -> bool:
    """Does the graph of results lead to leaves that are not ours?"""
    ours = {id(t) for t in inputs}
    stack = [o._grad_fn for o in outs if o._requires_grad and o._grad_fn is not None]
    if any(o._requires_grad and o._grad_fn is None and id(o) not in ours for o in outs):
        return True
    seen = set()
    while stack:
        node = stack.pop()
        if node.seq in seen:
            continue
        seen.add(node.seq)
        for edge in node.edges:
            if edge is None:
                continue
            if isinstance(edge[0], Tensor):
                if id(edge[0]) not in ours:
                    return True
            else:
                stack.append(edge[0])
    return False


def _is_taped(t, level):
    """Is it a tensor whose own history is the one we read?"""
    return t._requires_grad and (level is None or is_at(t, level))


def pulled(outs: list, inputs: list, cotangents: list, keep: bool, graph: bool) -> list:
    """Gradients of results with respect to inputs, zeros where there are none."""
    level = inputs[0]._level if type(inputs[0]) is Wrapped else None
    pairs = [(o, c) for o, c in zip(outs, cotangents) if _is_taped(o, level)]
    if not pairs:
        return [creation.zeros_like(x) for x in inputs]
    seeds = [_lifted(c, level) for _, c in pairs]
    with levels.settled():
        found = autograd.grad(
            [o for o, _ in pairs],
            inputs,
            seeds,
            retain_graph=keep or graph,
            create_graph=graph,
            allow_unused=True,
        )
    return [
        creation.zeros_like(x) if g is None else g if graph else _left(g, level)
        for g, x in zip(found, inputs)
    ]


def _lifted(c, level):
    """A cotangent from below as a tensor of the level, so that what it meets is recorded below."""
    found = levels.highest([c])
    if level is None or (found is not None and found.number >= level.number):
        return c
    return level.lift(c)


def _left(g, level):
    """A gradient without history of the level that it was taken at, which nobody needs."""
    if level is None:
        return _bare(g) if g._requires_grad or type(g) is Wrapped else g
    return levels.same(g) if is_at(g, level) else g


def settled(t: Any, graph: bool) -> Any:
    """A result as it leaves: without our part of the history, if that is all there is."""
    if not isinstance(t, Tensor) or graph:
        return t
    level = levels.innermost()
    if is_at(t, level):  # only what hangs on tensors of this level is ours
        return levels.same(t)
    return _bare(t) if level is None and t._requires_grad else t


# -- arguments -------------------------------------------------------------------------------------


def check_argnums(argnums: Any, count: int) -> tuple[int, ...]:
    """Which arguments, counted from the front."""
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    many = argnums if isinstance(argnums, tuple) else (argnums,)
    if not many:
        raise RuntimeError("argnums must be non-empty")
    for k in many:
        if not isinstance(k, int):
            raise RuntimeError(f"argnum must be int, got: {type(k)}")
        if not -count <= k < count:
            raise RuntimeError(f"Got argnum={k}, but only {count} positional inputs")
    places = tuple(k % count for k in many)
    if len(set(places)) < len(places):
        raise RuntimeError(f"argnums elements must be unique, got {places}")
    return places


def replaced(args: tuple, places: tuple[int, ...], new: list) -> list:
    """Arguments with some of them exchanged."""
    found = list(args)
    for k, value in zip(places, new):
        found[k] = value
    return found


def split_aux(result: Any, has_aux: bool, title: str) -> tuple[Any, Any]:
    """(output, aux) of what a function returned."""
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"{title}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return result


def _aux(aux, graph):
    def leave(x):
        if not isinstance(x, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(x)}")
        return settled(x, graph)

    return tree_map(leave, aux)


# -- reverse mode ----------------------------------------------------------------------------------


def grad_and_value(func: Callable, argnums: Any = 0, has_aux: bool = False) -> Callable:
    """A function that gives the gradient of a scalar function, and its value.

    Example:
        >>> import flambeau as torch
        >>> torch.func.grad_and_value(lambda x: (x * x).sum())(torch.tensor([1.0, 2.0]))
        (tensor([2., 4.]), tensor(5.))
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        title = "grad_and_value(f)(*args)"
        places = check_argnums(argnums, len(args))
        leaves, tree = tree_flatten([args[k] for k in places])
        outside = modes.grad
        inputs = [fresh(x) for x in leaves]
        with _Taping():
            given = replaced(args, places, tree_unflatten(inputs, tree))
            output, aux = split_aux(func(*given, **kwargs), has_aux, title)
            _check_scalar(output, title)
            graph = outside and reaches_others([output], inputs)
            ones = creation.ones_like(output, memory_format=preserve_format)
        found = pulled([output], inputs, [ones], False, graph)
        gradient = tree_unflatten(found, tree)
        gradient = gradient[0] if not isinstance(argnums, tuple) else tuple(gradient)
        value = settled(output, graph)
        return (gradient, (value, _aux(aux, graph))) if has_aux else (gradient, value)

    return wrapped


def _check_scalar(output, title):
    if not isinstance(output, Tensor):
        raise RuntimeError(f"{title}: Expected f(*args) to return a Tensor, got {type(output)}")
    if output.dim() != 0:
        raise RuntimeError(
            f"{title}: Expected f(*args) to return a scalar Tensor, got tensor with "
            f"{output.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
        )


def grad(func: Callable, argnums: Any = 0, has_aux: bool = False) -> Callable:
    """A function that gives the gradient of a scalar function.

    Args:
        func: returns a tensor without dimensions, or (tensor, aux) with has_aux.
        argnums: with respect to which arguments.

    Example:
        >>> import flambeau as torch
        >>> torch.func.grad(torch.sin)(torch.tensor(0.0))
        tensor(1.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        found = both(*args, **kwargs)
        if has_aux:
            gradient, (_, aux) = found
            return gradient, aux
        return found[0]

    return wrapped


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> Any:
    """The value of a function, and a function that multiplies its Jacobian from the left.

    Example:
        >>> import flambeau as torch
        >>> value, pull = torch.func.vjp(torch.sin, torch.zeros(2))
        >>> pull(torch.ones(2))
        (tensor([1., 1.]),)
    """
    outs, tree, pull, aux = taped(func, primals, has_aux, "vjp(f, *primals)")

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: Any = None) -> Any:
        flat, shape = tree_flatten(cotangents)
        if shape != tree:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {_drawn(shape)}, primal output: "
                f"{_drawn(tree)}"
            )
        return pull(flat)

    result = tree_unflatten([settled(o, pull.graph) for o in outs], tree)
    return (result, vjp_fn, aux) if has_aux else (result, vjp_fn)


def _drawn(spec):
    """A tree with stars for leaves."""
    return str(tree_unflatten([_Star()] * spec.num_leaves, spec))


class _Star:
    def __repr__(self):
        return "*"


class _Pull:
    """From cotangents of results to those of primals."""

    def __init__(self, outs, inputs, tree, graph):
        self.outs, self.inputs, self.tree, self.graph = outs, inputs, tree, graph

    def __call__(self, cotangents):
        for k, (c, o) in enumerate(zip(cotangents, self.outs)):
            if c.shape != o.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{k}] has a shape of {c.shape} and output[{k}] "
                    f"has a shape of {o.shape}."
                )
        graph = self.graph and modes.grad
        if any(c._requires_grad for c in cotangents) and modes.grad:
            graph = True
        found = pulled(self.outs, self.inputs, cotangents, True, graph)
        return tuple(tree_unflatten(found, self.tree))


def taped(func: Callable, primals: tuple, has_aux: bool, title: str) -> Any:
    """(results, their tree, a _Pull, aux) of a function."""
    leaves, tree = tree_flatten(list(primals))
    outside = modes.grad
    inputs = [fresh(x) for x in leaves]
    with _Taping():
        result, aux = split_aux(func(*tree_unflatten(inputs, tree)), has_aux, title)
    outs, out_tree = tree_flatten(result)
    check_results(outs, title)
    graph = outside and reaches_others(outs, inputs)
    return outs, out_tree, _Pull(outs, inputs, tree, graph), _aux(aux, graph) if has_aux else None


def check_results(outs: list, title: str) -> None:
    """A function that is differentiated gives tensors, and not none at all."""
    if not outs or (len(outs) == 1 and outs[0] is None):
        raise RuntimeError(
            f"{title}: Expected f to be a function that has non-empty output (got output = {outs})"
        )
    check_tensors(outs, f"{title}: expected f(*primals) to return only tensors")


def check_tensors(outs: list, complaint: str) -> None:
    for o in outs:
        if not isinstance(o, Tensor):
            raise RuntimeError(f"{complaint}, got unsupported type {type(o)}")


# -- forward mode ----------------------------------------------------------------------------------


def jvp(
    func: Callable, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> Any:
    """The value of a function, and its Jacobian times tangents.

    Args:
        strict: results that do not depend on the primals are an error, not zero.

    Example:
        >>> import flambeau as torch
        >>> torch.func.jvp(torch.sin, (torch.zeros(2),), (torch.ones(2),))
        (tensor([0., 0.]), tensor([1., 1.]))
    """
    title = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{title}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    flat, tree = tree_flatten(primals)
    moving, other = tree_flatten(tangents)
    if tree != other:
        raise RuntimeError(
            f"{title}: Expected primals and tangents to have the same python structure. For "
            "example, if primals is a tuple of 3 tensors, tangents also must be. Got primals with "
            f"structure {tree} and tangents with structure {other}"
        )
    _check_all(flat, f"{title}: Expected primals to")
    _check_all(moving, f"{title}: Expected tangents to")
    with DualLevel() as level, moving_on():
        inside = [level.dual(p, checked_tangent(p, t)) for p, t in zip(flat, moving)]
        result, aux = split_aux(func(*tree_unflatten(inside, tree)), has_aux, title)
        outs, out_tree = tree_flatten(result)
        check_results(outs, title)
        values, moved = zip(*[_parts(level, o, strict, title) for o in outs])
    found = tree_unflatten(values, out_tree), tree_unflatten(moved, out_tree)
    if not has_aux:
        return found
    check_tensors(tree_flatten(aux)[0], "Expected tensors")
    return (*found, tree_map(level.plain, aux))


def _check_all(values, start):
    if not values:
        raise RuntimeError(f"{start} contain at least one Tensor.")
    for v in values:
        if not isinstance(v, Tensor):
            raise RuntimeError(f"{start} only contain Tensors, got {type(v)}")


def _parts(level, out, strict, title):
    value, tangent = level.parts(out)
    if tangent is None:
        if strict:
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the "
                "inputs. This is not allowed with strict=True."
            )
        tangent = creation.zeros_like(value.detach())
    return value, tangent


def linearize(func: Callable, *primals: Any) -> tuple[Any, Callable]:
    """The value of a function, and the linear function that approximates it there.

    The function itself runs once, however often the linear one is called.

    Example:
        >>> import flambeau as torch
        >>> value, push = torch.func.linearize(torch.sin, torch.zeros(2))
        >>> push(torch.ones(2))
        tensor([1., 1.])
    """
    outs, tree, pull, _ = taped(func, primals, False, "linearize(f, *primals)")
    leaves, spec = tree_flatten(primals)
    seeds = [fresh(creation.zeros_like(o)) for o in outs]
    with _Taping():
        backs = pulled(outs, pull.inputs, seeds, True, True)

    def push(*tangents: Any) -> Any:
        given, shape = tree_flatten(tangents)
        if shape != spec:
            raise RuntimeError(
                f"Expected the tangents {shape} to have the same argspec as the primals {spec}"
            )
        for k, (t, p) in enumerate(zip(given, leaves)):
            if t.shape != p.shape:
                raise RuntimeError(
                    f"tangent:{k} with shape {t.shape} in flattened pytree doesn't match the shape "
                    f"{p.shape} of the corresponding primal."
                )
        found = pulled(backs, seeds, given, True, pull.graph and modes.grad)
        return tree_unflatten(found, tree)

    return tree_unflatten([settled(o, pull.graph) for o in outs], tree), push


# -- others ----------------------------------------------------------------------------------------


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """What a tensor inside of a transform stands for; to look at, not to compute with."""
    while type(tensor) is Wrapped:
        tensor = tensor._value
        if not recurse:
            break
    return tensor
