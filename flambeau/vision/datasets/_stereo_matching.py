"""What two eyes see and how far pixels lie apart: Kitti2012Stereo, ETH3DStereo, SintelStereo, ...

A disparity is an array (1, height, width) of floats, for the left image and, where it is known, for
the right one. A dataset names its files by patterns, which are sorted and put side by side, and
says how its disparities are kept; transforms are given pairs: of images, of disparities and of
masks that say which of them count.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from glob import glob
from typing import Any

import numpy

from flambeau.vision.datasets._optical_flow import read_pfm
from flambeau.vision.datasets.utils import download_and_extract_archive, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import open_image

__all__ = (
    "CREStereo",
    "CarlaStereo",
    "ETH3DStereo",
    "FallingThingsStereo",
    "InStereo2k",
    "Kitti2012Stereo",
    "Kitti2015Stereo",
    "Middlebury2014Stereo",
    "SceneFlowStereo",
    "SintelStereo",
)

Path = str | os.PathLike[str]
_SIDES = ("left", "right")


def _sorted(pattern: str) -> list[str]:
    found = sorted(glob(pattern))
    if not found:
        raise FileNotFoundError(f"No files found with the pattern: {pattern}")
    return found


def _side_by_side(first: str, second: str | None) -> list[tuple[str, str | None]]:
    """Files of two patterns in pairs; without a second pattern, each alone."""
    left = _sorted(first)
    if second is None:
        return [(path, None) for path in left]
    right = _sorted(second)
    if len(left) != len(right):
        raise ValueError(
            f"Found {len(left)} left images but {len(right)} right images. There should be an "
            "equal number of images."
        )
    return list(zip(left, right))


def _levels(path: str, unit: float) -> Any:
    """A picture whose numbers are multiples of 1 / unit."""
    return numpy.asarray(open_image(path)).astype(numpy.float32)[None] / unit


class StereoMatchingDataset(VisionDataset):
    """Pairs of images, and disparities; the last are None where nothing is known."""

    _has_built_in_disparity_mask = False

    def __init__(self, root: Path, transforms: Callable | None = None) -> None:
        super().__init__(root=root)
        self.transforms: Any = transforms
        self._images: list[tuple[str, Any]] = []
        self._disparities: list[tuple[str | None, str | None]] = []

    def _add(
        self,
        left: str,
        right: str,
        disparity: str | None = None,
        other: str | None = None,
    ) -> None:
        """More pairs, by patterns of both images, of the left disparity and of the right one."""
        images = _side_by_side(left, right)
        self._images += images
        self._disparities += (
            [(None, None)] * len(images) if disparity is None else _side_by_side(disparity, other)
        )

    def _read_img(self, file_path: Path) -> Any:
        return open_image(file_path, "RGB")

    def _read_disparity(self, file_path: str) -> tuple[Any, Any]:
        """A disparity, and a mask of pixels that have one (or None)."""
        raise NotImplementedError

    def _read(self, file_path: str | None) -> tuple[Any, Any]:
        return (None, None) if file_path is None else self._read_disparity(file_path)

    def __getitem__(self, index: int) -> Any:
        images: Any = tuple(self._read_img(path) for path in self._images[index])
        disparities: Any
        disparities, masks = zip(*(self._read(path) for path in self._disparities[index]))
        if self.transforms is not None:
            images, disparities, masks = self.transforms(images, disparities, masks)
        if self._has_built_in_disparity_mask or masks[0] is not None:
            return images[0], images[1], disparities[0], masks[0]
        return images[0], images[1], disparities[0]

    def __len__(self) -> int:
        return len(self._images)


class CarlaStereo(StereoMatchingDataset):
    """Streets of the CARLA simulator, in high resolution.

    Args:
        root: the folder that holds `carla-highres`.
        transforms: a function of pairs of images, disparities and masks.
    """

    def __init__(self, root: Path, transforms: Callable | None = None) -> None:
        super().__init__(root, transforms)
        scene = os.path.join(root, "carla-highres", "trainingF", "*")
        images = [os.path.join(scene, f"im*{side}.png") for side in (0, 1)]
        self._add(*images, *(os.path.join(scene, f"disp{side}GT.pfm") for side in (0, 1)))

    def _read_disparity(self, file_path: str) -> tuple[Any, Any]:
        return numpy.abs(read_pfm(file_path)), None


class Kitti2012Stereo(StereoMatchingDataset):
    """Streets seen from a car, of the benchmark of 2012, in colour.

    Args:
        root: the folder that holds `Kitti2012`.
        split: "train" or "test"; the latter has no disparities.
        transforms: a function of pairs of images, disparities and masks.
    """

    _has_built_in_disparity_mask = True
    _home, _eyes = "Kitti2012", ("colored_0", "colored_1")
    _truths: tuple[str, ...] = ("disp_noc",)

    def __init__(
        self, root: Path, split: str = "train", transforms: Callable | None = None
    ) -> None:
        super().__init__(root, transforms)
        verify_str_arg(split, "split", valid_values=("train", "test"))
        folder = os.path.join(root, self._home, f"{split}ing")
        # of a moment and those around it, the first has a truth and this name
        named = glob(os.path.join(folder, self._eyes[0], "*_10.png"))
        frames = "*_10.png" if named else "*.png"
        images = [os.path.join(folder, name, frames) for name in self._eyes]
        truths = [os.path.join(folder, name, "*.png") for name in self._truths]
        self._add(*images, *(truths if split == "train" else ()))

    def _read_disparity(self, file_path: str) -> tuple[Any, Any]:
        return _levels(file_path, 256.0), None


class Kitti2015Stereo(Kitti2012Stereo):
    """Streets seen from a car, of the benchmark of 2015.

    Args:
        root: the folder that holds `Kitti2015`.
        split: "train" or "test"; the latter has no disparities.
        transforms: a function of pairs of images, disparities and masks.
    """

    _home, _eyes = "Kitti2015", ("image_2", "image_3")
    _truths: tuple[str, ...] = ("disp_occ_0", "disp_occ_1")


class SintelStereo(StereoMatchingDataset):
    """Scenes of a film, with masks of what both eyes see.

    Args:
        root: the folder that holds `Sintel`.
        pass_name: "final", "clean" or "both": with or without blur and fog.
        transforms: a function of pairs of images, disparities and masks.
    """

    _has_built_in_disparity_mask = True

    def __init__(
        self, root: Path, pass_name: str = "final", transforms: Callable | None = None
    ) -> None:
        super().__init__(root, transforms)
        verify_str_arg(pass_name, "pass_name", valid_values=("final", "clean", "both"))
        folder = os.path.join(root, "Sintel", "training")
        truth = os.path.join(folder, "disparities", "*", "*.png")
        for name in ("final", "clean") if pass_name == "both" else (pass_name,):
            left, right = (os.path.join(folder, f"{name}_{s}", "*", "*.png") for s in _SIDES)
            self._add(left, right, truth)

    def _read_disparity(self, file_path: str) -> tuple[Any, Any]:
        # as the dataset's own readers say: red counts 4 pixels, green 64ths, blue 2**-14ths
        colours = numpy.asarray(open_image(file_path, "RGB")).astype(numpy.float32)
        disparity = colours @ numpy.array([4, 2**-6, 2**-14], numpy.float32)
        scene, name = file_path.split(os.sep)[-2:]
        folder = os.path.dirname(os.path.dirname(os.path.dirname(file_path)))
        hidden = [os.path.join(folder, kind, scene, name) for kind in ("occlusions", "outofframe")]
        for path in hidden:
            if not os.path.exists(path):
                raise FileNotFoundError(f"Mask {path} of {file_path} does not exist")
        seen = [numpy.asarray(open_image(path)) == 0 for path in hidden]
        return disparity[None], seen[0] & seen[1]


class InStereo2k(StereoMatchingDataset):
    """Rooms.

    Args:
        root: the folder that holds `InStereo2k`.
        split: "train" or "test".
        transforms: a function of pairs of images, disparities and masks.
    """

    def __init__(
        self, root: Path, split: str = "train", transforms: Callable | None = None
    ) -> None:
        super().__init__(root, transforms)
        verify_str_arg(split, "split", valid_values=("train", "test"))
        scene = os.path.join(root, "InStereo2k", split, "*")
        images = [os.path.join(scene, f"{side}.png") for side in _SIDES]
        self._add(*images, *(os.path.join(scene, f"{side}_disp.png") for side in _SIDES))

    def _read_disparity(self, file_path: str) -> tuple[Any, Any]:
        return _levels(file_path, 1024.0), None


class CREStereo(StereoMatchingDataset):
    """Rendered trees, shapes, mirrors and holes, which the CREStereo network was trained on.

    Args:
        root: the folder that holds `CREStereo`.
        transforms: a function of pairs of images, disparities and masks.
    """

    _has_built_in_disparity_mask = True

    def __init__(self, root: Path, transforms: Callable | None = None) -> None:
        super().__init__(root, transforms)
        for kind in ("shapenet", "reflective", "tree", "hole"):
            folder = os.path.join(root, "CREStereo", kind)
            images = [os.path.join(folder, f"*_{side}.jpg") for side in _SIDES]
            self._add(*images, *(os.path.join(folder, f"*_{side}.disp.*") for side in _SIDES))

    def _read_disparity(self, file_path: str) -> tuple[Any, Any]:
        return _levels(file_path, 32.0), None


class FallingThingsStereo(StereoMatchingDataset):
    """Household objects that fall; disparities follow from depths and the camera's settings.

    Args:
        root: the folder that holds `FallingThings`.
        variant: "single" objects, "mixed" ones or "both".
        transforms: a function of pairs of images, disparities and masks.
    """

    _BASELINE = 6.0  # centimetres between the eyes; depths are hundredths of one

    def __init__(
        self, root: Path, variant: str = "single", transforms: Callable | None = None
    ) -> None:
        super().__init__(root, transforms)
        verify_str_arg(variant, "variant", valid_values=("single", "mixed", "both"))
        for kind in ("single", "mixed") if variant == "both" else (variant,):
            below = ("*", "*") if kind == "single" else ("*",)
            scene = os.path.join(root, "FallingThings", kind, *below)
            images = [os.path.join(scene, f"*.{side}.jpg") for side in _SIDES]
            self._add(*images, *(os.path.join(scene, f"*.{side}.depth.png") for side in _SIDES))

    def _read_disparity(self, file_path: str) -> tuple[Any, Any]:
        depth = numpy.asarray(open_image(file_path)).astype(numpy.float32)
        with open(os.path.join(os.path.dirname(file_path), "_camera_settings.json")) as file:
            settings = json.load(file)
        focal = settings["camera_settings"][0]["intrinsic_settings"]["fx"]
        with numpy.errstate(divide="ignore"):
            return (self._BASELINE * focal * 100 / depth).astype(numpy.float32)[None], None


class SceneFlowStereo(StereoMatchingDataset):
    """Rendered scenes of three kinds.

    Args:
        root: the folder that holds `SceneFlow`.
        variant: "FlyingThings3D", "Driving" or "Monkaa".
        pass_name: "clean", "final" or "both": without or with blur and fog.
        transforms: a function of pairs of images, disparities and masks.
    """

    _BELOW = {"Monkaa": 1, "FlyingThings3D": 3, "Driving": 3}  # folders above those of the eyes

    def __init__(
        self,
        root: Path,
        variant: str = "FlyingThings3D",
        pass_name: str = "clean",
        transforms: Callable | None = None,
    ) -> None:
        super().__init__(root, transforms)
        verify_str_arg(variant, "variant", valid_values=("FlyingThings3D", "Driving", "Monkaa"))
        verify_str_arg(pass_name, "pass_name", valid_values=("clean", "final", "both"))
        folder = os.path.join(root, "SceneFlow", variant)
        below = ("*",) * self._BELOW[variant]
        for name in ("clean", "final") if pass_name == "both" else (pass_name,):
            frames = os.path.join(folder, f"frames_{name}pass", *below)
            truths = os.path.join(folder, "disparity", *below)
            images = [os.path.join(frames, side, "*.png") for side in _SIDES]
            self._add(*images, *(os.path.join(truths, side, "*.pfm") for side in _SIDES))

    def _read_disparity(self, file_path: str) -> tuple[Any, Any]:
        return numpy.abs(read_pfm(file_path)), None


class ETH3DStereo(StereoMatchingDataset):
    """Pairs of grey images in low resolution, with masks of what both eyes see.

    Args:
        root: the folder that holds `ETH3D`.
        split: "train" or "test"; the latter has no disparities.
        transforms: a function of pairs of images, disparities and masks.
    """

    _has_built_in_disparity_mask = True

    def __init__(
        self, root: Path, split: str = "train", transforms: Callable | None = None
    ) -> None:
        super().__init__(root, transforms)
        verify_str_arg(split, "split", valid_values=("train", "test"))
        folder = os.path.join(root, "ETH3D")
        scene = os.path.join(folder, f"two_view_{split}ing", "*")
        truths = [os.path.join(folder, "two_view_training_gt", "*", "disp0GT.pfm")]
        images = [os.path.join(scene, f"im{side}.png") for side in (0, 1)]
        self._add(*images, *(truths if split == "train" else ()))

    def _read_disparity(self, file_path: str) -> tuple[Any, Any]:
        mask = open_image(os.path.join(os.path.dirname(file_path), "mask0nocc.png"))
        return numpy.abs(read_pfm(file_path)), numpy.asarray(mask).astype(bool)


_MIDDLEBURY = "https://vision.middlebury.edu/stereo"
_CALIBRATIONS = {"both": ("-perfect", "-imperfect"), None: ("",)}


class Middlebury2014Stereo(StereoMatchingDataset):
    """Still lifes in high resolution; https://vision.middlebury.edu/stereo/data/scenes2014.

    Args:
        root: the folder that holds or will hold `Middlebury2014`.
        split: "train", "additional" or "test"; the last has no disparities.
        calibration: "perfect", "imperfect" or "both"; None for the test split.
        use_ambient_views: let the right image be, now and then, one in other light.
        transforms: a function of pairs of images, disparities and masks.
        download: bring the scenes that are not there.
    """

    _has_built_in_disparity_mask = True
    splits = {
        "train": (
            "Adirondack Jadeplant Motorcycle Piano Pipes Playroom Playtable Recycle Shelves Vintage"
        ).split(),
        "additional": (
            "Backpack Bicycle1 Cable Classroom1 Couch Flowers Mask Shopvac Sticks Storage Sword1 "
            "Sword2 Umbrella"
        ).split(),
        "test": (
            "Plants Classroom2E Classroom2 Australia DjembeL CrusadeP Crusade Hoops Bicycle2 "
            "Staircase Newkuba AustraliaP Djembe Livingroom Computer"
        ).split(),
    }

    def __init__(
        self,
        root: Path,
        split: str = "train",
        calibration: str | None = "perfect",
        use_ambient_views: bool = False,
        transforms: Callable | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transforms)
        verify_str_arg(split, "split", valid_values=("train", "test", "additional"))
        if calibration is not None:
            kinds = ("perfect", "imperfect", "both")
            verify_str_arg(calibration, "calibration", valid_values=kinds)
            if split == "test":
                raise ValueError(
                    "Split 'test' has only no calibration settings, please set it to None."
                )
        elif split != "test":
            raise ValueError(
                f"Split '{split}' has calibration settings, however None was provided as an "
                "argument. Available are 'perfect', 'imperfect' and 'both'."
            )
        self.split, self.use_ambient_views = split, use_ambient_views
        self._home = os.path.join(root, "Middlebury2014")
        self._kinds = _CALIBRATIONS.get(calibration) or (f"-{calibration}",)
        if download:
            self._download()
        if not os.path.exists(os.path.join(self._home, split)):
            raise FileNotFoundError(
                f"The {split} directory was not found in the provided root directory {self._home}"
            )
        there = set(os.listdir(os.path.join(self._home, split)))
        if not any(scene + kind in there for scene in self.splits[split] for kind in self._kinds):
            raise FileNotFoundError(f"Provided root folder does not contain any {split} scenes.")
        for kind in self._kinds:
            scene = os.path.join(self._home, split, f"*{kind}")
            names = ["im0.png", "im1.png", *(("disp0.pfm", "disp1.pfm") if split != "test" else ())]
            self._add(*(os.path.join(scene, name) for name in names))

    def _read_img(self, file_path: Path) -> Any:
        """The image, or one of its kin in other light."""
        folder, name = os.path.split(file_path)
        if self.use_ambient_views and name == "im1.png":
            kin = [os.path.join(folder, other) for other in ("im1E.png", "im1L.png")]
            file_path = random.choice([file_path, *filter(os.path.exists, kin)])
        return super()._read_img(file_path)

    def _read_disparity(self, file_path: str) -> tuple[Any, Any]:
        disparity = numpy.abs(read_pfm(file_path))
        disparity[numpy.isinf(disparity)] = 0  # where nothing is known
        return disparity, (disparity > 0).squeeze(0)

    def _download(self) -> None:
        folder = os.path.join(self._home, self.split)
        os.makedirs(folder, exist_ok=True)
        wanted = [scene + kind for scene in self.splits[self.split] for kind in self._kinds]
        missing = [name for name in wanted if not os.path.exists(os.path.join(folder, name))]
        if self.split != "test":
            for name in missing:
                address = f"{_MIDDLEBURY}/data/scenes2014/zip/{name}.zip"
                download_and_extract_archive(address, folder, remove_finished=True)
        elif missing:
            address = f"{_MIDDLEBURY}/submit3/zip/MiddEval3-data-F.zip"
            download_and_extract_archive(address, self._home, remove_finished=True)
            inner = os.path.join(self._home, "MiddEval3")
            for name in missing:
                shutil.move(os.path.join(inner, "testF", name), os.path.join(folder, name))
            shutil.rmtree(inner)
