"""Programs with loaders that end in unusual ways: quietly, soon, and leaving no workers behind."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.data import worker_cases as cases

ROOT = Path(__file__).parent.parent.parent
SLOW = pytest.mark.slow  # a dozen programs, each of which imports everything anew
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="signals and processes of POSIX")


@pytest.fixture(autouse=True)
def limited():
    with cases.limit(60):
        yield


def program(script):
    """The text of a script, which finds the package and hears Control-C.

    Shells start what they put in the background with SIGINT ignored, and children inherit that.
    """
    return (
        f"import signal, sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n" + textwrap.dedent(script)
    )


def run(script, seconds=40, **settings):
    """(exit code, output, errors) of a program that may take so many seconds."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program(script)], cwd=ROOT,
        capture_output=True, text=True, timeout=seconds, **settings,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


BEGIN = """
import os, signal, time
from flambeau.utils.data import DataLoader
from tests.data import worker_cases as cases
"""


@pytest.mark.parametrize(
    "end",
    [
        "pass",
        "del iterator",
        "import sys; sys.exit(0)",
        "import gc; loop = [iterator]; loop.append(loop); del iterator, loop",
        "list(iterator)",
        "iterator = None; list(loader); list(loader)",
    ],
)
@pytest.mark.parametrize("persistent", [False, pytest.param(True, marks=SLOW)])
def test_a_program_ends_quietly_whatever_becomes_of_its_iterator(end, persistent):
    code, out, err = run(
        BEGIN + f"loader = DataLoader(cases.Squares(50), 2, num_workers=2, "
        f"persistent_workers={persistent})\niterator = iter(loader)\nnext(iterator)\n{end}\n"
    )
    assert (code, out, err) == (0, "", "")


def test_systems_that_cannot_send_descriptors_send_bytes():
    code, out, err = run(
        """
import select, socket
del select.poll, socket.send_fds  # as on Windows
"""
        + BEGIN
        + """
from flambeau.utils.data import worker_channel
assert not worker_channel.CAN_SEND_DESCRIPTORS
loader = DataLoader(cases.Squares(40, big=3000), 4, num_workers=2, persistent_workers=True)
for epoch in range(2):
    assert [b[0, 9].item() for b in loader] == list(range(0, 40, 4))
loader = DataLoader(cases.Shards(0, uneven=True), None, num_workers=2)
assert list(loader) == [0, 100, 101, 102]
try:
    list(DataLoader(cases.Failing("kill"), 2, num_workers=2))
except RuntimeError as error:
    print("exited unexpectedly" in str(error))
"""
    )
    assert (code, out, err) == (0, "True\n", "")


def test_an_error_in_the_loop_is_all_that_is_printed():
    code, _, err = run(
        BEGIN + "for batch in DataLoader(cases.Squares(50), 2, num_workers=2):\n    1 / 0\n"
    )
    assert code == 1 and err.count("Traceback") == 1 and err.endswith("division by zero\n")


def start(script):
    return subprocess.Popen(
        [sys.executable, "-c", program(script)], cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


WORKING = """
data = cases.Slow({seconds}, length=100)
loader = DataLoader(data, num_workers=2, multiprocessing_context={how!r})
iterator = iter(loader)
if {seconds} < 1:
    next(iterator)
print(*[p.pid for p in iterator._crew.processes], flush=True)
"""


def gone(pids, seconds):
    """Have these processes ended within some seconds?"""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(map(lives, pids)):
            return True
        time.sleep(0.05)
    return False


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="no /proc here")
@pytest.mark.parametrize("how", ["fork", pytest.param("forkserver", marks=SLOW)])
@pytest.mark.parametrize("seconds", [0.01, 600])
def test_a_parent_that_is_killed_leaves_no_orphans(how, seconds):
    child = start(BEGIN + WORKING.format(how=how, seconds=seconds) + "time.sleep(60)\n")
    pids = [int(p) for p in child.stdout.readline().split()]
    assert len(pids) == 2 and all(map(lives, pids))
    child.kill()
    child.communicate()
    assert gone(pids, 8)


@pytest.mark.parametrize("how", ["fork", "forkserver"])
def test_control_c_ends_everything_with_one_traceback(how):
    script = BEGIN + WORKING.format(how=how, seconds=0.02) + "for _ in iterator: pass\n"
    child = start(script)
    pids = [int(p) for p in child.stdout.readline().split()]
    time.sleep(0.3)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does, to the workers too
    _, err = child.communicate(timeout=30)
    assert err.count("Traceback") == 1 and err.rstrip().endswith("KeyboardInterrupt")
    assert child.returncode != 0 and gone(pids, 5)


def test_control_c_while_workers_start():
    child = start(
        BEGIN
        + """
print("here", flush=True)
for _ in DataLoader(cases.Slow(0.05, length=100), num_workers=2, multiprocessing_context="spawn"):
    pass
"""
    )
    child.stdout.readline()
    time.sleep(0.15)  # spawned processes are importing now
    os.killpg(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert err.count("Traceback") == 1 and err.rstrip().endswith("KeyboardInterrupt")


def test_a_loop_goes_on_after_control_c_if_the_program_wants_to():
    code, out, err = run(
        BEGIN
        + """
loader = DataLoader(cases.Slow(0.05, length=40), num_workers=2, persistent_workers=True)
def interrupt(number, frame):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
for attempt in range(3):
    signal.setitimer(signal.ITIMER_REAL, 0.25)
    try:
        for _ in loader:
            pass
    except KeyboardInterrupt:
        print("interrupted")
signal.setitimer(signal.ITIMER_REAL, 0)
print([b.item() for b in loader] == list(range(40)))
"""
    )
    assert (code, err) == (0, "") and out == "interrupted\n" * 3 + "True\n"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_script_whose_classes_are_its_own(tmp_path, method):
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            sys.path.insert(0, {str(ROOT)!r})
            import flambeau as torch
            from flambeau.utils.data import DataLoader, Dataset

            class Mine(Dataset):
                def __len__(self):
                    return 4
                def __getitem__(self, i):
                    return torch.ones(2) * i, torch.nn.functional.relu(torch.tensor(-1.0))

            if __name__ == "__main__":
                loader = DataLoader(Mine(), 2, num_workers=2, multiprocessing_context={method!r})
                print([x.sum().item() for x, _ in loader])
            """
        )
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.stdout, done.stderr) == ("[2.0, 10.0]\n", "")


def test_a_script_without_a_main_guard_does_not_hang(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{BEGIN}\n"
        "list(DataLoader(cases.Squares(4), num_workers=1, multiprocessing_context='spawn'))\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 1 and "exited unexpectedly" in done.stderr
    assert "freeze_support" in done.stderr
