"""`torch.func`: derivatives and batches as functions of functions.

derivatives.py has grad, vjp and jvp, jacobians.py all of a derivative, modules.py modules as
functions; vmap is in flambeau/_functorch. How tensors inside of a transform work is in
flambeau/transforms.
"""

from flambeau._functorch.vmap import vmap
from flambeau.func.derivatives import (
    debug_unwrap,
    grad,
    grad_and_value,
    jvp,
    linearize,
    vjp,
)
from flambeau.func.functionalizing import functionalize
from flambeau.func.jacobians import hessian, jacfwd, jacrev
from flambeau.func.modules import (
    functional_call,
    replace_all_batch_norm_modules_,
    stack_module_state,
)
from flambeau.func.rearranging import rearrange

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
