"""`torch.distributed.elastic.multiprocessing`: errors of workers."""
