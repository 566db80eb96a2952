"""Calls of torchvision.ops that both packages answer: expressions over `ops`, `torch` and arrays.

test_ops.py evaluates each with torchvision, and compares with the answers that
tests/golden/record_ops.py wrote where there is none.
"""

import numpy as np

BOXES = ["f4", "f8", "f2", "i4", "i8", "u1"]
NAMES = (
    "box_iou(a, b)", "generalized_box_iou(a, b)", "distance_box_iou(a, b)",
    "complete_box_iou(a, b)", "box_area(a)", "clip_boxes_to_image(a, (20, 30))",
    "remove_small_boxes(a, 9)", "box_convert(a, 'xyxy', 'cxcywh')",
    "generalized_box_iou_loss(a[:5], b)", "distance_box_iou_loss(a[:5], b, reduction='mean')",
    "complete_box_iou_loss(a[:5], b, 'sum')",
)  # fmt: skip
FORMATS = ("xyxy", "xywh", "cxcywh")
TURNED = ("xywhr", "cxcywhr", "xyxyxyxy")


def boxes(seed, count, kind="f4"):
    rng = np.random.default_rng(seed)
    corners = rng.integers(0, 25, (count, 2))
    return np.concatenate([corners, corners + rng.integers(1, 30, (count, 2))], 1).astype(kind)


def turned(seed, count, kind="f4"):
    rng = np.random.default_rng(seed)
    size = rng.uniform(2, 20, (count, 4))
    return np.concatenate([size, rng.uniform(-180, 180, (count, 1))], 1).astype(kind)


def cases():
    """(text, arrays by name)"""
    found = []
    for kind in BOXES:
        arrays = {"a": boxes(1, 7, kind), "b": boxes(2, 5, kind)}
        found += [(f"ops.{name}", kind, arrays) for name in NAMES]
    arrays = {"a": boxes(1, 6).reshape(2, 3, 4), "b": boxes(2, 8).reshape(2, 4, 4)}
    found += [(f"ops.{name}", "batch", arrays) for name in NAMES[:6] if "remove" not in name]
    plain = {"a": boxes(3, 6), "b": boxes(4, 5)}
    for first in FORMATS:
        found += [
            (f"ops.box_iou(a, b, '{first}')", "f4", plain),
            (f"ops.box_area(a, '{first}')", "f4", plain),
        ]
        for second in FORMATS:
            for kind in ("f4", "i8"):
                arrays = {"a": boxes(3, 6, kind)}
                found.append((f"ops.box_convert(a, '{first}', '{second}')", kind, arrays))
    for first in TURNED[:2]:
        for second in TURNED:
            for kind in ("f4", "f8", "i4"):
                arrays = {"a": turned(5, 6, kind)}
                found.append((f"ops.box_convert(a, '{first}', '{second}')", kind, arrays))
    corners = {"a": np.array([[0, 0, 4, 3, 1, 7, -3, 4], [1, 1, 5, 1, 5, 3, 1, 3.0]], "f4")}
    found += [(f"ops.box_convert(a, 'xyxyxyxy', '{to}')", "f4", corners) for to in TURNED[:2]]
    rng = np.random.default_rng(6)
    masks = {"m": np.stack([np.zeros((9, 7)), rng.random((9, 7)) > 0.9, np.eye(9, 7)]).astype("f4")}
    found += [
        ("ops.masks_to_boxes(m)", "f4", masks),
        ("ops.masks_to_boxes(m.bool())", "bool", masks),
        ("ops.masks_to_boxes(m[:0])", "empty", masks),
        ("ops.box_iou(m[:0, 0, :4], m[0, :, :4])", "empty", masks),
        ("ops.generalized_box_iou_loss(m[:0, 0, :4], m[:0, 0, :4], 'mean')", "empty", masks),
    ]
    scores = {"x": rng.standard_normal((4, 3)), "t": (rng.random((4, 3)) > 0.5) * 1.0}
    for options in ("", ", alpha=-1", ", 0.5, 3.0, 'mean'", ", reduction='sum'"):
        found.append((f"ops.sigmoid_focal_loss(x, t{options})", "f8", scores))
    return found + layer_cases(rng)


def layer_cases(rng):
    image = {"x": rng.standard_normal((2, 6, 9, 8)).astype("f4")}
    volume = {"x": rng.standard_normal((2, 3, 6, 7, 5)).astype("f4")}
    maps = {
        "c": rng.standard_normal((1, 4, 7, 9)).astype("f4"),
        "d": rng.standard_normal((1, 6, 4, 5)).astype("f4"),
        "e": rng.standard_normal((1, 8, 2, 2)).astype("f4"),
    }
    pyramid = "fpn.{}({})(collections.OrderedDict(a=c, b=d, c=e))"
    drawn = [
        ("ops.stochastic_depth(x, 0.4, 'row')", image),
        ("ops.stochastic_depth(x, 0.4, 'batch')", image),
        ("ops.stochastic_depth(x, 1.0, 'row')", image),
        ("ops.stochastic_depth(x, 0.4, 'row', training=False)", image),
        ("ops.drop_block2d(x, 0.3, 3)", image),
        ("ops.drop_block2d(x.clone(), 0.3, 5, inplace=True)", image),
        ("ops.drop_block3d(x, 0.3, 3)", volume),
        ("ops.DropBlock2d(0.3, 3).eval()(x)", image),
        ("ops.Conv2dNormActivation(6, 4, 3, dilation=2)(x)", image),
        (
            "ops.Conv2dNormActivation(6, 4, (3, 5), norm_layer=None, activation_layer=None)(x)",
            image,
        ),
        ("ops.Conv2dNormActivation(6, 4, 1, bias=True, inplace=None)(x)", image),
        ("ops.Conv3dNormActivation(3, 4, (1, 3, 3), stride=2)(x)", volume),
        ("ops.SqueezeExcitation(6, 2)(x)", image),
        ("ops.MLP(8, [7, 5], torch.nn.LayerNorm, dropout=0.2)(x)", image),
        ("ops.MLP(8, [4], inplace=False, bias=False)(x)", image),
        ("ops.Permute([3, 0, 1, 2])(x)", image),
        ("ops.FrozenBatchNorm2d(6)(x)", image),
        (pyramid.format("FeaturePyramidNetwork", "[4, 6, 8], 5"), maps),
        (pyramid.format("FeaturePyramidNetwork", "[4, 6, 8], 5, fpn.LastLevelMaxPool()"), maps),
        (pyramid.format("FeaturePyramidNetwork", "[4, 6, 8], 5, fpn.LastLevelP6P7(8, 5)"), maps),
        (
            pyramid.format(
                "FeaturePyramidNetwork", "[4, 6, 8], 5, norm_layer=torch.nn.BatchNorm2d"
            ),
            maps,
        ),
        ("ops.DeformConv2d(6, 4, (3, 2), stride=2, padding=1, groups=2).weight", image),
    ]
    return [(text, "drawn", arrays) for text, arrays in drawn]


def answer(package, ops, fpn, text, arrays):
    """The result as arrays (by name, for pyramids); draws start from one seed."""
    import collections

    package.manual_seed(7)
    names = {name: package.from_numpy(array) for name, array in arrays.items()}
    names |= {"ops": ops, "torch": package, "fpn": fpn, "collections": collections}
    result = eval(text, names)
    if not isinstance(result, dict):
        result = {"": result}
    return {name: value.detach().numpy() for name, value in result.items()}


def summary(found):
    """Small results whole, of large ones the sum and the sum of squares, by name."""
    said = {}
    for name, value in found.items():
        numbers = value.astype(float)
        few = numbers.ravel() if value.size <= 40 else np.array([numbers.sum(), (numbers**2).sum()])
        said[name] = [str(value.dtype), list(value.shape), [float(f"{x:.9g}") for x in few]]
    return said
