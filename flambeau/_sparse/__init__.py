"""Sparse tensors: elements that are not there count as zero (docs/design/021-sparse.md).

A sparse tensor is a plain Tensor whose layout has no strides and whose storage holds other tensors.
What a program calls is in `flambeau/sparse/` and among the functions of torch.
"""
