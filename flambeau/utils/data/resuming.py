"""How far an epoch has come, and how to get there again.

Each epoch has a `Progress`. It knows where the random streams were when the epoch began, how many
batches of indices were drawn from the sampler, and how many of them the user has had. Iterators
keep it up to date: `draw(indices)` in place of `next(indices)`, `consume()` for each batch handed
out (or lost to an error of the dataset). `saved_state` turns it into plain data.

Resuming runs the sampler again: streams go back to the epoch's start, as many batches of indices
are drawn as had been, without reading a sample, and streams return to where they are. Indices that
were drawn but not handed out (by workers that read ahead) are served first. Samplers and datasets
with a `state_dict` of their own are asked instead. A model may draw from the same generators
between batches; where that changed what the sampler drew next, the jump is noted and made again.
"""

import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from .fetch import DatasetKind, Fetcher, IterableFetcher
from .loader_parts import (
    check_same,
    describe,
    draws_again,
    epoch_of,
    generators_of,
    is_stateful,
    runs_foreign_code,
    sampler_chain,
    stateful_sampler,
)
from .random_state import RandomState
from .sampler import BatchSampler

VERSION = 1
MOST_JUMPS = 4096  # 2.5 KB each
KEYS = (
    "version active batches consumed drawn seed_drawn base_seed loader random start jumps epoch "
    "sampler sampler_ended dataset workers"
).split()


class Progress:
    """One epoch of a loader.

    Attributes:
        batches: how many the user was given.
        consumed: how many batches of indices are done with: given to the user, or failed.
        drawn: how many were taken from the sampler.
        active: whether the epoch has not ended yet.
        resumed: whether it goes on from a saved state, in its middle.
        base_seed: what the seeds of workers are counted from; set by the iterator.
        dataset_state: set by the iterator: a function that returns `state_of_dataset`.
        saved_dataset: what that gave for the epoch that is resumed.
        worker_states: set by an iterator with workers: a function that returns a list of plain
            data, one for each worker, as of the batches handed out.
        saved_workers: what that gave for the epoch that is resumed; None if nothing is resumed.
    """

    def __init__(self, loader: Any) -> None:
        saved, loader._saved = loader._saved, None
        loader._progress = self
        self.generators = generators_of(loader)
        self.batches = self.consumed = self.drawn = self._to_draw = 0
        self.active = True
        self.resumed = saved is not None and saved["active"]
        self.base_seed: int | None = None
        self.seed_drawn = False
        self.dataset_state: Any = None
        self.worker_states: Any = None
        self.saved_dataset = self.saved_workers = None
        self.sampler = stateful_sampler(loader)
        self.pending: deque[Any] = deque()
        self._replayed: RandomState | None = None
        if saved is not None:
            self.base_seed = saved["base_seed"]
            self.saved_dataset = saved["dataset"]
            self.saved_workers = saved["workers"]
        if saved is not None and self.resumed:
            self.batches, self.consumed = saved["batches"], saved["consumed"]
            self.seed_drawn = saved["seed_drawn"]
            self._to_draw = saved["drawn"]
            self.start = self._replayed = RandomState.from_plain(saved["start"])
        else:
            self.start = RandomState.now(self.generators, runs_foreign_code(loader))
        # Where generators were at a batch's draw, if not where the one before had left them.
        self.jumps: dict[int, list[bytes]] | None = {}
        if saved is not None and self.resumed:
            self.jumps = None
            if saved["jumps"] is not None:
                self.jumps = {number: marks_of(states) for number, states in saved["jumps"]}
        self._left = self.start.marks
        self._by_index = loader._dataset_kind == DatasetKind.Map
        self._draws_again = draws_again(loader)
        # Of a stateful sampler: its state and whether it has come to its end, as of `consumed`,
        # then after each batch drawn since.
        self.sampler_states: deque[tuple[Any, bool]] = deque()
        self._full = loader.batch_size if type(loader.batch_sampler) is BatchSampler else None
        if self.sampler is not None:
            ended = saved is not None and self.resumed and saved["sampler_ended"]
            self.sampler_states.append((deepcopy(self.sampler.state_dict()), ended))

    @contextmanager
    def replaying(self) -> Iterator[None]:
        """Inside, the random streams of a resumed epoch are where they were at its start.

        Used again, it goes on where it stopped. For an epoch from its start it does nothing.
        """
        if self._replayed is None:
            yield
            return
        now = RandomState.now(self.generators)
        self._replayed.restore(self.generators)
        try:
            yield
        finally:
            self._replayed = RandomState.now(self.generators)
            now.restore(self.generators)

    def begun(self) -> None:
        """From here on others may draw from the generators too."""
        state = self._replayed
        self._left = self._marks() if state is None else state.marks

    def catch_up(self, indices: Iterator[Any]) -> None:
        """Draw what had been drawn before (inside `replaying`); keep what the user has not had."""
        if self.sampler is not None:  # it goes on where it was
            self.drawn = self.consumed
            return
        for number in range(self._to_draw):
            if self._by_index:  # else jumps are those of the dataset
                self.jump(number)
            try:
                index = next(indices)
            except StopIteration:
                break
            if number >= self.consumed:
                self.pending.append(index)
        self.drawn = self._to_draw

    def draw(self, indices: Iterator[Any]) -> Any:
        """The next batch of indices, from what is pending or else from the sampler's iterator."""
        if self.pending:
            return self.pending.popleft()
        if not self._by_index or (self.drawn and not self._draws_again):
            index = next(indices)
        elif self.sampler is not None:
            index = self._draw_and_ask(indices)
        else:
            with self.watching(self.drawn):
                index = next(indices)
        self.drawn += 1
        return index

    def _draw_and_ask(self, indices: Iterator[Any]) -> Any:
        if self.sampler_states[-1][1]:
            raise StopIteration
        index = next(indices)
        # A last batch that is not full has taken the sampler to its end, and maybe to a new start.
        ended = self._full is not None and len(index) < self._full
        self.sampler_states.append((deepcopy(self.sampler.state_dict()), ended))
        return index

    @contextmanager
    def watching(self, number: int) -> Iterator[None]:
        """Around what draws for a batch: notes a jump if it depends on what others drew before."""
        before = self._marks()
        yield
        after = self._marks()
        if before != self._left and before != after and self.jumps is not None:
            self.jumps[number] = before
            if len(self.jumps) > MOST_JUMPS:
                self.jumps = None
        self._left = after

    def jump(self, number: int) -> None:
        """Before a batch's draw is repeated: go to where the generators were."""
        if self.jumps is not None and number in self.jumps:
            RandomState(self.jumps[number], None, None).restore(self.generators)

    def _marks(self) -> list[bytes]:
        return RandomState.now(self.generators, foreign=False).marks

    def consume(self) -> None:
        """One batch of indices is done with."""
        self.consumed += 1
        if len(self.sampler_states) > 1:
            self.sampler_states.popleft()


def saved_state(loader: Any) -> dict[str, Any]:
    """What `load_saved_state` needs to go on from here, as plain data."""
    generators = generators_of(loader)
    random = RandomState.now(generators).plain()
    if loader._saved is not None:  # loaded, and nothing read since
        return {**deepcopy(loader._saved), "random": random}
    progress: Progress | None = loader._progress
    active = progress is not None and progress.active
    state: dict[str, Any] = dict.fromkeys(KEYS)
    state.update(version=VERSION, active=active, loader=describe(loader), random=random)
    state.update(batches=0, consumed=0, drawn=0, seed_drawn=False, sampler_ended=False)
    state["epoch"] = next(filter(None, map(epoch_of, sampler_chain(loader))), None)
    sampler = stateful_sampler(loader)
    if sampler is not None:
        state["sampler"] = deepcopy(sampler.state_dict())
    if progress is not None:
        if progress.dataset_state is not None:
            state["dataset"] = progress.dataset_state()
        # Workers that stay keep their seeds and streams; others get new ones in each epoch.
        if active or loader.persistent_workers:
            state["base_seed"] = progress.base_seed
            if progress.worker_states is not None:
                state["workers"] = progress.worker_states()
    elif is_stateful(loader.dataset):
        state["dataset"] = state_of_dataset(loader.dataset)
    if progress is not None and active:
        for name in ("batches", "consumed", "drawn", "seed_drawn"):
            state[name] = getattr(progress, name)
        state["start"] = progress.start.plain()
        if progress.jumps is not None:
            state["jumps"] = [(number, states_of(m)) for number, m in progress.jumps.items()]
        if progress.sampler_states:
            state["sampler"], state["sampler_ended"] = deepcopy(progress.sampler_states[0])
    return state


def load_saved_state(loader: Any, state: Any) -> None:
    """Let the next epoch of a loader go on where `saved_state` was taken."""
    if not isinstance(state, dict):
        raise TypeError(
            f"Expected state_dict to be a dict of DataLoader.state_dict(), got {type(state)}."
        )
    if missing := [key for key in KEYS if key not in state]:
        raise ValueError(f"this is no state of a DataLoader: {', '.join(missing)} missing")
    if state["version"] != VERSION:
        raise ValueError(
            f"the state has version {state['version']}, this program reads version {VERSION}"
        )
    if state["active"]:
        check_same(describe(loader), state["loader"])
        if state["jumps"] is None:
            warnings.warn(
                "this epoch may go on differently: its order was drawn, batch after batch, from a "
                "generator that others used in between. A state_dict of the dataset's or the "
                "sampler's own, or a generator of its own, would help",
                stacklevel=3,
            )
    generators = generators_of(loader)
    random = RandomState.from_plain(state["random"])
    if len(random.marks) != 1 + len(generators):
        raise ValueError(
            f"the state was saved with {len(random.marks) - 1} generators given to the loader and "
            f"its samplers; here there are {len(generators)}"
        )
    random.restore(generators)
    if state["epoch"] is not None:
        for sampler in sampler_chain(loader):
            if epoch_of(sampler) is not None:
                sampler.set_epoch(state["epoch"])
    sampler = stateful_sampler(loader)
    if sampler is not None and state["sampler"] is not None:
        sampler.load_state_dict(deepcopy(state["sampler"]))
    loader._saved = deepcopy(state)
    loader._progress = loader._iterator = None


def state_of_dataset(dataset: Any, fetcher: Fetcher | None = None) -> dict[str, Any] | None:
    """What the iterator of a dataset, or else the dataset itself, wants to be given again."""
    iterator: Any = getattr(fetcher, "dataset_iter", None)
    # A last batch that was not full has taken the dataset to its end, and maybe to a new start.
    ended = getattr(fetcher, "ended", False)
    if is_stateful(iterator) and iterator is not dataset:
        return {"iterator": deepcopy(iterator.state_dict()), "ended": ended}
    if is_stateful(dataset):
        return {"dataset": deepcopy(dataset.state_dict()), "ended": ended}
    return None


def restore_dataset(dataset: Any, state: dict[str, Any] | None) -> None:
    """Give a dataset its state back, before it is iterated."""
    if state is not None and "dataset" in state and is_stateful(dataset):
        dataset.load_state_dict(deepcopy(state["dataset"]))


def resume_iterable(
    fetcher: IterableFetcher,
    state: dict[str, Any] | None,
    batches: int,
    index: Any,
    progress: Progress | None = None,
) -> None:
    """Take a new fetcher to where it had read a number of batches.

    Args:
        fetcher: just made, after `restore_dataset`.
        state: of the dataset; without one, samples are read again and thrown away.
        batches: how many had been read.
        index: what the fetcher is given for one batch.
        progress: knows where others drew from the generators in between, if anybody could.
    """
    if not batches:
        return
    if state is not None:
        fetcher.ended = state["ended"]
        if "iterator" in state:
            fetcher.dataset_iter.load_state_dict(deepcopy(state["iterator"]))  # type: ignore
        return
    for number in range(batches):
        if progress is not None:
            progress.jump(number)
        try:
            fetcher.skip(index)
        except StopIteration:
            return


def states_of(marks: list[bytes]) -> list[Any]:
    """Generators as tensors that can be saved."""
    return RandomState(marks, None, None).plain()["generators"]


def marks_of(states: list[Any]) -> list[bytes]:
    return RandomState.from_plain({"generators": states, "python": None, "numpy": None}).marks
