"""Records what torchvision's detectors and RAFT answer: writes detection.json beside this.

The questions are those of tests/vision/detection_cases.py.
"""

import json
import pathlib
import sys

import torch
from torchvision import models
from torchvision.models import detection

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.vision import detection_cases as cases  # noqa: E402

found = {name: cases.answers(torch, detection, name) for name in cases.MODELS}
found["raft_small"] = cases.flow_answers(torch, models)
lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(a)}" for name, a in found.items())
(HERE / "detection.json").write_text("{\n" + lines + "\n}\n")
