"""Films in folders named after actions, as clips: what HMDB51, UCF101 and Kinetics share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flambeau import Tensor
from flambeau.vision.datasets.folder import find_classes, make_dataset
from flambeau.vision.datasets.video_utils import VideoClips, check_format
from flambeau.vision.datasets.vision import VisionDataset

Path = str | os.PathLike[str]


class Actions(VisionDataset):
    """Items are (video, audio, label), one for each clip."""

    classes: list[str]
    samples: list[tuple[str, int]]
    indices: list[int]
    video_clips: VideoClips

    def __len__(self) -> int:
        return self.video_clips.num_clips()

    def __getitem__(self, idx: int) -> tuple[Any, Tensor, int]:
        video, audio, _, film = self.video_clips.get_clip(idx)
        if self.transform is not None:
            video = self.transform(video)
        return video, audio, self.samples[self.indices[film]][1]


class Folds(Actions):
    """Films of which lists say who is for training and who for testing, in three ways.

    Args:
        root: the folder of the folders of films.
        annotation_path: the folder of the lists.
        frames_per_clip: frames in a clip.
        step_between_clips: from the first frame of a clip to that of the next.
        frame_rate: frames per second to choose frames by; None takes all.
        fold: which of the three ways, 1 to 3.
        train: the films for training, or those for testing.
        transform: a function of a video.
        _precomputed_metadata: the `metadata` of this dataset, which spares reading all films.
        num_workers: threads that read when frames are shown.
        _video_width: width to give to frames; 0 keeps it, or the proportions.
        _video_height: their height.
        _video_min_dimension: their shorter side.
        _audio_samples: samples of sound per second; 0 keeps them.
        output_format: "THWC" or "TCHW", the order of the dimensions of videos.
    """

    def __init__(
        self,
        root: Path,
        annotation_path: Path,
        frames_per_clip: int,
        step_between_clips: int = 1,
        frame_rate: int | None = None,
        fold: int = 1,
        train: bool = True,
        transform: Callable | None = None,
        _precomputed_metadata: dict[str, Any] | None = None,
        num_workers: int = 1,
        _video_width: int = 0,
        _video_height: int = 0,
        _video_min_dimension: int = 0,
        _audio_samples: int = 0,
        output_format: str = "THWC",
    ) -> None:
        super().__init__(root, transform=transform)
        if fold not in (1, 2, 3):
            raise ValueError(f"fold should be between 1 and 3, got {fold}")
        self.fold, self.train = fold, train
        self.classes, class_to_idx = find_classes(self.root)
        self.samples = make_dataset(self.root, class_to_idx, ("avi",))
        names = self._names_of_fold(os.path.expanduser(os.fspath(annotation_path)))
        paths = [path for path, _ in self.samples]
        self.indices = [i for i, path in enumerate(paths) if self._name(path) in names]
        # the times of all films are read, so that one metadata serves all folds
        self.full_video_clips = VideoClips(
            paths, frames_per_clip, step_between_clips, frame_rate, _precomputed_metadata,
            num_workers=num_workers, _video_width=_video_width, _video_height=_video_height,
            _video_min_dimension=_video_min_dimension, _audio_samples=_audio_samples,
            output_format=check_format(output_format),
        )  # fmt: skip
        self.video_clips = self.full_video_clips.subset(self.indices)

    @property
    def metadata(self) -> dict[str, Any]:
        """When the frames of all films are shown; `_precomputed_metadata` takes it."""
        return self.full_video_clips.metadata

    def _names_of_fold(self, annotation_path: str) -> set[str]:
        """The films that the lists name."""
        raise NotImplementedError

    def _name(self, path: str) -> str:
        """What lists call a film."""
        raise NotImplementedError

    @staticmethod
    def _lines(path: str) -> list[list[str]]:
        """The words of each line that has some."""
        with open(path, encoding="utf-8") as file:
            return [words for words in map(str.split, file) if words]

    def extra_repr(self) -> str:
        return f"Fold: {self.fold}\nSplit: {'Train' if self.train else 'Test'}"
