"""The launches of a recording in order, in groups: which of them are made, and how."""

from typing import Any

from flambeau.compiler.fusing import Group, Other, extent, grouped, is_flat
from flambeau.compiler.joining import joined
from flambeau.runtime.cpu import words_of

LOWEST = 1 << 32  # integers below this are no addresses
UNKNOWN = ("unknown", 0)  # the block of memory that nobody knows


class Plan:
    """Launches in groups.

    block_of(address): the block that it lies in, None if it is no address.
    """

    def __init__(self, launches: list, block_of: Any) -> None:
        def blocks_of(launch, without=()):
            numbers = []
            for k, a in enumerate(launch.arguments):
                if k in without:
                    continue
                if type(a) is bytes:
                    numbers += [n for n in words_of(a) if n >= LOWEST]
                elif type(a) is int and a >= LOWEST:
                    numbers.append(a)
            return {block for n in numbers if (block := block_of(n)) not in (None, UNKNOWN)}

        self.block_of = block_of
        self.order = grouped(launches, block_of, blocks_of)

    def launches(self, is_kept: Any, again: Any = None) -> list:
        """The same work in fewer launches. is_kept(block): is it needed after the last one?"""
        found = []
        for k, entry in enumerate(self.order):

            def live(block, k=k):
                if is_kept(block):
                    return True
                for later in self.order[k + 1 :]:
                    if block in later.reads:
                        return True
                    if block in later.writes:
                        return type(later) is not Group or not _covers(later, block, self.order[k])
                return False

            ready = entry.ready(live, again)
            if ready is not None:
                found.append(ready)
        return joined(found, is_kept, self.block_of)

    def written_once(self) -> set:
        """Blocks that a single entry of the plan writes, as far as one knows."""
        found: set = set()
        twice: set = set()
        for entry in self.order:
            twice |= found & entry.writes
            found |= entry.writes
        return found - twice

    def last_writes(self) -> dict:
        """Block -> number of the last entry that may write to it."""
        found: dict = {}
        for k, entry in enumerate(self.order):
            found.update(dict.fromkeys(entry.writes, k))
        return found

    def needed(self) -> tuple[set, dict]:
        """(blocks that others than groups are given or groups change, block -> loads of it)."""
        fixed: set = set()
        loads: dict = {}
        for entry in self.order:
            if type(entry) is Other:
                fixed |= entry.reads
                continue
            fixed |= entry.writes
            for o, block in entry.operands.items():
                loads.setdefault(block, []).append((o, entry.sizes))
        return fixed, loads


def _covers(later, block, earlier):
    """Does a later group write all that an earlier one wrote into a block?"""
    first = [extent(o, earlier.sizes) for o, b in earlier.written.items() if b == block]
    last = [
        extent(o, later.sizes)
        for o, b in later.written.items()
        if b == block and is_flat(o, later.sizes)
    ]
    return all(any(a <= c and d <= b for a, b in last) for c, d in first)
