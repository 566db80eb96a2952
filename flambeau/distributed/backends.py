"""Names of backends: which there are, and which serves which kind of device."""

from typing import Any

import flambeau
from flambeau.runtime import nccl

__all__ = [
    "Backend",
    "BackendConfig",
    "check_backend",
    "get_default_backend_for_device",
    "is_backend_available",
    "is_nccl_available",
]


class Backend(str):
    """The name of a backend, in lower case."""

    UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE = (
        "undefined",
        "gloo",
        "nccl",
        "xccl",
        "ucc",
        "mpi",
        "fake",
    )
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]

    def __new__(cls, name: str) -> "Backend":
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return super().__new__(cls, name.lower())


class BackendConfig:
    """Which backend serves which kind of device."""

    def __init__(self, backend: str) -> None:
        text = str(backend)
        if ":" in text:
            self.device_backend_map = dict(part.split(":") for part in text.split(","))
        elif text == "undefined":
            self.device_backend_map = {"cpu": "gloo"}
            if is_nccl_available() and flambeau.cuda.is_available():
                self.device_backend_map["cuda"] = "nccl"
        else:
            kinds = ("cuda",) if text == "nccl" else ("cpu", "cuda")
            self.device_backend_map = dict.fromkeys(kinds, text)

    def get_device_backend_map(self) -> dict[str, str]:
        """Device type -> backend."""
        return self.device_backend_map

    def __repr__(self) -> str:
        return ",".join(f"{kind}:{name}" for kind, name in self.device_backend_map.items())


def is_nccl_available() -> bool:
    """Is NVIDIA's library for GPUs of several processes there?"""
    return nccl.find() is not None


def is_backend_available(backend: str) -> bool:
    """Is there a backend of this name?"""
    name = backend.lower()
    return name in ("gloo", "mpi") or (name == "nccl" and is_nccl_available())


def get_default_backend_for_device(device: Any) -> str:
    """What init_process_group would take for a device."""
    return "nccl" if str(getattr(device, "type", device)).startswith("cuda") else "gloo"


def check_backend(backend: str | None) -> Backend:
    """A backend that there is; messages are PyTorch's."""
    name = Backend(backend or "undefined")
    for part in BackendConfig(name).device_backend_map.values():
        if part not in Backend.backend_list:
            raise AssertionError(f"Unknown backend type {part}")
        if not is_backend_available(part) and part != "undefined":
            raise RuntimeError(f"Distributed package doesn't have {part.upper()} built in")
        if part == "nccl" and not flambeau.cuda.is_available():
            raise ValueError("ProcessGroupNCCL is only supported with GPUs, no GPUs found!")
    return name
