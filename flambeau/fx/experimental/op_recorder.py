"""Records ops as programs call them, with sizes that may change: for export and make_fx.

Every op runs on the tensors of the example, and on tensors without memory for each other sample of
the sizes (design 013). What comes out tells the shape of its result.
"""

import operator
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import interposing
from flambeau._decomp.rewriting import REWRITES
from flambeau._decomp.subscripting import assign, take
from flambeau._subclasses.fake_tensor import FakeTensor
from flambeau._tensor import Tensor
from flambeau.aten.calls import as_op, named_call, tidied
from flambeau.aten.overloads import recorded_by
from flambeau.autograd.grad_mode import modes, no_grad
from flambeau.fx.experimental.attention import attend, is_plain
from flambeau.fx.experimental.branches import place_for, record_branch, same_kind
from flambeau.fx.experimental.loops import record_over, record_while
from flambeau.fx.experimental.program_places import (
    PACKAGE,
    frame_text,
    passes_calls,
    program_frame,
)
from flambeau.fx.experimental.recorder import Again, Recorder, overload
from flambeau.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    Retry,
    ShapeEnv,
    SymFloat,
    SymInt,
    restrictions,
)
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node
from flambeau.interposing.dispatching import _SHELL_KEYS
from flambeau.library.registered import Entry
from flambeau.nn import Module
from flambeau.utils import _pytree as pytree

_WORDS: dict[str, Callable] = {
    "//": operator.floordiv,
    "Mod": operator.mod,
    "Max": flambeau.sym_max,
    "Min": flambeau.sym_min,
}
_QUESTIONS = frozenset(
    "shape.__get__ size numel nelement __len__ stride storage_offset".split()
)  # fmt: skip
# ops whose result is as long as values say
_FREE = frozenset(
    "nonzero argwhere masked_select bincount unique_consecutive _unique2 unique_dim".split()
)
_READERS = frozenset("item __bool__ is_nonzero __int__ __float__ __index__ __complex__".split())
# ops that return what they were given if there is nothing to do, which is then not recorded
_MAY_DO_NOTHING = frozenset({"contiguous", "conj", "resolve_conj", "resolve_neg"})
_LIFTED = {
    "tensor": True,
    "new_tensor": True,
    "as_tensor": False,
    "asarray": False,
    "from_numpy": False,
}


class OpRecorder(Recorder):
    """Records ops of aten as they are called."""

    kinds = frozenset({"op", "property", "method", "data", "python"})

    def __init__(self, graph: Graph, root: Module, env: ShapeEnv, **options: Any) -> None:
        super().__init__(graph, root, options.get("decompositions"))
        self.env = env
        env.recorder = self
        self.shadows: dict[int, list[Tensor]] = {}  # by id of a tensor: one per sample
        self.shapes: dict[int, tuple] = {}
        self.lifted: list[Tensor] = []
        self.known_constants: dict[int, str] = options.get("constants", {})
        self.modules: list[tuple[str, str, str]] = []
        self.outside: OpRecorder | None = None  # for a branch: who records what is around it
        self.free: list[Tensor] = []  # what the branch uses of that
        self.agains: list[Again] = []  # handlers of ops that are being taken apart
        self.sizes_of: dict[str, Node] = {}  # nodes of symbols
        self.thread = threading.get_ident()

    def wants(self, place: interposing.Place) -> bool:
        if place.kind in ("property", "method"):
            return place.key in _QUESTIONS
        if place.kind == "python":
            return place.key == "multi_head_attention_forward"
        if place.kind == "data":
            return place.key in _LIFTED or place.key in ("tolist", "numpy")
        if place.kind != "op" or place.key in _SHELL_KEYS:
            return False
        naming = place.naming
        return callable(naming) or "::" in str(naming)

    # -- calls -------------------------------------------------------------------------------
    def around(self, name: interposing.Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        key = name.place.key
        if name.kind in ("property", "method"):
            return self._size(key, function, args, kwargs)
        if name.kind == "data":
            return self._data(key, function, args, kwargs)
        if name.kind == "python":
            return self._attention(name, function, args, kwargs)
        if key == "__getitem__":
            return take(self, *args)
        if key == "__setitem__":
            return assign(self, *args)
        if isinstance(args[0] if args else None, Entry):
            return self.call(args[0].overload, *args[1:], **kwargs)
        if key in _READERS and isinstance(args[0], Tensor):
            return self._read(key, function, args[0])
        out = kwargs.get("out")
        if out is not None:
            plain = {k: v for k, v in kwargs.items() if k != "out"}
            return self._store(out, self.around(name, function, args, plain))
        found = named_call(name, args, kwargs)
        if found is not None and found[0] in REWRITES:
            result = REWRITES[found[0]](self, dict(found[1]))
            if result is not NotImplemented:
                return result
        call = None if found is None else as_op(*found)
        if call is None:
            return self._foreign(name, function, args, kwargs)
        short, kind, given, named = call
        target = overload(f"{short}.{kind}")
        if target in self.decompositions:
            return self.take_apart(target, given, named)
        free = _has_free_size(short, given)
        if free:
            result = self._free_sizes(short, function, args, kwargs)
        else:
            result = self.run(function, args, kwargs)
        if short in _MAY_DO_NOTHING and result is args[0]:
            return result
        if short in ("to", "_to_copy"):
            self._assert_kind(args[0])
        self.write(target, given, named, result)
        if free:
            self._assert_size(result)
        return result

    def take_for(self, tensor: Tensor, original: Tensor) -> None:
        """A tensor stands for the same node as another."""
        node = self.nodes.get(id(original))
        if node is None:
            return
        self.nodes[id(tensor)] = node
        self.alive.append(tensor)
        if id(original) in self.shapes:
            self.shapes[id(tensor)] = self.shapes[id(original)]
            self.shadows[id(tensor)] = self.shadows[id(original)]

    def _store(self, out, result):
        """out= as what is computed, and a copy of it."""
        outs, results = (out, result) if isinstance(out, (tuple, list)) else ((out,), (result,))
        for o, r in zip(outs, results):
            if o.shape != r.shape:
                self.call("resize_.default", o, list(r.shape))
            self.call("copy_.default", o, r)
        return out

    def call(self, name: str | Any, *args: Any, **kwargs: Any) -> Any:
        """Run an op of aten, and record it."""
        target = overload(name) if isinstance(name, str) else name
        if target in self.decompositions:
            return self.take_apart(target, args, kwargs)
        return self.call_whole(target, *args, **kwargs)

    def call_whole(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        """The same without taking it apart."""
        if target.namespace == "aten":
            args, kwargs = tidied(target._schema, args, kwargs)
        short = target.overloadpacket.__name__
        free = _has_free_size(short, args)
        if free:
            result = self._free_sizes(short, target.function(), args, kwargs)
        else:
            result = self.run(target.function(), args, kwargs)
        self.write(target, args, kwargs, result)
        if free:
            self._assert_size(result)
        return result

    def take_apart(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Record what an op is made of."""
        return self.inside(self.decompositions[target], args, kwargs)

    def inside(self, function: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call a function and record what it calls, while a call is being handled."""
        again = Again(self)
        off = interposing.switched_off(self, *self.agains)
        with off, recorded_by(self), interposing.handling(again):
            self.agains.append(again)
            try:
                return function(*args, **kwargs)
            finally:
                self.agains.pop()

    def _attention(self, name, function, args, kwargs):
        """Attention in the steps that PyTorch takes, where it is nothing unusual."""
        found = named_call(name, args, kwargs)
        if found is not None and is_plain(found[1]):
            return self.inside(attend, (found[1],), {})
        return self.inside(function, args, kwargs)

    def call_named(self, short: str, values: dict[str, Any]) -> Any:
        """The same for arguments by their names here."""
        found = as_op(short, values)
        if found is None:
            raise TypeError(f"aten::{short} does not take {list(values)}")
        return self.call(f"{short}.{found[1]}", *found[2], **found[3])

    def _foreign(self, name, function, args, kwargs):
        """An op that aten does not have, such as those of vision: our function, by its name."""
        result = self.run(function, args, kwargs)
        self.write(name.function, args, kwargs, result)
        return result

    def _assert_kind(self, tensor):
        """PyTorch has conversions check what they are given."""
        target = overload("_assert_tensor_metadata.default")
        named = {"dtype": tensor.dtype, "device": tensor.device, "layout": flambeau.strided}
        node = self.graph.create_node("call_function", target, (self.leaf(tensor), None, None)[:1],
                                      named, "_assert_tensor_metadata_default")  # fmt: skip
        self.finish(node, None)

    # -- samples -----------------------------------------------------------------------------
    def run(self, function: Callable, args: tuple, kwargs: dict) -> Any:
        """The result for the example; those for other samples are kept with it."""
        with interposing.switched_off(self, *self.agains), recorded_by(None):
            return self._run(function, args, kwargs)

    def _run(self, function, args, kwargs):
        if not self.env.symbols:
            return function(*args, **kwargs)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        plain = [_example(leaf) for leaf in leaves]
        given, named = pytree.tree_unflatten(plain, spec)
        result = function(*given, **named)
        moving = any(isinstance(leaf, (SymInt, SymFloat)) or id(leaf) in self.shadows
                     for leaf in leaves)  # fmt: skip
        if moving:
            self._run_samples(function, leaves, spec, result)
        return result

    def _run_samples(self, function, leaves, spec, result):
        found = []
        for k in range(1, len(self.env.samples)):
            given = [self._sample(leaf, k) for leaf in leaves]
            other = _tried(function, given, spec)
            if other is None:
                other = self._with_memory(function, leaves, spec, k)
            found.append(other)
        self._keep_shadows(result, found)

    def _with_memory(self, function, leaves, spec, k):
        """Some ops need values; if it is not that, sizes are less free than was assumed."""
        sample = self.env.samples[k]
        if _tried(function, self._imagined(leaves, self.env.samples[0]), spec) is not None:
            works = lambda s: _tried(function, self._imagined(leaves, s), spec) is not None
            raise Retry(restrictions(self.env, works, sample))
        other = _tried(function, self._imagined(leaves, sample, "cpu"), spec)
        if other is None:
            works = lambda s: _tried(function, self._imagined(leaves, s, "cpu"), spec) is not None
            raise Retry(restrictions(self.env, works, sample))
        return other

    def _imagined(self, leaves, sample, device="meta"):
        """Arguments for any sizes; tensors are contiguous."""

        def leaf_of(leaf):
            if isinstance(leaf, SymInt):
                return leaf.expr.value(sample)
            if isinstance(leaf, SymFloat):
                return leaf.hint
            if isinstance(leaf, flambeau.device):
                return flambeau.device(device)
            if not isinstance(leaf, Tensor):
                return leaf
            shape = self.shapes.get(id(leaf), leaf._layout.shape)
            sizes = [s.expr.value(sample) if isinstance(s, SymInt) else s for s in shape]
            return flambeau.zeros(sizes, dtype=leaf.dtype, device=device)

        return [leaf_of(leaf) for leaf in leaves]

    def _keep_shadows(self, result, found):
        mine = pytree.tree_leaves(result)
        others = [pytree.tree_leaves(other) for other in found]
        if any(len(other) != len(mine) for other in others):
            raise Retry(self.env.all_fixed())
        for k, item in enumerate(mine):
            if isinstance(item, Tensor):
                self.shadow(item, [other[k] for other in others])

    def shadow(self, tensor: Tensor, others: list[Tensor]) -> None:
        """Note what a tensor is for other samples, and what its shape is then."""
        if any(other.ndim != tensor.ndim for other in others):
            raise Retry(self.env.all_fixed())
        shape = []
        for dim, size in enumerate(tensor._layout.shape):
            values = [size, *(other._layout.shape[dim] for other in others)]
            found = self.env.size(values)
            if found is None:
                raise Retry(self.env.all_fixed())
            shape.append(found)
        if any(isinstance(size, SymInt) for size in shape):
            self.shapes[id(tensor)] = tuple(shape)
            self.shadows[id(tensor)] = others
        else:  # an object may be written to and change its size
            self.shapes.pop(id(tensor), None)
            self.shadows.pop(id(tensor), None)
        self.alive.append(tensor)

    def _sample(self, leaf, k):
        if isinstance(leaf, SymInt):
            return leaf.expr.value(self.env.samples[k])
        if isinstance(leaf, SymFloat):
            return leaf.values[k]
        if not isinstance(leaf, Tensor):
            return "meta" if isinstance(leaf, flambeau.device) else leaf
        others = self.shadows.get(id(leaf))
        if others is not None:
            return others[k - 1]
        return flambeau.empty_strided(
            leaf._layout.shape, leaf._layout.strides, dtype=leaf.dtype, device="meta"
        )

    # -- sizes -------------------------------------------------------------------------------
    def _size(self, key, function, args, kwargs):
        tensor = args[0]
        shape = self.shapes.get(id(tensor))
        if shape is None or threading.get_ident() != self.thread:
            return function(*args, **kwargs)
        if key == "shape.__get__":
            return flambeau.Size(self._asked(tensor, shape))
        if key == "size":
            dim = args[1] if len(args) > 1 else kwargs.get("dim")
            asked = flambeau.Size(self._asked(tensor, shape))
            return asked if dim is None else asked[dim]
        if key in ("numel", "nelement"):
            total: Any = 1
            for size in self._asked(tensor, shape):
                total = total * size
            return total
        if key == "__len__":
            return int(shape[0])
        if key == "stride":
            found = FakeTensor.of(tensor, tuple(self._asked(tensor, shape))).stride()
            dim = args[1] if len(args) > 1 else kwargs.get("dim")
            return found if dim is None else found[dim]
        return function(*args, **kwargs)

    def sizes_of_tensor(self, tensor: Tensor) -> tuple:
        """Its sizes, of which some may be symbols."""
        return self.shapes.get(id(tensor), tuple(tensor._layout.shape))

    def _asked(self, tensor, shape):
        """Sizes with what they are read from, in case they are used."""
        return [
            SymInt(size.expr, self.env, size.fx_node or (tensor, dim))
            if isinstance(size, SymInt) else size
            for dim, size in enumerate(shape)
        ]  # fmt: skip

    def sym_call(self, function: Callable, operands: tuple) -> Node:
        """A node for arithmetic with sizes."""
        given = tuple(self.leaf(value) for value in operands)
        return self.graph.call_function(function, given)

    def leaf(self, value: Any) -> Any:
        if isinstance(value, SymInt):
            return self._sym_node(value)
        if isinstance(value, SymFloat):
            return value.fx_node
        return super().leaf(value)

    def _sym_node(self, value):
        if value.expr.is_symbol and str(value.expr) in self.sizes_of:
            return self.sizes_of[str(value.expr)]
        if isinstance(value.fx_node, Node):
            node = value.fx_node
        elif value.fx_node is not None:
            tensor, dim = value.fx_node
            node = self.graph.create_node(
                "call_function", overload("sym_size.int"), (self.leaf(tensor), dim), {},
                "sym_size_int",
            )  # fmt: skip
            value.fx_node = node
        else:
            node = self._computed(value.expr)
        node.meta["val"] = value
        return node

    def _computed(self, expr):
        """A size that is known as an expression only, from nodes of its symbols."""
        total: Any = None
        for monomial, c in expr.terms.items():
            part: Any = c
            for atom, power in monomial:
                for _ in range(power):
                    part = self._arithmetic(operator.mul, part, self._atom(atom))
            total = part if total is None else self._arithmetic(operator.add, total, part)
        return total

    def _atom(self, atom):
        if not atom.args:
            return self.sizes_of[atom.name]
        return self._arithmetic(_WORDS[atom.name], *(self._computed(a) for a in atom.args))

    def _arithmetic(self, function, a, b):
        if function is operator.mul and a == 1:
            return b
        return self.graph.call_function(function, (a, b))

    # -- values ------------------------------------------------------------------------------
    def _read(self, key, function, tensor):
        """A value of a tensor is wanted."""
        if not self.is_known(tensor) or self._from_inside():
            return function(tensor)
        if key == "item" and not tensor.dtype.is_floating_point and tensor.dtype != flambeau.bool:
            return self._unbacked(tensor, function)
        shown = "u0" if tensor.dtype is flambeau.bool else "zuf0"
        raise GuardOnDataDependentSymNode(
            f"Could not guard on data-dependent expression Eq({shown}, 1) (unhinted: "
            f"Eq({shown}, 1)).  (Size-like symbols: none)" + self.told_place()
            if key in ("__bool__", "is_nonzero")
            else "Could not extract specialized value from data-dependent expression "
            f"{shown} (unhinted: {shown}).  (Size-like symbols: none)" + self.told_place()
        )

    def _unbacked(self, tensor, function):
        """A whole number that is only known when the program runs."""
        value = function(tensor)
        node = self.graph.create_node(
            "call_function", overload("item.default"), (self.leaf(tensor),), {}, "item"
        )
        expr = self.env.create_unbacked(value, 0, float("inf"))
        found = SymInt(expr, self.env, node)
        node.meta["val"] = found
        self.sizes_of[str(expr)] = node
        self.finish(node, value)
        return found

    def _free_sizes(self, short, function, args, kwargs):
        """Run an op that gives tensors whose first size depends on values."""
        first = next(leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, Tensor))
        most = float("inf")
        if id(first) not in self.shapes and short != "bincount":
            most = first._layout.numel
        with interposing.switched_off(self, *self.agains), recorded_by(None):
            result = function(*args, **kwargs)
            self._free_first(result, most)
        return result

    def _assert_size(self, result):
        """Checks of the size for when the program runs."""
        first = next(item for item in pytree.tree_leaves(result) if isinstance(item, Tensor))
        size = self.shapes.get(id(first), (None,))[0]
        if size is None:
            return
        node = self._sym_node(SymInt(size.expr, self.env, (first, 0)))
        limits = self.env.symbols[str(size.expr)]
        bounds = [(operator.ge, ">=", limits.lower)]
        if limits.upper != float("inf"):
            bounds.append((operator.le, "<=", int(limits.upper)))
        for function, word, bound in bounds:
            test = self.graph.call_function(function, (node, bound))
            text = f"Runtime assertion failed for expression {size} {word} {bound} on node '{test}'"
            target = overload("_assert_scalar.default")
            self.graph.create_node(
                "call_function", target, (test, text), {}, "_assert_scalar_default"
            )

    def _free_first(self, result, most):
        first = next(item for item in pytree.tree_leaves(result) if isinstance(item, Tensor))
        expr = self.env.create_unbacked(first._layout.shape[0], 0, most)
        for item in pytree.tree_leaves(result):
            if isinstance(item, Tensor) and item.ndim and item.shape[0] == first.shape[0]:
                rest = item._layout.shape[1:]
                sizes = [(expr.value(sample), *rest) for sample in self.env.samples[1:]]
                self.shadow(
                    item, [flambeau.empty(s, dtype=item.dtype, device="meta") for s in sizes]
                )

    def _data(self, key, function, args, kwargs):
        if key in ("tolist", "numpy"):
            if self.is_known(args[0]) and not self._from_inside():
                raise GuardOnDataDependentSymNode(
                    f"Could not extract the values of a tensor with {key}()" + self.told_place()
                )
            return function(*args, **kwargs)
        result = function(*args, **kwargs)
        if isinstance(result, Tensor) and not self.is_known(result):
            self.lift_fresh(result, _LIFTED[key])
        return result

    def lift_fresh(self, tensor: Tensor, detached: bool) -> Tensor:
        """A tensor of numbers in the program is a constant; what the program holds is a copy."""
        number = len(self.lifted)
        kept = tensor.clone()
        self.lifted.append(kept)
        setattr(self.root, f"lifted_tensor_{number}", kept)
        constant = self.graph.create_node("get_attr", f"lifted_tensor_{number}")
        self.track(kept, constant)
        self.write(overload("lift_fresh_copy.default"), (kept,), {}, tensor)
        if detached:
            self.write(overload("detach_.default"), (tensor,), {}, tensor)
        return tensor

    def keep(self, value: Tensor) -> Node:
        if self.outside is not None:
            return self.borrow(value)
        path = self.known_constants.get(id(value))
        if path is None:
            return super().keep(value)
        node = self.graph.create_node("get_attr", path)
        self.track(value, node)
        return node

    # -- branches ----------------------------------------------------------------------------
    def branches(
        self, target: Any, pred: Tensor, true_fn: Callable, false_fn: Callable, operands: tuple
    ) -> Any:
        """A choice between two functions: both are recorded as graphs of their own."""
        with interposing.switched_off(self, *self.agains), recorded_by(None):
            free: list[Tensor] = []
            yes, result = record_branch(self, true_fn, operands, free)
            known = len(free)
            no, other = record_branch(self, false_fn, operands, free)
            if len(free) > known:  # the first graph takes all that the second one needs
                yes, result = record_branch(self, true_fn, operands, free)
            same_kind(result, other)
            taken = result if bool(pred) else other
            return self.write_branches(target, pred, (yes, no), (*operands, *free), taken)

    def write_branches(
        self, target: Any, pred: Tensor, graphs: tuple, operands: tuple, taken: Any
    ) -> Any:
        """The node of a choice."""
        number = sum(str(node.target).startswith("true_graph") for node in self.graph.nodes)
        nodes = []
        for name, module in zip((f"true_graph_{number}", f"false_graph_{number}"), graphs):
            self.root.add_module(name, module)
            nodes.append(self.graph.create_node("get_attr", name))
            self.finish(nodes[-1], None)
        given = tuple(self.leaf(value) for value in operands)
        node = self.graph.create_node(
            "call_function", target, (self.leaf(pred), *nodes, given), {}, "cond"
        )
        self.finish(node, taken)
        leaves, spec = pytree.tree_flatten(taken)
        self.track_result(tuple(leaves), node)
        return pytree.tree_unflatten(leaves, spec)

    def loops_while(self, *given: Any) -> tuple:
        """while_loop: see loops.py."""
        return record_while(self, *given)

    def loops_over(self, *given: Any) -> tuple:
        """map and scan."""
        return record_over(self, *given)

    def write_graph_op(self, target: Any, graphs: dict, arguments: tuple, result: tuple) -> tuple:
        """The node of an op of graphs (by name) and groups of tensors; what it gives."""
        nodes = []
        for name, module in graphs.items():
            number = sum(str(node.target).startswith(name) for node in self.graph.nodes)
            self.root.add_module(f"{name}_{number}", module)
            nodes.append(self.graph.create_node("get_attr", f"{name}_{number}"))
            self.finish(nodes[-1], None)
        given = [type(group)([self.leaf(t) for t in group]) for group in arguments]
        node = self.graph.create_node(
            "call_function", target, (*nodes, *given), {}, target.__name__
        )
        self.finish(node, result)
        self.track_result(result, node)
        return result

    def for_branch(self, graph: Graph, root: Module) -> "OpRecorder":
        """A recorder of the same kind for a graph within this one."""
        inner = OpRecorder(graph, root, self.env, decompositions=self.decompositions)
        self.env.recorder = self
        inner.known_constants, inner.modules = {}, self.modules
        return inner

    def adopt(self, twin: Tensor, original: Tensor, outside: "OpRecorder") -> None:
        """A copy has the sizes of what it was copied from."""
        if id(original) in outside.shapes:
            self.shadow(twin, outside.shadows[id(original)])

    def borrow(self, tensor: Tensor) -> Node:
        """A tensor from around a branch becomes an operand of it."""
        outside: Any = self.outside
        node = place_for(self.graph, outside.leaf(tensor).name)
        self.adopt(tensor, tensor, outside)
        self.track(tensor, node)
        if not any(tensor is known for known in self.free):
            self.free.append(tensor)
        return node

    # -- places in the program ---------------------------------------------------------------
    def track(self, tensor: Tensor, node: Node) -> None:
        with interposing.switched_off(self, *self.agains):  # what is noted is not recorded
            super().track(tensor, node)

    def remembered(self, tensor: Tensor) -> Any:
        with interposing.switched_off(self, *self.agains):
            return FakeTensor.of(tensor, self.shapes.get(id(tensor)))

    def finish(self, node: Node, result: Any) -> None:
        frame = program_frame()
        if frame is not None:
            node.meta["stack_trace"] = frame_text(frame)
        node.meta["grad_enabled"] = modes.grad
        node.meta["nn_module_stack"] = {
            key: (path, kind) for key, path, kind in self.modules
        }  # fmt: skip

    def told_place(self) -> str:
        """The line of the program, as an ending of a message."""
        frame = program_frame()
        if frame is None:
            return ""
        return f"\n\nThe following call raised this error:\n{frame_text(frame)}"

    def _from_inside(self):
        """Is a value asked for by code of this package, as checks in linear algebra do?"""
        frame = sys._getframe(2)
        while frame is not None and passes_calls(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            return True
        ours = frame.f_code.co_filename.startswith(PACKAGE + os.sep)
        return ours and frame.f_code.co_name != "forward"


def _has_free_size(short, args):
    """Does the size of what an op gives depend on values?"""
    if short == "index":
        masks = (flambeau.bool, flambeau.uint8)
        return any(isinstance(i, Tensor) and i.dtype in masks for i in args[1])
    return short in _FREE


# what ops refuse arguments with; anything else is a fault, not an answer
_REFUSALS = (RuntimeError, ValueError, TypeError, IndexError)


def _tried(function, leaves, spec):
    """What a function gives; None if it refuses."""
    given, named = pytree.tree_unflatten(leaves, spec)
    try:
        with no_grad():
            found = function(*given, **named)
    except _REFUSALS:
        return None
    return () if found is None else found


def _example(leaf):
    if isinstance(leaf, (SymInt, SymFloat)):
        return leaf.hint
    return leaf
