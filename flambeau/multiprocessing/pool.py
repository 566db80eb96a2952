"""`torch.multiprocessing.pool`: the standard pool, whose queues carry tensors in shared memory."""

from multiprocessing.pool import AsyncResult as AsyncResult
from multiprocessing.pool import Pool as Pool
from multiprocessing.pool import ThreadPool as ThreadPool

from . import reductions

reductions.register()
