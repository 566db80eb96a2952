"""Records what PyTorch makes of programs that load data: writes loading.json beside this file.

The programs are those of tests/data/loading_cases.py.
"""

import json
import pathlib
import sys
import warnings

import torch

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.data.loading_cases import ALL, program  # noqa: E402
from tests.snippets import outcome  # noqa: E402

warnings.simplefilter("ignore")
sections = [f'"torch": "{torch.__version__}"']
for name, snippets in ALL.items():
    recorded = {snippet: outcome(torch, program(snippet)) for snippet in snippets}
    lines = ",\n".join(f"{json.dumps(s)}: {json.dumps(o)}" for s, o in recorded.items())
    sections.append(f'"{name}": {{\n{lines}\n}}')
    print(len(recorded), name)
(HERE / "loading.json").write_text("{" + ",\n".join(sections) + "}\n")
