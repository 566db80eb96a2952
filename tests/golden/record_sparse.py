"""Records what PyTorch says of sparse tensors: writes sparse.json beside this.

The calls are those of tests/sparse/sparse_cases.py.
"""

import json
import pathlib
import sys
import warnings

import torch

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.sparse import sparse_cases as cases  # noqa: E402

warnings.simplefilter("ignore")
recorded = {
    "torch": torch.__version__,
    "texts": {text: cases.outcome(torch, text) for text in cases.EXPRESSIONS},
    "numbers": cases.numbers(torch),
    "embeddings": {name: cases.embedding_losses(torch, name) for name in cases.OPTIMIZERS},
    "networks": {name: cases.network_losses(torch, name) for name in ("GCN", "GAT")},
}
(HERE / "sparse.json").write_text(json.dumps(recorded, indent=0) + "\n")
print({name: len(part) for name, part in recorded.items()})
