"""Where PyTorch keeps OptimizedModule."""

from flambeau._dynamo import OptimizedModule

__all__ = ["OptimizedModule"]
