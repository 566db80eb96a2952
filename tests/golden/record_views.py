"""Records what PyTorch makes of the calls of tests/ops/view_cases.py: writes views.json here."""

import json
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.ops import view_cases  # noqa: E402

lines = []
for kind, source in view_cases.cases():
    found = view_cases.rounded(view_cases.outcome(torch, torch.nn.functional, kind, source))
    lines.append(f"{json.dumps(source)}: {json.dumps(found, separators=(',', ':'))}")
head = f'"torch": "{torch.__version__}"'
(HERE / "views.json").write_text("{" + ",\n".join([head, *lines]) + "}\n")
print(len(lines))
