"""`torch.utils.data._utils.pin_memory`; pinning itself is in `pinning.py` above."""

import queue
from typing import Any

from ..pinning import pin_memory as pin_memory


def _pin_memory_loop(
    in_queue: Any, out_queue: Any, device_id: Any, done_event: Any, device: Any
) -> None:
    """A thread of another package's loader: batches from one queue, pinned, into another."""
    from flambeau._utils import ExceptionWrapper

    from . import MP_STATUS_CHECK_INTERVAL

    while not done_event.is_set():
        try:
            number, data = in_queue.get(timeout=MP_STATUS_CHECK_INTERVAL)
        except queue.Empty:
            continue
        if not isinstance(data, ExceptionWrapper):
            try:
                data = pin_memory(data, device)
            except Exception:
                data = ExceptionWrapper(where=f"in pin memory thread for device {device_id}")
        while not done_event.is_set():
            try:
                out_queue.put((number, data), timeout=MP_STATUS_CHECK_INTERVAL)
                break
            except queue.Full:
                continue
