"""Pairs of frames and how pixels move between them: Sintel, KittiFlow, HD1K and others.

Flow is an array (2, height, width), x first. Where a dataset knows which pixels have one, a mask
comes with it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from glob import glob
from itertools import pairwise, product
from typing import Any

import numpy

from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.io import ImageReadMode, read_image

__all__ = ("HD1K", "FlyingChairs", "FlyingThings3D", "KittiFlow", "Sintel")

Path = str | os.PathLike[str]


class FlowDataset(VisionDataset):
    """Pairs of images, and flows; the last are None where nothing is known."""

    _has_builtin_flow_mask = False

    def __init__(
        self,
        root: Path,
        transforms: Callable | None = None,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        super().__init__(root=root)
        self.transforms: Any = transforms
        self._flow_list: list[str] = []
        self._image_list: list[list[str]] = []
        self._loader = loader

    def _read_flow(self, file_name: str) -> Any:
        return _read_flo(file_name)

    def __getitem__(self, index: int) -> Any:
        first, second = (self._loader(path) for path in self._image_list[index])
        flow = mask = None
        if self._flow_list:
            found = self._read_flow(self._flow_list[index])
            flow, mask = found if self._has_builtin_flow_mask else (found, None)
        if self.transforms is not None:
            first, second, flow, mask = self.transforms(first, second, flow, mask)
        if self._has_builtin_flow_mask or mask is not None:
            return first, second, flow, mask
        return first, second, flow

    def __len__(self) -> int:
        return len(self._image_list)


class Sintel(FlowDataset):
    """Scenes of a film; https://sintel.is.tue.mpg.de.

    Args:
        root: the folder that holds `Sintel`.
        split: "train" or "test"; the latter has no flow.
        pass_name: "clean", "final" or "both": without or with blur and fog.
        transforms: a function of two images, flow and mask.
    """

    def __init__(
        self,
        root: Path,
        split: str = "train",
        pass_name: str = "clean",
        transforms: Callable | None = None,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        super().__init__(root, transforms, loader)
        verify_str_arg(split, "split", ("train", "test"))
        verify_str_arg(pass_name, "pass_name", ("clean", "final", "both"))
        home = os.path.join(self.root, "Sintel")
        part = os.path.join(home, "training" if split == "train" else "test")
        for kind in ("clean", "final") if pass_name == "both" else (pass_name,):
            for scene in sorted(os.listdir(os.path.join(part, kind))):
                frames = sorted(glob(os.path.join(part, kind, scene, "*.png")))
                self._image_list += [list(pair) for pair in pairwise(frames)]
                if split == "train":
                    self._flow_list += sorted(
                        glob(os.path.join(home, "training", "flow", scene, "*.flo"))
                    )


class KittiFlow(FlowDataset):
    """Streets from a car (2015), with flow where a laser saw something.

    Args:
        root: the folder that holds `KittiFlow`.
        split: "train" or "test"; the latter has no flow.
    """

    _has_builtin_flow_mask = True

    def __init__(
        self,
        root: Path,
        split: str = "train",
        transforms: Callable | None = None,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        super().__init__(root, transforms, loader)
        verify_str_arg(split, "split", ("train", "test"))
        part = os.path.join(self.root, "KittiFlow", f"{split}ing")
        before = sorted(glob(os.path.join(part, "image_2", "*_10.png")))
        after = sorted(glob(os.path.join(part, "image_2", "*_11.png")))
        if not before or not after:
            raise FileNotFoundError(
                "Could not find the Kitti flow images. Please make sure the directory structure is "
                "correct."
            )
        self._image_list = [list(pair) for pair in zip(before, after, strict=True)]
        if split == "train":
            self._flow_list = sorted(glob(os.path.join(part, "flow_occ", "*_10.png")))

    def _read_flow(self, file_name: str) -> Any:
        return _read_png_flow(file_name)


class FlyingChairs(FlowDataset):
    """Drawn chairs over photographs.

    Args:
        root: the folder that holds `FlyingChairs`.
        split: "train" or "val".
    """

    def __init__(
        self, root: Path, split: str = "train", transforms: Callable | None = None
    ) -> None:
        super().__init__(root, transforms)
        verify_str_arg(split, "split", ("train", "val"))
        home = os.path.join(self.root, "FlyingChairs")
        images = sorted(glob(os.path.join(home, "data", "*.ppm")))
        flows = sorted(glob(os.path.join(home, "data", "*.flo")))
        table = os.path.join(home, "FlyingChairs_train_val.txt")
        if not os.path.exists(table):
            raise FileNotFoundError(
                "The FlyingChairs_train_val.txt file was not found - please download it from the "
                "dataset page (see docstring)."
            )
        parts = numpy.loadtxt(table, dtype=numpy.int32, ndmin=1)
        wanted = 1 if split == "train" else 2
        for number in range(len(flows)):
            if parts[number] == wanted:
                self._flow_list.append(flows[number])
                self._image_list.append(images[2 * number : 2 * number + 2])


class FlyingThings3D(FlowDataset):
    """Drawn things that fly about; both directions of time, two cameras.

    Args:
        root: the folder that holds `FlyingThings3D`.
        split: "train" or "test".
        pass_name: "clean", "final" or "both": without or with blur and depth of field.
        camera: "left", "right" or "both".
        transforms: a function of two images, flow and mask.
    """

    def __init__(
        self,
        root: Path,
        split: str = "train",
        pass_name: str = "clean",
        camera: str = "left",
        transforms: Callable | None = None,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        super().__init__(root, transforms, loader)
        verify_str_arg(split, "split", ("train", "test"))
        verify_str_arg(pass_name, "pass_name", ("clean", "final", "both"))
        verify_str_arg(camera, "camera", ("left", "right", "both"))
        home, part = os.path.join(self.root, "FlyingThings3D"), split.upper()
        kinds = ("clean", "final") if pass_name == "both" else (pass_name,)
        cameras = ("left", "right") if camera == "both" else (camera,)
        for kind, eye, way in product(kinds, cameras, ("into_future", "into_past")):
            frames = os.path.join(home, f"frames_{kind}pass", part, "*", "*", eye)
            flows = os.path.join(home, "optical_flow", part, "*", "*", way, eye)
            self._add(sorted(glob(frames)), sorted(glob(flows)), way == "into_past")
        if not self._image_list:
            raise FileNotFoundError(
                "Could not find the FlyingThings3D flow images. Please make sure the directory "
                "structure is correct."
            )

    def _add(self, frames: list[str], flows: list[str], backwards: bool) -> None:
        """Neighbours in folders of frames; backwards: the later one first, with its own flow."""
        for folder, moves in zip(frames, flows):
            pairs = pairwise(sorted(glob(os.path.join(folder, "*.png"))))
            files = sorted(glob(os.path.join(moves, "*.pfm")))
            for number, pair in enumerate(pairs):
                self._image_list.append(list(pair)[:: -1 if backwards else 1])
                self._flow_list.append(files[number + backwards])

    def _read_flow(self, file_name: str) -> Any:
        return read_pfm(file_name)[:2]


class HD1K(FlowDataset):
    """Streets from a car, with flow where lasers and surveyors saw something.

    Args:
        root: the folder that holds `hd1k`.
        split: "train" or "test"; the latter has no flow.
        transforms: a function of two images, flow and mask.
    """

    _has_builtin_flow_mask = True
    _SEQUENCES = 36

    def __init__(
        self,
        root: Path,
        split: str = "train",
        transforms: Callable | None = None,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        super().__init__(root, transforms, loader)
        verify_str_arg(split, "split", ("train", "test"))
        home = os.path.join(self.root, "hd1k")
        if split == "train":
            for number in range(self._SEQUENCES):
                name = f"{number:06d}_*.png"
                frames = sorted(glob(os.path.join(home, "hd1k_input", "image_2", name)))
                flows = sorted(glob(os.path.join(home, "hd1k_flow_gt", "flow_occ", name)))
                self._image_list += [list(pair) for pair in pairwise(frames)]
                self._flow_list += flows[:-1]
        else:
            folder = os.path.join(home, "hd1k_challenge", "image_2")
            before, after = (sorted(glob(os.path.join(folder, f"*{n}.png"))) for n in (10, 11))
            self._image_list = [list(pair) for pair in zip(before, after)]
        if not self._image_list:
            raise FileNotFoundError(
                "Could not find the HD1K images. Please make sure the directory structure is "
                "correct."
            )

    def _read_flow(self, file_name: str) -> Any:
        return _read_png_flow(file_name)


def _read_png_flow(file_name: str) -> Any:
    """64ths of pixels around 2**15 in a picture of 16 bits; blue says where they are known."""
    values = read_image(file_name, ImageReadMode.UNCHANGED).float()
    return ((values[:2] - 2**15) / 64).numpy(), values[2].bool().numpy()


def read_pfm(file_name: str) -> Any:
    """Floats as (channels, height, width): `PF` or `Pf`, two sizes, a scale; bottom row first."""
    with open(file_name, "rb") as file:
        kind = file.readline().rstrip()
        if kind not in (b"PF", b"Pf"):
            raise ValueError("Invalid PFM file")
        sizes = re.fullmatch(rb"(\d+)\s(\d+)\s", file.readline())
        if sizes is None:
            raise ValueError("Malformed PFM header.")
        width, height = map(int, sizes.groups())
        order = "<" if float(file.readline()) < 0 else ">"
        channels = 3 if kind == b"PF" else 1
        values = numpy.frombuffer(file.read(4 * channels * width * height), f"{order}f4")
    rows = values.reshape(height, width, channels)
    return numpy.flip(rows, axis=0).transpose(2, 0, 1).astype(numpy.float32)


def _read_flo(file_name: str) -> Any:
    """Middlebury's format: a mark, width and height, then x and y of every pixel."""
    with open(file_name, "rb") as file:
        if file.read(4) != b"PIEH":
            raise ValueError("Magic number incorrect. Invalid .flo file")
        width, height = (int(n) for n in numpy.frombuffer(file.read(8), "<i4"))
        values = numpy.frombuffer(file.read(8 * width * height), "<f4")
    return values.reshape(height, width, 2).transpose(2, 0, 1)
