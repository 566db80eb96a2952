"""Records what PyTorch makes of the snippets about tensors: writes two files beside this one.

front.json has the snippets of tests/dtype_cases.py, tensor_cases.py, creation_cases.py and
complex32_cases.py, shapes.json those of tests/shape_cases.py.
"""

import json
import pathlib
import sys
import warnings

import torch

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests import (  # noqa: E402
    complex32_cases,
    creation_cases,
    dtype_cases,
    shape_cases,
    tensor_cases,
)
from tests.snippets import outcome  # noqa: E402

FILES = {
    "front.json": (complex32_cases, creation_cases, dtype_cases, tensor_cases),
    "shapes.json": (shape_cases,),
}

warnings.simplefilter("ignore")
for file, groups in FILES.items():
    sections = [f'"torch": "{torch.__version__}"']
    for cases in groups:
        name = cases.__name__.rpartition(".")[2].removesuffix("_cases")
        recorded = {snippet: outcome(torch, snippet) for snippet in cases.SNIPPETS}
        lines = ",\n".join(f"{json.dumps(s)}: {json.dumps(o)}" for s, o in recorded.items())
        sections.append(f'"{name}": {{\n{lines}\n}}')
        print(len(recorded), name)
    (HERE / file).write_text("{" + ",\n".join(sections) + "}\n")
