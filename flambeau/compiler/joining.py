"""Kernels of other kinds take pointwise neighbours in.

A row program (softmax, layer_norm, batch_norm, ...) may compute one of its elements in place of
loading it (a head) and go on with what it stores (a tail); a reduction may have a head. What only
the neighbour reads then never reaches memory. Every value is rounded as memory would round it, and
sums are added in the same order: the bits stay those of separate launches.

This is the last step of a plan, when it is known what pointwise kernels store and load.
"""

from typing import Any

from flambeau.compiler import hosts
from flambeau.compiler.accesses import builder_of
from flambeau.compiler.fusing import Other, Work
from flambeau.eager.plan import cost

FAR = 12  # entries between a kernel and a neighbour, at most
CHEAP = 24  # instructions per element that are worth doing twice


class _Entry:
    """A launch to be: pointwise work, another launch, or one with neighbours that it took in."""

    def __init__(self, what, reads, writes):
        self.what, self.reads, self.writes = what, frozenset(reads), frozenset(writes)

    @property
    def blocks(self):
        return self.reads | self.writes

    @property
    def is_pointwise(self):
        return type(self.what) is Work

    def minds(self, other):
        """Must the order of these two stay?"""
        return bool(self.writes & other.blocks or other.writes & self.reads)


def joined(ready: list, is_kept: Any, block_of: Any) -> list:
    """Launches of some work. is_kept(block): is it needed after the last of them?"""
    entries = []
    for what in ready:
        if type(what) is Other:
            entries.append(_Entry(what.launch, what.reads, what.writes))
        else:
            entries.append(_Entry(what, *what.reads_and_writes(block_of)))
    order = _Order(entries, is_kept, block_of)
    others = [entry for entry in entries if not entry.is_pointwise]
    # a row program or a reduction is built anew sooner than a product
    for entry in sorted(others, key=lambda e: builder_of(e.what.definition) == "gemm:build"):
        order.visit(entry)
    return [e.what if hasattr(e.what, "arguments") else e.what.launch() for e in order.entries]


class _Order:
    """Entries in order, and what may be done to it."""

    def __init__(self, entries, is_kept, block_of):
        self.entries, self.is_kept, self.block_of = entries, is_kept, block_of

    def visit(self, entry):
        """Let a launch take its neighbours in, if it is of a kind that can."""
        host = hosts.host_of(entry.what)
        if host is None:
            return
        is_changed = any([self._tail(entry, host), self._head(entry, host)])
        if is_changed:
            entry.what = host

    def _tail(self, entry, host):
        """Take in who reads a result."""
        if host.result is None:
            return False
        at, block = self.entries.index(entry), self.block_of(host.result.address)
        for other in self.entries[at + 1 : at + 1 + FAR]:
            if block not in other.blocks:
                continue
            if not other.is_pointwise or not self._may_meet(entry, other):
                return False
            if all(x.operand != host.result for x in other.what.loads):
                return False
            own = {block} if host.result in [o for o, _ in other.what.stored] else set()
            if (other.writes - own) & entry.blocks:
                return False
            if any(self._meets(entry.writes, x.operand, host.result) for x in other.what.loads):
                return False
            is_stored = not own and self._is_needed(block, entry, other)
            if not host.take_tail(other.what, is_stored):
                return False
            self._unite(entry, other)
            return True
        return False

    def _meets(self, blocks, operand, result):
        return operand != result and self.block_of(operand.address) in blocks

    def _head(self, entry, host):
        """Take in who computes an operand."""
        at = self.entries.index(entry)
        for operand in host.sources:
            block = self.block_of(operand.address)
            before = reversed(self.entries[max(0, at - FAR) : at])
            other = next((e for e in before if block in e.writes), None)
            if other is None or not other.is_pointwise:
                continue
            entries = self.entries
            part = other if host.stores_elements else self._part(other, block)
            if self._takes(entry, host, part, operand, block):
                self._unite(entry, part)
                return True
            self.entries = entries
        return False

    def _takes(self, entry, host, part, operand, block):
        if not self._may_meet(part, entry) or part.reads & entry.writes:
            return False
        if (part.writes - {block}) & entry.blocks:
            return False
        is_needed = self._is_needed(block, entry, part)
        return host.take_head(part.what, operand, is_needed)

    def _part(self, entry, block):
        """What of pointwise work is stored in a block, set apart before the rest if it is cheap."""
        work = entry.what
        mine = [(o, v) for o, v in work.stored if self.block_of(o.address) == block]
        if len(mine) == len(work.stored) or cost([v for _, v in mine]) > CHEAP:
            return entry
        rest = [(o, v) for o, v in work.stored if self.block_of(o.address) != block]
        parts = [work.part(mine), work.part(rest)]
        first, then = (_Entry(p, *p.reads_and_writes(self.block_of)) for p in parts)
        at = self.entries.index(entry)
        self.entries = [*self.entries[:at], first, then, *self.entries[at + 1 :]]
        return first

    def _is_needed(self, block, *but):
        """Does anybody else want what is in a block?"""
        if self.is_kept(block):
            return True
        return any(block in e.blocks for e in self.entries if e not in but)

    def _may_meet(self, first, second):
        """May one of two entries be moved to the other?"""
        low, high = self.entries.index(first), self.entries.index(second)
        between = self.entries[low + 1 : high]
        return not any(map(first.minds, between)) or not any(map(second.minds, between))

    def _unite(self, entry, other):
        """entry does the work of other, too; it stays where it is, if other may come to it."""
        mine, its = self.entries.index(entry), self.entries.index(other)
        between = self.entries[min(mine, its) + 1 : max(mine, its)]
        if any(map(other.minds, between)):
            self.entries[mine], self.entries[its] = other, entry
        self.entries.remove(other)
        entry.reads, entry.writes = entry.reads | other.reads, entry.writes | other.writes
