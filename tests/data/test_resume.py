"""Resuming in the middle of an epoch: the rest is what an uninterrupted run would have given.

Every test runs a loader for three epochs with a "model" that draws random numbers between batches,
notes what it sees, and compares with runs that were stopped after some batch, saved to a file and
continued by new objects in a process whose random streams are elsewhere.
"""

import copy
import io
import random

import numpy as np
import pytest

import flambeau as torch

D = torch.utils.data
EPOCHS = 3


def generator(seed=4):
    return torch.Generator().manual_seed(seed)


class Augmented(D.Dataset):
    """Draws from all three streams for each sample."""

    def __len__(self):
        return 11

    def __getitem__(self, index):
        return index, torch.rand(2), random.random(), np.random.rand(2)


class Shuffled(D.Sampler):
    """A sampler of the usual homemade kind."""

    def __init__(self, length, shuffle):
        self.length, self.shuffle = length, shuffle

    def __iter__(self):
        order = list(range(self.length))
        self.shuffle(order)
        yield from order

    def __len__(self):
        return self.length


class Stream(D.IterableDataset):
    def __iter__(self):
        order = torch.randperm(10).tolist()
        random.shuffle(order)
        yield from order


class ShuffleBuffer(D.IterableDataset):
    """Which sample comes next depends on every number drawn so far."""

    def __iter__(self):
        buffer = [0, 1, 2]
        for index in range(3, 14):
            place = int(torch.randint(3, ()))
            yield buffer[place]
            buffer[place] = index
        yield from buffer


class Buffered(D.Sampler):
    """The same as a sampler."""

    def __init__(self, source):
        self.source = source

    def __iter__(self):
        return iter(ShuffleBuffer())


class Counter(D.IterableDataset):
    """Knows where it is; counts what it had to read."""

    def __init__(self):
        self.position, self.read = 0, 0

    def __iter__(self):
        while self.position < 10:
            self.position += 1
            self.read += 1
            yield self.position
        self.position = 0

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


class CountingIterator:
    def __init__(self):
        self.position = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.position == 9:
            raise StopIteration
        self.position += 1
        return self.position

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


class WithStatefulIterator(D.IterableDataset):
    def __iter__(self):
        return CountingIterator()


class StatefulSampler(D.Sampler):
    """Draws each index when asked, from a generator it saves itself."""

    def __init__(self):
        self.left, self.stream = 9, generator(8)

    def __iter__(self):
        while self.left:
            self.left -= 1
            yield int(torch.randint(11, (), generator=self.stream))
        self.left = 9

    def __len__(self):
        return 9

    def state_dict(self):
        return {"left": self.left, "stream": self.stream.get_state()}

    def load_state_dict(self, state):
        self.left = state["left"]
        self.stream.set_state(state["stream"])


class StatefulBatches(StatefulSampler):
    def __iter__(self):
        for index in super().__iter__():
            yield [index, index]


def tensors():
    return D.TensorDataset(torch.arange(11), torch.arange(22.0).reshape(11, 2))


def shared_generator():
    stream = generator()
    sampler = D.RandomSampler(range(11), replacement=True, num_samples=80, generator=stream)
    return D.DataLoader(tensors(), batch_size=7, sampler=sampler, generator=stream)


LOADERS = {
    "in order": lambda: D.DataLoader(tensors(), batch_size=3),
    "shuffled": lambda: D.DataLoader(tensors(), batch_size=3, shuffle=True),
    "shuffled, dropped": lambda: D.DataLoader(tensors(), 4, shuffle=True, drop_last=True),
    "shuffled, generator": lambda: D.DataLoader(tensors(), 3, True, generator=generator()),
    "shuffled list": lambda: D.DataLoader(list(range(11)), batch_size=3, shuffle=True),
    "augmented": lambda: D.DataLoader(Augmented(), batch_size=3, shuffle=True),
    "single samples": lambda: D.DataLoader(tensors(), batch_size=None, shuffle=True),
    "replaced": lambda: D.DataLoader(
        tensors(),
        batch_size=5,
        sampler=D.RandomSampler(range(11), replacement=True, num_samples=70),
    ),
    "replaced, one generator for all": shared_generator,
    "two generators": lambda: D.DataLoader(
        tensors(),
        batch_size=5,
        sampler=D.RandomSampler(range(11), num_samples=30, generator=generator(1)),
        generator=generator(2),
    ),
    "weighted": lambda: D.DataLoader(
        tensors(), batch_size=3, sampler=D.WeightedRandomSampler([1.0] * 11, 10)
    ),
    "subset": lambda: D.DataLoader(
        tensors(), batch_size=3, sampler=D.SubsetRandomSampler([1, 5, 2, 8, 0])
    ),
    "distributed": lambda: D.DataLoader(
        tensors(), batch_size=2, sampler=D.DistributedSampler(range(11), 2, 1)
    ),
    "batch sampler": lambda: D.DataLoader(
        tensors(), batch_sampler=D.BatchSampler(D.RandomSampler(range(11)), 4, False)
    ),
    "listed batches": lambda: D.DataLoader(tensors(), batch_sampler=[[1, 2], [3], [0, 5, 7]]),
    "shuffled by python": lambda: D.DataLoader(
        tensors(), batch_size=3, sampler=Shuffled(11, random.shuffle)
    ),
    "shuffled by numpy": lambda: D.DataLoader(
        tensors(), batch_size=3, sampler=Shuffled(11, np.random.shuffle)
    ),
    "stream": lambda: D.DataLoader(Stream(), batch_size=3),
    "stream, dropped": lambda: D.DataLoader(Stream(), batch_size=3, drop_last=True),
    "stream of samples": lambda: D.DataLoader(Stream(), batch_size=None),
    "stream, generator": lambda: D.DataLoader(Stream(), batch_size=4, generator=generator()),
    "chained streams": lambda: D.DataLoader(Stream() + Stream(), batch_size=4),
    "shuffle buffer": lambda: D.DataLoader(ShuffleBuffer(), batch_size=3),
    "shuffle buffer of samples": lambda: D.DataLoader(ShuffleBuffer(), batch_size=None),
    "shuffle buffer as sampler": lambda: D.DataLoader(range(14), 3, sampler=Buffered(None)),
    "default generator, replaced": lambda: D.DataLoader(
        tensors(),
        batch_size=5,
        sampler=D.RandomSampler(
            range(11), replacement=True, num_samples=90, generator=torch.default_generator
        ),
    ),
    "stateful stream": lambda: D.DataLoader(Counter(), batch_size=3),
    "stateful iterator": lambda: D.DataLoader(WithStatefulIterator(), batch_size=2),
    "stateful sampler": lambda: D.DataLoader(tensors(), batch_size=2, sampler=StatefulSampler()),
    "stateful batches": lambda: D.DataLoader(tensors(), batch_sampler=StatefulBatches()),
}


def seeded(seed):
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def plain(batch):
    """A batch as nested lists."""
    if isinstance(batch, torch.Tensor):
        return batch.tolist()
    return [plain(part) for part in batch] if isinstance(batch, (list, tuple)) else batch


def train(loader, begin=0, stop=None):
    """What batches and model drew, to the end or up to (epoch, batch number) `stop`."""
    seen = []
    for epoch in range(begin, EPOCHS):
        if hasattr(loader.sampler, "set_epoch"):
            loader.sampler.set_epoch(epoch)
        for number, batch in enumerate(loader):
            seen.append((epoch, plain(batch), torch.rand(()).item()))
            if stop == (epoch, number):
                return seen
        seen.append((epoch, "end", torch.rand(()).item(), random.random(), np.random.rand()))
        if stop == (epoch, "end"):
            return seen
    return seen


def saved_and_loaded(state):
    """Through a file that can only hold plain data."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("name", LOADERS)
def test_the_rest_is_that_of_an_uninterrupted_run(name):
    check_all_stops(name, lambda stop: stop[0] < 2 or stop == (2, 1))


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(
    "name", ["augmented", "replaced, one generator for all", "shuffle buffer", "stateful stream"]
)
def test_the_same_with_workers(name, persistent, monkeypatch):
    class WithWorkers(D.DataLoader):
        def __init__(self, *arguments, **options):
            options.update(num_workers=2, persistent_workers=persistent)
            super().__init__(*arguments, **options)

    monkeypatch.setattr(D, "DataLoader", WithWorkers)
    check_all_stops(name, lambda stop: stop in [(0, 1), (1, "end"), (1, 1)])


def check_all_stops(name, is_tried):
    """The loop is left at each stop before the state is taken, so its iterator is gone."""
    seeded(1)
    whole = train(LOADERS[name]())
    stops = {}
    for position, (epoch, batch, *_) in enumerate(whole):
        number = sum(1 for e, *_ in whole[:position] if e == epoch)
        stops[epoch, "end" if batch == "end" else number] = position
    for stop in filter(is_tried, stops):
        seeded(1)
        first = LOADERS[name]()
        seen = train(first, stop=stop)
        assert seen == whole[: stops[stop] + 1]
        state = saved_and_loaded(first.state_dict())
        del first
        seeded(99)
        second = LOADERS[name]()
        second.load_state_dict(state)
        rest = train(second, begin=stop[0] + (stop[1] == "end"))
        assert rest == whole[stops[stop] + 1 :], stop


@pytest.mark.parametrize("name", ["shuffled", "replaced, one generator for all", "stream"])
def test_a_resumed_epoch_can_be_saved_again(name):
    seeded(2)
    loader = LOADERS[name]()
    batches = iter(loader)
    expected = [plain(next(batches)) for _ in range(3)]
    seeded(2)
    loader = LOADERS[name]()
    batches = iter(loader)
    found = []
    for _ in range(3):
        found.append(plain(next(batches)))
        state = loader.state_dict()
        seeded(50)
        loader = LOADERS[name]()
        loader.load_state_dict(state)
        batches = iter(loader)
    assert found == expected


def test_a_loaded_state_is_the_state_until_something_is_read():
    seeded(3)
    loader = LOADERS["shuffled"]()
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    expected = [plain(batch) for batch in batches]
    one, two = LOADERS["shuffled"](), LOADERS["shuffled"]()
    one.load_state_dict(state)
    two.load_state_dict(one.state_dict())
    assert [plain(batch) for batch in two] == expected


def test_a_state_taken_before_the_first_batch():
    seeded(4)
    loader = LOADERS["shuffled"]()
    fresh = loader.state_dict()
    batches = iter(loader)
    begun = loader.state_dict()  # the seed is drawn, nothing is read
    expected = [plain(batch) for batch in batches], torch.rand(3).tolist()
    for state in (fresh, begun):
        seeded(5)
        other = LOADERS["shuffled"]()
        other.load_state_dict(state)
        assert ([plain(batch) for batch in other], torch.rand(3).tolist()) == expected


@pytest.mark.parametrize("name", ["shuffled", "subset", "weighted", "stream", "single samples"])
def test_numbers_drawn_before_the_first_batch_matter(name):
    seeded(8)
    loader = LOADERS[name]()
    batches = iter(loader)
    torch.rand(5)  # between the seed of workers and that of the order
    next(batches)
    state = loader.state_dict()
    expected = [plain(batch) for batch in batches]
    seeded(9)
    other = LOADERS[name]()
    other.load_state_dict(state)
    assert [plain(batch) for batch in other] == expected


def test_a_broken_loop_keeps_its_place():
    seeded(5)
    loader = LOADERS["shuffled"]()
    for number, batch in enumerate(loader):  # noqa: B007
        if number == 1:
            break
    state = loader.state_dict()
    assert state["batches"] == 2
    seeded(5)
    whole = [plain(batch) for batch in LOADERS["shuffled"]()]
    other = LOADERS["shuffled"]()
    other.load_state_dict(state)
    assert [plain(batch) for batch in other] == whole[2:]


def test_a_broken_loop_lets_go_of_the_stream():
    ended = []

    class Source(D.IterableDataset):
        def __iter__(self):
            try:
                yield from range(10)
            finally:
                ended.append(True)

    loader = D.DataLoader(Source(), batch_size=2)
    for batch in loader:
        assert batch.tolist() == [0, 1]
        break
    assert ended and loader.state_dict()["batches"] == 1


def test_an_endless_epoch_notes_no_more_than_it_should(monkeypatch):
    monkeypatch.setattr("flambeau.utils.data.resuming.MOST_JUMPS", 3)
    loader = D.DataLoader(ShuffleBuffer(), batch_size=2)
    batches = iter(loader)
    for _ in range(3):
        next(batches), torch.rand(())
    assert len(loader.state_dict()["jumps"]) == 2
    for _ in range(3):
        next(batches), torch.rand(())
    state = loader.state_dict()
    assert state["jumps"] is None
    with pytest.warns(UserWarning, match="may go on differently") as told:
        loader.load_state_dict(saved_and_loaded(state))
    assert told[0].filename == __file__
    assert sum(len(batch) for batch in loader) == 2


def test_the_same_loader_can_go_back():
    seeded(6)
    loader = LOADERS["augmented"]()
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    first = [plain(batch) for batch in batches]
    loader.load_state_dict(state)
    assert [plain(batch) for batch in loader] == first


def test_nothing_is_read_again_where_it_need_not_be():
    class Counted(D.Dataset):
        read = 0

        def __len__(self):
            return 40

        def __getitem__(self, index):
            Counted.read += 1
            return index

    loader = D.DataLoader(Counted(), batch_size=4, shuffle=True)
    batches = iter(loader)
    for _ in range(8):
        next(batches)
    other = D.DataLoader(Counted(), batch_size=4, shuffle=True)
    other.load_state_dict(loader.state_dict())
    Counted.read = 0
    assert len(list(other)) == 2 and Counted.read == 8
    stream = D.DataLoader(Counter(), batch_size=3)
    batches = iter(stream)
    next(batches), next(batches)
    other = D.DataLoader(Counter(), batch_size=3)
    other.load_state_dict(stream.state_dict())
    assert [plain(batch) for batch in other] == [[7, 8, 9], [10]]
    assert other.dataset.read == 4


def test_batches_lost_to_an_error_stay_lost():
    class Broken(Augmented):
        def __getitem__(self, index):
            if index == 4:
                raise OSError("unreadable")
            return index

    loader = D.DataLoader(Broken(), batch_size=2)
    batches = iter(loader)
    next(batches), next(batches)
    with pytest.raises(OSError):
        next(batches)
    other = D.DataLoader(Broken(), batch_size=2)
    other.load_state_dict(loader.state_dict())
    assert plain(next(iter(other))) == plain(next(batches)) == [6, 7]


def test_a_state_does_not_change_afterwards():
    seeded(7)
    loader = LOADERS["stateful sampler"]()
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    kept = copy.deepcopy(state)
    list(batches), list(loader)
    other = LOADERS["stateful sampler"]()
    other.load_state_dict(state)
    list(other)
    assert str(state) == str(kept)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda: D.DataLoader(tensors(), batch_size=4, shuffle=True), "batch_size was 3"),
        (lambda: D.DataLoader(tensors(), 3, shuffle=True, drop_last=True), "drop_last was False"),
        (lambda: D.DataLoader(range(12), batch_size=3, shuffle=True), "samples was 11"),
        (lambda: D.DataLoader(Stream(), batch_size=3), "kind was 0"),
        (
            lambda: D.DataLoader(tensors(), 3, shuffle=True, generator=generator()),
            "saved with 0 generators",
        ),
    ],
)
def test_another_loader_refuses_the_state(change, words):
    loader = LOADERS["shuffled"]()
    next(iter(loader))
    with pytest.raises(ValueError, match=words):
        change().load_state_dict(loader.state_dict())


def test_what_is_no_state_is_refused():
    loader = LOADERS["shuffled"]()
    state = loader.state_dict()
    with pytest.raises(TypeError, match="Expected state_dict to be a dict"):
        loader.load_state_dict([1])
    with pytest.raises(ValueError, match="no state of a DataLoader: version, active"):
        loader.load_state_dict({})
    with pytest.raises(ValueError, match="version 99"):
        loader.load_state_dict({**state, "version": 99})
    with pytest.raises(RuntimeError, match="CPUGeneratorImplState"):
        wrong = {**state["random"], "generators": [torch.zeros(3, dtype=torch.uint8)]}
        loader.load_state_dict({**state, "random": wrong})
    assert len(list(loader)) == 4


def test_other_settings_matter_only_within_an_epoch():
    loader = LOADERS["shuffled"]()
    list(loader)
    other = D.DataLoader(tensors(), batch_size=5, shuffle=True)
    other.load_state_dict(loader.state_dict())
    assert [len(x) for x, _ in other] == [5, 5, 1]
