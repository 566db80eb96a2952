"""Presets: what images go through before a model, against torchvision and against its words."""

import numpy as np
import pytest

import flambeau
from flambeau.vision.transforms import _presets as ours
from tests.vision.transform_cases import pil_image, tensor

pytest.importorskip("PIL")
MADE = [
    "ObjectDetection()",
    "ImageClassification(crop_size=10)",
    "ImageClassification(crop_size=12, resize_size=20, mean=(0.5,) * 3, antialias=False)",
    "SemanticSegmentation(resize_size=9)",
    "SemanticSegmentation(resize_size=None, std=(0.5, 0.25, 1.0))",
    "VideoClassification(crop_size=(8, 9), resize_size=(10, 12))",
    "OpticalFlow()",
]


def arguments(text, torch, image):
    if text.startswith("Video"):
        return [torch.stack([tensor(torch, 3), tensor(torch, 3, seed=1)])]
    return [image] * (2 if text.startswith("Optical") else 1)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:Anti-alias option is always applied")
@pytest.mark.parametrize("text", MADE)
def test_same_as_torchvision(text):
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("torchvision.transforms._presets")
    mine, other = eval(text, vars(ours).copy()), eval(text, vars(theirs).copy())
    assert repr(mine) == repr(other)
    assert mine.describe() == other.describe()
    for image in (None, pil_image("RGB")):
        found = mine(*arguments(text, flambeau, tensor(flambeau, 3) if image is None else image))
        expected = other(*arguments(text, torch, tensor(torch, 3) if image is None else image))
        pairs = zip(found, expected) if isinstance(found, tuple) else [(found, expected)]
        for a, b in pairs:
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("size", [(300, 260), (200, 330)])
def test_classification_gives_what_its_description_says(size):
    preset = ours.ImageClassification(crop_size=224)
    assert "resize_size=[256]" in preset.describe()
    white = flambeau.full((3, *size), 255, dtype=flambeau.uint8)
    out = preset(white)
    assert out.shape == (3, 224, 224)
    expected = [(1 - m) / s for m, s in zip(preset.mean, preset.std)]
    assert out[:, 100, 100].tolist() == pytest.approx(expected, rel=1e-5)


def test_video_moves_channels_before_frames():
    preset = ours.VideoClassification(crop_size=(6, 5), resize_size=(8, 9))
    assert preset(flambeau.zeros(4, 3, 16, 18)).shape == (3, 4, 6, 5)
    assert preset(flambeau.zeros(2, 4, 3, 16, 18)).shape == (2, 3, 4, 6, 5)
