"""The weights that torchvision published: `published.txt` and `published_more.txt` as classes.

Addresses, sizes and accuracies are facts about files; they live in tables beside this module, one
line per file: classifiers and segmenters in one, all other models in the other.
`published("ResNet18_Weights", __name__)` makes the class of one model.
"""

from functools import cache, partial
from pathlib import Path
from typing import Any

from ._api import Weights, WeightsEnum

_FOLDER = Path(__file__).parent
_ADDRESS = "https://download.pytorch.org/models/"
_VOC = (
    "__background__ aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse "
    "motorbike person pottedplant sheep sofa train tvmonitor"
).split()


_KEYPOINTS = [
    "nose",
    *(
        f"{side}_{part}"
        for part in "eye ear shoulder elbow wrist hip knee ankle".split()
        for side in ("left", "right")
    ),
]


@cache
def categories(name: str) -> list[str]:
    """The classes of imagenet, coco or kinetics, in the order of their numbers."""
    return (_FOLDER / f"{name}_categories.txt").read_text("utf-8").splitlines()


def imagenet_categories() -> list[str]:
    """The thousand classes of ImageNet."""
    return categories("imagenet")


@cache
def _table(file: str) -> dict[str, list[list[str]]]:
    """Lines of a table, without the name of the class, under that name."""
    found: dict[str, list[list[str]]] = {}
    for line in (_FOLDER / file).read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            name, *rest = line.split()
            found.setdefault(name, []).append(rest)
    return found


def published(name: str, module: str) -> Any:
    """The class of weights of this name, for the module that says so."""
    members, default = {}, None
    lines, read = _table("published.txt").get(name), _weights
    if lines is None:
        lines, read = _table("published_more.txt")[name], _more_weights
    for member, *facts in lines:
        weights = read(facts)
        members[member.removeprefix("*")] = weights
        if member.startswith("*"):
            default = weights
    return WeightsEnum(name, {**members, "DEFAULT": default}, module=module)  # type: ignore[call-arg]


def _weights(facts: list[str]) -> Weights:
    file, parameters, first, second, operations, size, crop, resize, *rest = facts
    interpolation, smallest, recipe, *more = rest
    extra = dict(item.split("=", 1) for item in more)
    meta = {
        "num_params": int(parameters),
        "min_size": (int(smallest), int(smallest)),
        "recipe": _repository(recipe),
        "_ops": float(operations),
        "_file_size": float(size),
    }
    if "license" in extra:
        meta["license"] = _repository(extra["license"])
    options: dict[str, Any] = {"resize_size": int(crop if resize == "-" else resize)}
    if resize == "-":
        meta["categories"] = _VOC
        meta["_metrics"] = {
            "COCO-val2017-VOC-labels": {"miou": float(first), "pixel_acc": float(second)}
        }
        kind = "SemanticSegmentation"
    else:
        meta["categories"] = None if "categories" in extra else imagenet_categories()
        meta["_metrics"] = {"ImageNet-1K": {"acc@1": float(first), "acc@5": float(second)}}
        options |= {"crop_size": int(crop), "interpolation": interpolation}
        kind = "ImageClassification"
    for key in ("mean", "std"):
        if key in extra:
            options[key] = tuple(float(number) for number in extra[key].split(","))
    return Weights(f"{_ADDRESS}{file}.pth", partial(_preset, kind, **options), meta)


def _more_weights(facts: list[str]) -> Weights:
    file, parameters, operations, size, smallest, kind, classes, recipe, *more = facts
    meta: dict[str, Any] = {
        "num_params": int(parameters),
        "min_size": (int(smallest), int(smallest)),
        "recipe": _repository(recipe),
        "_ops": float(operations),
        "_file_size": float(size),
        "_metrics": {},
    }
    if classes == "people":
        meta |= {"categories": ["no person", "person"], "keypoint_names": _KEYPOINTS}
    elif classes != "-":
        meta["categories"] = categories(classes)
    options: dict[str, Any] = {}
    for key, _, value in (item.partition("=") for item in more):
        if key == "metrics":
            title, _, figures = value.partition(":")
            pairs = (figure.split("=") for figure in figures.split(","))
            meta["_metrics"][title] = {name: float(number) for name, number in pairs}
        elif key == "frames":
            meta["min_temporal_size"] = int(value)
        elif key == "license":
            meta["license"] = _repository(value)
        else:
            number = float if key in ("mean", "std") else int
            options[key] = tuple(map(number, value.split(",")))
    return Weights(f"{_ADDRESS}{file}.pth", partial(_preset, kind, **options), meta)


def _repository(path: str) -> str:
    return "https://github.com/" + ("pytorch/" if path.startswith("vision/") else "") + path


def _preset(kind: str, **options: Any) -> Any:
    """A preset of the transforms, which load only now."""
    from ..transforms import _presets

    if "interpolation" in options:
        options["interpolation"] = _presets.interpolation_mode(options["interpolation"])
    return getattr(_presets, kind)(**options)
