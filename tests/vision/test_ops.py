"""Boxes, losses and layers of torchvision.ops: the same calls of both packages, and corners.

Without torchvision the answers are those of tests/golden/vision_ops.json. nms and regions are in
test_ops_regions.py.
"""

import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import flambeau
from flambeau.autograd import gradcheck
from flambeau.vision import ops
from flambeau.vision.ops import feature_pyramid_network as fpn
from tests.vision import ops_cases

RECORDED = json.loads((Path(__file__).parents[1] / "golden/vision_ops.json").read_text())
CASES = {f"{text} {kind}": (text, arrays) for text, kind, arrays in ops_cases.cases()}


def tolerance(kind):
    return {"float16": 2e-3, "float32": 2e-5}.get(kind, 1e-8)


@pytest.mark.parametrize("case", CASES)
def test_recorded_answers(case):
    found = ops_cases.summary(ops_cases.answer(flambeau, ops, fpn, *CASES[case]))
    assert list(found) == list(RECORDED[case])
    for name, (dtype, shape, numbers) in RECORDED[case].items():
        assert found[name][:2] == [dtype, shape]
        close = tolerance(dtype)
        np.testing.assert_allclose(found[name][2], numbers, rtol=close, atol=close)


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES)
def test_answers_of_torchvision(case):
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("torchvision").ops
    right = ops_cases.answer(torch, theirs, theirs.feature_pyramid_network, *CASES[case])
    found = ops_cases.answer(flambeau, ops, fpn, *CASES[case])
    assert list(found) == list(right)
    for name, array in right.items():
        assert found[name].dtype == array.dtype
        close = tolerance(str(array.dtype))
        np.testing.assert_allclose(found[name], array, rtol=close, atol=close)


@pytest.mark.oracle
def test_names_and_signatures_are_torchvisions():
    import inspect

    theirs = pytest.importorskip("torchvision").ops
    assert sorted(ops.__all__) == sorted(theirs.__all__)
    for name in theirs.__all__:
        a, b = (inspect.signature(getattr(m, name)).parameters for m in (ops, theirs))
        assert list(a) == list(b), name
        for key in b:
            default = b[key].default
            if not callable(default):
                assert (a[key].default, a[key].kind) == (default, b[key].kind), (name, key)


# -- boxes with angles -----------------------------------------------------------------------------


def test_upright_boxes_with_angles_overlap_as_without():
    a, b = (flambeau.from_numpy(ops_cases.boxes(seed, 9, "f8")) for seed in (1, 2))
    right = ops.box_iou(a, b)
    turned = []
    for k, boxes in enumerate((a, b)):
        centred = ops.box_convert(boxes, "xyxy", "cxcywh")
        angle = flambeau.full((9, 1), 180.0 * k, dtype=flambeau.float64)
        turned.append(flambeau.cat([centred, angle], 1))
    assert flambeau.allclose(ops.box_iou(*turned, fmt="cxcywhr"), right, atol=1e-9)
    corners = [ops.box_convert(t, "cxcywhr", "xyxyxyxy") for t in turned]
    assert flambeau.allclose(ops.box_iou(*corners, fmt="xyxyxyxy"), right, atol=1e-9)


def test_overlap_of_turned_boxes():
    square = flambeau.tensor([[5.0, 5, 2, 2, 0]])
    same = flambeau.tensor(
        [[5.0, 5, 2, 2, 90], [5, 5, 2, 2, 45], [5, 5, 2, 4, 0], [9, 9, 2, 2, 30]]
    )
    octagon = 8 * (math.sqrt(2) - 1)  # of a square and the same one turned by 45 degrees
    found = ops.box_iou(square, same, fmt="cxcywhr")
    assert found.dtype is flambeau.float32
    assert found[0].tolist() == pytest.approx([1, octagon / (8 - octagon), 0.5, 0], abs=1e-6)
    assert ops.box_iou(square[:0], same, fmt="cxcywhr").shape == (0, 4)
    flat = flambeau.tensor([[5.0, 5, 0, 2, 0]])
    assert ops.box_iou(flat, square, fmt="cxcywhr").tolist() == [[0]]


def test_overlap_of_turned_boxes_by_counting():
    """Against the share of random points that lie in both."""
    rng = np.random.default_rng(0)
    boxes = np.concatenate(
        [rng.uniform(4, 6, (6, 2)), rng.uniform(1, 5, (6, 2)), rng.uniform(-180, 180, (6, 1))], 1
    )
    points = rng.uniform(0, 10, (200_000, 2))

    def inside(box):
        cx, cy, w, h, r = box
        cos, sin = math.cos(math.radians(r)), math.sin(math.radians(r))
        x, y = points[:, 0] - cx, points[:, 1] - cy
        along, across = x * cos - y * sin, x * sin + y * cos
        return (abs(along) <= w / 2) & (abs(across) <= h / 2)

    hits = [inside(box) for box in boxes]
    right = [[(a & b).sum() / (a | b).sum() for b in hits] for a in hits]
    t = flambeau.from_numpy(boxes)
    np.testing.assert_allclose(ops.box_iou(t, t, fmt="cxcywhr").numpy(), right, atol=0.02)


# -- gradients -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["generalized_box_iou_loss", "distance_box_iou_loss", "complete_box_iou_loss", "box_iou"],
)
def test_gradients_of_overlaps(name):
    rng = np.random.default_rng(5)
    corners = rng.uniform(0, 3, (2, 4, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(1, 3, (2, 4, 2))], -1)
    a, b = flambeau.from_numpy(boxes[0]).requires_grad_(), flambeau.from_numpy(boxes[1])
    if name != "complete_box_iou_loss":  # alpha is a constant by definition
        assert gradcheck(lambda a: getattr(ops, name)(a, b), a)
    else:
        ops.complete_box_iou_loss(a, b, "sum").backward()
        assert a.grad.isfinite().all()


def test_gradients_of_deformable_convolution():
    flambeau.manual_seed(0)
    draw = partial(flambeau.randn, dtype=flambeau.float64)
    x, weight, bias = draw(1, 2, 4, 5), draw(2, 1, 2, 2), draw(2)
    offset, mask = draw(1, 8, 3, 4) * 0.7 + 0.123, draw(1, 4, 3, 4)
    tensors = [t.requires_grad_() for t in (x, offset, weight, bias, mask)]
    assert gradcheck(lambda x, o, w, b, m: ops.deform_conv2d(x, o, w, b, mask=m), tensors)


# -- deformable convolution ------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("parts", [1, 2])
def test_deformable_convolution_against_plain_loops(groups, parts):
    rng = np.random.default_rng(groups * 10 + parts)
    stride, padding, dilation = (2, 1), (1, 0), (1, 2)
    x, weight = rng.standard_normal((2, 4, 6, 7)), rng.standard_normal((6, 4 // groups, 3, 2))
    rows, columns = (6 + 2 - 3) // 2 + 1, (7 - 3) // 1 + 1
    offset = rng.standard_normal((2, parts * 12, rows, columns)) * 2
    mask = rng.random((2, parts * 6, rows, columns))

    def at(plane, y, z):
        total, top, left = 0.0, math.floor(y), math.floor(z)
        for i, j in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
            if 0 <= i < plane.shape[0] and 0 <= j < plane.shape[1]:
                total += plane[i, j] * (1 - abs(y - i)) * (1 - abs(z - j))
        return total

    right = np.zeros((2, 6, rows, columns))
    for n, o, r, c in np.ndindex(right.shape):
        for k, i, j in np.ndindex(weight.shape[1:]):
            channel = o // (6 // groups) * (4 // groups) + k
            tap = channel // (4 // parts) * 6 + i * 2 + j
            y = r * stride[0] - padding[0] + i * dilation[0] + offset[n, 2 * tap, r, c]
            z = c * stride[1] - padding[1] + j * dilation[1] + offset[n, 2 * tap + 1, r, c]
            right[n, o, r, c] += weight[o, k, i, j] * mask[n, tap, r, c] * at(x[n, channel], y, z)
    arrays = [flambeau.from_numpy(array) for array in (x, offset, weight)]
    found = ops.deform_conv2d(
        *arrays, stride=stride, padding=padding, dilation=dilation, mask=flambeau.from_numpy(mask)
    )
    np.testing.assert_allclose(found.numpy(), right, atol=1e-10)


def test_without_offsets_it_is_a_convolution():
    flambeau.manual_seed(0)
    layer = ops.DeformConv2d(4, 6, 3, padding=1, groups=2)
    x = flambeau.randn(2, 4, 7, 8)
    found = layer(x, flambeau.zeros(2, 18, 7, 8))
    right = flambeau.nn.functional.conv2d(x, layer.weight, layer.bias, padding=1, groups=2)
    assert flambeau.allclose(found, right, atol=1e-5)
    assert repr(layer) == (
        "DeformConv2d(4, 6, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), groups=2)"
    )


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: ops.box_convert(flambeau.zeros(1, 4), "xyxy", "abc"),
            ValueError,
            "Unsupported Bounding Box Conversions for given in_fmt xyxy and out_fmt abc",
        ),
        (
            lambda: ops.box_convert(flambeau.zeros(1, 4), "xyxy", "xywhr"),
            NotImplementedError,
            "Unsupported Bounding Box Conversions for given in_fmt xyxy and out_fmt xywhr",
        ),
        (
            lambda: ops.box_iou(flambeau.zeros(1, 4), flambeau.zeros(1, 4), "abc"),
            ValueError,
            "Unsupported format 'abc'. Supported axis-aligned formats",
        ),
        (
            lambda: ops.box_area(flambeau.zeros(1, 5), "xywhr"),
            ValueError,
            "Unsupported Bounding Box area for given format xywhr",
        ),
        (
            lambda: ops.generalized_box_iou_loss(flambeau.zeros(1, 4), flambeau.zeros(1, 4), "x"),
            ValueError,
            "Invalid Value for arg 'reduction': 'x ",
        ),
        (
            lambda: ops.sigmoid_focal_loss(flambeau.zeros(1), flambeau.zeros(1), alpha=2),
            ValueError,
            "Invalid alpha value: 2. alpha must be in the range",
        ),
        (
            lambda: ops.stochastic_depth(flambeau.zeros(1), 2.0, "row"),
            ValueError,
            "drop probability has to be between 0 and 1, but got 2.0",
        ),
        (
            lambda: ops.stochastic_depth(flambeau.zeros(1), 0.5, "all"),
            ValueError,
            "mode has to be either 'batch' or 'row', but got all",
        ),
        (
            lambda: ops.drop_block2d(flambeau.zeros(1, 1, 4, 4), 0.5, 2),
            ValueError,
            "block size should be odd. Got 2 which is even.",
        ),
        (
            lambda: ops.drop_block2d(flambeau.zeros(1, 4, 4), 0.5, 3),
            ValueError,
            "input should be 4 dimensional. Got 3 dimensions.",
        ),
        (
            lambda: ops.FeaturePyramidNetwork([0], 3),
            ValueError,
            "in_channels=0 is currently not supported",
        ),
        (
            lambda: ops.FeaturePyramidNetwork([1], 3, extra_blocks=3),
            TypeError,
            "extra_blocks should be of type ExtraFPNBlock not",
        ),
        (
            lambda: ops.DeformConv2d(3, 4, 3, groups=2),
            ValueError,
            "in_channels must be divisible by groups",
        ),
        (
            lambda: ops.deform_conv2d(
                flambeau.zeros(1, 1, 4, 4), flambeau.zeros(1, 3, 4, 4), flambeau.zeros(1, 1, 2, 2)
            ),
            RuntimeError,
            "the shape of the offset tensor at dimension 1 is not valid",
        ),
    ],
)
def test_what_is_refused(call, error, words):
    with pytest.raises(error, match=words.replace("(", r"\(")):
        call()


def test_old_pyramids_load():
    pyramid = ops.FeaturePyramidNetwork([4, 6], 5)
    old = {key.replace(".0.weight", ".weight").replace(".0.bias", ".bias"): value
           for key, value in pyramid.state_dict().items()}  # fmt: skip
    old = {k.replace("blocks.weight", "blocks.0.weight"): v for k, v in old.items()}
    old = {k.replace("blocks.bias", "blocks.0.bias"): v for k, v in old.items()}
    other = ops.FeaturePyramidNetwork([4, 6], 5)
    assert "inner_blocks.0.weight" in old
    other.load_state_dict(old)
    assert flambeau.equal(other.layer_blocks[1][0].weight, pyramid.layer_blocks[1][0].weight)


def test_plain_conv_norm_activation_is_discouraged():
    from flambeau.vision.ops.misc import ConvNormActivation

    with pytest.warns(UserWarning, match="Don't use ConvNormActivation directly"):
        ConvNormActivation(1, 1)


def test_parameters_of_normalizations_apart():
    from flambeau.vision.ops._utils import split_normalization_params

    model = flambeau.nn.Sequential(
        flambeau.nn.Linear(2, 3), flambeau.nn.BatchNorm1d(3), flambeau.nn.LayerNorm(3)
    )
    model[0].bias.requires_grad_(False)
    norms, others = split_normalization_params(model)
    assert len(norms) == 4 and others == [model[0].weight]
    with pytest.raises(ValueError, match="is not a subclass of nn"):
        split_normalization_params(model, [int])
