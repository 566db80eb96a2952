"""MNIST and its relatives: small gray pictures of digits, letters and clothes, in IDX files.

A dataset lives in `<root>/<class name>/raw`. The files may lie there compressed, as they come from
the mirrors, or unpacked; `download=True` brings what is missing.
"""

from __future__ import annotations

import os
import shutil
import string
import warnings
from collections.abc import Callable
from typing import Any
from urllib.error import URLError

import flambeau as torch
from flambeau import Tensor
from flambeau.vision.datasets.idx import SN3_PASCALVINCENT_TYPEMAP as SN3_PASCALVINCENT_TYPEMAP
from flambeau.vision.datasets.idx import get_int as get_int
from flambeau.vision.datasets.idx import (
    read_image_file,
    read_label_file,
    read_sn3_pascalvincent_tensor,
)
from flambeau.vision.datasets.tensor_images import TensorImages
from flambeau.vision.datasets.utils import (
    check_integrity,
    download_and_extract_archive,
    extract_archive,
    verify_str_arg,
)
from flambeau.vision.pillow import from_array

Path = str | os.PathLike[str]
_DIGITS = "zero one two three four five six seven eight nine".split()


class MNIST(TensorImages):
    """70,000 handwritten digits, 28 by 28 pixels.

    Args:
        root: the folder that holds or will hold `MNIST/raw`.
        train: the 60,000 for training, or the 10,000 for testing.
        transform: a function of a PIL image.
        target_transform: a function of a label.
        download: bring the files that are not there yet.
    """

    mirrors = [
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "http://yann.lecun.com/exdb/mnist/",
    ]
    resources: Any = [
        ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
        ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
        ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
    ]
    training_file = "training.pt"
    test_file = "test.pt"
    classes = [f"{number} - {word}" for number, word in enumerate(_DIGITS)]

    def __init__(
        self,
        root: Path,
        train: bool = True,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        if self._check_legacy_exist():
            self.data, self.targets = self._load_legacy_data()
            return
        if download:
            self.download()
        if not self._check_exists():
            raise RuntimeError(
                "Dataset not found. You can use download=True to download it, or put "
                f"{' and '.join(self._wanted())} into {self.raw_folder}"
            )
        self.data, self.targets = self._load_data()
        if len(self.data) != len(self.targets):
            raise RuntimeError(
                f"{self.raw_folder} holds {len(self.data)} images and {len(self.targets)} labels; "
                "delete these files and fetch them again"
            )

    # what the attributes were called in old versions
    @property
    def train_labels(self) -> Tensor:
        warnings.warn("train_labels has been renamed targets", stacklevel=2)
        return self.targets

    @property
    def test_labels(self) -> Tensor:
        warnings.warn("test_labels has been renamed targets", stacklevel=2)
        return self.targets

    @property
    def train_data(self) -> Tensor:
        warnings.warn("train_data has been renamed data", stacklevel=2)
        return self.data

    @property
    def test_data(self) -> Tensor:
        warnings.warn("test_data has been renamed data", stacklevel=2)
        return self.data

    def _check_legacy_exist(self) -> bool:
        """Old versions of torchvision kept the tensors themselves, in files of torch.save."""
        names = (self.training_file, self.test_file)
        return all(check_integrity(os.path.join(self.processed_folder, name)) for name in names)

    def _load_legacy_data(self) -> tuple[Tensor, Tensor]:
        name = self.training_file if self.train else self.test_file
        path = os.path.join(self.processed_folder, name)
        data, targets = torch.load(path, weights_only=True)
        return data, targets

    def _load_data(self) -> tuple[Tensor, Tensor]:
        prefix = "train" if self.train else "t10k"
        images = self._file(f"{prefix}-images-idx3-ubyte")
        labels = self._file(f"{prefix}-labels-idx1-ubyte")
        return read_image_file(images), read_label_file(labels)

    @property
    def raw_folder(self) -> str:
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def processed_folder(self) -> str:
        return os.path.join(self.root, type(self).__name__, "processed")

    def _file(self, name: str) -> str:
        """The path of a file, unpacked if it is there, else compressed."""
        path = os.path.join(self.raw_folder, name)
        packed = [path + suffix for suffix in (".gz", ".xz")]
        return next((other for other in [path, *packed] if os.path.isfile(other)), path)

    def _wanted(self) -> list[str]:
        """The names of the files that this dataset is made of, as they are on the mirrors."""
        return [os.path.basename(url) for url, _ in self.resources]

    def _check_exists(self) -> bool:
        names = (os.path.splitext(name)[0] for name in self._wanted())
        return all(check_integrity(self._file(name)) for name in names)

    def _all_unpacked(self) -> bool:
        """Are all files there and unpacked? Packed ones have checksums that are to be compared."""
        names = (os.path.splitext(name)[0] for name in self._wanted())
        return all(os.path.isfile(os.path.join(self.raw_folder, name)) for name in names)

    def download(self) -> None:
        """Bring the files that are not there yet, and unpack them."""
        if self._all_unpacked():
            return
        os.makedirs(self.raw_folder, exist_ok=True)
        for filename, md5 in self.resources:
            errors: list[str] = []
            for mirror in self.mirrors:
                try:
                    download_and_extract_archive(
                        f"{mirror}{filename}", self.raw_folder, filename=filename, md5=md5
                    )
                    break
                except (RuntimeError, URLError) as error:
                    errors.append(f"Tried {mirror}, got:\n{error}\n")
            else:
                raise RuntimeError(
                    f"Error downloading {filename}:\n{''.join(errors)}"
                    f"Without a network, fetch {', '.join(self._wanted())} elsewhere and put them "
                    f"into {os.path.abspath(self.raw_folder)}"
                )

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train is True else 'Test'}"


class FashionMNIST(MNIST):
    """70,000 articles of clothing in the format of MNIST; the arguments are those of `MNIST`."""

    mirrors = ["http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"]
    resources = [
        ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
        ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
        ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
    ]
    classes = [
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ]


class KMNIST(MNIST):
    """70,000 characters of cursive Japanese in the format of MNIST, with its arguments."""

    mirrors = ["http://codh.rois.ac.jp/kmnist/dataset/kmnist/"]
    resources = [
        ("train-images-idx3-ubyte.gz", "bdb82020997e1d708af4cf47b453dcf7"),
        ("train-labels-idx1-ubyte.gz", "e144d726b3acfaa3e44228e80efcd344"),
        ("t10k-images-idx3-ubyte.gz", "5c965bf0a639b31b8f53240b1b52f4d7"),
        ("t10k-labels-idx1-ubyte.gz", "7320c461ea6c1c855c0b718fb2a4b134"),
    ]
    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]


class EMNIST(MNIST):
    """Handwritten letters and digits, in six selections.

    Args:
        root: the folder that holds or will hold `EMNIST/raw`.
        split: "byclass", "bymerge", "balanced", "letters", "digits" or "mnist".
        **kwargs: the other arguments of `MNIST`.
    """

    url = "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip"
    md5 = "58c8d27c78d21e728a6bc7b3cc06412e"
    splits = ("byclass", "bymerge", "balanced", "letters", "digits", "mnist")
    # letters that look the same in both cases; the merged selections know only the capital
    _merged_classes = set("cijklmopsuvwxyz")
    _all_classes = set(string.digits + string.ascii_letters)
    classes_split_dict = {
        "byclass": sorted(_all_classes),
        "bymerge": sorted(_all_classes - _merged_classes),
        "balanced": sorted(_all_classes - _merged_classes),
        "letters": ["N/A", *string.ascii_lowercase],
        "digits": list(string.digits),
        "mnist": list(string.digits),
    }

    def __init__(self, root: Path, split: str, **kwargs: Any) -> None:
        self.split = verify_str_arg(split, "split", self.splits)
        self.training_file, self.test_file = f"training_{split}.pt", f"test_{split}.pt"
        super().__init__(root, **kwargs)
        self.classes = self.classes_split_dict[self.split]

    def _raw(self, kind: str) -> str:
        part = "train" if self.train else "test"
        return os.path.join(self.raw_folder, f"emnist-{self.split}-{part}-{kind}-ubyte")

    images_file = property(lambda self: self._raw("images-idx3"))
    labels_file = property(lambda self: self._raw("labels-idx1"))

    def _wanted(self) -> list[str]:
        files = (self.images_file, self.labels_file)
        return [os.path.basename(file) + ".gz" for file in files]

    def _load_data(self) -> tuple[Tensor, Tensor]:
        images, labels = (self._file(name.removesuffix(".gz")) for name in self._wanted())
        return read_image_file(images), read_label_file(labels)

    def download(self) -> None:
        """Bring the one archive that holds all selections, and unpack them."""
        if self._check_exists():
            return
        os.makedirs(self.raw_folder, exist_ok=True)
        download_and_extract_archive(self.url, download_root=self.raw_folder, md5=self.md5)
        folder = os.path.join(self.raw_folder, "gzip")
        for name in sorted(os.listdir(folder)):
            if name.endswith(".gz"):
                extract_archive(os.path.join(folder, name), self.raw_folder)
        shutil.rmtree(folder, ignore_errors=True)


_QMNIST = "https://raw.githubusercontent.com/facebookresearch/qmnist/master/"


class QMNIST(MNIST):
    """MNIST made again from NIST's files, with all 60,000 test digits and where they come from.

    Args:
        root: the folder that holds or will hold `QMNIST/raw`.
        what: "train", "test" (60,000), "test10k" (those of MNIST), "test50k" (the others) or
            "nist" (all digits of NIST); None for what `train` says.
        compat: targets are class numbers; otherwise they are tensors of eight numbers: class,
            series, writer, ...
        train: "train" or "test", where `what` is None.
        **kwargs: the other arguments of `MNIST`.
    """

    subsets = {
        "train": "train",
        "test": "test",
        "test10k": "test",
        "test50k": "test",
        "nist": "nist",
    }
    resources: dict[str, list[tuple[str, str]]] = {
        "train": [
            (f"{_QMNIST}qmnist-train-images-idx3-ubyte.gz", "ed72d4157d28c017586c42bc6afe6370"),
            (f"{_QMNIST}qmnist-train-labels-idx2-int.gz", "0058f8dd561b90ffdd0f734c6a30e5e4"),
        ],
        "test": [
            (f"{_QMNIST}qmnist-test-images-idx3-ubyte.gz", "1394631089c404de565df7b7aeaf9412"),
            (f"{_QMNIST}qmnist-test-labels-idx2-int.gz", "5b5b05890a5e13444e108efe57b788aa"),
        ],
        "nist": [
            (f"{_QMNIST}xnist-images-idx3-ubyte.xz", "7f124b3b8ab81486c9d8c2749c17f834"),
            (f"{_QMNIST}xnist-labels-idx2-int.xz", "5ed0e788978e45d4a8bd4b7caec3d79d"),
        ],
    }

    def __init__(
        self,
        root: Path,
        what: str | None = None,
        compat: bool = True,
        train: bool = True,
        **kwargs: Any,
    ) -> None:
        if what is None:
            what = "train" if train else "test"
        self.what = verify_str_arg(what, "what", tuple(self.subsets))
        self.compat = compat
        self.data_file = self.training_file = self.test_file = what + ".pt"
        super().__init__(root, train, **kwargs)

    @property
    def images_file(self) -> str:
        return os.path.join(self.raw_folder, os.path.splitext(self._wanted()[0])[0])

    @property
    def labels_file(self) -> str:
        return os.path.join(self.raw_folder, os.path.splitext(self._wanted()[1])[0])

    def _wanted(self) -> list[str]:
        return [os.path.basename(url) for url, _ in self.resources[self.subsets[self.what]]]

    def _load_data(self) -> tuple[Tensor, Tensor]:
        images, labels = (self._file(os.path.splitext(name)[0]) for name in self._wanted())
        data = read_sn3_pascalvincent_tensor(images)
        if data.dtype != torch.uint8:
            raise TypeError(f"data should be of dtype torch.uint8 instead of {data.dtype}")
        if data.ndimension() != 3:
            raise ValueError(f"data should have 3 dimensions instead of {data.ndimension()}")
        targets = read_sn3_pascalvincent_tensor(labels).long()
        if targets.ndimension() != 2:
            raise ValueError(f"targets should have 2 dimensions instead of {targets.ndimension()}")
        if self.what == "test10k":
            return data[:10000].clone(), targets[:10000].clone()
        if self.what == "test50k":
            return data[10000:].clone(), targets[10000:].clone()
        return data, targets

    def download(self) -> None:
        """Bring the files of what was asked for, and unpack them."""
        if self._all_unpacked():
            return
        os.makedirs(self.raw_folder, exist_ok=True)
        for url, md5 in self.resources[self.subsets[self.what]]:
            download_and_extract_archive(url, self.raw_folder, md5=md5)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        pixels, target = self._pixels_and_target(index)
        image = from_array(pixels, "L")
        if self.transform is not None:
            image = self.transform(image)
        target = int(target[0]) if self.compat else self.targets[index]
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def extra_repr(self) -> str:
        return f"Split: {self.what}"
