"""torchvision.models.optical_flow: how pixels move from one image to the next."""

from .raft import *  # noqa: F403
