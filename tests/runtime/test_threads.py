"""Threads and processes: the same bits for any number of threads, and children that compute."""

import math
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest

import flambeau as torch

ROOT = pathlib.Path(__file__).parents[2]
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@pytest.fixture
def threads():
    """Set the number of threads; it is put back afterwards."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def inputs():
    torch.manual_seed(0)
    return torch.randn(300_000), torch.randn(500, 700)


def slope(x):
    return torch.autograd.grad(x.tanh().sum(), x)[0]


def convolved(x, shape, filters, kernel, stride):
    """A convolution and its gradients, one after the other."""
    image = x[: math.prod(shape)].reshape(shape).clone().requires_grad_()
    weight = x[: filters * shape[1] * kernel**2].reshape(filters, shape[1], kernel, kernel).clone()
    out = torch.nn.functional.conv2d(image, weight.requires_grad_(), None, stride, kernel // 2)
    slopes = torch.autograd.grad(out, (image, weight), out.detach() * 0.5)
    return torch.cat([t.detach().reshape(-1) for t in (out, *slopes)])


KINDS = {
    "pointwise": lambda x, m: (x * 2 + 1).sigmoid(),
    "broadcast": lambda x, m: m + m[0] * m[:, :1],
    "strided": lambda x, m: m.t() * 3,
    "cast": lambda x, m: x.to(torch.float64),
    "sum": lambda x, m: x.sum(),
    "sum rows": lambda x, m: m.sum(0),
    "mean columns": lambda x, m: m.mean(1),
    "matmul": lambda x, m: m @ m.t(),
    "copy": lambda x, m: m.t().contiguous(),
    "random": lambda x, m: (torch.manual_seed(1), torch.randn(200_000))[1],
    "cumulative": lambda x, m: m.cumsum(1),
    "sort": lambda x, m: x.sort().values,
    "gather": lambda x, m: x[torch.arange(299_999, -1, -3)],
    "backward": lambda x, m: slope(x.clone().requires_grad_()),
    "large matmul": lambda x, m: m @ m.t() @ m,
    "few squares": lambda x, m: convolved(x, (4, 96, 14, 14), 112, 3, 1),
    "more squares": lambda x, m: convolved(x, (4, 24, 41, 40), 40, 3, 1),
    "few pixels": lambda x, m: convolved(x, (3, 160, 9, 9), 120, 3, 2),
    "points": lambda x, m: convolved(x, (2, 128, 11, 11), 200, 1, 2),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_does_not_show(kind, threads):
    x, m = inputs()
    found = []
    for count in (1, 2, 3, 16):
        threads(count)
        assert torch.get_num_threads() == count
        found.append(KINDS[kind](x, m).numpy().tobytes())
    assert found[0] == found[1] == found[2] == found[3]


def test_work_is_cut_anew_when_the_number_of_threads_changes(threads):
    from flambeau.eager import gemm

    a, b, out = torch.randn(300, 200), torch.randn(200, 500), torch.empty(300, 500)
    chunks, results = [], []
    for count in (1, 2, 16, 1, 8):
        threads(count)
        gemm.multiply_into(out, a, b)
        chunks.append(gemm.PLANS[out._layout, a._layout, b._layout, False, ""].chunks)
        results.append(out.numpy().tobytes())
    assert chunks[0] == chunks[1] == chunks[3] < chunks[2]
    assert len(set(results)) == 1


@pytest.mark.parametrize("chunks", [2, 3, 7, 16, 17, 100, 4099])
def test_every_chunk_runs_once(chunks, threads):
    import ctypes

    import numpy as np

    from flambeau.eager import kernels

    text = """define void @count(ptr %block, i64 %c) {
  %p = getelementptr i32, ptr %block, i64 %c
  %n = atomicrmw add ptr %p, i32 1 monotonic
  ret void
}"""
    count = kernels.load_functions(text, ("count",))["count"]
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
        dict(kernels.pool().entries)["flambeau_pool_run"]
    )
    for allowed in (2, 5, 16):
        threads(allowed)
        kernels.pool().ensure_workers()
        for _ in range(40):
            seen = np.zeros(chunks, np.int32)
            run(count, seen.ctypes.data, chunks)
            assert (seen == 1).all()


def test_kernels_may_be_called_from_several_threads(threads):
    threads(2)
    x, _ = inputs()
    expected = (x * 2 + 1).sum().item()
    wrong, barrier = [], threading.Barrier(4)

    def work(seed):
        barrier.wait()
        for k in range(20):
            if (x * 2 + 1).sum().item() != expected:
                wrong.append((seed, k))
            own = torch.full((1000 + seed,), float(seed))
            if own.sum().item() != seed * (1000 + seed):
                wrong.append((seed, k, "small"))

    workers = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in workers:
        t.start()
    for t in workers:
        t.join()
    assert wrong == []


def test_a_kernel_may_be_compiled_by_several_threads_at_once():
    found, barrier = [], threading.Barrier(3)

    def work():
        barrier.wait()
        found.append(torch.arange(13, dtype=torch.int16).fmod(5).tolist())

    workers = [threading.Thread(target=work) for _ in range(3)]
    for t in workers:
        t.start()
    for t in workers:
        t.join()
    assert found == [[k % 5 for k in range(13)]] * 3


@pytest.mark.parametrize(
    "count, words",
    [
        (0, "set_num_threads expects a positive integer"),
        (-1, "set_num_threads expects a positive integer"),
        (1.5, "set_num_threads expects an int, but got float"),
        ("a", "set_num_threads expects an int, but got str"),
        (True, "set_num_threads expects an int, but got bool"),
    ],
)
def test_a_number_of_threads_is_positive_and_whole(count, words):
    before = torch.get_num_threads()
    with pytest.raises(RuntimeError, match=words):
        torch.set_num_threads(count)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("value, expected", [("1", "1"), ("3", "3")])
def test_the_environment_sets_the_number_of_threads(value, expected):
    done = subprocess.run(
        [sys.executable, "-c", "import flambeau; print(flambeau.get_num_threads())"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "FLAMBEAU_NUM_THREADS": value},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.strip() == expected, done.stderr


# -- processes -------------------------------------------------------------------------------------


def in_child(compute):
    """Exit status of a forked child that runs compute(); one that hangs is ended after a while."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        try:
            os._exit(0 if compute() else 1)
        except BaseException:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@forks
def test_a_forked_child_computes(threads):
    threads(2)
    x, _ = inputs()
    expected = (x * 2 + 1).sum().item()
    assert in_child(lambda: (x * 2 + 1).sum().item() == expected) == 0
    assert in_child(lambda: (x * 2 + 1).sum().item() == expected) == 0
    assert (x * 2 + 1).sum().item() == expected


@forks
def test_a_forked_child_compiles_new_kernels():
    assert (
        in_child(lambda: torch.arange(7, dtype=torch.int8).bitwise_xor(1).sum().item() == 21 + 1)
        == 0
    )


@forks
@pytest.mark.parametrize("numel", [10, 1 << 20])
def test_what_a_child_writes_stays_with_the_child(numel):
    kept = torch.ones(numel)
    spare = torch.ones(numel)
    place = spare.data_ptr()
    del spare  # a free block, which parent and child may both take

    def compute():
        kept.fill_(5)
        return torch.full((numel,), 7.0).data_ptr() == place

    assert in_child(compute) == 0
    assert torch.empty(numel).data_ptr() == place
    assert kept.sum().item() == numel


@forks
def test_a_child_forked_while_others_compute_is_not_stuck(threads):
    threads(2)
    x, _ = inputs()
    expected = (x + 1).sum().item()
    stop = threading.Event()

    def busy():
        k = 0
        while not stop.is_set():
            k += 1
            (x + 1).sum()
            torch.empty(1 << 19 | k)  # misses of the allocator

    worker = threading.Thread(target=busy)
    worker.start()
    try:
        statuses = [in_child(lambda: (x + 1).sum().item() == expected) for _ in range(10)]
    finally:
        stop.set()
        worker.join()
    assert statuses == [0] * 10


def child_work(queue, tensor):
    """What a child of multiprocessing does with a tensor it was sent."""
    queue.put((tensor * 2).tolist())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_of_multiprocessing_compute(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    script = f"""
import multiprocessing, sys
sys.path[:0] = [{str(ROOT)!r}]
import flambeau as torch
from tests.runtime import test_threads

if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    queue = context.Queue()
    child = context.Process(target=test_threads.child_work, args=(queue, torch.arange(4)))
    (torch.ones(300000) + 1).sum()
    child.start()
    print(queue.get(timeout=60))
    child.join()
    print(child.exitcode)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout == "[0, 2, 4, 6]\n0\n", done.stderr


def test_workers_do_not_hold_up_the_exit():
    script = "import flambeau as t; t.set_num_threads(3); print((t.ones(300000) + 1).sum().item())"
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "600000.0\n"), done.stderr
