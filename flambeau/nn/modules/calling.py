"""Calling a module: forward, and the hooks around it and around its backward.

Without hooks a call is one look at eight empty dictionaries. A module that raises an error adds its
place in the model to it, so that "mat1 and mat2 shapes cannot be multiplied" tells which layer.
"""

import itertools
import warnings
from collections import OrderedDict
from typing import Any

from flambeau._tensor import Tensor
from flambeau.autograd.node import RemovableHandle
from flambeau.nn.modules.backward_hooks import BackwardHook

forward_hooks: dict = OrderedDict()
forward_hooks_with_kwargs: dict = OrderedDict()
forward_hooks_always_called: dict = OrderedDict()
forward_pre_hooks: dict = OrderedDict()
backward_hooks: dict = OrderedDict()
backward_pre_hooks: dict = OrderedDict()
modes: dict[str, bool | None] = {
    "full": None
}  # whether the backward hooks of all modules are full ones

_MIXED = (
    "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use "
    "only one of them."
)


class _Handle(RemovableHandle):
    """Removes a hook, and what is noted about it elsewhere."""

    def __init__(self, hooks, *notes):
        super().__init__(hooks)
        self.notes = notes

    def remove(self):
        super().remove()
        for note in self.notes:
            note.pop(self.id, None)


def _add(hooks, hook, prepend=False, notes=()):
    """Register a hook; notes are (dictionary, whether to note it there)."""
    handle = _Handle(hooks, *(note for note, _ in notes))
    hooks[handle.id] = hook
    for note, wanted in notes:
        if wanted:
            note[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


# -- hooks of all modules -------------------------------------------------------------------------


def register_module_forward_pre_hook(hook: Any) -> RemovableHandle:
    """hook(module, args) runs before the forward of every module."""
    return _add(forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Any, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """hook(module, args, output) runs after the forward of every module."""
    notes = (forward_hooks_with_kwargs, with_kwargs), (forward_hooks_always_called, always_call)
    return _add(forward_hooks, hook, notes=notes)


def register_module_backward_hook(hook: Any) -> RemovableHandle:
    """The old kind of backward hook, for every module."""
    if modes["full"] is True:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module "
            "hook. Please use only one of them."
        )
    modes["full"] = False
    return _add(backward_hooks, hook)


def register_module_full_backward_hook(hook: Any) -> RemovableHandle:
    """hook(module, grad_input, grad_output) runs in the backward of every module."""
    if modes["full"] is False:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module "
            "hook. Please use only one of them."
        )
    modes["full"] = True
    return _add(backward_hooks, hook)


def register_module_full_backward_pre_hook(hook: Any) -> RemovableHandle:
    """hook(module, grad_output) runs before the backward of every module."""
    return _add(backward_pre_hooks, hook)


# -- one module -----------------------------------------------------------------------------------


def _unimplemented(self, *input: Any) -> None:
    raise NotImplementedError(
        f'Module [{type(self).__name__}] is missing the required "forward" function'
    )


class Calling:
    """Hooks and calls."""

    _forward_hooks: Any
    _forward_hooks_with_kwargs: Any
    _forward_hooks_always_called: Any
    _forward_pre_hooks: Any
    _forward_pre_hooks_with_kwargs: Any
    _backward_hooks: Any
    _backward_pre_hooks: Any
    _is_full_backward_hook: Any
    _compiled_call_impl: Any = None
    forward: Any = _unimplemented

    def register_forward_pre_hook(
        self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """hook(module, args) runs before forward; what it returns takes the arguments' place."""
        notes = ((self._forward_pre_hooks_with_kwargs, with_kwargs),)
        return _add(self._forward_pre_hooks, hook, prepend, notes)

    def register_forward_hook(
        self,
        hook: Any,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """hook(module, args, output) runs after forward; what it returns takes output's place."""
        notes = (
            (self._forward_hooks_with_kwargs, with_kwargs),
            (self._forward_hooks_always_called, always_call),
        )
        return _add(self._forward_hooks, hook, prepend, notes)

    def register_full_backward_hook(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        """hook(module, grad_input, grad_output) runs when gradients reach the inputs."""
        if self._is_full_backward_hook is False:
            raise RuntimeError(_MIXED)
        self._is_full_backward_hook = True
        return _add(self._backward_hooks, hook, prepend)

    def register_full_backward_pre_hook(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        """hook(module, grad_output) runs when gradients reach the outputs."""
        return _add(self._backward_pre_hooks, hook, prepend)

    def register_backward_hook(self, hook: Any) -> RemovableHandle:
        """The old kind: sees the gradients of the last op of forward only."""
        if self._is_full_backward_hook is True:
            raise RuntimeError(_MIXED)
        self._is_full_backward_hook = False
        return _add(self._backward_hooks, hook)

    def _get_backward_hooks(self):
        full, old = [], []
        for hooks, is_full in (
            (backward_hooks, modes["full"]),
            (self._backward_hooks, self._is_full_backward_hook),
        ):
            if is_full is not None:
                (full if is_full else old).extend(hooks.values())
        return full, old

    # -- the call ----------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        try:
            if not (
                self._backward_hooks
                or self._backward_pre_hooks
                or self._forward_hooks
                or self._forward_pre_hooks
                or backward_hooks
                or backward_pre_hooks
                or forward_hooks
                or forward_pre_hooks
            ):
                return self.forward(*args, **kwargs)
            return self._call_with_hooks(args, kwargs)
        except Exception as error:
            tell_place(error, self)
            raise

    def _call_impl(self, *args, **kwargs):
        """The call itself, whether or not it is compiled."""
        try:
            return self._call_with_hooks(args, kwargs)
        except Exception as error:
            tell_place(error, self)
            raise

    def _call_with_hooks(self, args, kwargs, forward=None):
        done: set = set()
        try:
            return self._run_with_hooks(args, kwargs, done, forward or self.forward)
        except Exception:
            self._run_always_called(args, kwargs, done)
            raise

    def _run_with_hooks(self, args, kwargs, done, forward):
        args, kwargs = self._run_pre_hooks(args, kwargs)
        full, old = self._get_backward_hooks()
        before = [*backward_pre_hooks.values(), *self._backward_pre_hooks.values()]
        around = None
        if full or before:
            around = BackwardHook(self, full, before)
            args = around.setup_input_hook(args)
        result = forward(*args, **kwargs)
        for number, hook in (*forward_hooks.items(), *self._forward_hooks.items()):
            done.add(number)
            found = self._run_forward_hook(number, hook, args, kwargs, result)
            if found is not None:
                result = found
        if around is not None:
            if not isinstance(result, (Tensor, tuple)):
                warnings.warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple "
                    f"of Tensors but received {type(result)}",
                    stacklevel=4,
                )
            result = around.setup_output_hook(result)
        if old:
            self._attach_old_hooks(old, args, result)
        return result

    def _run_pre_hooks(self, args, kwargs):
        for number, hook in (*forward_pre_hooks.items(), *self._forward_pre_hooks.items()):
            if number in self._forward_pre_hooks_with_kwargs:
                found = hook(self, args, kwargs)
                if found is None:
                    continue
                if not (isinstance(found, tuple) and len(found) == 2):
                    raise RuntimeError(
                        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {found}."
                    )
                args, kwargs = found
            else:
                found = hook(self, args)
                if found is not None:
                    args = found if isinstance(found, tuple) else (found,)
        return args, kwargs

    def _run_forward_hook(self, number, hook, args, kwargs, result):
        if number in self._forward_hooks_with_kwargs or number in forward_hooks_with_kwargs:
            return hook(self, args, kwargs, result)
        return hook(self, args, result)

    def _run_always_called(self, args, kwargs, done):
        """After an error, hooks that are always called see that there is no output."""
        always = {**forward_hooks_always_called, **self._forward_hooks_always_called}
        for number, hook in (*forward_hooks.items(), *self._forward_hooks.items()):
            if number not in always or number in done:
                continue
            try:
                self._run_forward_hook(number, hook, args, kwargs, None)
            except Exception as error:
                warnings.warn(
                    "forward hook with ``always_call=True`` raised an exception that was silenced "
                    f"as another error was raised in forward: {error}",
                    stacklevel=4,
                )

    def _attach_old_hooks(self, hooks, args, result):
        first = result
        while not isinstance(first, Tensor):
            if isinstance(first, dict):
                first = next(v for v in first.values() if isinstance(v, Tensor))
            else:
                first = first[0]
        node = first.grad_fn
        if node is not None:
            warn_of_old_hooks(node, args, result)
            for hook in hooks:
                node.register_hook(lambda g_in, g_out, hook=hook: hook(self, g_in, g_out))


def warn_of_old_hooks(node, args, result):
    """Say what a hook of the old kind does not get to see."""
    results = result if isinstance(result, tuple) else (result,)
    given = args if isinstance(args, tuple) else (args,)
    nodes = {t.grad_fn for t in results if isinstance(t, Tensor)}
    if not all(isinstance(t, Tensor) for t in results):
        using = "non-full backward hooks on a Module that does not return a single Tensor or a "
        using, what = using + "tuple of Tensors", "some of the grad_output"
    elif not all(isinstance(t, Tensor) for t in given):
        using = "non-full backward hooks on a Module that does not take as input a single Tensor "
        using, what = using + "or a tuple of Tensors", "some of the grad_input"
    elif len(nodes) > 1:
        using = "a non-full backward hook when outputs are generated by different autograd Nodes"
        what = "some grad_output"
    elif {t.grad_fn for t in given} - {None} != {below for below, _ in node.next_functions}:
        using = "a non-full backward hook when the forward contains multiple autograd Nodes"
        what = "some grad_input"
    else:
        return
    warnings.warn(
        f"Using {using} is deprecated and will be removed in future versions. This hook will be "
        f"missing {what}. Please use register_full_backward_hook to get the documented behavior.",
        FutureWarning,
        stacklevel=6,
    )


def tell_place(error, module):
    """Note on an error which layer it comes from, as the error passes from module to module."""
    chain = getattr(error, "_modules", None)
    if chain is None:
        try:
            error._modules = chain = []
        except AttributeError:  # an exception with fixed fields
            return
    if chain and chain[-1] is module:
        return
    chain.append(module)
    inner = chain[0]
    names = []
    for below, above in itertools.pairwise(chain):
        name = next((n for n, child in above.named_modules() if child is below), None)
        if name is not None:
            names.append(name)
    where = ".".join(reversed(names))
    try:
        text = str(inner).splitlines()[0]
    except Exception:  # a module that is not whole has no text
        text = type(inner).__name__
    note = f"in layer {where!r}: {text}" if where else f"in {text}"
    notes = [n for n in getattr(error, "__notes__", ()) if not n.startswith(("in layer ", "in "))]
    error.__notes__ = [*notes, note]
