"""Pictures in files, read by Pillow."""

import io

import numpy as np

import flambeau as torch
from flambeau import Tensor
from flambeau.onnx.operators.table import op
from flambeau.onnx.operators.values import array_of


@op("ImageDecoder", 20)
def image_decoder(encoded: Tensor, *, pixel_format: str = "RGB") -> Tensor:
    """Rows, columns and channels of a picture."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "ImageDecoder needs the package pillow; install it with `pip install flambeau[vision]`"
        ) from error
    picture = Image.open(io.BytesIO(array_of(encoded).tobytes()))
    if pixel_format == "Grayscale":
        return torch.from_numpy(np.array(picture.convert("L"))[:, :, None])
    array = np.array(picture.convert("RGB"))
    return torch.from_numpy(array[:, :, ::-1].copy() if pixel_format == "BGR" else array)
