"""Records the graphs that torchviz draws (needs PyTorch and torchviz): writes graphs.json."""

import json
import pathlib
import sys

import torch
import torchviz

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.viz.graph_cases import CASES, summary  # noqa: E402

cases = {name: summary(torchviz.make_dot(*make(torch)).source) for name, make in CASES.items()}
recorded = {"torch": torch.__version__, "cases": cases}
(HERE / "graphs.json").write_text(json.dumps(recorded, indent=1) + "\n")
print(len(cases), "graphs")
