"""`torch.utils.data._utils.pin_memory`; pinning itself is in `pinning.py` above."""

import queue
from collections.abc import Iterator
from typing import Any

from ..pinning import pin_memory as pin_memory

PATIENCE = 5.0  # seconds between two looks at whether anybody still waits for batches


def _pin_memory_loop(
    in_queue: Any, out_queue: Any, device_id: Any, done_event: Any, device: Any
) -> None:
    """A thread of another package's loader: batches from one queue, pinned, into another."""
    where = f"in pin memory thread for device {device_id}"
    for number, batch in _arriving(in_queue, done_event):
        out_queue.put((number, _pinned(batch, device, where)))


def _arriving(source: Any, ended: Any) -> Iterator[Any]:
    """What comes out of a queue, until an event is set."""
    while not ended.is_set():
        try:
            item = source.get(timeout=PATIENCE)
        except queue.Empty:
            continue
        yield item


def _pinned(batch: Any, device: Any, where: str) -> Any:
    """A pinned batch; an error of whoever made it, or of pinning it, travels in its place."""
    from flambeau._utils import ExceptionWrapper

    try:
        return batch if isinstance(batch, ExceptionWrapper) else pin_memory(batch, device)
    except Exception:
        return ExceptionWrapper(where=where)
