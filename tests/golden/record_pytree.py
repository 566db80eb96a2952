"""Records what torch.utils._pytree answers into pytree.json; needs torch."""

import json
import sys
from pathlib import Path

import torch
from torch.utils import _pytree

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "utils"))

from pytree_cases import answers  # noqa: E402

(HERE / "pytree.json").write_text(json.dumps(answers(torch, _pytree), indent=1) + "\n")
