"""`torchvision.utils`: grids of images, saving them, drawing on them."""

from flambeau.vision.pillow import from_array as _Image_fromarray
from flambeau.vision.utils.boxes import draw_bounding_boxes as draw_bounding_boxes
from flambeau.vision.utils.flow import flow_to_image as flow_to_image
from flambeau.vision.utils.grid import make_grid as make_grid
from flambeau.vision.utils.grid import save_image as save_image
from flambeau.vision.utils.overlays import draw_keypoints as draw_keypoints
from flambeau.vision.utils.overlays import draw_segmentation_masks as draw_segmentation_masks

__all__ = [
    "_Image_fromarray",
    "make_grid",
    "save_image",
    "draw_bounding_boxes",
    "draw_segmentation_masks",
    "draw_keypoints",
    "flow_to_image",
]


def _log_api_usage_once(obj: object) -> None:
    """Programs taken from torchvision call this; nothing is logged."""


def _make_ntuple(x: object, n: int) -> tuple[object, ...]:
    """An iterable as a tuple; anything else n times."""
    return tuple(x) if hasattr(x, "__iter__") else (x,) * n
