"""`torchvision.datasets.video_utils`: films as sequences of clips of equal length.

Which frames make up a clip is computed here; `films.py` reads them.
"""

from __future__ import annotations

import bisect
import itertools
import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.vision.datasets.films import Wanted, frame_times, read_clip

Path = str | os.PathLike[str]
FORMATS = ("THWC", "TCHW")


def unfold(tensor: Tensor, size: int, step: int, dilation: int = 1) -> Tensor:
    """Windows over a tensor of one dimension: a view of shape (windows, size).

    Args:
        tensor: what they are cut from.
        size: elements in a window.
        step: from the start of one window to that of the next.
        dilation: from one element of a window to the next.

    Example:
        >>> import flambeau as torch
        >>> from flambeau.vision.datasets.video_utils import unfold
        >>> unfold(torch.arange(7), 3, 2)
        tensor([[0, 1, 2],
                [2, 3, 4],
                [4, 5, 6]])
    """
    if tensor.dim() != 1:
        raise ValueError(f"tensor should have 1 dimension instead of {tensor.dim()}")
    spread = dilation * (size - 1) + 1
    windows = max(0, (tensor.numel() - spread) // step + 1)
    stride = tensor.stride(0)
    return torch.as_strided(tensor, (windows, size), (stride * step, stride * dilation))


def check_format(output_format: str) -> str:
    """The format, in capitals, if it is one."""
    if str(output_format).upper() not in FORMATS:
        raise ValueError(f"output_format should be either 'THWC' or 'TCHW', got {output_format}.")
    return output_format.upper()


class VideoClips:
    """Films, each cut into clips of the same number of frames.

    Films that are too short for a clip have none; that is said by a warning.

    Args:
        video_paths: the files.
        clip_length_in_frames: frames in a clip.
        frames_between_clips: from the first frame of a clip to that of the next.
        frame_rate: frames per second to choose frames by, repeated or left out; None takes all.
        _precomputed_metadata: the `metadata` of an object of the same files, which need not be
            read then.
        num_workers: threads that read the times of frames.
        _video_width: width to give to frames; 0 keeps it, or the proportions.
        _video_height: their height.
        _video_min_dimension: their shorter side.
        _video_max_dimension: their longer side.
        _audio_samples: samples of sound per second; 0 keeps them.
        _audio_channels: channels of sound; 0 keeps them.
        output_format: "THWC" or "TCHW", the order of the dimensions of films.

    Attributes:
        video_paths: the files.
        video_pts: for each, when its frames are shown, in ticks of its clock.
        video_fps: for each, its frames per second.
        clips: for each, the times of the frames of its clips, (clips, frames).
    """

    def __init__(
        self,
        video_paths: Sequence[Path],
        clip_length_in_frames: int = 16,
        frames_between_clips: int = 1,
        frame_rate: float | None = None,
        _precomputed_metadata: dict[str, Any] | None = None,
        num_workers: int = 0,
        _video_width: int = 0,
        _video_height: int = 0,
        _video_min_dimension: int = 0,
        _video_max_dimension: int = 0,
        _audio_samples: int = 0,
        _audio_channels: int = 0,
        output_format: str = "THWC",
    ) -> None:
        self.output_format = check_format(output_format)
        self.video_paths = list(video_paths)
        self.num_workers = num_workers
        self._wanted = Wanted(
            _video_width, _video_height, _video_min_dimension, _video_max_dimension,
            _audio_samples, _audio_channels,
        )  # fmt: skip
        if _precomputed_metadata is None:
            self._read_times()
        else:
            self._take_times(_precomputed_metadata)
        self.compute_clips(clip_length_in_frames, frames_between_clips, frame_rate)

    def _read_times(self) -> None:
        paths = [os.fspath(path) for path in self.video_paths]
        if self.num_workers > 1:
            # PyAV lets other threads run while it reads
            with ThreadPoolExecutor(self.num_workers) as pool:
                found = list(pool.map(frame_times, paths))
        else:
            found = list(map(frame_times, paths))
        self.video_pts = [torch.tensor(times, dtype=torch.int64) for times, _ in found]
        self.video_fps = [rate for _, rate in found]

    def _take_times(self, metadata: dict[str, Any]) -> None:
        known = [os.fspath(path) for path in metadata["video_paths"]]
        if known != [os.fspath(path) for path in self.video_paths]:
            raise ValueError(
                f"_precomputed_metadata is that of other films: it has {len(known)} paths, and "
                f"they are not the {len(self.video_paths)} of video_paths"
            )
        self.video_pts = [torch.as_tensor(p, dtype=torch.int64) for p in metadata["video_pts"]]
        self.video_fps = list(metadata["video_fps"])
        if not len(self.video_pts) == len(self.video_fps) == len(known):
            raise ValueError("_precomputed_metadata needs video_pts and video_fps for each film")

    @property
    def metadata(self) -> dict[str, Any]:
        """What was read of the films; `_precomputed_metadata` takes it."""
        return {
            "video_paths": self.video_paths,
            "video_pts": self.video_pts,
            "video_fps": self.video_fps,
        }

    def subset(self, indices: Sequence[int]) -> VideoClips:
        """The clips of some of the films."""
        chosen = {key: [values[i] for i in indices] for key, values in self.metadata.items()}
        return type(self)(
            chosen["video_paths"], self.num_frames, self.step, self.frame_rate, chosen,
            self.num_workers, *self._wanted, output_format=self.output_format,
        )  # fmt: skip

    @staticmethod
    def compute_clips_for_video(
        video_pts: Tensor,
        num_frames: int,
        step: int,
        fps: float | None,
        frame_rate: float | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The clips of one film: the times of their frames, and their numbers.

        Args:
            video_pts: when the frames of the film are shown.
            num_frames: frames in a clip.
            step: from the first frame of a clip to that of the next.
            fps: frames per second of the film; 1 if None.
            frame_rate: those to have; the film's own if None.

        Example:
            >>> import flambeau as torch
            >>> from flambeau.vision.datasets.video_utils import VideoClips
            >>> times = torch.arange(0, 80, 10)
            >>> clips, numbers = VideoClips.compute_clips_for_video(
            ...     times, 2, 2, fps=30, frame_rate=15
            ... )
            >>> clips
            tensor([[ 0, 20],
                    [40, 60]])
        """
        fps = fps or 1
        frame_rate = frame_rate or fps
        total = int(len(video_pts) * frame_rate / fps)
        numbers = VideoClips._resample_video_idx(total, fps, frame_rate)
        clips = unfold(video_pts[numbers], num_frames, step)
        if not clips.numel():
            warnings.warn(
                "There aren't enough frames in the current video to get a clip for the given clip "
                "length and frames between clips. The video (and potentially others) will be "
                "skipped.",
                stacklevel=2,
            )
        return clips, unfold(numbers, num_frames, step)

    @staticmethod
    def _resample_video_idx(num_frames: int, original_fps: float, new_fps: float) -> Tensor:
        """Which frames to take for another number of them per second."""
        step = original_fps / new_fps
        return torch.tensor([int(number * step) for number in range(num_frames)], dtype=torch.int64)

    def compute_clips(self, num_frames: int, step: int, frame_rate: float | None = None) -> None:
        """Cut the films again, in another way."""
        for name, value in (("clip_length_in_frames", num_frames), ("frames_between_clips", step)):
            if value < 1:
                raise ValueError(f"{name} should be at least 1, got {value}")
        self.num_frames, self.step, self.frame_rate = num_frames, step, frame_rate
        pairs = [
            self.compute_clips_for_video(times, num_frames, step, fps, frame_rate)
            for times, fps in zip(self.video_pts, self.video_fps)
        ]
        self.clips = [clips for clips, _ in pairs]
        self.resampling_idxs = [numbers for _, numbers in pairs]
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.clips)))

    def __len__(self) -> int:
        return self.num_clips()

    def num_videos(self) -> int:
        """How many films."""
        return len(self.video_paths)

    def num_clips(self) -> int:
        """How many clips they have together."""
        return self.cumulative_sizes[-1] if self.cumulative_sizes else 0

    def get_clip_location(self, idx: int) -> tuple[int, int]:
        """The film that a clip is in, and its place there."""
        film = bisect.bisect_right(self.cumulative_sizes, idx)
        return film, idx - (self.cumulative_sizes[film - 1] if film else 0)

    def get_clip(self, idx: int) -> tuple[Tensor, Tensor, dict[str, Any], int]:
        """A clip: frames, sound, rates, and the number of its film.

        Frames are bytes, (frames, height, width, 3) or (frames, 3, height, width). The sound is
        what is heard from the first frame until after the last, as floats (channels, samples);
        films without sound give (1, 0). The rates are `video_fps` and, with sound, `audio_fps`.
        """
        if not 0 <= idx < self.num_clips():
            raise IndexError(f"Index {idx} out of range ({self.num_clips()} number of clips)")
        film, place = self.get_clip_location(idx)
        times = self.clips[film][place].tolist()
        frames, sound, info = read_clip(os.fspath(self.video_paths[film]), times, self._wanted)
        if self.frame_rate is not None:
            info["video_fps"] = self.frame_rate
        video = torch.from_numpy(frames)
        if self.output_format == "TCHW":
            video = video.permute(0, 3, 1, 2)
        return video, torch.from_numpy(sound), info, film
