"""`torch.version`: the PyTorch whose API this is, and what it was built with (no CUDA yet)."""

from flambeau.torch_version import TorchVersion

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "pytorch", "rocm", "xpu"]

# the release that names, results and messages follow; what comes after + is local to us
pytorch = TorchVersion("2.13.0+flambeau")
__version__ = str(pytorch)
debug = False
git_version = "unknown"
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
