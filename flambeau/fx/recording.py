"""How calls of PyTorch's functions look when they are recorded.

Some public functions of PyTorch are builtins, which are recorded as they are called, under the name
of the part of its C library they live in. Others are written in Python and are recorded with all
their options, as keywords: `F.relu(x)` becomes `torch.nn.functional.relu(x, inplace = False)`. Here
all are Python functions; the tables below say which is which.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from flambeau.ops.table import REQUIRED

# torch.nn.functional -> where PyTorch's builtin lives
_BUILTINS = {
    **{
        name: "torch._C._nn." + name
        for name in "avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear one_hot "
        "scaled_dot_product_attention softplus softshrink".split()
    },
    "logsigmoid": "torch._C._nn.log_sigmoid",
    **{
        name: "torch." + name
        for name in "adaptive_avg_pool1d avg_pool1d bilinear celu_ channel_shuffle conv1d conv2d "
        "conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity "
        "hardshrink native_channel_shuffle pairwise_distance pdist pixel_shuffle pixel_unshuffle "
        "prelu relu_ rrelu_ selu_ threshold_".split()
    },
}
# one function here under two names: the one that programs call is meant
_OF_NN = frozenset(
    "max_pool1d max_pool1d_with_indices max_pool2d max_pool3d layer_norm rms_norm".split()
)
_RENAMED = {"threshold": "_threshold"}
_FUNCTIONAL = "torch.nn.functional."

# in torch.functional, in Python; those with True are recorded with all options
_FUNCTIONS = {
    **dict.fromkeys(
        "atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod chain_matmul "
        "einsum meshgrid".split(),
        False,
    ),
    **dict.fromkeys("cdist norm split stft tensordot unique unique_consecutive".split(), True),
}
# what must be given and options, where the function here takes any arguments
_UNIQUE = {"return_inverse": False, "return_counts": False, "dim": None}
_SIGNATURES: dict[str, tuple[list[str], dict[str, Any]]] = {
    "norm": (
        ["input"],
        {"p": "fro", "dim": None, "keepdim": False, "out": None, "dtype": None},
    ),
    "tensordot": (["a", "b"], {"dims": 2, "out": None}),
    "unique": (["input"], {"sorted": True, **_UNIQUE}),
    "unique_consecutive": (["input"], _UNIQUE),
}
_SPACES = ("linalg", "fft", "special")
# defaults that are written in another way here
_DEFAULTS = {
    ("cosine_embedding_loss", "margin"): 0,
    ("margin_ranking_loss", "margin"): 0,
    ("embedding_bag", "norm_type"): 2,
    ("triplet_margin_loss", "p"): 2,
}
_PLACES = ("flambeau.eager", "flambeau._tensor", "flambeau.functional")
_OURS = frozenset({"out", "kwargs", "cudnn_enable"})  # parameters that PyTorch's function lacks


def spelled(func: Callable) -> str | None:
    """The name of a function of ours in PyTorch where it does not follow from its place."""
    name, module = func.__name__, func.__module__ or ""
    if _is_functional(func):
        return _BUILTINS.get(name) or _FUNCTIONAL + _RENAMED.get(name, name)
    if module == "flambeau" or module.startswith(
        ("flambeau.eager", "flambeau._tensor", "flambeau.functional")
    ):
        if name in _FUNCTIONS:
            return "torch.functional." + name
        space, _, rest = name.partition("_")
        if space in _SPACES and rest:
            return f"torch._C._{space}.{name}"
    return None


def _is_functional(func):
    """Is it a function of torch.nn.functional?"""
    module, name = func.__module__ or "", func.__name__
    if module == "flambeau.nn.functional" or (module == "flambeau" and name in _OF_NN):
        return True
    return module.startswith("flambeau.nn.") and module.rpartition(".")[2].startswith("functional")


def as_recorded(func: Callable, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The arguments of a call as PyTorch records them."""
    name = getattr(func, "__name__", "")
    if not getattr(func, "__module__", "").startswith("flambeau"):
        return args, kwargs
    functional = _is_functional(func)
    if functional and name in _BUILTINS:
        return args, kwargs
    if functional or _FUNCTIONS.get(name):
        return _with_options(func, name, args, kwargs)
    if name == "meshgrid":
        return args, {"indexing": None, **kwargs}
    if name == "einsum" and len(args) == 2 and isinstance(args[1], (list, tuple)):
        return (args[0], *args[1]), kwargs
    return args, kwargs


@functools.cache
def _parameters(func):
    """Names that must be given, and options with their defaults."""
    if func.__name__ in _SIGNATURES:
        return _SIGNATURES[func.__name__]
    needed, options = [], {}
    for p in inspect.signature(func).parameters.values():
        if (func.__name__, p.name) == ("l1_loss", "weight"):
            continue  # which PyTorch forgets
        if p.name in _OURS and not (p.name == "out" and func.__name__ == "normalize"):
            continue
        if p.default in (p.empty, REQUIRED):
            needed.append(p.name)
        else:
            options[p.name] = _DEFAULTS.get((func.__name__, p.name), p.default)
    if "is_causal" in options:  # of attention, which PyTorch gives earlier
        order = "training key_padding_mask need_weights attn_mask is_causal".split()
        options = {name: options[name] for name in [*order, *options]}
    return needed, options


def _with_options(func, name, args, kwargs):
    """What must be given by position, all options by name."""
    needed, options = _parameters(func)
    given: dict[str, Any] = dict(zip([*needed, *options], args)) | kwargs
    if len(args) > len(needed) + len(options) or any(n not in given for n in needed):
        return args, kwargs  # an error, which the call itself will tell
    named = {n: given.pop(n, default) for n, default in options.items()}
    return tuple(given.pop(n) for n in needed), named | given
