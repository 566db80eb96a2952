"""Launching nms, roi_align and roi_pool.

Kernels: `codegen/templates/regions.py`; rows: `ops/regions.py`. This module loads with
`flambeau.vision.ops`.
"""

import struct

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import dense_layout
from flambeau._tensor import empty_tensor
from flambeau.codegen.descriptions_images import REGION_CHANNELS, Boxes, Regions
from flambeau.codegen.target import current
from flambeau.eager.launching import launches
from flambeau.eager.planned import constant, idle, launch, on_zeros, planned, through
from flambeau.eager.rows import address, has_work, vector_layout
from flambeau.runtime.cpu import packed

WORK = 1 << 16  # results of a chunk, about
MOST_CHUNKS = 32  # each has scratch of its own


def _no_image(*given):
    return IndexError(
        "roi batch index out of range: the first column of the boxes names an image of the input"
    )


@launches("nms_sorted")
def nms_sorted(lines, count, iou_threshold):
    if not lines._layout.device.runtime.computes:
        raise NotImplementedError("nms: the result depends on the data, which meta tensors lack")
    marks = empty_tensor((count + 64,), d.uint8, lines.device).zero_()
    kept = empty_tensor((count + 1,), d.int64, lines.device)
    code = lines.dtype.code
    threshold = _rounded_down(iou_threshold) if code == "f32" else iou_threshold
    run = lines.device.runtime.kernel("nms", "regions:build_nms", code)
    pointers = address(lines), address(marks), address(kept)
    run(packed(Boxes(1, count, lines.shape[1])), *pointers, threshold)
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
    return -(-count // per_part), per_part


def _align_scratch(dtype, height, width, rows, columns):
    """(bytes of a chunk, stride of bins, stride of lines), for both kernels of roi_align."""
    size = max(4, dtype.itemsize)
    w = current().vector_bytes // size
    bin_stride, line = -(-columns // w) * w, -(-width // w) * w + w
    tables = rows * height + max(width * bin_stride, columns * line) + REGION_CHANNELS * line
    return -(-(16 * rows + size * tables) // 64) * 64, bin_stride, line


@planned(
    "roi_align", "input: dense, rois: dense, scale: number, rows, columns, samples, aligned",
    room=True, fails=_no_image,
)  # fmt: skip
def roi_align(input, rois, rows, columns, samples, aligned):
    _check(input, rois, "roi_align_forward_kernel")
    (images, channels, height, width), count = input.sizes, rois.sizes[0]
    out = dense_layout((count, channels, rows, columns), input.dtype, input.device)
    if not has_work(out):
        return *idle(out), None
    chunks, per_chunk = _parts(count, channels * rows * columns)
    strides = _align_scratch(input.dtype, height, width, rows, columns)
    sizes = count, images, channels, height, width, rows, columns
    words = Regions(chunks, *sizes, per_chunk, samples, *strides)
    room = vector_layout(chunks * strides[0], d.uint8, input.device)
    facts = input.dtype.code, aligned
    return *launch(out, words, "align", "regions:build_align", *facts), room


@planned(
    "roi_align_backward",
    "g: dense, rois: dense, scale: number, rows, columns, images, channels, height, width, "
    "samples, aligned", room=True, fails=_no_image,
)  # fmt: skip
def roi_align_backward(
    g, rois, rows, columns, images, channels, height, width, samples, aligned
):  # fmt: skip
    # sums of half types are kept in float32 and rounded once
    dtype = g.dtype if g.dtype.itemsize > 2 else d.float32
    shape, count = (images, channels, height, width), rois.sizes[0]
    out, summed = dense_layout(shape, g.dtype, g.device), dense_layout(shape, dtype, g.device)
    if not has_work(g) or not has_work(out):
        return *constant(0, (out,)), None
    strides = _align_scratch(g.dtype, height, width, rows, columns)
    # every chunk computes the tables of all regions, so there are few
    chunks, per_chunk = _parts(channels, max(count * rows * columns, WORK // 16))
    sizes = count, images, channels, height, width, rows, columns
    words = Regions(chunks, *sizes, per_chunk, samples, *strides)
    facts = "align_back", "regions:build_align_back", g.dtype.code, aligned
    found = on_zeros(summed, *launch(summed, words, *facts)[1:])
    return out, *through(summed, out, *found), vector_layout(chunks * strides[0], d.uint8, g.device)


@planned(
    "roi_pool", "input: dense, rois: dense, scale: number, rows, columns", "out, places",
    fails=_no_image,
)  # fmt: skip
def roi_pool(input, rois, rows, columns):
    _check(input, rois, "roi_pool_forward_kernel")
    (images, channels, height, width), count = input.sizes, rois.sizes[0]
    shape = (count, channels, rows, columns)
    results = [dense_layout(shape, dtype, input.device) for dtype in (input.dtype, d.int64)]
    if not has_work(results[0]):
        return idle(*results)
    chunks, per_chunk = _parts(count, channels * rows * columns)
    words = Regions(chunks, count, images, channels, height, width, rows, columns, per_chunk)
    return launch(results, words, "pool", "regions:build_pool", input.dtype.code)
