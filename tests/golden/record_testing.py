"""Records what torch.testing says for each case into testing.json; needs torch."""

import json
import sys
from pathlib import Path

import torch
import torch.testing

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from testing_cases import ALLCLOSE, CLOSE, MADE, said  # noqa: E402

texts = {case: said(torch, case) for case in CLOSE + ALLCLOSE + MADE}
(HERE / "testing.json").write_text(json.dumps(texts, indent=1) + "\n")
