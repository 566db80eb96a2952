"""What GPUs are like."""

from dataclasses import dataclass, field
from typing import Any

from flambeau.cuda._devices import devices, index_of, needed

_NO_NVML = "pynvml does not seem to be installed or it can't be imported."


@dataclass
class _CudaDeviceProperties:
    """Facts about a GPU, by PyTorch's names."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    uuid: str
    L2_cache_size: int
    max_threads_per_multi_processor: int
    warp_size: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    is_integrated: int = field(default=0)
    is_multi_gpu_board: int = field(default=0)

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory >> 20}MB, "
            f"multi_processor_count={self.multi_processor_count}, uuid={self.uuid}, "
            f"L2_cache_size={self.L2_cache_size >> 20}MB)"
        )


_ASKED = {
    "major": "COMPUTE_CAPABILITY_MAJOR",
    "minor": "COMPUTE_CAPABILITY_MINOR",
    "multi_processor_count": "MULTIPROCESSOR_COUNT",
    "L2_cache_size": "L2_CACHE_SIZE",
    "max_threads_per_multi_processor": "MAX_THREADS_PER_MULTIPROCESSOR",
    "warp_size": "WARP_SIZE",
    "regs_per_multiprocessor": "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "shared_memory_per_block": "MAX_SHARED_MEMORY_PER_BLOCK",
    "shared_memory_per_block_optin": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "shared_memory_per_multiprocessor": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "is_integrated": "INTEGRATED",
    "is_multi_gpu_board": "MULTI_GPU_BOARD",
}


def get_device_properties(device: Any = None) -> _CudaDeviceProperties:
    """What a GPU is like."""
    found, index = needed(), index_of(device)
    driver = found.driver
    if not 0 <= index < driver.count():
        raise AssertionError("Invalid device id")
    driver.use(index)
    facts = {name: driver.attribute(index, asked) for name, asked in _ASKED.items()}
    number = driver.uuid(index).hex()
    uuid = "-".join((number[:8], number[8:12], number[12:16], number[16:20], number[20:]))
    total = driver.memory()[1]
    driver.use(found.current)
    return _CudaDeviceProperties(driver.name(index), total_memory=total, uuid=uuid, **facts)


def get_device_name(device: Any = None) -> str:
    """What a GPU is called."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The number of its architecture."""
    found = get_device_properties(device)
    return found.major, found.minor


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Can a GPU read another one's memory?"""
    count = needed().driver.count()
    one, other = index_of(device), index_of(peer_device)
    if not 0 <= one < count:
        raise AssertionError("Invalid device id")
    if not 0 <= other < count:
        raise AssertionError("Invalid peer device id")
    return one != other


def get_arch_list() -> list[str]:
    """The architectures that kernels are made for: the one that is there."""
    found = devices()
    if found is None or not found.driver.count():
        return []
    return ["sm_{}{}".format(*get_device_capability(0))]


def get_gencode_flags() -> str:
    """The same as options of nvcc, which is not used."""
    return " ".join(
        f"-gencode compute={a.replace('sm', 'compute')},code={a}" for a in get_arch_list()
    )


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Does the GPU compute with bfloat16?"""
    if devices() is None:
        return False
    return including_emulation or get_device_capability()[0] >= 8


def is_tf32_supported() -> bool:
    """Do products of float32 go through TF32?"""
    return devices() is not None and get_device_capability()[0] >= 8


def _management() -> Any:
    try:
        import pynvml
    except ModuleNotFoundError:
        raise ModuleNotFoundError(_NO_NVML) from None
    pynvml.nvmlInit()
    return pynvml


def _handle(device: Any) -> tuple[Any, Any]:
    index = index_of(device)
    library = _management()
    return library, library.nvmlDeviceGetHandleByIndex(index)


def utilization(device: Any = None) -> int:
    """Percent of the last moments in which kernels ran."""
    library, handle = _handle(device)
    return library.nvmlDeviceGetUtilizationRates(handle).gpu


def memory_usage(device: Any = None) -> int:
    """Percent of the last moments in which memory was read or written."""
    library, handle = _handle(device)
    return library.nvmlDeviceGetUtilizationRates(handle).memory


def device_memory_used(device: Any = None) -> int:
    """Bytes in use by all processes, as NVIDIA's management library counts them."""
    library, handle = _handle(device)
    return library.nvmlDeviceGetMemoryInfo(handle).used


def temperature(device: Any = None) -> int:
    """Degrees Celsius."""
    library, handle = _handle(device)
    return library.nvmlDeviceGetTemperature(handle, 0)


def power_draw(device: Any = None) -> int:
    """Milliwatts."""
    library, handle = _handle(device)
    return library.nvmlDeviceGetPowerUsage(handle)


def clock_rate(device: Any = None) -> int:
    """Megahertz of the multiprocessors."""
    library, handle = _handle(device)
    return library.nvmlDeviceGetClockInfo(handle, 1)
