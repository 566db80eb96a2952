"""Worlds of several processes: collectives, training, and what happens when one fails."""

import contextlib
import importlib.util
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import flambeau.multiprocessing as mp
from tests.data.worker_cases import limit, shm_files
from tests.distributed import cases, training_cases
from tests.distributed.cases import PATIENCE

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None, reason="flambeau[distributed] is not installed"
)
ROOT = Path(__file__).parent.parent.parent
POINTS = "before all_reduce inside broadcast barrier gather recv async group raises ddp".split()


@pytest.fixture(autouse=True)
def limited(request):
    before = set(shm_files())
    with limit(7200 if request.node.get_closest_marker("slow") else PATIENCE):
        yield
    deadline = time.monotonic() + 10
    while set(shm_files()) - before and time.monotonic() < deadline:
        time.sleep(0.05)  # another program may just be making or ending one
    assert set(shm_files()) <= before


def world(function, size, tmp_path, *args):
    mp.spawn(function, (size, str(tmp_path / "store"), *args), nprocs=size)


@pytest.mark.parametrize(
    "size", [2, pytest.param(3, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("messages", [False, True])
def test_collectives(tmp_path, size, messages):
    world(cases.everything, size, tmp_path, messages)


def test_collectives_of_three(tmp_path):
    world(cases.everything, 3, tmp_path, False)


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_ddp_trains_as_one_process(tmp_path, size):
    world(training_cases.trains_as_one, size, tmp_path)


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_corners_of_ddp(tmp_path, size):
    world(training_cases.ddp_corners, size, tmp_path)


QUICK = ("all_reduce", "recv", "raises")


@pytest.mark.parametrize(
    "point", [p if p in QUICK else pytest.param(p, marks=pytest.mark.slow) for p in POINTS]
)
def test_death_of_a_rank_is_told(tmp_path, point):
    context = mp.get_context("spawn")
    path = str(tmp_path / "store")
    processes = [context.Process(target=cases.dies, args=(r, 3, path, point)) for r in range(3)]
    for p in processes:
        p.start()
    for p in processes:
        p.join(PATIENCE)
    codes = [p.exitcode for p in processes]
    for p in processes:
        p.kill()
    assert codes == [0, 0 if point == "raises" else -9, 0]


BEYOND = (
    "zero_steps_as_one collectives_with_gradients functional_collectives mesh overlaps rebuilds "
    "detailed"
).split()


@pytest.mark.parametrize("case", BEYOND)
def test_beyond_ddp(tmp_path, case):
    world(getattr(training_cases, case), 2, tmp_path)


def test_timeout_names_the_rank(tmp_path):
    world(cases.late, 2, tmp_path)


@pytest.mark.parametrize("detailed", [False, True])
def test_different_calls_are_noticed(tmp_path, detailed):
    world(cases.mismatched, 2, tmp_path, detailed)


def test_groups_come_and_go(tmp_path):
    world(cases.again, 2, tmp_path)


def belongings():
    """(children of this process, its open files and sockets)"""
    children = set()
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            children |= set(Path(f"/proc/self/task/{task}/children").read_text().split())
    return children, len(os.listdir("/proc/self/fd"))


@pytest.mark.slow
def test_two_hundred_worlds_leave_nothing(tmp_path):
    """Ports are those of processes: where none of these is left, none of those is."""
    mp.spawn(cases.stays, (2, str(tmp_path / "store")), nprocs=2)
    children, files = belongings()
    for k in range(200):
        mp.spawn(cases.stays, (2, str(tmp_path / f"store{k}")), nprocs=2)
    assert belongings()[0] <= children and belongings()[1] <= files


# -- launching -------------------------------------------------------------------------------------


def launched(arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def script(tmp_path, text):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(text))
    return str(path)


def test_launcher_through_the_runner(tmp_path):
    path = script(
        tmp_path,
        """
        import os, torch, torch.distributed as dist
        dist.init_process_group("gloo")
        t = torch.ones(1) * int(os.environ["RANK"])
        dist.all_reduce(t)
        import os
        told = f"sum {t.item()} of {dist.get_world_size()} {torch.__name__}\\n"
        os.write(1, told.encode())  # in one piece
        """,
    )
    done = launched(
        [
            "-m",
            "flambeau",
            "torchrun",
            "--standalone",
            "--nproc-per-node=2",
            path,
        ]
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("sum 1.0 of 2 torch") == 2
    assert {line[:11] for line in done.stdout.splitlines()} == {"[default0]:", "[default1]:"}


def test_launcher_restarts_a_failed_group(tmp_path):
    path = script(
        tmp_path,
        f"""
        import os, sys, flambeau.distributed as dist, flambeau as torch
        attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        dist.init_process_group("gloo")
        t = torch.ones(1)
        dist.all_reduce(t)
        if attempt == 0 and dist.get_rank() == 1:
            sys.exit(3)
        dist.barrier()
        open(os.path.join({str(tmp_path)!r}, f"done{{dist.get_rank()}}"), "w").write(str(attempt))
        """,
    )
    options = ["-m", "flambeau.distributed.run", "--nproc_per_node=2", "--master_port=0"]
    done = launched([*options, "--max_restarts=1", path])
    assert done.returncode == 0, done.stderr
    assert "rank 1" in done.stderr and "exitcode 3" in done.stderr
    assert [(tmp_path / f"done{r}").read_text() for r in (0, 1)] == ["1", "1"]
    done = launched([*options, path])
    assert done.returncode != 0


def test_example_learns():
    done = launched([str(ROOT / "examples/ddp.py")])
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) > 0.85


def test_mpiexec(tmp_path):
    mpiexec = Path(sys.executable).parent / "mpiexec"
    if not mpiexec.exists():
        pytest.skip("no mpiexec beside this Python")
    path = script(
        tmp_path,
        """
        import flambeau as torch, flambeau.distributed as dist
        dist.init_process_group("mpi")
        t = torch.ones(1) * dist.get_rank()
        dist.all_reduce(t)
        import os
        os.write(1, f"sum {t.item()} of {dist.get_world_size()}\\n".encode())  # in one piece
        """,
    )
    done = subprocess.run(
        [str(mpiexec), "-n", "3", sys.executable, path],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.count("sum 3.0 of 3") == 3
