"""`torch._C`: the few names of PyTorch's compiled part that libraries call by it."""  # noqa: N999

from types import SimpleNamespace

from flambeau._tensor import Tensor
from flambeau.nn.modules.traversal import _parse_to
from flambeau.random import Generator as Generator

_nn = SimpleNamespace(_parse_to=_parse_to)
_TensorMeta = type(Tensor)


def _log_api_usage_once(event: str) -> None:
    """Libraries announce themselves to a listener that PyTorch's builds leave out, as here."""
