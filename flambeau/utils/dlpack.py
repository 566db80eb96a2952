"""Exchanging tensors with other libraries without copying, by the DLPack protocol.

`from_dlpack` takes an array of another library, `to_dlpack` gives a capsule to one that wants it;
libraries that know the protocol call `Tensor.__dlpack__` themselves. The work is done in
_tensor/dlpack.py and runtime/dlpack.py.
"""

import enum

from flambeau._tensor.dlpack import from_dlpack, to_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]

# Kinds of devices, as DLPack counts them.
DLDeviceType = enum.IntEnum("DLDeviceType", {
    "kDLCPU": 1, "kDLCUDA": 2, "kDLCUDAHost": 3, "kDLOpenCL": 4, "kDLVulkan": 7, "kDLMetal": 8,
    "kDLVPI": 9, "kDLROCM": 10, "kDLROCMHost": 11, "kDLExtDev": 12, "kDLCUDAManaged": 13,
    "kDLOneAPI": 14, "kDLWebGPU": 15, "kDLHexagon": 16, "kDLMAIA": 17,
})  # fmt: skip
