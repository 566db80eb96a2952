"""Summaries: the records of TensorBoard, one function for each kind of data.

Each function takes what the user has and gives a `Summary` for an event file. Here are scalars,
tensors, text, sound, layouts of charts and meshes; histograms, curves, images and hyperparameters
have files of their own and are named here as well, as in PyTorch.
"""

import io
import json
import struct
import wave
from collections.abc import Mapping
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

from flambeau._tensor import Tensor
from flambeau.eager.creation import as_tensor
from flambeau.utils.tensorboard._convert_np import make_float, make_np
from flambeau.utils.tensorboard.histograms import histogram, histogram_raw, make_histogram
from flambeau.utils.tensorboard.hyperparameters import hparams
from flambeau.utils.tensorboard.images import (
    _calc_scale_factor,  # noqa: F401
    draw_boxes,
    image,
    image_boxes,
    make_image,
    make_video,
    video,
)
from flambeau.utils.tensorboard.pr_curves import compute_curve, pr_curve, pr_curve_raw

__all__ = [
    "audio",
    "compute_curve",
    "custom_scalars",
    "draw_boxes",
    "half_to_int",
    "histogram",
    "histogram_raw",
    "hparams",
    "image",
    "image_boxes",
    "int_to_half",
    "make_histogram",
    "make_image",
    "make_video",
    "mesh",
    "pr_curve",
    "pr_curve_raw",
    "scalar",
    "tensor_proto",
    "text",
    "video",
]


def _metadata(plugin, content=b""):
    return SummaryMetadata(
        plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    )


def _shape(sizes):
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])


# -- scalars and tensors --------------------------------------------------------------------------


def scalar(
    name: str,
    tensor: Any,
    collections: Any = None,
    new_style: bool = False,
    double_precision: bool = False,
) -> Summary:
    """One number; in the newer style a tensor of the plugin "scalars"."""
    number = make_float(tensor)
    if not new_style:
        return Summary(value=[Summary.Value(tag=name, simple_value=number)])
    if double_precision:
        proto = TensorProto(double_val=[number], dtype="DT_DOUBLE")
    else:
        proto = TensorProto(float_val=[number], dtype="DT_FLOAT")
    return Summary(value=[Summary.Value(tag=name, tensor=proto, metadata=_metadata("scalars"))])


def half_to_int(f: float) -> int:
    """The bits of a number as float32, as an integer: how 16-bit numbers stand in a TensorProto."""
    return struct.unpack("i", struct.pack("f", f))[0]


def int_to_half(i: int) -> float:
    """The number that half_to_int made this integer of."""
    return struct.unpack("f", struct.pack("i", i))[0]


def _numbers(t):
    return t.flatten().tolist()


def _half_bits(t):
    return [half_to_int(x) for x in t.flatten().tolist()]


def _parts(t):
    return [part for z in t.flatten().tolist() for part in (z.real, z.imag)]


# dtype -> name in the proto, field with the elements, how they are written
_FIELDS = {
    "float16": ("DT_HALF", "half_val", _half_bits),
    "bfloat16": ("DT_BFLOAT16", "half_val", _half_bits),
    "float32": ("DT_FLOAT", "float_val", _numbers),
    "float64": ("DT_DOUBLE", "double_val", _numbers),
    "int8": ("DT_INT8", "int_val", _numbers),
    "uint8": ("DT_UINT8", "uint32_val", _numbers),
    "int16": ("DT_INT16", "int_val", _numbers),
    "int32": ("DT_INT32", "int_val", _numbers),
    "int64": ("DT_INT64", "int64_val", _numbers),
    "bool": ("DT_BOOL", "bool_val", _numbers),
    "complex64": ("DT_COMPLEX64", "scomplex_val", _parts),
    "complex128": ("DT_COMPLEX128", "dcomplex_val", _parts),
}


def tensor_proto(tag: str, tensor: Any) -> Summary:
    """A whole tensor, in its own dtype."""
    tensor = as_tensor(tensor).detach()
    if tensor.numel() * tensor.itemsize >= 1 << 31:
        raise ValueError("tensor is bigger than protocol buffer's hard limit of 2GB in size")
    fields = _FIELDS.get(str(tensor.dtype).removeprefix("torch."))
    if fields is None:
        raise ValueError(f"{tag} has unsupported tensor dtype {tensor.dtype}")
    dtype, field, elements = fields
    options: dict[str, Any] = {field: elements(tensor)}
    proto = TensorProto(dtype=dtype, tensor_shape=_shape(tensor.shape), **options)
    return Summary(value=[Summary.Value(tag=tag, metadata=_metadata("tensor"), tensor=proto)])


# -- text and sound -------------------------------------------------------------------------------


def text(tag: str, text: str) -> Summary:
    """A text; TensorBoard reads it as Markdown."""
    proto = TensorProto(
        dtype="DT_STRING", string_val=[text.encode(encoding="utf_8")], tensor_shape=_shape([1])
    )
    metadata = _metadata("text", TextPluginData(version=0).SerializeToString())
    return Summary(
        value=[Summary.Value(tag=tag + "/text_summary", metadata=metadata, tensor=proto)]
    )


def audio(tag: str, tensor: Any, sample_rate: int = 44100) -> Summary:
    """Sound of one channel, between -1 and 1, as 16-bit WAV."""
    samples = _samples(make_np(tensor).squeeze())
    about: dict[str, Any] = {"num_channels": 1, "length_frames": len(samples)}
    about |= {"sample_rate": sample_rate, "content_type": "audio/wav"}
    proto = Summary.Audio(encoded_audio_string=_wave_file(samples, sample_rate), **about)
    return Summary(value=[Summary.Value(tag=tag, audio=proto)])


def _samples(sound):
    """Numbers between -1 and 1 as integers of 16 bits."""
    if np.any(np.abs(sound) > 1):
        print("warning: audio amplitude out of range, auto clipped.")
    if sound.ndim != 1:
        raise AssertionError("input tensor should be 1 dimensional.")
    # 32767 is no float16: the loudest sample would overflow
    wide = sound.astype(np.float32) if sound.dtype == np.float16 else sound
    return (np.clip(wide, -1, 1) * np.iinfo(np.int16).max).astype("<i2")


def _wave_file(samples, sample_rate):
    """The bytes of a WAV file with one channel of 16 bits."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, sample_rate, len(samples), "NONE", "not compressed"))
        sound.writeframes(samples.tobytes())
    return file.getvalue()


# -- layouts of charts ----------------------------------------------------------------------------


def _chart(title, kind, tags):
    if kind != "Margin":
        return layout_pb2.Chart(title=title, multiline=layout_pb2.MultilineChartContent(tag=tags))
    if len(tags) != 3:
        raise AssertionError(
            f"len(tags) != 3: a margin has a value, a lower and an upper tag, but {title!r} got "
            f"{len(tags)}"
        )
    series = dict(zip(("value", "lower", "upper"), tags))
    content = layout_pb2.MarginChartContent(series=[layout_pb2.MarginChartContent.Series(**series)])
    return layout_pb2.Chart(title=title, margin=content)


def custom_scalars(layout: Mapping[str, Mapping[str, Any]]) -> Summary:
    """Which scalars share a chart: {category: {chart: [kind, tags]}}."""
    categories = [
        layout_pb2.Category(
            title=category,
            chart=[_chart(title, content[0], content[1]) for title, content in charts.items()],
        )
        for category, charts in layout.items()
    ]
    content = layout_pb2.Layout(category=categories).SerializeToString()
    proto = TensorProto(dtype="DT_STRING", string_val=[content], tensor_shape=TensorShapeProto())
    value = Summary.Value(
        tag="custom_scalars__config__", tensor=proto, metadata=_metadata("custom_scalars")
    )
    return Summary(value=[value])


# -- meshes ---------------------------------------------------------------------------------------


def mesh(
    tag: str,
    vertices: Any,
    colors: Any,
    faces: Any,
    config_dict: Mapping[str, Any] | None,
    display_name: str | None = None,
    description: str | None = None,
) -> Summary:
    """A point cloud, or a mesh if there are faces: one value for each part that is there."""
    from tensorboard.plugins.mesh import metadata
    from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData

    config = "{}" if config_dict is None else json.dumps(config_dict, sort_keys=True)
    given = (
        (vertices, MeshPluginData.VERTEX),
        (faces, MeshPluginData.FACE),
        (colors, MeshPluginData.COLOR),
    )
    parts = [(part, content) for part, content in given if part is not None]
    components = metadata.get_components_bitmask([content for _, content in parts])
    values = []
    for part, content in parts:
        t: Tensor = as_tensor(part).detach()
        about = metadata.create_summary_metadata(
            tag, display_name, content, components, t.shape, description, json_config=config
        )
        proto = TensorProto(
            dtype="DT_FLOAT", float_val=t.reshape(-1).tolist(), tensor_shape=_shape(t.shape)
        )
        name = metadata.get_instance_name(tag, content)
        values.append(Summary.Value(tag=name, tensor=proto, metadata=about))
    return Summary(value=values)
