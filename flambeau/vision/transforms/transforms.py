"""Every transform of torchvision.transforms v1, by name. Each family has a file of its own."""

from flambeau.vision.transforms.arguments import _check_sequence_input as _check_sequence_input
from flambeau.vision.transforms.arguments import _setup_angle as _setup_angle
from flambeau.vision.transforms.arguments import _setup_size as _setup_size
from flambeau.vision.transforms.coloring import (
    ColorJitter,
    GaussianBlur,
    Grayscale,
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomEqualize,
    RandomGrayscale,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
)
from flambeau.vision.transforms.containers import (
    Compose,
    Lambda,
    RandomApply,
    RandomChoice,
    RandomOrder,
)
from flambeau.vision.transforms.containers import RandomTransforms as RandomTransforms
from flambeau.vision.transforms.interpolation import InterpolationMode
from flambeau.vision.transforms.placement import (
    CenterCrop,
    FiveCrop,
    Pad,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    TenCrop,
)
from flambeau.vision.transforms.values import (
    ConvertImageDtype,
    LinearTransformation,
    Normalize,
    PILToTensor,
    ToPILImage,
    ToTensor,
)
from flambeau.vision.transforms.warping import (
    ElasticTransform,
    RandomAffine,
    RandomPerspective,
    RandomRotation,
)

__all__ = [
    "Compose",
    "ToTensor",
    "PILToTensor",
    "ConvertImageDtype",
    "ToPILImage",
    "Normalize",
    "Resize",
    "CenterCrop",
    "Pad",
    "Lambda",
    "RandomApply",
    "RandomChoice",
    "RandomOrder",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomVerticalFlip",
    "RandomResizedCrop",
    "FiveCrop",
    "TenCrop",
    "LinearTransformation",
    "ColorJitter",
    "RandomRotation",
    "RandomAffine",
    "Grayscale",
    "RandomGrayscale",
    "RandomPerspective",
    "RandomErasing",
    "GaussianBlur",
    "InterpolationMode",
    "RandomInvert",
    "RandomPosterize",
    "RandomSolarize",
    "RandomAdjustSharpness",
    "RandomAutocontrast",
    "RandomEqualize",
    "ElasticTransform",
]
