"""Stores: small values under names, by which processes find each other.

`Store` says what a store can do, in terms of a few methods that each kind has. `HashStore` lives in
one process; `FileStore` in a file that all can lock; `PrefixStore` is a corner of another store.
`TCPStore` has a file of its own.
"""

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from .constants import STORE_TIMEOUT
from .errors import DistStoreError, QueueEmptyError

__all__ = ["Store", "HashStore", "FileStore", "PrefixStore", "as_bytes"]


def as_bytes(value: Any) -> bytes:
    """Text or bytes, as bytes."""
    return value.encode() if isinstance(value, str) else bytes(value)


def as_number(value: bytes) -> int:
    try:
        return int(value)
    except ValueError:
        raise ValueError("stoll") from None  # what PyTorch says


class Store:
    """Keys and values that several processes read and write.

    A kind of store has `set`, `add`, `compare_set`, `delete_key`, `num_keys`, `list_keys`, `check`
    and `_peek` (a value or None, without waiting); the rest follows.
    """

    def __init__(self) -> None:
        self._timeout = STORE_TIMEOUT

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """From now on wait so long."""
        self._timeout = timeout

    def set(self, key: str, value: Any) -> None:
        """Write a value."""
        raise NotImplementedError

    def _peek(self, key: str) -> bytes | None:
        raise NotImplementedError

    def get(self, key: str) -> bytes:
        """The value of a key, as soon as it has one."""
        self._wait_for((key,), self.timeout.total_seconds())
        value = self._peek(key)
        assert value is not None
        return value

    def check(self, keys: Sequence[str]) -> bool:
        """Do all of these have values?"""
        return all(self._peek(key) is not None for key in keys)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Until all of these have values."""
        self._wait_for(tuple(keys), (timeout or self.timeout).total_seconds())

    def _wait_for(self, keys, seconds):
        deadline, pause = time.monotonic() + seconds, 0.0005
        while not self.check(keys):
            if time.monotonic() >= deadline:
                raise self._late(keys, seconds)
            time.sleep(pause)
            pause = min(pause * 2, 0.02)

    def _late(self, keys, seconds):
        return DistStoreError("Wait timeout")

    def add(self, key: str, amount: int) -> int:
        """Add to a number and return it; it begins at 0."""
        raise NotImplementedError

    def append(self, key: str, value: Any) -> None:
        """Write behind what is there."""
        self.set(key, (self._peek(key) or b"") + as_bytes(value))

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Several values."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Several values at once."""
        for key, value in zip(keys, values):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Are append, multi_get and multi_set done in one go?"""
        return True

    def queue_push(self, key: str, value: Any) -> None:
        """Put a value at the end of a queue."""
        raise NotImplementedError("queue support is not implemented.")

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value of a queue."""
        raise NotImplementedError("queue support is not implemented.")

    def queue_len(self, key: str) -> int:
        """How many values a queue holds."""
        raise NotImplementedError("queue support is not implemented.")

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Until world_size callers are here."""
        if self.add(f"{key}/count", 1) == world_size:
            self.set(f"{key}/done", b"1")
        self.wait([f"{key}/done"], timeout)


class HashStore(Store):
    """A store within this process, for its threads.

    Example:
        >>> from flambeau.distributed import HashStore
        >>> store = HashStore()
        >>> store.set("answer", "42")
        >>> store.get("answer"), store.add("answer", 1)
        (b'42', 43)
    """

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[str, bytes] = {}
        self._queues: dict[str, list[bytes]] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: Any) -> None:
        with self._changed:
            self._values[key] = as_bytes(value)
            self._changed.notify_all()

    def _peek(self, key):
        return self._values.get(key)

    def _wait_for(self, keys, seconds):
        with self._changed:
            if not self._changed.wait_for(lambda: self.check(keys), seconds):
                raise self._late(keys, seconds)

    def check(self, keys: Sequence[str]) -> bool:
        return all(key in self._values or key in self._queues for key in keys)

    def add(self, key: str, amount: int) -> int:
        with self._changed:
            total = as_number(self._values.get(key, b"0")) + amount
            self.set(key, str(total))
            return total

    def append(self, key: str, value: Any) -> None:
        with self._changed:
            super().append(key, value)

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Write desired_value if expected_value is there; what is there afterwards."""
        with self._changed:
            expected, now = as_bytes(expected_value), self._values.get(key)
            if now is None and expected:
                return expected
            if now is None or now == expected:
                self.set(key, desired_value)
            return self._values[key]

    def delete_key(self, key: str) -> bool:
        """Forget a key; was it there?"""
        with self._changed:
            return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        """How many keys there are."""
        return len(self._values)

    def list_keys(self) -> list[str]:
        """All keys."""
        with self._changed:
            return list(self._values)

    def clone(self) -> "Store":
        """The same values, by another object."""
        return self

    def queue_push(self, key: str, value: Any) -> None:
        with self._changed:
            self._queues.setdefault(key, []).append(as_bytes(value))
            self._changed.notify_all()

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        with self._changed:
            if block:
                self._wait_for((key,), self.timeout.total_seconds())
            if key not in self._queues:
                raise QueueEmptyError("queue is empty")
            queue = self._queues[key]
            value = queue.pop(0)
            if not queue:
                del self._queues[key]
            return value

    def queue_len(self, key: str) -> int:
        return len(self._queues.get(key, ()))


class FileStore(Store):
    """A store in a file: every change is a line at its end, written under a lock.

    The file goes when as many processes as world_size have let go of it.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = os.fspath(file_name)
        self._world_size = world_size
        self._values: dict[str, bytes] = {}
        self._read = 0
        self._own = threading.RLock()

    @contextlib.contextmanager
    def _locked(self):
        import fcntl  # not on Windows

        with self._own, open(self.path, "a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self._catch_up(file)
            yield file

    def _catch_up(self, file):
        """Apply what others have written since."""
        file.seek(self._read)
        for line in file.read().splitlines():
            key, _, value = line.partition(b" ")
            name = bytes.fromhex(key.decode()).decode()
            if value == b"-":
                self._values.pop(name, None)
            else:
                self._values[name] = bytes.fromhex(value[1:].decode())
        self._read = file.tell()

    def _write(self, file, key, value):
        """value None: the key is gone."""
        text = "-" if value is None else "=" + value.hex()
        file.write(f"{key.encode().hex()} {text}\n".encode())
        file.flush()
        self._catch_up(file)

    def set(self, key: str, value: Any) -> None:
        with self._locked() as file:
            self._write(file, key, as_bytes(value))

    def _peek(self, key):
        with self._locked():
            return self._values.get(key)

    def _late(self, keys, seconds):
        if len(keys) == 1:
            return RuntimeError(f"Timeout waiting for key: {keys[0]} after {seconds * 1e3:.0f} ms")
        return RuntimeError("Wait timeout")

    def add(self, key: str, amount: int) -> int:
        with self._locked() as file:
            total = as_number(self._values.get(key, b"0")) + amount
            self._write(file, key, str(total).encode())
            return total

    def append(self, key: str, value: Any) -> None:
        with self._locked() as file:
            self._write(file, key, self._values.get(key, b"") + as_bytes(value))

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Write desired_value if expected_value is there; what is there afterwards."""
        with self._locked() as file:
            expected, now = as_bytes(expected_value), self._values.get(key)
            if now is None and expected:
                return expected
            if now is None or now == expected:
                self._write(file, key, as_bytes(desired_value))
            return self._values[key]

    def delete_key(self, key: str) -> bool:
        """Forget a key; was it there?"""
        with self._locked() as file:
            there = key in self._values
            if there:
                self._write(file, key, None)
            return there

    def num_keys(self) -> int:
        """How many keys there are."""
        with self._locked():
            return len(self._values)

    def list_keys(self) -> list[str]:
        """All keys."""
        with self._locked():
            return list(self._values)

    def has_extended_api(self) -> bool:
        return False

    def clone(self) -> "FileStore":
        """The same file, by another object."""
        return FileStore(self.path)

    def leave(self) -> None:
        """This process needs the file no more; the last one removes it."""
        if self._world_size > 0:
            with contextlib.suppress(OSError):
                if self.add("flambeau/left", 1) >= self._world_size:
                    os.unlink(self.path)
            self._world_size = -1


class PrefixStore(Store):
    """Another store, with something before each key."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self.prefix, self._store = prefix, store

    @property
    def underlying_store(self) -> Store:
        """The store behind this one."""
        return self._store

    @property
    def _underlying_non_prefix_store(self) -> Store:
        store: Any = self._store
        while isinstance(store, PrefixStore):
            store = store._store
        return store

    @property
    def timeout(self) -> timedelta:
        return self._store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        self._store.set_timeout(timeout)

    def _key(self, key):
        return f"{self.prefix}/{key}"

    def _keys(self, keys):
        return [self._key(key) for key in keys]

    def set(self, key: str, value: Any) -> None:
        self._store.set(self._key(key), value)

    def _peek(self, key):
        return self._store._peek(self._key(key))

    def get(self, key: str) -> bytes:
        return self._store.get(self._key(key))

    def check(self, keys: Sequence[str]) -> bool:
        return self._store.check(self._keys(keys))

    def _wait_for(self, keys, seconds):
        self._store._wait_for(tuple(self._keys(keys)), seconds)

    def add(self, key: str, amount: int) -> int:
        return self._store.add(self._key(key), amount)

    def append(self, key: str, value: Any) -> None:
        self._store.append(self._key(key), value)

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Write desired_value if expected_value is there; what is there afterwards."""
        return self._store.compare_set(self._key(key), expected_value, desired_value)  # type: ignore[attr-defined]

    def delete_key(self, key: str) -> bool:
        """Forget a key; was it there?"""
        return self._store.delete_key(self._key(key))  # type: ignore[attr-defined]

    def num_keys(self) -> int:
        """How many keys the store behind has."""
        return self._store.num_keys()  # type: ignore[attr-defined]

    def list_keys(self) -> list[str]:
        """All keys under this prefix."""
        start = self.prefix + "/"
        names = self._store.list_keys()  # type: ignore[attr-defined]
        return [name[len(start) :] for name in names if name.startswith(start)]

    def has_extended_api(self) -> bool:
        return self._store.has_extended_api()

    def clone(self) -> "PrefixStore":
        """The same corner, by another object."""
        return PrefixStore(self.prefix, self._store.clone())  # type: ignore[attr-defined]

    def queue_push(self, key: str, value: Any) -> None:
        self._store.queue_push(self._key(key), value)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        return self._store.queue_pop(self._key(key), block)

    def queue_len(self, key: str) -> int:
        return self._store.queue_len(self._key(key))
