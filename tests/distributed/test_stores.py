"""Stores and rendezvous, within one process."""

import threading
from datetime import timedelta

import pytest

import flambeau.distributed as dist

KINDS = ["hash", "file", "tcp", "prefix"]


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    made = {
        "hash": dist.HashStore,
        "file": lambda: dist.FileStore(str(tmp_path / "store"), 1),
        "tcp": lambda: dist.TCPStore("127.0.0.1", 0, 1, True),
        "prefix": lambda: dist.PrefixStore("p", dist.HashStore()),
    }[request.param]()
    made.set_timeout(timedelta(seconds=60))
    return made


def test_values(store):
    store.set("a", "x")
    assert store.get("a") == b"x"
    assert store.add("c", 3) == 3 and store.add("c", -1) == 2 and store.get("c") == b"2"
    assert store.check(["a"]) and not store.check(["a", "q"])
    assert [
        store.compare_set("a", "x", "y"),
        store.compare_set("a", "w", "z"),
        store.compare_set("n", "", "v"),
        store.compare_set("m", "e", "v"),
    ] == [b"y", b"y", b"v", b"e"]
    assert store.delete_key("a") and not store.delete_key("a")
    store.append("p", "1")
    store.append("p", "2")
    assert store.get("p") == b"12"
    store.multi_set(["k", "l"], ["1", "2"])
    assert store.multi_get(["k", "l"]) == [b"1", b"2"]
    store.set("b", b"\xff\x00 \n")
    assert store.get("b") == b"\xff\x00 \n"
    assert sorted(store.list_keys()) == ["b", "c", "k", "l", "n", "p"]
    store.barrier("here", 1)
    with pytest.raises(ValueError, match="stoll"):
        store.add("b", 1)


def test_what_is_not_there_is_waited_for(store):
    store.set_timeout(timedelta(seconds=0.2))
    with pytest.raises(RuntimeError, match=r"(?i)timeout"):
        store.get("missing")
    with pytest.raises(RuntimeError, match=r"(?i)timeout"):
        store.wait(["missing"], timedelta(seconds=0.05))
    store.set_timeout(timedelta(seconds=60))
    other = store.clone()
    timer = threading.Timer(0.05, lambda: other.set("later", "1"))
    timer.start()
    assert store.get("later") == b"1"
    timer.join()


def test_queues(store):
    if isinstance(store, dist.FileStore):
        with pytest.raises(NotImplementedError):
            store.queue_push("q", "1")
        return
    store.queue_push("q", "1")
    store.queue_push("q", "2")
    assert store.queue_len("q") == 2
    assert [store.queue_pop("q"), store.queue_pop("q", False)] == [b"1", b"2"]
    with pytest.raises(dist.QueueEmptyError, match="queue is empty"):
        store.queue_pop("q", False)


def test_a_port_that_is_taken():
    server = dist.TCPStore("127.0.0.1", 0, 1, True)
    with pytest.raises(dist.DistNetworkError, match="failed to listen on any local"):
        dist.TCPStore("127.0.0.1", server.port, 1, True)


def test_who_does_not_come():
    with pytest.raises(dist.DistStoreError, match=r"waiting for clients. 1/2 clients joined."):
        dist.TCPStore("127.0.0.1", 0, 2, True, timedelta(seconds=1))
    with pytest.raises(dist.DistNetworkError, match="The client socket has timed out after 100ms"):
        dist.TCPStore("127.0.0.1", 1, 2, False, timedelta(seconds=0.1))


REFUSALS = [
    ({"init_method": "tcp://127.0.0.1:29778"}, ValueError, "rank parameter missing"),
    ({"init_method": "tcp://127.0.0.1", "rank": 0, "world_size": 1}, ValueError, "port number mis"),
    ({"init_method": "foo://x", "rank": 0, "world_size": 1}, RuntimeError, "No rendezvous handler"),
    ({}, ValueError, "environment variable RANK expected, but not set"),
    ({"backend": "nccl", "init_method": "tcp://x:1"}, RuntimeError, "doesn't have NCCL built in"),
    ({"backend": "foo", "init_method": "tcp://x:1"}, AssertionError, "Unknown backend type foo"),
    ({"timeout": 3}, TypeError, "Expected timeout argument to be of type datetime.timedelta"),
    ({"store": 1, "init_method": "tcp://x"}, AssertionError, "Cannot specify both"),
    ({"store": 1}, AssertionError, "world_size must be positive if using store"),
]


@pytest.mark.parametrize("options, kind, text", REFUSALS)
def test_what_init_process_group_refuses(monkeypatch, options, kind, text):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(kind, match=text):
        dist.init_process_group(**{"backend": "gloo", **options})


def test_without_a_group():
    for call in (dist.get_rank, dist.get_world_size, dist.barrier, dist.new_group):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            call()
    with pytest.raises(AssertionError, match="Process group cannot be None"):
        dist.destroy_process_group()
