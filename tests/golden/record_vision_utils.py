"""Record what torchvision.utils and FakeData give for tests/vision/utils_cases.py.

Run with torchvision installed: python tests/golden/record_vision_utils.py
"""

import json
import sys
from pathlib import Path

import torch
import torchvision

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "vision"))

from utils_cases import EXACT, Lib, digest  # noqa: E402

lib = Lib(torch, torchvision)
results = {name: digest(case(lib)) for name, case in EXACT.items()}
lines = (f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in results.items())
(HERE / "vision_utils.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
