"""Records how PyTorch prints the programs in tests/fx/cases.py: python record_fx.py."""

import json
import pathlib
import sys
import warnings

import torch

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

from tests.fx import cases, edit_cases, layer_cases  # noqa: E402


def main():
    warnings.simplefilter("ignore")
    found = {
        "texts": {program: cases.texts(torch, program) for program in cases.PROGRAMS},
        "said": {program: cases.said(torch, program) for program in cases.REFUSED},
        "fixed": [cases.fixed_texts(torch, *pair) for pair in cases.FIXED],
        "functional": cases.functional_texts(torch),
        "layers": {
            text: layer_cases.seen_through(torch, text)
            for text in (*layer_cases.LAYERS, *layer_cases.LEAVES)
        },
        "done": {text: layer_cases.done(torch, text) for text in layer_cases.DONE},
        "ops": {text: layer_cases.ops(torch, text) for text in layer_cases.OPS},
        "edits": {name: edit_cases.edited(torch, name) for name in edit_cases.EDITS},
    }
    (HERE / "fx.json").write_text(json.dumps(found, indent=1, default=sorted) + "\n")


if __name__ == "__main__":
    main()
