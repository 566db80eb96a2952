"""`torch.utils._foreach_utils`: lists of tensors, sorted by what one kernel can work on."""

from typing import Any

import flambeau
from flambeau import Tensor

__all__: list[str] = []


def _group_tensors_by_device_and_dtype(
    tensorlistlist: list[list[Tensor | None]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Tensor | None]], list[int]]]:
    """Parallel lists, cut by the device and dtype of what stands in the first of them."""
    groups: dict = {}
    for index, first in enumerate(tensorlistlist[0]):
        assert first is not None
        lists, places = groups.setdefault(
            (first.device, first.dtype), ([[] for _ in tensorlistlist], [])
        )
        for kept, given in zip(lists, tensorlistlist):
            kept.append(given[index])
        if with_indices:
            places.append(index)
    return groups


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Kinds of devices where lists pay."""
    return ["cuda", "xpu", "mtia", "privateuseone"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Kinds of devices where a whole step is one kernel."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


def _has_foreach_support(tensors: list[Tensor], device: Any) -> bool:
    """May these tensors go through functions of lists?"""
    kind = str(flambeau.device(device)).partition(":")[0]
    known = {*_get_foreach_kernels_supported_devices(), "cpu"}
    return kind in known and all(t is None or type(t) is Tensor for t in tensors)
