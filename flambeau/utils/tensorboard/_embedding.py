"""The files of the projector: vectors, their labels and pictures, and the page that lists them."""

import io
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from tensorboard.compat import tf
from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo

from flambeau.utils.tensorboard._convert_np import make_np
from flambeau.utils.tensorboard.images import _pillow, as_pixels, make_grid


def _write(folder, name, content):
    with tf.io.gfile.GFile(os.path.join(folder, name), "wb") as file:
        file.write(content)


def _cell(value):
    """A label may not end its line or column: the lines after it would belong to other points."""
    return " ".join(str(value).replace("\t", " ").splitlines()) if value != "" else ""


def make_tsv(
    metadata: Sequence[Any], save_path: str, metadata_header: Sequence[str] | None = None
) -> None:
    """Labels, a line each; several columns if there is a header for them."""
    if not metadata_header:
        lines = [_cell(label) for label in metadata]
    else:
        if len(metadata_header) != len(metadata[0]):
            raise AssertionError("len of header must be equal to the number of columns in metadata")
        lines = ["\t".join(map(_cell, cells)) for cells in (metadata_header, *metadata)]
    _write(save_path, "metadata.tsv", ("\n".join(lines) + "\n").encode())


def make_sprite(label_img: Any, save_path: str) -> None:
    """All pictures in one square, in rows that hold as many as there are rows."""
    Image, _, _ = _pillow()
    pictures = make_np(label_img)
    pixels = as_pixels(make_grid(pictures, ncols=math.ceil(len(pictures) ** 0.5)))
    _, height, width = pixels.shape
    square = np.zeros((max(height, width), width, 3), dtype=np.uint8)
    square[:height] = pixels.transpose(1, 2, 0)
    file = io.BytesIO()
    Image.fromarray(square).save(file, format="PNG")
    _write(save_path, "sprite.png", file.getvalue())


def make_mat(matlist: np.ndarray, save_path: str) -> None:
    """Vectors, a line each."""
    lines = ["\t".join(map(str, vector)) + "\n" for vector in matlist.tolist()]
    _write(save_path, "tensors.tsv", "".join(lines).encode())


def get_embedding_info(
    metadata: Any, label_img: Any, subdir: str, global_step: Any, tag: str
) -> EmbeddingInfo:
    """What the projector has to know of one embedding."""
    info = EmbeddingInfo()
    info.tensor_name = f"{tag}:{str(global_step).zfill(5)}"
    info.tensor_path = os.path.join(subdir, "tensors.tsv")
    if metadata is not None:
        info.metadata_path = os.path.join(subdir, "metadata.tsv")
    if label_img is not None:
        info.sprite.image_path = os.path.join(subdir, "sprite.png")
        info.sprite.single_image_dim.extend([label_img.shape[3], label_img.shape[2]])
    return info


def write_pbtxt(save_path: str, contents: str) -> None:
    """The page of the projector: all embeddings of a run."""
    _write(save_path, "projector_config.pbtxt", contents.encode())
