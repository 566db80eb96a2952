"""nms, roi_align, roi_pool and their kin against plain loops, and gradients against differences.

The loops follow the papers one element at a time. Where torchvision is installed, its own Python
version of roi_align is asked too (its compiled operators are not needed).
"""

import math
import sys

import numpy as np
import pytest

import flambeau
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.vision import ops


def make_boxes(rng, count, dtype=np.float64, extent=100, side=40):
    corners = rng.random((count, 2)) * extent
    return np.concatenate([corners, corners + rng.random((count, 2)) * side], 1).astype(dtype)


def make_rois(rng, count, images, dtype=np.float64):
    """Ordinary regions, some beyond the edges, one empty, one turned inside out."""
    boxes = make_boxes(rng, count, dtype, 30, 30) - 6
    boxes[0, 2:] = boxes[0, :2]
    boxes[1] = boxes[1, [2, 3, 0, 1]]
    return np.concatenate([rng.integers(0, images, (count, 1)), boxes], 1).astype(dtype)


# -- nms -------------------------------------------------------------------------------------------


def plain_iou(a, b):
    width = max(0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0, min(a[3], b[3]) - max(a[1], b[1]))
    areas = [(c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)]
    union = areas[0] + areas[1] - width * height
    return width * height / union if union else math.nan


def plain_nms(boxes, scores, threshold):
    kept = []
    for place in sorted(range(len(boxes)), key=lambda k: -scores[k]):
        if not any(plain_iou(boxes[place], boxes[other]) > threshold for other in kept):
            kept.append(place)
    return kept


@pytest.mark.parametrize("count", [1, 2, 9, 64, 150])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 0.9, 1.0])
def test_nms(count, threshold):
    rng = np.random.default_rng(count)
    boxes, scores = make_boxes(rng, count), np.round(rng.random(count), 1)  # with ties
    found = ops.nms(flambeau.from_numpy(boxes), flambeau.from_numpy(scores), threshold)
    assert found.dtype is flambeau.int64
    assert found.tolist() == plain_nms(boxes, scores, threshold)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nms_of_every_dtype_and_layout(dtype):
    dtype = getattr(flambeau, dtype)
    rng = np.random.default_rng(0)
    boxes = flambeau.from_numpy(np.round(make_boxes(rng, 30))).to(dtype)
    scores = flambeau.arange(30).flip(0).to(dtype)
    right = plain_nms(boxes.double().tolist(), scores.tolist(), 0.25)
    assert ops.nms(boxes, scores, 0.25).tolist() == right
    strided = flambeau.stack([boxes, boxes], 1).transpose(0, 1)[1]
    assert not strided.is_contiguous()
    assert ops.nms(strided, scores, 0.25).tolist() == right
    assert ops.nms(boxes.clone().requires_grad_(), scores, 0.25).tolist() == right


def test_the_threshold_itself_is_kept():
    boxes = flambeau.tensor([[0.0, 0, 10, 10], [0, 0, 10, 5], [0, 0, 10, 3]])
    scores = flambeau.tensor([0.9, 0.8, 0.7])
    assert ops.nms(boxes, scores, 0.5).tolist() == [0, 1]  # 0.3 of the first, 0.6 of the second
    assert ops.nms(boxes.double(), scores.double(), 0.3).tolist() == [0, 2]
    assert ops.nms(boxes, scores, 0.3).tolist() == [0]  # 0.3 in float32 is more than 0.3


def test_boxes_without_area_and_nan_suppress_nothing():
    boxes = flambeau.tensor([[1.0, 1, 1, 1], [1, 1, 1, 1], [math.nan, 0, 9, 9], [0, 0, 9, 9]])
    assert ops.nms(boxes, flambeau.tensor([4.0, 3, 2, 1]), 0.1).tolist() == [0, 1, 2, 3]


def test_nms_of_nothing():
    found = ops.nms(flambeau.zeros(0, 4), flambeau.zeros(0), 0.5)
    assert found.shape == (0,) and found.dtype is flambeau.int64
    found = ops.batched_nms(flambeau.zeros(0, 4), flambeau.zeros(0), flambeau.zeros(0), 0.5)
    assert found.shape == (0,)


@pytest.mark.parametrize(("count", "kinds"), [(60, 3), (1200, 4)])  # both of its ways
def test_batched_nms(count, kinds):
    rng = np.random.default_rng(1)
    boxes, scores = make_boxes(rng, count), rng.random(count)
    labels = rng.integers(0, kinds, count)
    found = ops.batched_nms(*map(flambeau.from_numpy, (boxes, scores, labels)), 0.4)
    right = [
        place
        for kind in range(kinds)
        for place in np.flatnonzero(labels == kind)[
            plain_nms(boxes[labels == kind], scores[labels == kind], 0.4)
        ]
    ]
    assert found.tolist() == sorted(right, key=lambda k: -scores[k])


@pytest.mark.parametrize(
    ("boxes", "scores", "error", "words"),
    [
        ((3, 5), (3,), RuntimeError, "boxes should have 4 elements in dimension 1, got 5"),
        ((3,), (3,), RuntimeError, "boxes should be a 2d tensor, got 1D"),
        ((3, 4), (3, 1), RuntimeError, "scores should be a 1d tensor, got 2D"),
        (
            (3, 4),
            (2,),
            RuntimeError,
            "boxes and scores should have same number of elements in dimension 0, got 3 and 2",
        ),
    ],
)
def test_what_nms_refuses(boxes, scores, error, words):
    with pytest.raises(error, match=words):
        ops.nms(flambeau.zeros(boxes), flambeau.zeros(scores), 0.5)


def test_dtypes_that_nms_refuses():
    boxes = flambeau.zeros(3, 4)
    with pytest.raises(RuntimeError, match="dets should have the same type as scores"):
        ops.nms(boxes, flambeau.zeros(3, dtype=flambeau.float64), 0.5)
    with pytest.raises(NotImplementedError, match="\"nms_kernel\" not implemented for 'Int'"):
        ops.nms(boxes.int(), flambeau.zeros(3).int(), 0.5)


# -- regions ---------------------------------------------------------------------------------------


def plain_sample(plane, y, x):
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    v, u = y - top, x - left
    return (
        plane[top, left] * (1 - v) * (1 - u)
        + plane[top, right] * (1 - v) * u
        + plane[bottom, left] * v * (1 - u)
        + plane[bottom, right] * v * u
    )


def plain_roi_align(x, rois, size, scale, samples, aligned, own_channels=False):
    rows, columns = size
    channels = x.shape[1] // (rows * columns) if own_channels else x.shape[1]
    out = np.zeros((len(rois), channels, rows, columns))
    for k, (image, *box) in enumerate(rois):
        x1, y1, x2, y2 = (side * scale - (0.5 if aligned else 0) for side in box)
        high, wide = y2 - y1, x2 - x1
        if not aligned:
            high, wide = max(high, 1), max(wide, 1)
        down = samples if samples > 0 else math.ceil(high / rows)
        right = samples if samples > 0 else math.ceil(wide / columns)
        for c, row, column in np.ndindex(out.shape[1:]):
            source = (c * rows + row) * columns + column if own_channels else c
            total = 0.0
            for i in range(down):
                for j in range(right):
                    y = y1 + (row + (i + 0.5) / down) * high / rows
                    z = x1 + (column + (j + 0.5) / right) * wide / columns
                    total += plain_sample(x[int(image), source], y, z)
            out[k, c, row, column] = total / max(down * right, 1)
    return out


SIZES = [(2, 3), (1, 1), (3, 9)]


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("samples", [-1, 0, 2])
@pytest.mark.parametrize("size", SIZES)
def test_roi_align(size, samples, aligned):
    rng = np.random.default_rng(3)
    x, rois = rng.standard_normal((2, 5, 11, 19)), make_rois(rng, 7, 2)
    arguments = (size, 0.5, samples, aligned)
    found = ops.roi_align(flambeau.from_numpy(x), flambeau.from_numpy(rois), *arguments)
    np.testing.assert_allclose(found.numpy(), plain_roi_align(x, rois, *arguments), atol=1e-12)


@pytest.mark.oracle
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("samples", [-1, 3])
def test_roi_align_and_its_gradient_as_in_torchvision(samples, aligned):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchvision.ops")
    theirs = sys.modules["torchvision.ops.roi_align"]._roi_align.__wrapped__
    rng = np.random.default_rng(4)
    x, rois = rng.standard_normal((2, 3, 9, 14)), make_rois(rng, 6, 2)[2:]
    # its Python version knows no samples outside of the image
    rois[:, 1:] = np.clip(rois[:, 1:], 2, [[27, 17, 27, 17]])
    a = torch.from_numpy(x).requires_grad_()
    b = flambeau.from_numpy(x).requires_grad_()
    right = theirs(a, torch.from_numpy(rois), 0.5, 3, 2, samples, aligned)
    found = ops.roi_align(b, flambeau.from_numpy(rois), (3, 2), 0.5, samples, aligned)
    np.testing.assert_allclose(found.detach().numpy(), right.detach().numpy(), atol=1e-12)
    if samples < 0:
        return  # its gradients are nan there
    weights = rng.standard_normal(found.shape)
    right.backward(torch.from_numpy(weights))
    found.backward(flambeau.from_numpy(weights))
    np.testing.assert_allclose(b.grad.numpy(), a.grad.numpy(), atol=1e-12)


def plain_roi_pool(x, rois, size, scale):
    def rounded(v):
        return math.floor(abs(v) + 0.5) * (1 if v > 0 else -1)

    out = np.zeros((len(rois), x.shape[1], *size))
    for k, (image, *box) in enumerate(rois):
        x1, y1, x2, y2 = (rounded(side * scale) for side in box)
        spans = []
        for start, end, bins, length in (
            (y1, y2, size[0], x.shape[2]),
            (x1, x2, size[1], x.shape[3]),
        ):
            step = max(end - start + 1, 1) / bins
            edges = [(math.floor(n * step), math.ceil((n + 1) * step)) for n in range(bins)]
            spans.append([[min(max(e + start, 0), length) for e in pair] for pair in edges])
        for row, (top, bottom) in enumerate(spans[0]):
            for column, (left, right) in enumerate(spans[1]):
                window = x[int(image), :, top:bottom, left:right].reshape(x.shape[1], -1)
                out[k, :, row, column] = window.max(1) if window.shape[1] else 0
    return out


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_roi_pool(size, scale):
    rng = np.random.default_rng(5)
    x, rois = rng.standard_normal((2, 5, 11, 19)), make_rois(rng, 7, 2)
    found = ops.roi_pool(flambeau.from_numpy(x), flambeau.from_numpy(rois), size, scale)
    np.testing.assert_array_equal(found.numpy(), plain_roi_pool(x, rois, size, scale))


@pytest.mark.parametrize("samples", [-1, 2])
def test_ps_roi_align(samples):
    rng = np.random.default_rng(6)
    x, rois = rng.standard_normal((2, 12, 11, 19)), make_rois(rng, 7, 2)[2:]
    found = ops.ps_roi_align(
        flambeau.from_numpy(x), flambeau.from_numpy(rois), (2, 3), 0.5, samples
    )
    right = plain_roi_align(x, rois, (2, 3), 0.5, samples, True, own_channels=True)
    np.testing.assert_allclose(found.numpy(), right, atol=1e-12)


def test_ps_roi_pool():
    x = flambeau.arange(2 * 4 * 25.0).view(2, 4, 5, 5)
    rois = flambeau.tensor([[1, 0, 0, 4.0, 2.0], [0, 1, 1, 1, 1]])
    found = ops.ps_roi_pool(x, rois, 2)
    assert found.shape == (2, 1, 2, 2)
    # bins of 2 x 1 pixels, each in its own channel; then one pixel, counted in every bin
    rows = [[x[1, 0, 0, :2], x[1, 1, 0, 2:4]], [x[1, 2, 1, :2], x[1, 3, 1, 2:4]]]
    assert found[0, 0].tolist() == [[part.mean().item() for part in row] for row in rows]
    assert found[1, 0].tolist() == [[x[0, 0, 1, 1], x[0, 1, 1, 1]], [x[0, 2, 1, 1], x[0, 3, 1, 1]]]


@pytest.mark.parametrize(
    "call",
    [
        lambda x, r: ops.roi_align(x, r, (2, 3), 0.5, -1, True),
        lambda x, r: ops.roi_align(x, r, 2, 1.0, 2, False),
        lambda x, r: ops.roi_pool(x, r, (2, 3), 0.5),
        lambda x, r: ops.ps_roi_align(x, r, (1, 2), 0.5),
        lambda x, r: ops.ps_roi_pool(x, r, (1, 2), 0.5),
    ],
    ids=["align", "align by samples", "pool", "ps align", "ps pool"],
)
def test_gradients_of_regions(call):
    rng = np.random.default_rng(7)
    x = flambeau.from_numpy(rng.permutation(2 * 2 * 7 * 9) / 50).view(2, 2, 7, 9).requires_grad_()
    rois = flambeau.from_numpy(make_rois(rng, 4, 2)[2:])
    assert gradcheck(lambda x: call(x, rois), x)
    if call(x, rois).shape[1] == 2:  # the others are made of ops that are checked elsewhere
        assert gradgradcheck(lambda x: call(x, rois), x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("name", ["roi_align", "roi_pool"])
def test_regions_of_every_dtype(name, dtype):
    dtype = getattr(flambeau, dtype)
    rng = np.random.default_rng(8)
    x = flambeau.from_numpy(rng.standard_normal((2, 6, 9, 13))).to(dtype)
    rois = flambeau.tensor([[1, 2, 3, 9.5, 8], [0, -1, 0, 20, 6]], dtype=dtype)
    results = []
    for to in (dtype, flambeau.float64):
        y = x.to(to).clone().requires_grad_()
        out = getattr(ops, name)(y, rois.to(to), 3)
        out.square().sum().backward()
        assert out.dtype is y.grad.dtype is to
        results.append((out.double(), y.grad.double()))
    close = {flambeau.float16: 2e-3, flambeau.bfloat16: 2e-2, flambeau.float32: 1e-5}[dtype]
    for a, b in zip(*results, strict=True):
        assert flambeau.allclose(a, b, atol=close * 4, rtol=close)


def test_many_regions_give_what_single_ones_give():
    """More than one chunk, more channels than are computed together, rows wider than a register."""
    rng = np.random.default_rng(9)
    x = flambeau.from_numpy(rng.standard_normal((3, 37, 20, 70)).astype("f")).requires_grad_()
    rois = flambeau.from_numpy(make_rois(rng, 90, 3, np.float32) * [[1, 2, 1, 2, 1]]).float()
    whole = ops.roi_align(x, rois, (4, 17))
    pooled = ops.roi_pool(x, rois, (4, 17))
    whole.sum().backward()
    total, x.grad = x.grad, None
    for k in (0, 1, 50, 89):
        assert flambeau.equal(whole[k : k + 1], ops.roi_align(x, rois[k : k + 1], (4, 17)))
        assert flambeau.equal(pooled[k : k + 1], ops.roi_pool(x, rois[k : k + 1], (4, 17)))
    for k in range(90):
        ops.roi_align(x, rois[k : k + 1], (4, 17)).sum().backward()
    assert flambeau.allclose(x.grad, total, atol=1e-4)


def test_strided_inputs():
    rng = np.random.default_rng(10)
    x = flambeau.from_numpy(rng.standard_normal((2, 9, 13, 6))).permute(0, 3, 1, 2)
    rois = flambeau.from_numpy(np.repeat(make_rois(rng, 4, 2), 2, 1))[:, ::2]
    for op in (ops.roi_align, ops.roi_pool):
        assert flambeau.equal(op(x, rois, 3), op(x.contiguous(), rois.contiguous(), 3))
    boxes = [rois[rois[:, 0] == k, 1:] for k in (0, 1)]
    order = flambeau.argsort(rois[:, 0], stable=True)
    assert flambeau.equal(ops.roi_align(x, boxes, 3), ops.roi_align(x, rois[order], 3))


@pytest.mark.parametrize("op", [ops.roi_align, ops.roi_pool, ops.ps_roi_align, ops.ps_roi_pool])
def test_no_regions(op):
    x = flambeau.zeros(1, 8, 5, 5, requires_grad=True)
    out = op(x, flambeau.zeros(0, 5), 2)
    assert out.shape == (0, 2 if op.__name__.startswith("ps") else 8, 2, 2)
    out.sum().backward()
    assert x.grad is None or not x.grad.any()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e30, -1e30])
def test_coordinates_that_make_no_sense_do_no_harm(bad):
    x = flambeau.ones(1, 2, 5, 5, requires_grad=True)
    for place in (1, 2, 3, 4):
        rois = flambeau.tensor([[0, 1, 1, 3, 3.0]])
        rois[0, place] = bad
        for out in (ops.roi_align(x, rois, 2), ops.roi_align(x, rois, 2, 1.0, 2, True)):
            assert ((out >= 0) & (out <= 1.0001)).all()
            out.sum().backward()
        assert ops.roi_pool(x, rois, 2).max() <= 1


@pytest.mark.parametrize("op", [ops.roi_align, ops.roi_pool])
@pytest.mark.parametrize("image", [-1.0, 2.0, 1e30, math.nan])
def test_images_that_are_not_there(op, image):
    with pytest.raises(IndexError, match="roi batch index out of range"):
        op(flambeau.zeros(2, 1, 4, 4), flambeau.tensor([[image, 0, 0, 1, 1]]), 2)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda x: ops.roi_align(x, flambeau.zeros(1, 4), 2),
            AssertionError,
            "The boxes tensor shape is not correct as Tensor\\[K, 5\\]",
        ),
        (
            lambda x: ops.roi_pool(x, [flambeau.zeros(1, 5)], 2),
            AssertionError,
            "The shape of the tensor in the boxes list is not correct as List",
        ),
        (lambda x: ops.roi_align(x, 3, 2), AssertionError, "boxes is expected to be a Tensor"),
        (
            lambda x: ops.roi_align(x, flambeau.zeros(1, 5).double(), 2),
            RuntimeError,
            "Expected tensor for argument #1 'input' to have the same type as tensor for argument "
            "#2 'rois'; but type torch.FloatTensor does not equal torch.DoubleTensor \\(while "
            "checking arguments for roi_align_forward_kernel\\)",
        ),
        (
            lambda x: ops.roi_align(x.long(), flambeau.zeros(1, 5).long(), 2),
            NotImplementedError,
            "\"roi_align_forward_kernel\" not implemented for 'Long'",
        ),
        (
            lambda x: ops.ps_roi_align(x, flambeau.zeros(1, 5), 2),
            RuntimeError,
            "input channels must be a multiple of pooling height \\* pooling width",
        ),
    ],
)
def test_what_regions_refuse(call, error, words):
    with pytest.raises(error, match=words):
        call(flambeau.zeros(1, 3, 4, 4))


def test_meta_tensors_have_shapes():
    x, rois = flambeau.zeros(1, 3, 4, 4, device="meta"), flambeau.zeros(7, 5, device="meta")
    assert (
        ops.roi_align(x, rois, (2, 5)).shape == ops.roi_pool(x, rois, (2, 5)).shape == (7, 3, 2, 5)
    )
    with pytest.raises(NotImplementedError, match="depends on the data"):
        ops.nms(flambeau.zeros(2, 4, device="meta"), flambeau.zeros(2, device="meta"), 0.5)


def test_modules_and_their_texts():
    x, rois = flambeau.randn(1, 4, 6, 6), flambeau.tensor([[0, 1, 1, 4, 4.0]])
    assert flambeau.equal(
        ops.RoIAlign(2, 0.5, 2, True)(x, rois), ops.roi_align(x, rois, 2, 0.5, 2, True)
    )
    assert flambeau.equal(ops.RoIPool(2, 0.5)(x, rois), ops.roi_pool(x, rois, 2, 0.5))
    assert flambeau.equal(ops.PSRoIAlign(2, 0.5, 2)(x, rois), ops.ps_roi_align(x, rois, 2, 0.5, 2))
    assert flambeau.equal(ops.PSRoIPool(2, 0.5)(x, rois), ops.ps_roi_pool(x, rois, 2, 0.5))
    assert repr(ops.RoIAlign((2, 3), 0.5, 2)) == (
        "RoIAlign(output_size=(2, 3), spatial_scale=0.5, sampling_ratio=2, aligned=False)"
    )
    assert repr(ops.RoIPool(2, 1.0)) == "RoIPool(output_size=2, spatial_scale=1.0)"


# -- several maps ----------------------------------------------------------------------------------


def test_regions_of_several_maps():
    flambeau.manual_seed(0)
    maps = {"a": flambeau.randn(2, 3, 64, 64), "b": flambeau.randn(2, 3, 32, 32)}
    maps["other"] = flambeau.randn(2, 3, 5, 5)
    boxes = [
        flambeau.tensor([[0.0, 0, 30, 30], [0, 0, 250, 255]]),
        flambeau.tensor([[9.0, 9, 99, 99]]),
    ]
    pooler = ops.MultiScaleRoIAlign(["a", "b"], 3, 2)
    found = pooler(maps, boxes, [(256, 256), (256, 250)])
    assert pooler.scales == [0.25, 0.125]
    right = [
        ops.roi_align(maps["a"], flambeau.tensor([[0, 0, 0, 30, 30.0]]), 3, 0.25, 2),
        ops.roi_align(maps["b"], flambeau.tensor([[0, 0, 0, 250, 255.0]]), 3, 0.125, 2),
        ops.roi_align(maps["a"], flambeau.tensor([[1, 9, 9, 99, 99.0]]), 3, 0.25, 2),
    ]
    assert flambeau.equal(found, flambeau.cat(right))
    alone = ops.MultiScaleRoIAlign(["b"], (3, 3), 2)(maps, boxes, [(256, 256)] * 2)
    assert flambeau.equal(alone[1], right[1][0])
    assert repr(pooler) == (
        "MultiScaleRoIAlign(featmap_names=['a', 'b'], output_size=(3, 3), sampling_ratio=2)"
    )
    with pytest.raises(ValueError, match="images list should not be empty"):
        ops.MultiScaleRoIAlign(["a"], 3, 2)(maps, boxes, [])
