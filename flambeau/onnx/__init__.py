"""`torch.onnx`: programs import it early and export late. Exporting is not there yet."""

from typing import Any, NoReturn

__all__ = ["export", "is_in_onnx_export"]


def export(*args: Any, **kwargs: Any) -> NoReturn:
    """Not there yet: it says so."""
    raise NotImplementedError(
        "torch.onnx.export is not implemented in flambeau yet; "
        "save the state dict and export it with PyTorch, which reads the file"
    )


def is_in_onnx_export() -> bool:
    """Is a model being exported just now?"""
    return False
