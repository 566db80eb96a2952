"""Memory of temporaries: each block of a recording lives once, then they share an arena.

While somebody records, a block that is given back is not handed out again: so all launches that are
given addresses in a block mean the same tensor, and after the last of them nobody needs what is in
it. On the tape blocks then share memory again, laid out by the launches between which they live.
"""

import bisect

from flambeau.runtime.allocator import PAGE, STAGGER

LINE = 64  # bytes
IMAGINED = 0x5A17C3 << 36  # from here on there is no memory: see `imagined`
ALIGNED = 512  # bytes, of blocks there

_next = IMAGINED


def imagined(size):
    """The address of a block of a GPU that nobody will ever touch: recordings that run no kernel
    need no memory. No two of them are the same.
    """
    global _next
    start, _next = _next, _next + (size + ALIGNED & -ALIGNED)
    return start


class Returned:
    """Takes blocks of a pool back while somebody records; they reach the pool when that is over.

    untouched: nothing was ever written to them, so others are to be handed out before them. Blocks
    that were imagined go nowhere.
    """

    __slots__ = ("pool", "blocks", "is_over", "untouched")

    def __init__(self, pool, untouched=False):
        self.pool, self.blocks, self.is_over, self.untouched = pool, [], False, untouched
        pool.give = self

    def __call__(self, start):
        self.blocks.append(start)
        if self.is_over:  # asked behind the append: another thread may be in `end` by now
            self._hand_on()

    def _hand_on(self, end=IMAGINED):  # bound here: it is asked for when a process ends, too
        handed = []
        while self.blocks:
            handed.append(self.blocks.pop())
        real = [start for start in handed if start < end]
        if self.untouched:
            self.pool[:0] = real
        else:
            self.pool.extend(real)
        return handed

    def end(self):
        """The recording is over: give the pool what it is owed, and say what that was."""
        self.pool.give = self.pool.append
        self.is_over = True
        return self._hand_on()


def padded(size):
    """Bytes from one block to the next: not all of them begin at the same place in a page."""
    return (size + LINE - 1 & -LINE) + (STAGGER if size >= PAGE else 0)


def laid_out(spans, taken=(), most=None):
    """(place of each block, bytes in all) of blocks {name: (bytes, first launch, last launch)}.

    Large blocks first, each at the lowest place that is free for all of its life. taken: (place,
    end, first, last) of what lies there already; most: bytes that there are, so that not all blocks
    need have a place.
    """
    places: dict = {}
    taken = sorted(taken)  # lowest place first
    whole = 0
    for name, (size, first, last) in sorted(spans.items(), key=lambda item: -item[1][0]):
        at = 0
        for place, end, begins, ends in taken:
            if begins > last or ends < first:
                continue
            if at + size <= place:
                break
            at = max(at, end)
        if most is not None and at + size > most:
            continue
        places[name] = at
        bisect.insort(taken, (at, at + size, first, last))
        whole = max(whole, at + size)
    return places, whole
