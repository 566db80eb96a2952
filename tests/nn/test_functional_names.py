"""nn.functional has PyTorch's functions, with its parameters in its order and its defaults."""

import inspect
import json
import pickle
from pathlib import Path

import pytest

import flambeau
from flambeau.nn import functional as F

RECORDED = json.loads((Path(__file__).parents[1] / "golden/functional_names.json").read_text())
FUNCTIONS = RECORDED["functions"]

# products of numbers of eight bits, and the two enumerations of how they are scaled
LEFT_OUT = {"scaled_grouped_mm"}
# accepted here beyond what PyTorch takes, or in more ways
MORE = {
    "adaptive_avg_pool2d": {"return_indices"},
    "adaptive_avg_pool3d": {"return_indices"},
    "avg_pool1d": {"divisor_override"},
    "layer_norm": {"cudnn_enable"},
}
POSITIONAL_TOO = {"scaled_dot_product_attention": {"scale", "enable_gqa"}}


def test_all_functions_are_there():
    assert {name for name in FUNCTIONS if not hasattr(F, name)} == LEFT_OUT


def parameters(name):
    """[[name, how it is given, default as text]] of a function here."""
    found = []
    for p in inspect.signature(getattr(F, name)).parameters.values():
        if p.kind is p.VAR_KEYWORD or p.name in MORE.get(name, ()):
            continue
        if p.name == "out" and not any(k == "out" for k, _, _ in FUNCTIONS[name]):
            continue
        required = p.default is p.empty or repr(p.default) == "REQUIRED"
        by_name = p.kind is p.KEYWORD_ONLY or p.name in POSITIONAL_TOO.get(name, ())
        found.append((p.name, "keyword" if by_name else "any", required, p.default))
    return found


SIGNED = [name for name, told in FUNCTIONS.items() if told is not None and name not in LEFT_OUT]


@pytest.mark.parametrize("name", SIGNED)
def test_parameters_are_pytorchs(name):
    got = parameters(name)
    want = FUNCTIONS[name]
    assert [k for k, *_ in got] == [k for k, *_ in want]
    for (key, how, required, default), (_, same_how, same_default) in zip(got, want):
        assert key == "out" or how == same_how, key
        assert required == (same_default is None), key
        if not required:
            assert default == eval(same_default, {"torch": flambeau}), key


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - LEFT_OUT))
def test_a_function_is_found_again_by_its_name(name):
    function = getattr(F, name)
    assert pickle.loads(pickle.dumps(function)) is function


def test_the_namespace_lists_them():
    assert set(FUNCTIONS) - LEFT_OUT - set(dir(F)) <= {n for n in FUNCTIONS if n.endswith("_")}


@pytest.mark.oracle
def test_the_record_is_that_of_this_pytorch():
    torch = pytest.importorskip("torch")
    if torch.__version__ != RECORDED["torch"]:
        pytest.skip("another version")
    missing = [name for name in FUNCTIONS if not hasattr(torch.nn.functional, name)]
    assert not missing
