"""Records what PyTorch's fbgemm gives for quantized ops: `python tests/golden/record_quantized.py`.

Inputs come from `tests/quantization/cases.py`; the values go to quantized.json beside this file.
"""

import json
import sys
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "quantization"))
import cases

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.backends.quantized.engine = "fbgemm"
    found = {name: cases.summary(make(torch)) for name, make in cases.CASES.items()}
    text = json.dumps(found, indent=0, sort_keys=True)
    Path(__file__).with_name("quantized.json").write_text(text + "\n")
