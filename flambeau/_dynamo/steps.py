"""Steps of training as calls in a graph: backward, and what optimizers do.

A compiled function that holds a whole step (zero_grad, forward, backward, step) is one graph. The
functions here are the targets of its nodes; run as they are, they do what the methods do. The
optimizer is an attribute of the graph's module, and it reads its own options (a learning rate that
a scheduler changes) when it steps.
"""

import inspect
import sys
from typing import Any

import flambeau
from flambeau._dynamo.exc import Break
from flambeau._dynamo.values import BoundMethod, Outside, Symbolic, TensorValue
from flambeau._dynamo.varying import Step, seen_of
from flambeau._tensor import Tensor
from flambeau.fx.node import has_side_effect
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import forget_gradients
from flambeau.nn.utils.clip_grad import clip_grad_norm_

_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")


@has_side_effect
def backward(
    loss: Any, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False
) -> None:
    """loss.backward()."""
    loss.backward(gradient, retain_graph, create_graph)


@has_side_effect
def zero_grad(optimizer: Any, set_to_none: bool = True) -> None:
    """optimizer.zero_grad()."""
    optimizer.zero_grad(set_to_none)


@has_side_effect
def step(optimizer: Any) -> None:
    """optimizer.step()."""
    optimizer.step()


@has_side_effect
def clip(held: Any, max_norm: float, norm_type: float = 2.0, checks: bool = False) -> Any:
    """clip_grad_norm_ of some parameters."""
    return clip_grad_norm_(held.params, max_norm, norm_type, checks)


class HeldParameters:
    """Parameters of a module or a list in a graph, in the form of an optimizer's."""

    def __init__(self, params: list) -> None:
        self.params = params
        self.param_groups = [{"params": params}]

    def zero_grad(self, set_to_none: bool = True) -> None:
        forget_gradients(self.params, set_to_none)


class ParametersOf(Symbolic):
    """module.parameters(), as an argument of those who know what it is."""

    __slots__ = ("iterator", "owner", "recurse")

    def __init__(self, owner: Outside, recurse: bool) -> None:
        self.owner, self.recurse = owner, recurse
        self.iterator: Any = None  # once somebody goes through them

    def describe(self) -> str:
        return "the parameters of a module"


def is_optimizer(value: Any) -> bool:
    """Is it an optimizer? There is none before their package is imported."""
    optimizers = sys.modules.get("flambeau.optim.optimizer")
    return optimizers is not None and isinstance(value, optimizers.Optimizer)


class Tree:
    """The modules and parameters below a module, as they were."""

    def __init__(self, module: Module) -> None:
        self.nodes = [
            (m._modules, dict(m._modules), m._parameters, [*map(id, m._parameters.values())])
            for m in module.modules()
        ]
        usual = (Module.parameters, Module.named_parameters, Module.named_modules)
        for m in module.modules():
            cls = type(m)
            if (cls.parameters, cls.named_parameters, cls.named_modules) != usual:
                raise Break("a module with its own way to list parameters")

    def stands(self) -> bool:
        """Is it still so?"""
        for modules, children, parameters, ids in self.nodes:
            if modules != children or [*map(id, parameters.values())] != ids:
                return False
        return True


def parameters_of(optimizer: Any) -> tuple[int, ...]:
    """Which tensors an optimizer changes, by identity."""
    return tuple([id(p) for group in optimizer.param_groups for p in group["params"]])


class Steps:
    """The part of the reader that records steps of training."""

    def record_backward(self: Any, loss: TensorValue, args: tuple, kwargs: dict) -> None:
        """loss.backward(...)."""
        names = ("gradient", "retain_graph", "create_graph")
        given = dict(zip(names, args)) | kwargs
        if len(args) > len(names) or not given.keys() <= set(names):
            raise Break("backward with inputs")
        gradient = given.get("gradient")
        plain = gradient is None or isinstance(gradient, TensorValue)
        alone = gradient is not None or self.tensor_method(loss, "numel", (), {}) <= 1
        if not plain or not loss.fake.requires_grad or not alone:
            raise Break("backward that fails")
        nodes = {k: v.node if isinstance(v, TensorValue) else v for k, v in given.items()}
        self._add_step(self.graph.call_function(backward, (loss.node,), nodes))

    def optimizer_method(self: Any, owner: Outside, name: str) -> BoundMethod:
        """zero_grad or step of an optimizer of flambeau's, if nobody stands around it."""
        optimizer: Any = owner.obj
        cls, guards = type(optimizer), self.guards
        method = inspect.unwrap(getattr(cls, name))
        if not cls.__module__.startswith("flambeau.optim.") or not (
            method.__module__.startswith("flambeau.optim.")
        ):
            raise Break(f"{name} of {owner.describe()}")
        guards.same_object(owner.source, optimizer)
        guards.same_object(("attr", guards.known(cls), name), getattr(cls, name))
        fields = guards.variable(("dict", owner.source))
        own = optimizer.__dict__.get(name)
        if own is not None and not hasattr(own, "_wrapped_by_lr_sched"):
            raise Break(f"{name} of an optimizer is not its own")
        guards.require(f"{fields}.get({name!r}) is {guards.constant(own)}")
        optimizers = sys.modules["flambeau.optim.optimizer"]
        everywhere = (optimizers._before_every_step, optimizers._after_every_step)
        if any(getattr(optimizer, hooks) for hooks in _HOOKS) or any(everywhere):
            raise Break("hooks of an optimizer")
        names = [f"{fields}[{hooks!r}]" for hooks in _HOOKS] + [*map(guards.constant, everywhere)]
        guards.require(f"not ({' or '.join(names)})")
        held = self.held.setdefault(id(optimizer), parameters_of(optimizer))
        guards.require(
            f"{guards.constant(parameters_of)}({guards.variable(owner.source)})"
            f" == {guards.constant(held)}"
        )
        return BoundMethod(
            owner, self.record_zero_grad if name == "zero_grad" else self.record_step
        )

    def record_zero_grad(self: Any, owner: Outside, set_to_none: bool = True) -> None:
        """optimizer.zero_grad()."""
        if not isinstance(set_to_none, bool):
            raise Break("zero_grad with something else than a bool")
        node = self._optimizer_node(owner)
        self._add_step(self.graph.call_function(zero_grad, (node, set_to_none)))

    def record_step(self: Any, owner: Outside, closure: Any = None) -> None:
        """optimizer.step()."""
        if closure is not None:
            raise Break("step with a closure")
        self._add_step(self.graph.call_function(step, (self._optimizer_node(owner),)))

    def record_module_zero_grad(self: Any, owner: Outside, set_to_none: bool = True) -> None:
        """module.zero_grad()."""
        if not isinstance(set_to_none, bool) or getattr(owner.obj, "_is_replica", False):
            raise Break("zero_grad with something else than a bool, or of a replica")
        node = self._held_node(self._listed(ParametersOf(owner, True)))
        self._add_step(self.graph.call_function(zero_grad, (node, set_to_none)))

    def record_clip(
        self: Any,
        parameters: Any,
        max_norm: Any,
        norm_type: Any = 2.0,
        error_if_nonfinite: Any = False,
        foreach: Any = None,
    ) -> TensorValue:
        """clip_grad_norm_(parameters, ...)."""
        numbers = type(max_norm) in (int, float) and type(norm_type) in (int, float)
        if not numbers or not isinstance(error_if_nonfinite, bool):
            raise Break("clip_grad_norm_ with something else than numbers")
        params = self._listed(parameters)
        dtypes = {p.dtype for p in params}
        if len(dtypes) != 1 or any(p.device.type != "cpu" for p in params):
            raise Break("clip_grad_norm_ of several dtypes, or on a GPU")
        (dtype,) = dtypes
        node = self._held_node(params)
        options = (float(max_norm), float(norm_type), error_if_nonfinite)
        node = self.graph.call_function(clip, (node, *options))
        self._add_step(node)

        def like():
            return flambeau.empty((), dtype=dtype.to_real(), device="meta")

        self.settle_place(params[0].device)
        found = like()
        self.log.append(Step(node, like, (), {}, seen_of(found, self.owner_of)))
        return self.result_of(node, found, "clip_grad_norm_", False)

    def _listed(self, parameters):
        """The parameters that are meant, under guards."""
        guards = self.guards
        if isinstance(parameters, ParametersOf):
            if parameters.iterator is not None:
                raise Break("parameters, some of which were taken already")
            owner = parameters.owner
            guards.same_object(owner.source, owner.obj)
            guards.require(f"{guards.constant(Tree(owner.obj))}.stands()")
            return list(owner.obj.parameters(parameters.recurse))
        if not isinstance(parameters, Outside) or type(parameters.obj) not in (list, tuple):
            raise Break("clip_grad_norm_ of something else than the parameters of a module")
        found = list(parameters.obj)
        if not all(isinstance(p, Tensor) for p in found):
            raise Break("clip_grad_norm_ of something else than tensors")
        held = guards.constant([*map(id, found)])
        guards.require(f"[*map(id, {guards.variable(parameters.source)})] == {held}")
        return found

    def _held_node(self, params):
        """The node of some parameters."""
        if not params:
            raise Break("there are no parameters")
        ids = [*map(id, params)]
        for held in self.attributes.values():
            if isinstance(held, HeldParameters) and [*map(id, held.params)] == ids:
                return self._attribute_node(held)
        return self._attribute_node(HeldParameters(params))

    def _optimizer_node(self, owner):
        return self._attribute_node(owner.obj)

    def _attribute_node(self, obj):
        name = next((n for n, held in self.attributes.items() if held is obj), None)
        if name is None:
            name = f"optimizer_{len(self.attributes)}"
            self.attributes[name] = obj
        return self.added(self.graph.get_attr(name))

    def _add_step(self, node):
        self.added(node).meta["writes"] = True
        self.count += 1
        self.writes = self.has_steps = True


def guard_steps(reader: Any) -> None:
    """Backward goes no further than the inputs, and nobody's code runs in it."""
    for value in reader.inputs:
        if not value.real._requires_grad:
            continue
        extra = value.real._extra
        if value.real._grad_fn is not None or (extra and (extra.hooks or extra.post_hooks)):
            raise Break("backward through tensors from outside, or with hooks")
        name = reader.guards.variable(value.source)
        reader.guards.require(
            f"{name}._extra is None or not ({name}._extra.hooks or {name}._extra.post_hooks)"
        )
