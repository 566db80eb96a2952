"""Regions of images, for torchvision.ops: nms, roi_align, roi_pool.

These rows register when `flambeau.vision.ops` loads; they are no functions of torch. roi_align is
linear in its input, so its gradient and the gradient of that are each other's kernels
(`eager/regions.py`). Box arithmetic that needs no kernel is in `vision/ops/boxes.py`.
"""

from flambeau import _dtype, errors
from flambeau.ops.table import composite, public, template


@composite(variants="")
def nms(boxes, scores, iou_threshold: float):
    """Places of boxes that no better box overlaps by more than the threshold, the best first."""
    _check_boxes(boxes, scores)
    count = boxes.shape[0]
    if count == 0:
        return boxes.new_empty((0,), dtype=_dtype.int64)
    boxes, scores = boxes.detach(), scores.detach()
    order = scores.sort(dim=0, descending=True, stable=True)[1]
    if boxes.dtype.itemsize < 4:
        boxes = boxes.float()
    lines = boxes.new_zeros((5, count + 64))
    sides = lines[:, :count]
    sides[:4] = boxes.index_select(0, order).t()
    sides[4] = (sides[2] - sides[0]) * (sides[3] - sides[1])
    return order[_nms_sorted(lines, count, float(iou_threshold))]


@template("nms_sorted", variants="")
def _nms_sorted(lines, count: int, iou_threshold: float):
    """nms of boxes in order, given as lines of x1, y1, x2, y2 and areas."""


def _check_boxes(boxes, scores):
    if boxes.ndim != 2:
        raise RuntimeError(f"boxes should be a 2d tensor, got {boxes.ndim}D")
    if boxes.shape[1] != 4:
        raise RuntimeError(
            f"boxes should have 4 elements in dimension 1, got {boxes.shape[1]}; they are "
            "x1, y1, x2, y2"
        )
    if scores.ndim != 1:
        raise RuntimeError(f"scores should be a 1d tensor, got {scores.ndim}D")
    if boxes.shape[0] != scores.shape[0]:
        raise RuntimeError(
            "boxes and scores should have same number of elements in dimension 0, got "
            f"{boxes.shape[0]} and {scores.shape[0]}"
        )
    if boxes.dtype is not scores.dtype:
        raise RuntimeError("dets should have the same type as scores")
    if not boxes.dtype.is_floating_point:
        raise errors.not_implemented("nms_kernel", boxes.dtype)


# -- means of samples ------------------------------------------------------------------------------


def _align_gradient(g, input_shape, rois, scale, rows, columns, samples, aligned):
    return _roi_align_backward(g, rois, scale, rows, columns, *input_shape, samples, aligned)


def _align_gradient_gradient(g, rois, scale, rows, columns, samples, aligned):
    return roi_align(g, rois, scale, rows, columns, samples, aligned)


@template("roi_align", grad=dict(input=_align_gradient), variants="", node="RoiAlignBackward0")
def roi_align(
    input,
    rois,
    scale: float,
    rows: int,
    columns: int,
    samples: int,
    aligned: bool,
):
    """Means of samples in the bins of regions: (K, C, rows, columns) from (N, C, H, W)."""


@template("roi_align_backward", grad=dict(g=_align_gradient_gradient), variants="")
def _roi_align_backward(
    g,
    rois,
    scale: float,
    rows: int,
    columns: int,
    images: int,
    channels: int,
    height: int,
    width: int,
    samples: int,
    aligned: bool,
):
    """What the input of roi_align gets of a gradient."""


# -- largest elements ------------------------------------------------------------------------------


def _pool_gradient(gs, out1, rois, input_shape):
    images, channels, height, width = input_shape
    g = gs[0]
    if g.numel() == 0:
        return g.new_zeros(input_shape)
    inside = out1 >= 0
    plane = rois[:, 0].long() * channels
    plane = plane.view(-1, 1) + public("arange")(channels, device=g.device)
    places = (plane * (height * width)).view(-1, channels, 1, 1) + out1.clamp(min=0)
    values = public("where")(inside, g, public("zeros_like")(g))
    flat = g.new_zeros((images * channels * height * width,))
    return flat.index_add(0, places.flatten(), values.flatten()).view(input_shape)


@template("roi_pool", grad=dict(input=_pool_gradient), outputs=2, variants="")
def roi_pool(input, rois, scale: float, rows: int, columns: int):
    """The largest element of each bin of regions, and its place in its plane (-1: empty)."""
