"""`torch.utils._triton`: kernels of Triton, which nothing here is compiled to."""

import importlib.util

__all__ = ["has_triton", "has_triton_package", "has_triton_tma", "has_triton_tma_device"]


def has_triton_package() -> bool:
    """Is Triton installed?"""
    return importlib.util.find_spec("triton") is not None


def has_triton() -> bool:
    """Can tensors be given to its kernels? They are PyTorch's, and Triton knows no others."""
    return False


has_triton_tma = has_triton_tma_device = has_triton
