"""Random calls over the whole table: no crash, no hang, no byte written outside, no raw error.

`python -m tests.fuzz.run` runs more of them and compares all outcomes with PyTorch's.
"""

import subprocess
import sys

import pytest

from tests.fuzz import run
from tests.fuzz.programs import program, spellings

HARM = ("crash", "hang", "writes outside", "raw error")


def _shown(found):
    return "\n\n".join(f"{f.kind}, number {f.number}\n{f.text}\n{f.note}" for f in found)


def test_a_program_is_made_from_seed_and_number():
    assert program(3, 7) == program(3, 7) != program(3, 8)
    assert len(spellings()) > 550
    assert len({program(0, k).op for k in range(3000)}) > 450


def test_random_calls_do_no_harm():
    found = [f for f in run.findings(seed=7, first=0, count=300) if f.kind in HARM]
    assert not found, _shown(found)


@pytest.mark.oracle
def test_random_calls_have_the_values_of_pytorch():
    pytest.importorskip("torch")
    found = run.findings(seed=11, first=0, count=300, oracle=True)
    found = [f for f in found if f.kind in (*HARM, "differs")]
    assert not found, _shown(found)


@pytest.mark.slow
def test_many_random_calls_do_no_harm():
    found = [f for f in run.findings(seed=1, first=0, count=300_000) if f.kind in HARM]
    assert not found, _shown(found[:20])


GUARDED = """
import ctypes
import flambeau as torch
from flambeau.eager.kernels import CHECKS
x = torch.ones(5) + 1
assert CHECKS.guards.broken() == []
ctypes.memset(x.data_ptr() + x.nbytes, 1, 1)
assert "behind a block of 20 bytes" in CHECKS.guards.broken()[0]
del x
assert "behind" in CHECKS.guards.broken()[0] and CHECKS.guards.broken() == []
"""


def test_workers_notice_what_is_written_beside_blocks():
    command = [sys.executable, "-c", GUARDED]
    done = subprocess.run(command, capture_output=True, text=True, env=run.checked())
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("ending", ["os.abort()", "time.sleep(1000)"])
def test_calls_that_kill_or_stop_their_worker_are_findings(ending, monkeypatch):
    monkeypatch.setattr(run, "SILENCE", 3)
    code = f"import os, time, sys; sys.stdout.flush(); {ending}"
    real = subprocess.Popen

    def broken(command, **options):
        first = int(command[command.index("--first") + 1])
        return real([sys.executable, "-c", code] if first == 0 else command, **options)

    monkeypatch.setattr(run.subprocess, "Popen", broken)
    kinds = [result[0] for _, result, _ in run.outcomes("flambeau", 7, 0, 1)]
    assert kinds == ["hang" if "sleep" in ending else "crash"]
