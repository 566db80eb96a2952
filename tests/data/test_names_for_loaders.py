"""Names of `torch.utils.data` with which other packages, such as torchdata, build loaders."""

import os
import queue
import signal
import threading

import pytest

import flambeau
from flambeau._utils import ExceptionWrapper
from flambeau.utils.data import DataLoader, Dataset, _utils, get_worker_info
from flambeau.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _DatasetKind,
    _sharding_worker_init_fn,
)
from flambeau.utils.data.sampler import SequentialSampler


class Numbers(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return index


class Unpinnable:
    def pin_memory(self):
        raise ValueError("it cannot be")


class Iterator(_BaseDataLoaderIter):
    def __init__(self, loader):
        super().__init__(loader)
        self._fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, False
        )

    def _next_data(self):
        return self._fetcher.fetch(self._next_index())


class Loader(DataLoader):
    """A loader that sets what iterators ask for by itself."""

    def __init__(self, dataset):
        self.dataset, self._dataset_kind = dataset, _DatasetKind.Map
        self.sampler, self.batch_sampler = SequentialSampler(dataset), None
        self.num_workers = self.timeout = 0
        self.batch_size = self.generator = self._IterableDataset_len_called = None
        self.drop_last = self.pin_memory = self.persistent_workers = False
        self.pin_memory_device, self.collate_fn = "", lambda sample: sample * 10

    def __iter__(self):
        return Iterator(self)


def test_a_loader_may_go_without_the_constructor_of_its_base():
    loader = Loader(Numbers())
    assert list(loader) == [0, 10, 20] == list(loader)


def test_who_writes_what_a_worker_knows_is_heard():
    assert _utils.worker._worker_info is None
    info = _utils.worker.WorkerInfo(id=1, num_workers=2, seed=3, dataset=None)
    _utils.worker._worker_info = info
    try:
        assert get_worker_info() is info
    finally:
        _utils.worker._worker_info = None
    assert get_worker_info() is None


def test_names_of_workers():
    assert _utils.HAS_NUMPY and _utils.worker.ManagerWatchdog().is_alive()
    assert _utils.worker._ResumeIteration().seed is None
    assert _utils.worker._IterableDatasetStopIteration(2).worker_id == 2
    assert callable(_sharding_worker_init_fn)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_workers_that_die_are_told_of():
    told = _utils.signal_handling
    for end, text in ((3, "exited unexpectedly with exit code 3"), (-signal.SIGKILL, "Killed")):
        pid = os.fork()
        if not pid:
            os.kill(os.getpid(), -end) if end < 0 else os._exit(end)
        told._set_worker_pids(1, (pid,))
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(RuntimeError, match=rf"DataLoader worker \(pid {pid}\) .*{text}"):
            told._error_if_any_worker_fails()
        told._error_if_any_worker_fails()  # once
        told._remove_worker_pids(1)
        os.waitpid(pid, 0)


def test_a_thread_hands_batches_on():
    given, found, ended = queue.Queue(), queue.Queue(), threading.Event()
    lost = ExceptionWrapper((ValueError, ValueError("no"), None))
    for batch in ((0, ["a", 1]), (1, lost), (2, Unpinnable())):
        given.put(batch)
    threads = flambeau.get_num_threads()
    loop = threading.Thread(
        target=_utils.pin_memory._pin_memory_loop, args=(given, found, 0, ended, None)
    )
    loop.start()
    assert found.get(timeout=60) == (0, ["a", 1])
    assert found.get(timeout=60) == (1, lost)
    number, error = found.get(timeout=60)
    ended.set()
    given.put((3, None))  # wakes it up
    loop.join(60)
    assert number == 2 and flambeau.get_num_threads() == threads and not loop.is_alive()
    with pytest.raises(ValueError, match="Caught ValueError in pin memory thread for device 0"):
        error.reraise()


def test_vitals_are_gone():
    with pytest.warns(UserWarning, match="'set_vital' is deprecated, please do not call"):
        assert flambeau.set_vital("Dataloader", "enabled", "True") is None
