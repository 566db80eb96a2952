"""`torch.utils.data._utils.pin_memory`; everything lives in `pinning.py` above."""

from ..pinning import pin_memory as pin_memory
