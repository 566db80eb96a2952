"""Programs as tutorials and PyTorch's examples write them, unchanged, over two processes.

Each runs through `python -m flambeau`; marked `oracle`, it must print what it prints with PyTorch.
"""

import contextlib
import functools
import importlib.util
import os
import random
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed.cases import PATIENCE

ROOT = Path(__file__).parent.parent.parent
PROGRAMS = Path(__file__).parent / "programs"
FLAMBEAU = [sys.executable, "-m", "flambeau"]
LAUNCH = ["--standalone", "--nproc_per_node=2"]
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None, reason="flambeau[distributed] is not installed"
)


def free_port():
    """A port that nobody has, and that no system gives to who asks for any, until it is used."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


def started(command, folder):
    return subprocess.Popen(
        [str(part) for part in command],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def printed(commands, folder):
    """The lines of programs that run at the same time, without ranks of a launcher; all succeed."""
    running = [started(command, folder) for command in commands]
    texts = [process.communicate(timeout=PATIENCE)[0] for process in running]
    for process, text in zip(running, texts):
        assert process.returncode == 0, text
    return [re.sub(r"^\[default\d\]:", "", line) for t in texts for line in t.splitlines()]


def first_steps(python, torchrun, folder):
    return [[*python, PROGRAMS / "first_steps.py", free_port()]]


def losses(python, torchrun, folder):
    return [[*torchrun, *LAUNCH, PROGRAMS / "losses.py"]]


def imagenet(python, torchrun, folder):
    options = ["--dummy", "--multiprocessing-distributed", "--seed", 3, "--world-size", 2]
    options += ["--dist-url", f"tcp://127.0.0.1:{free_port()}"]
    return [[*python, PROGRAMS / "imagenet.py", *options, "--rank", rank] for rank in (0, 1)]


# what a program prints: how its lines begin, and how many there are
CASES = {
    first_steps: (("basic", "checkpoint", "ring"), 3),
    losses: (("losses",), 8),
    imagenet: (("Epoch", " * Loss"), 8),
}


@functools.cache
def ours(program, folder):
    beginnings, count = CASES[program]
    lines = printed(program(FLAMBEAU, [*FLAMBEAU, "torchrun"], folder), folder)
    lines = sorted(line for line in lines if line.startswith(beginnings))
    assert len(lines) == count, lines
    return lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("programs")


@pytest.mark.parametrize("program", CASES, ids=lambda f: f.__name__)
def test_programs_run(program, folder):
    if program is imagenet:
        pytest.importorskip("PIL", reason="it reads images, which needs pillow")
    lines = ours(program, folder)
    if program is imagenet:
        assert lines[0] == lines[1] and lines[0].endswith("of 21")  # both have seen everything
        assert {"checkpoint0.pth.tar", "checkpoint1.pth.tar"} <= set(os.listdir(folder))


@pytest.mark.oracle
@pytest.mark.parametrize("program", CASES, ids=lambda f: f.__name__)
def test_programs_print_what_they_print_with_pytorch(program, folder, tmp_path):
    if program is imagenet and importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    theirs = printed(program([sys.executable], torchrun, tmp_path), tmp_path)
    theirs = sorted(line for line in theirs if line.startswith(CASES[program][0]))
    mine = ours(program, folder)
    numbers = [[float(x) for line in lines for x in find_numbers(line)] for lines in (mine, theirs)]
    assert [re.sub(r"[\d.e+-]+", "", line) for line in mine] == [
        re.sub(r"[\d.e+-]+", "", line) for line in theirs
    ]
    assert numbers[0] == pytest.approx(numbers[1], rel=2e-3 if program is imagenet else 1e-6)


def find_numbers(line):
    return re.findall(r"-?\d+\.?\d*(?:e[+-]\d+)?", line)


def test_torchrun_goes_on_from_a_snapshot(tmp_path):
    command = [*FLAMBEAU, "torchrun", *LAUNCH, "--max_restarts=2", PROGRAMS / "elastic.py"]
    lines = printed([[*command, tmp_path]], tmp_path)
    assert "going on at epoch 2" in lines
    assert any("rank 1" in line and "exitcode 13" in line for line in lines)
    found = {line[:6]: float(line.split()[-1]) for line in lines if line.startswith("rank ")}
    assert len(found) == 2 and all(loss < 2 for loss in found.values())


@pytest.mark.slow
def test_workers_of_ray(tmp_path):
    pytest.importorskip("ray")
    lines = printed([[sys.executable, ROOT / "examples/ray_workers.py"]], tmp_path)
    assert float(lines[-1].split()[-1]) > 0.9
