"""`torch.distributed.algorithms._checkpoint`: modules that run twice instead of keeping values."""
