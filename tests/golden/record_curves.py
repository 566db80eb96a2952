"""Record the losses of tests/nn/curve_programs.py with PyTorch.

Run with PyTorch installed: python tests/golden/record_curves.py
"""

import json
import sys
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "nn"))

from curve_programs import PROGRAMS  # noqa: E402

torch.set_num_threads(1)
curves = {name: program(torch) for name, program in PROGRAMS.items()}
(HERE / "curves.json").write_text(json.dumps(curves, indent=1) + "\n")
