"""`torch.distributed.optim`: optimizers that are spread over processes."""

from .zero_redundancy_optimizer import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer
