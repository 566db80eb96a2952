"""`torch.multiprocessing.queue`: the standard queues, which carry tensors in shared memory."""

from multiprocessing.queues import JoinableQueue as JoinableQueue
from multiprocessing.queues import Queue as Queue
from multiprocessing.queues import SimpleQueue as SimpleQueue

from . import reductions

reductions.register()
