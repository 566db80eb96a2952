"""Threads, forks and signals at once, in processes of their own: nothing crashes or changes."""

import os
import subprocess
import sys

import pytest

from tests.fuzz.run import checked

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


def _told(seed):
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.threads", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=checked())
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_threads_forks_and_signals_change_nothing():
    assert "160 calls in 4 threads, 6 children" in _told(5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_threads_forks_and_signals_change_nothing(seed):
    _told(seed)
