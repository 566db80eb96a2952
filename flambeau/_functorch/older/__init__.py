"""`functorch`, the older home of `torch.func`: its functions, which warn of the newer one."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

from flambeau import func
from flambeau._functorch import make_functional as models
from flambeau._functorch import vmap as mapping
from flambeau._functorch.make_functional import FunctionalModule, FunctionalModuleWithBuffers


def _moved(function: Callable, home: str) -> Any:
    """A function that warns of the home that it has now."""
    text = (
        "We've integrated functorch into PyTorch. As the final step of the integration, "
        f"`functorch.{function.__name__}` is deprecated as of PyTorch 2.0 and will be deleted in a "
        f"future version of PyTorch >= 2.3. Please use `{home}` instead; see the PyTorch 2.0 "
        "release notes and/or the `torch.func` migration guide for more details "
        "https://pytorch.org/docs/main/func.migrating.html"
    )

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(text, FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    return called


functionalize = _moved(func.functionalize, "torch.func.functionalize")
grad = _moved(func.grad, "torch.func.grad")
grad_and_value = _moved(func.grad_and_value, "torch.func.grad_and_value")
hessian = _moved(func.hessian, "torch.func.hessian")
jacfwd = _moved(func.jacfwd, "torch.func.jacfwd")
jacrev = _moved(func.jacrev, "torch.func.jacrev")
jvp = _moved(func.jvp, "torch.func.jvp")
vjp = _moved(func.vjp, "torch.func.vjp")
vmap = _moved(mapping.vmap, "torch.vmap")
make_functional = _moved(models.make_functional, "torch.func.functional_call")
make_functional_with_buffers = _moved(
    models.make_functional_with_buffers, "torch.func.functional_call"
)
combine_state_for_ensemble = _moved(
    models.combine_state_for_ensemble, "torch.func.stack_module_state"
)

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "vjp",
    "vmap",
]
