"""Records what PyTorch's distributions answer: python tests/golden/record_distributions.py

Numbers are kept to 13 digits. Record on a processor that is not Intel's: there PyTorch draws
exponential numbers from another library's generator.
"""

import json
import math
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.distributions.cases import CASES, Parameters, answers
from tests.distributions.divergence_cases import MEMBERS, divergences
from tests.distributions.refusals import REFUSALS, said


def short(x):
    if isinstance(x, (list, tuple)):
        return [short(y) for y in x]
    if isinstance(x, dict):
        return {name: short(y) for name, y in x.items()}
    return float(f"{x:.13g}") if isinstance(x, float) and math.isfinite(x) else x


pairs = {}
for p in MEMBERS:
    for q in MEMBERS:
        found = divergences(p, q, torch, Parameters)
        if set(map(str, found)) != {"NotImplementedError"}:
            pairs[f"{p} {q}"] = found
recorded = {
    "answers": {name: answers(name, torch) for name in CASES},
    "divergences": pairs,
    "refusals": {n: said(action, torch.distributions, torch) for n, action in REFUSALS.items()},
}
path = Path(__file__).with_name("distributions.json")
path.write_text(json.dumps(short(recorded), indent=None, separators=(",", ":")) + "\n")
