"""Records what PyTorch's autograd.functional and gradcheck say: writes autograd.json beside this.

The calls are those of tests/autograd/functional_cases.py (every ninth) and gradcheck_cases.py.
"""

import json
import pathlib
import sys
import warnings

import torch

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.autograd import functional_cases, gradcheck_cases  # noqa: E402

warnings.simplefilter("ignore")
recorded = {
    "functional": {
        case.name: functional_cases.outcome(torch, case) for case in functional_cases.cases()[::9]
    },
    "gradcheck": {
        case.name: gradcheck_cases.outcome(torch, case) for case in gradcheck_cases.cases()
    },
}
sections = []
for section, outcomes in recorded.items():
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(o)}" for name, o in outcomes.items())
    sections.append(f'"{section}": {{\n{lines}\n}}')
head = f'"torch": "{torch.__version__}"'
(HERE / "autograd.json").write_text("{" + ",\n".join([head, *sections]) + "}\n")
print({section: len(outcomes) for section, outcomes in recorded.items()})
