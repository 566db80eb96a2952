"""What the parts of torch.jit know of each other while they run, per thread."""

import threading
from typing import Any


class _State(threading.local):
    def __init__(self) -> None:
        self.tracers: list[Any] = []  # recordings that are going on
        self.last: Any = None  # the function that was called last
        self.keeps_branches = False  # a recorder wants conditions, not what they led to


state = _State()
