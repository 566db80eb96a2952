"""Checkpointing: less memory for more time. What a function computes is forgotten after forward and
computed again when backward needs it.

Two ways, as in PyTorch. `use_reentrant=False`: the function is recorded as usual, but hooks on
saved tensors keep a `_Slot` in place of each tensor; the first slot that backward opens runs the
function again and fills them all. `use_reentrant=True`: the function is one node
(CheckpointFunction), whose backward runs the function again, and a backward inside the backward.
"""

import contextlib
import functools
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import flambeau
from flambeau import amp
from flambeau._tensor import Tensor
from flambeau.autograd.engine import current_pass
from flambeau.autograd.function import Function
from flambeau.autograd.grad_mode import enable_grad, modes, no_grad, saved_tensors_hooks
from flambeau.autograd.node import save_input, unpack
from flambeau.random import go_back_to, marks
from flambeau.transforms.levels import Wrapped, same
from flambeau.utils.selective_checkpoints import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

_NAME = "torch.utils.checkpoint"
_TIP = (
    "\nTip: To see a more detailed error message, either pass `debug=True` to\n"
    "`torch.utils.checkpoint.checkpoint(...)` or wrap the code block\n"
    "with `with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):` to\n"
    "enable checkpoint-debug mode globally.\n"
)
_PASS_IT = (
    "the use_reentrant parameter should be passed explicitly. {} use_reentrant=False is "
    "recommended, but if you need to preserve the current default behavior, you can pass "
    "use_reentrant=True. Refer to docs for more details on the differences between the two "
    "variants."
)
# settings of the context managers below; None: as the call says
_forced: dict = {"debug": None, "early_stop": None}
_groups: list = []


class CheckpointError(RuntimeError):
    """Recomputation did not do what forward did."""


class _Stop(BaseException):
    """Everything that backward needs is there. Not an Exception: nobody else may catch it."""


@contextlib.contextmanager
def _forcing(name, value):
    previous = _forced[name]
    _forced[name] = value
    try:
        yield
    finally:
        _forced[name] = previous


def set_checkpoint_debug_enabled(enabled: bool | None):
    """Inside, debug is on or off whatever calls of checkpoint say."""
    return _forcing("debug", enabled)


def set_checkpoint_early_stop(enable: bool):
    """Inside, recomputation stops as soon as all tensors are there (True) or goes to the end."""
    return _forcing("early_stop", enable)


class GraphExecGroup:
    """Several backward calls inside share one recomputation."""

    def __enter__(self) -> "GraphExecGroup":
        if _groups:
            raise RuntimeError("GraphExecGroup contexts cannot be nested.")
        _groups.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _groups.pop()


# -- what surrounds the function: random numbers and autocast --------------------------------------


class DefaultDeviceType:
    """Whose random numbers are saved where the arguments do not tell."""

    _default_device_type: str | None = None

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        return DefaultDeviceType._default_device_type or "cpu"


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """States of the generators of other devices than the CPU that the arguments are on."""
    return [], []


def set_device_states(devices, states, *, device_type=None) -> None:
    """Back to states that get_device_states gave."""


class _Surroundings:
    """Random numbers and autocast as they are now, to be entered again."""

    def __init__(self, preserve_rng_state):
        self.marks = marks() if preserve_rng_state else None
        self.autocast = amp.current_settings()
        self.autocast_gpu = amp.current_settings("cuda")
        self.before: list = []  # what to go back to; it may be entered again inside itself

    def __enter__(self):
        before, settings = None, []
        if self.marks is not None:
            before = marks()
            go_back_to(self.marks)
        for kind, wanted in (("cpu", self.autocast), ("cuda", self.autocast_gpu)):
            if wanted != amp.current_settings(kind):
                settings.append(amp.autocast(kind, **wanted))
                settings[-1].__enter__()
        self.before.append((before, settings))

    def __exit__(self, *error):
        before, settings = self.before.pop()
        for mode in reversed(settings):
            mode.__exit__(*error)
        if before is not None:
            go_back_to(before)


# -- use_reentrant=True ----------------------------------------------------------------------------


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same tensors without history, wanting gradients as before."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "Only tuple of tensors is supported. Got Unsupported input type: "
            f"{type(inputs).__name__}"
        )
    return tuple(
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs
    )


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn where no gradient can come."""
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )


class CheckpointFunction(Function):
    """The function as one node."""

    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.surroundings = _Surroundings(preserve_rng_state)
        ctx.inputs = [None if isinstance(a, Tensor) else a for a in args]
        ctx.places = [k for k, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*(args[k] for k in ctx.places))
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx, *grads):
        if current_pass().wanted is not None:
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
                "passing an `inputs` parameter to .backward(). To resolve this error, you can "
                "either set use_reentrant=False, or call .backward() without passing the `inputs` "
                "argument."
            )
        inputs = list(ctx.inputs)
        for k, t in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[k] = t
        detached = detach_variable(tuple(inputs))
        with ctx.surroundings, enable_grad():
            outputs = ctx.run_function(*detached)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        wanting = [
            (out, grad)
            for out, grad in zip(outputs, grads, strict=False)
            if isinstance(out, Tensor) and out.requires_grad
        ]
        if not wanting:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        flambeau.autograd.backward([out for out, _ in wanting], [grad for _, grad in wanting])
        return None, None, *(x.grad if isinstance(x, Tensor) else None for x in detached)


# -- use_reentrant=False ---------------------------------------------------------------------------


class _Slot:
    """Stands for a tensor that forward would have saved."""

    __slots__ = ("index", "__weakref__")

    def __init__(self, index):
        self.index = index


def _facts(t):
    return {"shape": t.shape, "dtype": t.dtype, "device": t.device}


_CHECKS: dict[str, Callable] = {"default": _facts, "none": lambda t: None}


class _Region:
    """One call of checkpoint: how to run it again, and what it would have saved."""

    def __init__(self, function, kwargs, surroundings, context, facts, debug, early_stop):
        self.function, self.kwargs = function, kwargs
        self.surroundings, self.context = surroundings, context
        self.facts, self.early_stop = facts, early_stop
        self.slots: list = []  # weak: a slot that no node holds any more need not be filled
        self.saved_facts: list = []
        self.traces: Any = ([], []) if debug else None  # of forward and of recomputation
        self.args: list = []
        self.watchers: list = []  # lists of those who want to know what is saved
        self.finished = False  # has forward come to its end?
        # pass -> {index of a slot: tensor}, until they are taken
        self.recomputed: Any = weakref.WeakKeyDictionary()

    def keep(self, args):
        # saved as a node saves them: if this call is inside another checkpoint, as slots of it
        self.args = [save_input(a) for a in args]

    # -- forward -----------------------------------------------------------------------------
    def pack(self, t):
        for watcher in self.watchers:
            watcher.append(t)
        slot = _Slot(len(self.slots))
        self.slots.append(weakref.ref(slot))
        self.saved_facts.append(self.facts(t))
        self._trace(0, t)
        return slot

    # -- backward ----------------------------------------------------------------------------
    def unpack(self, slot):
        where = _groups[-1] if _groups else current_pass()
        if where is None:  # somebody looks at saved tensors outside of a pass
            where = _Slot(-1)
        found = self.recomputed.get(where)
        if found is None:
            found = self.recomputed[where] = {}
            try:
                self._recompute(found)
            except CheckpointError as error:
                if self.traces is not None:
                    raise CheckpointError(self._explanation()) from error
                raise
        if slot.index not in found:
            raise CheckpointError(
                f"{_NAME}: Unpack is being triggered for a tensor that was already unpacked once. "
                "If you are calling ctx.saved_tensors in backward, make sure to do so only once. "
                "Otherwise please open an issue with details on your use case."
            )
        return found.pop(slot.index)

    def _recompute(self, found):
        args = [unpack(a, None) for a in self.args]
        count, more = 0, False
        if self.traces is not None:
            self.traces[1].clear()

        def pack(t):
            nonlocal count, more
            if t.requires_grad:  # without history; how it moves inside of a transform stays
                t = same(t) if type(t) is Wrapped else t.detach()
            index, count = count, count + 1
            self._trace(1, t)
            if index >= len(self.slots):
                if not self.finished:  # a backward inside of forward: more is to come there too
                    more = True
                    return t
                raise CheckpointError(
                    f"{_NAME}: trying to save more tensors during recomputation than during the "
                    f"original forward pass.\n{_TIP}"
                )
            if self.slots[index]() is not None:
                found[index] = t
            if self.early_stop and count == len(self.slots):
                raise _Stop
            return t

        with (
            contextlib.suppress(_Stop),
            saved_tensors_hooks(pack, lambda t: t),
            enable_grad(),
            self.surroundings,
            self.context,
        ):
            self.function(*args, **self.kwargs)
        if not more:
            self._check(found, count)

    def _check(self, found, count):
        if count != len(self.slots):
            raise CheckpointError(
                f"{_NAME}: A different number of tensors was saved during the original forward "
                f"and recomputation.\nNumber of tensors saved during forward: {len(self.slots)}\n"
                f"Number of tensors saved during recomputation: {count}.\n{_TIP}"
            )
        different = [
            f"tensor at position {k}:\nsaved metadata: {self.saved_facts[k]}\n"
            f"recomputed metadata: {self.facts(t)}\n"
            for k, t in found.items()
            if self.saved_facts[k] != self.facts(t)
        ]
        if different:
            raise CheckpointError(
                f"{_NAME}: Recomputed values for the following tensors have different metadata "
                f"than during the forward pass.\n{''.join(different)}.\n{_TIP}"
            )

    # -- debug -------------------------------------------------------------------------------
    def _trace(self, run, t):
        if self.traces is not None:
            line = next(
                f"{f.filename}:{f.lineno}:{f.name}: {f.line}"
                for f in reversed(traceback.extract_stack()[:-2])
                if "flambeau" not in f.filename.replace("\\", "/").split("/")
                and not f.filename.startswith("<")
            )
            self.traces[run].append(f"{t.dtype}{list(t.shape)}   {line}")

    def _explanation(self):
        runs = [
            "\n".join(f"({k} of {len(lines)}) {line}" for k, line in enumerate(lines, 1))
            for lines in self.traces
        ]
        return (
            " An error happened while unpacking tensors; dumping logs of latest computation\n"
            "because you passed `debug=True` to `torch.utils.checkpoint.checkpoint()`.\n\n"
            f"Tensors saved during the original forward, and where:\n\n{runs[0]}\n\n"
            f"Tensors saved during recomputation, and where:\n\n{runs[1]}\n\n"
            " ERROR: Detected non-determinism while running activation checkpointing\n\n"
            " The first line where the two lists differ shows where the function did something "
            "else the second time. You are seeing this error because you passed `debug=True` to "
            "checkpoint."
        )


def noop_context_fn() -> tuple[AbstractContextManager, AbstractContextManager]:
    """Two contexts that do nothing: the default context_fn."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function,
    *args,
    use_reentrant: bool | None = None,
    context_fn: Callable[
        [], tuple[AbstractContextManager, AbstractContextManager]
    ] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs,
):
    """function(*args, **kwargs), whose intermediate results are computed again in backward.

    preserve_rng_state=True (the default) gives the second run the random numbers of the first.
    context_fn gives two contexts, one for each run.
    """
    if use_reentrant is None:
        warnings.warn(
            f"{_NAME}: "
            + _PASS_IT.format(
                "Starting in PyTorch 2.9, calling checkpoint without use_reentrant will raise an "
                "exception."
            ),
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        return _without_reentrant(
            function, args, kwargs, preserve, context_fn, determinism_check, debug, early_stop
        )
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug is not False:
        raise ValueError(
            "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
        )
    return CheckpointFunction.apply(function, preserve, *args)


def _without_reentrant(function, args, kwargs, preserve, context_fn, check, debug, early_stop):
    if _forced["debug"] is not None:
        debug = _forced["debug"]
    if debug and context_fn is not noop_context_fn:
        raise ValueError("debug=True is incompatible with non-default context_fn")
    if check not in _CHECKS:
        raise ValueError(f"determinism_check should be one of {list(_CHECKS)}, but got {check}")
    first, second = context_fn()
    if not modes.grad:
        return function(*args, **kwargs)
    if _forced["early_stop"] is not None:
        early_stop = _forced["early_stop"]
    surroundings = _Surroundings(preserve)
    region = _Region(function, kwargs, surroundings, second, _CHECKS[check], debug, early_stop)
    region.keep(args)
    with saved_tensors_hooks(region.pack, region.unpack), first:
        result = function(*args, **kwargs)
        region.finished = True
    if not region.finished:
        raise RuntimeError(
            f"{_NAME}: the forward context provided by context_fn suppressed an exception raised "
            "during the checkpointed forward. This is not supported because checkpoint cannot "
            "return a value for a failed forward."
        )
    return result


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """input through functions one after another, in segments that are checkpointed but the last."""
    if use_reentrant is None:
        warnings.warn(
            f"{_NAME}.checkpoint_sequential: "
            + _PASS_IT.format(
                "In version 2.9 we will raise an exception if use_reentrant is not passed."
            ),
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if isinstance(functions, flambeau.nn.Sequential):
        functions = [*functions.children()]
    size = len(functions) // segments
    last = size * (segments - 1)
    how = {"use_reentrant": use_reentrant, "preserve_rng_state": preserve}
    for start in range(0, last, size):
        part = functions[start : start + size]
        input = checkpoint(functools.partial(_in_turn, part), input, **how)
    return _in_turn(functions[last:], input)


def _in_turn(functions, value):
    for function in functions:
        value = function(value)
    return value
