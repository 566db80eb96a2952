"""What loads and compiles on first need does so in small threads, and never across a fork."""

import os
import pathlib
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from flambeau.runtime import forking, stacks

ROOT = pathlib.Path(__file__).parents[2]
WORK = "x = torch.ones(20, 20); (x @ x).softmax(1); torch.fft.fft(x); x.sort(); x.numpy()"
SMALL_STACK = f"""
import threading
import flambeau as torch
def work():
    {WORK}; torch.nn.LSTM(5, 6)(torch.ones(3, 2, 5)); print("done")
threading.stack_size(1 << 16)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
FORK = f"""
import os, signal, sys, threading, time
import flambeau as torch
def work():
    {WORK}; torch.linalg.svd(x)
thread = threading.Thread(target=work)
thread.start()
time.sleep(float(sys.argv[1]))
child = os.fork()
if not child:
    signal.alarm(60)
    work()
    os._exit(0)
status = os.waitpid(child, 0)[1]
thread.join()
print("done" if not status else status)
"""


def run(script, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FLAMBEAU_CACHE_DIR": ""}
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=environment, capture_output=True, text=True, timeout=180,
    )  # fmt: skip


def test_a_thread_with_a_small_stack_may_compile():
    done = run(SMALL_STACK)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("delay", ["0.003", "0.02", "0.08"])
def test_a_fork_may_meet_the_first_operation_of_another_thread(delay):
    done = run(FORK, delay)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_who_forks_waits_for_imports_of_other_threads(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(0.3)\ndone = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(forking, "OURS", ("slow_to_import",))
    thread = threading.Thread(target=__import__, args=("slow_to_import",))
    thread.start()
    while not forking._is_importing() and thread.is_alive():
        pass
    forking.wait_for_imports()
    assert sys.modules.pop("slow_to_import").done
    thread.join()


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="no way to ask here")
def test_small_stacks_are_recognised_and_left():
    seen = []

    def look():
        seen.append((stacks.stack_bytes(), stacks.alone(stacks.stack_bytes)))

    before = threading.stack_size(1 << 17)
    try:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert threading.stack_size() == 1 << 17
    finally:
        threading.stack_size(before)
    ((own, roomy),) = seen
    assert 0 < own < stacks.ENOUGH <= roomy


def test_one_thread_at_a_time_and_what_it_does_may_do_more():
    inside, most = [], []

    def work():
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.001)
        inside.pop()
        return stacks.alone(threading.get_ident) == threading.get_ident()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: stacks.alone(work), range(20)))
    assert all(found) and stacks.alone(work) and max(most) == 1


INTERRUPTED = """
import signal
from flambeau.runtime import stacks

class Interruption(Exception): ...
def interrupt(*_): raise Interruption
signal.signal(signal.SIGALRM, interrupt)
running = []
def work():
    running.append(1)
    for _ in range(300):
        sum(range(50))
    running.pop()
for k in range(400):
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-5 + k * 1e-6)
        stacks.alone(work)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Interruption:
        pass
    assert not running, k
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such timer")
def test_who_is_interrupted_leaves_no_work_behind():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_goes_wrong_on_the_other_thread_is_raised_here():
    with pytest.raises(ZeroDivisionError):
        stacks._elsewhere(lambda: 1 // 0, ())
