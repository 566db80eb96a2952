"""Records what torchvision's models look like: writes models.json beside this.

The questions are those of tests/vision/model_cases.py.
"""

import json
import pathlib
import sys

import torch
import torchvision
from torchvision import models

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.vision import model_cases as cases  # noqa: E402

structures, variants, values = {}, {}, {}
for name in cases.names(models):
    with torch.device("meta") if not name.startswith("regnet") else cases.quiet():
        structures[name] = cases.structure(cases.build(models, name))
for name, options in cases.VARIANTS:
    model = cases.build(models, name, **options)
    variants[f"{name} {json.dumps(options)}"] = cases.structure(model)
for name in cases.SMALL:
    torch.manual_seed(cases.SEED)
    values[name] = cases.values(cases.build(models, name))

recorded = {"structures": structures, "variants": variants, "values": values}
recorded["weights"] = cases.weights_of(models)
sections = [f'"torchvision": "{torchvision.__version__}"']
for section, answers in recorded.items():
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(a)}" for name, a in answers.items())
    sections.append(f'"{section}": {{\n{lines}\n}}')
(HERE / "models.json").write_text("{" + ",\n".join(sections) + "}\n")
print({section: len(answers) for section, answers in recorded.items()})
