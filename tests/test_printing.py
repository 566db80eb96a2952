"""The text of a tensor is PyTorch's, letter for letter, and costs what is visible."""

import json
import pathlib
import time

import pytest

import flambeau
from flambeau import printing
from tests.printing_cases import Case, cases

RECORDED = json.loads((pathlib.Path(__file__).parent / "golden/printing.json").read_text())["cases"]


def _case(entry):
    shape = tuple(entry["shape"])
    values = entry["values"]
    if values is None:
        values = list(range(flambeau.Size(shape).numel()))
    elif entry["dtype"].startswith("complex"):
        values = [complex(*v) for v in values]
    return Case(values, shape, entry["dtype"], entry["requires_grad"], entry["options"])


@pytest.mark.parametrize("entry", RECORDED, ids=lambda e: f"{e['dtype']}-{e['shape']}")
def test_text_is_the_recorded_one(entry):
    with printing.printoptions(**entry["options"]):
        assert repr(_case(entry).build(flambeau)) == entry["text"]


@pytest.mark.parametrize(
    "make, text",
    [
        (
            lambda t: t.tensor([1.0, 2.0], requires_grad=True),
            "tensor([1., 2.], requires_grad=True)",
        ),
        (
            lambda t: t.tensor([1.0, 2.0], requires_grad=True) * 2,
            "tensor([2., 4.], grad_fn=<MulBackward0>)",
        ),
        (lambda t: t.empty(2, 3, device="meta"), "tensor(..., device='meta', size=(2, 3))"),
        (
            lambda t: t.empty(2, device="meta", dtype=t.int64),
            "tensor(..., device='meta', size=(2,), dtype=torch.int64)",
        ),
        (lambda t: t.zeros(0), "tensor([])"),
        (lambda t: t.zeros(0, 3), "tensor([], size=(0, 3))"),
        (lambda t: t.zeros(0, dtype=t.int64), "tensor([], dtype=torch.int64)"),
        (lambda t: t.tensor(True), "tensor(True)"),
        (lambda t: t.tensor([1, 2], dtype=t.int8), "tensor([1, 2], dtype=torch.int8)"),
        (lambda t: t.tensor(1 - 2j), "tensor(1.-2.j)"),
        (lambda t: t.tensor([[1, 2], [3, 4]]).t(), "tensor([[1, 3],\n        [2, 4]])"),
    ],
)
def test_suffixes_say_what_the_numbers_do_not(make, text):
    assert repr(make(flambeau)) == text


def test_default_dtype_is_not_said():
    flambeau.set_default_dtype(flambeau.float64)
    try:
        assert repr(flambeau.tensor([1.5])) == "tensor([1.5000])"
        single = flambeau.tensor([1.5], dtype=flambeau.float32)
        assert repr(single) == "tensor([1.5000], dtype=torch.float32)"
    finally:
        flambeau.set_default_dtype(flambeau.float32)


def test_a_subclass_prints_under_its_own_name():
    class Weights(flambeau.Tensor):
        pass

    assert repr(flambeau.ones(2).as_subclass(Weights)) == "Weights([1., 1.])"


def test_contents_can_be_replaced():
    t = flambeau.ones(2, requires_grad=True)
    assert printing.tensor_repr(t, tensor_contents="...") == "tensor(..., requires_grad=True)"


def test_a_huge_tensor_costs_only_its_corners():
    start = time.perf_counter()
    text = repr(flambeau.zeros(1, 1).expand(200_000, 200_000))
    assert text.count("0.") == 36
    assert time.perf_counter() - start < 2


def test_options_are_restored_and_sci_mode_is_forgotten():
    before = printing.get_printoptions()
    with printing.printoptions(precision=1, sci_mode=True):
        assert repr(flambeau.tensor([1.25])) == "tensor([1.2e+00])"
        flambeau.set_printoptions(precision=2)
        assert repr(flambeau.tensor([1.25])) == "tensor([1.25])"
    assert printing.get_printoptions() == before


def test_unknown_profile_changes_nothing():
    before = printing.get_printoptions()
    flambeau.set_printoptions(profile="loud")
    assert printing.get_printoptions() == before


def test_format_of_one_number_is_the_number():
    assert f"{flambeau.tensor(3.14159):.2f}" == "3.14"
    assert f"{flambeau.tensor(7):>4d}" == "   7"
    assert f"{flambeau.tensor(2.0, requires_grad=True):.1f}" == "2.0"
    assert f"{flambeau.tensor([1.0])}" == "tensor([1.])"
    assert f"{flambeau.ones((), device='meta')}" == "tensor(..., device='meta', size=())"


def test_format_of_many_numbers_takes_no_spec():
    with pytest.raises(TypeError, match="unsupported format string passed to Tensor"):
        f"{flambeau.ones(2):.2f}"


@pytest.mark.oracle
def test_text_equals_torch_on_generated_tensors():
    torch = pytest.importorskip("torch")
    for index, case in enumerate(cases(2000, seed=1)):
        with torch._tensor_str.printoptions(**case.options), printing.printoptions(**case.options):
            theirs, ours = repr(case.build(torch)), repr(case.build(flambeau))
        assert ours == theirs, f"case {index}: {case.dtype} {case.shape} {case.options}"
