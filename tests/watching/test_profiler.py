"""The profiler: events, steps, traces, and that nothing is left when it stops."""

import gzip
import json
import os
import subprocess
import sys
import threading
import types

import pytest

import flambeau as torch
from flambeau import interposing, nn
from flambeau._tensor import Tensor
from flambeau.eager import kernels, methods
from flambeau.profiler import (
    ProfilerAction,
    ProfilerActivity,
    _ExperimentalConfig,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)
from flambeau.runtime import cpu


def names(prof):
    return [event.name for event in prof.events()]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))


def train(model, optimizer):
    x, y = torch.ones(2, 1, 8, 8), torch.tensor([0, 2])
    optimizer.zero_grad()
    with record_function("forward"):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


@pytest.fixture(scope="module")
def recorded():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer)
    options = dict.fromkeys(
        "record_shapes profile_memory with_stack with_flops with_modules".split(), True
    )
    with profile(activities=[ProfilerActivity.CPU], **options) as prof:
        train(model, optimizer)
    return prof


def test_a_training_step_is_seen_from_all_sides(recorded):
    found = names(recorded)
    for name in (
        "forward",
        "aten::conv2d",
        "aten::convolution",
        "aten::relu",
        "aten::linear",
        "aten::cross_entropy_loss",
        "autograd::engine::evaluate_function: AddmmBackward0",
        "AddmmBackward0",
        "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
        "torch::autograd::AccumulateGrad",
        "aten::convolution_backward",
        "Optimizer.step#SGD.step",
        "Optimizer.zero_grad#SGD.zero_grad",
    ):
        assert name in found, name
    assert any(name.startswith("nn.Module: Linear_") for name in found)


def test_calls_are_nested_and_self_times_add_up(recorded):
    events = recorded.events()
    conv = next(e for e in events if e.name == "aten::convolution")
    above = []
    while conv.cpu_parent is not None:
        conv = conv.cpu_parent
        above.append(conv.name)
    assert above[0] == "aten::conv2d" and above[-1] == "forward"
    top = [e for e in events if e.cpu_parent is None]
    total = sum(e.cpu_time_total for e in top)
    assert events.self_cpu_time_total == pytest.approx(total)
    for e in events:
        assert e.self_cpu_time_total >= -1e-6
        assert e.cpu_time_total >= 0


def test_shapes_flops_stacks_and_modules(recorded):
    conv = next(e for e in recorded.events() if e.name == "aten::conv2d")
    assert conv.input_shapes[:3] == [[2, 1, 8, 8], [4, 1, 3, 3], [4]]
    assert conv.flops == 2 * 2 * 4 * 36 * 9
    assert conv.stack[-1] and any("test_profiler.py" in entry for entry in conv.stack)
    assert "conv.py(" in conv.stack[0] and conv.stack[0].endswith("forward")
    assert conv.module == "Sequential.0(Conv2d)"
    back = next(e for e in recorded.events() if e.name == "ConvolutionBackward0")
    assert back.stack == conv.stack  # backward comes from where forward was called


@pytest.mark.skipif(kernels.clock() is None, reason="no clock for this platform")
def test_kernels_are_timed_within_their_ops():
    # a process of its own: only so many kernels can be timed, and the tests before load more
    done = subprocess.run([sys.executable, "-c", TIMED], capture_output=True, text=True, timeout=60)
    assert done.stdout == "timed\n", done.stderr


TIMED = """
import flambeau as torch
from flambeau.profiler import profile

x = torch.randn(1000)
for _ in range(2):
    with profile() as prof:
        x.relu()
    relu = next(e for e in prof.events() if e.name == "aten::relu")
    assert [k.name for k in relu.kernels] == ["relu"]
    assert 0 < relu.kernels[0].duration <= relu.cpu_time_total
    averages = prof.kernel_averages()
    assert "relu" in {a.key for a in averages}
    assert "relu" in averages.table(sort_by="cpu_time_total")
print("timed")
"""


def test_memory_is_that_of_results():
    with profile(profile_memory=True) as prof:
        x = torch.ones(1000)  # 4000 bytes
        y = x + 1
        del y
        z = x.view(10, 100)
        z.add_(1)
    by_name = {e.name: e for e in prof.events()}
    assert by_name["aten::ones"].cpu_memory_usage == 4000
    assert by_name["aten::add"].cpu_memory_usage == 4000
    assert by_name["aten::view"].cpu_memory_usage == 0
    assert by_name["aten::add_"].cpu_memory_usage == 0
    assert by_name["[memory]"].cpu_memory_usage == -4000
    assert prof.key_averages().table().count("3.91 KB") >= 2


def test_averages_group_by_name_shape_and_caller():
    x, y = torch.ones(2), torch.ones(3)
    with profile(record_shapes=True, with_stack=True) as prof:
        for _ in range(3):
            x + x
        y + y
    (average,) = prof.key_averages()
    assert (average.key, average.count) == ("aten::add", 4)
    shapes = {str(a.input_shapes): a.count for a in prof.key_averages(group_by_input_shape=True)}
    assert shapes == {"[[2], [2], []]": 3, "[[3], [3], []]": 1}  # the last one is alpha
    assert sorted(a.count for a in prof.key_averages(group_by_stack_n=1)) == [1, 3]
    assert prof.total_average().count == 4
    assert prof.total_average().key == "Total"


# -- the table -------------------------------------------------------------------------------------

LINE = "-" * 13 + ("  " + "-" * 12) * 6
TABLE = f"""\
{LINE}
         Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls
{LINE}
     aten::mm        33.33%       1.500ms       100.00%       4.500ms       4.500ms             1
    aten::add        66.67%       3.000ms        66.67%       3.000ms       1.500ms             2
{LINE}
Self CPU time total: 4.500ms
"""


def hand_made(home, count=3, **options):
    spans = [("aten::mm", 0, 4500), ("aten::add", 500, 1500), ("aten::add", 2000, 4000)]
    options.setdefault("stack", [[], [], []])
    events = home.EventList(
        [
            home.FunctionEvent(k, name, 1, start, end, **{o: v[k] for o, v in options.items()})
            for k, (name, start, end) in enumerate(spans[:count])
        ],
        profile_memory="cpu_memory_usage" in options,
        with_flops="flops" in options,
    )
    events._build_tree()
    return events


def test_the_table_has_the_known_layout():
    events = hand_made(torch.autograd.profiler_util)
    lines = events.key_averages().table(sort_by="cpu_time_total").split("\n")
    assert all(line.endswith("  ") for line in lines[:-2])
    assert "\n".join(line.rstrip() for line in lines) == TABLE
    assert events.key_averages().table(row_limit=0).count("aten") == 0
    assert torch.autograd.profiler_util.EventList().table() == ""
    with pytest.raises(AttributeError):
        events.table(sort_by="nothing")


TABLE_CALLS = [
    {},
    {"sort_by": "self_cpu_time_total"},
    {"sort_by": "cpu_memory_usage", "row_limit": 1},
    {"header": "A header"},
    {"top_level_events_only": True},
    {"header": "Both", "top_level_events_only": True},
    {"max_name_column_width": 10, "max_shapes_column_width": 12, "max_src_column_width": 20},
    {"time_unit": "us"},
]
EVENT_OPTIONS = [
    {},
    {"input_shapes": [[[2, 3], []], [[4]], []]},
    {"stack": [["/a/long/path/to/a/file.py(12): f", "b.py(1): <module>"], ["c.py(2): g"], []]},
    {"cpu_memory_usage": [5 << 20, 3000, -12]},
    {"flops": [12_345_678, 0, 99_999]},
    {"overload_name": ["", "Tensor", "Scalar"]},
]


@pytest.mark.oracle
@pytest.mark.parametrize("options", EVENT_OPTIONS, ids=lambda o: " ".join(o) or "plain")
@pytest.mark.parametrize("call", TABLE_CALLS, ids=lambda c: " ".join(c) or "plain")
def test_the_table_is_that_of_torch(options, call):
    pytest.importorskip("torch")
    from torch.autograd import profiler_util as theirs

    for groups in ((False, 0, False), (True, 2, True)):
        texts = [
            hand_made(home, **options).key_averages(*groups).table(**call)
            for home in (theirs, torch.autograd.profiler_util)
        ]
        assert texts[0] == texts[1]


@pytest.mark.oracle
def test_events_read_as_those_of_torch():
    pytest.importorskip("torch")
    from torch.autograd import profiler_util as theirs

    a, b = hand_made(theirs), hand_made(torch.autograd.profiler_util)
    assert repr(a[0]) == repr(b[0])
    assert repr(a.key_averages()[0]) == repr(b.key_averages()[0])
    assert str(a) == str(b)


# -- traces ----------------------------------------------------------------------------------------


def checked_trace(trace):
    """Is it what trace viewers expect? Complete events of a thread must nest properly."""
    assert isinstance(trace["traceEvents"], list) and trace["schemaVersion"] == 1
    spans = {}
    for event in trace["traceEvents"]:
        assert event["ph"] in "XMisf" and isinstance(event["name"], str)
        assert isinstance(event["ts"], (int, float)) and "pid" in event and "tid" in event
        if event["ph"] == "X":
            assert event["dur"] >= 0
            spans.setdefault((event["pid"], event["tid"]), []).append(event)
    for line in spans.values():
        above = []
        for event in sorted(line, key=lambda e: (e["ts"], -e["dur"])):
            while above and above[-1] <= event["ts"] + 1e-3:
                above.pop()
            end = event["ts"] + event["dur"]
            assert not above or end <= above[-1] + 2e-3, event["name"]
            above.append(end)
    return trace["traceEvents"]


def test_traces_are_in_the_trace_event_format(recorded, tmp_path):
    recorded.add_metadata("who", "me")
    recorded.add_metadata_json("numbers", "[1, 2]")
    path = tmp_path / "trace.json"
    recorded.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())
    assert (trace["who"], trace["numbers"]) == ("me", [1, 2])
    events = checked_trace(trace)
    conv = next(e for e in events if e["name"] == "aten::conv2d")
    assert conv["cat"] == "cpu_op"
    assert conv["args"]["Input Dims"][0] == [2, 1, 8, 8]
    assert conv["args"]["Input type"][:4] == ["float", "float", "float", "ScalarList"]
    assert conv["args"]["Input Strides"][0] == [64, 64, 8, 1]
    assert conv["args"]["Concrete Inputs"][3] == "[1, 1]"
    assert conv["args"]["Module Hierarchy"] == "Sequential.0(Conv2d)"
    assert "test_profiler.py" in conv["args"]["Call stack"]
    step = next(e for e in events if e["name"] == "Optimizer.step#SGD.step")
    assert step["cat"] == "user_annotation"
    arrows = {}
    for e in events:
        if e["ph"] in "sf":
            arrows.setdefault(e["id"], []).append(e["ph"])
    assert arrows and all(sorted(ends) == ["f", "s"] for ends in arrows.values())
    totals = [e["args"]["Total Allocated"] for e in events if e["name"] == "[memory]"]
    assert totals and min(totals) >= 0


def test_traces_may_be_compressed(recorded, tmp_path):
    recorded.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    with gzip.open(tmp_path / "trace.json.gz", "rt") as file:
        checked_trace(json.load(file))


def test_tensorboard_finds_its_files(tmp_path):
    for zipped in (False, True):
        folder = tmp_path / str(zipped)
        handler = tensorboard_trace_handler(str(folder), "worker", use_gzip=zipped)
        with profile(on_trace_ready=handler):
            torch.ones(2)
        (file,) = folder.iterdir()
        assert file.name.startswith("worker.")
        assert file.name.endswith(".pt.trace.json" + ".gz" * zipped)
    (tmp_path / "file").write_text("")
    handler = tensorboard_trace_handler(str(tmp_path / "file" / "under"))
    with (
        pytest.raises(RuntimeError, match="Can't create directory"),
        profile(on_trace_ready=handler),
    ):
        pass
    assert not interposing.is_active()


def test_stacks_are_for_flame_graphs(recorded, tmp_path):
    path = tmp_path / "stacks.txt"
    recorded.export_stacks(str(path), "self_cpu_time_total")
    lines = path.read_text().splitlines()
    assert lines
    for line in lines:
        stack, _, value = line.rpartition(" ")
        assert int(value) > 0 and " " not in stack
    with pytest.raises(ValueError, match="metric should be one of"):
        recorded.export_stacks(str(path), "nothing")
    with profile() as plain:
        torch.ones(1)
    with pytest.raises(AssertionError, match="requires with_stack=True"):
        plain.export_stacks(str(path))


def test_memory_over_time(recorded, tmp_path):
    path = tmp_path / "memory.json"
    recorded.export_memory_timeline(str(path))
    times, totals = json.loads(path.read_text())
    assert times == sorted(times) and len(times) == len(totals) > 0
    with pytest.raises(ValueError, match="should end with"):
        recorded.export_memory_timeline(str(tmp_path / "memory.txt"))


# -- steps -----------------------------------------------------------------------------------------

SCHEDULES = [
    ({"wait": 1, "warmup": 1, "active": 2, "repeat": 1, "skip_first": 1}, "NNWRSNNN"),
    ({"wait": 1, "warmup": 1, "active": 1}, "NWSNWSNW"),
    (
        {"wait": 2, "warmup": 1, "active": 1, "skip_first": 2, "skip_first_wait": 1},
        "NNWSNNWSNN",
    ),
    ({"wait": 0, "warmup": 1, "active": 1, "repeat": 2}, "WSWSNNNN"),
]
LETTERS = {"N": "NONE", "W": "WARMUP", "R": "RECORD", "S": "RECORD_AND_SAVE"}


@pytest.mark.parametrize("options, letters", SCHEDULES)
def test_schedules(options, letters):
    plan = schedule(**options)
    assert [plan(k).name for k in range(len(letters))] == [LETTERS[c] for c in letters]


@pytest.mark.oracle
@pytest.mark.parametrize("options, letters", SCHEDULES)
def test_schedules_are_those_of_torch(options, letters):
    theirs = pytest.importorskip("torch").profiler.schedule(**options)
    ours = schedule(**options)
    assert [theirs(k).name for k in range(30)] == [ours(k).name for k in range(30)]


def test_schedules_that_make_no_sense():
    with pytest.raises(AssertionError, match="Invalid profiler schedule arguments"):
        schedule(wait=0, warmup=0, active=0)
    with pytest.warns(UserWarning, match="won't be using warmup"):
        schedule(wait=0, warmup=0, active=1)


def test_only_scheduled_steps_are_recorded():
    log = []
    plan = schedule(wait=1, warmup=1, active=2, repeat=2)

    def ready(prof):
        log.append((prof.step_num, names(prof)))

    x = torch.ones(2)
    with profile(schedule=plan, on_trace_ready=ready) as prof:
        for _ in range(9):
            x + x
            prof.step()
    step = ["ProfilerStep*", "aten::add"]
    assert log == [(4, step * 2), (8, step * 2)]
    assert not interposing.is_active()


def test_without_a_schedule_everything_is_recorded():
    log = []
    with profile(on_trace_ready=lambda prof: log.append(names(prof))) as prof:
        for _ in range(2):
            torch.ones(1)
            prof.step()
    assert len(log) == 1 and log[0].count("aten::ones") == 2


def test_a_schedule_may_be_any_function():
    actions = {1: ProfilerAction.RECORD, 2: ProfilerAction.NONE}
    x = torch.ones(2)
    prof = profile(schedule=lambda k: actions.get(k, ProfilerAction.NONE))
    with pytest.warns(UserWarning, match="RECORD followed by NONE"), prof:
        for _ in range(4):
            x + x
            prof.step()
    assert names(prof) == ["ProfilerStep*", "aten::add"]


def test_events_may_be_gathered_over_cycles():
    plan = schedule(wait=0, warmup=1, active=1)
    x = torch.ones(2)
    with profile(schedule=plan, acc_events=True) as prof:
        for _ in range(4):
            x + x
            prof.step()
    assert names(prof).count("aten::add") == 2


# -- order is kept ---------------------------------------------------------------------------------


def functions():
    found = [*methods._functions.values(), *Tensor.__dict__.values()]
    return [f for f in found if isinstance(f, types.FunctionType)]


def test_nothing_is_left_after_a_profile():
    x = torch.ones(3)
    x + x
    interposing.disarm()
    codes = {f: f.__code__ for f in functions()}
    addresses = [d.function for d in cpu.definitions()]
    step = torch.optim.SGD([torch.ones(1)], 0.1).step.__func__
    codes[step] = step.__code__
    with profile(profile_memory=True, with_stack=True, record_shapes=True):
        x + x
        torch.fmin(x, x)
        assert Tensor.__add__.__code__ is not codes[Tensor.__add__]
    interposing.disarm()  # as some thousand calls would
    assert all(f.__code__ is code for f, code in codes.items())
    assert [d.function for d in cpu.definitions()][: len(addresses)] == addresses
    assert not interposing.is_active()


def test_an_error_ends_a_profile():
    x = torch.ones(3)
    prof = profile()
    with pytest.raises(RuntimeError, match="size of tensor"), prof, record_function("outer"):
        x + torch.ones(4)
    assert names(prof)[-1] == "aten::add" and names(prof)[0] == "outer"
    assert not interposing.is_active()


def test_profiles_nest():
    x = torch.ones(3)
    with profile() as outer:
        x + x
        with profile() as inner:
            x * x
        x - x
    assert names(outer) == ["aten::add", "aten::mul", "aten::sub"]
    assert names(inner) == ["aten::mul"]


@pytest.mark.parametrize("everywhere", [False, True])
def test_threads(everywhere):
    x = torch.ones(3)
    config = _ExperimentalConfig(profile_all_threads=everywhere)
    with profile(experimental_config=config) as prof:
        together = threading.Barrier(3)  # or an identity might be used twice
        workers = [threading.Thread(target=lambda: (together.wait(), x * x)) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        x + x
    assert names(prof).count("aten::mul") == 3 * everywhere
    assert names(prof).count("aten::add") == 1
    assert len({e.thread for e in prof.events()}) == 1 + 3 * everywhere


def test_autocast_within_a_profile():
    x = torch.ones(4, 4)
    with profile() as prof, torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype is torch.bfloat16
    assert "aten::matmul" in names(prof) and "aten::to" in names(prof)
    assert (x @ x).dtype is torch.float32


def test_gradients_are_the_same_within_a_profile():
    found = []
    for watch in (False, True):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if watch:
            with profile(profile_memory=True, record_shapes=True):
                train(model, optimizer)
        else:
            train(model, optimizer)
        found.append([p.detach().clone() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found))


def test_what_must_not_be_asked_before():
    prof = profile()
    for call in (prof.events, prof.key_averages, lambda: prof.export_chrome_trace("x")):
        with pytest.raises(AssertionError, match="Profiler must be initialized before"):
            call()
    with pytest.raises(AssertionError, match="before stopping trace"):
        prof.stop()
    with pytest.raises(AssertionError, match="No valid profiler"), profile(activities=[]):
        pass


# -- record_function and the older profiler --------------------------------------------------------


def test_record_function_names_blocks_and_functions():
    @record_function("twice")
    def twice(n):
        """Doubles."""
        return twice(n - 1) + 1 if n else torch.ones(1)

    assert twice.__name__ == "twice" and twice.__doc__ == "Doubles."
    with profile() as prof, record_function("block", "arguments"):
        twice(2)
    assert names(prof).count("twice") == 3 and names(prof)[0] == "block"
    assert all(e.is_user_annotation for e in prof.events() if e.name == "twice")
    with record_function("unseen"):
        pass


def test_arguments_that_were_left_out_are_shown_as_in_torch():
    x = torch.ones(2)
    with profile(record_shapes=True) as prof:
        torch.add(x, alpha=2, other=torch.ones(3, 2))
        x.clamp(min=0.5)
    add, clamp = (e for e in prof.events() if e.name in ("aten::add", "aten::clamp"))
    assert add.input_shapes == [[2], [3, 2], []]
    assert add.concrete_inputs == [None, None, 2]
    assert clamp.concrete_inputs == [None, 0.5, None]
    with profile(record_shapes=True) as prof:
        torch.ones(2, 6).as_strided([4, 3], [1, 4])
    (strided,) = (e for e in prof.events() if e.name == "aten::as_strided")
    assert strided.concrete_inputs[1:3] == [[4, 3], [1, 4]]


def test_a_trace_ends_with_its_window(tmp_path):
    with profile(record_shapes=True) as prof:
        torch.ones(2).add(1, alpha=2)
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    span, _, start, end = events[-4:]
    assert span["name"] == "PyTorch Profiler (0)" and end["name"] == "Record Window End"
    assert start["name"] == "Iteration Start: PyTorch Profiler"
    assert start["ts"] == span["ts"] and end["ts"] >= span["ts"] + span["dur"]
    (add,) = (e for e in events if e["name"] == "aten::add")
    assert start["ts"] <= add["ts"] and add["ts"] + add["dur"] <= end["ts"]
    assert add["args"]["Concrete Inputs"] == ["", "1", "2"]


def test_whether_a_profiler_runs():
    profiler = torch.autograd.profiler
    assert profiler._is_profiler_enabled is False
    with profile():
        assert profiler._is_profiler_enabled is True
    assert profiler._is_profiler_enabled is False


def test_the_older_profiler():
    profiler = torch.autograd.profiler
    prof = profiler.profile(record_shapes=True)
    assert repr(prof) == "<unfinished torch.autograd.profile>"
    with pytest.raises(RuntimeError, match="didn't finish"):
        prof.key_averages()
    with prof, profiler.record_function("block"):
        torch.ones(2) + 1
    assert prof.function_events[0].name == "block"
    assert "aten::add" in str(prof) and "aten::add" in prof.table(sort_by="cpu_time")
    assert prof.self_cpu_time_total > 0
    with pytest.raises(RuntimeError, match="not reentrant"):
        prof.__enter__()
    with profiler.profile(enabled=False):
        assert not interposing.is_active()
    with profiler.emit_nvtx(enabled=False):
        pass
    with pytest.raises(RuntimeError, match="a trace viewer instead"):
        profiler.emit_nvtx().__enter__()


@pytest.mark.oracle
def test_signatures_are_those_of_torch():
    import inspect

    theirs = pytest.importorskip("torch")
    for home, ours, names_ in (
        (theirs.profiler, torch.profiler, ["profile", "schedule", "record_function"]),
        (theirs.profiler, torch.profiler, ["tensorboard_trace_handler"]),
        (theirs.autograd.profiler, torch.autograd.profiler, ["profile", "emit_nvtx"]),
    ):
        for name in names_:
            a = inspect.signature(getattr(home, name)).parameters.values()
            b = inspect.signature(getattr(ours, name)).parameters.values()
            assert [(p.name, p.default) for p in a] == [(p.name, p.default) for p in b], name
    assert set(theirs.profiler.__all__) <= set(dir(torch.profiler))
    for name in theirs.autograd.profiler.__all__:
        assert getattr(torch.autograd.profiler, name) is not None
    for name in theirs.autograd.profiler_util.__all__:
        assert getattr(torch.autograd.profiler_util, name) is not None


@pytest.mark.oracle
def test_a_program_shows_the_same_calls_as_in_torch():
    theirs = pytest.importorskip("torch")
    found = []
    for home in (theirs, torch):
        x = home.ones(4, 4)
        w = home.ones(4, 4, requires_grad=True)
        with home.profiler.profile() as prof:
            loss = (home.mm(x, w).relu() * 2).sum()
            loss.backward()
            with home.profiler.record_function("more"):
                home.nn.functional.softmax(x, 1)
        top = [e.name for e in prof.events() if e.cpu_parent is None]
        found.append([n for n in top if n != "aten::ones_like" and "Step" not in n])
    assert found[1] == found[0]


def test_loaders_are_seen():
    data = torch.utils.data.TensorDataset(torch.ones(4, 2))
    with profile() as prof:
        for _ in torch.utils.data.DataLoader(data, batch_size=2):
            pass
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    assert names(prof).count(name) == 3  # the last one finds the end


def test_threads_may_compute_while_profilers_come_and_go():
    x = torch.arange(100.0)
    wrong, stop = [], threading.Event()

    def work():
        while not stop.is_set():
            found = ((x + 1) * 2).sum().item()
            if found != 10_100.0:
                wrong.append(found)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    try:
        for number in range(40):
            config = _ExperimentalConfig(profile_all_threads=number % 2 == 0)
            with profile(experimental_config=config, profile_memory=number % 3 == 0) as prof:
                x.exp()
            assert "aten::exp" in names(prof)
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    assert not wrong and not interposing.is_active()


def test_kernels_that_were_met_before_run_in_programs_of_steps():
    lstm, x = nn.LSTM(3, 4), torch.ones(5, 2, 3)
    expected = lstm(x)[0]
    with profile() as prof:
        found = lstm(torch.ones(6, 2, 3))[0]  # a new program of known kernels
        again = lstm(x)[0]
    assert torch.equal(again, expected) and torch.equal(found[:5], expected)
    assert "flambeau::rnn_layer" in names(prof)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_process_is_not_profiled():
    x = torch.ones(3)
    x + x
    interposing.disarm()
    code, addresses = Tensor.__add__.__code__, [d.function for d in cpu.definitions()]
    with profile() as prof:
        x + x
        child = os.fork()
        if child == 0:
            fine = Tensor.__add__.__code__ is code and not interposing.is_active()
            fine &= [d.function for d in cpu.definitions()][: len(addresses)] == addresses
            for _ in range(100):
                fine &= (x * 3).tolist() == [3.0] * 3
            os._exit(0 if fine else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        x - x
    assert names(prof) == ["aten::add", "aten::sub"]
    if kernels.clock() is not None:
        assert [[k.name for k in e.kernels] for e in prof.events()] == [["add"], ["sub"]]


def test_sums_have_no_trace(tmp_path):
    with profile() as prof:
        torch.ones(1)
    with pytest.raises(RuntimeError, match="there is no trace"):
        prof.key_averages().export_chrome_trace(str(tmp_path / "x.json"))


def test_tools_of_others_are_not_there():
    itt = torch.profiler.itt
    assert itt.is_available() is False
    with pytest.raises(RuntimeError, match="ITT functions not installed"), itt.range("x"):
        pass
