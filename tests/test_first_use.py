"""Imports are lazy: every public name works as the first thing a process touches."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests import first_use


def failures(names):
    program = Path(__file__).parent / "first_use.py"
    ran = subprocess.run(
        [sys.executable, str(program)], input="\n".join(names), capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


def test_some_names_work_first():
    assert not failures(random.Random(0).sample(first_use.names(), 16))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_every_name_works_first(part):
    assert not failures(first_use.names()[part::8])
