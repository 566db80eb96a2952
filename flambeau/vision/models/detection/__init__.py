"""torchvision.models.detection: models that find things in images, with torchvision's names.

`faster_rcnn` and its relatives look twice (regions, then what is in them); `retinanet`, `fcos`,
`ssd` and `ssdlite` once. `building` has what their model functions share.
"""

from .faster_rcnn import *  # noqa: F403
from .fcos import *  # noqa: F403
from .keypoint_rcnn import *  # noqa: F403
from .mask_rcnn import *  # noqa: F403
from .retinanet import *  # noqa: F403
from .ssd import *  # noqa: F403
from .ssdlite import *  # noqa: F403
