"""iNaturalist: photographs of living things, by their place in the system of nature."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import download_and_extract_archive, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

CATEGORIES_2021 = ["kingdom", "phylum", "class", "order", "family", "genus"]
_ADDRESS = "https://ml-inat-competition-datasets.s3.amazonaws.com/"
DATASET_URLS = {
    "2017": f"{_ADDRESS}2017/train_val_images.tar.gz",
    "2018": f"{_ADDRESS}2018/train_val2018.tar.gz",
    "2019": f"{_ADDRESS}2019/train_val2019.tar.gz",
    "2021_train": f"{_ADDRESS}2021/train.tar.gz",
    "2021_train_mini": f"{_ADDRESS}2021/train_mini.tar.gz",
    "2021_valid": f"{_ADDRESS}2021/val.tar.gz",
}
DATASET_MD5 = {
    "2017": "7c784ea5e424efaec655bd392f87301f",
    "2018": "b1c6952ce38f31868cc50ea72d066cc3",
    "2019": "c60a6e2962c9b8ccbd458d12c8582644",
    "2021_train": "e0526d53c7f7b2e3167b2b43bb2690ed",
    "2021_train_mini": "db6ed8330e634445efc8fec83ae81442",
    "2021_valid": "f6f6e0e242e3d4c9569ba56400938afc",
}


class INaturalist(VisionDataset):
    """Photographs of species, with one or several kinds of targets.

    Args:
        root: the folder that holds or will hold one folder for each version.
        version: "2017", "2018", "2019", "2021_train", "2021_train_mini" or "2021_valid".
        target_type: for 2021 "full" (the species), "kingdom", "phylum", "class", "order",
            "family" or "genus"; before "full" (a number) or "super"; or a list of them.
        transform: a function of a PIL image.
        target_transform: a function of a target.
        download: bring the archive; an error if the folder is there.
        loader: a function of a path that reads the image.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        version: str = "2021_train",
        target_type: list[str] | str = "full",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
        loader: Callable[[Any], Any] | None = None,
    ) -> None:
        self.version = verify_str_arg(version, "version", DATASET_URLS.keys())
        home = os.path.join(root, version)
        super().__init__(home, transform=transform, target_transform=target_transform)
        os.makedirs(root, exist_ok=True)
        if download:
            self.download()
        if not self._check_exists():
            raise RuntimeError(
                f"Dataset not found or corrupted in {self.root}. You can use download=True to "
                "download it"
            )
        kinds = target_type if isinstance(target_type, list) else [target_type]
        known = ["full", *CATEGORIES_2021] if version.startswith("2021") else ["full", "super"]
        self.target_type = [verify_str_arg(kind, "target_type", known) for kind in kinds]
        self.all_categories: list[str] = []
        self.categories_index: dict[str, dict[str, int]] = {}
        self.categories_map: list[dict[str, int]] = []
        (self._init_2021 if version.startswith("2021") else self._init_pre2021)()
        self.index = [
            (number, name)
            for number, folder in enumerate(self.all_categories)
            for name in os.listdir(os.path.join(self.root, folder))
        ]
        self._loader = loader or default_loader

    def _init_2021(self) -> None:
        """Folders such as 00001_Animalia_Annelida_..._terrestris: the path in the system."""
        self.all_categories = sorted(os.listdir(self.root))
        self.categories_index = {kind: {} for kind in CATEGORIES_2021}
        for folder in self.all_categories:
            names = folder.split("_")[1:]
            if len(names) != 7:
                raise RuntimeError(f"Unexpected category name {folder}, wrong number of pieces")
            place = {}
            for kind, name in zip(CATEGORIES_2021, names):
                index = self.categories_index[kind]
                place[kind] = index.setdefault(name, len(index))
            self.categories_map.append(place)

    def _init_pre2021(self) -> None:
        """Folders of large groups, with folders of species, which are numbers or names."""
        self.categories_index = {"super": {}}
        found: dict[int, tuple[str, dict[str, int]]] = {}
        for group in sorted(os.listdir(self.root)):
            number = self.categories_index["super"].setdefault(
                group, len(self.categories_index["super"])
            )
            for species in sorted(os.listdir(os.path.join(self.root, group))):
                if self.version == "2017":
                    place = len(found)
                else:
                    place = self._number(species)
                if place in found:
                    raise RuntimeError(f"Duplicate category {self.all_categories[place]}")
                found[place] = (os.path.join(group, species), {"super": number})
        for place in range(max(found, default=-1) + 1):
            if place not in found:
                raise RuntimeError(f"Missing category {place}")
            self.all_categories.append(found[place][0])
            self.categories_map.append(found[place][1])

    @staticmethod
    def _number(text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise RuntimeError(f"Unexpected non-numeric dir name: {text}") from None

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        number, name = self.index[index]
        image = self._loader(os.path.join(self.root, self.all_categories[number], name))
        targets = tuple(
            number if kind == "full" else self.categories_map[number][kind]
            for kind in self.target_type
        )
        return self._transformed(image, targets if len(targets) > 1 else targets[0])

    def __len__(self) -> int:
        return len(self.index)

    def category_name(self, category_type: str, category_id: int) -> str:
        """The name of a class: a species ("full") or a group."""
        if category_type == "full":
            return self.all_categories[category_id]
        if category_type not in self.categories_index:
            raise ValueError(f"Invalid category type '{category_type}'")
        names = list(self.categories_index[category_type])  # in the order of their numbers
        if category_id not in range(len(names)):
            raise ValueError(f"Invalid category id {category_id} for {category_type}")
        return names[category_id]

    def _check_exists(self) -> bool:
        return os.path.exists(self.root) and len(os.listdir(self.root)) > 0

    def download(self) -> None:
        """Bring the archive, and give its folder the name of the version."""
        if self._check_exists():
            return
        above, address = os.path.split(self.root)[0], DATASET_URLS[self.version]
        download_and_extract_archive(address, above, filename=f"{self.version}.tgz",
                                     md5=DATASET_MD5[self.version])  # fmt: skip
        made = pathlib.Path(above, address.rpartition("/")[2].removesuffix(".tar.gz"))
        if not made.is_dir():
            raise RuntimeError(f"Unable to find downloaded files at {made}")
        made.rename(self.root)
