"""Records what torchvision.ops answers: writes vision_ops.json beside this.

The calls are those of tests/vision/ops_cases.py.
"""

import json
import pathlib
import sys
import warnings

import torch
import torchvision
from torchvision import ops
from torchvision.ops import feature_pyramid_network as fpn

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.vision import ops_cases  # noqa: E402

warnings.simplefilter("ignore")
lines = []
for text, kind, arrays in ops_cases.cases():
    try:
        said = ops_cases.summary(ops_cases.answer(torch, ops, fpn, text, arrays))
    except (RuntimeError, ValueError, NotImplementedError, TypeError) as error:
        said = [type(error).__name__, str(error).splitlines()[0]]
    lines.append(f"{json.dumps(f'{text} {kind}')}: {json.dumps(said)}")
head = f'"torchvision": "{torchvision.__version__}"'
(HERE / "vision_ops.json").write_text("{" + ",\n".join([head, *lines]) + "}\n")
print(len(lines))
