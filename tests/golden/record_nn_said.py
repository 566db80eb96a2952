"""Record what PyTorch answers to the lines of tests/nn: values as text, errors and warnings.

Run with PyTorch installed: python -m tests.golden.record_nn_said
"""

import json
from pathlib import Path

import torch

from tests.nn import container_cases, layer_refusals, module_cases
from tests.nn.said import said

FAMILIES = {"containers": container_cases, "refusals": layer_refusals, "modules": module_cases}

if __name__ == "__main__":
    record = {
        name: {line: said(torch, line, family.SETUP) for line in family.LINES}
        for name, family in FAMILIES.items()
    }
    Path(__file__).with_name("nn_said.json").write_text(json.dumps(record, indent=0) + "\n")
