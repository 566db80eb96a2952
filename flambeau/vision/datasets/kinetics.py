"""Kinetics: 400, 600 or 700 actions of people, in films of ten seconds."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

from flambeau.vision.datasets.actions import Actions
from flambeau.vision.datasets.fetched import NOT_FOUND, ensure
from flambeau.vision.datasets.folder import find_classes, make_dataset
from flambeau.vision.datasets.utils import (
    download_and_extract_archive,
    download_url,
    verify_str_arg,
)
from flambeau.vision.datasets.video_utils import VideoClips, check_format

Path = str | os.PathLike[str]

_HOST = "https://s3.amazonaws.com/kinetics"
_EDITIONS = {"400": "400", "600": "600", "700": "700_2020"}  # their folders there
_SPLITS = ("train", "val", "test")


class Kinetics(Actions):
    """Clips of actions, as (video, audio, label); https://github.com/cvdfoundation/kinetics-dataset.

    Args:
        root: the folder of the folders `train`, `val` and `test`, which hold one folder of films
            per action.
        frames_per_clip: frames in a clip.
        num_classes: "400", "600" or "700": which edition to bring.
        split: "train", "val" or "test".
        frame_rate: frames per second to choose frames by; None takes all.
        step_between_clips: from the first frame of a clip to that of the next.
        transform: a function of a video.
        extensions: endings of the files to take.
        download: bring the films of the split if its folder is not there: hundreds of gigabytes.
        num_download_workers: threads that bring them.
        num_workers: threads that read when frames are shown.
        _precomputed_metadata: the `metadata` of this dataset, which spares reading all films.
        _video_width: width to give to frames; 0 keeps it, or the proportions.
        _video_height: their height.
        _video_min_dimension: their shorter side.
        _audio_samples: samples of sound per second; 0 keeps them.
        _audio_channels: channels of sound; 0 keeps them.
        _legacy: `root` itself holds the folders of the actions.
        output_format: "THWC" or "TCHW", the order of the dimensions of videos.

    Attributes:
        classes: the names of the actions.
        samples: pairs of path and class number.
        video_clips: the clips.
    """

    def __init__(
        self,
        root: Path,
        frames_per_clip: int,
        num_classes: str = "400",
        split: str = "train",
        frame_rate: int | None = None,
        step_between_clips: int = 1,
        transform: Callable | None = None,
        extensions: tuple[str, ...] = ("avi", "mp4"),
        download: bool = False,
        num_download_workers: int = 1,
        num_workers: int = 1,
        _precomputed_metadata: dict[str, Any] | None = None,
        _video_width: int = 0,
        _video_height: int = 0,
        _video_min_dimension: int = 0,
        _audio_samples: int = 0,
        _audio_channels: int = 0,
        _legacy: bool = False,
        output_format: str = "TCHW",
    ) -> None:
        super().__init__(root, transform=transform)
        self.num_classes = verify_str_arg(num_classes, "num_classes", tuple(_EDITIONS))
        self.split = verify_str_arg(split, "split", _SPLITS)
        check_format(output_format)
        if _legacy and download:
            raise ValueError("Cannot download the videos using legacy_structure.")
        self.extensions, self.num_download_workers = extensions, num_download_workers
        self.split_folder = os.fspath(self.root) if _legacy else self._below(split)
        fetch = self.download if download else None
        ensure(fetch, self._check_exists, f"put films into {self.split_folder}", NOT_FOUND)
        self.classes, class_to_idx = find_classes(self.split_folder)
        self.samples = make_dataset(self.split_folder, class_to_idx, extensions)
        self.indices = list(range(len(self.samples)))
        self.video_clips = VideoClips(
            [path for path, _ in self.samples], frames_per_clip, step_between_clips, frame_rate,
            _precomputed_metadata, num_workers=num_workers, _video_width=_video_width,
            _video_height=_video_height, _video_min_dimension=_video_min_dimension,
            _audio_samples=_audio_samples, _audio_channels=_audio_channels,
            output_format=output_format,
        )  # fmt: skip

    @property
    def metadata(self) -> dict[str, Any]:
        """When the frames of the films are shown; `_precomputed_metadata` takes it."""
        return self.video_clips.metadata

    def extra_repr(self) -> str:
        return f"Split: {self.split}"

    # -- downloads ---------------------------------------------------------------------------------

    def _below(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)

    def _check_exists(self) -> bool:
        return os.path.isdir(self.split_folder)

    def download(self) -> None:
        """Bring the archives of the split and sort their films by action, unless that was done."""
        if self._check_exists():
            return
        edition, split = _EDITIONS[self.num_classes], self.split
        listing, labels = f"k{edition}_{split}_path.txt", f"{split}.csv"
        if self.num_classes == "600" and split != "test":
            labels = f"{split}.txt"  # the same kind of table, under another name
        download_url(f"{_HOST}/{edition}/{split}/{listing}", self._below("files"))
        download_url(f"{_HOST}/{edition}/annotations/{labels}", self._below("annotations"))
        with open(self._below("files", listing), encoding="utf-8") as file:
            addresses = [quote(line, safe="/,:%") for line in file.read().splitlines() if line]
        # the folder takes its name when all films are in it
        unsorted, ordered = f"{self.split_folder}.unsorted", f"{self.split_folder}.sorted"
        archives = self._below("tars", split)
        with ThreadPoolExecutor(max(1, self.num_download_workers)) as pool:
            bring = lambda url: download_and_extract_archive(url, archives, unsorted)
            list(pool.map(bring, addresses))
        os.makedirs(ordered, exist_ok=True)
        self._sort(unsorted, ordered, self._below("annotations", labels))
        os.replace(ordered, self.split_folder)
        shutil.rmtree(unsorted)

    @staticmethod
    def _sort(unsorted: str, ordered: str, labels: str) -> None:
        """Move the films below a folder into folders of another, named after their actions."""
        found = {
            name: os.path.join(home, name) for home, _, names in os.walk(unsorted) for name in names
        }
        with open(labels, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                try:
                    start, end = int(row["time_start"]), int(row["time_end"])
                    name = f"{row['youtube_id']}_{start:06}_{end:06}.mp4"
                    action = row["label"].strip().strip('"').replace(" ", "_")
                except (KeyError, TypeError, ValueError, AttributeError):
                    raise RuntimeError(f"{labels} is not a table of films: {row}") from None
                if name not in found:
                    continue  # films vanish, and the tables go on to name them
                if action in ("", ".", "..") or any(sign in action for sign in "/\\:\0"):
                    raise RuntimeError(f"{labels} has an action that names no folder: {action!r}")
                os.makedirs(os.path.join(ordered, action), exist_ok=True)
                os.replace(found[name], os.path.join(ordered, action, name))
