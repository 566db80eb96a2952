"""How processes meet: a URL leads to a store, a rank and the size of the world.

`tcp://host:port`, `file:///path` and `env://` (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE);
`register_rendezvous_handler` adds others. A launcher that serves a store itself says so in
TORCHELASTIC_USE_AGENT_STORE; then nobody else serves.
"""

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlencode, urlparse, urlunparse

from .constants import default_pg_timeout
from .stores import FileStore, PrefixStore, Store
from .tcp_store import TCPStore

__all__ = ["register_rendezvous_handler", "rendezvous"]

_handlers: dict[str, Callable] = {}


def register_rendezvous_handler(scheme: str, handler: Callable) -> None:
    """`scheme://...` leads to handler(url, timeout=...)."""
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Iterator:
    """An iterator of (store, rank, world_size); each further one is for a world made anew."""
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    if not isinstance(rank, int):
        raise RuntimeError(f"`rank` must be an integer. {rank}")
    if not isinstance(world_size, int):
        raise RuntimeError(f"`world_size` must be an integer. {world_size}")
    parts, options = _taken_apart(os.fsdecode(url))
    for name, value in (("rank", rank), ("world_size", world_size)):
        if value != -1:
            if name in options:
                raise AssertionError(
                    f"The url: {url!r} has node-specific arguments(rank, world_size) already."
                )
            options[name] = str(value)
    if parts.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    whole = urlunparse(parts._replace(query=urlencode(options)))
    return _handlers[parts.scheme](whole, **kwargs)


def _taken_apart(url):
    """A URL and the options behind its question mark."""
    parts = urlparse(url)
    return parts, {name: values[-1] for name, values in parse_qs(parts.query).items()}


def _missing(scheme, what):
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {what}")


def _number(scheme, options, name, text):
    if name not in options:
        raise _missing(scheme, text)
    return int(options[name])


def _tcp_store(host, port, rank, world_size, timeout):
    """The server is process 0, or the launcher where there is one; each attempt has its corner."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return PrefixStore(f"/worker/attempt_{attempt}", TCPStore(host, port, timeout=timeout))
    return TCPStore(host, port, world_size, rank == 0, timeout, multi_tenant=True)


def _tcp(url, timeout=default_pg_timeout, **_):
    parts, options = _taken_apart(url)
    if not parts.port:
        raise _missing("tcp", "port number missing")
    rank = _number("tcp", options, "rank", "rank parameter missing")
    world_size = _number("tcp", options, "world_size", "world size parameter missing")
    yield _tcp_store(parts.hostname, parts.port, rank, world_size, timeout), rank, world_size
    raise RuntimeError("Unable to perform re-rendezvous using tcp:// method")


def _file(url, timeout=default_pg_timeout, **_):
    parts, options = _taken_apart(url)
    path = parts.path
    if not path:
        raise _missing("file", "path missing")
    rank = _number("file", options, "rank", "rank parameter missing")
    world_size = _number("file", options, "world_size", "world size parameter missing")
    store = FileStore(path, world_size)
    store.set_timeout(timeout)
    yield store, rank, world_size
    raise RuntimeError("Unable to perform rerendezvous using file:// method")


def _env(
    url: str, timeout: timedelta = default_pg_timeout, **_: Any
) -> Iterator[tuple[Store, int, int]]:
    _, options = _taken_apart(url)

    def ask(name):
        value = os.environ.get(name)
        if value is None:
            raise _missing("env", f"environment variable {name} expected, but not set")
        return value

    rank = int(options["rank"] if "rank" in options else ask("RANK"))
    world_size = int(options["world_size"] if "world_size" in options else ask("WORLD_SIZE"))
    host, port = ask("MASTER_ADDR"), int(ask("MASTER_PORT"))
    yield _tcp_store(host, port, rank, world_size, timeout), rank, world_size
    raise RuntimeError("Unable to perform re-rendezvous using env:// method")


register_rendezvous_handler("tcp", _tcp)
register_rendezvous_handler("file", _file)
register_rendezvous_handler("env", _env)
