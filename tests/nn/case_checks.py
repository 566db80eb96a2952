"""What is asked of every module of a list of cases (layer_cases.py says what a case is).

A golden file holds what PyTorch showed: checksums of arrays, texts, and the errors of calls that
are refused. Where PyTorch is installed, arrays are compared element by element.
"""

import copy
import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.nn.layer_cases import bits, call, digest, make, names, numbers, observe

GOLDEN = Path(__file__).parents[1] / "golden"


def recorded(name):
    return json.loads((GOLDEN / name).read_text())


def refusal(lib, text):
    """Type and first line of the error that a call ends in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            eval(text, names(lib)[1])
        except Exception as error:
            return [type(error).__name__, str(error).splitlines()[0]]
    return None


def record(lib, case):
    """What is kept of a case."""
    found = {}
    for name, value in observe(lib, case).items():
        if not isinstance(value, np.ndarray):
            found[name] = value
        else:
            found[name] = bits(value) if name.startswith("initial ") else digest(value)
    return found


def check_recorded(lib, case, want, scale=2e-5):
    got = record(lib, case)
    assert list(got) == list(want)
    for name, value in got.items():
        if isinstance(value, list) and len(value) == 4 and isinstance(value[0], list):
            size = want[name][1]
            assert value[0] == want[name][0], name
            assert value[1:] == pytest.approx(want[name][1:], abs=scale * size + 2e-6, rel=0), name
        else:
            assert value == want[name], name


def check_pytorch(lib, torch, case, rtol=2e-5, atol=3e-6):
    got, want = observe(lib, case), observe(torch, case)
    assert list(got) == list(want)
    for name, value in got.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_allclose(value, want[name], rtol=rtol, atol=atol, err_msg=name)
        else:
            assert value == want[name], name


def check_copies(lib, case):
    module = make(lib, case).eval()
    want = [numbers(t) for t in call(lib, module, case)[0]]
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert repr(other) == repr(module)
        assert list(other.state_dict()) == list(module.state_dict())
        assert not {*map(id, module.parameters())} & {*map(id, other.parameters())}
        for a, b in zip(want, call(lib, other, case)[0]):
            np.testing.assert_array_equal(a, numbers(b))


def check_exchange(lib, torch, case):
    """A state of PyTorch, loaded here, gives its results; and the other way round."""
    ours, theirs = make(lib, case, seed=1).eval(), make(torch, case, seed=2).eval()
    state = {k: lib.from_numpy(np.array(v.numpy())) for k, v in theirs.state_dict().items()}
    assert str(ours.load_state_dict(state)) == "<All keys matched successfully>"
    want = [numbers(t) for t in call(torch, theirs, case)[0]]
    for a, b in zip(call(lib, ours, case)[0], want):
        np.testing.assert_allclose(numbers(a), b, rtol=2e-5, atol=3e-6)
    theirs.load_state_dict(
        {k: torch.from_numpy(np.array(v.numpy())) for k, v in ours.state_dict().items()}
    )
