"""Full backward hooks: they see the gradients of a module's inputs and outputs, all at once.

Inputs and outputs pass through two identities. The one behind the outputs is reached first and
knows their gradients; the one before the inputs is reached last, and calls the hooks with both.
"""

import warnings

from flambeau._tensor import Tensor
from flambeau.autograd.function import Function
from flambeau.autograd.grad_mode import is_grad_enabled


class BackwardHookFunction(Function):
    """Its outputs are its inputs; its node is where hooks are attached."""

    @staticmethod
    def forward(ctx, *tensors):
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx, *grads):
        return grads


class BackwardHook:
    """The hooks of one call of a module."""

    def __init__(self, module, hooks, before):
        self.module, self.hooks, self.before = module, hooks, before
        self.grad_output = None
        self.outputs = self.inputs = 0
        self.output_places, self.input_places = [], None

    def _through(self, values, attach):
        """values with their tensors passed through an identity, and which they were."""
        places = [k for k, v in enumerate(values) if isinstance(v, Tensor)]
        tensors = [values[k] for k in places]
        if not (is_grad_enabled() and any(t.requires_grad for t in tensors)):
            return values, None
        passed = BackwardHookFunction.apply(*tensors)
        node = next(t.grad_fn for t in passed if t.grad_fn is not None)
        attach(node)
        found = list(values)
        for k, t in zip(places, passed):
            found[k] = t
        return (values._make(found) if hasattr(values, "_make") else tuple(found)), places

    @staticmethod
    def _spread(grads, places, count):
        """Gradients of tensors as gradients of all arguments."""
        found = [None] * count
        for k, g in zip(places, grads):
            found[k] = g
        return tuple(found)

    def _call(self, grad_input):
        """All hooks; a later one sees what an earlier one returned."""
        for hook in self.hooks:
            found = hook(self.module, grad_input, self.grad_output)
            if found is None:
                continue
            found = found if isinstance(found, tuple) else (found,)
            if len(found) != len(grad_input):
                raise RuntimeError(
                    "Backward hook returned an invalid number of grad_input, got "
                    f"{len(found)}, but expected {len(grad_input)}"
                )
            grad_input = found
        return grad_input

    def setup_input_hook(self, args):
        self.inputs = len(args)

        def attach(node):
            def hook(grads, _):
                if self.grad_output is None:  # a pass that did not come through the outputs
                    return None
                found = self._call(self._spread(grads, self.input_places, self.inputs))
                self.grad_output = None
                return tuple(found[k] for k in self.input_places)

            node.register_hook(hook)

        args, self.input_places = self._through(args, attach)
        return args

    def setup_output_hook(self, result):
        values = result if isinstance(result, tuple) else (result,)
        self.outputs = len(values)

        def attach(node):
            def hook(_, grads):
                self.grad_output = self._spread(grads, self.output_places, self.outputs)
                for before in self.before:
                    found = before(self.module, self.grad_output)
                    if found is not None:
                        found = found if isinstance(found, tuple) else (found,)
                        if len(found) != len(self.grad_output):
                            raise RuntimeError(
                                "Backward pre hook returned an invalid number of grad_output, got "
                                f"{len(found)}, but expected {len(self.grad_output)}"
                            )
                        self.grad_output = found
                if self.input_places is None:  # no input has a gradient: nothing else to wait for
                    warnings.warn(
                        "Full backward hook is firing when gradients are computed with respect to "
                        "module outputs since no inputs require gradients. See "
                        "https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
                        "#torch.nn.Module.register_full_backward_hook for more details.",
                        stacklevel=5,
                    )
                    found = self._call((None,) * self.inputs)
                    if any(value is not None for value in found):
                        raise RuntimeError(
                            "Backward hook for Modules where no input requires gradient should "
                            "always return None or None for all gradients."
                        )
                return tuple(self.grad_output[k] for k in self.output_places)

            node.register_hook(hook)

        passed, places = self._through(values, attach)
        self.output_places = places or []
        return passed if isinstance(result, tuple) else passed[0]
