"""The older transforms of video clips, against torchvision and against what they say."""

import importlib
import random
import warnings

import numpy as np
import pytest

import flambeau

CALLS = [
    "RandomCropVideo(5)",
    "RandomCropVideo((5, 4))",
    "RandomResizedCropVideo(6)",
    "RandomResizedCropVideo((6, 5), scale=(0.5, 0.9), interpolation_mode='bilinear')",
    "CenterCropVideo(5)",
    "CenterCropVideo(50)",
    "NormalizeVideo([0.1, 0.2, 0.3], [0.5, 0.6, 0.7])",
    "ToTensorVideo()",
    "RandomHorizontalFlipVideo()",
]


def load(package):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(f"{package}.transforms._transforms_video")


def outcome(torch, module, text):
    """Text of a transform and what it does to a clip from one seed."""
    transform = eval(text, vars(module).copy())
    clip = torch.from_numpy(np.random.RandomState(0).rand(3, 4, 9, 11).astype(np.float32))
    if text.startswith("ToTensor"):
        clip = (clip.permute(1, 2, 3, 0) * 255).to(torch.uint8)
    torch.manual_seed(2)
    random.seed(2)
    try:
        return repr(transform), [transform(clip).numpy() for _ in range(3)]
    except ValueError as error:
        return repr(transform), str(error)


@pytest.mark.oracle
@pytest.mark.parametrize("text", CALLS)
def test_same_as_torchvision(text):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchvision")
    mine, found = outcome(flambeau, load("flambeau.vision"), text)
    other, expected = outcome(torch, load("torchvision"), text)
    assert mine == other
    assert type(found) is type(expected)
    for a, b in zip(found, expected):
        if isinstance(a, str):
            assert found == expected
        else:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_import_warns():
    load("flambeau.vision")
    with pytest.warns(UserWarning, match="deprecated since 0.12"):
        importlib.reload(load("flambeau.vision"))


def test_a_clip_is_flipped_cropped_and_scaled():
    module = load("flambeau.vision")
    clip = flambeau.arange(2 * 3 * 4 * 1, dtype=flambeau.uint8).reshape(2, 3, 4, 1)
    floats = module.ToTensorVideo()(clip)
    assert floats.shape == (1, 2, 3, 4)
    flipped = module.RandomHorizontalFlipVideo(1.0)(floats)
    assert flipped[0, 0, 0].mul(255).round().tolist() == [3, 2, 1, 0]
    assert module.CenterCropVideo((1, 2))(floats)[0, 1].mul(255).round().tolist() == [[17, 18]]
    with pytest.raises(TypeError, match="clip tensor should have data type uint8"):
        module.ToTensorVideo()(floats)
    with pytest.raises(ValueError, match=r"clip should be 4D. Got 3D"):
        module.CenterCropVideo(1)(floats[0])
