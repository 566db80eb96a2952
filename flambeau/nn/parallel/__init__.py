"""`torch.nn.parallel`: one model over several devices."""

from flambeau.nn.parallel.data_parallel import DataParallel as DataParallel
from flambeau.nn.parallel.data_parallel import data_parallel as data_parallel
from flambeau.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel
