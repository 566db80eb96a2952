"""`torch.xpu`, `torch.mps` and `torch.mtia`: what programs ask before they use such devices."""

import pytest

import flambeau as torch


@pytest.mark.parametrize("name", ["xpu", "mps", "mtia"])
def test_there_are_none(name):
    space = getattr(torch, name)
    assert space.is_available() is False and space.device_count() == 0
    assert space.manual_seed(3) is None
    for public in space.__all__:
        assert hasattr(space, public), public


def test_questions_have_answers():
    assert torch.xpu.get_rng_state_all() == [] and torch.mtia.get_rng_state_all() == []
    assert torch.xpu.memory_allocated() == torch.xpu.max_memory_reserved() == 0
    assert torch.xpu.memory_stats() == {} and torch.mtia.memory_stats() == {}
    assert not torch.xpu.is_bf16_supported() and torch.mtia.is_bf16_supported()
    assert torch.xpu.set_stream(None) is None and torch.xpu.default_generators == ()
    assert torch.xpu.memory.memory_allocated is torch.xpu.memory_allocated
    with torch.xpu.stream(None):
        pass


XPU = (AssertionError, "Torch not compiled with XPU enabled")
REFUSED = {
    "xpu.current_device": (lambda: torch.xpu.current_device(), *XPU),
    "xpu.set_device": (lambda: torch.xpu.set_device(0), *XPU),
    "xpu.get_device_properties": (lambda: torch.xpu.get_device_properties(), *XPU),
    "xpu.mem_get_info": (lambda: torch.xpu.mem_get_info(), *XPU),
    "xpu.get_rng_state": (lambda: torch.xpu.get_rng_state(), *XPU),
    "xpu.use_mem_pool": (lambda: torch.xpu.use_mem_pool(None).__enter__(), *XPU),
    "xpu.device": (
        lambda: torch.xpu.device(0).__enter__(),
        NotImplementedError,
        "PyTorch was compiled without XPU support",
    ),
    "xpu.Stream": (
        lambda: torch.xpu.Stream(),
        RuntimeError,
        "Tried to instantiate dummy base class Stream",
    ),
    "xpu.power_draw": (lambda: torch.xpu.power_draw(), ImportError, "pyzes is required"),
    "mtia.synchronize": (
        lambda: torch.mtia.synchronize(),
        RuntimeError,
        r"Cannot execute getCurrentDevice\(\) without MTIA backend",
    ),
    "mtia.init": (
        lambda: torch.mtia.init(),
        AssertionError,
        "Torch not compiled with MTIA enabled",
    ),
    "mps.seed": (
        lambda: torch.mps.seed(),
        RuntimeError,
        r"Cannot execute getDefaultGenerator\(\) without MPS backend",
    ),
    "mps.Event": (
        lambda: torch.mps.Event(),
        RuntimeError,
        r"Cannot execute acquireEvent\(\) without MPS backend",
    ),
    "mps.compile_shader": (
        lambda: torch.mps.compile_shader(""),
        RuntimeError,
        "MPS is not available",
    ),
    "mps.profiler.start": (
        lambda: torch.mps.profiler.start(),
        RuntimeError,
        r"Cannot execute profilerStartTrace\(\) without MPS backend",
    ),
    "mps.set_per_process_memory_fraction": (
        lambda: torch.mps.set_per_process_memory_fraction(1),
        TypeError,
        "Invalid type for fraction argument, must be `float`",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_use_is_refused_in_words_of_pytorch(name):
    call, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        call()
