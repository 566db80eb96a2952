"""torchvision.models.video: classifiers of films, with torchvision's names."""

from .mvit import *  # noqa: F403
from .resnet import *  # noqa: F403
from .s3d import *  # noqa: F403
from .swin_transformer import *  # noqa: F403
