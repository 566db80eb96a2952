"""`torch.__config__`: what this was built with, for bug reports."""

import numpy

from flambeau.codegen.llvm_cpu import host
from flambeau.eager.kernels import get_num_threads
from flambeau.version import __version__


def show() -> str:
    """Lines that say what computes here."""
    return (
        f"flambeau, with the API of PyTorch {__version__}\n"
        f"  - machine code by LLVM {host().version}\n"
        f"  - NumPy {numpy.__version__}\n"
    )


def parallel_info() -> str:
    """Lines that say how kernels are spread over threads."""
    return (
        "ATen/Parallel:\n"
        f"\tat::get_num_threads() : {get_num_threads()}\n"
        "\tat::get_num_interop_threads() : 1\n"
        "ATen parallel backend: flambeau's own threads\n"
    )
