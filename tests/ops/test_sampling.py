"""Random numbers are PyTorch's: values, generator states and errors, recorded and live."""

import copy
import hashlib
import json
import math
import pickle
import re
import warnings
from pathlib import Path

import pytest

import flambeau
from flambeau.runtime import cpu
from tests.ops import sampling_cases as cases

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "sampling.json").read_text())


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def raw(tensor):
    """The elements' bytes in row-major order."""
    tensor = tensor.detach().contiguous()
    return cpu.read_bytes(tensor.data_ptr(), tensor.nbytes) if tensor.numel() else b""


def state():
    return raw(flambeau.get_rng_state())


def draw(call, seed=GOLDEN["seed"]):
    flambeau.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # floats past their integers: tested on its own
        return eval(call, {"torch": flambeau})


@pytest.mark.parametrize("call", cases.EXACT)
def test_draws_the_recorded_bits(call):
    out, wanted = draw(call), GOLDEN["exact"][call]
    assert str(out.dtype) == wanted["dtype"]
    assert list(out.shape) == wanted["shape"]
    assert digest(raw(out)) == wanted["bytes"]
    assert digest(state()) == wanted["state"]


@pytest.mark.parametrize("call", cases.NEAR)
def test_draws_the_recorded_values(call):
    out, wanted = draw(call), GOLDEN["near"][call]
    assert str(out.dtype) == wanted["dtype"]
    assert list(out.shape) == wanted["shape"]
    flat = flambeau.view_as_real(out) if out.dtype.is_complex else out
    values = flat.to(flambeau.float64).flatten().tolist()
    unit = 2 * flambeau.finfo(out.dtype).eps if out.dtype.category >= 2 else 0.0
    for ours, theirs in zip(values, wanted["values"], strict=True):
        assert ours == theirs or math.isclose(ours, theirs, rel_tol=unit), (ours, theirs)


def sentence(message):
    return re.split(r"(?<=\.)\s", message, maxsplit=1)[0]


@pytest.mark.parametrize("call", cases.ERRORS)
def test_refuses_in_pytorchs_words(call):
    kind, message = GOLDEN["errors"][call]
    with pytest.raises(Exception) as caught:
        eval(call, {"torch": flambeau})
    assert type(caught.value).__name__ == kind
    assert str(caught.value).startswith(sentence(message))


@pytest.mark.oracle
@pytest.mark.parametrize("seed", [0, 1234567, -1, 2**64 - 5])
@pytest.mark.parametrize("kind", ["EXACT", "NEAR"])
def test_draws_what_pytorch_draws(kind, seed):
    torch = pytest.importorskip("torch")
    wrong = []
    for call in getattr(cases, kind):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(seed)
            theirs = eval(call, {"torch": torch}).contiguous().flatten()
        bits = theirs.view(torch.uint8).numpy().tobytes() if theirs.numel() else b""
        ours = raw(draw(call, seed))
        if ours != bits or state() != torch.get_rng_state().numpy().tobytes():
            wrong.append(call)
    assert not wrong


@pytest.mark.oracle
@pytest.mark.parametrize("n", [100_003, 1_000_000])
def test_long_draws_are_pytorchs(n):
    torch = pytest.importorskip("torch")
    calls = [f"torch.rand({n})", f"torch.randn({n})", f"torch.randperm({n})"]
    calls += [f"torch.randint(0, 1000, ({n},))", f"torch.empty({n}).bernoulli_(0.1)"]
    for call in calls:
        torch.manual_seed(3)
        theirs = eval(call, {"torch": torch}).view(torch.uint8).numpy().tobytes()
        assert raw(draw(call, 3)) == theirs, call


@pytest.mark.oracle
def test_state_travels_between_both():
    torch = pytest.importorskip("torch")
    torch.manual_seed(5)
    torch.randn(3)  # leaves a normal number waiting
    saved = bytearray(torch.get_rng_state().numpy().tobytes())
    flambeau.set_rng_state(flambeau.frombuffer(saved, dtype=flambeau.uint8))
    assert raw(flambeau.randn(7)) == torch.randn(7).view(torch.uint8).numpy().tobytes()
    flambeau.rand(1000)
    torch.set_rng_state(torch.frombuffer(bytearray(state()), dtype=torch.uint8))
    assert raw(flambeau.rand(9)) == torch.rand(9).view(torch.uint8).numpy().tobytes()


def test_state_continues_the_stream():
    flambeau.manual_seed(1)
    flambeau.randn(5)
    saved = flambeau.get_rng_state()
    first = raw(flambeau.randn(9)), raw(flambeau.rand(700))
    flambeau.set_rng_state(saved)
    assert (raw(flambeau.randn(9)), raw(flambeau.rand(700))) == first


def test_fork_rng_leaves_the_stream_alone():
    flambeau.manual_seed(1)
    wanted = raw(flambeau.rand(4))
    flambeau.manual_seed(1)
    with flambeau.random.fork_rng():
        flambeau.manual_seed(2)
        flambeau.rand(1000)
    assert raw(flambeau.rand(4)) == wanted
    with flambeau.random.fork_rng(enabled=False):
        flambeau.manual_seed(7)
    assert flambeau.initial_seed() == 7


def test_generators_are_independent_streams():
    one, two = flambeau.Generator().manual_seed(3), flambeau.Generator().manual_seed(3)
    flambeau.manual_seed(3)
    before = state()
    a, b = flambeau.randn(20, generator=one), flambeau.empty(20).normal_(generator=two)
    assert raw(a) == raw(b)
    assert state() == before
    assert flambeau.Generator().initial_seed() == 67280421310721


def test_a_generator_can_be_copied_and_pickled():
    g = flambeau.Generator().manual_seed(9)
    flambeau.randn(3, generator=g)
    copies = [copy.deepcopy(g), pickle.loads(pickle.dumps(g)), g.clone_state()]
    wanted = raw(flambeau.randn(5, generator=g))
    assert all(raw(flambeau.randn(5, generator=c)) == wanted for c in copies)


def test_seeds_may_be_negative():
    assert flambeau.manual_seed(-1).initial_seed() == 2**64 - 1
    assert flambeau.manual_seed(-(2**63)).initial_seed() == 2**63
    assert flambeau.seed() == flambeau.initial_seed()


def test_a_state_that_points_past_its_end_is_refused():
    saved = bytearray(raw(flambeau.Generator().get_state()))
    saved[8], saved[9] = 600 & 255, 600 >> 8  # left
    saved[16], saved[17] = 600 & 255, 600 >> 8  # next
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        flambeau.Generator().set_state(flambeau.frombuffer(saved, dtype=flambeau.uint8))


def test_filling_counts_as_a_write_and_cuts_the_graph():
    leaf = flambeau.ones(20, requires_grad=True)
    x = leaf * 2
    version = x._version
    x.uniform_()
    assert x._version == version + 1
    assert x.grad_fn.name() == "UniformBackward0"
    x.sum().backward()
    assert leaf.grad.tolist() == [0.0] * 20


def test_dropout_passes_gradients_where_it_kept():
    flambeau.manual_seed(0)
    x = flambeau.ones(50, requires_grad=True)
    y = flambeau.dropout(x, 0.5, True)
    y.sum().backward()
    assert raw(x.grad) == raw(y)
    assert flambeau.dropout(x, 0.5, False) is x


def test_a_float_cannot_hold_all_integers():
    with pytest.warns(UserWarning, match="to - 1 is out of bounds"):
        flambeau.empty(3).random_(2**25)


def test_meta_tensors_draw_nothing():
    flambeau.manual_seed(0)
    before = state()
    assert flambeau.rand(2, 3, device="meta").shape == (2, 3)
    assert flambeau.empty(3, device="meta").normal_().device.type == "meta"
    assert flambeau.multinomial(flambeau.empty(3, device="meta"), 2).shape == (2,)
    assert state() == before


def test_moments_are_those_of_the_distribution():
    """An independent look: means and variances of large samples."""
    n = 40_000
    e = lambda: flambeau.empty(n, dtype=flambeau.float64)
    full = lambda value: flambeau.full((n,), value)
    expected = {
        "uniform": (e().uniform_(-1, 3), 1, 16 / 12),
        "normal": (e().normal_(2, 3), 2, 9),
        "exponential": (e().exponential_(2), 0.5, 0.25),
        "geometric": (e().geometric_(0.25), 4, 12),
        "bernoulli": (e().bernoulli_(0.3), 0.3, 0.21),
        "poisson": (flambeau.poisson(full(30.0)), 30, 30),
        "binomial": (flambeau.binomial(full(50.0), full(0.4)), 20, 12),
        "gamma": (flambeau._standard_gamma(full(2.5)), 2.5, 2.5),
    }  # fmt: skip
    for name, (sample, mean, variance) in expected.items():
        values = sample.tolist()
        found = math.fsum(values) / n
        spread = math.fsum((v - found) ** 2 for v in values) / n
        assert abs(found - mean) < 6 * math.sqrt(variance / n), name
        assert abs(spread / variance - 1) < 0.12, name


# -- calls like one before -------------------------------------------------------------------------

AGAIN = {
    "rand": lambda t, g: t.rand(3, 5, generator=g),
    "rand of a tuple": lambda t, g: t.rand((3, 5), generator=g),
    "randn, few": lambda t, g: t.randn(3, generator=g),
    "randn, many": lambda t, g: t.randn(5, 5, generator=g, dtype=t.float64),
    "randint": lambda t, g: t.randint(-3, 9, (7,), generator=g),
    "randint, one bound": lambda t, g: t.randint(9, (7,), generator=g),
    "randperm": lambda t, g: t.randperm(9, generator=g),
}


@pytest.mark.parametrize("name", AGAIN)
def test_a_call_like_one_before_goes_on_with_the_stream(name):
    draw = AGAIN[name]
    g = flambeau.Generator().manual_seed(5)
    found = [draw(flambeau, g).tolist() for _ in range(3)]
    assert found[0] != found[1] != found[2]
    g.manual_seed(5)
    assert [draw(flambeau, g).tolist() for _ in range(3)] == found


@pytest.mark.oracle
@pytest.mark.parametrize("name", AGAIN)
def test_calls_in_a_row_draw_what_pytorch_draws(name):
    torch = pytest.importorskip("torch")
    ours, theirs = (t.Generator().manual_seed(5) for t in (flambeau, torch))
    for _ in range(3):
        assert AGAIN[name](flambeau, ours).tolist() == AGAIN[name](torch, theirs).tolist()


def test_what_was_remembered_for_a_size_is_not_used_for_what_equals_it():
    flambeau.rand(1), flambeau.randperm(1), flambeau.zeros(1), flambeau.full((1,), 1.0)
    for call in (
        lambda: flambeau.rand(1.0),
        lambda: flambeau.rand([1.0]),
        lambda: flambeau.zeros(1.0),
        lambda: flambeau.rand(1, dtype=[]),
        lambda: flambeau.zeros(1, device=[]),
        lambda: flambeau.full(((1,),), 1.0),
        lambda: flambeau.rand(1, generator=1),
    ):
        with pytest.raises(TypeError):
            call()
    with flambeau.device("meta"):
        assert flambeau.rand(1).is_meta and flambeau.zeros(1).is_meta and flambeau.empty(1).is_meta
    assert flambeau.full((1,), 1).dtype is flambeau.int64


def test_a_default_dtype_is_not_remembered():
    flambeau.rand(2), flambeau.zeros(2), flambeau.eye(2), flambeau.linspace(0, 1, 2)
    flambeau.set_default_dtype(flambeau.float64)
    try:
        made = flambeau.rand(2), flambeau.zeros(2), flambeau.eye(2), flambeau.linspace(0, 1, 2)
        assert all(t.dtype is flambeau.float64 for t in made)
    finally:
        flambeau.set_default_dtype(flambeau.float32)


def test_a_generator_that_was_copied_before_its_first_draw():
    g = flambeau.Generator().manual_seed(7)
    twins = copy.deepcopy(g), pickle.loads(pickle.dumps(g)), g.clone_state()
    expected = flambeau.rand(3, generator=g).tolist()
    assert all(flambeau.rand(3, generator=t).tolist() == expected for t in twins)
    flambeau.manual_seed(7)
    with flambeau.random.fork_rng():
        assert flambeau.rand(3).tolist() == expected
    assert flambeau.rand(3).tolist() == expected


WRITERS = {
    "normal_": lambda t: t.normal_(),
    "uniform_": lambda t: t.uniform_(),
    "bernoulli_": lambda t: t.bernoulli_(),
    "geometric_": lambda t: t.geometric_(0.5),
    "dropout": lambda t: flambeau.nn.functional.dropout(t, 0.5, inplace=True),
}


@pytest.mark.parametrize("name", WRITERS)
def test_views_made_without_gradients_are_filled(name):
    for wants in (False, True):
        with flambeau.no_grad():
            part = flambeau.full((64,), 7.0, requires_grad=wants)[::2]
        if wants:
            with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
                WRITERS[name](part)
        else:
            WRITERS[name](part)
        assert (part.detach() == 7).all() == wants
