"""`torch.utils.collect_env`: what a bug report should say of a machine.

`python -m flambeau.utils.collect_env` prints it. Tools that are not installed are named as such;
nothing is asked of the network.
"""

import importlib.metadata
import locale
import os
import platform
import re
import subprocess
import sys
from collections import namedtuple
from typing import Any

import flambeau
from flambeau.version import __version__ as _API

_FIELDS = (
    "torch_version is_debug_build cuda_compiled_version gcc_version clang_version cmake_version os "
    "libc_version python_version python_platform is_cuda_available cuda_runtime_version "
    "cuda_module_loading nvidia_driver_version nvidia_gpu_models cudnn_version is_xpu_available "
    "pip_version pip_packages conda_packages hip_compiled_version hip_runtime_version "
    "miopen_runtime_version caching_allocator_config is_xnnpack_available cpu_info"
)
_named: Any = namedtuple  # type checkers read no field names from a variable
SystemEnv = _named("SystemEnv", _FIELDS)
# packages that reports are asked for
PIP_PATTERNS = {
    *("flambeau", "torch", "numpy", "llvmlite", "mypy", "flake8", "triton", "optree", "onnx"),
    *("nvidia", "cuda", "cudnn", "transformers", "lightning"),
}
_MISSING = "Could not collect"
_LINES = """
PyTorch version: {torch_version}
Is debug build: {is_debug_build}
CUDA used to build PyTorch: {cuda_compiled_version}
ROCM used to build PyTorch: {hip_compiled_version}

OS: {os}
GCC version: {gcc_version}
Clang version: {clang_version}
CMake version: {cmake_version}
Libc version: {libc_version}

Python version: {python_version}
Python platform: {python_platform}
Is CUDA available: {is_cuda_available}
CUDA runtime version: {cuda_runtime_version}
CUDA_MODULE_LOADING set to: {cuda_module_loading}
GPU models and configuration: {nvidia_gpu_models}
Nvidia driver version: {nvidia_driver_version}
cuDNN version: {cudnn_version}
Is XPU available: {is_xpu_available}
HIP runtime version: {hip_runtime_version}
MIOpen runtime version: {miopen_runtime_version}
Is XNNPACK available: {is_xnnpack_available}
Caching allocator config: {caching_allocator_config}

CPU:
{cpu_info}

Versions of relevant libraries:
{pip_packages}
{conda_packages}
""".strip()


def run(command: Any) -> tuple[int, str, str]:
    """(exit status, output, complaints) of a command; 127 if there is no such command."""
    try:
        done = subprocess.run(command, shell=isinstance(command, str), capture_output=True)
    except OSError as error:
        return 127, "", str(error)
    coding = locale.getpreferredencoding()
    out, complaints = (
        text.decode(coding, "replace").strip() for text in (done.stdout, done.stderr)
    )
    return done.returncode, out, complaints


def run_and_read_all(run_lambda: Any, command: Any) -> str | None:
    """What a command prints; None if it fails."""
    status, out, _ = run_lambda(command)
    return out if status == 0 else None


def run_and_return_first_line(run_lambda: Any, command: Any) -> str | None:
    """The first line of what a command prints; None if it fails."""
    out = run_and_read_all(run_lambda, command)
    return out.partition("\n")[0] if out is not None else None


def run_and_parse_first_match(run_lambda: Any, command: Any, regex: str) -> str | None:
    """What the first group of an expression matches in what a command prints."""
    found = re.search(regex, run_and_read_all(run_lambda, command) or "")
    return found.group(1) if found else None


def get_platform() -> str:
    """linux, darwin, win32 or cygwin, as Python says it."""
    return "linux" if sys.platform.startswith("linux") else sys.platform


def get_python_platform() -> str:
    return platform.platform()


def get_gcc_version(run_lambda: Any) -> str | None:
    return run_and_parse_first_match(run_lambda, ["gcc", "--version"], r"gcc (.*)")


def get_clang_version(run_lambda: Any) -> str | None:
    return run_and_parse_first_match(run_lambda, ["clang", "--version"], r"clang version (.*)")


def get_cmake_version(run_lambda: Any) -> str | None:
    return run_and_parse_first_match(run_lambda, ["cmake", "--version"], r"cmake (.*)")


def get_nvidia_driver_version(run_lambda: Any) -> str | None:
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return run_and_return_first_line(run_lambda, asked)


def get_gpu_info(run_lambda: Any) -> str | None:
    """The GPUs that the driver knows, one on each line."""
    return run_and_read_all(run_lambda, ["nvidia-smi", "-L"])


def get_os(run_lambda: Any) -> str:
    """Name and version of the operating system, and of the processor's architecture."""
    if sys.platform == "darwin":
        return f"macOS {platform.mac_ver()[0]} ({platform.machine()})"
    if sys.platform == "win32":
        return f"{platform.system()} {platform.version()} ({platform.machine()})"
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        name = platform.system()
    return f"{name} ({platform.machine()})"


def get_libc_version() -> str:
    name = "-".join(platform.libc_ver())
    return name if sys.platform.startswith("linux") and name != "-" else "N/A"


def get_cpu_info(run_lambda: Any) -> str | None:
    """What the system says of its processor."""
    commands = {"darwin": ["sysctl", "-n", "machdep.cpu.brand_string"]}
    found = run_and_read_all(run_lambda, commands.get(sys.platform, ["lscpu"]))
    return found or platform.processor() or None


def get_pip_packages(run_lambda: Any, patterns: Any = None) -> tuple[str, str]:
    """("pip3", installed packages whose names begin with a pattern, as name==version)."""
    patterns = PIP_PATTERNS if patterns is None else patterns
    found = {}
    for package in importlib.metadata.distributions():
        name = package.metadata["Name"]
        if name and name.lower().startswith(tuple(patterns)):
            found[name] = package.version
    lines = [f"{name}=={found[name]}" for name in sorted(found, key=str.lower)]
    return "pip3", "\n".join(lines)


def get_env_info() -> Any:
    """A SystemEnv: everything a report has, as values."""
    bits = 64 if sys.maxsize > 2**32 else 32
    cuda = flambeau.cuda.is_available()
    cudnn = flambeau.backends.cudnn.version() if cuda else None
    return SystemEnv(
        torch_version=f"{_API} (flambeau {flambeau.__version__})",
        is_debug_build="False",
        cuda_compiled_version=flambeau.version.cuda,
        gcc_version=get_gcc_version(run),
        clang_version=get_clang_version(run),
        cmake_version=get_cmake_version(run),
        os=get_os(run),
        libc_version=get_libc_version(),
        python_version=f"{' '.join(sys.version.split())} ({bits}-bit runtime)",
        python_platform=get_python_platform(),
        is_cuda_available=str(cuda),
        cuda_runtime_version=flambeau.version.cuda if cuda else None,
        cuda_module_loading=os.environ.get("CUDA_MODULE_LOADING", "LAZY") if cuda else "N/A",
        nvidia_driver_version=get_nvidia_driver_version(run),
        nvidia_gpu_models=get_gpu_info(run),
        cudnn_version=None if cudnn is None else str(cudnn),
        is_xpu_available="False",
        pip_version="pip3",
        pip_packages=get_pip_packages(run)[1],
        conda_packages=None,
        hip_compiled_version="N/A",
        hip_runtime_version="N/A",
        miopen_runtime_version="N/A",
        caching_allocator_config=os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "") or "N/A",
        is_xnnpack_available="False",
        cpu_info=get_cpu_info(run),
    )


def pretty_str(envinfo: Any) -> str:
    """A SystemEnv as the text of a report."""
    said = {}
    for name, value in envinfo._asdict().items():
        value = _MISSING if value is None or value == "" else str(value)
        said[name] = f"\n{value}" if name == "nvidia_gpu_models" and "\n" in value else value
    for name, mark in (("pip_packages", "[pip3]"), ("conda_packages", "[conda]")):
        said[name] = "\n".join(f"{mark} {line}" for line in said[name].splitlines())
    return _LINES.format(**said)


def get_pretty_env_info() -> str:
    """The text of a report about this machine."""
    return pretty_str(get_env_info())


def main() -> None:
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
