"""torch.cuda has PyTorch's names; what stays out has a reason here."""

import os
import subprocess
import sys
import warnings

import pytest

import flambeau
from flambeau import cuda
from flambeau._device import device
from flambeau.runtime import cuda_driver

OUT = {
    "allocators written in C++": "CUDAPluggableAllocator change_current_allocator",
    "kernels written in C++": "jiterator",
    "what the package of PyTorch was compiled for": "DEVICE_REQUIREMENT PYTORCH_RELEASES_CODE_CC",
    "parts of a GPU, files that a GPU reads": "GreenContext green_contexts gds",
    "several GPUs, tuning of hipBLAS": "nccl tunable",
    "imports, not names": (
        "Callable NewType Optional TYPE_CHECKING cast classproperty importlib lru_cache os "
        "platform threading torch traceback warnings"
    ),
}


@pytest.mark.oracle
def test_names():
    pytorch = pytest.importorskip("torch")
    if not pytorch.__version__.startswith("2.13"):
        pytest.skip("the list is that of PyTorch 2.13")
    theirs = {name for name in dir(pytorch.cuda) if not name.startswith("_")}
    left = {name for names in OUT.values() for name in names.split()}
    missing = {name for name in theirs if not hasattr(cuda, name)}
    assert missing == left & theirs


def test_waits_are_told():
    x = flambeau.ones(2, device="cuda")
    assert cuda.get_sync_debug_mode() == 0
    cuda.set_sync_debug_mode("error")
    try:
        with pytest.raises(flambeau.AcceleratorError, match="called a synchronizing CUDA"):
            x.sum().item()
        y = x + x  # waits for nothing
        cuda.set_sync_debug_mode(1)
        with pytest.warns(UserWarning, match="called a synchronizing CUDA operation"):
            y.tolist()
        with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
            cuda.set_sync_debug_mode("loud")
    finally:
        cuda.set_sync_debug_mode(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert y.tolist() == [2, 2]


def test_a_scaler_waits_once_in_a_step():
    w = flambeau.ones(3, device="cuda", requires_grad=True)
    optimizer, scaler = flambeau.optim.SGD([w], 0.1), flambeau.amp.GradScaler("cuda")

    def step():
        optimizer.zero_grad()
        scaler.scale((w * w).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    step()
    waits = []
    device.runtimes["cuda"].on_wait = lambda: waits.append(1)
    try:
        for _ in range(3):
            step()
    finally:
        device.runtimes["cuda"].on_wait = None
    assert len(waits) == 3 and scaler._get_growth_tracker() == 4
    assert w.tolist() == pytest.approx([0.8**4] * 3)


def test_memory_that_is_set_apart():
    pool = cuda.MemPool()
    with cuda.use_mem_pool(pool):
        assert pool.use_count() == 2
        x = flambeau.ones(1000, device="cuda")
    place = x.data_ptr()
    del x
    assert flambeau.empty(1000, device="cuda").data_ptr() != place
    assert any(found["free_blocks"] for found in pool.snapshot())
    with cuda.use_mem_pool(pool):
        assert flambeau.empty(1000, device="cuda").data_ptr() == place
    with cuda.caching_allocator_disabled():
        flambeau.empty(1 << 22, device="cuda")


def test_small_things():
    assert cuda.has_half and not cuda.has_magma
    cuda.check_error(cuda.cudaStatus.SUCCESS)
    with pytest.raises(cuda.CudaError, match="2"):
        cuda.check_error(2)
    outside = cuda.get_stream_from_external(cuda.Stream().cuda_stream)
    assert isinstance(outside, cuda.Stream)
    held = flambeau.ones(3).pin_memory()
    assert cuda.host_memory_stats()["active_requests.current"] >= 1, held
    assert cuda.host_memory_stats_as_nested_dict()["active_bytes"]["current"] > 0
    with cuda.profiler.profile():
        flambeau.ones(2, device="cuda")


def test_what_is_wrong_with_the_driver_is_told():
    code = (
        "import flambeau as torch\nfrom flambeau.runtime import cuda_driver\n"
        "class Driver:\n    def __init__(self): raise RuntimeError('CUDA: system not ready')\n"
        "cuda_driver.Driver = Driver\nassert not torch.cuda.is_available()\n"
        "try: torch.cuda.init()\nexcept RuntimeError as e: print(e)"
    )
    environment = {**os.environ, "FLAMBEAU_CUDA": ""}
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert cuda_driver.FAILED in found.stdout and "system not ready" in found.stdout, found.stderr


def test_models_on_one_gpu_take_inputs_from_anywhere():
    nn, net = flambeau.nn, flambeau.nn.Linear(4, 3).to("cuda")
    wrapped, x = nn.DataParallel(net), flambeau.randn(5, 4)
    assert (wrapped.device_ids, wrapped.output_device) == ([0], 0)
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    assert flambeau.equal(wrapped(x), net(x.cuda()))
    wrapped(x).sum().backward()
    assert net.weight.grad is not None
    assert nn.parallel.data_parallel(net, x, [0]).is_cuda
    assert nn.parallel.data_parallel(net, x, [0], "cpu").device.type == "cpu"
    with pytest.raises(RuntimeError, match="module must have its parameters and buffers on device"):
        nn.DataParallel(nn.Linear(4, 3))(x)
