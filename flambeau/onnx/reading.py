"""From bytes to a model that was checked. Nothing is computed here, and nothing large is made.

Tensors are taken out of the model first: `checked` hands back the graph without its weights, and
the weights by name. Their sizes are compared with the bytes that are there before an array is made.
"""

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from flambeau.onnx.errors import OnnxLoadError
from flambeau.onnx.protobufs import onnx

__all__ = ["Source", "array_from", "checked", "read_model"]

T = onnx.TensorProto
# Fields of a tensor that hold its elements, by type, where they are not raw bytes.
FIELDS = {
    "float_data": {T.FLOAT: 1, T.COMPLEX64: 2},
    "double_data": {T.DOUBLE: 1, T.COMPLEX128: 2},
    "int64_data": {T.INT64: 1},
    "uint64_data": {T.UINT32: 1, T.UINT64: 1},
    "string_data": {T.STRING: 1},
}
PACKED = {getattr(T, name): bits for name, bits in (("UINT4", 4), ("INT4", 4), ("FLOAT4E2M1", 4))}
PACKED |= {getattr(T, n): 2 for n in ("UINT2", "INT2") if hasattr(T, n)}


class Source:
    """Where files with weights may lie: beside the model, and nowhere else."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def bytes_of(self, tensor: Any, size: int) -> Any:
        """The bytes of a tensor that are kept in another file, as a map of that file."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        place = self.file(entries.get("location", ""), tensor.name)
        offset = whole(entries.get("offset", "0"), tensor.name)
        length = whole(entries["length"], tensor.name) if "length" in entries else size
        available = place.stat().st_size
        if length != size or offset + length > available:
            raise OnnxLoadError(
                f"tensor {tensor.name!r} needs {size} bytes; its file has {available} and is said "
                f"to hold {length} from {offset} on"
            )
        if size == 0:
            return b""
        return np.memmap(place, dtype=np.uint8, mode="r", offset=offset, shape=(size,))

    def file(self, location: str, name: str) -> Path:
        if self.folder is None:
            raise OnnxLoadError(f"tensor {name!r} lies in another file; load the model from a path")
        parts = Path(location).parts
        if not location or Path(location).is_absolute() or ".." in parts or "\0" in location:
            raise OnnxLoadError(f"tensor {name!r} lies outside the model's folder: {location!r}")
        place = self.folder / location
        inside = os.path.realpath(place).startswith(os.path.realpath(self.folder) + os.sep)
        if not inside or place.is_symlink():
            raise OnnxLoadError(f"tensor {name!r} lies outside the model's folder: {location!r}")
        if not place.is_file():
            raise OnnxLoadError(f"the file {location!r} of tensor {name!r} does not exist")
        return place


def whole(text: str, name: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise OnnxLoadError(f"tensor {name!r} has {text[:20]!r} where a number should be")
    return int(text)


def read_model(model: Any) -> tuple[Any, Source]:
    """A copy of the model, from a path, bytes, an open file or a ModelProto."""
    if isinstance(model, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return copy, Source(None)
    source = Source(None)
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        data = path.read_bytes()
        source = Source(path.resolve().parent)
    elif isinstance(model, (bytes, bytearray, memoryview)):
        data = bytes(model)
    elif hasattr(model, "read"):
        data = model.read()
    else:
        raise TypeError(
            f"load() wants a path, bytes, a file or a ModelProto, not {type(model).__name__}"
        )
    parsed = onnx.ModelProto()
    try:
        parsed.ParseFromString(data)
    except Exception as error:
        raise OnnxLoadError(f"not an ONNX model: {error}") from None
    return parsed, source


def checked(model: Any, source: Source) -> tuple[Any, dict[str, Any]]:
    """The model as the checker accepts it, without its weights, and the weights."""
    if not model.HasField("graph"):
        raise OnnxLoadError("not an ONNX model: it has no graph")
    if model.ir_version < 1 or not model.opset_import:
        # Files from before versions existed say nothing about them.
        raise OnnxLoadError("the model does not say which version of ONNX it is written for")
    weights = taken_weights(model.graph, source)
    try:
        onnx.checker.check_model(model)
    except Exception as error:
        first = str(error).strip().splitlines() or ["it breaks the rules of the format"]
        raise OnnxLoadError(f"not a valid ONNX model: {first[0]}") from None
    return model, weights


def taken_weights(graph: Any, source: Source) -> dict[str, Any]:
    """Initializers leave the graph and become inputs of it; the checker need not see them."""
    weights: dict[str, Any] = {}
    inputs = {value.name for value in graph.input}
    for tensor in graph.initializer:
        if not tensor.name or tensor.name in weights:
            raise OnnxLoadError(f"the weight {tensor.name!r} has no name of its own")
        weights[tensor.name] = array_from(tensor, source)
    for sparse in graph.sparse_initializer:
        name = sparse.values.name
        if not name or name in weights:
            raise OnnxLoadError(f"the weight {name!r} has no name of its own")
        weights[name] = dense_array(sparse, source)
    for tensor in (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)):
        if tensor.name not in inputs:
            value = graph.input.add()
            value.name = tensor.name
            value.type.tensor_type.elem_type = tensor.data_type
            value.type.tensor_type.shape.SetInParent()  # a scalar has a shape without sizes
            for size in weights[tensor.name].shape:
                value.type.tensor_type.shape.dim.add().dim_value = size
    del graph.initializer[:]
    del graph.sparse_initializer[:]
    return weights


def array_from(tensor: Any, source: Source) -> np.ndarray:
    """The array of a TensorProto, if it holds as many elements as it says."""
    kind, dims = tensor.data_type, list(tensor.dims)
    if kind not in T.DataType.values() or kind == T.UNDEFINED:
        raise OnnxLoadError(f"tensor {tensor.name!r} has the unknown type {kind}")
    if any(size < 0 for size in dims) or len(dims) > 64:
        raise OnnxLoadError(f"tensor {tensor.name!r} has the impossible sizes {dims[:8]}")
    count = math.prod(dims)
    if count > 2**62:
        raise OnnxLoadError(f"tensor {tensor.name!r} has the impossible sizes {dims[:8]}")
    if kind == T.STRING:
        return text_array(tensor, dims, count)
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    size = math.ceil(count * PACKED[kind] / 8) if kind in PACKED else count * dtype.itemsize
    if tensor.data_location == T.EXTERNAL:
        return from_bytes(source.bytes_of(tensor, size), kind, dtype, dims)
    if tensor.HasField("raw_data"):
        if len(tensor.raw_data) != size:
            raise wrong_length(tensor, size, len(tensor.raw_data), "bytes")
        return from_bytes(tensor.raw_data, kind, dtype, dims)
    return from_fields(tensor, kind, dims, count)


def wrong_length(tensor: Any, wanted: int, found: int, what: str) -> OnnxLoadError:
    return OnnxLoadError(
        f"tensor {tensor.name!r} of sizes {list(tensor.dims)[:8]} "
        f"needs {wanted} {what}, not {found}"
    )


def from_bytes(data: Any, kind: int, dtype: np.dtype, dims: list[int]) -> np.ndarray:
    if kind in PACKED:
        return unpacked(np.frombuffer(data, dtype=np.uint8), kind, dtype, dims)
    stored = np.frombuffer(data, dtype=dtype.newbyteorder("<") if dtype.kind in "iufc" else dtype)
    return stored.astype(dtype, copy=False).reshape(dims)


def unpacked(stored: np.ndarray, kind: int, dtype: np.dtype, dims: list[int]) -> np.ndarray:
    """Two or four numbers in a byte, the first in the lowest bits."""
    bits = PACKED[kind]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    each = ((stored[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[: math.prod(dims)]
    if kind == T.FLOAT4E2M1:
        return each.view(dtype).reshape(dims)
    if kind in (T.INT4, getattr(T, "INT2", None)):
        each = (each ^ (1 << (bits - 1))).astype(np.int8) - (1 << (bits - 1))
    return each.astype(dtype).reshape(dims)


def from_fields(tensor: Any, kind: int, dims: list[int], count: int) -> np.ndarray:
    """Elements that are written as lists of numbers."""
    field, per = "int32_data", 1
    for name, kinds in FIELDS.items():
        if kind in kinds:
            field, per = name, kinds[kind]
    values = getattr(tensor, field)
    wanted = math.ceil(count * PACKED[kind] / 8) if kind in PACKED else count * per
    if len(values) != wanted:
        raise wrong_length(tensor, wanted, len(values), "numbers")
    try:
        return onnx.numpy_helper.to_array(tensor).reshape(dims)
    except (TypeError, ValueError, OverflowError) as error:
        raise OnnxLoadError(f"tensor {tensor.name!r} cannot be read: {error}") from None


def text_array(tensor: Any, dims: list[int], count: int) -> np.ndarray:
    if len(tensor.string_data) != count or tensor.data_location == T.EXTERNAL:
        raise wrong_length(tensor, count, len(tensor.string_data), "strings")
    try:
        texts = [text.decode() for text in tensor.string_data]
    except UnicodeDecodeError:
        raise OnnxLoadError(f"tensor {tensor.name!r} holds text that is not UTF-8") from None
    return np.array(texts, dtype=object).reshape(dims)


# A sparse tensor may be small on disk and large in memory; ones beyond this are refused.
MOST_DENSE = 2**28


def dense_array(sparse: Any, source: Source) -> np.ndarray:
    """A sparse tensor with its zeros."""
    values, indices = array_from(sparse.values, source), array_from(sparse.indices, source)
    dims = list(sparse.dims)
    name = sparse.values.name
    count = math.prod(dims)
    if any(size < 0 for size in dims) or count > MOST_DENSE:
        raise OnnxLoadError(f"the sparse tensor {name!r} has the sizes {dims[:8]}")
    if values.ndim != 1 or indices.dtype != np.int64 or values.dtype.kind == "O":
        raise OnnxLoadError(f"the sparse tensor {name!r} is not a list of values and places")
    if indices.ndim == 2:
        fits = indices.shape == (len(values), len(dims))
        if not fits or (indices < 0).any() or (indices >= np.array(dims)).any():
            raise OnnxLoadError(f"the sparse tensor {name!r} has places outside its sizes")
        indices = np.ravel_multi_index(tuple(indices.T), dims) if len(dims) else indices[:, 0]
    if indices.shape != values.shape or (indices < 0).any() or (indices >= count).any():
        raise OnnxLoadError(f"the sparse tensor {name!r} has places outside its sizes")
    dense = np.zeros(count, dtype=values.dtype)
    dense[indices] = values
    return dense.reshape(dims)
