"""SummaryWriter: its files, what it refuses, and what happens with threads, forks and exits."""

import copy
import inspect
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import types
from pathlib import Path

import numpy as np
import pytest

import flambeau as fl

pytest.importorskip("tensorboard")
from flambeau.utils import tensorboard
from flambeau.utils.tensorboard import FileWriter, RecordWriter, SummaryWriter, _onnx_graph
from flambeau.utils.tensorboard._convert_np import make_np
from tests.watching.tensorboard_cases import MOMENT, read_events

ROOT = Path(__file__).parent.parent.parent


def event_files(folder):
    return sorted(Path(folder).glob("*tfevents*"))


def scalars(folder, run="."):
    """(tag, step, value) in the order of writing."""
    return [
        (value["tag"], int(event.get("step", 0)), value["simple_value"])
        for event in read_events(folder)[run]
        for value in event.get("summary", {}).get("value", ())
    ]


def run_program(text, *args):
    """A program of its own, which imports this flambeau."""
    program = [sys.executable, "-W", "error", "-c", textwrap.dedent(text), *map(str, args)]
    return subprocess.run(
        program,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )


# -- files and folders ----------------------------------------------------------------------------


def test_the_folder_has_the_date_the_host_and_the_comment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with SummaryWriter(comment="_lr0.1") as writer:
        (folder,) = (tmp_path / "runs").iterdir()
        host = re.escape(socket.gethostname())
        assert re.fullmatch(rf"\w{{3}}\d\d_\d\d-\d\d-\d\d_{host}_lr0\.1", folder.name)
        assert writer.get_logdir() == writer.log_dir == os.path.join("runs", folder.name)
    assert event_files(folder)


def test_a_path_stays_what_it_was(tmp_path):
    with SummaryWriter(tmp_path / "a" / "b", filename_suffix=".end") as writer:
        assert writer.get_logdir() == tmp_path / "a" / "b"
        assert writer._get_file_writer().get_logdir() == str(tmp_path / "a" / "b")
        assert list(writer.all_writers) == [str(tmp_path / "a" / "b")]
        assert writer.all_writers[str(tmp_path / "a" / "b")] is writer.file_writer
    (file,) = event_files(tmp_path / "a" / "b")
    assert file.name.endswith(".end")
    assert writer.all_writers is None and writer.file_writer is None


def test_purged_steps_are_told_once(tmp_path):
    with SummaryWriter(tmp_path, purge_step=7) as writer:
        writer.add_scalar("a", 1, 7)
        writer.close()
        writer.add_scalar("a", 2, 8)
    events = [e for e in read_events(tmp_path)["."] if "session_log" in e]
    assert [(e["step"], e["session_log"]["status"]) for e in events] == [("7", "START")]
    versions = [e for e in read_events(tmp_path)["."] if e.get("file_version") and "step" in e]
    assert [e["step"] for e in versions] == ["7"]


def test_a_closed_writer_goes_on_in_a_new_file(tmp_path):
    writer = SummaryWriter(tmp_path)
    writer.add_scalar("a", 1, 1)
    writer.close()
    writer.close()
    writer.flush()
    writer.add_scalar("a", 2, 2)
    writer.close()
    assert len(event_files(tmp_path)) == 2
    assert sorted(scalars(tmp_path)) == [("a", 1, 1.0), ("a", 2, 2.0)]


def test_a_file_writer_refuses_events_when_closed_and_can_be_opened_again(tmp_path):
    from tensorboard.compat.proto.event_pb2 import Event

    writer = FileWriter(tmp_path)
    writer.add_event(Event(file_version="1"), 3, MOMENT)
    writer.reopen()  # open already
    writer.close()
    writer.close()
    for call in (writer.flush, lambda: writer.add_event(Event())):
        with pytest.raises(OSError, match="Writer is closed"):
            call()
    writer.reopen()
    writer.add_event(Event(file_version="2"), 4)
    writer.close()
    assert len(event_files(tmp_path)) == 2
    told = [(e["file_version"], e.get("step")) for e in read_events(tmp_path)["."]]
    assert sorted(told, key=str)[:2] == [("1", "3"), ("2", "4")]


def test_flush_leaves_nothing_in_the_queue(tmp_path):
    with SummaryWriter(tmp_path, flush_secs=1000, max_queue=100) as writer:
        for step in range(50):
            writer.add_scalar("a", step, step)
        writer.add_scalars("b", {"x": 1, "y": 2})
        writer.flush()
        assert len(scalars(tmp_path)) == 50
        assert scalars(tmp_path, "b_x") == [("b", 0, 1.0)]


def test_lines_and_tabs_in_labels_cannot_shift_points(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(np.eye(3), ["one\nline", "a\tcolumn", ""])
        writer.add_embedding(np.eye(1), [["a\nb", "c\td"]], tag="h", metadata_header=("x", "y"))
    assert (tmp_path / "00000/default/metadata.tsv").read_text() == "one line\na column\n\n"
    assert (tmp_path / "00000/h/metadata.tsv").read_text() == "x\ty\na b\tc d\n"


def test_an_embedding_that_is_there_is_told_and_a_file_in_its_place_refused(tmp_path, capsys):
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(np.eye(2))
        writer.add_embedding(np.eye(2))
        assert "warning: Embedding dir exists" in capsys.readouterr().out
        (tmp_path / "00000" / "taken").write_text("")
        with pytest.raises(NotADirectoryError, match="exists, but is a file"):
            writer.add_embedding(np.eye(2), tag="taken")


def test_pictures_of_points_may_be_bytes_and_taller_than_wide(tmp_path):
    from PIL import Image

    pictures = np.arange(2 * 3 * 9 * 2, dtype=np.uint8).reshape(2, 3, 9, 2)
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(np.eye(2), label_img=fl.from_numpy(pictures))
    sprite = np.asarray(Image.open(tmp_path / "00000/default/sprite.png"))
    assert (sprite[:9, :2] == pictures[0].transpose(1, 2, 0)).all()
    assert (sprite[:9, 2:4] == pictures[1].transpose(1, 2, 0)).all()


# -- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [3.0e38, 1e-30, -7e4, float("inf"), float("nan")])
def test_bfloat16_keeps_its_range(value, tmp_path):
    t = fl.tensor([value, 1.0], dtype=fl.bfloat16)
    expected = t.float().tolist()
    np.testing.assert_array_equal(make_np(t), expected)
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a", t[0])
    np.testing.assert_array_equal(np.float32(scalars(tmp_path)[0][2]), expected[0])


def test_full_amplitude_in_half_precision_does_not_overflow(tmp_path):
    from tensorboard.compat.proto.summary_pb2 import Summary

    from flambeau.utils.tensorboard.summary import audio

    made: Summary = audio("a", fl.tensor([1.0, -1.0, 0.5, 0.0], dtype=fl.float16))
    samples = np.frombuffer(made.value[0].audio.encoded_audio_string[44:], dtype="<i2")
    assert samples.tolist() == [32767, -32767, 16383, 0]


def test_hyperparameters_may_be_tensors_without_dimensions(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"lr": fl.tensor(0.5)}, {"acc": 1}, run_name="a")
    session = read_events(tmp_path)["a"][2]["sessions"][0]
    assert session["sessionStartInfo"]["hparams"] == {"lr": 0.5}


@pytest.mark.parametrize("count, rows, columns", [(1, 1, 1), (2, 1, 2), (3, 1, 4), (4, 2, 2)])
def test_videos_are_animations_side_by_side(count, rows, columns, tmp_path):
    from PIL import Image

    videos = np.zeros((count, 5, 3, 4, 6), dtype=np.float32)
    for n in range(count):
        for t in range(5):
            videos[n, t, n % 3] = (t + 1) / 5
    with SummaryWriter(tmp_path) as writer:
        writer.add_video("v", fl.from_numpy(videos), 1, fps=5)
        writer.add_video("bytes", (videos * 255).astype(np.uint8), 1, fps=5)
    import io

    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    events = list(EventFileLoader(str(event_files(tmp_path)[0])).Load())
    protos = [v.tensor.string_val[2] for e in events for v in e.summary.value]
    assert len(protos) == 2
    for content in protos:
        movie = Image.open(io.BytesIO(content))
        assert movie.format == "GIF" and movie.n_frames == 5
        assert movie.info["duration"] == 200
        for t in range(5):
            movie.seek(t)
            frame = np.asarray(movie.convert("RGB")).astype(int)
            assert frame.shape == (rows * 4, columns * 6, 3)
            for n in range(count):
                part = frame[n // columns * 4 :][:4, n % columns * 6 :][:, :6]
                expected = np.zeros(3)
                expected[n % 3] = 255 * (t + 1) / 5
                assert abs(part - expected).max() <= 1


# -- what is refused ------------------------------------------------------------------------------

REFUSED = {
    "scalar of two": lambda w, t: w.add_scalar("a", t.ones(2)),
    "scalar of none": lambda w, t: w.add_scalar("a", t.ones(0)),
    "scalar in a list": lambda w, t: w.add_scalar("a", [1]),
    "scalar that is missing": lambda w, t: w.add_scalar("a", None),
    "scalar that is a word": lambda w, t: w.add_scalar("a", "x"),
    "complex scalar": lambda w, t: w.add_scalar("a", 1j),
    "complex tensor": lambda w, t: w.add_scalar("a", t.tensor(1j)),
    "tag that is a number": lambda w, t: w.add_scalar(3, 1.0),
    "step that is a word": lambda w, t: w.add_scalar("a", 1.0, "x"),
    "histogram of nothing": lambda w, t: w.add_histogram("a", t.ones(0)),
    "histogram of a list": lambda w, t: w.add_histogram("a", [1, 2]),
    "histogram of nan": lambda w, t: w.add_histogram("a", np.array([np.nan])),
    "unknown bins": lambda w, t: w.add_histogram("a", np.ones(3), bins="foo"),
    "raw histogram": lambda w, t: w.add_histogram_raw("a", 0, 1, 2, 3, 4, [1], [1, 2]),
    "image without channels": lambda w, t: w.add_image("a", t.ones(2, 2)),
    "dimension twice": lambda w, t: w.add_image("a", t.ones(2, 2, 2), dataformats="CCH"),
    "images of two channels": lambda w, t: w.add_images("a", t.ones(2, 2, 4, 4)),
    "empty image": lambda w, t: w.add_image("a", t.ones(3, 0, 0)),
    "sound of two channels": lambda w, t: w.add_audio("a", t.ones(2, 3)),
    "text that is a number": lambda w, t: w.add_text("a", 3),
    "margin of one": lambda w, t: w.add_custom_scalars_marginchart(["a"]),
    "hparams in a list": lambda w, t: w.add_hparams([], {}),
    "metrics in a list": lambda w, t: w.add_hparams({}, []),
    "hparam that is a list": lambda w, t: w.add_hparams({"a": [1]}, {}),
    "domain of another type": lambda w, t: w.add_hparams({"a": 1}, {}, {"a": ["x"]}),
    "domain of an unknown": lambda w, t: w.add_hparams({"a": 1}, {}, {"b": [1]}),
    "domains in a list": lambda w, t: w.add_hparams({"a": 1}, {}, [1]),
    "embedding of one dimension": lambda w, t: w.add_embedding(t.ones(3)),
    "too few labels": lambda w, t: w.add_embedding(t.ones(3, 2), ["a"]),
    "too few pictures": lambda w, t: w.add_embedding(t.ones(3, 2), None, t.ones(2, 3, 4, 4)),
    "short header": lambda w, t: w.add_embedding(t.ones(1, 2), [["a", "b"]], metadata_header=["x"]),
    "mesh of two dimensions": lambda w, t: w.add_mesh("a", t.ones(3, 3)),
    "dtype without a proto": lambda w, t: w.add_tensor("a", t.ones(2).to(t.uint16)),
    "curve of a list": lambda w, t: w.add_pr_curve("a", [1], [0.5]),
}
SAID = {
    "scalar of two": "AssertionError: Tensor should contain one element (0 dimensions)",
    "scalar in a list": "NotImplementedError: Got <class 'list'>, but numpy array or torch tensor",
    "histogram of nothing": "ValueError: The input has no element",
    "histogram of nan": "ValueError: The histogram is empty, please file a bug report",
    "dimension twice": "AssertionError: You can not use the same dimension shorthand twice",
    "sound of two channels": "AssertionError: input tensor should be 1 dimensional",
    "margin of one": "AssertionError: Expected 3 tags, got 1",
    "hparams in a list": "TypeError: hparam_dict and metric_dict should be dictionary",
    "hparam that is a list": "ValueError: value should be one of int, float, str, bool, or torch",
    "too few labels": "AssertionError: #labels should equal with #data points",
    "dtype without a proto": "ValueError: a has unsupported tensor dtype torch.uint16",
}


def complaint(call, module, folder):
    from importlib import import_module

    writer_class = import_module(f"{module.__name__}.utils.tensorboard").SummaryWriter
    with writer_class(folder) as writer, pytest.raises(Exception) as raised:
        call(writer, module)
    sentence = re.split(r"(?<=\.)\s|, but its", str(raised.value))[0].rstrip(".")
    return f"{type(raised.value).__name__}: {sentence}"


@pytest.mark.parametrize("name", SAID)
def test_refusals(name, tmp_path):
    assert complaint(REFUSED[name], fl, tmp_path).startswith(SAID[name])


@pytest.mark.oracle
@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_those_of_pytorch(name, tmp_path):
    torch = pytest.importorskip("torch")
    expected = complaint(REFUSED[name], torch, tmp_path / "a")
    assert complaint(REFUSED[name], fl, tmp_path / "b").startswith(expected)


def test_tensors_without_elements_in_memory_are_refused(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for call in (writer.add_scalar, writer.add_histogram):
            with pytest.raises(Exception, match="meta"):
                call("a", fl.ones(1, device="meta"))


@pytest.mark.parametrize("format", ["XYZ", "NCHWD", "HWN"])
def test_other_dimensions_of_images_are_named(format, tmp_path):
    with SummaryWriter(tmp_path) as writer, pytest.raises(ValueError, match=format):
        writer.add_image("a", np.ones((2,) * len(format)), dataformats=format)


MISSING = [
    ("tensorboard", "from flambeau.utils.tensorboard import SummaryWriter", "tensorboard"),
    ("PIL", "writer().add_image('a', np.ones((3, 2, 2)))", "vision"),
    ("PIL", "writer().add_video('a', np.ones((1, 2, 3, 2, 2)))", "vision"),
    ("matplotlib", "writer().add_figure('a', None)", "matplotlib"),
    ("onnx", "writer().add_onnx_graph('a')", "onnx"),
]


@pytest.mark.parametrize("package, call, extra", MISSING)
def test_missing_packages_are_named_with_their_extra(package, call, extra, tmp_path):
    program = f"""
        import sys
        import numpy as np
        sys.modules[{package!r}] = None
        def writer():
            from flambeau.utils.tensorboard import SummaryWriter
            return SummaryWriter(sys.argv[1])
        try:
            {call}
        except ImportError as error:
            print(error)
    """
    done = run_program(program, tmp_path)
    name = {"PIL": "pillow"}.get(package, package)
    wanted = "matplotlib" if package == "matplotlib" else f"flambeau[{extra}]"
    assert f"needs the package {name}" in done.stdout.replace("need ", "needs "), done.stderr
    assert f"pip install {wanted}`" in done.stdout


# -- threads, forks, exits ------------------------------------------------------------------------


def test_threads_share_a_writer(tmp_path):
    with SummaryWriter(tmp_path) as writer:

        def work(k):
            for step in range(50):
                writer.add_scalar(f"t{k}", step, step)
                writer.add_scalars("all", {"x": k}, step)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(writer.all_writers) == 2
    found = scalars(tmp_path)
    for k in range(4):
        assert [(s, v) for tag, s, v in found if tag == f"t{k}"] == [(s, s) for s in range(50)]
    assert len(scalars(tmp_path, "all_x")) == 200


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_child_writes_a_file_of_its_own(tmp_path):
    program = """
        import multiprocessing, os, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        from flambeau.utils.tensorboard import SummaryWriter
        writer = SummaryWriter(sys.argv[1], flush_secs=1000)
        for step in range(100):
            writer.add_scalar("parent", step, step)
        def child(name):
            for step in range(30):  # more than the queue holds
                writer.add_scalar(name, step, step)
                writer.add_scalars("several", {"x": step}, step)
            if name == "flushed":
                writer.flush()
        forked = multiprocessing.get_context("fork")
        children = [forked.Process(target=child, args=(n,)) for n in ("left", "flushed", "third")]
        for process in children:
            process.start()
        pid = os.fork()
        if not pid:  # a child that ends as programs do
            child("forked")
            sys.exit()
        for step in range(100, 150):
            writer.add_scalar("parent", step, step)
        for process in children:
            process.join()
            assert process.exitcode == 0
        assert os.waitpid(pid, 0)[1] == 0
        writer.close()
    """
    done = run_program(program, tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(event_files(tmp_path)) == 5
    found = scalars(tmp_path)
    assert [v for tag, _, v in found if tag == "parent"] == list(range(150))
    for name in ("left", "flushed", "third", "forked"):
        assert [v for tag, _, v in found if tag == name] == list(range(30)), name
    assert len(scalars(tmp_path, "several_x")) == 4 * 30


def test_what_waits_is_written_when_a_program_ends(tmp_path):
    program = """
        import sys
        from flambeau.utils.tensorboard import SummaryWriter
        writer = SummaryWriter(sys.argv[1], max_queue=1000, flush_secs=1000)
        for step in range(500):
            writer.add_scalar("a", step, step)
    """
    assert run_program(program, tmp_path).returncode == 0
    assert [v for _, _, v in scalars(tmp_path)] == list(range(500))


def test_copies_write_files_of_their_own(tmp_path):
    with SummaryWriter(tmp_path, purge_step=3) as writer:
        writer.add_scalar("a", 1)
        for k, copied in enumerate((pickle.loads(pickle.dumps(writer)), copy.deepcopy(writer))):
            with copied:
                copied.add_scalar("b", k)
        writer.add_scalar("a", 2)
    assert len(event_files(tmp_path)) == 3
    assert sorted(scalars(tmp_path)) == [("a", 0, 1), ("a", 0, 2), ("b", 0, 0), ("b", 0, 1)]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_folder_that_is_gone_is_told_and_nothing_hangs(tmp_path):
    writer = SummaryWriter(tmp_path / "run")
    writer.add_scalars("b", {"x": 1})
    writer.flush()
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(FileNotFoundError, match="run"):
        for step in range(100):
            writer.add_scalar("a", step, step)
            writer.flush()
    with pytest.raises(FileNotFoundError, match="run"):
        writer.close()
    assert writer.all_writers is None


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(OSError, match="taken"):
        SummaryWriter(tmp_path / "taken")


# -- names ----------------------------------------------------------------------------------------


def test_public_names():
    assert tensorboard.__all__ == ["FileWriter", "RecordWriter", "SummaryWriter"]
    assert tensorboard.writer.FileWriter is FileWriter and RecordWriter is not None


def _signature(function):
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default) for p in parameters]


@pytest.mark.oracle
def test_signatures_are_those_of_pytorch():
    pytest.importorskip("torch")
    import torch.utils.tensorboard as theirs
    from torch.utils.tensorboard import summary as their_summary

    assert sorted(tensorboard.summary.__all__) == sorted(their_summary.__all__)
    pairs = [
        (getattr(tensorboard.summary, name), getattr(their_summary, name))
        for name in their_summary.__all__
    ]
    for name in ("FileWriter", "SummaryWriter"):
        ours, other = getattr(tensorboard, name), getattr(theirs, name)
        members = [m for m, f in vars(other).items() if inspect.isfunction(f)]
        pairs += [(getattr(ours, m), getattr(other, m)) for m in members]
    assert len(pairs) > 50
    for ours, other in pairs:
        assert _signature(ours) == _signature(other), ours


def test_graphs_of_onnx_files():
    """With objects like those of the onnx package, which is not needed for this."""

    def value(name, *sizes):
        shape = types.SimpleNamespace(dim=[types.SimpleNamespace(dim_value=s) for s in sizes])
        kind = types.SimpleNamespace(tensor_type=types.SimpleNamespace(elem_type=1, shape=shape))
        return types.SimpleNamespace(name=name, type=kind)

    axis = types.SimpleNamespace(ListFields=lambda: [(None, "axis"), (None, 1)])
    node = types.SimpleNamespace(output=["y"], op_type="Softmax", input=["x"], attribute=[axis])
    graph = types.SimpleNamespace(input=[value("x", 2, 3)], output=[value("y", 2, 3)], node=[node])
    nodes = _onnx_graph.parse(graph).node
    assert [(n.name, n.op, list(n.input)) for n in nodes] == [
        ("x", "Variable", []),
        ("y", "Variable", []),
        ("y", "Softmax", ["x"]),
    ]
    assert [d.size for d in nodes[0].attr["shape"].shape.dim] == [2, 3]
    assert nodes[2].attr["parameters"].s == b"axis = 1"
