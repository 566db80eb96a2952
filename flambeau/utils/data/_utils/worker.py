"""`torch.utils.data._utils.worker`; everything lives in `worker.py` above."""

from ..worker import WorkerInfo as WorkerInfo
from ..worker import get_worker_info as get_worker_info
from ..worker import numpy_seed as _generate_state  # noqa: F401
