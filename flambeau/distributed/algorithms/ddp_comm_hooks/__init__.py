"""`torch.distributed.algorithms.ddp_comm_hooks`: ways to send buckets of gradients."""

from . import default_hooks as default_hooks
from . import powerSGD_hook as powerSGD_hook
