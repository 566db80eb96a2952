"""Flowers102: 8,189 photographs of flowers that grow in Britain."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.fetched import NOT_FOUND, ensure
from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.mat_files import read_mat
from flambeau.vision.datasets.utils import (
    check_integrity,
    download_and_extract_archive,
    download_url,
    verify_str_arg,
)
from flambeau.vision.datasets.vision import VisionDataset

_NAMES = """pink primrose, hard-leaved pocket orchid, canterbury bells, sweet pea, english marigold,
tiger lily, moon orchid, bird of paradise, monkshood, globe thistle, snapdragon, colt's foot,
king protea, spear thistle, yellow iris, globe-flower, purple coneflower, peruvian lily,
balloon flower, giant white arum lily, fire lily, pincushion flower, fritillary, red ginger,
grape hyacinth, corn poppy, prince of wales feathers, stemless gentian, artichoke, sweet william,
carnation, garden phlox, love in the mist, mexican aster, alpine sea holly, ruby-lipped cattleya,
cape flower, great masterwort, siam tulip, lenten rose, barbeton daisy, daffodil, sword lily,
poinsettia, bolero deep blue, wallflower, marigold, buttercup, oxeye daisy, common dandelion,
petunia, wild pansy, primula, sunflower, pelargonium, bishop of llandaff, gaura, geranium,
orange dahlia, pink-yellow dahlia?, cautleya spicata, japanese anemone, black-eyed susan,
silverbush, californian poppy, osteospermum, spring crocus, bearded iris, windflower, tree poppy,
gazania, azalea, water lily, rose, thorn apple, morning glory, passion flower, lotus, toad lily,
anthurium, frangipani, clematis, hibiscus, columbine, desert-rose, tree mallow, magnolia, cyclamen,
watercress, canna lily, hippeastrum, bee balm, ball moss, foxglove, bougainvillea, camellia, mallow,
mexican petunia, bromelia, blanket flower, trumpet creeper, blackberry lily"""


class Flowers102(VisionDataset):
    """Flowers of 102 kinds (the lists are read with scipy).

    Args:
        root: the folder that holds or will hold `flowers-102`.
        split: "train", "val" or "test".
        transform: a function of what the loader gives, by default a PIL image.
        target_transform: a function of a class number.
        download: bring the archive and the lists.
        loader: a function of a path that reads the image.
    """

    _download_url_prefix = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/"
    _file_dict = {
        "image": ("102flowers.tgz", "52808999861908f626f3c1f4e79d11fa"),
        "label": ("imagelabels.mat", "e0620be6f572b9609742df49c70aed4d"),
        "setid": ("setid.mat", "a5357ecc9cb78c4bef273ce3793fc85c"),
    }
    _splits_map = {"train": "trnid", "val": "valid", "test": "tstid"}
    classes = _NAMES.replace("\n", " ").split(", ")

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
        loader: Callable[[Any], Any] = default_loader,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self._split = verify_str_arg(split, "split", ("train", "val", "test"))
        self._base_folder = pathlib.Path(self.root, "flowers-102")
        self._images_folder = self._base_folder / "jpg"
        fetch = self.download if download else None
        ensure(fetch, self._check_integrity, f"put its files into {self._base_folder}", NOT_FOUND)
        sets = read_mat(self._base_folder / self._file_dict["setid"][0], squeeze_me=True)
        labels = read_mat(self._base_folder / self._file_dict["label"][0], squeeze_me=True)
        numbers = sets[self._splits_map[split]].tolist()
        self._labels = [int(labels["labels"][number - 1]) - 1 for number in numbers]
        self._image_files = [self._images_folder / f"image_{number:05d}.jpg" for number in numbers]
        self.loader = loader

    def __len__(self) -> int:
        return len(self._image_files)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        return self._transformed(self.loader(self._image_files[idx]), self._labels[idx])

    def extra_repr(self) -> str:
        return f"split={self._split}"

    def _check_integrity(self) -> bool:
        lists = (self._file_dict[kind] for kind in ("label", "setid"))
        return self._images_folder.is_dir() and all(
            check_integrity(str(self._base_folder / name), md5) for name, md5 in lists
        )

    def download(self) -> None:
        """Bring the archive and the lists, unless they are there."""
        if self._check_integrity():
            return
        home = str(self._base_folder)
        for kind, (name, md5) in self._file_dict.items():
            bring = download_and_extract_archive if kind == "image" else download_url
            bring(self._download_url_prefix + name, home, md5=md5)
