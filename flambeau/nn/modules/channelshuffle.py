"""ChannelShuffle: channels of several groups, dealt like cards."""

from flambeau._tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Channels (g, C / g) become (C / g, g), so that each group gets some of every other."""

    __constants__ = ["groups"]

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
