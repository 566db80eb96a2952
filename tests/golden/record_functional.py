"""Records tests/golden/functional.json: what PyTorch leaves of functions without writes.

PYTHONPATH=. python tests/golden/record_functional.py
"""

import json
import warnings
from pathlib import Path

import torch

from tests.func import functional_cases as cases

warnings.simplefilter("ignore")
found = {
    "texts": {
        remove: {name: cases.text(torch, name, remove) for name in cases.PROGRAMS}
        for remove in cases.REMOVES
    },
    "seen": {
        remove: {name: cases.seen(torch, name, remove) for name in cases.SEEN}
        for remove in cases.REMOVES
    },
    "nested": {name: cases.worked_out(torch, name) for name in cases.NESTED},
}
if __name__ == "__main__":
    path = Path(__file__).with_name("functional.json")
    path.write_text(json.dumps(found, indent=1) + "\n")
