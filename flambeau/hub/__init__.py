"""torch.hub: published weights and models, by address or by repository.

Files live where PyTorch keeps them (`$TORCH_HOME/hub`, by default `~/.cache/torch/hub`), so weights
that are already on a machine are found. The transfer itself is in `transfer`, repositories with a
`hubconf.py` in `repositories`.
"""

import os
import re
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from . import repositories as _repositories
from .repositories import help as help
from .repositories import list as list
from .repositories import load as load
from .transfer import Expected
from .transfer import transfer as _transfer

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

# resnet18-f37072fd.pth carries the first digits of its SHA-256
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")


def _get_torch_home() -> str:
    """The folder above: `$TORCH_HOME`, or one below the user's cache."""
    return os.path.dirname(_repositories.folder())


def get_dir() -> str:
    """The folder of everything that was downloaded: `set_dir`'s, or `$TORCH_HOME/hub`."""
    if os.getenv("TORCH_HUB"):
        warnings.warn("TORCH_HUB is deprecated, please use env TORCH_HOME instead", stacklevel=2)
    return _repositories.folder()


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep downloads in this folder from now on."""
    _repositories.set_folder(d)


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Download a file; what was at `dst` before stays there until the new file is complete.

    Args:
        hash_prefix: how the SHA-256 of the file must begin, in hexadecimal.
        progress: show a bar on standard error.
    """
    _transfer(url, dst, Expected(sha256=hash_prefix), progress=progress, user_agent="torch.hub")


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """`load` what is at this address, downloaded once into `model_dir`.

    Args:
        model_dir: `<get_dir()>/checkpoints` unless given.
        check_hash: the name of the file carries the first digits of its SHA-256; compare them.
        file_name: a name other than the last part of the address.
        weights_only: refuse files that want to import or call anything. This is the default here;
            say False for a file whose origin you trust.
    """
    if os.getenv("TORCH_MODEL_ZOO"):
        warnings.warn(
            "TORCH_MODEL_ZOO is deprecated, please use env TORCH_HOME instead", stacklevel=2
        )
    folder = Path(get_dir(), "checkpoints") if model_dir is None else Path(model_dir)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (urlparse(url).path.rpartition("/")[2] if file_name is None else file_name)
    if not path.exists():
        sys.stdout.write(f'Downloading: "{url}" to {path}\n')
        digits = HASH_REGEX.search(path.name) if check_hash else None
        download_url_to_file(url, str(path), digits and digits[1], progress)
    return _load(str(path), map_location, weights_only)


def _load(path: str, map_location: Any, weights_only: bool) -> Any:
    from ..serialization import load as load_file

    if not _holds_one_file(path):
        return load_file(path, map_location=map_location, weights_only=weights_only)
    warnings.warn(
        "Falling back to the old format < 1.6. This support will be deprecated in favor of default "
        "zipfile format introduced in 1.6. Please redo torch.save() to save it in the new zipfile "
        "format.",
        FutureWarning,
        stacklevel=3,
    )
    with zipfile.ZipFile(path) as archive:
        inner = _repositories.extract(archive, os.path.dirname(path))[0]
    return load_file(inner, map_location=map_location, weights_only=weights_only)


def _holds_one_file(path: str) -> bool:
    """A file that somebody zipped by hand; those that `save` writes hold several."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    return len(entries) == 1 and not entries[0].is_dir()


def __getattr__(name: str) -> Any:
    """Progress bars of another library, which libraries take from here."""
    if name == "tqdm":
        from tqdm import tqdm

        return tqdm
    raise AttributeError(f"module 'torch.hub' has no attribute '{name}'")
