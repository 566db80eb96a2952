"""Whole steps of training: a graph with backward and optimizers in it.

The graph is taken apart: what is computed up to the loss is a program of its own (program.py), with
a tape for the way there and one for the way back. Where optimizers update by rules all of it
becomes one tape, and a step is one native call (whole_steps.py). Otherwise it is two and the
optimizer's: gradients go from the second tape to the parameters without a walk through the graph.
Where that is not possible either (nothing is on tape yet, somebody watches) `loss.backward()` does
it.
"""

from collections import OrderedDict
from typing import Any

from flambeau import fx
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.leaves import accumulate
from flambeau.compiler import recording
from flambeau.compiler.playing import CompiledNode, fitting
from flambeau.compiler.whole_steps import MISS, UpdateStep, WholeStep

_HOME = "flambeau._dynamo.steps"
TRIES = 3  # whole steps that somebody else may spoil
FORMS = 8  # sets of rules that are remembered for the same layouts
WHOLES = 64  # layouts that are


def kind_of(node: fx.Node) -> str:
    """ "backward", "zero_grad", "clip" or "step"; "" for other nodes."""
    target: Any = node.target
    return target.__name__ if getattr(target, "__module__", "") == _HOME else ""


def step_program(gm: fx.GraphModule, make: Any) -> Any:
    """A function for a graph with steps in it; None if there are none.

    make(graph module, number of inputs) gives the program of what is computed up to the loss.
    """
    nodes = list(gm.graph.nodes)
    kinds = [kind_of(node) for node in nodes]
    if not any(kinds):
        return None
    optimizers = _only_steps(gm, nodes, kinds)
    if optimizers:
        return _Updating(gm.forward, optimizers)
    parts = _parted(nodes, kinds)
    if parts is None:
        return gm.forward
    before, start, after = parts
    return _Step(gm, before, start, after, make)


def _only_steps(gm, nodes, kinds):
    """The optimizers of a graph of nothing but steps by rules; None for all others."""
    for node, kind in zip(nodes, kinds):
        if kind not in ("", "step") or not (kind or node.op in ("get_attr", "output")):
            return None
    found = [getattr(gm, n.args[0].target) for n, kind in zip(nodes, kinds) if kind]
    return found if all(hasattr(o, "updates") for o in found) else None


class _Updating:
    """Steps of optimizers, without what computes gradients."""

    def __init__(self, plain, optimizers):
        self.plain, self.optimizers = plain, optimizers
        self.play: Any = lambda: MISS
        self.known, self.calls = _Known(), 0

    def __call__(self):
        found = self.play()
        return self._otherwise() if found is MISS else found

    def _otherwise(self):
        self.calls += 1
        known = self.known
        for step in known.steps:
            if step.play() is not MISS:
                self.play = step.play
                return ()
        if self.calls > 1 and known.failures < TRIES and not recording.is_active():
            try:
                step = UpdateStep(self.optimizers)
                known.steps = [step, *known.steps[: FORMS - 1]]
                if step.play() is not MISS:
                    self.play = step.play
                    return ()
            except Exception as error:  # what is wrong shows when it is run for real
                known.failures += 1
                known.reasons.append(f"no tape: {error}")
        return self.plain()


def _parted(nodes, kinds):
    """(steps before backward, nodes of the loss and its gradient, steps after), in that form only.

    What is computed must not depend on what steps change: no argument of the graph may be read
    after backward, and nothing may be written or drawn there.
    """
    if kinds.count("backward") != 1:
        return None
    at = kinds.index("backward")
    back = nodes[at]
    loss, gradient, *others = (*back.args, *[None] * 3)[:4]
    options = {"gradient": gradient, **back.kwargs}
    gradient = options.pop("gradient")
    if any(others) or any(options.values()):
        return None
    seen_work = False
    for node, kind in zip(nodes[:at], kinds):
        work = not kind and node.op not in ("placeholder", "get_attr")
        if kind in ("step", "clip") or (kind and seen_work):
            return None  # gradients or parameters change while they are in use
        seen_work = seen_work or work
    for node, kind in zip(nodes[at + 1 :], kinds[at + 1 :]):
        if kind or node.op in ("output", "get_attr"):
            continue
        if not _is_harmless(node, loss) or any(kind_of(a) for a in node.all_input_nodes):
            return None
    before = [n for n, k in zip(nodes[:at], kinds) if k]
    after = [n for n, k in zip(nodes[at:], kinds[at:]) if k and n is not back]
    return before, (loss, gradient), after


def _is_harmless(node, loss):
    """May a node after backward be computed before it? Only what looks at results.

    Copies are made of the loss only: other results may be views of what steps change.
    """
    if node.op != "call_method" or node.target not in ("detach", "clone"):
        return False
    (source, *more) = node.args
    if node.target == "clone":
        is_cut_off = source.target == "detach" and source.args[0] is loss
        return not more and (source is loss or is_cut_off)
    return getattr(source, "op", "") not in ("placeholder", "get_attr")


class _Step:
    """zero_grad, forward, backward and step, as one function of the graph's inputs."""

    def __init__(self, gm, before, start, after, make):
        loss, gradient = start
        self.has_gradient = gradient is not None
        self.before = [_call(gm, node) for node in before]
        self.after = [_call(gm, node) for node in after]
        self.around = None if self.has_gradient else _around(self.before, self.after)
        self.play: Any = lambda *inputs: MISS
        self.wholes: OrderedDict = OrderedDict()  # lists of whole steps, by layouts and gradients
        graph = fx.Graph()
        known: dict = {}
        inputs = 0
        for node in gm.graph.nodes:
            if node.op == "output":
                (results,) = node.args
                outputs = [known[n] for n in results if not kind_of(n)]
                given = () if gradient is None else (known[gradient],)
                graph.output((known[loss], *given, *outputs))
                # results of what comes behind: their places, and which of these calls
                self.norms = [(k, after.index(n)) for k, n in enumerate(results) if kind_of(n)]
            elif not kind_of(node) and not _is_optimizer(gm, node):
                known[node] = graph.node_copy(node, lambda n: known[n])
                inputs += node.op == "placeholder"
        self.plain = gm.forward
        self.program = make(fx.GraphModule(gm, graph), inputs, 0)

    def __call__(self, *inputs):
        found = self.play(*inputs)
        return self._otherwise(inputs) if found is MISS else found

    def _otherwise(self, inputs):
        """A step that is not like the latest one."""
        if not modes.grad:
            return self.plain(*inputs)
        if self.around is not None:
            found = self._played(inputs)
            if found is not MISS:
                return found
        for function, arguments in self.before:
            function(*arguments)
        loss, *outs = self.program(*inputs)
        _go_back(loss, outs.pop(0) if self.has_gradient else None)
        found = [function(*arguments) for function, arguments in self.after]
        for place, which in self.norms:
            outs.insert(place, found[which])
        return tuple(outs)

    def _played(self, inputs):
        """The step by a tape of its own, which may be a new one; MISS if there is none."""
        before, after = self.around
        for kind, optimizer, _ in before:
            if kind == "forgotten":
                optimizer.zero_grad()
        key, entry = self.program.entry_for(inputs)
        if entry is None or entry.parts is None or entry.parts.forward.gpu is not None:
            return MISS
        has_grads = tuple([x._grad is not None for x in inputs])
        known = self.wholes.setdefault((key, has_grads), _Known())
        for whole in known.steps:
            found = whole.play(*inputs)
            if found is not MISS:
                self.play = whole.play
                return found
        if known.failures >= TRIES or recording.is_active():
            return MISS
        if len(self.wholes) > WHOLES:
            self.wholes.popitem(last=False)
        try:
            whole = WholeStep(entry, self.program.run, before, after, inputs, key, self.norms)
        except Exception as error:  # what is wrong shows when it is run for real
            known.failures += 1
            known.reasons.append(f"no whole step: {error}")
            self.program.reasons += known.reasons[-1:]
            return MISS
        known.steps = [whole, *known.steps[: FORMS - 1]]
        found = whole.play(*inputs)
        if found is not MISS:
            self.play = whole.play
        return found


class _Known:
    """Tapes of whole steps that differ in what optimizers launch."""

    def __init__(self):
        self.steps: list = []
        self.failures = 0
        self.reasons: list[str] = []  # why there is no tape


_ORDER = ("clip", "step", "forgotten", "zeroed")


def _around(before, after):
    """What a step does before and behind its program: (kind, optimizer, options); None: too much.

    Gradients that are clipped are whole, and are not gone before somebody steps.
    """
    found: tuple = ([], [])
    for calls, given in zip(found, (before, after)):
        for function, arguments in given:
            if not arguments:
                return None
            optimizer, *options = arguments
            kind = function.__name__
            if kind == "zero_grad":
                kind = "forgotten" if options in ([], [True]) else "zeroed"
            elif kind == "step" and not hasattr(optimizer, "updates"):
                return None
            calls.append((kind, optimizer, options))
    places = [_ORDER.index(kind) for kind, *_ in found[1]]
    return found if places == sorted(places) and places.count(0) <= 1 else None


def _is_optimizer(gm, node):
    return node.op == "get_attr" and not hasattr(getattr(gm, node.target, None), "dtype")


def _call(gm, node):
    """A step as (function, arguments)."""
    found = [getattr(gm, a.target) if isinstance(a, fx.Node) else a for a in node.args]
    if node.kwargs:
        return (lambda: node.target(*found, **node.kwargs)), ()
    return node.target, tuple(found)


def _go_back(loss, gradient):
    """loss.backward(gradient), straight from the tape where that is all there is."""
    node = loss._grad_fn
    is_taped = isinstance(node, CompiledNode) and node.way.is_new and node.hooks is None
    fits = gradient is None or gradient.shape == loss.shape
    if not is_taped or not fits or modes.watched:
        loss.backward(gradient)
        return
    layout = node.way.layouts[loss._output_nr]
    grads = [None] * len(node.way.layouts)
    start = node.way.ones(layout) if gradient is None else fitting(gradient.detach(), layout)
    grads[loss._output_nr] = start
    found = node.way.go(node.saved, node.versions, grads, False)
    node.release()
    for edge in node.edges:
        leaf, grad = edge[0], found.pop(0)
        if grad is None:
            continue
        if leaf._grad is None and leaf._extra is None and grad._layout is leaf._layout:
            leaf._grad = grad
        else:
            accumulate(leaf, grad, False)
