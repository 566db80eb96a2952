"""Loading by worker processes: the same batches, whoever makes them, in memory that holds.

Failures are in test_workers_failing.py, random streams in test_workers_random.py.
"""

import gc
import multiprocessing
import os
import time

import numpy as np
import pytest

import flambeau as torch
from flambeau.utils.data import DataLoader, TensorDataset, get_worker_info
from tests.data import worker_cases as cases

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
METHODS = [
    m for m in ("fork", "spawn", "forkserver") if m in multiprocessing.get_all_start_methods()
]
needs_fork = pytest.mark.skipif("fork" not in METHODS, reason="no fork here")
needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="no /proc here")


@pytest.fixture(autouse=True)
def limited():
    with cases.limit(60):
        yield
    gc.collect()
    assert not multiprocessing.active_children(), "a worker was left behind"


def same(a, b):
    """Equal in value, kind and layout."""
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        assert (a.dtype, a.shape, a.requires_grad) == (b.dtype, b.shape, b.requires_grad)
        assert a.stride() == b.stride() and a.device == b.device
        assert a.is_meta or torch.equal(a, b)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and np.array_equal(a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    elif isinstance(a, torch.UntypedStorage):
        assert a.tolist() == b.tolist()
    else:
        assert a == b


# -- what arrives ----------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_batches_do_not_depend_on_the_number_of_workers(workers):
    settings = dict(batch_size=3, shuffle=True, generator=torch.Generator())
    settings["generator"].manual_seed(1)
    expected = list(DataLoader(cases.Mixed(), **settings))
    settings["generator"].manual_seed(1)
    same(list(DataLoader(cases.Mixed(), num_workers=workers, **settings)), expected)


@pytest.mark.parametrize("method", METHODS)
def test_every_start_method_works(method):
    expected = list(DataLoader(cases.Mixed(), batch_size=4))
    loader = DataLoader(cases.Mixed(), 4, num_workers=1, multiprocessing_context=method)
    same(list(loader), expected)


@needs_fork
def test_a_context_may_be_given_as_an_object():
    context = multiprocessing.get_context("fork")
    loader = DataLoader(cases.Squares(6), 2, num_workers=1, multiprocessing_context=context)
    assert [b.tolist() for b in loader] == [[0, 1], [4, 9], [16, 25]]


@needs_fork
def test_forked_workers_need_no_pickling():
    class Local(torch.utils.data.Dataset):
        transform = staticmethod(lambda x: 10 * x)

        def __len__(self):
            return 3

        def __getitem__(self, i):
            return self.transform(i)

    loader = DataLoader(Local(), 3, num_workers=1, multiprocessing_context="fork")
    assert next(iter(loader)).tolist() == [0, 10, 20]


@pytest.mark.parametrize("collate_fn", [cases.as_dataclass, cases.as_given])
def test_a_collate_function_may_give_anything(collate_fn):
    expected = list(DataLoader(cases.Squares(5), 2, collate_fn=collate_fn))
    assert list(DataLoader(cases.Squares(5), 2, collate_fn=collate_fn, num_workers=2)) == expected


def test_tensors_of_every_kind_arrive_as_they_were():
    torch.manual_seed(0)
    loader = DataLoader(cases.Squares(1), collate_fn=cases.every_kind, num_workers=1)
    (got,) = loader
    expected = cases.every_kind(None)
    for name in expected:
        if name not in ("channels_last",):
            same(got[name], expected[name])
    assert got["tagged"].note == "kept"
    assert got["channels_last"].is_contiguous(memory_format=torch.channels_last)
    assert got["array"].flags.writeable
    assert got["leaf"].is_leaf and type(got["parameter"]) is torch.nn.Parameter


def test_views_of_one_tensor_still_share_its_memory():
    loader = DataLoader(cases.Squares(1), collate_fn=cases.every_kind, num_workers=1)
    (got,) = loader
    got["base"].fill_(3)
    assert got["transposed"].eq(3).all() and got["column"].eq(3).all() and got["step"].eq(3).all()
    assert got["base"].untyped_storage() == got["column"].untyped_storage()


def test_of_a_large_tensor_only_the_part_in_use_travels():
    loader = DataLoader(cases.Squares(1), collate_fn=cases.small_view, num_workers=1)
    ((a, b, c),) = loader
    assert a.tolist() == list(range(1000, 1010)) and b.tolist() == list(range(1005, 1015))
    assert c.tolist() == [500000]
    assert a.untyped_storage() == b.untyped_storage() != c.untyped_storage()
    assert a.untyped_storage().nbytes() == 60 and c.untyped_storage().nbytes() == 4


def test_samples_without_batching():
    loader = DataLoader(cases.Squares(5), batch_size=None, num_workers=2)
    assert list(loader) == [0, 1, 4, 9, 16]


def test_more_workers_than_batches():
    assert [b.tolist() for b in DataLoader(cases.Squares(3), 2, num_workers=3)] == [[0, 1], [4]]
    assert list(DataLoader(cases.Squares(0), 2, num_workers=2)) == []


def test_many_indices_and_long_answers_do_not_block_each_other():
    count = 150000  # more than a line between processes holds, in both directions
    order = [list(range(count))] * 5
    loader = DataLoader(
        cases.Squares(count), batch_sampler=order, collate_fn=cases.as_given, num_workers=2
    )
    assert [(len(b), b[-1]) for b in loader] == [(count, (count - 1) ** 2)] * 5


# -- memory ----------------------------------------------------------------------------------------


def blocks():
    """Mappings of shared memory in this process."""
    with open("/proc/self/maps") as file:
        return sum("/memfd:flambeau" in line for line in file)


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@needs_proc
def test_epochs_leave_nothing_behind():
    gc.collect()
    loader = DataLoader(cases.Squares(40, big=5000), 4, num_workers=2)
    list(loader)
    gc.collect()
    before, shm = (blocks(), descriptors()), cases.shm_files()
    for _ in range(3):
        for batch in loader:
            assert batch.is_shared()
    del batch
    gc.collect()
    assert (blocks(), descriptors()) == before
    assert cases.shm_files() == shm


@needs_proc
def test_blocks_are_used_again():
    before = blocks()
    loader = DataLoader(cases.Squares(400, big=3000), 4, num_workers=2)
    places, most = set(), 0
    for number, batch in enumerate(loader):
        assert batch[:, 0].tolist() == [4 * number + k for k in range(4)]
        places.add(batch.data_ptr())
        most = max(most, blocks())
    assert most - before <= 10 and len(places) <= 10


@needs_proc
def test_batches_that_are_kept_stay_as_they_are():
    before, open_before = blocks(), descriptors()
    batches = list(DataLoader(cases.Squares(600, big=1500), 4, num_workers=2))
    assert blocks() - before < 100 and descriptors() <= open_before + 4
    for number, batch in enumerate(batches):
        assert batch[:, 7].tolist() == [4 * number + k for k in range(4)]
    held = [batch.numpy()[1] for batch in batches]
    batches.clear()
    gc.collect()
    assert [row[3] for row in held] == [4 * number + 1 for number in range(150)]


def test_what_looks_at_a_batch_keeps_its_memory():
    loader = DataLoader(cases.Squares(80, big=3000), 2, num_workers=1)
    views = [(batch[1, 10:20], batch.numpy()[0]) for batch, _ in zip(loader, range(12))]
    for _ in DataLoader(cases.Squares(40, big=3000), 2, num_workers=1):
        pass
    for number, (tensor, array) in enumerate(views):
        assert tensor.eq(2 * number + 1).all() and (array == 2 * number).all()


def test_a_batch_of_growing_size():
    loader = DataLoader(
        cases.Squares(64),
        batch_sampler=[list(range(2**k)) for k in range(7)] * 2,
        collate_fn=lambda samples: torch.ones(len(samples), 4000),
        num_workers=1,
        multiprocessing_context="fork" if "fork" in METHODS else None,
    )
    assert [len(batch) for batch in loader if batch.eq(1).all()] == [2**k for k in range(7)] * 2


def test_without_shared_memory_batches_come_by_message():
    pytest.importorskip("resource")
    loader = DataLoader(
        cases.Squares(20, big=5000), 4, num_workers=2, worker_init_fn=cases.forbid_large_files
    )
    for number, batch in enumerate(loader):
        assert not batch.is_shared() and batch[:, 9].tolist() == [4 * number + k for k in range(4)]


def test_batches_may_be_written_and_trained_on():
    data = TensorDataset(torch.randn(64, 3), torch.randn(64, 1))
    layer = torch.nn.Linear(3, 1)
    for x, y in DataLoader(data, 16, num_workers=2):
        x.mul_(2)
        torch.nn.functional.mse_loss(layer(x), y).backward()
    assert layer.weight.grad.abs().sum() > 0


@needs_fork
def test_a_forked_child_keeps_the_batches_it_has_seen():
    loader = DataLoader(cases.Squares(60, big=3000), 2, num_workers=1, persistent_workers=True)
    iterator = iter(loader)
    batch = next(iterator)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(read, 1)  # until the parent has gone on
        os._exit(0 if batch[1].eq(1).all() else 1)
    del batch
    for _ in iterator:
        pass
    os.write(write, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(read)
    os.close(write)


@needs_fork
def test_an_iterator_is_of_no_use_in_a_forked_child():
    iterator = iter(DataLoader(cases.Squares(60), 2, num_workers=1))
    next(iterator)
    pid = os.fork()
    if pid == 0:
        try:
            for _ in iterator:
                pass
            os._exit(0)
        except Exception:
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert len(list(iterator)) == 29


# -- order, prefetching, persistence ---------------------------------------------------------------


def test_without_order_quick_batches_overtake():
    data = cases.Slow(0.6, length=12, only={0})
    loader = DataLoader(data, 1, num_workers=2, in_order=False)
    got = [batch.item() for batch in loader]
    assert sorted(got) == list(range(12)) and got[-2:] == [0, 2]  # one worker had both
    assert [b.item() for b in DataLoader(data, 1, num_workers=2)] == list(range(12))


@pytest.mark.parametrize("factor, workers", [(1, 1), (3, 1), (2, 2)])
def test_as_many_batches_as_asked_for_are_prepared(factor, workers):
    data = cases.Counting(40)
    iterator = iter(DataLoader(data, 2, num_workers=workers, prefetch_factor=factor))
    expected = 2 * factor * workers
    deadline = time.monotonic() + 20
    while data.count.sum() < expected and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    assert data.count.sum() == expected
    next(iterator)
    while data.count.sum() < expected + 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    assert data.count.sum() == expected + 2 and data.count.max() == 1


def pids(loader):
    return {row[1].item() for row in loader}


def test_persistent_workers_stay():
    loader = DataLoader(cases.Where(), num_workers=2, persistent_workers=True)
    first = pids(loader)
    assert len(first) == 2 and pids(loader) == first
    for _ in loader:
        break
    assert pids(loader) == first
    others = DataLoader(cases.Where(), num_workers=2)
    assert not pids(others) & pids(others)


def test_an_epoch_after_one_that_was_left_is_whole():
    loader = DataLoader(cases.Squares(30), 2, num_workers=2, persistent_workers=True)
    expected = [b.tolist() for b in DataLoader(cases.Squares(30), 2)]
    for stop in (1, 4, 30):
        for number, batch in enumerate(loader):
            assert batch.tolist() == expected[number]
            if number == stop:
                break
    assert [b.tolist() for b in loader] == expected


@pytest.mark.parametrize("persistent", [False, True])
def test_iterable_datasets_are_read_by_shares(persistent):
    loader = DataLoader(cases.Shards(11), 2, num_workers=2, persistent_workers=persistent)
    for _ in range(3 if persistent else 1):
        assert [b.tolist() for b in loader] == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9]]
    dropped = DataLoader(cases.Shards(11), 2, num_workers=2, drop_last=True)
    assert [b.tolist() for b in dropped] == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10]]


def test_workers_of_iterable_datasets_end_one_by_one():
    loader = DataLoader(cases.Shards(0, uneven=True), None, num_workers=3)
    assert list(loader) == [0, 100, 200, 101, 201, 102, 202, 203, 204]


# -- what a worker knows ---------------------------------------------------------------------------


def test_a_worker_knows_which_one_it_is():
    assert get_worker_info() is None
    generator = torch.Generator().manual_seed(5)
    seed = torch.empty((), dtype=torch.int64).random_(generator=generator).item()
    generator.manual_seed(5)
    rows = list(DataLoader(cases.Where(), num_workers=2, generator=generator))
    for number, row in enumerate(rows):
        index, pid, worker, workers, worker_seed, threads = (part.item() for part in row)
        assert (index, worker, workers, threads) == (number, number % 2, 2, 1)
        assert worker_seed == seed + worker and pid != os.getpid()


def test_worker_info_shows_its_parts():
    from flambeau.utils.data._utils.worker import WorkerInfo

    info = WorkerInfo(id=1, num_workers=2, seed=3, dataset="data")
    assert repr(info) == (
        "WorkerInfo(id=1, num_workers=2, seed=3, dataset='data', rng=None, "
        "worker_method='multiprocessing')"
    )
    with pytest.raises(AttributeError):
        info.id = 4


def test_worker_init_fn_runs_first():
    class Started(cases.Squares):
        def __getitem__(self, i):
            return self.started

    loader = DataLoader(
        Started(4), num_workers=2, worker_init_fn=cases.note_start, multiprocessing_context="fork"
    )
    assert [b.item() for b in loader] == [0, 1, 0, 1]


def test_pin_memory_without_an_accelerator_is_told():
    loader = DataLoader(cases.Squares(4), 2, num_workers=1, pin_memory=True)
    with pytest.warns(UserWarning, match="no accelerator is found"):
        assert [b.tolist() for b in loader] == [[0, 1], [4, 9]]


def test_the_length_of_an_iterator_is_that_of_its_loader():
    iterator = iter(DataLoader(cases.Squares(7), 2, num_workers=1))
    assert len(iterator) == 4
    with pytest.raises(NotImplementedError):
        iterator.__getstate__()


def test_two_iterators_of_one_loader_run_side_by_side():
    loader = DataLoader(cases.Squares(8), 2, num_workers=1)
    for a, b in zip(loader, loader):
        assert a.tolist() == b.tolist()


# -- resuming --------------------------------------------------------------------------------------


def rest(make, after):
    """(what follows the batch where the state was saved, what a new loader gives from there)"""
    torch.manual_seed(3)
    loader = make()
    iterator = iter(loader)
    for _ in range(after):
        next(iterator)
    state = loader.state_dict()
    expected = list(iterator) + list(loader)
    torch.manual_seed(99)
    other = make()
    other.load_state_dict(state)
    return expected, list(other) + list(other)


@pytest.mark.parametrize("after", [0, 1, 4, 6])
@pytest.mark.parametrize("persistent", [False, True])
def test_an_epoch_goes_on_where_it_was_saved(after, persistent):
    def make():
        return DataLoader(
            cases.Random(torch), 2, shuffle=True, num_workers=2, persistent_workers=persistent
        )

    expected, got = rest(make, after)
    same(got, expected)


@pytest.mark.parametrize("after", [0, 1, 3, 5])
def test_an_epoch_of_an_iterable_dataset_goes_on_where_it_was_saved(after):
    expected, got = rest(lambda: DataLoader(cases.Shards(17), 2, num_workers=2), after)
    same(got, expected)


def test_an_epoch_goes_on_with_another_number_of_workers():
    torch.manual_seed(3)
    loader = DataLoader(cases.Squares(20), 2, shuffle=True, num_workers=2)
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    state, expected = loader.state_dict(), [b.tolist() for b in iterator]
    for workers in (0, 1, 3):
        other = DataLoader(cases.Squares(20), 2, shuffle=True, num_workers=workers)
        other.load_state_dict(state)
        assert [b.tolist() for b in other] == expected


def test_without_order_nothing_is_lost_or_read_twice():
    def make():
        data = cases.Slow(0.4, length=16, only={0})
        return DataLoader(data, 1, shuffle=False, num_workers=2, in_order=False)

    loader = make()
    iterator = iter(loader)
    seen = [next(iterator).item() for _ in range(4)]
    assert 0 not in seen
    state = loader.state_dict()
    del iterator, loader
    other = make()
    other.load_state_dict(state)
    assert sorted(seen + [b.item() for b in other]) == list(range(16))
