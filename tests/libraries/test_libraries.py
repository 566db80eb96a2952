"""Libraries that live on torch, untouched, through the runner: PyTorch's numbers.

`pytest tests/libraries -m libraries` makes an environment for them first, which takes a while.
"""

import pytest

from tests.libraries import comparing, environment

pytestmark = pytest.mark.libraries


@pytest.fixture(scope="session")
def python():
    return environment.python()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.xfail(reason=comparing.KNOWN[name])])
        if name in comparing.KNOWN
        else name
        for name in comparing.names()
    ],
)
def test_programs_give_torchs_numbers(name, python):
    text, errors = comparing.run(name, python)
    assert not errors, errors[-3000:]
    different = comparing.differences(text, comparing.recorded(name))
    assert not different, "\n".join(different)
