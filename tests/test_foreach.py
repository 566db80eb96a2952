"""`torch._foreach_...`: one op over lists of tensors, as optimizers of other packages use them."""

import pytest

import flambeau

CALLS = {
    "_foreach_add_": ["[b, b]", "[b, b], alpha=-0.5", "2.0", "[1.0, 2.0]"],
    "_foreach_add": ["[b, b]", "[b, b], alpha=3", "1", "[1.0, 2.0]"],
    "_foreach_sub_": ["[b, b]", "0.25"],
    "_foreach_mul_": ["0.9", "[b, b]", "[1.0, 2.0]", "b.sum()"],
    "_foreach_div": ["[b, b]", "4.0", "[1.0, 2.0]"],
    "_foreach_addcmul_": ["[b, b], [b, b], 0.5", "[b, b], [b, b], [1.0, 2.0]", "[b, b], [b, b]"],
    "_foreach_addcdiv_": ["[b, b], [b, b], value=0.5", "[b, b], [b, b], t([1.0, 2.0])"],
    "_foreach_lerp_": ["[b, b], 0.1", "[b, b], [b, b]"],
    "_foreach_maximum_": ["0.5", "[b, b]"],
    "_foreach_minimum": ["0.5", "[b, b]"],
    "_foreach_clamp_min_": ["0.1"],
    "_foreach_sqrt": [""],
    "_foreach_neg_": [""],
    "_foreach_reciprocal": [""],
    "_foreach_zero_": [""],
    "_foreach_pow": ["2.0", "[2.0, 3.0]"],
    "_foreach_norm": ["", "1"],
    "_foreach_copy_": ["[b, b]"],
    "_foreach_exp": [""],
    "_foreach_max": [""],
}
CASES = [(name, call) for name, calls in CALLS.items() for call in calls]


def outcome(package, name, call):
    tensors = [package.arange(1.0, 4.0), package.full((3,), 0.3)]
    names = {"b": package.tensor([0.5, 1.5, 2.5]), "t": package.tensor}
    call = eval(f"lambda function, tensors: function(tensors, {call})", names)
    found = call(getattr(package, name), tensors)
    return [t.tolist() for t in tensors], [t.tolist() for t in found]


@pytest.mark.parametrize(("name", "call"), CASES)
def test_lists_are_walked_alongside(name, call):
    after, found = outcome(flambeau, name, call)
    assert len(found) == 2 and (not name.endswith("_") or found == after)


@pytest.mark.oracle
@pytest.mark.parametrize(("name", "call"), CASES)
def test_results_are_those_of_pytorch(name, call):
    torch = pytest.importorskip("torch")
    (after, found), (after_there, found_there) = (
        outcome(package, name, call) for package in (flambeau, torch)
    )
    for ours, theirs in zip(after + found, after_there + found_there):
        assert ours == pytest.approx(theirs)


def test_an_update_by_hand():
    parameters = [flambeau.ones(2), flambeau.zeros(3)]
    gradients = [flambeau.full((2,), 2.0), flambeau.ones(3)]
    flambeau._foreach_add_(parameters, gradients, alpha=-0.5)
    assert parameters[0].tolist() == [0, 0] and parameters[1].tolist() == [-0.5] * 3


def test_refusals():
    with pytest.raises(RuntimeError, match="at least one tensor"):
        flambeau._foreach_add([], 1)
    with pytest.raises(RuntimeError, match="same number of tensors, got 1 and 2"):
        flambeau._foreach_add([flambeau.ones(1)], [flambeau.ones(1)] * 2)
    with pytest.raises(AttributeError):
        _ = flambeau._foreach_no_such_op


IN_PLACE = {
    "_foreach_add_": "1",
    "_foreach_exp_": "",
    "_foreach_zero_": "",
    "_foreach_copy_": "[b, b]",
    "_foreach_lerp_": "[b, b], 0.5",
    "_foreach_addcmul_": "[b, b], [b, b], scalars=[1, 2]",
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_the_list_itself_comes_back(name):
    tensors, b = [flambeau.ones(2), flambeau.ones(2)], flambeau.ones(2)
    found = eval(f"function(tensors, {IN_PLACE[name]})", {}, {
        "function": getattr(flambeau, name), "tensors": tensors, "b": b,
    })  # fmt: skip
    assert found is tensors


def test_numbers_to_the_powers_of_tensors_and_sums_of_powers():
    tensors = [flambeau.tensor([1.0, 3.0]), flambeau.tensor([2.0])]
    assert [t.tolist() for t in flambeau._foreach_pow(2, tensors)] == [[2.0, 8.0], [4.0]]
    assert [t.tolist() for t in flambeau._foreach_powsum(tensors, 2)] == [10.0, 4.0]


REFUSED = {
    "_foreach_add(l, [1.0])": "Tensor list must have same number of elements as scalar list.",
    "_foreach_add(l, l[:1])": "Tensor lists must have the same number of tensors, got 2 and 1",
    "_foreach_add(l, 1, alpha=2)": "_foreach_add() received an invalid combination of arguments - "
    "got (list, int, alpha=int), but expected one of:",
    "_foreach_add(l[0], 1)": "_foreach_add() received an invalid combination of arguments - "
    "got (Tensor, int), but expected one of:",
    "_foreach_mul(l, l[0])": "scalar tensor expected to be 0 dim but it has 1 dimensions and 2 "
    "elements.",
    "_foreach_exp()": '_foreach_exp() missing 1 required positional arguments: "self"',
    "_foreach_max([empty])": "_foreach_max cannot compute the maximum of an empty tensor; max over "
    "zero elements is undefined.",
    "_foreach_addcmul(l, l, l, three)": "Expected length of scalars to match input of length 2 but "
    "got 3 instead.",
    "_foreach_addcdiv(l, l, l, three.reshape(1, 3))": "Expected packed scalar Tensor to be of "
    "dimension 1. Got 2 instead.",
    "_foreach_addcdiv(l, l, l, three[::2])": "Expected scalars to be contiguous.",
}


@pytest.mark.parametrize("call", REFUSED)
def test_lists_that_do_not_fit_are_refused_in_pytorchs_words(call):
    names = {"l": [flambeau.ones(2), flambeau.ones(3)], "three": flambeau.ones(3)}
    with pytest.raises((RuntimeError, TypeError)) as found:
        eval("flambeau." + call, {"flambeau": flambeau, "empty": flambeau.ones(0), **names})
    assert str(found.value).partition("\n")[0] == REFUSED[call]
