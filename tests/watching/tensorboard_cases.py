"""Calls of SummaryWriter, made here and in PyTorch, and what event files hold afterwards.

A case is a function of (writer, torch). `read_events` gives what TensorBoard would read, without
what differs from run to run: moments, and the bytes of images, for which their pixels stand.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
from pathlib import Path

import numpy as np

MOMENT = 1_700_000_000.25  # a walltime that is to be kept


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def fractions(*shape, seed=0):
    return np.random.default_rng(seed).random(shape).astype(np.float32)


def scalars(w, torch):
    w.add_scalar("int", 3)
    w.add_scalar("float", 0.1, 1)
    w.add_scalar("bool", True, 2)
    w.add_scalar("text", "1.5", 3)
    w.add_scalar("numpy", np.float32(0.1), np.int64(4))
    w.add_scalar("array", np.array([[2.5]]), 5)
    w.add_scalar("moment", 1.0, 6, MOMENT)
    w.add_scalar("new", 0.1, 7, new_style=True)
    w.add_scalar("double", 0.1, 8, new_style=True, double_precision=True)
    w.add_scalar("old double", 0.1, 9, double_precision=True)
    w.add_scalar("huge", 1e300, 10, new_style=True, double_precision=True)
    for value in (float("nan"), float("inf"), -float("inf")):
        w.add_scalar("special", value, 11)
    w.add_scalar("step is a tensor", 1, torch.tensor(12))


def scalar_tensors(w, torch):
    for k, name in enumerate(
        "float16 bfloat16 float32 float64 int8 uint8 int16 int32 int64 bool".split()
    ):
        w.add_scalar(name, torch.tensor(1.5).to(getattr(torch, name)), k)
        w.add_scalar(name + " in a list", torch.tensor([[1.1]]).to(getattr(torch, name)), k)
    w.add_scalar("requires_grad", torch.tensor(2.5, requires_grad=True), 1)
    w.add_scalar("result", (torch.ones(3, requires_grad=True) * 2).sum(), 1)
    w.add_scalar("view", torch.arange(6.0).reshape(2, 3)[1, 2], 1)


def several_scalars(w, torch):
    for step in range(3):
        w.add_scalars("loss/all", {"train": step, "val": torch.tensor(step / 2)}, step, MOMENT)
    w.add_scalar("loss/all", 5.0, 1)


def tensors(w, torch):
    for name in (
        "float16 bfloat16 float32 float64 int8 uint8 int16 int32 int64 bool complex64 complex128"
    ).split():
        if name == "int8" or "int16" in name or "int32" in name:
            values = torch.tensor([[1, -2], [3, 100]])
        else:
            values = torch.tensor([[1, 0], [3, 100]])
        w.add_tensor(name, values.to(getattr(torch, name)), 3, MOMENT)
    w.add_tensor("empty", torch.zeros(0, 2), 1)
    w.add_tensor("number", torch.tensor(2.5), 1)
    w.add_tensor("transposed", torch.arange(6.0).reshape(2, 3).t(), 1)


def histograms(w, torch):
    x = numbers(500) * 3
    w.add_histogram("default", torch.from_numpy(x), 1)
    w.add_histogram("array", x, 1, walltime=MOMENT)
    w.add_histogram("requires_grad", torch.from_numpy(x).requires_grad_(), 1)
    for bins in ("auto", "fd", "doane", "scott", "stone", "rice", "sturges", "sqrt"):
        w.add_histogram(bins, x, 2, bins=bins)
    for bins in (1, 7, [-1.0, 0.0, 0.5, 4.0], np.linspace(-9, 9, 40)):
        w.add_histogram("given", x, 3, bins=bins)
    for most in (1, 3, 10, 64, 1000, 5000):
        w.add_histogram("max_bins", x, 4, max_bins=most)
        w.add_histogram("max_bins of few", x, 4, bins=50, max_bins=most)
    w.add_histogram("one", np.array([2.0]), 5)
    w.add_histogram("number", 3, 5)
    w.add_histogram("zeros", torch.zeros(10), 5)
    w.add_histogram("below all bins", np.full(3, -2e20), 5, bins=[-3e20, 0, 1])
    w.add_histogram("matrix", torch.from_numpy(x.reshape(25, 20)).t(), 5)
    for name in "float16 bfloat16 float64 int8 uint8 int64 bool".split():
        w.add_histogram(name, torch.from_numpy(x).abs().to(getattr(torch, name)), 6)


def raw_histograms(w, torch):
    limits, counts = [1.0, 2.0, 4.0], [3, 0, 5]
    w.add_histogram_raw("lists", 0.5, 3.5, 8, 20.0, 60.0, limits, counts, 1, MOMENT)
    w.add_histogram_raw("arrays", 0, 3, 8, 20, 60, np.array(limits), np.array(counts), 2)
    w.add_histogram_raw("tensors", 0, 3, 8, 20, 60, torch.tensor(limits), torch.tensor(counts), 3)


def images(w, torch):
    w.add_image("floats", torch.from_numpy(fractions(3, 9, 7)), 1, MOMENT)
    w.add_image("beyond", torch.from_numpy(numbers(3, 9, 7)), 1)
    w.add_image("bytes", (fractions(3, 9, 7) * 255).astype(np.uint8), 1)
    w.add_image("byte tensor", torch.from_numpy((fractions(3, 9, 7) * 255).astype(np.uint8)), 1)
    w.add_image("integers", torch.tensor([[[0, 1], [2, -1]]]), 1)
    w.add_image("bools", torch.tensor([[[True, False]]]), 1)
    w.add_image("gray", fractions(1, 9, 7), 1)
    w.add_image("four channels", fractions(4, 9, 7), 1)
    w.add_image("double", fractions(3, 9, 7).astype(np.float64), 1)
    for name in ("float16", "bfloat16"):
        w.add_image(name, torch.from_numpy(fractions(3, 9, 7)).to(getattr(torch, name)), 1)
    for k, order in enumerate(("HWC", "hwc", "WHC", "CWH")):
        w.add_image("orders", fractions(*(3 if c in "Cc" else 5 for c in order)), k, None, order)
    w.add_image("HWC gray", fractions(4, 5, 1), 1, dataformats="HWC")
    w.add_image("HW", fractions(4, 5), 1, dataformats="HW")
    w.add_image("WH", torch.from_numpy(fractions(4, 5)), 1, dataformats="WH")
    w.add_image("requires_grad", torch.from_numpy(fractions(3, 4, 4)).requires_grad_(), 1)


def batches_of_images(w, torch):
    for count in (1, 3, 8, 9, 17):
        w.add_images("floats", torch.from_numpy(fractions(count, 3, 5, 4)), count, MOMENT)
        w.add_images("gray bytes", (fractions(count, 1, 5, 4) * 255).astype(np.uint8), count)
    w.add_images("NHWC", fractions(3, 5, 4, 3), 1, dataformats="NHWC")
    w.add_images("CHWN", torch.from_numpy(fractions(3, 5, 4, 6)), 1, dataformats="CHWN")
    w.add_images("CHW", fractions(3, 5, 4), 1, dataformats="CHW")


def boxes(w, torch):
    picture, where = fractions(3, 60, 80), np.array([[3, 4, 30, 40], [10.5, 8, 70, 55]])
    w.add_image_with_boxes("plain", torch.from_numpy(picture), torch.from_numpy(where), 1, MOMENT)
    w.add_image_with_boxes("labels", picture, where, 2, labels=["cat", "a dog"])
    w.add_image_with_boxes("one label", picture, where[:1], 3, labels="cat")
    w.add_image_with_boxes("too few labels", picture, where, 4, labels=["cat"])
    w.add_image_with_boxes("scaled", picture, where, 5, rescale=2.5)
    w.add_image_with_boxes("smaller", picture, where, 6, rescale=0.5)
    w.add_image_with_boxes("HWC", picture.transpose(1, 2, 0), where, 7, dataformats="HWC")


def figures(w, torch):
    from matplotlib.figure import Figure

    def figure(k):
        made = Figure(figsize=(1.5, 1), dpi=40)
        made.add_subplot().plot([0, k, 1])
        return made

    w.add_figure("one", figure(1), 1, walltime=MOMENT)
    w.add_figure("three", [figure(k) for k in range(3)], 2)
    w.add_figure("kept", figure(2), 3, close=False)


def sounds(w, torch):
    wave = np.sin(np.arange(400) / 7).astype(np.float32)
    w.add_audio("line", torch.from_numpy(wave[None]), 1, 8000, MOMENT)
    w.add_audio("default rate", wave, 2)
    w.add_audio("too loud", wave * 3, 3)
    w.add_audio("double", torch.from_numpy(wave.astype(np.float64)), 4)
    w.add_audio("integers", torch.tensor([0, 1, -1, 1]), 5)


def texts(w, torch):
    w.add_text("markdown", "# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |", 1, MOMENT)
    w.add_text("letters", "ß 日本 🙂")
    w.add_text("empty", "", 2)


def pr_curves(w, torch):
    truth, guess = (fractions(300, seed=1) > 0.4), fractions(300, seed=2)
    w.add_pr_curve("arrays", truth, guess, 1, walltime=MOMENT)
    w.add_pr_curve("tensors", torch.from_numpy(truth), torch.from_numpy(guess), 2)
    w.add_pr_curve("integers", torch.from_numpy(truth).long(), torch.from_numpy(guess), 3)
    for most in (3, 50, 127, 1000):
        w.add_pr_curve("thresholds", truth, guess, most, num_thresholds=most)
    w.add_pr_curve("weights", truth, guess, 4, weights=fractions(300, seed=3))
    w.add_pr_curve("none is true", np.zeros(5), guess[:5], 5)
    w.add_pr_curve("bfloat16", truth, torch.from_numpy(guess).to(torch.bfloat16), 6)
    counts = [fractions(11, seed=k) for k in range(6)]
    w.add_pr_curve_raw("raw", *counts, 1, 11, walltime=MOMENT)
    w.add_pr_curve_raw("raw lists", *(c.tolist() for c in counts), 2, 500)
    w.add_pr_curve_raw("raw tensors", *map(torch.from_numpy, counts), 3)


def layouts(w, torch):
    w.add_custom_scalars(
        {
            "losses": {"both": ["Multiline", ["train/.*", "val/loss"]]},
            "margins": {"a": ["Margin", ["m", "low", "high"]], "b": ["Multiline", ["x"]]},
        }
    )
    w.add_custom_scalars_multilinechart(["a", "b"], "category", "title")
    w.add_custom_scalars_multilinechart(["a"])
    w.add_custom_scalars_marginchart(["a", "b", "c"])
    w.add_custom_scalars_marginchart(("a", "b", "c"), category="c", title="t")


def meshes(w, torch):
    vertices = torch.tensor([[[1.0, 1, 1], [-1, -1, 1], [1, -1, -1], [-1, 1, -1]]])
    colors = torch.tensor([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 0, 255]]])
    faces = torch.tensor([[[0, 2, 3], [0, 3, 1], [0, 1, 2], [1, 3, 2]]], dtype=torch.int)
    config = {"material": {"cls": "MeshStandardMaterial", "roughness": 1}, "camera": {"fov": 75}}
    w.add_mesh("whole", vertices, colors, faces, config, 1, MOMENT)
    w.add_mesh("cloud", vertices, global_step=2)
    w.add_mesh("colored cloud", vertices, colors.to(torch.uint8), global_step=3)
    w.add_mesh("arrays", vertices.numpy(), faces=faces.numpy())
    w.add_mesh("two", torch.cat([vertices, vertices * 2]))


def hyperparameters(w, torch):
    w.add_hparams({"lr": 0.1, "layers": 3, "name": "adam", "fast": True}, {"acc": 0.5}, None, "a")
    w.add_hparams(
        {"lr": 0.2, "none": None, "t": torch.tensor([2.5])},
        {"acc": torch.tensor(0.7), "hparam/loss": np.float32(3)},
        {"lr": [0.1, 0.2]},
        "b/c",
        7,
    )
    w.add_hparams({"name": "sgd", "fast": False}, {}, {"name": ["sgd"], "fast": [True]}, "d")
    w.add_hparams({}, {"acc": 1}, run_name="empty")


def embeddings(w, torch):
    points = numbers(7, 3)
    w.add_embedding(torch.from_numpy(points))
    w.add_embedding(points, list("abcdefg"), global_step=12, tag="of/letters%20")
    pictures = torch.from_numpy(fractions(7, 3, 4, 5))
    w.add_embedding(points, range(7), pictures, 3, "pictures")
    w.add_embedding(points[:4], label_img=pictures[:4, :1], tag="gray")
    rows = [[k, f"number {k}"] for k in range(7)]
    w.add_embedding(torch.from_numpy(points).double(), rows, tag="h", metadata_header=["k", "n"])
    w.add_embedding(torch.from_numpy(points).half().requires_grad_(), tag="half")


CASES = [
    scalars,
    scalar_tensors,
    several_scalars,
    tensors,
    histograms,
    raw_histograms,
    images,
    batches_of_images,
    boxes,
    figures,
    sounds,
    texts,
    pr_curves,
    layouts,
    meshes,
    hyperparameters,
    embeddings,
]
# Their pixels depend on the versions of Pillow and matplotlib: no use in a record.
FRESH_ONLY = {"boxes", "figures"}


# -- reading --------------------------------------------------------------------------------------


def _pixels(encoded):
    from PIL import Image

    picture = Image.open(io.BytesIO(encoded))
    pixels = np.asarray(picture)
    digest = hashlib.sha256(np.ascontiguousarray(pixels)).hexdigest()[:16]
    return f"{picture.mode} {pixels.shape} {digest}"


def _plain(event):
    """An event as a dictionary without moments and bytes of images."""
    from google.protobuf.json_format import MessageToDict
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    if event.wall_time != MOMENT:
        event.ClearField("wall_time")
    pictures, sessions = [], []
    for value in event.summary.value:
        if value.HasField("image"):
            pictures.append(_pixels(value.image.encoded_image_string))
            value.image.encoded_image_string = b""
        plugin = value.metadata.plugin_data
        if plugin.plugin_name == "hparams":  # its maps are written in any order
            sessions.append(MessageToDict(HParamsPluginData.FromString(plugin.content)))
            plugin.content = b""
    found = MessageToDict(event, preserving_proto_field_name=True)
    told = {"pictures": pictures, "sessions": sessions}
    return {**found, **{key: value for key, value in told.items() if value}}


def read_events(folder):
    """Run -> events in order, as dictionaries; other files -> their content."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    found = {}
    for path in sorted(Path(folder).rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_dir():
            continue
        if "tfevents" not in name:
            is_picture = path.suffix == ".png"
            found[name] = _pixels(path.read_bytes()) if is_picture else path.read_text()
            continue
        run = path.relative_to(folder).parent.as_posix()
        with contextlib.redirect_stderr(io.StringIO()):
            events = [Event.FromString(raw) for raw in RawEventFileLoader(str(path)).Load()]
        found[run] = found.get(run, []) + [_plain(event) for event in events]
    return found


def written(case, torch, folder):
    """What a case writes, and what it prints."""
    from importlib import import_module

    writer = import_module(f"{torch.__name__}.utils.tensorboard").SummaryWriter(folder)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), writer:
        case(writer, torch)
    return {"printed": printed.getvalue(), **read_events(folder)}
