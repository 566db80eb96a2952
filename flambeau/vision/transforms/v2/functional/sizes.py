"""How large an input is: channels, height, width, frames."""

from typing import Any

from flambeau import Tensor
from flambeau.vision.transforms.functional import F_pil
from flambeau.vision.transforms.v2.functional.dispatch import kernel, operation, pil_kernel
from flambeau.vision.tv_tensors import BoundingBoxes, Image, KeyPoints, Mask, Video


@operation
def get_dimensions(inpt: Any) -> Any:
    """Channels, height and width of an image or a video."""


@kernel(get_dimensions, Tensor, Image, Video, wrapped=False)
def get_dimensions_image(image: Tensor) -> list[int]:
    shape = list(image.shape[-3:])
    if len(shape) < 2:
        raise TypeError(f"Input tensor should have at least two dimensions, but got {len(shape)}")
    return shape if len(shape) == 3 else [1, *shape]


get_dimensions_video = get_dimensions_image
pil_kernel(get_dimensions)(lambda image: F_pil.get_dimensions(image))


@operation
def get_num_channels(inpt: Any) -> Any:
    """How many channels an image or a video has."""


@kernel(get_num_channels, Tensor, Image, Video, wrapped=False)
def get_num_channels_image(image: Tensor) -> int:
    return get_dimensions_image(image)[0]


get_num_channels_video = get_num_channels_image
pil_kernel(get_num_channels)(lambda image: F_pil.get_image_num_channels(image))
get_image_num_channels = get_num_channels


@operation
def get_size(inpt: Any) -> Any:
    """Height and width of an image, a video, a mask, or the canvas of boxes and points."""


@kernel(get_size, Tensor, Image, Video, Mask, wrapped=False)
def get_size_image(image: Tensor) -> list[int]:
    size = list(image.shape[-2:])
    if len(size) < 2:
        raise TypeError(f"Input tensor should have at least two dimensions, but got {len(size)}")
    return size


get_size_video = get_size_mask = get_size_image


@kernel(get_size, BoundingBoxes, KeyPoints, wrapped=False)
def get_size_bounding_boxes(bounding_box: Any) -> list[int]:
    return list(bounding_box.canvas_size)


get_size_keypoints = get_size_bounding_boxes


@pil_kernel(get_size)
def _get_size_image_pil(image):
    width, height = F_pil.get_image_size(image)
    return [height, width]


@operation
def get_num_frames(inpt: Any) -> Any:
    """How many frames a video has."""


@kernel(get_num_frames, Tensor, Video, wrapped=False)
def get_num_frames_video(video: Tensor) -> int:
    return video.shape[-4]
