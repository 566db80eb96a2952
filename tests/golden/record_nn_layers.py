"""Record what every layer of PyTorch looks like: text, state, outputs and gradients as checksums.

Run with PyTorch installed: python -m tests.golden.record_nn_layers
"""

import json
from pathlib import Path

import numpy as np
import torch

from tests.nn.layer_cases import CASES, bits, digest, observe


def record(case):
    found = {}
    for name, value in observe(torch, case).items():
        if not isinstance(value, np.ndarray):
            found[name] = value
        elif name.startswith("initial "):
            found[name] = bits(value)
        else:
            found[name] = digest(value)
    return found


if __name__ == "__main__":
    lines = ",\n".join(f"{json.dumps(case)}:{json.dumps(record(case))}" for case in CASES)
    Path(__file__).with_name("nn_layers.json").write_text("{\n" + lines + "\n}\n")
