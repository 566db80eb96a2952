"""The older name of `torch.distributed.tensor`."""

from flambeau.distributed.tensor import *  # noqa: F403
from flambeau.distributed.tensor import __all__ as __all__
