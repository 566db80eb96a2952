"""Exchanging tensors with other libraries without copying, by the DLPack protocol.

`from_dlpack` takes an array of another library, `to_dlpack` gives a capsule to one that wants it;
libraries that know the protocol call `Tensor.__dlpack__` themselves. The work is done in
eager/dlpack.py and runtime/dlpack.py.
"""

import enum

from flambeau.eager.dlpack import from_dlpack, to_dlpack

_KINDS = {
    "CPU": 1, "CUDA": 2, "CUDAHost": 3, "OpenCL": 4, "Vulkan": 7, "Metal": 8, "VPI": 9, "ROCM": 10,
    "ROCMHost": 11, "ExtDev": 12, "CUDAManaged": 13, "OneAPI": 14, "WebGPU": 15, "Hexagon": 16,
    "MAIA": 17,
}  # fmt: skip
# Kinds of devices, as DLPack counts them: kDLCPU, kDLCUDA and so on.
DLDeviceType = enum.IntEnum("DLDeviceType", {f"kDL{k}": v for k, v in _KINDS.items()})

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]
