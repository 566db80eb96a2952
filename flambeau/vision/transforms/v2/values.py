"""Transforms of v2 on values: kinds, dtypes, normalisation, blurring, noise, compression, time."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.vision import tv_tensors
from flambeau.vision.transforms import coloring as v1_coloring
from flambeau.vision.transforms import draws
from flambeau.vision.transforms import functional as v1_functional
from flambeau.vision.transforms import values as v1
from flambeau.vision.transforms.arguments import _check_sequence_input, keep, kernel_pair
from flambeau.vision.transforms.conversion import _is_array, is_pil_image
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2.arguments import two_floats
from flambeau.vision.transforms.v2.functional.dispatch import is_pure_tensor
from flambeau.vision.transforms.v2.samples import has_any
from flambeau.vision.transforms.v2.transform import Transform, _Calling

_PICTURES = (tv_tensors.Image, tv_tensors.Video)


# -- kinds -----------------------------------------------------------------------------------------


class PILToTensor(Transform):
    """PIL images as tensors of the same values."""

    _transformed_types = (is_pil_image,)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.pil_to_tensor(inpt)


class ToImage(Transform):
    """Tensors, arrays and PIL images as Images; values stay."""

    _transformed_types = (is_pure_tensor, is_pil_image, _is_array)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.to_image(inpt)


class ToPILImage(Transform):
    """Tensors and arrays as PIL images."""

    _transformed_types = (is_pure_tensor, tv_tensors.Image, _is_array)

    def __init__(self, mode: str | None = None) -> None:
        super().__init__()
        self.mode = mode

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.to_pil_image(inpt, mode=self.mode)


class ToPureTensor(Transform):
    """Tensors that no longer say what they are."""

    _transformed_types = (tv_tensors.TVTensor,)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return inpt.as_subclass(Tensor)


class ToTensor(Transform):
    """PIL images and arrays as floats from 0 to 1; `ToImage` and `ToDtype` are the newer way."""

    _transformed_types = (is_pil_image, _is_array)

    def __init__(self) -> None:
        warnings.warn(
            "The transform `ToTensor()` is deprecated and will be removed in a future release. "
            "Instead, please use `v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, "
            "scale=True)])`.Output is equivalent up to float precision.",
            stacklevel=2,
        )
        super().__init__()

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return v1_functional.to_tensor(inpt)


class Identity(Transform):
    """Nothing changes."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return inpt


class Lambda(Transform):
    """A function of one's own, for inputs of given types."""

    _transformed_types = (object,)

    def __init__(self, lambd: Callable[[Any], Any], *types: type) -> None:
        super().__init__()
        self.lambd = lambd
        self.types = types or self._transformed_types

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.lambd(inpt) if isinstance(inpt, self.types) else inpt

    def extra_repr(self) -> str:
        name = getattr(self.lambd, "__name__", None)
        return ", ".join(
            [*([name] if name else []), f"types={[kind.__name__ for kind in self.types]}"]
        )


# -- dtypes ----------------------------------------------------------------------------------------


class ToDtype(Transform):
    """Another dtype for images and videos, or for each type of input that a dict names.

    scale: pictures are scaled to the range of the dtype.
    """

    _transformed_types = (Tensor,)

    def __init__(self, dtype: Any, scale: bool = False) -> None:
        super().__init__()
        if not isinstance(dtype, (dict, flambeau.dtype)):
            raise ValueError(f"dtype must be a dict or a torch.dtype, got {type(dtype)} instead")
        if isinstance(dtype, dict) and Tensor in dtype and any(k in dtype for k in _PICTURES):
            warnings.warn(
                "Got `dtype` values for `torch.Tensor` and either `tv_tensors.Image` or "
                "`tv_tensors.Video`. Note that a plain `torch.Tensor` will *not* be transformed by "
                "this (or any other transformation) in case a `tv_tensors.Image` or "
                "`tv_tensors.Video` is present in the input.",
                stacklevel=2,
            )
        keep(self, dtype=dtype, scale=scale)

    def _wanted(self, inpt: Any, is_picture: bool) -> Any:
        """The dtype that an input is to have; None: the one it has."""
        if not isinstance(self.dtype, dict):
            return self.dtype if is_picture else None
        for key in (type(inpt), "others"):
            if key in self.dtype:
                return self.dtype[key]
        raise ValueError(
            f"No dtype was specified for type {type(inpt)}. "
            "If you only need to convert the dtype of images or videos, you can just pass "
            "e.g. dtype=torch.float32. If you're passing a dict as dtype, you can use "
            '"others" as a catch-all key e.g. dtype={tv_tensors.Mask: torch.int64, '
            '"others": None} to pass-through the rest of the inputs.'
        )

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        is_picture = is_pure_tensor(inpt) or isinstance(inpt, _PICTURES)
        dtype = self._wanted(inpt, is_picture)
        if dtype is not None:
            return self._call_kernel(F.to_dtype, inpt, dtype=dtype, scale=self.scale)
        if is_picture and self.scale:
            warnings.warn(
                "scale was set to True but no dtype was specified for images or videos: "
                "no scaling will be done.",
                stacklevel=2,
            )
        return inpt


class ConvertImageDtype(Transform):
    """Another dtype, scaled to its range."""

    _v1_transform_cls = v1.ConvertImageDtype

    def __init__(self, dtype: flambeau.dtype = flambeau.float32) -> None:
        super().__init__()
        self.dtype = dtype

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.to_dtype, inpt, dtype=self.dtype, scale=True)


class _TensorsOnly(Transform):
    def check_inputs(self, flat_inputs: list[Any]) -> None:
        if has_any(flat_inputs, is_pil_image):
            raise TypeError(f"{type(self).__name__}() does not support PIL images.")


class Normalize(_Calling, _TensorsOnly):
    """Subtract a mean from each channel, and divide by a standard deviation."""

    _v1_transform_cls = v1.Normalize
    _function = staticmethod(F.normalize)
    _named = ("mean", "std", "inplace")

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        super().__init__()
        keep(self, mean=list(mean), std=list(std), inplace=inplace)


class LinearTransformation(_TensorsOnly):
    """Subtract a mean image and multiply by a matrix, as whitening does."""

    _v1_transform_cls = v1.LinearTransformation
    _transformed_types = (is_pure_tensor, *_PICTURES)

    def __init__(self, transformation_matrix: Tensor, mean_vector: Tensor) -> None:
        super().__init__()
        v1.check_whitening(transformation_matrix, mean_vector)
        keep(self, transformation_matrix=transformation_matrix, mean_vector=mean_vector)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        plain = inpt.as_subclass(Tensor).contiguous()
        out = v1.whitened(plain, self.transformation_matrix, self.mean_vector)
        return tv_tensors.wrap(out, like=inpt) if isinstance(inpt, _PICTURES) else out


# -- neighbours, noise, compression, time ----------------------------------------------------------


class GaussianBlur(_Calling):
    """A picture blurred by a bell of random width."""

    _v1_transform_cls = v1_coloring.GaussianBlur
    _function = staticmethod(F.gaussian_blur)
    _first = ("kernel_size",)

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)) -> None:
        super().__init__()
        self.kernel_size = kernel_pair(kernel_size)
        low, high = bounds = two_floats(sigma, "sigma")
        if not 0.0 < low <= high:
            raise ValueError(
                f"sigma values should be positive and of the form (min, max). Got {bounds}"
            )
        self.sigma = bounds

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"sigma": [draws.uniform(*self.sigma)] * 2}


class GaussianNoise(_Calling):
    """Normal noise added to pictures; clip: values stay within their range."""

    _function = staticmethod(F.gaussian_noise)
    _named = ("mean", "sigma", "clip")

    def __init__(self, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> None:
        super().__init__()
        keep(self, mean=mean, sigma=sigma, clip=clip)


class JPEG(_Calling):
    """Pictures compressed as JPEG with a random quality between bounds, 1 to 100."""

    _function = staticmethod(F.jpeg)

    def __init__(self, quality: int | Sequence[int]) -> None:
        super().__init__()
        if isinstance(quality, bool):
            raise TypeError("quality can't be bool")
        bounds = [quality] * 2 if isinstance(quality, int) else quality
        _check_sequence_input(bounds, "quality", (2,))
        is_ordered = 1 <= bounds[0] <= bounds[1] <= 100
        if not (is_ordered and all(isinstance(bound, int) for bound in bounds)):
            raise ValueError(f"quality must be an integer from 1 to 100, got quality ={bounds!r}")
        self.quality = bounds

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        low, high = self.quality
        return {"quality": draws.integer(low, high + 1)}


class UniformTemporalSubsample(_Calling):
    """So many frames of a video, at equal distances."""

    _transformed_types = (Tensor,)
    _function = staticmethod(F.uniform_temporal_subsample)
    _first = ("num_samples",)

    def __init__(self, num_samples: int) -> None:
        super().__init__()
        self.num_samples = num_samples
