"""Launching nms, roi_align and roi_pool.

Kernels: `codegen/templates/regions.py`; rows: `ops/regions.py`. This module loads with
`flambeau.vision.ops`.
"""

import struct

from flambeau import _dtype as d
from flambeau import errors
from flambeau._tensor import empty_tensor
from flambeau.codegen.descriptions_images import REGION_CHANNELS, Boxes, Regions
from flambeau.codegen.target import current
from flambeau.eager.copying import copy_into
from flambeau.eager.launching import launches
from flambeau.eager.rows import address, chunks_of, contiguous
from flambeau.runtime.cpu import packed

WORK = 1 << 16  # results of a chunk, about
MOST_CHUNKS = 32  # each has scratch of its own


def _run(device, name, facts, words, *arguments):
    kernel = device.runtime.kernel(name, "regions:build_" + name, *facts)
    if kernel(packed(words), *arguments) is not None:
        raise IndexError(
            "roi batch index out of range: the first column of the boxes names an image of the "
            "input"
        )


@launches("nms_sorted")
def nms_sorted(lines, count, iou_threshold):
    if not lines._layout.device.runtime.computes:
        raise NotImplementedError("nms: the result depends on the data, which meta tensors lack")
    marks = empty_tensor((count + 64,), d.uint8, lines.device).zero_()
    kept = empty_tensor((count + 1,), d.int64, lines.device)
    code = lines.dtype.code
    threshold = _rounded_down(iou_threshold) if code == "f32" else iou_threshold
    pointers = address(lines), address(marks), address(kept)
    _run(lines.device, "nms", (code,), Boxes(1, count, lines.shape[1]), *pointers, threshold)
    return kept[: int(kept[count])].clone()


def _rounded_down(x):
    """The largest float32 that is not above x: what is above one is above the other."""
    try:
        bits = struct.unpack("i", struct.pack("f", x))[0]
    except OverflowError:
        return x
    nearest = struct.unpack("f", struct.pack("i", bits))[0]
    if nearest <= x or x != x:
        return nearest
    if nearest == 0:
        return -1e-45
    return struct.unpack("f", struct.pack("i", bits - 1 if nearest > 0 else bits + 1))[0]


# -- regions ---------------------------------------------------------------------------------------


def _check(input, rois, name):
    if input.ndim != 4:
        raise RuntimeError(f"input should be a 4d tensor (N, C, H, W), got {input.ndim}D")
    if rois.ndim != 2 or rois.shape[1] != 5:
        raise RuntimeError("rois must have shape as Tensor[K, 5]")
    if input.dtype is not rois.dtype:
        raise RuntimeError(
            "Expected tensor for argument #1 'input' to have the same type as tensor for argument "
            f"#2 'rois'; but type torch.{input.dtype.scalar_name}Tensor does not equal "
            f"torch.{rois.dtype.scalar_name}Tensor (while checking arguments for {name})"
        )
    if not input.dtype.is_floating_point:
        raise errors.not_implemented(name, input.dtype)


def _parts(count, each):
    """(parts, elements of a part) of `count` elements, each of which gives so many results."""
    per_part = max(1, WORK // max(each, 1), -(-count // MOST_CHUNKS))
    return chunks_of(count, per_part), per_part


def _align_scratch(dtype, height, width, rows, columns):
    """(bytes of a chunk, stride of bins, stride of lines), for both kernels of roi_align."""
    size = max(4, dtype.itemsize)
    w = current().vector_bytes // size
    bin_stride, line = -(-columns // w) * w, -(-width // w) * w + w
    tables = rows * height + max(width * bin_stride, columns * line) + REGION_CHANNELS * line
    return -(-(16 * rows + size * tables) // 64) * 64, bin_stride, line


@launches("roi_align")
def roi_align(input, rois, scale, rows, columns, samples, aligned):
    _check(input, rois, "roi_align_forward_kernel")
    images, channels, height, width = input.shape
    count = rois.shape[0]
    out = empty_tensor((count, channels, rows, columns), input.dtype, input.device)
    if not out._layout.numel or not input.device.runtime.computes:
        return out
    chunks, per_chunk = _parts(count, channels * rows * columns)
    strides = _align_scratch(input.dtype, height, width, rows, columns)
    scratch = empty_tensor((chunks * strides[0],), d.uint8, input.device)
    sizes = count, images, channels, height, width, rows, columns
    words = Regions(chunks, *sizes, per_chunk, samples, *strides)
    input, rois = contiguous(input), contiguous(rois)
    pointers = (address(out), address(input), address(rois), address(scratch))
    _run(input.device, "align", (input.dtype.code, aligned), words, *pointers, float(scale))
    return out


@launches("roi_align_backward")
def roi_align_backward(
    g, rois, scale, rows, columns, images, channels, height, width, samples, aligned
):
    # sums of half types are kept in float32 and rounded once
    dtype = g.dtype if g.dtype.itemsize > 2 else d.float32
    found = empty_tensor((images, channels, height, width), dtype, g.device)
    if not g.device.runtime.computes:
        return empty_tensor(found.shape, g.dtype, g.device)
    found.zero_()
    if g._layout.numel and found._layout.numel:
        count = rois.shape[0]
        strides = _align_scratch(g.dtype, height, width, rows, columns)
        # every chunk computes the tables of all regions, so there are few
        chunks, per_chunk = _parts(channels, max(count * rows * columns, WORK // 16))
        scratch = empty_tensor((chunks * strides[0],), d.uint8, g.device)
        sizes = count, images, channels, height, width, rows, columns
        words = Regions(chunks, *sizes, per_chunk, samples, *strides)
        g, rois = contiguous(g), contiguous(rois)
        pointers = (address(found), address(g), address(rois), address(scratch))
        _run(g.device, "align_back", (g.dtype.code, aligned), words, *pointers, float(scale))
    if dtype is g.dtype:
        return found
    rounded = empty_tensor(found.shape, g.dtype, g.device)
    copy_into(rounded, found)
    return rounded


@launches("roi_pool")
def roi_pool(input, rois, scale, rows, columns):
    _check(input, rois, "roi_pool_forward_kernel")
    images, channels, height, width = input.shape
    count = rois.shape[0]
    shape = (count, channels, rows, columns)
    out = empty_tensor(shape, input.dtype, input.device)
    places = empty_tensor(shape, d.int64, input.device)
    if out._layout.numel and input.device.runtime.computes:
        chunks, per_chunk = _parts(count, channels * rows * columns)
        words = Regions(chunks, count, images, channels, height, width, rows, columns, per_chunk)
        input, rois = contiguous(input), contiguous(rois)
        pointers = (address(out), address(places), address(input), address(rois))
        _run(input.device, "pool", (input.dtype.code,), words, *pointers, float(scale))
    return out, places
