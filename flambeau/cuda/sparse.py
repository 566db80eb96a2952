"""`torch.cuda.sparse`, which is empty in PyTorch, too: sparse tensors are in `torch.sparse`."""
