"""ChannelShuffle: channels of several groups, dealt like cards."""

from flambeau.nn.modules.declaring import layer
from flambeau.nn.modules.module import Module

__all__ = ["ChannelShuffle"]


@layer("channel_shuffle(input, groups)")
class ChannelShuffle(Module):
    """Channels (g, C / g) become (C / g, g), so that each group gets some of every other."""

    groups: int
