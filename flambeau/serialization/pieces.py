"""Large blocks of memory to and from a file, in pieces that several threads share.

While one thread copies its piece, another works out a checksum, and the disk already writes what
came before. A piece is small enough to be in the cache still when it is looked at for the second
time. Only for real files, whose descriptor is ours alone.
"""

import itertools
import os
import threading

from flambeau.runtime.writeback import begin_writeback
from flambeau.serialization.checksums import crc32, joined

PIECE, SMALL_PIECE = 1 << 21, 1 << 19
MOST_THREADS = 4
POSSIBLE = hasattr(os, "pwrite") and hasattr(os, "preadv")


def _processors():
    allowed = getattr(os, "sched_getaffinity", None)  # not on every system
    return (os.cpu_count() or 1) if allowed is None else len(allowed(0))


def shared(work, tasks):
    """[work(task) for task in tasks], on a few threads; the first error is raised."""
    results, failed = [None] * len(tasks), []
    numbers = itertools.count()

    def claim():
        for number in numbers:
            if number >= len(tasks) or failed:
                return
            try:
                results[number] = work(tasks[number])
            except BaseException as error:  # for the caller to see, whichever thread met it
                failed.append(error)

    helpers = _started(claim, min(_processors(), MOST_THREADS, len(tasks)) - 1)
    claim()
    for helper in helpers:
        while helper.is_alive():  # memory must stay until nobody looks at it, whatever happens
            try:
                helper.join()
            except BaseException as error:
                failed.append(error)  # the others stop after their piece
    if failed:
        raise failed[0]
    return results


def _started(claim, count):
    helpers = []
    for _ in range(count):
        helper = threading.Thread(target=claim, daemon=True)
        try:
            helper.start()
        except RuntimeError:  # no more threads can be had, or the interpreter is about to end
            break
        helpers.append(helper)
    return helpers


def _cut(blocks):
    """(block number, piece of memory, place in the file)"""
    total = sum(len(data) for data, _ in blocks)
    # a block alone is cut for the threads that there are, unless it is small
    piece = min(PIECE, max(total // min(_processors(), MOST_THREADS) + 1, SMALL_PIECE))
    return [
        (number, data[start : start + piece], place + start)
        for number, (data, place) in enumerate(blocks)
        for start in range(0, len(data), piece)
    ]


def _checksums(blocks, tasks, found):
    totals = [0] * len(blocks)
    for (number, data, _), checksum in zip(tasks, found):
        totals[number] = joined(totals[number], checksum, len(data))
    return totals


def write_at(descriptor, data, place):
    """Write all of it, in as many goes as the system needs."""
    data, done = memoryview(data), 0
    while done < len(data):
        done += os.pwrite(descriptor, data[done:], place + done)


def write_blocks(descriptor, blocks, with_checksums=True):
    """Write (memory, place in the file) and give the checksum of each block."""

    def work(task):
        _, data, place = task
        checksum = crc32(data) if with_checksums else 0
        write_at(descriptor, data, place)
        begin_writeback(descriptor, place, len(data))
        return checksum

    tasks = _cut(blocks)
    return _checksums(blocks, tasks, shared(work, tasks))


def read_blocks(descriptor, blocks, with_checksums=True):
    """Fill (memory, place in the file) and give the checksum of each; EOFError if a file ends."""

    def work(task):
        _, data, place = task
        done = 0
        while done < len(data):
            count = os.preadv(descriptor, [data[done:]], place + done)
            if not count:
                raise EOFError("the file ends within a record")
            done += count
        return crc32(data) if with_checksums else 0

    tasks = _cut(blocks)
    return _checksums(blocks, tasks, shared(work, tasks))
