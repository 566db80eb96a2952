"""PyTorch's own ops, by their schemas: how calls here are written as calls of aten, and back."""
