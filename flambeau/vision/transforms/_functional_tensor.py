"""Operations on image tensors under the name of torchvision's module for them."""

from flambeau.vision.transforms.tensor_checks import (
    get_dimensions,
    get_image_num_channels,
    get_image_size,
)
from flambeau.vision.transforms.tensor_checks import max_value as _max_value
from flambeau.vision.transforms.tensor_color import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    autocontrast,
    convert_image_dtype,
    equalize,
    invert,
    normalize,
    posterize,
    rgb_to_grayscale,
    solarize,
)
from flambeau.vision.transforms.tensor_filters import adjust_sharpness, gaussian_blur
from flambeau.vision.transforms.tensor_geometry import (
    affine,
    crop,
    elastic_transform,
    erase,
    hflip,
    pad,
    perspective,
    resize,
    rotate,
    vflip,
)

__all__ = [
    "_max_value",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "adjust_sharpness",
    "affine",
    "autocontrast",
    "convert_image_dtype",
    "crop",
    "elastic_transform",
    "equalize",
    "erase",
    "gaussian_blur",
    "get_dimensions",
    "get_image_num_channels",
    "get_image_size",
    "hflip",
    "invert",
    "normalize",
    "pad",
    "perspective",
    "posterize",
    "resize",
    "rgb_to_grayscale",
    "rotate",
    "solarize",
    "vflip",
]
