"""Record what torchvision's transforms give, draw, say and refuse.

Run with PyTorch and torchvision installed: python tests/golden/record_transforms.py
"""

import json
from pathlib import Path

import PIL
import torch
import torchvision.transforms as transforms
import torchvision.transforms.functional as functional

from tests.vision.transform_cases import is_exact, record, run, runs

SCOPE = {"T": transforms, "F": functional, "torch": torch}

if __name__ == "__main__":
    kept: dict = {"pillow": PIL.__version__}
    for kind, text, repeats in runs():
        answer = record(run(kind, text, repeats, SCOPE), is_exact(text, kind))
        kept.setdefault(kind, {})[text] = answer
    path = Path(__file__).with_name("transforms.json")
    path.write_text(json.dumps(kept, indent=None, separators=(",", ":")) + "\n")
