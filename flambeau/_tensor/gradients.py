"""Methods of Tensor for autograd: grad, requires_grad, data, detach, backward and hooks."""

import warnings
import weakref
from collections import OrderedDict

from flambeau import _dtype
from flambeau._tensor import Tensor, alias, extra_of, make_tensor
from flambeau._tensor.attachment import PROPERTIES, method
from flambeau.autograd import backward as autograd_backward
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import add_hook, current_grad_fn
from flambeau.eager.arguments import argument
from flambeau.storage import is_uncounted, root_of, twin

_NO_GRAD_HERE = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
    "attribute won't be populated during autograd.backward(). If you indeed want the .grad field "
    "to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you "
    "access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead. See "
    "github.com/pytorch/pytorch/pull/30531 for more information."
)


def _get_grad(self):
    grad, extra = self._grad, self._extra
    if grad is None and self._grad_fn is not None and self._requires_grad:
        retained = extra is not None and extra.retains_grad
        if not retained:
            warnings.warn(_NO_GRAD_HERE, UserWarning, stacklevel=2)
    return grad


def _set_grad(self, value):
    if value is not None:
        if not isinstance(value, Tensor):
            raise TypeError(
                "assigned grad expected to be a Tensor or None but got grad of type "
                f"{type(value).__name__}"
            )
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if value.dtype is not self.dtype:
            raise RuntimeError(
                "attempting to assign a gradient with dtype "
                f"'{value.dtype.cpp_name}' to a tensor with grad_dtype "
                f"'{self.dtype.scalar_name}'. The gradient must match the tensor's grad_dtype "
                "(defaults to the tensor's dtype). You can set the tensor's grad_dtype attribute "
                "with a specific dtype, or None to allow any dtype. Set grad_dtype with caution. "
                "Diverging the dtypes of a tensor and its gradient may break downstream systems "
                "that assume they match."
            )
        if value.shape != self.shape:
            raise RuntimeError(
                f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of "
                f"size '{list(self.shape)}'. Please ensure that the gradient and the tensor are "
                "the same size"
            )
    self._grad = value


def _del_grad(self):
    self._grad = None


PROPERTIES["grad"] = property(_get_grad, _set_grad, _del_grad)


def _set_requires_grad(self, value):
    if value and self._layout.dtype.category < _dtype.FLOATING:
        raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
    requires_grad_(self, value)


def _kept(message):
    """What is not deleted, and why."""

    def refuse(self):
        raise RuntimeError(message)

    return refuse


PROPERTIES["requires_grad"] = property(
    lambda self: self._requires_grad, _set_requires_grad, _kept("requires_grad must be a bool")
)


@method
def requires_grad_(self, requires_grad=True):
    """Record (or stop recording) operations on this leaf."""
    value = argument("requires_grad_", "requires_grad", 1, "bool", requires_grad)
    if value == self._requires_grad:
        return self
    if not value and current_grad_fn(self) is not None:
        raise RuntimeError(
            "you can only change requires_grad flags of leaf variables. If you want to use a "
            "computed variable in a subgraph that doesn't require differentiation use "
            "var_no_grad = var.detach()."
        )
    if value and self._layout.dtype.category < _dtype.FLOATING:
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    check_may_require(self, value)
    self._requires_grad = value
    return self


def check_may_require(t, value):
    """Inference tensors cannot begin to require gradients outside of inference mode."""
    if value and is_uncounted(t._storage) and not modes.inference:
        raise RuntimeError(
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
        )


PROPERTIES["grad_fn"] = property(lambda self: current_grad_fn(self))


def _get_data(self):
    """The same memory outside the graph; writes to it are not counted."""
    return make_tensor(self._layout, twin(self._storage), self._offset)


def _set_data(self, value):
    if not isinstance(value, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    if self._requires_grad and value._layout.dtype.category < _dtype.FLOATING:
        raise RuntimeError(
            "data set to a tensor that requires gradients must be floating point or complex dtype"
        )
    if (value._layout.strides is None) is not (self._layout.strides is None):
        raise RuntimeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have "
            "incompatible tensor type."
        )
    if root_of(value._storage) is not root_of(self._storage):
        self._storage = twin(value._storage, self._storage.version)
    self._layout, self._offset = value._layout, value._offset


PROPERTIES["data"] = property(
    _get_data, _set_data, _kept("Deleting tensor data is not allowed. Delete tensor instead!")
)


@method
def detach(self):
    """The same memory outside the graph."""
    return alias(self, self._layout, self._offset)


@method
def detach_(self):
    """Leave the graph."""
    if self._view is not None:
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. If you are using "
            "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as "
            "True, gradients are views of DDP buckets, and hence detach_() cannot be called on "
            "these gradients. To fix this error, please refer to the Optimizer.zero_grad() "
            "function in torch/optim/optimizer.py as a solution."
        )
    if not modes.inference:  # where PyTorch does not get as far as autograd
        self._grad_fn, self._requires_grad, self._output_nr = None, False, 0
    return self


@method
def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Gradients of this tensor with respect to the leaves of its graph."""
    autograd_backward(self, gradient, retain_graph, create_graph, inputs=inputs)


@method
def retain_grad(self):
    """Keep .grad for this non-leaf tensor."""
    if not self._requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    fn = current_grad_fn(self)
    if fn is None:
        return
    extra_of(self).retains_grad = True
    fn._hooks().retain[self._output_nr] = weakref.ref(self)


PROPERTIES["retains_grad"] = property(
    lambda self: self._extra is not None and self._extra.retains_grad
)


@method
def register_hook(self, hook):
    """hook(grad) when the gradient of this tensor is known; may return another gradient."""
    if not self._requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    fn = current_grad_fn(self)
    if fn is None:
        extra = extra_of(self)
        if extra.hooks is None:
            extra.hooks = OrderedDict()
        return add_hook(extra.hooks, hook)
    table = fn._hooks().tensor.setdefault(self._output_nr, OrderedDict())
    return add_hook(table, hook)


def _get_backward_hooks(self):
    """The hooks of this tensor, by number; None if there never was one."""
    fn = current_grad_fn(self)
    if fn is None:
        return None if self._extra is None else self._extra.hooks
    return None if fn.hooks is None else fn.hooks.tensor.get(self._output_nr)


def _set_backward_hooks(self, hooks):
    """Other hooks in place of those there are; None for no hooks, as files have it."""
    fn = current_grad_fn(self)
    if fn is not None:
        fn._hooks().tensor[self._output_nr] = OrderedDict(hooks or ())
    elif hooks is not None or self._extra is not None:
        extra_of(self).hooks = hooks


PROPERTIES["_backward_hooks"] = property(
    _get_backward_hooks,
    _set_backward_hooks,
    _kept("Deletion of _backwards_hooks not allowed!"),
)


@method
def register_post_accumulate_grad_hook(self, hook):
    """hook(tensor) after .grad of this leaf has been updated."""
    if not self._requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if current_grad_fn(self) is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    extra = extra_of(self)
    if extra.post_hooks is None:
        extra.post_hooks = OrderedDict()
    return add_hook(extra.post_hooks, hook)
