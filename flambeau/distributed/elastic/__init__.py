"""`torch.distributed.elastic`: what workers say to the launcher that started them (run.py)."""
