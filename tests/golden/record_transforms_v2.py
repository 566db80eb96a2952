"""Record what torchvision's transforms of v2 give, draw, say and refuse.

Run with PyTorch and torchvision installed: python tests/golden/record_transforms_v2.py
"""

import json
from pathlib import Path

import PIL
import torch
from torchvision import tv_tensors
from torchvision.transforms import v2

from tests.vision.transform_cases import record
from tests.vision.transform_v2_cases import is_exact, run, runs

SCOPE = {"T": v2, "F": v2.functional, "tv": tv_tensors, "torch": torch}

if __name__ == "__main__":
    kept: dict = {"pillow": PIL.__version__}
    for kind, text, repeats in runs():
        answer = record(run(kind, text, repeats, SCOPE), is_exact(text, kind))
        kept.setdefault(kind, {})[text] = answer
    path = Path(__file__).with_name("transforms_v2.json")
    path.write_text(json.dumps(kept, indent=None, separators=(",", ":")) + "\n")
