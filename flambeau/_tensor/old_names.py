"""Members of Tensor for devices that are not here, and names from before PyTorch 1.0."""

import warnings

from flambeau._tensor.attachment import method, prop
from flambeau._tensor.nested import from_numbers
from flambeau.eager.copying import copy_


def _elsewhere(name):
    """The flag of a device that no tensor here is on."""

    def flag(self):
        return False

    flag.__name__ = name
    return prop(flag)


for _name in ("is_ipu", "is_maia", "is_mtia", "is_vulkan", "is_xla"):
    _elsewhere(_name)


@method
def is_distributed(self):
    """Never: distributed tensors are a class of their own."""
    return False


@method
def __dir__(self):
    """Names of members, without those that only warn, or that no tensor on the CPU has."""
    gone = {"volatile"} if self.is_cuda else {"volatile", "__cuda_array_interface__"}
    return [name for name in object.__dir__(self) if name not in gone]


@prop
def volatile(self):
    warnings.warn("volatile was removed (Variable.volatile is always False)", stacklevel=2)
    return False


@prop
def grad_dtype(self):
    """The dtype that gradients of this tensor have: its own."""
    return self.dtype


@method
def ipu(self, device=None, non_blocking=False, memory_format=None):
    raise RuntimeError("PyTorch is not linked with support for ipu devices")


@method
def xpu(self, device=None, non_blocking=False, memory_format=None):
    raise AssertionError("Torch not compiled with XPU enabled")


@method
def mtia(self, device=None, non_blocking=False, memory_format=None):
    raise AssertionError("Torch not compiled with MTIA enabled.")


@method
def resize(self, *sizes):
    """An older name of view."""
    warnings.warn("non-inplace resize is deprecated", stacklevel=2)
    sizes = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    return self.view(tuple(sizes))


@method
def resize_as(self, tensor):
    """An older name of view_as."""
    warnings.warn("non-inplace resize_as is deprecated", stacklevel=2)
    return self.view_as(tensor)


@method
def reinforce(self, *args, **kwargs):
    raise RuntimeError("reinforce() was removed.\nUse torch.distributions instead.")


@method
def map2_(self, x, y, callable):
    """Combine three tensors elementwise by a Python function, in place (slow)."""
    if self.requires_grad or x.requires_grad or y.requires_grad:
        raise RuntimeError(
            "Can't call map2_() on Variable that requires grad. Use var.detach().map2_() instead."
        )
    three = (t.expand(self.shape).flatten().tolist() for t in (self, x, y))
    return copy_(self, from_numbers([callable(*n) for n in zip(*three)], self.shape, self.dtype))


@method
def module_load(self, other, assign=False):
    """What load_state_dict puts in place of this tensor: other, or this one with its values."""
    return other.detach() if assign else self.copy_(other).detach()
