"""`torch.__config__`: what this build consists of, as text."""

import importlib.metadata
import platform
import sys

import flambeau

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Versions of everything that computes."""
    lines = [
        f"Python {platform.python_version()} ({sys.platform}, {platform.machine()})",
        f"kernels through llvmlite {importlib.metadata.version('llvmlite')}",
        f"NumPy {importlib.metadata.version('numpy')}",
        "Build settings: USE_CUDA=0, USE_MKL=OFF, USE_OPENMP=OFF",
    ]
    return "flambeau runs on:\n" + "".join(f"  - {line}\n" for line in lines)


def parallel_info() -> str:
    """How many threads work."""
    return f"threads: {flambeau.get_num_threads()}\n"
