"""Record what PyTorch says to bad calls of pooling functions, and the windows that it draws.

Run with PyTorch installed: python tests/golden/record_pooling.py
"""

import json
from pathlib import Path

import torch
import torch.nn.functional as functional

from tests.ops.pooling_cases import refusals


def drawn():
    """Indices of fractional pooling after a seed, per dtype."""
    found = {}
    for dims, shape in ((2, (2, 2, 9, 11)), (3, (2, 2, 7, 8, 9))):
        count = torch.Size(shape).numel()
        x = ((torch.arange(count) * 7919) % 1009).to(torch.float64).reshape(shape)
        for dtype in ("float32", "float64"):
            torch.manual_seed(5)
            pool = getattr(functional, f"fractional_max_pool{dims}d")
            _, indices = pool(x.to(getattr(torch, dtype)), 2, 4, return_indices=True)
            found[f"{dims} {dtype}"] = indices.tolist()
    return found


if __name__ == "__main__":
    record = {"refusals": refusals(torch, functional), "drawn": drawn()}
    path = Path(__file__).with_name("pooling.json")
    path.write_text(json.dumps(record, indent=None, separators=(",", ":")) + "\n")
