"""A GPU for tests: the machine's, or the host in place of one."""

import os

import pytest

from flambeau._device import device
from flambeau.eager import cuda_kernels
from flambeau.runtime import cuda as cuda_runtime
from flambeau.runtime import cuda_driver

WANTED = os.environ["FLAMBEAU_TEST_CUDA"]  # see tests/conftest.py


@pytest.fixture(scope="session")
def gpus():
    """One for all tests: layouts and plans remember its memory and kernels."""
    driver = cuda_driver.probe(WANTED) or cuda_driver.Emulated()
    return cuda_runtime.CudaDevices(driver, cuda_kernels._loading)


@pytest.fixture(scope="module", autouse=True)
def cuda(gpus):
    """The runtime of device("cuda") while the tests of a file of this folder run."""
    before = device.runtimes.get("cuda")
    device.runtimes["cuda"] = gpus
    yield gpus
    if before is None:
        del device.runtimes["cuda"]
    else:
        device.runtimes["cuda"] = before


def pytest_collection_modifyitems(items):
    """Tests marked `gpu` are skipped where the host takes the place of one."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and cuda_driver.probe("0" if WANTED == "emulated" else WANTED) is None:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="there is no GPU here"))
