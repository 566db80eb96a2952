"""Records what PyTorch's autograd does in the cases of tests/autograd: writes engine.json here."""

import importlib
import json
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.autograd.behaviour import outcome  # noqa: E402

sections = [f'"torch": "{torch.__version__}"']
TOPICS = "engine accumulate inplace hooks function modes inference graph_objects"
for topic in TOPICS.split():
    cases = importlib.import_module(f"tests.autograd.test_{topic}").cases
    lines = [f"{json.dumps(n)}: {json.dumps(outcome(torch, f))}" for n, f in cases.found.items()]
    sections.append(f'"{topic}": {{\n' + ",\n".join(lines) + "\n}")
    print(topic, len(lines))
graphs = importlib.import_module("tests.autograd.test_random_graphs")
lines = [f'"{k}": {json.dumps(graphs.outcome(torch, k))}' for k in range(graphs.RECORDED)]
sections.append('"random_graphs": {\n' + ",\n".join(lines) + "\n}")
(HERE / "engine.json").write_text("{" + ",\n".join(sections) + "}\n")
