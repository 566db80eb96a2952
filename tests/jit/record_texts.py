"""Writes texts.json: what PyTorch says of the programs in programs.py and bad_programs.py.

Run with an installed PyTorch: python -m tests.jit.record_texts
"""

import json
import warnings

import torch

from tests.jit.loading import HERE, fill, normal_graph, programs


def main():
    warnings.simplefilter("ignore")
    found = {"code": {}, "graph": {}, "errors": {}}
    listed = programs("torch")
    for program, _ in [*listed.FUNCTIONS, *listed.MODULES]:
        name = program.__name__
        if isinstance(program, type):
            program = fill(program()).eval()
        scripted = torch.jit.script(program)
        found["code"][name] = scripted.code
        found["graph"][name] = normal_graph(str(scripted.graph))
    for function in programs("torch", "bad_programs").FUNCTIONS:
        try:
            torch.jit.script(function)
        except Exception as error:
            kind = "RuntimeError" if isinstance(error, RuntimeError) else type(error).__name__
            first = str(error).strip().splitlines()[0].strip()
            found["errors"][function.__name__] = [kind, first]
    (HERE / "texts.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
