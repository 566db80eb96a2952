"""Records what PyTorch makes of the snippets of tests/ops/test_edges.py: python record_edges.py."""

import json
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

from tests.ops.edge_cases import SNIPPETS  # noqa: E402
from tests.ops.refusal_cases import KIND_LINES, LINES  # noqa: E402
from tests.ops.test_edges import printed  # noqa: E402

recorded = {s: printed(torch, s) for s in (*SNIPPETS, *LINES, *KIND_LINES)}
(HERE / "edges.json").write_text(json.dumps(recorded, indent=0) + "\n")
