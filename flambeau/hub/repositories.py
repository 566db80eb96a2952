"""Models that a repository offers: functions of the `hubconf.py` in its top folder.

`source="local"` takes a folder. Otherwise a repository of GitHub is downloaded once, as a zip, into
`<hub folder>/<owner>_<name>_<branch>`. Running its code is a matter of trust: an owner that is
neither well known nor in the file `trusted_list` has to be confirmed.
"""

import contextlib
import importlib.util
import json
import os
import shutil
import sys
import warnings
import zipfile
from builtins import list as list_
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from .transfer import TIMEOUT, transfer

HUBCONF = "hubconf.py"
TRUSTED_OWNERS = ("facebookresearch", "facebookincubator", "pytorch", "fairinternal")
_MOST_BYTES = 1 << 32  # of an unpacked archive

_chosen_folder: str | None = None


def folder() -> str:
    if _chosen_folder is not None:
        return _chosen_folder
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    home = os.getenv("TORCH_HOME", os.path.join(cache, "torch"))
    return os.path.join(os.path.expanduser(home), "hub")


def set_folder(path: str | os.PathLike[str]) -> None:
    global _chosen_folder
    _chosen_folder = os.path.expanduser(os.fspath(path))


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: bool | str = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Call the function `model` of a repository's `hubconf.py`.

    Args:
        repo_or_dir: "owner/name" or "owner/name:branch"; a folder with `source="local"`.
        trust_repo: True to trust the repository, False to be asked, "check" to be asked unless it
            is trusted already.
        force_reload: download again what is there.
        verbose: say that a repository is taken from the folder of downloads.
        skip_validation: do not ask GitHub whether the branch belongs to the repository.
    """
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        repo_or_dir = _repository(repo_or_dir, force_reload, trust_repo, verbose, skip_validation)
    with _importable(repo_or_dir):
        return _entry(_hubconf(repo_or_dir), model)(*args, **kwargs)


def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str = "check",
    verbose: bool = True,
) -> list_[str]:
    """The names of the functions that a repository offers."""
    place = _repository(github, force_reload, trust_repo, verbose, skip_validation)
    with _importable(place):
        module = _hubconf(place)
    names = dir(module)
    return [name for name in names if callable(getattr(module, name)) and name[0] != "_"]


def help(
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str = "check",
) -> str | None:
    """The docstring of a function that a repository offers."""
    place = _repository(github, force_reload, trust_repo, True, skip_validation)
    with _importable(place):
        module = _hubconf(place)
    return _entry(module, model).__doc__


# -- hubconf.py ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _importable(place: str) -> Iterator[None]:
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)


def _hubconf(place: str) -> ModuleType:
    path = os.path.join(place, HUBCONF)
    spec = importlib.util.spec_from_file_location(HUBCONF, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _entry(module: ModuleType, model: str) -> Callable[..., Any]:
    if not isinstance(model, str):
        raise ValueError("Invalid input: model should be a string of function name")
    wanted = getattr(module, "dependencies", None) or ()
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    function = getattr(module, model, None)
    if not callable(function):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return function


# -- GitHub ----------------------------------------------------------------------------------------


def _repository(
    github: str, again: bool, trust: bool | str, verbose: bool, skip_validation: bool
) -> str:
    """The folder of a repository, downloaded if it is not there."""
    hub = folder()
    os.makedirs(hub, exist_ok=True)
    owner, name, branch = _parsed(github)
    label = f"{owner}_{name}_{branch.replace('/', '_')}"
    _check_trust(owner, f"{owner}_{name}", label, trust)
    place = os.path.join(hub, label)
    if os.path.exists(place) and not again:
        if verbose:
            sys.stderr.write(f"Using cache found in {place}\n")
        return place
    if not skip_validation:
        _check_branch(owner, name, branch)
    archive = os.path.join(hub, f"{label}.zip")
    try:
        _download(owner, name, branch, archive)
        _unpack(archive, place)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(archive)
    return place


def _parsed(github: str) -> tuple[str, str, str]:
    repository, _, branch = github.partition(":")
    owner, _, name = repository.partition("/")
    if not owner or not name or "/" in name:
        raise ValueError(
            f"expected 'owner/name' or 'owner/name:branch', got {github!r}; "
            'for a folder say source="local"'
        )
    return owner, name, branch or _default_branch(owner, name)


def _default_branch(owner: str, name: str) -> str:
    try:
        with urlopen(f"https://github.com/{owner}/{name}/tree/main/", timeout=TIMEOUT):
            return "main"
    except HTTPError as error:
        error.close()
        if error.code == 404:
            return "master"
        raise
    except (URLError, TimeoutError) as error:
        for branch in ("main", "master"):
            if os.path.exists(os.path.join(folder(), f"{owner}_{name}_{branch}")):
                return branch
        raise RuntimeError(
            "It looks like there is no internet connection and the repo could not be found in "
            f"the cache ({folder()}); put its files in {folder()}/{owner}_{name}_main, or load "
            'them from any folder with source="local"'
        ) from error


def _check_branch(owner: str, name: str, branch: str) -> None:
    """GitHub also serves commits of forks under a repository's name; refuse those."""
    for kind in ("branches", "tags"):
        page = 1
        while entries := _ask(owner, name, f"{kind}?per_page=100&page={page}"):
            for entry in entries:
                if entry["name"] == branch or entry["commit"]["sha"].startswith(branch):
                    return
            page += 1
    raise ValueError(
        f"Cannot find {branch} in https://github.com/{owner}/{name}. If it's a commit from a "
        "forked repo, please call hub.load() with forked repo directly."
    )


def _ask(owner: str, name: str, question: str) -> Any:
    url = f"https://api.github.com/repos/{owner}/{name}/{question}"
    headers = {"Accept": "application/vnd.github.v3+json"}
    token = os.environ.get("GITHUB_TOKEN")
    tries = [headers | {"Authorization": f"token {token}"}, headers] if token else [headers]
    for attempt in tries:
        try:
            with urlopen(Request(url, headers=attempt), timeout=TIMEOUT) as response:
                return json.load(response)
        except HTTPError as error:
            error.close()
            if attempt is tries[-1]:
                raise
        except URLError as error:
            raise RuntimeError(
                f"It looks like there is no internet connection: {url} cannot be reached "
                f"({error.reason}); put the repository's files in a folder and load them with "
                'source="local"'
            ) from error
    return None


def _download(owner: str, name: str, branch: str, archive: str) -> None:
    address = f"https://github.com/{owner}/{name}/zipball/"
    sys.stdout.write(f'Downloading: "{address}{branch}" to {archive}\n')
    try:
        transfer(address + branch, archive, progress=False)
    except HTTPError as error:
        if error.code != 300:
            raise
        warnings.warn(
            f"The ref {branch} is ambiguous. Perhaps it is both a tag and a branch in the repo? "
            "Torchhub will now assume that it's a branch. Say refs/heads/<branch> or "
            "refs/tags/<tag>, with skip_validation=True, to choose.",
            stacklevel=5,
        )
        transfer(f"{address}refs/heads/{branch}", archive, progress=False)


def _unpack(archive: str, place: str) -> None:
    """The one folder of an archive becomes `place`."""
    temporary = place + ".unpacking"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with zipfile.ZipFile(archive) as opened:
            extract(opened, temporary)
        (top,) = os.listdir(temporary)
        shutil.rmtree(place, ignore_errors=True)
        os.replace(os.path.join(temporary, top), place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def extract(archive: zipfile.ZipFile, place: str) -> list_[str]:
    """Unpack an archive, none of whose entries may lie outside of `place`; paths of its files."""
    root = Path(place).resolve()
    size = sum(entry.file_size for entry in archive.infolist())
    if size > _MOST_BYTES:
        raise ValueError(f"Archive would unpack to {size} bytes, which is too much to be true")
    paths = []
    for entry in archive.infolist():
        name = entry.filename.replace("\\", "/")
        if name.startswith("/") or name[1:2] == ":":
            raise ValueError(f"Archive entry has absolute path: {entry.filename}")
        if ".." in name.split("/"):
            raise ValueError(f"Archive entry contains directory traversal: {entry.filename}")
        if not (root / name).resolve().is_relative_to(root):
            raise ValueError(f"Archive entry escapes target directory: {entry.filename}")
        path = archive.extract(entry, root)
        if not entry.is_dir():
            paths.append(path)
    return paths


def _check_trust(owner: str, repository: str, label: str, trust: bool | str) -> None:
    known = Path(folder()) / "trusted_list"
    listed = known.read_text().split() if known.exists() else []
    trusted = (
        owner in TRUSTED_OWNERS
        or repository in listed
        or os.path.isdir(os.path.join(folder(), label))
    )
    if trust is False or (trust == "check" and not trusted):
        answer = input(
            f"The repository {repository} does not belong to the list of trusted repositories and "
            "as such cannot be downloaded. Do you trust this repository and wish to add it to the "
            "trusted list of repositories (y/N)?"
        ).lower()
        if answer in ("n", "no", ""):
            raise Exception("Untrusted repository.")
        if answer not in ("y", "yes"):
            raise ValueError(f"Unrecognized response {answer}.")
        if trusted:
            print("The repository is already trusted.")
    if not trusted:
        with open(known, "a") as file:
            file.write(repository + "\n")
