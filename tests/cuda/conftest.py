"""A GPU for tests: the machine's, or the host in place of one."""

import pytest

from flambeau import config
from flambeau._device import device
from flambeau.eager import cuda_kernels
from flambeau.runtime import cuda as cuda_runtime
from flambeau.runtime import cuda_driver


@pytest.fixture(scope="package", autouse=True)
def cuda():
    """The runtime of device("cuda") while the tests of this folder run."""
    driver = cuda_driver.probe(config.cuda()) or cuda_driver.Emulated()
    before = device.runtimes.get("cuda")
    found = cuda_runtime.CudaDevices(driver, cuda_kernels._loading)
    device.runtimes["cuda"] = found
    yield found
    if before is None:
        del device.runtimes["cuda"]
    else:
        device.runtimes["cuda"] = before
