"""Names for videos: programs may import them, and calling them says what to do instead."""

from __future__ import annotations

from typing import Any, NoReturn


def _no_videos(name: str) -> NoReturn:
    raise ImportError(
        f"torchvision.io.{name}: flambeau.vision.io reads and writes no videos (and torchvision "
        "itself no longer does). The package av does; its frames become tensors by from_numpy"
    )


def read_video(*args: Any, **kwargs: Any) -> NoReturn:
    """Not available."""
    _no_videos("read_video")


def read_video_timestamps(*args: Any, **kwargs: Any) -> NoReturn:
    """Not available."""
    _no_videos("read_video_timestamps")


def write_video(*args: Any, **kwargs: Any) -> NoReturn:
    """Not available."""
    _no_videos("write_video")


class VideoReader:
    """Not available."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _no_videos("VideoReader")
