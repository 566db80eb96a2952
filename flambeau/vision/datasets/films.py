"""Films read through the package PyAV: when their frames are shown, and the frames of a clip.

Times are counted in ticks of the film's own clock (`time_base`), as the files keep them. Frames are
found by their time, so a clip has the frames that were listed for it, however the file is cut into
groups of frames. Files that cannot be read are errors that name them.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy

# Packets of these say when their frames are shown. In others (AVI) that may be known only after
# decoding.
_TIMED = ("mp4", "matroska")


def pyav() -> Any:
    """The package PyAV."""
    try:
        return importlib.import_module("av")
    except ModuleNotFoundError as error:
        if error.name != "av":
            raise
        raise ImportError(
            "films are read with the package PyAV: pip install av (or flambeau[films])"
        ) from error


class Wanted(NamedTuple):
    """Sizes of frames and forms of sound; 0 leaves them as they are."""

    width: int = 0
    height: int = 0
    min_dimension: int = 0
    max_dimension: int = 0
    audio_samples: int = 0
    audio_channels: int = 0

    def size(self, width: int, height: int) -> tuple[int, int]:
        """The width and height to give to frames of this size.

        One number keeps the proportions; two (width and height, or the shorter and the longer
        side) do not.
        """
        if self.width or self.height:
            scale = self.width / width if self.width else self.height / height
            return self.width or _scaled(width, scale), self.height or _scaled(height, scale)
        short, long = self.min_dimension, self.max_dimension
        if short and long:
            return (short, long) if width < height else (long, short)
        if short or long:
            scale = short / min(width, height) if short else long / max(width, height)
            return _scaled(width, scale), _scaled(height, scale)
        return width, height


class Clip(NamedTuple):
    """Frames (times, height, width, 3), sound (channels, samples), and their rates."""

    frames: numpy.ndarray
    sound: numpy.ndarray
    info: dict[str, float]


def _scaled(side: int, scale: float) -> int:
    return max(1, round(side * scale))


@contextlib.contextmanager
def _opened(path: str) -> Iterator[tuple[Any, Any]]:
    """The film in a file, and its stream of pictures; errors in between name the file."""
    av = pyav()
    try:
        with av.open(path) as film:
            if not film.streams.video:
                raise RuntimeError(f"{path} is not a film: it holds no pictures")
            yield film, film.streams.video[0]
    except FileNotFoundError:
        raise
    except av.FFmpegError as error:
        raise RuntimeError(f"{path} cannot be read as a film: {error}") from error


def _rate(stream: Any) -> float:
    return float(stream.average_rate or stream.guessed_rate or 0)


def frame_times(path: str) -> tuple[list[int], float]:
    """When each frame of a film is shown, in order, and how many are shown per second."""
    with _opened(path) as (film, stream):
        if any(kind in film.format.name for kind in _TIMED):
            packets = film.demux(stream)
            times = [p.pts for p in packets if p.pts is not None and not p.is_discard]
        else:
            times = [frame.pts for frame in film.decode(stream) if frame.pts is not None]
        rate = _rate(stream)
    if not times or not rate:
        raise RuntimeError(f"{path} cannot be read as a film: no frame in it says when it is shown")
    return sorted(set(times)), rate


def read_clip(path: str, times: list[int], wanted: Wanted) -> Clip:
    """The frames that are shown at these times, and the sound from the first to after the last."""
    with _opened(path) as (film, stream):
        found = _frames_at(film, stream, times)
        missing = [time for time in times if time not in found]
        if missing:
            raise RuntimeError(
                f"{path} cannot be read as a film: {len(missing)} frames that it lists are not "
                f"there, the first of them at {missing[0]} x {stream.time_base} seconds"
            )
        pictures = {time: _picture(frame, wanted) for time, frame in found.items()}
        rate = _rate(stream)
        info = {"video_fps": rate}
        sound = numpy.zeros((1, 0), numpy.float32)
        if film.streams.audio:
            start = float(times[0] * stream.time_base)
            end = float(times[-1] * stream.time_base) + 1 / rate
            sound, info["audio_fps"] = _sound(film, film.streams.audio[0], start, end, wanted)
    return Clip(numpy.stack([pictures[time] for time in times]), sound, info)


def _frames_at(film: Any, stream: Any, times: list[int]) -> dict[int, Any]:
    """The decoded frames, by their time."""
    needed = set(times)
    for frames in _starts(film, stream, times[0]):
        found = {}
        for number, frame in enumerate(frames):
            if frame.pts is None:
                continue
            if number == 0 and frame.pts > times[0]:
                break  # where frames are stored in another order, seeking may end behind the goal
            if frame.pts in needed:
                found[frame.pts] = frame
            if frame.pts >= times[-1]:
                break
        if len(found) == len(needed):
            break
    return found


def _starts(film: Any, stream: Any, time: int) -> Iterator[Iterator[Any]]:
    """The frames from ever earlier places on, at last from the beginning."""
    second = int(1 / stream.time_base)
    for back in (0, second, 4 * second, 16 * second):
        if time - back <= 0:
            break
        film.seek(time - back, stream=stream)
        yield film.decode(stream)
    film.seek(min(0, stream.start_time or 0), stream=stream)
    yield film.decode(stream)


def _picture(frame: Any, wanted: Wanted) -> numpy.ndarray:
    width, height = wanted.size(frame.width, frame.height)
    return frame.to_ndarray(format="rgb24", width=width, height=height)


def _sound(
    film: Any, stream: Any, start: float, end: float, wanted: Wanted
) -> tuple[numpy.ndarray, float]:
    """The samples between two times in seconds, as floats, and their rate."""
    rate = wanted.audio_samples or stream.rate
    layout = {0: None, 1: "mono", 2: "stereo"}.get(
        wanted.audio_channels, f"{wanted.audio_channels}c"
    )
    resampler = pyav().AudioResampler("fltp", layout, rate)
    # a second before: decoders of sound need some packets until they give what was recorded
    film.seek(max(0, int((start - 1) / stream.time_base)), stream=stream)
    channels, first, parts = wanted.audio_channels or stream.channels, None, []
    for frame in film.decode(stream):
        if first is None:
            first = float(frame.time or 0)
        if frame.time is not None and frame.time >= end:
            break
        parts += [part.to_ndarray() for part in resampler.resample(frame)]
    parts += [part.to_ndarray() for part in resampler.resample(None) if first is not None]
    if not parts:
        return numpy.zeros((channels, 0), numpy.float32), float(rate)
    samples = numpy.concatenate(parts, axis=1)
    begin, stop = (max(0, round((time - (first or 0)) * rate)) for time in (start, end))
    return numpy.ascontiguousarray(samples[:, begin:stop]), float(rate)
