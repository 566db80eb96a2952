"""`torch.distributed.algorithms`: uneven inputs, hooks around communication."""

from .join import Join as Join
from .join import Joinable as Joinable
from .join import JoinHook as JoinHook
