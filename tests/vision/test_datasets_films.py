"""Datasets of films: how they are cut into clips, who is in which fold, what is read."""

import inspect
import io
import pickle
import sys
import tarfile

import numpy as np
import pytest

import flambeau as torch
from flambeau.vision import datasets
from flambeau.vision.datasets import films, kinetics
from flambeau.vision.datasets.video_utils import VideoClips, unfold


@pytest.fixture
def av():
    return pytest.importorskip("av", reason="films are made and read with PyAV")


def brightness(number):
    return 10 + 8 * number


def film(av, path, frames=10, rate=10, sound=None, ordered=True):
    """A film whose frames are each of one gray, darker first; sound: a rate, for a rising ramp."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as file:
        stream = file.add_stream("mpeg4", rate=rate)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = 32, 16, "yuv420p", 4_000_000
        stream.codec_context.max_b_frames = 0 if ordered else 2
        stream.codec_context.gop_size = 7
        heard = file.add_stream("pcm_s16le", rate=sound, layout="mono") if sound else None
        for number in range(frames):
            gray = np.full((16, 32, 3), brightness(number), np.uint8)
            file.mux(stream.encode(av.VideoFrame.from_ndarray(gray, format="rgb24")))
        file.mux(stream.encode(None))
        if heard:
            ramp = np.arange(sound * frames // rate, dtype=np.int16)[None]
            part = av.AudioFrame.from_ndarray(ramp, format="s16", layout="mono")
            part.sample_rate, part.pts = sound, 0
            file.mux(heard.encode(part))
            file.mux(heard.encode(None))
    return str(path)


def shown(video):
    """The numbers of the frames of a clip (frames, height, width, 3), by their gray."""
    gray = video.to(torch.float32).mean((1, 2, 3))
    return ((gray - brightness(0)) / 8).round().int().tolist()


def metadata(paths, frames=10, fps=10.0):
    times = [torch.arange(frames) for _ in paths]
    return {"video_paths": list(paths), "video_pts": times, "video_fps": [fps] * len(times)}


def text(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return str(path)


# -- clips, by arithmetic --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "size, step, dilation, windows",
    [
        (3, 3, 1, [[0, 1, 2], [3, 4, 5]]),
        (3, 2, 1, [[0, 1, 2], [2, 3, 4], [4, 5, 6]]),
        (3, 2, 2, [[0, 2, 4], [2, 4, 6]]),
        (7, 1, 1, [list(range(7))]),
        (8, 1, 1, []),
        (20, 1, 1, []),
    ],
)
def test_windows(size, step, dilation, windows):
    found = unfold(torch.arange(7), size, step, dilation)
    assert found.tolist() == windows and found.shape == (len(windows), size)


def test_windows_of_what_has_gaps():
    assert unfold(torch.arange(12)[::2], 2, 2).tolist() == [[0, 2], [4, 6], [8, 10]]
    with pytest.raises(ValueError, match="tensor should have 1 dimension instead of 2"):
        unfold(torch.zeros(2, 2), 1, 1)


def test_frame_rates_choose_frames():
    times = torch.arange(30)
    clips, numbers = VideoClips.compute_clips_for_video(times, 13, 13, 30, 13)
    assert clips.tolist() == numbers.tolist() == [[i * 30 // 13 for i in range(13)]]
    clips, _ = VideoClips.compute_clips_for_video(times, 4, 4, 30, 12)
    assert len(clips) == 3
    clips, _ = VideoClips.compute_clips_for_video(10 * times[:3], 3, 3, 10, 20)
    assert clips.tolist() == [[0, 0, 10], [10, 20, 20]]
    with pytest.warns(UserWarning, match="There aren't enough frames"):
        clips, numbers = VideoClips.compute_clips_for_video(times, 32, 32, 30, 13)
    assert len(clips) == len(numbers) == 0


def test_clips_of_several_films():
    paths = ["a", "b", "c"]
    known = metadata(paths)
    known["video_pts"][1] = torch.arange(15)
    clips = VideoClips(paths, 5, 5, _precomputed_metadata=known)
    assert len(clips) == clips.num_clips() == 7 and clips.num_videos() == 3
    places = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]
    assert [clips.get_clip_location(i) for i in range(7)] == places
    clips.compute_clips(4, 2)
    assert [len(part) for part in clips.clips] == [4, 6, 4]
    part = pickle.loads(pickle.dumps(clips.subset([2, 1])))
    assert part.metadata["video_paths"] == ["c", "b"] and len(part) == 10
    assert (part.num_frames, part.step) == (4, 2)
    for index in (10, -1):
        with pytest.raises(IndexError, match=rf"Index {index} out of range \(10 number of clips\)"):
            part.get_clip(index)


def test_no_films_have_no_clips():
    assert len(VideoClips([])) == 0


def test_arguments_of_clips_are_checked():
    message = "output_format should be either 'THWC' or 'TCHW', got HWC."
    with pytest.raises(ValueError, match=message):
        VideoClips([], output_format="HWC")
    with pytest.raises(ValueError, match="is that of other films"):
        VideoClips(["a"], _precomputed_metadata=metadata(["b"]))
    with pytest.raises(ValueError, match="frames_between_clips should be at least 1, got 0"):
        VideoClips([], 4, 0)


def test_the_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(ImportError, match="pip install av"):
        VideoClips([text(tmp_path / "a.avi", "")])


@pytest.mark.parametrize(
    "wanted, size",
    [
        ({}, (320, 240)),
        ({"width": 160}, (160, 120)),
        ({"height": 480}, (640, 480)),
        ({"width": 10, "height": 20}, (10, 20)),
        ({"min_dimension": 120}, (160, 120)),
        ({"max_dimension": 160}, (160, 120)),
        ({"min_dimension": 100, "max_dimension": 200}, (200, 100)),
    ],
)
def test_sizes_of_frames(wanted, size):
    assert films.Wanted(**wanted).size(320, 240) == size


# -- who is in which part --------------------------------------------------------------------------

NAMES = {"jump": ["j1", "j2", "j3"], "run": ["r1", "r2"]}


def folds(root, make):
    """Films in folders, and lists in the manners of both datasets."""
    for action, names in NAMES.items():
        for name in names:
            make(root / "films" / action / f"{name}.avi")
    (root / "films/jump/notes.txt").write_text("no film")
    text(root / "lists/jump_test_split1.txt", "j1.avi 1 \nj2.avi 2\nj3.avi 0\n")
    text(root / "lists/run_test_split1.txt", "r1.avi 2\nr2.avi 1\n\n")
    text(root / "lists/run_test_split2.txt", "r1.avi 1\n")
    text(root / "lists/trainlist01.txt", "jump/j1.avi 1\nrun/r2.avi 2\n")
    text(root / "lists/testlist01.txt", "jump/j2.avi\nrun/r1.avi\n")
    text(root / "lists/trainlist02.txt", "run/r1.avi 2\n")
    return root / "films", root / "lists"


@pytest.mark.parametrize("cls", [datasets.HMDB51, datasets.UCF101])
def test_folds(cls, tmp_path):
    root, lists = folds(tmp_path, lambda path: text(path, ""))
    paths = [str(root / a / f"{n}.avi") for a, names in NAMES.items() for n in names]
    known = metadata(paths)

    def part(**arguments):
        found = cls(root, lists, 5, 5, _precomputed_metadata=known, **arguments)
        assert found.classes == ["jump", "run"] and found.metadata["video_paths"] == paths
        assert len(found) == 2 * len(found.indices)
        return [path.rpartition("/")[2] for path in found.video_clips.video_paths]

    assert part() == ["j1.avi", "r2.avi"]
    assert part(train=False) == ["j2.avi", "r1.avi"]
    assert part(fold=2) == ["r1.avi"]
    with pytest.raises(FileNotFoundError, match=r"3\.txt"):
        part(fold=3)
    for fold in (0, 4):
        with pytest.raises(ValueError, match=f"fold should be between 1 and 3, got {fold}"):
            part(fold=fold)
    with pytest.raises(ValueError, match="output_format should be either"):
        part(output_format="TCWH")


def test_arguments_of_kinetics_are_checked(tmp_path):
    text(tmp_path / "train/run/a.mp4", "")
    known = metadata([str(tmp_path / "train/run/a.mp4")])
    found = datasets.Kinetics(tmp_path, 5, _precomputed_metadata=known)
    assert len(found) == 6 and found.metadata["video_fps"] == [10.0] and found.classes == ["run"]
    old = datasets.Kinetics(tmp_path / "train", 5, _precomputed_metadata=known, _legacy=True)
    assert old.samples == found.samples
    with pytest.raises(ValueError, match="Unknown value '500' for argument num_classes"):
        datasets.Kinetics(tmp_path, 5, num_classes="500")
    with pytest.raises(ValueError, match="Unknown value 'dev' for argument split"):
        datasets.Kinetics(tmp_path, 5, split="dev")
    with pytest.raises(ValueError, match="output_format should be either"):
        datasets.Kinetics(tmp_path, 5, output_format="HW")
    with pytest.raises(ValueError, match="legacy"):
        datasets.Kinetics(tmp_path, 5, download=True, _legacy=True)
    with pytest.raises(RuntimeError, match="Dataset not found"):
        datasets.Kinetics(tmp_path, 5, split="val")


def test_signatures_are_those_of_torchvision():
    folded = (
        "root annotation_path frames_per_clip step_between_clips frame_rate fold train transform "
        "_precomputed_metadata num_workers _video_width _video_height _video_min_dimension "
        "_audio_samples output_format"
    )
    assert list(inspect.signature(datasets.HMDB51).parameters) == folded.split()
    assert list(inspect.signature(datasets.UCF101).parameters) == folded.split()
    assert inspect.signature(datasets.UCF101).parameters["output_format"].default == "THWC"
    assert inspect.signature(datasets.Kinetics).parameters["output_format"].default == "TCHW"


# -- Kinetics from elsewhere -----------------------------------------------------------------------

TABLE = (
    "label,youtube_id,time_start,time_end,split\n{0},abcdefghijk,5,15,val\n"
    "run,lostlostlos,0,10,val\n"
)


def served(monkeypatch, tmp_path, table, edition="400", ending="csv"):
    """Let downloads be copies of small files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("deep/abcdefghijk_000005_000015.mp4")
        member.size = 4
        archive.addfile(member, io.BytesIO(b"film"))
    host = f"https://s3.amazonaws.com/kinetics/{edition}"
    files = {
        f"{host}/val/k{edition}_val_path.txt": f"{host}/val/part 0.tar.gz\n".encode(),
        f"{host}/annotations/val.{ending}": table.encode(),
        f"{host}/val/part%200.tar.gz": packed.getvalue(),
    }

    def transfer(addresses, path, *args, **kwargs):
        with open(path, "wb") as file:
            file.write(files[addresses[0]])

    monkeypatch.setattr("flambeau.vision.datasets.utils.transfer", transfer)


@pytest.mark.parametrize(
    "classes, edition, ending",
    [("400", "400", "csv"), ("600", "600", "txt"), ("700", "700_2020", "csv")],
)
def test_films_that_were_brought_are_sorted(classes, edition, ending, tmp_path, monkeypatch):
    served(monkeypatch, tmp_path, TABLE.format("playing chess"), edition, ending)
    path = str(tmp_path / "val/playing_chess/abcdefghijk_000005_000015.mp4")
    for _ in range(2):  # the second time nothing is brought
        found = datasets.Kinetics(
            tmp_path, 5, classes, "val", download=True, _precomputed_metadata=metadata([path])
        )
    assert found.samples == [(path, 0)] and found.classes == ["playing_chess"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["annotations", "files", "tars", "val"]


@pytest.mark.parametrize(
    "table, message",
    [
        (TABLE.format("../../x"), "names no folder"),
        ("<html>gone</html>\nx\n", "not a table of films"),
    ],
)
def test_tables_of_films_are_not_trusted(table, message, tmp_path, monkeypatch):
    served(monkeypatch, tmp_path, table)
    with pytest.raises(RuntimeError, match=message):
        datasets.Kinetics(tmp_path, 5, split="val", download=True)
    assert not (tmp_path / "val").exists()


# -- what is read ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name, ordered", [("a.avi", True), ("b.avi", False), ("c.mp4", False)])
def test_every_clip_has_its_frames(name, ordered, av, tmp_path):
    path = film(av, tmp_path / name, frames=25, ordered=ordered)
    clips = VideoClips([path], 4, 3)
    assert len(clips) == 8 and clips.video_fps == [10.0] and len(clips.video_pts[0]) == 25
    for index in (7, 0, 3, 6, 1, 2, 5, 4):
        video, audio, info, number = clips.get_clip(index)
        assert video.shape == (4, 16, 32, 3) and video.dtype == torch.uint8 and number == 0
        assert shown(video) == [3 * index + k for k in range(4)]
        assert audio.shape == (1, 0) and audio.dtype == torch.float32
        assert info == {"video_fps": 10.0}


def test_other_rates_sizes_and_orders(av, tmp_path):
    path = film(av, tmp_path / "a.avi", frames=10)
    slow = VideoClips([path], 3, 3, frame_rate=4, _video_width=16, output_format="TCHW")
    video, _, info, _ = slow.get_clip(0)
    assert video.shape == (3, 3, 8, 16) and info["video_fps"] == 4
    assert shown(video.permute(0, 2, 3, 1)) == [0, 2, 5]
    fast = VideoClips([path], 4, 4, frame_rate=20)
    assert shown(fast.get_clip(1)[0]) == [2, 2, 3, 3]


def test_sound_lasts_as_long_as_the_clip(av, tmp_path):
    path = film(av, tmp_path / "a.mkv", frames=10, sound=8000)
    clips = VideoClips([path], 3, 1)
    for start in (0, 4, 7):
        _, audio, info, _ = clips.get_clip(start)
        assert info["audio_fps"] == 8000 and audio.shape == (1, 2400)
        assert audio.dtype == torch.float32
        heard = (audio[0] * 32768).round().int().tolist()
        assert heard == list(range(800 * start, 800 * start + 2400))
    other = VideoClips([path], 3, 1, _audio_samples=4000, _audio_channels=2)
    _, audio, info, _ = other.get_clip(2)
    assert info["audio_fps"] == 4000 and audio.shape == (2, 1200)


def test_threads_read_the_same(av, tmp_path):
    paths = [film(av, tmp_path / f"{n}.avi", frames=n) for n in (6, 9, 5)]
    one, many = VideoClips(paths, 5), VideoClips(paths, 5, num_workers=3)
    assert [p.tolist() for p in one.video_pts] == [p.tolist() for p in many.video_pts]
    assert len(many) == 2 + 5 + 1


@pytest.mark.parametrize("cls", [datasets.HMDB51, datasets.UCF101])
def test_items_of_folds(cls, av, tmp_path):
    root, lists = folds(tmp_path, lambda path: film(av, path))
    dataset = cls(str(root), str(lists), 5, 5, transform=lambda video: video[:2])
    assert len(dataset) == 4 and "Number of datapoints: 4" in repr(dataset)
    video, audio, label = dataset[3]
    assert shown(video) == [5, 6] and audio.shape == (1, 0) and label == 1
    assert [dataset[i][2] for i in range(4)] == [0, 0, 1, 1]
    again = cls(root, lists, 5, 5, train=False, _precomputed_metadata=dataset.metadata)
    assert len(again) == 4 and again[0][0].shape == (5, 16, 32, 3)


def test_items_of_kinetics_and_a_loader(av, tmp_path):
    film(av, tmp_path / "val/run/a.mp4")
    film(av, tmp_path / "val/jump/b.avi", frames=15)
    dataset = datasets.Kinetics(tmp_path, 5, split="val", step_between_clips=5)
    assert len(dataset) == 5 and dataset.classes == ["jump", "run"]
    loader = torch.utils.data.DataLoader(dataset, batch_size=5, num_workers=1)
    videos, audios, labels = next(iter(loader))
    assert videos.shape == (5, 5, 3, 16, 32) and audios.shape == (5, 1, 0)
    assert labels.tolist() == [0, 0, 0, 1, 1]
    assert shown(videos[2].permute(0, 2, 3, 1)) == [10, 11, 12, 13, 14]


@pytest.mark.parametrize("content", [b"", b"no film at all", b"RIFF\xff\xff\xff\x7fAVI LIST" * 9])
def test_files_that_are_no_films_are_named(content, av, tmp_path):
    path = tmp_path / "strange.avi"
    path.write_bytes(content)
    with pytest.raises(RuntimeError, match=r"strange\.avi (cannot be read as|is not) a film"):
        VideoClips([str(path)])


def test_files_that_are_cut_or_gone_are_named(av, tmp_path):
    path = film(av, tmp_path / "whole.avi", frames=20)
    clips = VideoClips([path], 5, 5)
    content = (tmp_path / "whole.avi").read_bytes()
    (tmp_path / "whole.avi").write_bytes(content[: len(content) // 2])
    with pytest.raises(RuntimeError, match=r"whole\.avi cannot be read as a film"):
        clips.get_clip(3)
    (tmp_path / "whole.avi").unlink()
    with pytest.raises(FileNotFoundError, match=r"whole\.avi"):
        clips.get_clip(3)


def test_sound_alone_is_no_film(av, tmp_path):
    path = tmp_path / "song.wav"
    with av.open(str(path), "w") as file:
        stream = file.add_stream("pcm_s16le", rate=8000, layout="mono")
        part = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        part.sample_rate = 8000
        file.mux(stream.encode(part))
        file.mux(stream.encode(None))
    with pytest.raises(RuntimeError, match=r"song\.wav is not a film: it holds no pictures"):
        VideoClips([str(path)])


def test_the_modules_have_their_names():
    assert datasets.kinetics is kinetics and datasets.video_utils.VideoClips is VideoClips
