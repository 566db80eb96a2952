"""Record the classes of torch.nn, with the signatures of their constructors and methods.

Run with PyTorch installed: python -m tests.golden.record_nn_names
"""

import json
from pathlib import Path

import torch.nn
import torch.nn.functional

from tests.nn.signatures import functions, signatures

if __name__ == "__main__":
    others = ["Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer"]
    record = {
        "classes": signatures(torch.nn),
        "functions": functions(torch.nn.functional),
        "others": others,
    }
    lines = json.dumps(record, indent=0)
    Path(__file__).with_name("nn_names.json").write_text(lines + "\n")
