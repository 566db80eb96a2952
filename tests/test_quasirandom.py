"""Sobol points: PyTorch's, bit for bit."""

import hashlib

import pytest

import flambeau
from flambeau.quasirandom import SobolEngine

# digests of what PyTorch draws: 5 points, 300 in double precision, 3 after 7 were left out
DRAWS = [
    ((1, False, None), "6e78c206573f3de86d936f3de7a309ca"),
    ((5, True, 3), "348d487bcb5d67309028842213ece544"),
    ((1111, False, None), "9ae1d7c2e6ed70b6b92ae37eced87a2c"),
    ((200, True, 9), "dee29f9ab7202f88e3c64a40589c17cd"),
]


@pytest.mark.parametrize("arguments, digest", DRAWS)
def test_points_are_torchs(arguments, digest):
    engine = SobolEngine(*arguments)
    drawn = [engine.draw(5), engine.draw(300, dtype=flambeau.float64)]
    drawn.append(engine.fast_forward(7).draw(3))
    data = b"".join(t.double().numpy().tobytes() for t in drawn)
    assert hashlib.md5(data).hexdigest() == digest


def test_points_come_again_after_a_reset():
    engine = SobolEngine(3, scramble=True, seed=5)
    first = engine.draw_base2(3)
    assert flambeau.equal(engine.reset().draw(8), first) and engine.num_generated == 8
    assert repr(engine) == "SobolEngine(dimension=3, scramble=True, seed=5)"
    out = flambeau.empty(0, dtype=flambeau.float64)
    assert engine.draw(2, out=out) is out and out.shape == (2, 3)


@pytest.mark.parametrize(
    "use, kind, text",
    [
        (lambda: SobolEngine(0), ValueError, "Supported range of dimensionality"),
        (lambda: SobolEngine(2).draw(0), RuntimeError, "negative dimension -1: "),
        (lambda: SobolEngine(2).fast_forward(3).draw_base2(2), ValueError, "n=3\\+2\\*\\*2=7"),
    ],
)
def test_refusals(use, kind, text):
    with pytest.raises(kind, match=text):
        use()
