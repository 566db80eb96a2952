"""Between PIL images, NumPy arrays and tensors.

Most images are read where Pillow keeps them: pixels of several bands are 32-bit words there, whose
bytes one kernel turns into planes of floats or bytes. Where that is not possible (an image in
several blocks of memory, an older Pillow, rare modes), the pixels come through NumPy.
"""

import sys
from typing import Any

import flambeau
from flambeau import Tensor, _device
from flambeau._dtype import default_dtype, float32, int32, uint8
from flambeau._layout import make_layout
from flambeau._tensor import make_tensor
from flambeau.ops import pixels
from flambeau.runtime.arrow import values_address
from flambeau.storage import borrowed_storage
from flambeau.vision.pillow import from_array, pillow

# which bytes of a pixel in Pillow's memory are its bands; None: one byte for each pixel
_BYTES = {
    "L": None,
    "P": None,
    "LA": (0, 3),
    "RGB": (0, 1, 2),
    "YCbCr": (0, 1, 2),
    "HSV": (0, 1, 2),
    "RGBA": (0, 1, 2, 3),
    "CMYK": (0, 1, 2, 3),
}
if sys.byteorder == "big":
    _BYTES = {}
_shifts: dict = {}
_layouts: dict = {}
_image_class: Any = None
# Images over the memory of others may have gaps between rows, which Pillow tells since version 13.
_tells_of_gaps = False


def is_pil_image(value: Any) -> bool:
    """Whether a value is a PIL image, without importing Pillow for it."""
    global _image_class, _tells_of_gaps
    if _image_class is None:
        loaded = sys.modules.get("PIL.Image")
        if loaded is None:
            return False
        _image_class = loaded.Image
        version = sys.modules["PIL"].__version__.partition(".")[0]
        _tells_of_gaps = version.isdecimal() and int(version) >= 13
    return isinstance(value, _image_class)


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


# -- to tensors ------------------------------------------------------------------------------------


def to_tensor(pic: Any) -> Tensor:
    """A PIL image or an (H, W, C) array as a (C, H, W) tensor; bytes become floats up to 1."""
    if is_pil_image(pic):
        if pic.mode in _BYTES and default_dtype() is float32:
            out = _planes(pic, _unit_float, pixels.pixel_channel)
            if out is not None:
                return out
        return _image_to_tensor(pic)
    if not _is_array(pic):
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    if pic.ndim not in (2, 3):
        raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
    if pic.ndim == 2:
        pic = pic[:, :, None]
    return _scaled(flambeau.from_numpy(pic.transpose((2, 0, 1))).contiguous())


def _scaled(img: Tensor) -> Tensor:
    return img.div(255) if img.dtype is uint8 else img


def _planes(pic: Any, one_band: Any, many_bands: Any) -> Tensor | None:
    """The image read in place; None where Pillow does not show its memory.

    one_band gets a tensor of bytes, many_bands one of 32-bit pixels and where their bytes are.
    """
    if pic.readonly and not _tells_of_gaps:
        return None
    try:
        _, capsule = pic.__arrow_c_array__()
        address = values_address(capsule)
    except (AttributeError, ValueError):
        return None
    if not address:
        return None
    bands = _BYTES[pic.mode]
    size = pic.size
    layout = _layouts.get((size, bands is None))
    if layout is None:
        width, height = size
        dtype = uint8 if bands is None else int32
        layout = make_layout((1, height, width), (width * height, width, 1), dtype, _device.cpu)
        if len(_layouts) > 1000:
            _layouts.clear()
        _layouts[size, bands is None] = layout
    words = make_tensor(layout, borrowed_storage(address, layout.numel * 4, capsule), 0)
    if bands is None:
        return one_band(words)
    shifts = _shifts.get(bands)
    if shifts is None:
        with flambeau.inference_mode(False):
            shifts = flambeau.tensor([8 * b for b in bands], dtype=int32, device="cpu")
        shifts = _shifts[bands] = shifts.view(-1, 1, 1)
    return many_bands(words, shifts).contiguous()


def _unit_float(words: Tensor) -> Tensor:
    return words.div(255)


def _copied(words: Tensor) -> Tensor:
    return words.clone()


def _image_to_tensor(pic: Any) -> Tensor:
    import numpy as np

    exact = {"I": np.int32, "I;16" if sys.byteorder == "little" else "I;16B": np.int16}
    dtype = {**exact, "F": np.float32}.get(pic.mode, np.uint8)
    img = flambeau.from_numpy(np.array(pic, dtype, copy=True))
    if pic.mode == "1":
        img = 255 * img
    width, height = pic.size
    img = img.view(height, width, len(pic.getbands()))
    return _scaled(img.permute((2, 0, 1)).contiguous())


def pil_to_tensor(pic: Any) -> Tensor:
    """A PIL image as a (C, H, W) tensor of the same values."""
    if not is_pil_image(pic):
        raise TypeError(f"pic should be PIL Image. Got {type(pic)}")
    if pic.mode in _BYTES:
        out = _planes(pic, _copied, pixels.pixel_byte)
        if out is not None:
            return out
    import numpy as np

    img = flambeau.as_tensor(np.array(pic, copy=True))
    width, height = pic.size
    return img.view(height, width, len(pic.getbands())).permute((2, 0, 1))


# -- to images -------------------------------------------------------------------------------------

_MODES_OF_BANDS = {2: ["LA"], 3: ["RGB", "YCbCr", "HSV"], 4: ["RGBA", "CMYK", "RGBX"]}
_MODES_OF_DTYPE = {
    "uint8": "L",
    "int16": "I;16" if sys.byteorder == "little" else "I;16B",
    "int32": "I",
    "float32": "F",
}


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """A (C, H, W) tensor or an (H, W, C) array as a PIL image.

    mode: what the bands mean, where their number and dtype leave that open.
    """
    pillow()  # so that its absence is named before anything else
    if isinstance(pic, Tensor):
        array = (pic.permute((1, 2, 0)) if pic.ndim == 3 else pic).numpy(force=True)
    elif _is_array(pic):
        array = pic
    else:
        raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3:
        raise ValueError(f"pic should be 2/3 dimensional. Got {array.ndim} dimensions.")
    bands = array.shape[-1]
    if bands > 4:
        raise ValueError(f"pic should not have > 4 channels. Got {bands} channels.")
    if array.dtype.kind == "f" and mode != "F":
        array = (array * 255).astype("uint8")
    if bands == 1:
        array = array[:, :, 0]
        expected = _MODES_OF_DTYPE.get(array.dtype.name)
        if mode is not None and mode != expected:
            import numpy as np

            raise ValueError(
                f"Incorrect mode ({mode}) supplied for input type {np.dtype}. Should be {expected}"
            )
        mode = expected
    else:
        permitted = _MODES_OF_BANDS.get(bands, _MODES_OF_BANDS[3])
        if mode is not None and mode not in permitted:
            dimensions = bands if bands in _MODES_OF_BANDS else 3
            raise ValueError(f"Only modes {permitted} are supported for {dimensions}D inputs")
        if mode is None and array.dtype.name == "uint8":
            mode = permitted[0]
    if mode is None:
        raise TypeError(f"Input type {array.dtype} is not supported")
    return from_array(array, mode)
