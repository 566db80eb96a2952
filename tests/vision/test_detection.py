"""Detectors: losses and findings as torchvision has them, parts by hand, refusals.

Losses and findings of small models were recorded from torchvision in float64
(tests/golden/record_detection.py); weights and images are drawn from a seed by both.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import flambeau as torch
from flambeau.vision import models
from flambeau.vision.models import detection
from flambeau.vision.models.detection import _utils, anchor_utils, keypoints, masks, transform
from flambeau.vision.models.detection.image_list import ImageList
from tests.vision import detection_cases as cases

RECORDED = json.loads((Path(__file__).parents[1] / "golden/detection.json").read_text())


@pytest.mark.parametrize("name", cases.MODELS)
def test_losses_and_findings(name):
    found = cases.answers(torch, detection, name)
    expected = RECORDED[name]
    assert list(found["losses"]) == list(expected["losses"])
    for key, value in expected["losses"].items():
        assert found["losses"][key] == pytest.approx(value, rel=1e-6), key
    for one, other in zip(found["found"], expected["found"], strict=True):
        assert list(one) == list(other)
        for key, (shape, total) in other.items():
            assert one[key][0] == shape
            assert one[key][1] == pytest.approx(total, rel=1e-7, abs=1e-7), key
    same_slopes(found["slopes"], expected["slopes"])


def same_slopes(found, expected, rel=1e-6):
    assert list(found) == list(expected)
    # what a normalization takes out again has no gradient but what rounding leaves
    largest = max(pair[0] for pair in expected.values() if pair is not None)
    least = max(1e-9, 1e-6 * rel * largest)
    for name, pair in expected.items():
        assert (found[name] is None) == (pair is None), name
        if pair is not None:
            size = pair[0]
            assert found[name][0] == pytest.approx(size, rel=rel, abs=least), name
            assert found[name][1] == pytest.approx(pair[1], rel=rel, abs=rel * size + least), name


@pytest.mark.slow
def test_flow_and_its_gradients():
    found, expected = cases.flow_answers(torch, models), RECORDED["raft_small"]
    assert found["flow"] == pytest.approx(expected["flow"], rel=1e-4)
    same_slopes(found["slopes"], expected["slopes"], 1e-3)


def test_anchors():
    made = anchor_utils.AnchorGenerator((32, 64), ((0.5,), (1.0,)))
    assert [cell.tolist() for cell in made.cell_anchors] == [
        [[-23.0, -11.0, 23.0, 11.0]],
        [[-32.0, -32.0, 32.0, 32.0]],
    ]
    assert made.num_anchors_per_location() == [1, 1]
    batch = ImageList(torch.zeros(2, 3, 8, 8), [(8, 8), (6, 8)])
    boxes = made(batch, [torch.zeros(2, 1, 2, 2), torch.zeros(2, 1, 1, 1)])
    assert len(boxes) == 2
    assert boxes[0][1].tolist() == [-19.0, -11.0, 27.0, 11.0]  # one cell to the right
    with pytest.raises(AssertionError, match="Anchors should be Tuple"):
        made(batch, [torch.zeros(2, 1, 2, 2)])


def test_default_boxes_cover_cells():
    made = anchor_utils.DefaultBoxGenerator([[2], [2, 3]])
    assert made.scales == [0.15, 0.9, 1.0]
    assert made.num_anchors_per_location() == [4, 6]
    batch = ImageList(torch.zeros(1, 3, 10, 20), [(10, 20)])
    (boxes,) = made(batch, [torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 1, 1)])
    assert boxes.shape == (4 * 4 + 6, 4)
    middle = (boxes[0, :2] + boxes[0, 2:]) / 2
    torch.testing.assert_close(middle, torch.tensor([5.0, 2.5]))
    torch.testing.assert_close(boxes[0, 2] - boxes[0, 0], torch.tensor(0.15 * 20))


def test_box_codes_go_both_ways():
    torch.manual_seed(1)
    low = torch.rand(7, 2) * 10
    boxes = torch.cat([low, low + torch.rand(7, 2) * 5 + 1], 1)
    aims = boxes + torch.randn(7, 4) * 0.2
    coder = _utils.BoxCoder((10.0, 10.0, 5.0, 5.0))
    back = coder.decode(coder.encode([aims], [boxes])[0], [boxes])[:, 0]
    torch.testing.assert_close(back, aims, atol=1e-5, rtol=1e-5)
    linear = _utils.BoxLinearCoder()
    torch.testing.assert_close(linear.decode(linear.encode(boxes, aims), boxes), aims)


def test_matching_by_hand():
    quality = torch.tensor([[0.9, 0.35, 0.1, 0.2], [0.0, 0.1, 0.2, 0.05]])
    assert _utils.Matcher(0.5, 0.3)(quality).tolist() == [0, -2, -1, -1]
    assert _utils.Matcher(0.5, 0.3, True)(quality).tolist() == [0, -2, 1, -1]
    assert _utils.SSDMatcher(0.5)(quality).tolist() == [0, -1, 1, -1]
    with pytest.raises(ValueError, match="No ground-truth boxes available"):
        _utils.Matcher(0.5, 0.3)(torch.zeros(0, 3))


def test_sampler_keeps_the_share_of_positives():
    labels = torch.tensor([1.0] * 30 + [0.0] * 30 + [-1.0] * 5)
    positive, negative = _utils.BalancedPositiveNegativeSampler(20, 0.25)([labels])
    assert positive[0].sum() == 5 and negative[0].sum() == 15
    assert not positive[0][30:].any() and not negative[0][:30].any()


def test_masks_are_pasted_where_their_boxes_are():
    mask = torch.ones(1, 1, 4, 4)
    image = masks.paste_masks_in_image(mask, torch.tensor([[2.0, 3.0, 6.0, 9.0]]), (12, 10))
    assert image.shape == (1, 1, 12, 10)
    assert (image[0, 0, 4:8, 3:6] == 1).all()
    assert image[0, 0, :2].sum() == 0 and image[0, 0, :, 8:].sum() == 0
    outside = masks.paste_masks_in_image(mask, torch.tensor([[-3.0, -2.0, 2.0, 3.0]]), (5, 5))
    assert outside[0, 0, 0, 0] == 1 and outside[0, 0, 4, 4] == 0
    assert masks.paste_masks_in_image(mask[:0], torch.zeros(0, 4), (5, 6)).shape == (0, 1, 5, 6)


def test_keypoints_go_to_heat_maps_and_back():
    box = torch.tensor([[10.0, 20.0, 26.0, 52.0]])
    point = torch.tensor([[[14.0, 36.0, 1.0], [26.0, 52.0, 1.0], [40.0, 30.0, 1.0]]])
    pixel, valid = keypoints.keypoints_to_heatmap(point, box, 8)
    assert valid.tolist() == [[1, 1, 0]]
    assert pixel.tolist() == [[4 * 8 + 2, 7 * 8 + 7, 0]]
    maps = torch.zeros(1, 2, 8, 8)
    maps[0, 0, 4, 2] = maps[0, 1, 7, 7] = 1
    found, heat = keypoints.heatmaps_to_keypoints(maps, box)
    assert (found[0, 0, :2] - torch.tensor([15.0, 38.0])).abs().max() < 2
    assert found[..., 2].tolist() == [[1.0, 1.0]] and heat.shape == (1, 2)


def test_images_are_scaled_to_their_shorter_side():
    change = transform.GeneralizedRCNNTransform(40, 60, [0.5] * 3, [0.5] * 3)
    change.eval()
    batch, targets = change(
        [torch.rand(3, 20, 30), torch.rand(3, 10, 40)],
        [{"boxes": torch.tensor([[1.0, 2.0, 3.0, 4.0]])}] * 2,
    )
    assert batch.image_sizes == [(40, 60), (15, 60)]
    assert batch.tensors.shape == (2, 3, 64, 64)
    assert targets[0]["boxes"].tolist() == [[2.0, 4.0, 6.0, 8.0]]
    back = change.postprocess([{"boxes": targets[0]["boxes"]}], [(40, 60)], [(20, 30)])
    assert back[0]["boxes"].tolist() == [[1.0, 2.0, 3.0, 4.0]]


def test_what_is_refused():
    with torch.device("meta"):
        body = torch.nn.Conv2d(3, 8, 1)
        with pytest.raises(ValueError, match="backbone should contain an attribute out_channels"):
            detection.FasterRCNN(torch.nn.ReLU(), 2)
        with pytest.raises(TypeError, match="rpn_anchor_generator should be of type AnchorGen"):
            detection.FasterRCNN(body, 2, rpn_anchor_generator=3)
        with pytest.raises(ValueError, match="num_classes should not be None when box_predictor"):
            detection.FasterRCNN(body)
        model = detection.FasterRCNN(body, 2)
    image = torch.rand(3, 8, 8)
    with pytest.raises(AssertionError, match="targets should not be none when in training mode"):
        model([image])
    with pytest.raises(AssertionError, match=r"tensor of shape \[N, 4\]"):
        model([image], [{"boxes": torch.zeros(4)}])
    flat = {"boxes": torch.tensor([[1.0, 2.0, 1.0, 3.0]]), "labels": torch.tensor([1])}
    with pytest.raises(AssertionError, match="should have positive height and width"):
        model([image], [flat])
    model.eval()
    with pytest.raises(ValueError, match="images is expected to be a list of 3d tensors"):
        model([torch.rand(8, 8)])
    with pytest.raises(TypeError, match="Expected input images to be of floating type"):
        model([torch.zeros(3, 8, 8, dtype=torch.uint8)])


def test_frozen_parts_and_weights_of_another_time():
    with torch.device("meta"):
        plain = detection.fasterrcnn_resnet50_fpn(weights_backbone=None)
    assert all(p.requires_grad for p in plain.parameters())
    warning = pytest.warns(UserWarning, match="Changing trainable_backbone_layers has no effect")
    with warning, torch.device("meta"):
        detection.fasterrcnn_resnet50_fpn(weights_backbone=None, trainable_backbone_layers=2)
    head = detection.mask_rcnn.MaskRCNNHeads(4, (5,), 1)
    state = {"mask_fcn1.weight": torch.ones(5, 4, 3, 3), "mask_fcn1.bias": torch.zeros(5)}
    head.load_state_dict(state)
    assert np.all(head.state_dict()["0.0.weight"].numpy() == 1)
