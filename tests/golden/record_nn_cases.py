"""Record what losses and transformers of PyTorch give, in nn_losses.json, nn_transformer.json.

Run with PyTorch installed: python -m tests.golden.record_nn_cases
"""

import json
from pathlib import Path

import torch

from tests.nn import case_checks as checks
from tests.nn import loss_cases, transformer_cases


def lines(entries):
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in entries.items())
    return "{\n" + text + "\n}"


def write(name, cases):
    errors = {call: checks.refusal(torch, call) for call in cases.ERRORS}
    assert all(errors.values()), [call for call, error in errors.items() if not error]
    found = {case: checks.record(torch, case) for case in cases.CASES}
    text = f'{{"cases": {lines(found)},\n"errors": {lines(errors)}}}\n'
    Path(__file__).with_name(name).write_text(text)


if __name__ == "__main__":
    write("nn_losses.json", loss_cases)
    write("nn_transformer.json", transformer_cases)
