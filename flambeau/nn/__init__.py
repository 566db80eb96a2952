"""Neural networks: modules, their functions (`functional`), initial values (`init`), `utils`."""

from flambeau.nn import _reduction as _reduction
from flambeau.nn import attention as attention
from flambeau.nn import common_types as common_types
from flambeau.nn import functional as functional
from flambeau.nn import grad as grad
from flambeau.nn import init as init
from flambeau.nn import parallel as parallel
from flambeau.nn import utils as utils
from flambeau.nn.modules import *  # noqa: F403
from flambeau.nn.parallel import DataParallel as DataParallel
from flambeau.nn.parameter import Buffer as Buffer
from flambeau.nn.parameter import Parameter as Parameter
from flambeau.nn.parameter import UninitializedBuffer as UninitializedBuffer
from flambeau.nn.parameter import UninitializedParameter as UninitializedParameter

_QUANTIZATION = frozenset({"quantized", "qat", "intrinsic"})


def __getattr__(name):
    if name in _QUANTIZATION:
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def factory_kwargs(kwargs):
    """device, dtype and memory_format from keywords, or from a dict in `factory_kwargs`.

    Example:
        >>> torch.nn.factory_kwargs({"dtype": torch.float64})
        {'dtype': torch.float64}
    """
    if kwargs is None:
        return {}
    names = {"device", "dtype", "memory_format"}
    unknown = kwargs.keys() - names - {"factory_kwargs"}
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for name in sorted(names & kwargs.keys()):
        if name in found:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        found[name] = kwargs[name]
    return found
