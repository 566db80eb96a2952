"""Transforms v2: every kind of input, whole samples, draws, texts and messages.

The cases are in `transform_v2_cases.py`. They run against torchvision where it is installed, and
against what it gave (`tests/golden/transforms_v2.json`) everywhere.
"""

import copy
import inspect
import json
import pickle
from collections import OrderedDict, defaultdict, deque, namedtuple
from pathlib import Path

import pytest

import flambeau
from flambeau.vision import transforms as v1
from flambeau.vision import tv_tensors
from flambeau.vision.transforms import v2
from tests.vision import transform_cases as shared
from tests.vision import transform_v2_cases as cases

pytest.importorskip("PIL")

GOLDEN = Path(__file__).parent.parent / "golden" / "transforms_v2.json"
OURS = {"T": v2, "F": v2.functional, "tv": tv_tensors, "torch": flambeau}
KINDS = [*cases.INPUTS, "samples", "made"]
QUICK = "pil image xyxy mask points samples made".split()
ALL_KINDS = [k if k in QUICK else pytest.param(k, marks=pytest.mark.slow) for k in KINDS]


@pytest.fixture(scope="module")
def kept():
    return json.loads(GOLDEN.read_text())


def of_kind(kind):
    return [case for case in cases.runs() if case[0] == kind]


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_recorded(kind, kept):
    """slow: a hundred calls of each kind, compiled for dtypes and shapes that are less used."""
    if kind.startswith("pil") and not shared.is_pillow_of(kept):
        pytest.skip("another Pillow may give other pixels")
    wrong = []
    for _, text, repeats in of_kind(kind):
        answered = cases.run(kind, text, repeats, OURS)
        exact = cases.is_exact(text, kind)
        found = shared.recorded_difference(answered, kept[kind][text], exact)
        if found:
            wrong.append(f"{text}: {found}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.oracle
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_same_as_torchvision(kind):
    """slow: a hundred calls of each kind, compiled for dtypes and shapes that are less used."""
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("torchvision.transforms.v2")
    their_tensors = pytest.importorskip("torchvision.tv_tensors")
    scope = {"T": theirs, "F": theirs.functional, "tv": their_tensors, "torch": torch}
    wrong = []
    for _, text, repeats in of_kind(kind):
        found = shared.difference(
            cases.run(kind, text, repeats, OURS),
            cases.run(kind, text, repeats, scope),
            cases.is_exact(text, kind),
        )
        if found:
            wrong.append(f"{text}: {found}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.oracle
def test_names_and_signatures():
    pytest.importorskip("torch")
    theirs = pytest.importorskip("torchvision.transforms.v2")

    def parameters(function):
        found = inspect.signature(function).parameters.values()
        return [(p.name, p.kind, str(p.default)) for p in found]

    for name, value in vars(theirs).items():
        if inspect.isclass(value) and value.__module__.startswith("torchvision.transforms.v2"):
            assert parameters(getattr(v2, name)) == parameters(value), name
    for name, value in vars(theirs.functional).items():
        if inspect.isfunction(value) and name[0] != "_":
            mine = getattr(v2.functional, name)
            if not name.endswith(("_image", "_video", "_mask", "_bounding_boxes", "_keypoints")):
                assert parameters(mine) == parameters(value), name


# -- samples ---------------------------------------------------------------------------------------

Pair = namedtuple("Pair", "image label")


@pytest.mark.parametrize(
    "nest",
    [
        lambda image: [image, 3],
        lambda image: (image, "a", None),
        lambda image: {"image": image, "label": 1},
        lambda image: OrderedDict(a=1, image=image),
        lambda image: defaultdict(list, image=image),
        lambda image: Pair(image, 5),
        lambda image: deque([image, 1], maxlen=4),
        lambda image: {"a": [{"b": (image,)}, [], {}]},
    ],
)
def test_samples_keep_their_form(nest):
    image = tv_tensors.Image(flambeau.arange(6, dtype=flambeau.uint8).reshape(1, 2, 3))
    out = v2.RandomHorizontalFlip(1.0)(nest(image))
    expected = nest(image)
    assert type(out) is type(expected)

    def compare(a, b):
        if isinstance(b, tv_tensors.Image):
            assert type(a) is tv_tensors.Image
            assert a.tolist() == b.flip(-1).tolist()
        elif isinstance(b, dict):
            assert list(a) == list(b)
            for key in b:
                compare(a[key], b[key])
        elif isinstance(b, (list, tuple, deque)):
            assert len(a) == len(b)
            for x, y in zip(a, b):
                compare(x, y)
        else:
            assert a is b

    compare(out, expected)


def test_only_the_first_plain_tensor_is_an_image():
    image, label = flambeau.arange(6).reshape(1, 2, 3), flambeau.arange(4).reshape(1, 2, 2)
    flipped, same = v2.RandomHorizontalFlip(1.0)(image, label)
    assert flipped.tolist() == image.flip(-1).tolist()
    assert same is label
    _, untouched = v2.RandomHorizontalFlip(1.0)(tv_tensors.Image(image), label)
    assert untouched is label


def test_boxes_and_masks_move_with_the_image():
    """Where a box was drawn into an image, it is found again after every transform."""
    image = tv_tensors.Image(flambeau.zeros(1, 40, 50))
    image[..., 10:22, 15:31] = 1
    boxes = tv_tensors.BoundingBoxes([[15, 10, 31, 22]], format="XYXY", canvas_size=(40, 50))
    mask = tv_tensors.Mask((image[0] > 0).to(flambeau.uint8))
    flambeau.manual_seed(0)
    for transform in (
        v2.RandomHorizontalFlip(1.0),
        v2.RandomVerticalFlip(1.0),
        v2.Pad([3, 4, 5, 6]),
        v2.RandomCrop(36),
        v2.RandomZoomOut(p=1.0),
        v2.Resize((80, 100), "nearest"),
        v2.RandomRotation((90, 90), expand=True),
        v2.RandomAffine(0, translate=(0.1, 0.1)),
    ):
        new, found, covered = transform(image, boxes, mask)
        rows, columns = (new[0] > 0.5).nonzero(as_tuple=True)
        seen = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        assert found.tolist() == [[int(v) for v in seen]], transform
        assert flambeau.equal(covered > 0, new[0] > 0.5), transform
        assert tuple(found.canvas_size) == tuple(new.shape[-2:])


def test_a_transform_of_ones_own():
    class Add(v2.Transform):
        def make_params(self, flat_inputs):
            return {"amount": len(flat_inputs)}

        def transform(self, inpt, params):
            return inpt + params["amount"]

    image, boxes = tv_tensors.Image(flambeau.zeros(1, 2, 2)), flambeau.zeros(3)
    out, same = Add()(image, boxes)
    assert out.tolist() == [[[1.0, 1.0], [1.0, 1.0]]]
    assert same is boxes
    assert repr(Add()) == "Add()"


def test_kernels_of_ones_own():
    class Depth(tv_tensors.TVTensor):
        pass

    @v2.functional.register_kernel("horizontal_flip", Depth)
    def flip(depth):
        return tv_tensors.wrap(depth.flip(-1) * 10, like=depth)

    depth = flambeau.arange(3).as_subclass(Depth)
    assert v2.functional.hflip(depth).tolist() == [20, 10, 0]
    assert type(v2.RandomHorizontalFlip(1.0)(depth)) is Depth
    assert v2.RandomVerticalFlip(1.0)(depth) is depth
    with pytest.raises(TypeError, match=r"Functional F.vertical_flip supports inputs of type"):
        v2.functional.vflip(depth)
    with pytest.raises(ValueError, match="already has a kernel registered"):
        v2.functional.register_kernel(v2.functional.hflip, Depth)


# -- tensors that say what they are ----------------------------------------------------------------


def test_copies_stay_what_they_are():
    boxes = tv_tensors.BoundingBoxes([[1.0, 2, 3, 4]], format="XYWH", canvas_size=(5, 6))
    for same in (
        boxes.clone(),
        boxes.detach(),
        boxes.to(flambeau.float64),
        boxes.requires_grad_(False),
        copy.deepcopy(boxes),
        pickle.loads(pickle.dumps(boxes)),
        copy.copy(boxes),
    ):
        assert type(same) is tv_tensors.BoundingBoxes
        assert same.format is tv_tensors.BoundingBoxFormat.XYWH
        assert same.canvas_size == (5, 6)
        assert same.tolist() == boxes.tolist()
    for plain in (
        boxes + 1,
        boxes[0],
        boxes.sum(),
        boxes.reshape(-1),
        boxes.as_subclass(type(boxes.sum())),
    ):
        assert type(plain) is flambeau.Tensor


def test_gradients_pass_through():
    x = flambeau.rand(1, 4, 4, requires_grad=True)
    image = tv_tensors.Image(x)
    assert not image.is_leaf
    flipped = v2.functional.hflip(image)
    assert type(flipped) is tv_tensors.Image
    (flipped * flambeau.arange(4)).sum().backward()
    assert x.grad[0, 0].tolist() == [3.0, 2.0, 1.0, 0.0]


def test_set_return_type():
    image = tv_tensors.Image(flambeau.rand(3, 4, 4))
    boxes = tv_tensors.BoundingBoxes([[0, 0, 2, 2]], format="XYXY", canvas_size=(4, 4))
    with tv_tensors.set_return_type("TVTensor"):
        assert type(image + 1) is type(image[0]) is tv_tensors.Image
        assert type(flambeau.stack([image, image])) is tv_tensors.Image
        assert [type(part) for part in image.split(2)] == [tv_tensors.Image] * 2
        moved = boxes * 2
        assert moved.canvas_size == (4, 4) and type(boxes[0]) is tv_tensors.BoundingBoxes
        with tv_tensors.set_return_type("Tensor"):
            assert type(image + 1) is flambeau.Tensor
        assert type(image + 1) is tv_tensors.Image
    assert type(image + 1) is flambeau.Tensor
    with pytest.raises(ValueError, match="return_type must be"):
        tv_tensors.set_return_type("x")


# -- beside v1 -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "T.RandomResizedCrop(7, interpolation=T.InterpolationMode.NEAREST)",
        "T.RandomResizedCrop(7, ratio=(9.0, 10.0), interpolation=T.InterpolationMode.NEAREST)",
        "T.RandomErasing(1.0, value='random')",
        "T.RandomErasing(1.0, scale=(0.99, 1.0), ratio=(1.0, 1.0), value=3)",
        "T.RandomErasing(1.0, value=(1, 2, 3))",
        "T.RandomAffine(30, (0.1, 0.2), (0.8, 1.2), (-5, 5, -9, 9), fill=5)",
        "T.RandomAffine((10, 20), shear=8)",
        "T.RandomPerspective(0.6, 1.0, T.InterpolationMode.NEAREST, fill=(1, 2, 3))",
        "T.RandomRotation(50, expand=True, center=(2, 3))",
        "T.RandomEqualize(1.0)",
        "T.RandomPosterize(3, 1.0)",
    ],
)
def test_v1_and_v2_give_the_same(text):
    image = cases.INPUTS["image"](flambeau, tv_tensors).as_subclass(flambeau.Tensor)
    old, new = (eval(text, {"T": version}) for version in (v1, v2))
    for seed in range(4):
        answers = []
        for transform in (old, new):
            flambeau.manual_seed(seed)
            answers.append((transform(image).tolist(), flambeau.rand(1).item()))
        assert answers[0] == answers[1]


@pytest.mark.parametrize("version", [v1, v2])
@pytest.mark.parametrize("make", ["RandomErasing(0.5, (0.3, 0.2))", "RandomResizedCrop(7, (1, 0))"])
def test_ranges_out_of_order_are_told_to_the_caller(version, make):
    with pytest.warns(UserWarning, match=r"should be of kind \(min, max\)") as told:
        eval(compile(f"T.{make}", "the caller", "eval"), {"T": version})
    assert told[0].filename == "the caller"


# -- compression -----------------------------------------------------------------------------------


def test_jpeg_keeps_shapes_and_loses_detail():
    image = cases.INPUTS["image"](flambeau, tv_tensors)
    fine, coarse = v2.JPEG(95)(image), v2.JPEG(5)(image)
    assert type(fine) is tv_tensors.Image
    assert fine.shape == image.shape

    def error(other):
        return (other.float() - image.float()).abs().mean().item()

    assert 0 < error(fine) < error(coarse)
    video = cases.INPUTS["video"](flambeau, tv_tensors)
    assert v2.JPEG((20, 30))(video).shape == video.shape
    assert v2.JPEG(50)(cases.INPUTS["pil"](flambeau, tv_tensors)).size == cases.SIZE
