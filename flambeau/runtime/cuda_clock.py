"""When kernels ran on a GPU: events of the driver around launches, for the profiler.

Native code (kernel_clock.py) records a pair of events around every launch of a GPU's kernels; here
they are made, and turned into times of the host's clock when the measuring ends.
"""

import time
from array import array
from typing import Any

PAIRS = 1 << 14  # launches that can be timed; of later ones only the host's time is known


class GpuClock:
    """Events for the launches of one GPU.

    stream: the address of native code that gives the current one.
    """

    def __init__(self, runtime: Any, stream: int) -> None:
        self.runtime = runtime
        driver = runtime.driver
        self.events = array("q", [driver.new_event(True) for _ in range(2 * PAIRS)])
        self.first = driver.new_event(True)
        self.record = driver.address("cuEventRecord")
        self.stream = stream
        self.began = 0

    def begin(self) -> list[int]:
        """Note the time; words for native code: see kernel_clock.py."""
        driver = self.runtime.driver
        driver.synchronize()
        driver.record(self.first, self.runtime.stream)
        driver.synchronize()
        self.began = time.perf_counter_ns()
        return [self.record, self.stream, self.events.buffer_info()[0], 0, PAIRS]

    def end(self) -> None:
        """All that was timed has run."""
        self.runtime.driver.synchronize()

    def span(self, pair: int, start: int, end: int) -> tuple[int, int] | None:
        """Begin and end of a launch in nanoseconds; start and end: when the host made it."""
        if not 0 <= pair < PAIRS:
            return None
        driver = self.runtime.driver
        if driver.emulated:
            return start, end  # work is done as it is asked for
        edges = [
            self.began + round(1e6 * driver.elapsed(self.first, self.events[2 * pair + k]))
            for k in range(2)
        ]
        return edges[0], edges[1]
