"""torchvision.utils: the very pixels of torchvision, live and from records."""

import inspect
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau as torch
from flambeau import vision
from flambeau.vision import utils
from flambeau.vision.pillow import pillow
from tests.vision.utils_cases import DRAWN, EXACT, PICTURE, REFUSED, Lib, digest

GOLDEN = json.loads((Path(__file__).parent.parent / "golden/vision_utils.json").read_text())
OURS = Lib(torch, vision)


@pytest.fixture
def theirs():
    return Lib(pytest.importorskip("torch"), pytest.importorskip("torchvision"))


@pytest.mark.parametrize("name", EXACT)
def test_results_are_those_recorded_from_torchvision(name):
    assert digest(EXACT[name](OURS)) == GOLDEN[name]


@pytest.mark.oracle
@pytest.mark.parametrize("name", [*EXACT, *DRAWN])
def test_results_are_those_of_torchvision(name, theirs):
    case = (EXACT | DRAWN)[name]
    ours, expected = case(OURS), case(theirs)
    assert str(ours.dtype) == str(expected.dtype) and ours.shape == expected.shape
    assert np.array_equal(ours.numpy(), expected.numpy())


@pytest.mark.oracle
@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_those_of_torchvision(name, theirs):
    with pytest.raises(Exception) as expected:
        REFUSED[name](theirs)
    with pytest.raises(type(expected.value)) as ours:
        REFUSED[name](OURS)
    assert str(ours.value).startswith(str(expected.value))


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_is_refused(name):
    with pytest.raises((TypeError, ValueError, IndexError, ZeroDivisionError)):
        REFUSED[name](OURS)


@pytest.mark.oracle
@pytest.mark.parametrize("name", utils.__all__)
def test_signatures_are_those_of_torchvision(name, theirs):
    def shape(function):
        parameters = inspect.signature(function).parameters.values()
        return [(parameter.name, parameter.default, parameter.kind) for parameter in parameters]

    assert shape(getattr(utils, name)) == shape(getattr(theirs.utils, name))


def picture():
    return torch.from_numpy(PICTURE.copy())


def test_a_box_has_its_colour_on_its_edge_and_nothing_else_changes():
    drawn = utils.draw_bounding_boxes(picture(), torch.tensor([[5, 6, 30, 20]]), colors=(9, 8, 7))
    changed = (drawn != picture()).any(dim=0)
    edge = torch.zeros(40, 60, dtype=torch.bool)
    edge[6:21, 5:31] = True
    edge[7:20, 6:30] = False
    assert not (changed & ~edge).any()
    assert (drawn[:, edge] == torch.tensor([[9], [8], [7]], dtype=torch.uint8)).all()


def test_points_and_lines_are_drawn_where_they_are_visible():
    black = torch.zeros(3, 40, 60, dtype=torch.uint8)
    points = torch.tensor([[[10, 10], [30, 10], [50, 30]]])
    drawn = utils.draw_keypoints(
        black,
        points,
        connectivity=[(0, 1), (1, 2)],
        colors="red",
        visibility=torch.tensor([[True, True, False]]),
    )
    assert drawn[:, 10, 8].tolist() == [255, 0, 0]  # a point
    assert drawn[:, 10, 20].tolist() == [255, 255, 255]  # a line
    assert not drawn[:, 30, 50].any() and not drawn[:, 20, 40].any()
    assert not black.any()


@pytest.mark.parametrize("format", ["png", "bmp"])
def test_a_saved_image_reads_back(tmp_path, format):
    image_module = pytest.importorskip("PIL.Image")
    images = torch.rand(5, 3, 6, 4)
    path = tmp_path / f"grid.{format}"
    utils.save_image(images, path, nrow=2)
    buffer = io.BytesIO()
    utils.save_image(images, buffer, format=format, nrow=2)
    assert path.read_bytes() == buffer.getvalue()
    pixels = np.asarray(image_module.open(path)).transpose(2, 0, 1)
    expected = utils.make_grid(images, nrow=2)
    assert np.array_equal(pixels, (expected * 255 + 0.5).to(torch.uint8).numpy())


@pytest.mark.oracle
def test_a_saved_image_is_the_file_of_torchvision(theirs):
    files = []
    for lib in (OURS, theirs):
        file = io.BytesIO()
        batch = lib.tensor(np.linspace(-0.2, 1.2, 8 * 3 * 5 * 6).reshape(8, 3, 5, 6))
        lib.utils.save_image(batch, file, format="png", nrow=3)
        files.append(file.getvalue())
    assert files[0] == files[1]


def test_nothing_to_draw_is_said():
    with pytest.warns(UserWarning, match="boxes doesn't contain any box"):
        assert utils.draw_bounding_boxes(picture(), torch.zeros(0, 4)).shape == (3, 40, 60)
    with pytest.warns(UserWarning, match="masks doesn't contain any mask"):
        utils.draw_segmentation_masks(picture(), torch.zeros(0, 40, 60, dtype=torch.bool))
    with pytest.warns(UserWarning, match="'font_size' will be ignored"):
        utils.draw_bounding_boxes(picture(), torch.tensor([[1, 1, 5, 5]]), font_size=9)


def test_a_grid_does_not_touch_its_input():
    images = torch.rand(3, 3, 4, 4)
    before = images.clone()
    utils.make_grid(images, normalize=True, scale_each=True)
    assert images.equal(before)


def test_a_grid_records_no_gradient():
    images = torch.rand(3, 3, 4, 4, requires_grad=True)
    assert not utils.make_grid(images).requires_grad


def test_without_pillow_the_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    pillow.cache_clear()
    try:
        with pytest.raises(ImportError, match=r"pip install flambeau\[vision\]"):
            utils.save_image(torch.rand(3, 4, 4), tmp_path / "a.png")
    finally:
        pillow.cache_clear()
