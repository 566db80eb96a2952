"""`torch.distributed.constants`: how long is waited where nobody says."""

from datetime import timedelta

__all__ = ["default_pg_timeout", "default_pg_nccl_timeout"]

default_pg_timeout = timedelta(minutes=30)
default_pg_nccl_timeout = timedelta(minutes=10)
STORE_TIMEOUT = timedelta(seconds=300)
