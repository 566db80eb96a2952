"""Bring a file from an address to a path: the one downloader, for weights and for datasets.

The bytes go to `<path>.partial` first and take the final name when they are complete and checked,
so a path either holds the whole file or what it held before. A broken connection is picked up
where it broke; a partial file of an earlier call too, when the server can tell that the file is
still the same one (`If-Range`). Where files belong and which ones there are is said elsewhere.

    transfer(["https://mirror/a.gz", "https://other/a.gz"], path, Expected(md5="..."))
"""

import contextlib
import errno
import hashlib
import http.client
import importlib
import json
import os
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

PIECE = 1 << 17
TIMEOUT = 30.0  # seconds without a byte
ATTEMPTS = 5  # without a single byte more in between
FROM_THE_START = 3  # attempts where a server sends whole files only, or says that it is busy
PAUSE = 1.0  # seconds before a busy server is asked again; twice as long the next time
_BUSY = {429, 500, 502, 503, 504}

fcntl: Any
try:
    fcntl = importlib.import_module("fcntl")
except ImportError:  # pragma: no cover - Windows
    fcntl = None


class Expected(NamedTuple):
    """What is known of a file beforehand; a prefix of the SHA-256 will do."""

    sha256: str | None = None
    md5: str | None = None
    size: int | None = None


NOTHING_KNOWN = Expected()


class DownloadError(URLError):
    """No address gave the file; the message says which ones, why, and where to put it by hand."""

    def __str__(self) -> str:
        return str(self.reason)


class WrongContent(RuntimeError):
    """A file came, but it is not the one that was promised."""


class _Broken(Exception):
    """The connection ended before the file did."""


def transfer(
    addresses: str | Sequence[str],
    path: str | os.PathLike[str],
    expected: Expected = NOTHING_KNOWN,
    *,
    progress: bool = True,
    user_agent: str = "flambeau",
    timeout: float = TIMEOUT,
) -> None:
    """Download a file from the first address that has it, and put it at `path` when it is right.

    Raises:
        HTTPError, DownloadError: no address could be read (the last address decides which).
        WrongContent: what came does not match `expected`; nothing is left at `path`.
    """
    urls = [addresses] if isinstance(addresses, str) else list(addresses)
    target = os.path.abspath(os.path.expanduser(os.fspath(path)))
    failures: list[tuple[str, Exception]] = []
    for url in urls:
        try:
            with _partial_file(target) as part:
                _fetch(url, part, expected, progress, user_agent, timeout)
                part.check(expected)
                part.take_its_place(target)
            return
        except (URLError, WrongContent, TimeoutError, ConnectionError, _Broken) as error:
            if isinstance(error, HTTPError):
                error.close()  # its page is of no use
            failures.append((url, error))
    raise _explained(failures, target)


def digest(path: str | os.PathLike[str], algorithm: str = "sha256") -> str:
    """The hexadecimal checksum of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: _hash(algorithm)).hexdigest()


def matches(path: str | os.PathLike[str], expected: Expected) -> bool:
    """Is there a file at this path, with the size and the checksums that are known?"""
    if not os.path.isfile(path):
        return False
    return not _difference(path, expected)


def _hash(algorithm: str) -> Any:
    return hashlib.new(algorithm, usedforsecurity=False)


def _difference(path: str | os.PathLike[str], expected: Expected) -> str:
    size = os.path.getsize(path)
    if expected.size is not None and size != expected.size:
        return f"invalid size (expected {expected.size} bytes, got {size})"
    for algorithm in ("sha256", "md5"):
        wanted = getattr(expected, algorithm)
        if wanted and not (found := digest(path, algorithm)).startswith(wanted.lower()):
            return f'invalid hash value (expected "{wanted}", got "{found}")'
    return ""


# -- the partial file ------------------------------------------------------------------------------


class _Partial:
    """An open `<path>.partial`, and a note beside it that says what the bytes are the start of."""

    def __init__(self, file: BinaryIO, lasting: bool) -> None:
        self.file = file
        self.path = file.name
        self.note_path = self.path + ".source"
        self.lasting = lasting  # later calls look for it under this name
        self.keep = self.placed = False
        self.note = self._read_note()

    def _read_note(self) -> dict[str, str]:
        try:
            with open(self.note_path, encoding="utf-8") as note:
                found = json.load(note)
            return {"url": str(found["url"]), "validator": str(found["validator"])}
        except (OSError, ValueError, TypeError, KeyError):
            return {}

    def size(self) -> int:
        return self.file.seek(0, os.SEEK_END)

    def restart(self) -> None:
        self.file.seek(0)
        self.file.truncate()

    def comes_from(self, url: str, validator: str | None) -> None:
        """Remember what a later call has to ask for to go on."""
        self.note = {"url": url, "validator": validator} if validator else {}
        if self.note:
            with open(self.note_path, "w", encoding="utf-8") as note:
                json.dump(self.note, note)
        self.keep = self.lasting and bool(self.note)

    def check(self, expected: Expected) -> None:
        self.file.flush()
        self.keep = False
        if difference := _difference(self.path, expected):
            raise WrongContent(difference)

    def take_its_place(self, target: str) -> None:
        os.fsync(self.file.fileno())
        self._forget(self.note_path)
        if fcntl is None:  # pragma: no cover - an open file cannot be renamed on Windows
            self.file.close()
        os.replace(self.path, target)
        self.placed = True  # the old name may belong to somebody else from now on

    def leave(self) -> None:
        if not self.placed and not (self.keep and self.size() > 0):
            if fcntl is None:  # pragma: no cover - nor can it be removed
                self.file.close()
            # while the file is locked: afterwards another process may have made its own
            self._forget(self.path, self.note_path)
        self.file.close()

    @staticmethod
    def _forget(*paths: str) -> None:
        for path in paths:
            with contextlib.suppress(OSError):
                os.unlink(path)


@contextlib.contextmanager
def _partial_file(target: str) -> Iterator[_Partial]:
    file = _open_alone(target)
    part = _Partial(file, lasting=file.name == target + ".partial")
    try:
        yield part
    except OSError as error:
        if error.errno == errno.ENOSPC:
            part.keep = False
            why = "No space left on device, while downloading this file"
            raise OSError(errno.ENOSPC, why, target) from error
        raise
    finally:
        part.leave()


def _open_alone(target: str) -> BinaryIO:
    """Open the partial file; one of a name of its own if another process is writing to it."""
    while True:
        try:
            file = open(target + ".partial", "a+b")  # noqa: SIM115 - the caller closes it
        except OSError as error:
            folder = os.path.dirname(target)
            raise type(error)(error.errno, f"{error.strerror}; cannot write to", folder) from None
        if fcntl is None:  # pragma: no cover - Windows
            return file
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return open(f"{target}.{secrets.token_hex(6)}.partial", "x+b")
        # between open and flock the other process may have given this very file its final name
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(file.name), os.fstat(file.fileno())):
                return file
        file.close()


# -- the connection --------------------------------------------------------------------------------


def _fetch(
    url: str,
    part: _Partial,
    expected: Expected,
    progress: bool,
    user_agent: str,
    timeout: float,
) -> None:
    """Fill the partial file, coming back as long as every attempt brings something."""
    have = part.size()
    if part.note.get("url") != url:
        part.restart()
        have = 0
    failed = busy = anew = 0
    while True:
        try:
            return _read_rest(url, part, expected, progress, user_agent, timeout)
        except HTTPError as error:
            busy += 1
            if error.code not in _BUSY or busy == FROM_THE_START:
                raise
            error.close()
            time.sleep(PAUSE * 2 ** (busy - 1))
        except (_Broken, TimeoutError, ConnectionError, http.client.HTTPException) as error:
            size = part.size()
            failed = 0 if size > have else failed + 1
            have = size
            if not part.note:
                anew += 1
                part.restart()
                have = 0
            if failed == ATTEMPTS or anew == FROM_THE_START:
                reason = str(error) or type(error).__name__
                raise DownloadError(f"{reason}, after {size} bytes") from error


def _read_rest(
    url: str,
    part: _Partial,
    expected: Expected,
    progress: bool,
    user_agent: str,
    timeout: float,
) -> None:
    start = part.size()
    headers = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": part.note["validator"]}
    try:
        response = urlopen(Request(url, headers=headers), timeout=timeout)
    except HTTPError as error:
        if error.code != 416 or not start:  # asked for a part beyond the end
            raise
        error.close()
        part.restart()
        return _read_rest(url, part, expected, progress, user_agent, timeout)
    with response:
        if start and not _continues(response, start):
            part.restart()
            start = 0
        if not start:
            part.comes_from(url, _validator(response))
        total = _length(response, start)
        if expected.size is not None and total not in (None, expected.size):
            part.keep = False
            raise WrongContent(f"invalid size (expected {expected.size} bytes, got {total})")
        _copy(response, part, start, total, expected.size, progress)


def _copy(
    response: Any, part: _Partial, start: int, total: int | None, most: int | None, progress: bool
) -> None:
    done = start
    with progress_bar(total, start, progress) as bar:
        while piece := response.read(PIECE):
            part.file.write(piece)
            done += len(piece)
            if most is not None and done > most:
                part.keep = False
                raise WrongContent(f"invalid size (expected {most} bytes, got more)")
            bar.update(len(piece))
    part.file.flush()
    if total is not None and done < total:
        raise _Broken(f"the connection ended before the file did, at {done} of {total} bytes")


def _continues(response: Any, start: int) -> bool:
    """Did the server grant the range? It sends the whole file if that has changed meanwhile."""
    granted = response.headers.get("Content-Range") or ""
    return response.status == 206 and granted.replace("bytes ", "").startswith(f"{start}-")


def _validator(response: Any) -> str | None:
    """What identifies this version of the file, if its parts can be asked for at all."""
    if response.headers.get("Accept-Ranges", "").lower() != "bytes":
        return None
    tag = response.headers.get("ETag", "")
    return tag if tag.startswith('"') else response.headers.get("Last-Modified")


def _length(response: Any, start: int) -> int | None:
    length = response.headers.get("Content-Length")
    return start + int(length) if length is not None and length.isdigit() else None


def _explained(failures: list[tuple[str, Exception]], target: str) -> Exception:
    """One error for all addresses: of the last one's type, naming the file and what to do."""
    _, error = failures[-1]
    if isinstance(error, WrongContent):
        tried = "\n".join(f"  {url}: {problem}" for url, problem in failures)
        return WrongContent(f"{error}\n{tried}\nNothing was written to {target}")
    said = [f"{url} ({_reason(problem)})" for url, problem in failures]
    hint = (
        f"could not download {os.path.basename(target)} from {', nor from '.join(said)}. "
        f"Without a network, fetch it elsewhere and put it at {target}"
    )
    if isinstance(error, HTTPError):
        return HTTPError(error.url, error.code, f"{error.reason}; {hint}", error.headers, None)
    return DownloadError(hint)


def _reason(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"{error.code} {error.reason}"
    return str(error.reason if isinstance(error, URLError) else error) or type(error).__name__


# -- progress --------------------------------------------------------------------------------------


class _PlainBar:
    """Percents on standard error, for those without tqdm."""

    def __init__(self, total: int | None, initial: int) -> None:
        self.total, self.done, self.shown = total, initial, ""

    def update(self, count: int) -> None:
        self.done += count
        mega = f"{self.done / 1e6:.1f} MB"
        text = f"{100 * self.done / self.total:.0f}% ({mega})" if self.total else mega
        if text != self.shown:
            self.shown = text
            sys.stderr.write(f"\r{text}")
            sys.stderr.flush()

    def __enter__(self) -> "_PlainBar":
        return self

    def __exit__(self, *exception: object) -> None:
        if self.shown:
            sys.stderr.write("\n")


class _NoBar(_PlainBar):
    def update(self, count: int) -> None:
        pass


def progress_bar(total: int | None, initial: int = 0, progress: bool = True) -> Any:
    """A bar that counts bytes: tqdm's if there is one; it does nothing with `progress=False`."""
    if not progress:
        return _NoBar(total, initial)
    try:
        from tqdm import tqdm
    except ImportError:
        return _PlainBar(total, initial)
    return tqdm(total=total, initial=initial, unit="B", unit_scale=True, unit_divisor=1024)
