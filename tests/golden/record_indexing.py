"""Records what PyTorch makes of indices and masks: python tests/golden/record_indexing.py

For every line of tests/ops/indexing_cases.py: dtype, shape and values, or the type and the first
line of the complaint.
"""

import json
import runpy
from pathlib import Path

import torch

HERE = Path(__file__).parent


def main():
    cases = runpy.run_path(str(HERE.parent / "ops" / "indexing_cases.py"))
    found = {"torch": torch.__version__}
    found |= {text: cases["run"](torch, text) for text in cases["READS"] + cases["WRITES"]}
    (HERE / "indexing.json").write_text(json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    main()
