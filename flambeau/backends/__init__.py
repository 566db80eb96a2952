"""`torch.backends`: switches of libraries that PyTorch is built with.

flambeau writes its own kernels, so most switches change nothing; programs set them and read them
back. One class keeps such a set of switches; `cudnn`, `mkldnn` and others are its instances, and
importable as modules, because programs say `import torch.backends.cudnn as cudnn`.
"""

import contextlib
import sys
import types
import warnings
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from typing import Any

import flambeau
from flambeau.backends.gpu_libraries import blas_library, cuFFTPlanCacheManager, linalg_library
from flambeau.nn import attention
from flambeau.ops.attention import ALLOWED
from flambeau.runtime.switches import switches

LIBRARY_SWITCHES = "enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32"

__all__ = [
    "cpu",
    "cuda",
    "cudnn",
    "mha",
    "miopen",
    "mkl",
    "mkldnn",
    "mps",
    "openmp",
    "opt_einsum",
    "quantized",
]


class Backend(types.ModuleType):
    """A library's name and its switches; unknown switches are refused."""

    def __init__(self, name: str, *, available: bool = False, **switches: Any) -> None:
        super().__init__(f"{__name__}.{name}", f"Switches of `torch.backends.{name}`.")
        self.__spec__ = ModuleSpec(self.__name__, None)
        self.__dict__.update(switches, _available=available, _switches=frozenset(switches))
        sys.modules[self.__name__] = self

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("__") and name not in self._switches:
            raise AttributeError(f"module '{self.__name__}' has no switch '{name}'")
        super().__setattr__(name, value)

    def is_available(self) -> bool:
        """Is the library used?"""
        return self._available

    def is_built(self) -> bool:
        """Was the library built in?"""
        return self._available

    def version(self) -> None:
        """The library's version; None without it."""
        return None

    def set_flags(self, *values: Any, **named: Any) -> tuple:
        """Change switches, given in their order or by name; returns those before."""
        names = [name for name in self.__dict__ if name in self._switches]
        before = tuple(getattr(self, name) for name in names)
        for name, value in {**dict(zip(names, values)), **named}.items():
            if value is not None:
                setattr(self, name.removeprefix("_"), value)
        return before

    @contextlib.contextmanager
    def flags(self, **named: Any) -> Iterator[None]:
        """Other switches for a while."""
        before = {name: getattr(self, name) for name in self._switches}
        self.set_flags(**named)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)


class CpuBackend(Backend):
    """What kernels are written for."""

    def get_cpu_capability(self) -> str:
        """DEFAULT, AVX2 or AVX512."""
        from flambeau.codegen.llvm_cpu import host  # with llvmlite, on first need

        return {64: "AVX512", 32: "AVX2"}.get(host().target.vector_bytes, "DEFAULT")


class CudnnBackend(Backend):
    """The library of convolutions, where it is installed."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in LIBRARY_SWITCHES:
            switches.change(**{name: value})

    def is_available(self) -> bool:
        """Is the library used?"""
        return self.version() is not None

    def version(self) -> int | None:  # type: ignore[override]
        """The library's version; None without it."""
        if not flambeau.cuda.is_available():
            return None
        try:
            import cudnn as frontend  # an extra: flambeau[cuda]

            return int(frontend.backend_version())
        except (ImportError, OSError, RuntimeError):
            return None

    def is_acceptable(self, tensor: Any) -> bool:
        """Could the library compute with a tensor?"""
        return self.enabled and tensor.is_cuda and self.is_available()


class ProductSwitches(types.SimpleNamespace):
    """Switches of matrix products on GPUs."""

    @property
    def allow_tf32(self) -> bool:
        """May products of float32 round their operands to TF32?"""
        return switches.rounds()

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        switches.change(precision="high" if value else "highest")


class CudaBackend(Backend):
    """Switches for products and attention on GPUs."""

    def is_built(self) -> bool:
        """Are there GPUs?"""
        return flambeau.cuda.is_available()

    def preferred_linalg_library(self, backend: Any = None) -> Any:
        """Which library factors matrices: a wish that is remembered."""
        return linalg_library(backend)

    def preferred_blas_library(self, backend: Any = None) -> Any:
        """Which library multiplies matrices: a wish that is remembered."""
        return blas_library(backend)

    @contextlib.contextmanager
    def sdp_kernel(
        self,
        enable_flash: bool = True,
        enable_math: bool = True,
        enable_mem_efficient: bool = True,
        enable_cudnn: bool = True,
    ) -> Iterator[dict]:
        """Which kernels attention may choose within this context; sdpa_kernel is its successor."""
        warnings.warn(
            "`torch.backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager "
            "will be removed. Please see `torch.nn.attention.sdpa_kernel()` for the new context "
            "manager, with updated signature.",
            FutureWarning,
            stacklevel=3,
        )
        kinds = attention.SDPBackend
        wanted = {
            kinds.FLASH_ATTENTION: enable_flash,
            kinds.EFFICIENT_ATTENTION: enable_mem_efficient,
            kinds.MATH: enable_math,
            kinds.CUDNN_ATTENTION: enable_cudnn,
        }
        with attention.sdpa_kernel([kind for kind, allowed in wanted.items() if allowed]) as found:
            yield found

    def flash_sdp_enabled(self) -> bool:
        """One of the kernels that attention may choose."""
        return ALLOWED["flash"]

    def mem_efficient_sdp_enabled(self) -> bool:
        """One of the kernels that attention may choose."""
        return ALLOWED["mem_efficient"]

    def math_sdp_enabled(self) -> bool:
        """One of the kernels that attention may choose."""
        return ALLOWED["math"]

    def cudnn_sdp_enabled(self) -> bool:
        """One of the kernels that attention may choose."""
        return ALLOWED["cudnn"]

    def enable_flash_sdp(self, enabled: bool) -> None:
        """Allow or forbid it."""
        ALLOWED["flash"] = bool(enabled)

    def enable_mem_efficient_sdp(self, enabled: bool) -> None:
        """Allow or forbid it."""
        ALLOWED["mem_efficient"] = bool(enabled)

    def enable_math_sdp(self, enabled: bool) -> None:
        """Allow or forbid it."""
        ALLOWED["math"] = bool(enabled)

    def enable_cudnn_sdp(self, enabled: bool) -> None:
        """Allow or forbid it."""
        ALLOWED["cudnn"] = bool(enabled)


class MhaBackend(Backend):
    """The fast path of attention layers in evaluation."""

    def get_fastpath_enabled(self) -> bool:
        """Is it allowed?"""
        return self.fastpath

    def set_fastpath_enabled(self, value: bool) -> None:
        """Allow or forbid it."""
        self.fastpath = bool(value)


class QuantizedBackend(Backend):
    """Which library's rules quantization follows by default; the kernels are the same for all."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "engine" and value not in self.supported_engines:
            raise RuntimeError(f"quantized engine {value} is not supported")
        super().__setattr__(name, value)


cudnn = CudnnBackend(
    "cudnn",
    enabled=True,
    benchmark=False,
    benchmark_limit=None,
    deterministic=False,
    allow_tf32=True,
    fp32_precision="none",
    conv=types.SimpleNamespace(fp32_precision="none"),
    rnn=types.SimpleNamespace(fp32_precision="none"),
    CUDNN_TENSOR_DTYPES={flambeau.float64, flambeau.float32, flambeau.float16},
)
cuda = CudaBackend(
    "cuda",
    matmul=ProductSwitches(
        fp32_precision="none",
        allow_fp16_reduced_precision_reduction=True,
        allow_bf16_reduced_precision_reduction=True,
        allow_fp16_accumulation=False,
    ),
    cufft_plan_cache=cuFFTPlanCacheManager(),
)
cpu = CpuBackend("cpu", available=True)
mps = Backend("mps")
mkl = Backend("mkl")
mkldnn = Backend(
    "mkldnn", enabled=True, deterministic=False, allow_tf32=True, fp32_precision="none"
)
openmp = Backend("openmp")
nnpack = Backend("nnpack")
miopen = Backend("miopen", immediate=False)
quantized = QuantizedBackend(
    "quantized",
    available=True,
    engine="x86",
    supported_engines=["qnnpack", "onednn", "x86", "fbgemm"],
)
opt_einsum = Backend("opt_einsum", enabled=False, strategy=None)
mha = MhaBackend("mha", available=True, fastpath=True)
fp32_precision = "none"
