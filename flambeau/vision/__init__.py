"""Images: datasets, transforms, models, files and drawings, under the paths of torchvision.

`python -m flambeau` lets programs say `import torchvision` and get this package. Its parts load
when first touched. Pillow is needed only where an image file or a PIL image is met
(`pip install flambeau[vision]`).
"""

import importlib as _importlib

__version__ = "0.28.0"  # the torchvision whose names, results and messages these are

_MODULES = {
    "datasets",
    "io",
    "models",
    "ops",
    "transforms",
    "tv_tensors",
    "utils",
    "version",
}
_image_backend = "PIL"
_video_backend = "pyav"


def set_image_backend(backend: str) -> None:
    """Choose the package that datasets open image files with: "PIL" or "accimage"."""
    global _image_backend
    if backend not in ("PIL", "accimage"):
        raise ValueError(f"Invalid backend '{backend}'. Options are 'PIL' and 'accimage'")
    _image_backend = backend


def get_image_backend() -> str:
    """The package that datasets open image files with."""
    return _image_backend


def set_video_backend(backend: str) -> None:
    """Accepted and ignored, as in torchvision: there is one name to choose."""


def get_video_backend() -> str:
    """Always "pyav"; videos themselves are not read here."""
    return _video_backend


def disable_beta_transforms_warning() -> None:
    """Nothing to do: there is no such warning; old programs still call this."""


def __getattr__(name):
    if name in _MODULES:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_MODULES})
