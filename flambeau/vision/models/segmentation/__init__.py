"""torchvision.models.segmentation: classes for every pixel. Results are dicts with "out"."""

from .deeplabv3 import *  # noqa: F403
from .fcn import *  # noqa: F403
from .lraspp import *  # noqa: F403
