"""Records what PyTorch makes of the snippets about tensors: writes front.json beside this file.

The snippets are those of tests/dtype_cases.py, tensor_cases.py, creation_cases.py and
complex32_cases.py.
"""

import json
import pathlib
import sys
import warnings

import torch

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests import complex32_cases, creation_cases, dtype_cases, tensor_cases  # noqa: E402
from tests.snippets import outcome  # noqa: E402

warnings.simplefilter("ignore")
sections = []
for cases in (complex32_cases, creation_cases, dtype_cases, tensor_cases):
    name = cases.__name__.rpartition(".")[2].removesuffix("_cases")
    recorded = {snippet: outcome(torch, snippet) for snippet in cases.SNIPPETS}
    lines = ",\n".join(f"{json.dumps(s)}: {json.dumps(o)}" for s, o in recorded.items())
    sections.append(f'"{name}": {{\n{lines}\n}}')
    print(len(recorded), name)
head = f'"torch": "{torch.__version__}"'
(HERE / "front.json").write_text("{" + ",\n".join([head, *sections]) + "}\n")
