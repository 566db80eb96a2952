"""TCPStore: one process serves, all others ask over a socket.

The server is a HashStore with a thread per connection. Questions and answers are frames: a count of
fields, then each field with its length before it; nothing is ever unpickled. A client that waits
for a key waits on the server, so the answer comes as soon as the key does.
"""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from .constants import STORE_TIMEOUT
from .errors import DistNetworkError, DistStoreError, QueueEmptyError
from .stores import HashStore, Store, as_bytes

__all__ = ["TCPStore"]

LARGEST = 1 << 30  # of a frame's field: more is no store's business


def send_frame(sock, fields):
    parts = [struct.pack("<I", len(fields))]
    for field in fields:
        parts += (struct.pack("<I", len(field)), field)
    sock.sendall(b"".join(parts))


def read_exactly(sock, count):
    data = bytearray()
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise DistNetworkError(
                "Failed to recv, got 0 bytes. Connection was likely closed. "
                "Did the remote server shutdown or crash?"
            )
        data += piece
    return bytes(data)


def read_number(sock):
    (number,) = struct.unpack("<I", read_exactly(sock, 4))
    if number > LARGEST:
        raise DistNetworkError("Failed to recv: this is no store's answer")
    return number


def read_frame(sock):
    return [read_exactly(sock, read_number(sock)) for _ in range(read_number(sock))]


class Server:
    """Serves a HashStore until it is closed."""

    def __init__(self, host, port, listen_fd=None):
        self.store = HashStore()
        self.store.set_timeout(timedelta(days=1))
        self.connections: set = set()
        if listen_fd is not None:
            self.socket = socket.socket(fileno=listen_fd)
        else:
            self.socket = listening(port)
        self.socket.listen(1024)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, name="store server", daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return  # closed
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections.add(connection)
            threading.Thread(
                target=self.serve, args=(connection,), name="store client", daemon=True
            ).start()

    def serve(self, connection):
        with contextlib.suppress(DistNetworkError, OSError):
            while True:
                command, *fields = read_frame(connection)
                try:
                    answer = [b"ok", *getattr(self, "do_" + command.decode())(*fields)]
                except Exception as error:
                    answer = [type(error).__name__.encode(), str(error).encode()]
                send_frame(connection, answer)
        self.connections.discard(connection)
        connection.close()

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept
        self.socket.close()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    # -- commands: fields in, fields out ---------------------------------------------------------
    def do_set(self, key, value):
        self.store.set(key.decode(), value)
        return ()

    def do_peek(self, key):
        value = self.store._peek(key.decode())
        return () if value is None else (value,)

    def do_wait(self, seconds, *keys):
        names = tuple(key.decode() for key in keys)
        self.store._wait_for(names, float(seconds))
        return [self.store._peek(name) or b"" for name in names]

    def do_check(self, *keys):
        return (b"1",) if self.store.check([key.decode() for key in keys]) else ()

    def do_add(self, key, amount):
        return (str(self.store.add(key.decode(), int(amount))).encode(),)

    def do_append(self, key, value):
        self.store.append(key.decode(), value)
        return ()

    def do_compare(self, key, expected, desired):
        return (self.store.compare_set(key.decode(), expected, desired),)

    def do_delete(self, key):
        return (b"1",) if self.store.delete_key(key.decode()) else ()

    def do_keys(self):
        return [name.encode() for name in self.store.list_keys()]

    def do_push(self, key, value):
        self.store.queue_push(key.decode(), value)
        return ()

    def do_pop(self, key):
        return (self.store.queue_pop(key.decode(), False),)

    def do_length(self, key):
        return (str(self.store.queue_len(key.decode())).encode(),)


def listening(port):
    """A socket on every address of this machine."""
    try:
        sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        everywhere = "::"
    except OSError:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        everywhere = ""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((everywhere, port))
    except OSError as error:
        sock.close()
        if everywhere and error.errno != 98:  # no IPv6 here after all
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("", port))
            return sock
        raise DistNetworkError(
            "The server socket has failed to listen on any local network address. "
            f"port: {port}, useIpv6: false, code: -{error.errno}, name: EADDRINUSE, "
            "message: address already in use"
        ) from None
    return sock


def connect(host, port, seconds):
    """A connection to a server that may not be there yet."""
    deadline, pause = time.monotonic() + seconds, 0.005
    while True:
        try:
            sock = socket.create_connection((host, port), max(0.05, min(seconds, 10)))
            sock.settimeout(None)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except (OSError, OverflowError):
            if time.monotonic() + pause >= deadline:
                raise DistNetworkError(
                    f"The client socket has timed out after {seconds * 1e3:.0f}ms while trying to "
                    f"connect to ({host}, {port})."
                ) from None
            time.sleep(pause)
            pause = min(pause * 2, 0.25)


class TCPStore(Store):
    """A store that one process serves over the network.

    Args:
        host_name: where the server is.
        port: of the server; 0 lets the server choose one.
        world_size: how many processes will use it; the server waits for them.
        is_master: does this process serve?
        timeout: of every wait.
        wait_for_workers: whether the server waits for all of world_size.
        multi_tenant: share a server of this process that has the same port.
        master_listen_fd: a socket that listens already.

    Example:
        >>> from flambeau.distributed import TCPStore
        >>> server = TCPStore("localhost", 0, is_master=True)
        >>> client = TCPStore("localhost", server.port)
        >>> server.set("greeting", "hello")
        >>> client.get("greeting")
        b'hello'
    """

    _servers: dict[int, Server] = {}  # of this process, for multi_tenant

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = STORE_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        self._timeout, self.host = timeout, host_name
        self._server: Server | None = None
        self._socket: Any = None
        self._shares = multi_tenant
        if is_master:
            if multi_tenant and port in self._servers:
                self._server = self._servers[port]
            else:
                self._server = Server(host_name, port, master_listen_fd)
            port = self._server.port
            if multi_tenant:
                self._servers[port] = self._server
        self.port = port
        self._lock = threading.Lock()
        self._socket = connect(host_name, port, timeout.total_seconds())
        if world_size is not None and world_size > 0 and wait_for_workers:
            self._join(world_size, is_master)

    def _join(self, world_size, is_master):
        joined = self.add("flambeau/joined", 1)
        seconds = self.timeout.total_seconds()
        deadline = time.monotonic() + seconds
        while is_master and joined < world_size:
            if time.monotonic() > deadline:
                raise DistStoreError(
                    f"Timed out after {seconds + 1:.0f} seconds waiting for clients. "
                    f"{joined}/{world_size} clients joined."
                )
            time.sleep(0.002)
            joined = self.add("flambeau/joined", 0)

    def _ask(self, command, *fields):
        with self._lock:
            try:
                send_frame(self._socket, [command.encode(), *fields])
                status, *answer = read_frame(self._socket)
            except OSError as error:
                raise DistNetworkError(f"The store's server cannot be reached: {error}") from None
        if status == b"ok":
            return answer
        text = answer[0].decode()
        for kind in (DistStoreError, QueueEmptyError, ValueError):
            if kind.__name__.encode() == status:
                raise kind(text)
        raise DistNetworkError(f"The store's server failed: {status.decode()}: {text}")

    def set(self, key: str, value: Any) -> None:
        self._ask("set", key.encode(), as_bytes(value))

    def _peek(self, key):
        answer = self._ask("peek", key.encode())
        return answer[0] if answer else None

    def get(self, key: str) -> bytes:
        return self._wait_for((key,), self.timeout.total_seconds())[0]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return self._wait_for(tuple(keys), self.timeout.total_seconds())

    def _wait_for(self, keys, seconds):
        try:
            return self._ask("wait", str(seconds).encode(), *(key.encode() for key in keys))
        except DistStoreError:
            names = ", ".join("/" + key for key in keys)
            raise DistStoreError(
                f"wait timeout after {seconds * 1e3:.0f}ms, keys: {names}"
            ) from None

    def check(self, keys: Sequence[str]) -> bool:
        return bool(self._ask("check", *(key.encode() for key in keys)))

    def add(self, key: str, amount: int) -> int:
        return int(self._ask("add", key.encode(), str(amount).encode())[0])

    def append(self, key: str, value: Any) -> None:
        self._ask("append", key.encode(), as_bytes(value))

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Write desired_value if expected_value is there; what is there afterwards."""
        return self._ask(
            "compare", key.encode(), as_bytes(expected_value), as_bytes(desired_value)
        )[0]

    def delete_key(self, key: str) -> bool:
        """Forget a key; was it there?"""
        return bool(self._ask("delete", key.encode()))

    def num_keys(self) -> int:
        """How many keys there are."""
        return len(self._ask("keys"))

    def list_keys(self) -> list[str]:
        """All keys but those of the store itself."""
        names = [name.decode() for name in self._ask("keys")]
        return [name for name in names if not name.startswith("flambeau/")]

    def queue_push(self, key: str, value: Any) -> None:
        self._ask("push", key.encode(), as_bytes(value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        if block:
            self._wait_for((key,), self.timeout.total_seconds())
        return self._ask("pop", key.encode())[0]

    def queue_len(self, key: str) -> int:
        return int(self._ask("length", key.encode())[0])

    def clone(self) -> "TCPStore":
        """The same server, by another connection."""
        return TCPStore(self.host, self.port, timeout=self.timeout)

    def __del__(self) -> None:
        """The connection ends with its object, and so does a server of its own."""
        if self._socket is not None:
            self._socket.close()
        if self._server is not None and not self._shares:
            self._server.close()

    @property
    def libuvBackend(self) -> bool:
        """Is the server PyTorch's newer one? It is ours."""
        return False

    def __repr__(self) -> str:
        serves = "" if self._server is None else ", serving"
        return f"TCPStore({self.host}:{self.port}{serves})"
