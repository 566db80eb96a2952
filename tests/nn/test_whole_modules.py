"""Whole modules through files: pickled by PyTorch and called here, and the other way round.

Such files name classes, so they load with weights_only=False only. States are in test_exchange.py.
"""

import numpy as np
import pytest

import flambeau
from tests.nn.layer_cases import call, make
from tests.nn.test_exchange import CASES, results, through_a_file

# the first case of every class
FIRST = list({case.partition("(")[0]: case for case in reversed(CASES)}.values())


@pytest.mark.oracle
@pytest.mark.parametrize("case", FIRST)
@pytest.mark.filterwarnings("ignore")  # PyTorch has deprecated some of its classes
def test_whole_modules_to_and_from_pytorch(case):
    torch = pytest.importorskip("torch")
    there, here = (torch, flambeau), (flambeau, torch)
    # PyTorch's recurrent modules keep more attributes than they need
    for writer, reader in (there,) if case.startswith(("RNN(", "LSTM(", "GRU(")) else (there, here):
        module = make(writer, case).eval()
        if "Lazy" in case:
            call(writer, module, case)
        back = through_a_file(module, writer, reader, weights_only=False)
        for a, b in zip(results(reader, back, case), results(writer, module, case), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=3e-6)
