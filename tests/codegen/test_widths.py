"""Code for narrower vectors than the processor has: whole test files, in processes of their own.

FLAMBEAU_VECTOR_BITS is read once, so a process is made for each width.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUICK = (
    "tests/ops/test_convolution_half.py::test_exact",
    "tests/ops/test_convolution.py::test_values",
    "tests/ops/test_products_half.py",
)
WHOLE = (
    "tests/test_tiny.py",
    "tests/ops/test_convolution.py",
    "tests/ops/test_convolution_half.py",
    "tests/ops/test_products.py",
    "tests/ops/test_products_half.py",
    "tests/ops/test_attention.py",
    "tests/ops/test_softmax.py",
    "tests/ops/test_normalization.py",
    "tests/ops/test_reductions.py",
)


def passes(bits, *arguments):
    environment = {**os.environ, "FLAMBEAU_VECTOR_BITS": bits, "PYTHONPATH": str(ROOT)}
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout


def test_256_bits():
    passes("256", *QUICK, "-k", "conv2d or products")


@pytest.mark.slow
@pytest.mark.parametrize("bits", ["256", "128"])
def test_whole_families(bits):
    found = [name for name in WHOLE if (ROOT / name).exists()]
    assert len(found) > 5
    passes(bits, *found)
