"""Tensors in several processes: shared memory, queues and arguments, spawn, and forks."""

import copy
import gc
import inspect
import io
import multiprocessing
import os
import pickle
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import flambeau as torch
import flambeau.multiprocessing as mp
from flambeau import nn
from tests import multiprocessing_cases as cases
from tests.data.worker_cases import limit, shm_files

ROOT = Path(__file__).parent.parent
METHODS = [
    m for m in ("fork", "spawn", "forkserver") if m in multiprocessing.get_all_start_methods()
]
needs_fork = pytest.mark.skipif("fork" not in METHODS, reason="no fork here")
needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="no /proc here")
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
DTYPES = [
    getattr(torch, name)
    for name in "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 "
    "float64 complex64 complex128".split()
]


@pytest.fixture(autouse=True)
def limited():
    with limit(60):
        yield


@pytest.fixture(params=["file_descriptor", "file_system"])
def strategy(request):
    if request.param not in mp.get_all_sharing_strategies():
        pytest.skip(f"no {request.param} here")
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy(before)


# -- shared memory within a process ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sharing_keeps_values(dtype):
    t = torch.arange(10).to(dtype)
    expected = t.tolist()
    assert not t.is_shared()
    assert t.share_memory_() is t and t.is_shared()
    assert t.tolist() == expected and t.share_memory_().is_shared()


def test_views_and_data_follow():
    base = torch.arange(6.0).reshape(2, 3)
    row, column, data, detached = base[1], base.t()[0], base.data, base.detach()
    row.share_memory_()
    assert all(t.is_shared() for t in (base, row, column, data, detached))
    base[1, 0] = 50
    assert row[0] == 50 and column[1] == 50 and data[1, 0] == 50 and detached[1, 0] == 50
    data[0, 0] = 7
    assert base[0, 0] == 7


def test_an_array_made_before_sharing_stays_readable():
    t = torch.arange(100000.0)
    array = t.numpy()
    t.share_memory_()
    blocks = [torch.zeros(100000) for _ in range(4)]
    assert array[-1] == 99999 and len(blocks) == 4
    assert (t.numpy() == array).all()


def test_sharing_memory_of_numpy_copies_it():
    array = np.ones(5, dtype="float32")
    t = torch.from_numpy(array).share_memory_()
    array[0] = 9
    assert t.is_shared() and t.tolist() == [1] * 5


def test_empty_and_meta_tensors():
    assert not torch.empty(0).is_shared() and torch.empty(0).share_memory_().is_shared()
    assert not torch.empty(3, device="meta").is_shared()
    with pytest.raises(RuntimeError, match="_share_fd_: only available on CPU"):
        torch.empty(3, device="meta").share_memory_()


def test_memory_that_cannot_be_had_is_an_error_and_changes_nothing():
    resource = pytest.importorskip("resource")
    t = torch.arange(1000000.0)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(torch.OutOfMemoryError, match="4000000 bytes of shared memory"):
            t.share_memory_()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not t.is_shared() and t[-1] == 999999
    assert t.share_memory_().is_shared() and t[-1] == 999999


def test_a_shared_tensor_cannot_grow():
    t = torch.ones(3).share_memory_()
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        t.resize_(10000)
    assert t.tolist() == [1, 1, 1]


def test_storages_share_too():
    t = torch.arange(4.0)
    assert not t.untyped_storage().is_shared()
    assert t.untyped_storage().share_memory_().is_shared() and t.is_shared()
    assert t.storage().is_shared() and t.storage().share_memory_().is_shared()
    assert t.storage()._new_shared(5).is_shared() and len(t.storage()._new_shared(5)) == 5


def test_copies_of_shared_tensors_are_not_shared():
    t = torch.ones(3).share_memory_()
    for other in (copy.deepcopy(t), t.clone(), pickle.loads(pickle.dumps(t)), t + 1):
        assert not other.is_shared()
    file = io.BytesIO()
    torch.save(t, file)
    file.seek(0)
    assert torch.load(file).tolist() == [1, 1, 1]


def test_a_model_shares_parameters_buffers_and_gradients():
    model = cases.Model()
    model.layer.weight.data.normal_()
    model(torch.ones(1, 4)).sum().backward()
    parameters = list(model.parameters())
    assert model.share_memory() is model
    assert all(a is b for a, b in zip(parameters, model.parameters()))
    tensors = [*model.parameters(), *model.buffers(), model.layer.weight.grad]
    assert all(t.is_shared() for t in tensors)
    with pytest.raises(RuntimeError, match="Can't share memory on an uninitialized parameter"):
        nn.LazyLinear(3).share_memory()


@needs_proc
def test_many_small_tensors_need_few_descriptors():
    gc.collect()
    before, shm = len(os.listdir("/proc/self/fd")), shm_files()
    tensors = [torch.full((100,), float(k)).share_memory_() for k in range(1000)]
    assert len(os.listdir("/proc/self/fd")) - before < 10
    assert [t[0].item() for t in tensors] == list(range(1000))
    large = [torch.ones(100000).share_memory_() for _ in range(20)]
    assert shm_files() == shm
    del tensors, large
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) - before <= 1  # a block that is not yet full


# -- to other processes ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_arguments_of_a_process_share_memory(method):
    context = mp.get_context(method)
    t, model = torch.zeros(5), cases.Model().share_memory()
    t.share_memory_()
    for target, argument in ((cases.fill, (t[1:3], 6)), (cases.fill_model, (model,))):
        process = context.Process(target=target, args=argument)
        process.start()
        process.join()
        assert process.exitcode == 0
    assert t.tolist() == [0, 6, 6, 0, 0]
    assert model.layer.weight.eq(0.25).all() and model.running.tolist() == [4, 4]


def test_what_goes_through_queues_shares_memory(strategy):
    context = mp.get_context("spawn")
    there, back, done = context.Queue(), context.Queue(), context.Event()
    process = context.Process(target=cases.echo, args=(there, back, done), daemon=True)
    process.start()
    for t in (torch.zeros(3), torch.zeros(100000), torch.zeros(4, 4)[1:3, 2]):
        there.put(t)
        got = back.get(timeout=30)
        assert got.eq(1).all() and t.eq(1).all() and t.is_shared()
        got.fill_(8)
        assert t.eq(8).all() and got.data_ptr() == t.data_ptr()  # its own storage came back
    parameter = nn.Parameter(torch.zeros(2))
    there.put(parameter)
    got = back.get(timeout=30)
    assert type(got) is nn.Parameter and got.requires_grad and parameter.eq(1).all()
    storage = torch.zeros(2).untyped_storage()
    there.put(storage)
    assert back.get(timeout=30) == storage
    there.put(None)
    done.set()
    process.join(30)
    assert process.exitcode == 0


def test_layouts_and_kinds_arrive():
    base = torch.arange(24.0).reshape(4, 6)
    sent = [
        base, base.t(), base[1:, ::2], torch.ones(1, 3).expand(5, 3), torch.empty(0, 3),
        torch.tensor(3), torch.ones(2, requires_grad=True), nn.Parameter(torch.ones(2)),
        nn.Parameter(torch.arange(2), requires_grad=False), nn.Buffer(torch.ones(1)),
        *[torch.arange(3).to(dtype) for dtype in DTYPES],
        torch.empty_strided((2, 3), (1, 2), device="meta"),
    ]  # fmt: skip
    context = mp.get_context("spawn")
    there, back = context.Queue(), context.Queue()
    process = context.Process(target=cases.describe, args=(there, back), daemon=True)
    process.start()
    there.put(sent)
    facts, storages = back.get(timeout=30)
    process.join(30)
    assert storages == len({t.untyped_storage() for t in sent if not t.is_meta})
    for t, fact in zip(sent, facts):
        assert fact[:8] == (
            type(t).__name__, str(t.dtype), tuple(t.shape), t.stride(), t.storage_offset(),
            t.requires_grad, t.is_leaf, t.is_meta,
        )  # fmt: skip
        assert fact[8] is not t.is_meta and (t.is_meta or fact[9] == t.tolist())


def test_pipes_and_simple_queues_carry_tensors():
    ours, theirs = mp.Pipe()
    t = torch.zeros(3)
    ours.send(t)
    theirs.recv().add_(1)
    queue = mp.SimpleQueue()
    queue.put({"a": [t]})
    queue.get()["a"][0].add_(1)
    assert t.eq(2).all()


@pytest.mark.parametrize("method", METHODS)
def test_pools_carry_tensors(method):
    with mp.get_context(method).Pool(2) as pool:
        got = pool.map(cases.square, [torch.full((3,), float(k)) for k in range(4)])
    assert [t.tolist() for t in got] == [[k * k] * 3 for k in range(4)]


def test_a_tensor_with_a_history_stays():
    t = torch.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        mp.reductions.reduce_tensor(t)


def test_hooks_stay_with_a_warning():
    t = torch.ones(2, requires_grad=True)
    t.register_hook(lambda g: g)
    with pytest.warns(UserWarning, match="backward hook .* will not be serialized"):
        mp.reductions.reduce_tensor(t)


@needs_proc
def test_queues_leave_no_descriptors_behind(strategy):
    def send(count):
        queue = mp.SimpleQueue()
        for k in range(count):
            queue.put(torch.full((10000,), float(k)))
            assert queue.get()[0] == k
        queue.close()

    send(2)
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    send(40)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 1


@needs_proc
def test_killed_processes_leave_nothing(tmp_path):
    script = """
import os, signal
import flambeau as torch, flambeau.multiprocessing as mp
tensors = [torch.ones(100000).share_memory_() for _ in range(5)]
os.kill(os.getpid(), signal.SIGKILL)
"""
    before = shm_files()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, timeout=50, check=False)
    assert done.returncode == -9
    assert shm_files() == before and not os.listdir(tmp_path)


def test_files_of_the_other_strategy_go_when_the_program_ends(tmp_path):
    script = """
import os, sys
import flambeau as torch, flambeau.multiprocessing as mp
mp.set_sharing_strategy("file_system")
queue = mp.SimpleQueue()
for k in range(20):
    queue.put(torch.full((10000,), float(k)))
    assert queue.get()[0] == k
print(sum(len(files) for _, _, files in os.walk(os.environ["TMPDIR"])))
kept = torch.ones(10000).share_memory_()
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, timeout=50, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 1 and not os.listdir(tmp_path)


def test_shared_tensors_travel_as_such_through_the_standard_module():
    script = """
import multiprocessing
import flambeau as torch

def fill(model, tensor):
    with torch.no_grad():
        model.weight.fill_(2)
    tensor.fill_(3)

if __name__ == "__main__":
    model, tensor = torch.nn.Linear(2, 1).share_memory(), torch.zeros(2).share_memory_()
    process = multiprocessing.get_context("spawn").Process(target=fill, args=(model, tensor))
    process.start()
    process.join()
    print(model.weight.tolist(), tensor.tolist())
"""
    assert run_file(script) == "[[2.0, 2.0]] [3.0, 3.0]\n"


def run_file(script, before=""):
    """What a program prints that is a file, as processes that are spawned need it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text(script)
        done = subprocess.run(
            f"{before} {shlex.quote(sys.executable)} {path}", shell=True, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=50, capture_output=True,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("method", METHODS)
def test_a_small_dev_shm_is_no_limit(method):
    """Loaders and shared tensors work where nothing can be written to /dev/shm."""
    mount = "mount -t tmpfs -o ro,size=4k tmpfs /dev/shm"
    tried = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount], capture_output=True, check=False
    ) if shutil.which("unshare") else None  # fmt: skip
    if tried is None or tried.returncode:
        pytest.skip("needs the right to mount")
    script = f"""
import flambeau as torch
from flambeau.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    assert torch.ones(1000000).share_memory_().is_shared()
    data = TensorDataset(torch.arange(400000.0).reshape(8, -1))
    loader = DataLoader(data, 2, num_workers=2, multiprocessing_context={method!r})
    print([batch[0, 0].item() for batch, in loader])
"""
    shell = f"exec unshare -m sh -c '{mount} && exec \"$@\"' sh"
    assert run_file(script, shell) == "[0.0, 100000.0, 200000.0, 300000.0]\n"


@pytest.mark.parametrize("method", METHODS)
def test_several_processes_train_one_model(method):
    torch.manual_seed(0)
    model = cases.Model().share_memory()
    mp.start_processes(cases.train, (model, 100, 150), nprocs=2, start_method=method)
    assert (model.layer.weight - torch.tensor([[1.0, -2.0, 3.0, 0.5]])).abs().max() < 0.05


# -- the module ------------------------------------------------------------------------------------


def test_everything_of_the_standard_module_is_here():
    for name in multiprocessing.__all__:
        assert getattr(mp, name) is getattr(multiprocessing, name)
    assert set(multiprocessing.__all__) <= set(mp.__all__)
    assert mp.connection is multiprocessing.connection
    with pytest.raises(AttributeError):
        mp.no_such_thing  # noqa: B018


def test_sharing_strategies():
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    with pytest.raises(AssertionError, match="invalid sharing strategy 'x', expected one of"):
        mp.set_sharing_strategy("x")


@pytest.mark.oracle
def test_names_and_signatures_are_those_of_pytorch():
    theirs = pytest.importorskip("torch.multiprocessing")
    assert set(theirs.__all__) <= set(mp.__all__)
    for name in (
        "spawn", "start_processes", "ProcessContext", "ProcessContext.join", "SpawnContext",
        "ProcessRaisedException", "ProcessExitedException", "set_sharing_strategy",
    ):  # fmt: skip
        ours, other = mp, theirs
        for part in name.split("."):
            ours, other = getattr(ours, part), getattr(other, part)
        described = [
            [(p.name, p.kind, p.default) for p in inspect.signature(f).parameters.values()]
            for f in (ours, other)
        ]
        assert described[0] == described[1], name
    assert mp.get_all_sharing_strategies() == theirs.get_all_sharing_strategies()
    assert mp.get_sharing_strategy() == theirs.get_sharing_strategy()


@pytest.mark.oracle
def test_what_is_shared_when_is_as_in_pytorch():
    theirs = pytest.importorskip("torch")
    for make in (
        lambda t: t.empty(0),
        lambda t: t.empty(0).share_memory_(),
        lambda t: t.ones(3).share_memory_()[1:],
        lambda t: t.ones(3).share_memory_().clone(),
        lambda t: (t.ones(3, requires_grad=True) * 2).share_memory_(),
        lambda t: t.nn.Linear(2, 2).share_memory().weight,
        lambda t: t.empty(3, device="meta"),
    ):
        assert make(torch).is_shared() is make(theirs).is_shared()


def test_spawn_runs_a_function_in_each_process():
    results = torch.zeros(2)
    results.share_memory_()
    assert mp.spawn(cases.by_rank, (results, 3), nprocs=2) is None
    assert results.tolist() == [0, 3]
    context = mp.spawn(cases.by_rank, (results, 5), nprocs=2, join=False)
    assert len(context.pids()) == 2
    while not context.join():
        pass
    assert results.tolist() == [0, 5]


@pytest.mark.parametrize(
    "how, kind, text",
    [
        (
            "raise",
            mp.ProcessRaisedException,
            "\n\n-- Process 1 terminated with the following",
        ),
        ("exit", mp.ProcessExitedException, "process 1 terminated with exit code 5"),
        ("kill", mp.ProcessExitedException, "process 1 terminated with signal SIGKILL"),
    ],
)
def test_the_first_failure_is_told_and_the_others_end(how, kind, text):
    method = "fork" if "fork" in METHODS else "spawn"
    context = mp.start_processes(cases.fail, (how,), nprocs=3, join=False, start_method=method)
    with pytest.raises(kind) as caught:
        while not context.join():
            pass
    error = caught.value
    assert str(error).startswith(text) and error.error_index == 1
    assert error.error_pid == context.pids()[1]
    assert not any(process.is_alive() for process in context.processes)
    assert pickle.loads(pickle.dumps(error)).args == error.args
    if how == "raise":
        assert "ValueError: the reason" in str(error) and "Traceback" in str(error)
    else:
        assert error.exit_code == (5 if how == "exit" else -9)
        assert error.signal_name == (None if how == "exit" else "SIGKILL")


@needs_fork
def test_who_does_not_end_when_asked_is_killed_after_the_grace_period(caplog):
    ready = mp.get_context("fork").Event()
    context = mp.start_processes(
        cases.fail_beside_the_deaf, (ready,), nprocs=3, join=False, start_method="fork"
    )
    began = time.monotonic()
    with pytest.raises(mp.ProcessRaisedException, match="the reason"):
        while not context.join(grace_period=0.2):
            pass
    assert 0.4 <= time.monotonic() - began < 20
    assert context.processes[0].exitcode == -signal.SIGKILL
    # Process 2 may still be on its way out when process 1 fails, and is asked to go then.
    assert context.processes[2].exitcode in (0, -signal.SIGTERM)
    pid = context.pids()[0]
    told = [record.getMessage() for record in caplog.records]
    assert {record.name for record in caplog.records} == {"torch.multiprocessing.spawn"}
    assert [line for line in told if f" {pid} " in line] == [
        f"Terminating process {pid} via signal SIGTERM",
        f"Unable to shutdown process {pid} via SIGTERM , forcefully exiting via SIGKILL",
    ]


def test_spawn_warns_of_other_start_methods():
    results = torch.zeros(1).share_memory_()
    with pytest.warns(FutureWarning, match="only supports start_method=spawn"):
        mp.spawn(cases.by_rank, (results, 3), nprocs=1, start_method="fork")
    with pytest.warns(UserWarning, match="renamed to ProcessContext"):
        mp.SpawnContext([], [])


# -- forks -----------------------------------------------------------------------------------------


@needs_fork
def test_a_fork_after_the_pool_has_run_computes(monkeypatch):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        t = torch.randn(300, 300)
        expected = (t @ t).sum().item()
        context = mp.get_context("fork")
        queue = context.SimpleQueue()
        for _ in range(3):
            process = context.Process(target=cases.compute, args=(queue, t))
            process.start()
            assert queue.get() == expected
            process.join(30)
            assert process.exitcode == 0
    finally:
        torch.set_num_threads(before)


@needs_fork
def test_a_fork_while_others_run_backward_is_not_stuck():
    stop = threading.Event()

    def busy():
        x = torch.randn(40, 40, requires_grad=True)
        while not stop.is_set():
            (x @ x).sum().backward()

    thread = threading.Thread(target=busy)
    thread.start()
    context = mp.get_context("fork")
    queue = context.SimpleQueue()
    try:
        for _ in range(5):
            process = context.Process(target=cases.backward, args=(queue,))
            process.start()
            assert queue.get() == (50, 50)
            process.join(30)
            assert process.exitcode == 0
    finally:
        stop.set()
        thread.join()


@needs_fork
def test_parent_and_child_share_memory_but_cut_new_pieces_apart():
    first = torch.zeros(10).share_memory_()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        mine = torch.full((10,), 5.0).share_memory_()
        first.fill_(1)
        os.write(write, b"x")
        os._exit(0 if mine.eq(5).all() else 1)
    os.read(read, 1)
    mine = torch.full((10,), 7.0).share_memory_()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert first.eq(1).all() and mine.eq(7).all()
    os.close(read)
    os.close(write)


def test_threads_may_be_limited_before_there_is_a_pool():
    script = "import flambeau as t; t.set_num_threads(1); assert t.get_num_threads() == 1; " \
        "import sys; assert 'llvmlite' not in sys.modules; " \
        "(t.ones(1000000) + 1).sum(); assert t.get_num_threads() == 1"  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=50,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
