"""What every test gets: a seed of its own, printed when it fails, and a place among the marks.

The seed comes from the test's name, so a test draws the same numbers alone, in the whole suite and
on another worker; `--seed N` shifts all of them. Tests marked `oracle` compare with an installed
PyTorch and are skipped where there is none.
"""

import importlib.util
import os
import random
import sys
import zlib

import numpy as np
import pytest
from hypothesis import settings

# Tests see no GPU, whatever the machine has; those of tests/cuda look for one.
os.environ.setdefault("FLAMBEAU_TEST_CUDA", os.environ.get("FLAMBEAU_CUDA", ""))
os.environ["FLAMBEAU_CUDA"] = "0"

# Compiling a kernel for the first example may take longer than Hypothesis allows a test by default;
# a fixed choice of examples keeps a red run red when it is repeated.
settings.register_profile("flambeau", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("flambeau")


def pytest_addoption(parser):
    parser.addoption("--seed", type=int, default=0, help="shift the seed of every test")


def pytest_collection_modifyitems(items):
    if importlib.util.find_spec("torch") is None:
        skip = pytest.mark.skip(reason="PyTorch is not installed")
        for item in items:
            if item.get_closest_marker("oracle"):
                item.add_marker(skip)


def seed_of(item):
    """A number made from the test's name and the command line."""
    return (zlib.crc32(item.nodeid.encode()) + item.config.getoption("seed")) % 2**31


@pytest.fixture(autouse=True)
def seed(request):
    """The seed of this test; every generator that is loaded starts from it."""
    value = seed_of(request.node)
    random.seed(value)
    np.random.seed(value)
    for name in ("flambeau", "torch"):
        if name in sys.modules:
            sys.modules[name].manual_seed(value)
    return value


@pytest.fixture(autouse=True)
def without_handlers():
    """A test with subclasses of Tensor leaves the handler that comes with them to no other."""
    yield
    interposing = sys.modules.get("flambeau.interposing")
    for handler in interposing.handlers() if interposing is not None else ():
        if handler.all_threads and handler.is_lasting:
            interposing.pop(handler)


@pytest.fixture
def rng(seed):
    """A NumPy generator that starts from the seed of this test."""
    return np.random.default_rng(seed)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if report.failed:
        shift = item.config.getoption("seed")
        report.sections.append(("Seed", f"{seed_of(item)} (with --seed {shift})"))
    return report
