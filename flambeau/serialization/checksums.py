"""CRC-32 of large buffers, worked out on another thread while this one reads or writes.

A checksum takes about as long as the copy from or to the file, and both let other threads run. The
owner of a buffer must stay alive until its checksum has been asked for, or `close` was called.
"""

import contextlib
import threading
import zlib
from queue import Empty, SimpleQueue

LARGE = 1 << 17


class Checksums:
    """A thread that works through buffers in order; small ones are done at once."""

    def __init__(self):
        self.waiting, self.thread = SimpleQueue(), None

    def begin(self, data):
        """A function that gives the checksum, and waits for it if need be."""
        if len(data) < LARGE:
            checksum = zlib.crc32(data)
            return lambda: checksum
        if self.thread is None:
            self.thread = threading.Thread(target=self._work, daemon=True)
            self.thread.start()
        answer = SimpleQueue()
        self.waiting.put((data, answer))
        return answer.get

    def _work(self):
        while (task := self.waiting.get()) is not None:
            data, answer = task
            answer.put(zlib.crc32(data))

    def close(self):
        """Wait until no buffer is being looked at; what has not begun is dropped."""
        if self.thread is None:
            return
        with contextlib.suppress(Empty):
            while True:
                self.waiting.get_nowait()
        self.waiting.put(None)
        self.thread.join()
        self.thread = None
