"""Record what PyTorch writes for the calls of tests/watching/tensorboard_cases.py.

Run with PyTorch and tensorboard installed: python tests/golden/record_tensorboard.py
"""

import json
import sys
import tempfile
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "watching"))

from tensorboard_cases import CASES, FRESH_ONLY, written  # noqa: E402

found = {}
for case in CASES:
    if case.__name__ not in FRESH_ONLY:
        with tempfile.TemporaryDirectory() as folder:
            found[case.__name__] = written(case, torch, Path(folder) / "run")
(HERE / "tensorboard.json").write_text(json.dumps(found, separators=(",", ":")) + "\n")
