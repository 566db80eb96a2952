"""The virtual environment of the libraries: `environment.py [FOLDER]` makes it.

PyTorch goes first, so that no library chooses another; torchvision comes without what it asks for.
"""

import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE.parent.parent / ".libraries"
TORCH = ("torch==2.13.0",)
VISION = ("torchvision==0.28.0",)
WITHOUT_DEPENDENCIES = ("timm", "diffusers", "facenet-pytorch", "python-doctr", "qpth")
# what those need, and a setuptools that still has pkg_resources, which some import
BESIDE = (
    "anyascii defusedxml langdetect pyclipper pypdfium2 rapidfuzz shapely validators setuptools<81"
).split()


def python(folder=FOLDER):
    """The Python of the environment, which is made where it is not there."""
    path = Path(folder) / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not path.exists():
        install(Path(folder), path)
    return str(path)


def install(folder, path):
    """A new environment with everything in requirements.txt."""
    venv.create(folder, with_pip=True)
    wanted = (HERE / "requirements.txt").read_text().split()
    alone = [line for line in wanted if line.partition("==")[0] in WITHOUT_DEPENDENCIES]
    limits = folder / "constraints.txt"
    limits.write_text("\n".join((*TORCH, *VISION, *wanted)) + "\n")
    for arguments in (
        TORCH,
        ("--no-deps", *VISION),
        ("-c", str(limits), "numpy", "llvmlite", *BESIDE, *(w for w in wanted if w not in alone)),
        ("--no-deps", *alone),
    ):
        subprocess.run([path, "-m", "pip", "install", "-q", *arguments], check=True)


if __name__ == "__main__":
    print(python(*sys.argv[1:]))
