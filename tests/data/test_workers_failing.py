"""What goes wrong in workers: exceptions, processes that die, loaders that are left.

Nothing may hang, and nothing may stay behind. Whole programs that end in unusual ways are in
test_workers_ending.py.
"""

import gc
import multiprocessing
import os
import signal
import time

import pytest

import flambeau as torch
from flambeau.utils.data import DataLoader
from tests.data import worker_cases as cases

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="signals and processes of POSIX"),
]


@pytest.fixture(autouse=True)
def limited():
    with cases.limit(60):
        yield
    gc.collect()
    assert not multiprocessing.active_children(), "a worker was left behind"


def failing(how, **settings):
    """The batches before a failure, and the exception."""
    got = []
    with pytest.raises(Exception) as caught:
        for batch in DataLoader(
            cases.Failing(how), **{"batch_size": 2, "num_workers": 2, **settings}
        ):
            got.append(batch)
    return got, caught.value


# -- exceptions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how, kind, text",
    [
        ("value", ValueError, "invalid literal for int() with base 10: 'x'"),
        ("key", KeyError, "KeyError: 'abc'"),
        ("two parts", cases.TwoPartError, "TwoPartError: 7: seven"),
        ("unicode", UnicodeDecodeError, "can't decode byte 0xff"),
        ("local", RuntimeError, "LocalError: nobody else knows me"),
        ("os", FileNotFoundError, "No such file or directory: '/no/such/file'"),
    ],
)
def test_an_exception_arrives_with_its_type_and_traceback(how, kind, text):
    got, error = failing(how)
    assert [b.tolist() for b in got] == [[0, 1], [2, 3]]
    assert isinstance(error, kind)
    lines = str(error).splitlines()
    name = {"local": "LocalError"}.get(how, kind.__name__)
    assert lines[0] == f"Caught {name} in DataLoader worker process 0."
    assert lines[1] == "Original Traceback (most recent call last):"
    assert text in str(error) and "in __getitem__" in str(error)
    assert "sample 5 of Failing" in str(error)


def test_attributes_of_an_exception_arrive():
    _, error = failing("two parts")
    assert (error.code, error.detail) == (7, "seven")


def test_an_exception_under_spawn():
    _, error = failing("two parts", num_workers=1, multiprocessing_context="spawn")
    assert isinstance(error, cases.TwoPartError) and "sample 5" in str(error)


def test_a_batch_that_cannot_be_sent_is_an_error_not_a_hang():
    _, error = failing("unpicklable", collate_fn=cases.as_given)
    assert "Caught" in str(error) and "raised while a batch was pickled" in str(error)


def test_stop_iteration_of_a_sample_ends_the_epoch_as_in_pytorch():
    loader = DataLoader(cases.Failing("stop"), batch_size=2, num_workers=2)
    assert [b.tolist() for b in loader] == [[0, 1], [2, 3]]


@pytest.mark.oracle
@pytest.mark.parametrize("how", ["value", "key", "os"])
def test_messages_are_those_of_pytorch(how):
    wrapper = pytest.importorskip("torch._utils").ExceptionWrapper
    _, ours = failing(how)
    with pytest.raises(Exception) as caught:
        try:
            cases.FAILURES[how](5)
        except Exception:
            wrapper(where="in DataLoader worker process 0").reraise()
    assert type(ours) is caught.type
    theirs = str(caught.value).splitlines()
    assert str(ours).splitlines()[:2] == theirs[:2]
    assert theirs[-1] in str(ours).splitlines()


def test_after_an_exception_the_other_batches_follow():
    iterator = iter(DataLoader(cases.Failing("value"), 2, num_workers=2))
    got = []
    for _ in range(4):
        try:
            got.append(next(iterator).tolist())
        except ValueError:
            got.append("failed")
    assert got == [[0, 1], [2, 3], "failed", [6, 7]]
    with pytest.raises(StopIteration):
        next(iterator)


def test_an_exception_of_worker_init_fn_arrives():
    loader = DataLoader(cases.Squares(4), num_workers=2, worker_init_fn=cases.fail_to_start)
    with pytest.raises(ValueError, match="Caught ValueError in DataLoader worker process 0"):
        next(iter(loader))


def test_an_exception_of_collate_fn_arrives():
    def collate(samples):
        raise TypeError("cannot collate this")

    loader = DataLoader(
        cases.Squares(4), num_workers=1, collate_fn=collate, multiprocessing_context="fork"
    )
    with pytest.raises(TypeError, match="cannot collate this"):
        next(iter(loader))


def test_a_tensor_with_a_history_is_refused():
    def collate(samples):
        return torch.ones(2, requires_grad=True) * 2

    loader = DataLoader(
        cases.Squares(4), num_workers=1, collate_fn=collate, multiprocessing_context="fork"
    )
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        next(iter(loader))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_dataset_that_cannot_be_pickled_is_told_clearly(method):
    data = cases.Squares(4)
    data.transform = lambda x: x
    loader = DataLoader(data, num_workers=2, multiprocessing_context=method)
    with pytest.raises((AttributeError, TypeError, Exception)) as caught:
        iter(loader)
    assert "pickle" in str(caught.value).lower()
    assert "must be picklable: no lambdas" in "".join(caught.value.__notes__)


# -- processes that die ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how, story, cause",
    [
        ("kill", "was ended by SIGKILL", "is killed by signal: Killed."),
        ("segfault", "was ended by SIGSEGV", "is killed by signal: Segmentation fault."),
        ("exit", "ended with exit code 3", "exited unexpectedly with exit code 3."),
        ("exit 0", "ended with exit code 0", "exited unexpectedly with exit code 0."),
        ("sys.exit", "ended with exit code 4", "exited unexpectedly with exit code 4."),
    ],
)
@pytest.mark.parametrize("at", [1, 5])
def test_a_worker_that_dies_is_named(how, story, cause, at):
    start = time.monotonic()
    iterator = iter(DataLoader(cases.Failing(how, at=at), 2, num_workers=2))
    with pytest.raises(RuntimeError) as caught:
        list(iterator)
    assert time.monotonic() - start < 5
    first, second = str(caught.value).splitlines()
    pid = first.removeprefix("DataLoader worker (pid(s) ").removesuffix(") exited unexpectedly")
    assert pid.isdigit() and "worker 0 (Process-" in second and f"pid {pid}) {story}" in second
    assert str(caught.value.__cause__).startswith(f"DataLoader worker (pid {pid}) {cause}")
    with pytest.raises(RuntimeError, match="gone"):
        next(iterator)


def test_a_worker_that_is_killed_from_outside_is_named_within_seconds():
    iterator = iter(DataLoader(cases.Slow(30), num_workers=2))
    victim = iterator._crew.processes[1]
    time.sleep(0.2)
    os.kill(victim.pid, signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=rf"pid\(s\) {victim.pid}\) exited unexpectedly"):
        next(iterator)
    assert time.monotonic() - start < 4  # of which a second is patience with the other worker
    kill_lingering()


def kill_lingering():
    from flambeau.utils.data import worker_processes

    worker_processes._reap(at_exit=True)


def test_persistent_workers_are_replaced_after_a_loss():
    loader = DataLoader(cases.Squares(8), 2, num_workers=2, persistent_workers=True)
    expected = [b.tolist() for b in loader]
    for process in loader._iterator._crew.processes:
        process.kill()
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(loader)
    assert [b.tolist() for b in loader] == expected


def test_a_timeout_is_told():
    loader = DataLoader(cases.Slow(30), num_workers=1, timeout=0.3)
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"^DataLoader timed out after 0\.3 seconds$"):
        next(iter(loader))
    assert time.monotonic() - start < 5
    kill_lingering()


# -- loaders that are left -------------------------------------------------------------------------


def test_leaving_a_loop_ends_the_workers_at_once():
    start = time.monotonic()
    for _ in DataLoader(cases.Squares(1000), num_workers=2):
        break
    gc.collect()
    assert not multiprocessing.active_children() and time.monotonic() - start < 5


def test_a_busy_worker_does_not_hold_up_its_loader():
    iterator = iter(DataLoader(cases.Slow(30), num_workers=1))
    pid = iterator._crew.processes[0].pid
    time.sleep(0.1)
    start = time.monotonic()
    del iterator
    gc.collect()
    assert time.monotonic() - start < 3
    os.kill(pid, 0)  # it is still there, and ends itself soon
    kill_lingering()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
