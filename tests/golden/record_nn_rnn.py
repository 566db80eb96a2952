"""Record what recurrent modules and packing of PyTorch give, in nn_rnn.json.

Run with PyTorch installed: python -m tests.golden.record_nn_rnn
"""

import json
from pathlib import Path

import torch

from tests.nn import case_checks as checks
from tests.nn.layer_cases import bits, differentiate, flat, names, numbers
from tests.nn.rnn_cases import CASES, ERRORS, PACKING, PACKING_ERRORS


def packed(call):
    inputs, known = names(torch)
    found = [t for t in flat(eval(call, {**known, "R": torch.nn.utils.rnn})) if t is not None]
    results = [numbers(t) for t in found]
    differentiate(found)
    arrays = results + [numbers(t.grad) for t in inputs.made if t.grad is not None]
    return [[list(a.shape), bits(a)] for a in arrays]


def lines(entries):
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in entries.items())
    return "{\n" + text + "\n}"


if __name__ == "__main__":
    errors = {call: checks.refusal(torch, call) for call in ERRORS}
    for call in PACKING_ERRORS:
        errors[call] = checks.refusal(torch, call.replace("R.", "utils.rnn."))
    assert all(errors.values()), [call for call, error in errors.items() if not error]
    parts = {
        "cases": lines({case: checks.record(torch, case) for case in CASES}),
        "packing": lines({call: packed(call) for call in PACKING}),
        "errors": lines(errors),
    }
    text = ",\n".join(f'"{name}": {part}' for name, part in parts.items())
    Path(__file__).with_name("nn_rnn.json").write_text("{" + text + "}\n")
