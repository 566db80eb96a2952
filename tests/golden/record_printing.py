"""Records how PyTorch prints: run with PyTorch installed, writes printing.json beside this file.

Each entry holds the tensor as plain data and the text. Complex numbers are (real, imag) pairs; an
entry without values is `arange` in the given shape, which keeps the summarised ones short.
"""

import json
import math
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.printing_cases import OPTIONS, SHAPES, Case, cases  # noqa: E402


def entry(case: Case) -> dict:
    with torch._tensor_str.printoptions(**case.options):
        text = repr(case.build(torch))
    values = [[v.real, v.imag] if isinstance(v, complex) else v for v in case.values]
    return case._asdict() | {"values": values, "text": text}


def ranges():
    large = [shape for shape in SHAPES if math.prod(shape) > 1000]
    for index, shape in enumerate(large * 3):
        dtype = ("float32", "int64", "float64")[index % 3]
        options = OPTIONS[index % len(OPTIONS)]
        if options.get("profile") != "full":
            values = list(range(math.prod(shape)))
            yield entry(Case(values, shape, dtype, False, options)) | {"values": None}


small = [case for case in cases(900) if len(case.values) <= 40][:300]
entries = [entry(case) for case in small] + list(ranges())
lines = ",\n".join(json.dumps(e, separators=(",", ":")) for e in entries)
(HERE / "printing.json").write_text(f'{{"torch": "{torch.__version__}", "cases": [\n{lines}\n]}}\n')
print(len(entries), "texts")
