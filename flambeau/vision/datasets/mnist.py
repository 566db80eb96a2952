"""MNIST and its relatives: small gray pictures of digits, letters and clothes, in IDX files.

A dataset lives in `<root>/<class name>/raw`. The files may lie there compressed, as they come from
the mirrors, or unpacked; `download=True` brings what is missing.
"""

from __future__ import annotations

import os
import string
import warnings
from collections.abc import Callable
from typing import Any
from urllib.error import URLError

import flambeau as torch
from flambeau import Tensor
from flambeau.vision.datasets.fetched import NOT_FOUND, ensure, unpack_inner
from flambeau.vision.datasets.idx import SN3_PASCALVINCENT_TYPEMAP as SN3_PASCALVINCENT_TYPEMAP
from flambeau.vision.datasets.idx import get_int as get_int
from flambeau.vision.datasets.idx import read_image_file, read_label_file, read_tensor
from flambeau.vision.datasets.idx import (
    read_sn3_pascalvincent_tensor as read_sn3_pascalvincent_tensor,
)
from flambeau.vision.datasets.tensor_images import TensorImages
from flambeau.vision.datasets.utils import (
    check_integrity,
    download_and_extract_archive,
    verify_str_arg,
)
from flambeau.vision.pillow import from_array

Path = str | os.PathLike[str]
_DIGITS = "zero one two three four five six seven eight nine".split()


def _four_files(*sums: str) -> list[tuple[str, str]]:
    """The names of the files that all relatives of MNIST have, with their MD5 sums."""
    kinds = ("images-idx3", "labels-idx1")
    names = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in kinds]
    return list(zip(names, sums, strict=True))


def _renamed(old: str, new: str) -> property:
    """An attribute under the name that it had in old versions."""

    def read(self: Any) -> Any:
        warnings.warn(f"{old} has been renamed {new}", stacklevel=2)
        return getattr(self, new)

    return property(read)


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
    resources: Any = _four_files(
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    )
    training_file, test_file = "training.pt", "test.pt"
    classes = [f"{number} - {word}" for number, word in enumerate(_DIGITS)]

    def __init__(
        self,
        root: Path,
        train: bool = True,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, None, transform, target_transform)
        self.train = train
        old = self._check_legacy_exist()
        self.data, self.targets = self._load_legacy_data() if old else self._settle(download)

    def _settle(self, download: bool) -> tuple[Tensor, Tensor]:
        """The tensors, out of files that are there or are brought now."""
        remedy = f"put {' and '.join(self._wanted())} into {self.raw_folder}"
        ensure(self.download if download else None, self._check_exists, remedy, NOT_FOUND)
        images, labels = self._load_data()
        if len(images) != len(labels):
            raise RuntimeError(
                f"{self.raw_folder} holds {len(images)} images and {len(labels)} labels; "
                "delete these files and fetch them again"
            )
        return images, labels

    train_data = _renamed("train_data", "data")
    test_data = _renamed("test_data", "data")
    train_labels = _renamed("train_labels", "targets")
    test_labels = _renamed("test_labels", "targets")

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

    def _folder(self, kind: str) -> str:
        return os.path.join(self.root, type(self).__name__, kind)

    @property
    def raw_folder(self) -> str:
        return self._folder("raw")

    @property
    def processed_folder(self) -> str:
        return self._folder("processed")

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
        if not self._all_unpacked():
            os.makedirs(self.raw_folder, exist_ok=True)
            for name, md5 in self.resources:
                self._bring(name, md5)

    def _bring(self, name: str, md5: str) -> None:
        """One file, from the first mirror that has it."""
        said = ""
        for mirror in self.mirrors:
            try:
                return download_and_extract_archive(mirror + name, self.raw_folder, None, name, md5)
            except (RuntimeError, URLError) as error:
                said += f"Tried {mirror}, got:\n{error}\n"
        raise RuntimeError(
            f"Error downloading {name}:\n{said}"
            f"Without a network, fetch {', '.join(self._wanted())} elsewhere and put them "
            f"into {os.path.abspath(self.raw_folder)}"
        )

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train is True else 'Test'}"


class FashionMNIST(MNIST):
    """70,000 articles of clothing in the format of MNIST; the arguments are those of `MNIST`."""

    mirrors = ["http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"]
    resources = _four_files(
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    )
    classes = [
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ]


class KMNIST(MNIST):
    """70,000 characters of cursive Japanese in the format of MNIST, with its arguments."""

    mirrors = ["http://codh.rois.ac.jp/kmnist/dataset/kmnist/"]
    resources = _four_files(
        "bdb82020997e1d708af4cf47b453dcf7",
        "e144d726b3acfaa3e44228e80efcd344",
        "5c965bf0a639b31b8f53240b1b52f4d7",
        "7320c461ea6c1c855c0b718fb2a4b134",
    )
    classes = "o ki su tsu na ha ma ya re wo".split()


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
    _everything = [*string.digits, *string.ascii_uppercase, *string.ascii_lowercase]
    # letters that look the same in both cases; the merged selections know only the capital
    _merged = [each for each in _everything if each not in "cijklmopsuvwxyz"]
    classes_split_dict = {
        "byclass": _everything,
        "bymerge": _merged,
        "balanced": _merged[:],
        "letters": ["N/A", *string.ascii_lowercase],
        **{name: list(string.digits) for name in ("digits", "mnist")},
    }

    def __init__(self, root: Path, split: str, **kwargs: Any) -> None:
        self.split = verify_str_arg(split, "split", self.splits)
        self.training_file, self.test_file = (f"{part}_{split}.pt" for part in ("training", "test"))
        self.classes = self.classes_split_dict[split]
        super().__init__(root, **kwargs)

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
        home = self.raw_folder
        if not self._check_exists():
            os.makedirs(home, exist_ok=True)
            download_and_extract_archive(self.url, home, md5=self.md5)
            unpack_inner(os.path.join(home, "gzip"), home)


_PARTS = {"test10k": slice(10_000), "test50k": slice(10_000, None)}


def _two_files(name: str, ending: str, images: str, labels: str) -> list[tuple[str, str]]:
    """Addresses of images and labels, with their MD5 sums."""
    address = f"https://raw.githubusercontent.com/facebookresearch/qmnist/master/{name}"
    return [
        (f"{address}-images-idx3-ubyte.{ending}", images),
        (f"{address}-labels-idx2-int.{ending}", labels),
    ]


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
        part: part.removesuffix("10k").removesuffix("50k")
        for part in ("train", "test", "test10k", "test50k", "nist")
    }
    resources = {
        "train": _two_files(
            *("qmnist-train", "gz"),
            *("ed72d4157d28c017586c42bc6afe6370", "0058f8dd561b90ffdd0f734c6a30e5e4"),
        ),
        "test": _two_files(
            *("qmnist-test", "gz"),
            *("1394631089c404de565df7b7aeaf9412", "5b5b05890a5e13444e108efe57b788aa"),
        ),
        "nist": _two_files(
            *("xnist", "xz"),
            *("7f124b3b8ab81486c9d8c2749c17f834", "5ed0e788978e45d4a8bd4b7caec3d79d"),
        ),
    }

    def __init__(
        self,
        root: Path,
        what: str | None = None,
        compat: bool = True,
        train: bool = True,
        **kwargs: Any,
    ) -> None:
        self.compat = compat
        part = ("train" if train else "test") if what is None else what
        self.what = verify_str_arg(part, "what", tuple(self.subsets))
        self.data_file = self.training_file = self.test_file = f"{self.what}.pt"
        super().__init__(root, train, **kwargs)

    def _raw(self, place: int) -> str:
        return os.path.join(self.raw_folder, os.path.splitext(self._wanted()[place])[0])

    images_file = property(lambda self: self._raw(0))
    labels_file = property(lambda self: self._raw(1))

    def _wanted(self) -> list[str]:
        return [os.path.basename(url) for url, _ in self.resources[self.subsets[self.what]]]

    def _load_data(self) -> tuple[Tensor, Tensor]:
        images, labels = (self._file(os.path.splitext(name)[0]) for name in self._wanted())
        data = read_tensor(images, 3, torch.uint8, name="data", unit="dimensions")
        targets = read_tensor(labels, 2, name="targets", unit="dimensions").long()
        part = _PARTS.get(self.what)
        return (data, targets) if part is None else (data[part].clone(), targets[part].clone())

    def download(self) -> None:
        """Bring the files of what was asked for, and unpack them."""
        if not self._all_unpacked():
            os.makedirs(self.raw_folder, exist_ok=True)
            for url, md5 in self.resources[self.subsets[self.what]]:
                download_and_extract_archive(url, self.raw_folder, md5=md5)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        pixels, numbers = self._pixels_and_target(index)
        target = int(numbers[0]) if self.compat else self.targets[index]
        return self._transformed(from_array(pixels, "L"), target)

    def extra_repr(self) -> str:
        return f"Split: {self.what}"
