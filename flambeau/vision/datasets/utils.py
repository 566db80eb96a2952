"""`torchvision.datasets.utils`: files fetched, checked and listed, arguments verified.

The transfer itself, with resuming, checks and the progress bar, is `flambeau.hub.transfer`;
unpacking is in `archives.py`.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from urllib.parse import urlparse

from flambeau.hub.transfer import Expected, WrongContent, digest, transfer
from flambeau.vision.datasets.archives import Path
from flambeau.vision.datasets.archives import _decompress as _decompress
from flambeau.vision.datasets.archives import _detect_file_type as _detect_file_type
from flambeau.vision.datasets.archives import extract_archive as extract_archive

USER_AGENT = "pytorch/vision"  # some servers of datasets turn unknown programs away


# -- checksums -------------------------------------------------------------------------------------


def calculate_md5(fpath: Path, chunk_size: int = 1024 * 1024) -> str:
    """The MD5 sum of a file, in hexadecimal."""
    return digest(fpath, "md5")


def check_md5(fpath: Path, md5: str, **kwargs: Any) -> bool:
    """Does a file have this MD5 sum?"""
    return md5 == calculate_md5(fpath, **kwargs)


def check_integrity(fpath: Path, md5: str | None = None) -> bool:
    """Is there a file at this path, with this MD5 sum if one is given?"""
    return os.path.isfile(fpath) and (md5 is None or check_md5(fpath, md5))


# -- downloads -------------------------------------------------------------------------------------


def download_url(
    url: str,
    root: Path,
    filename: Path | None = None,
    md5: str | None = None,
    max_redirect_hops: int = 3,
) -> None:
    """Bring a file from an address into a folder, unless it is there already.

    A transfer that breaks is resumed, by this call and by later ones; the file gets its name when
    it is complete and its checksum is right.

    Args:
        url: the address.
        root: the folder.
        filename: the name to give the file; the last part of the address if None.
        md5: the checksum that the file must have.
        max_redirect_hops: accepted for torchvision's sake; ten redirections are followed.
    """
    root = os.path.expanduser(os.fspath(root))
    path = os.path.join(root, filename or _last_part(url))
    os.makedirs(root, exist_ok=True)
    if check_integrity(path, md5):
        return
    file_id = _get_google_drive_file_id(url)
    if file_id is not None:
        return download_file_from_google_drive(file_id, root, os.path.basename(path), md5)
    addresses = [url]
    if md5 and url.startswith("https:"):
        # behind some proxies only plain http works; the checksum says whether the file is right
        addresses.append("http:" + url.removeprefix("https:"))
    try:
        transfer(addresses, path, Expected(md5=md5), user_agent=USER_AGENT)
    except WrongContent as error:
        raise RuntimeError(f"File not found or corrupted. {error}") from None


def _last_part(url: str) -> str:
    name = os.path.basename(url)
    if not name:
        raise ValueError(f"{url} does not end with the name of a file; give one as filename=")
    return name


def download_and_extract_archive(
    url: str,
    download_root: Path,
    extract_root: Path | None = None,
    filename: Path | None = None,
    md5: str | None = None,
    remove_finished: bool = False,
) -> None:
    """Bring an archive into a folder and unpack it, there or in another one."""
    home = os.path.expanduser(os.fspath(download_root))
    name = filename or _last_part(url)
    download_url(url, home, name, md5)
    target = home if extract_root is None else extract_root
    extract_archive(os.path.join(home, name), target, remove_finished)


def _get_google_drive_file_id(url: str) -> str | None:
    parts = urlparse(url)
    if re.match(r"(drive|docs)[.]google[.]com", parts.netloc) is None:
        return None
    found = re.match(r"/file/d/(?P<id>[^/]*)", parts.path)
    return found["id"] if found else None


def download_file_from_google_drive(
    file_id: str, root: Path, filename: Path | None = None, md5: str | None = None
) -> None:
    """Bring a file of Google Drive into a folder, through the package gdown."""
    try:
        gdown = importlib.import_module("gdown")
    except ModuleNotFoundError:
        raise RuntimeError(
            "To download files from GDrive, 'gdown' is required. "
            "You can install it with 'pip install gdown'."
        ) from None
    root = os.path.expanduser(os.fspath(root))
    path = os.path.join(root, filename or file_id)
    os.makedirs(root, exist_ok=True)
    if check_integrity(path, md5):
        return
    gdown.download(id=file_id, output=path, quiet=False, user_agent=USER_AGENT)
    if not check_integrity(path, md5):
        raise RuntimeError("File not found or corrupted.")


# -- folders and arguments -------------------------------------------------------------------------


def _names(root: Path, wanted: Callable[[os.DirEntry[str]], bool], prefix: bool) -> list[str]:
    """Of the entries of a folder those that are wanted, by name or by path."""
    with os.scandir(os.path.expanduser(os.fspath(root))) as entries:
        return [entry.path if prefix is True else entry.name for entry in entries if wanted(entry)]


def list_dir(root: Path, prefix: bool = False) -> list[str]:
    """The folders in a folder; with their paths if `prefix`."""
    return _names(root, os.DirEntry.is_dir, prefix)


def list_files(root: Path, suffix: str | tuple[str, ...], prefix: bool = False) -> list[str]:
    """The files in a folder that end in a suffix, or in one of several."""
    return _names(root, lambda entry: entry.name.endswith(suffix) and entry.is_file(), prefix)


def iterable_to_str(iterable: Iterable) -> str:
    """'a', 'b', 'c'"""
    return "'" + "', '".join(str(item) for item in iterable) + "'"


T = TypeVar("T", str, bytes)


def verify_str_arg(
    value: T,
    arg: str | None = None,
    valid_values: Iterable[T] | None = None,
    custom_msg: str | None = None,
) -> T:
    """The value, if it is a string and one of those that are allowed."""
    if not isinstance(value, str):
        where = "" if arg is None else f" for argument {arg}"
        raise ValueError(f"Expected type str{where}, but got type {type(value)}.")
    if valid_values is None:
        return value
    if value not in valid_values:
        if custom_msg is not None:
            raise ValueError(custom_msg)
        allowed = iterable_to_str(valid_values)
        raise ValueError(
            f"Unknown value '{value}' for argument {arg}. Valid values are {{{allowed}}}."
        )
    return value
