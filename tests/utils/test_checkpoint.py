"""Checkpointing: the same gradients with less memory.

The programs are written once and run with either library: their results are compared with the plain
computation always, and with PyTorch where it is installed.
"""

import contextlib
import warnings
import weakref

import pytest

import flambeau


def plain(value):
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def net(torch):
    torch.manual_seed(3)
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)
    )


def gradients(torch, run):
    """Output and gradients of one training step; run(model, x) is the forward."""
    model = net(torch)
    x = torch.randn(5, 4, requires_grad=True)
    y = run(model, x)
    (y * y).sum().backward()
    after = torch.rand(2)  # random numbers must go on as if nothing had been run twice
    return [y, x.grad, [p.grad for p in model.parameters()], after]


def ways(torch):
    checkpoint = torch.utils.checkpoint.checkpoint
    sequential = torch.utils.checkpoint.checkpoint_sequential

    def twice(model, x, **kwargs):
        h = checkpoint(model[:3], x, **kwargs)
        return checkpoint(model[3:], h, **kwargs)

    def nested(model, x, **kwargs):
        def outer(x):
            h = checkpoint(model[1:3], model[0](x), **kwargs)
            return checkpoint(model[3:5], h, **kwargs)

        return model[5](checkpoint(outer, x, **kwargs))

    def three_deep(model, x, **kwargs):
        def inner(h):
            return checkpoint(model[2:4], checkpoint(model[1], h, **kwargs), **kwargs)

        def outer(x):
            return model[5](checkpoint(lambda h: model[4](inner(h)), model[0](x), **kwargs))

        return checkpoint(outer, x, **kwargs)

    found = {}
    for use in (True, False):
        options = {"use_reentrant": use}
        found["whole", use] = lambda m, x, o=options: checkpoint(m, x, **o)
        found["twice", use] = lambda m, x, o=options: twice(m, x, **o)
        found["nested", use] = lambda m, x, o=options: nested(m, x, **o)
        found["three_deep", use] = lambda m, x, o=options: three_deep(m, x, **o)
        found["sequential", use] = lambda m, x, o=options: sequential(m, 3, x, **o)
        found["list", use] = lambda m, x, o=options: sequential(list(m), 2, x, **o)
    late = {"use_reentrant": False, "early_stop": False}
    found["late", False] = lambda m, x: nested(m, x, **late)
    return found


WAYS = list(ways(flambeau))


# a checkpoint inside another is first run without recording
@pytest.mark.filterwarnings("ignore:None of the inputs")
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_gradients_are_those_of_the_plain_computation(way):
    expected = gradients(flambeau, lambda model, x: model(x))
    found = gradients(flambeau, ways(flambeau)[way])
    assert plain(found) == plain(expected)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:None of the inputs")
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_gradients_are_pytorchs(way):
    torch = pytest.importorskip("torch")
    found, expected = gradients(flambeau, ways(flambeau)[way]), gradients(torch, ways(torch)[way])
    for a, b in zip(flat(plain(found)), flat(plain(expected)), strict=True):
        assert a == pytest.approx(b, rel=1e-4, abs=1e-6)


def flat(value):
    if isinstance(value, list):
        for v in value:
            yield from flat(v)
    else:
        yield value


# -- details that both libraries share -------------------------------------------------------------


def outputs_of_many_kinds(torch):
    checkpoint = torch.utils.checkpoint.checkpoint
    x = torch.arange(3.0, requires_grad=True)
    found = []
    for use in (True, False):
        a, text, b, none = checkpoint(lambda x, k: (x * k, "text", x.exp(), None), x, 2,
                                      use_reentrant=use)  # fmt: skip
        x.grad = None
        (a.sum() + b.sum()).backward()
        found += [a, text, b, none, x.grad]
    return found


def keywords_and_structures(torch):
    checkpoint = torch.utils.checkpoint.checkpoint
    x, w = torch.arange(3.0, requires_grad=True), torch.ones(3, requires_grad=True)

    def function(pair, *, scale):
        return {"out": (pair["x"] * scale * x).exp()}

    y = checkpoint(function, {"x": x}, scale=w * 0.1, use_reentrant=False)["out"]
    y.sum().backward()
    return [y, x.grad, w.grad]


def gradients_of_gradients(torch):
    checkpoint = torch.utils.checkpoint.checkpoint
    x = torch.arange(1.0, 4.0, requires_grad=True)
    y = checkpoint(lambda x: (x * x).exp().sin(), x, use_reentrant=False).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    return [g, h]


def several_passes(torch):
    checkpoint = torch.utils.checkpoint.checkpoint
    x = torch.arange(3.0, requires_grad=True)
    runs = []

    def function(x):
        runs.append(1)
        return x.exp() * x.sin()

    y = checkpoint(function, x, use_reentrant=False).sum()
    y.backward(retain_graph=True)
    y.backward()
    return [x.grad, len(runs)]


def early_stops(torch):
    checkpoint = torch.utils.checkpoint
    x = torch.arange(3.0, requires_grad=True)
    log = []

    def function(x):
        log.append("start")
        y = x.exp()
        log.append("end")
        return y + 1

    for early in (True, False):
        checkpoint.checkpoint(function, x, use_reentrant=False, early_stop=early).sum().backward()
    with checkpoint.set_checkpoint_early_stop(False):
        y = checkpoint.checkpoint(function, x, use_reentrant=False)
    y.sum().backward()
    return log


def contexts(torch):
    log = []

    class Noting:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            log.append("enter " + self.name)

        def __exit__(self, *error):
            log.append("leave " + self.name)

    x = torch.ones(2, requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(
        lambda x: x.exp(), x, use_reentrant=False,
        context_fn=lambda: (Noting("forward"), Noting("again")),
    )  # fmt: skip
    log.append("between")
    y.sum().backward()
    return log


def without_recording(torch):
    checkpoint = torch.utils.checkpoint.checkpoint
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        y = checkpoint(lambda x: x * 2, x, use_reentrant=False)
    return [y, y.requires_grad]


def random_numbers_not_preserved(torch):
    torch.manual_seed(5)
    checkpoint = torch.utils.checkpoint.checkpoint
    x = torch.ones(50, requires_grad=True)
    y = checkpoint(lambda x: x * torch.rand(50), x, use_reentrant=False, preserve_rng_state=False)
    y.sum().backward()
    return [y, x.grad, bool((y == x.grad).all()), torch.rand(1)]


def shared_recomputation(torch):
    runs = []
    x = torch.ones(2, requires_grad=True)

    def function(x):
        runs.append(1)
        a, b = x.exp(), x.sin()
        return a, b

    a, b = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)
    with torch.utils.checkpoint.GraphExecGroup():
        a.sum().backward(retain_graph=True)
        b.sum().backward()
    return [x.grad, len(runs)]


def under_autocast(torch):
    checkpoint = torch.utils.checkpoint.checkpoint
    torch.manual_seed(2)
    linear = torch.nn.Linear(3, 3)
    found = []
    for use in (True, False):
        x = torch.ones(2, 3, requires_grad=True)
        seen = []

        def function(x, seen=seen):
            y = linear(x)
            seen.append(str(y.dtype))
            return y.exp()

        with torch.autocast("cpu"):
            y = checkpoint(function, x, use_reentrant=use)
        y.float().sum().backward()
        found += [seen, x.grad]
    return found


def errors(torch):
    checkpoint, x = torch.utils.checkpoint.checkpoint, torch.ones(2, requires_grad=True)
    module = torch.utils.checkpoint
    count = [0]

    def changing(make):
        """A function that does something else every second time."""
        count[0] = 0

        def function(x):
            count[0] += 1
            return make(x, count[0])

        return function

    def run(make, **options):
        checkpoint(changing(make), x, use_reentrant=False, **options).sum().backward()

    def reentrant_grad():
        y = checkpoint(lambda x: x.exp(), x, use_reentrant=True)
        torch.autograd.grad(y.sum(), x)

    def suppressing():
        def fail(x):
            raise ValueError("no")

        pair = contextlib.suppress(ValueError), contextlib.nullcontext()
        checkpoint(fail, x, use_reentrant=False, context_fn=lambda: pair)

    attempts = [
        lambda: run(lambda x, k: x.exp() if k == 1 else x * 2, early_stop=False),
        lambda: run(lambda x, k: x.exp().sin() if k == 1 else x.exp()),
        lambda: run(lambda x, k: x.exp() if k == 1 else x.exp().sin(), early_stop=False),
        lambda: run(lambda x, k: x.exp() if k == 1 else x.double().exp()),
        lambda: run(lambda x, k: x.exp(), determinism_check="strict"),
        lambda: run(lambda x, k: x.exp(), debug=True, context_fn=lambda: None),
        lambda: checkpoint(lambda x: x, x, use_reentrant=True, other=3),
        lambda: checkpoint(lambda x: x, x, use_reentrant=True, debug=True),
        lambda: checkpoint(lambda x: x.detach(), x, use_reentrant=True).sum().backward(),
        reentrant_grad,
        suppressing,
        lambda: module.detach_variable([x]),
        lambda: module.checkpoint_sequential([len], 1, x, use_reentrant=False, other=3),
    ]
    found = []
    for attempt in attempts:
        try:
            attempt()
            found.append(None)
        except Exception as error:
            found.append([type(error).__name__, str(error).splitlines()[0]])
    return found


SHARED = [
    outputs_of_many_kinds, keywords_and_structures, gradients_of_gradients, several_passes,
    early_stops, contexts, without_recording, random_numbers_not_preserved, shared_recomputation,
    under_autocast, errors,
]  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("program", SHARED, ids=lambda p: p.__name__)
def test_programs_give_what_pytorch_gives(program):
    torch = pytest.importorskip("torch")
    found, expected = list(flat(plain(program(flambeau)))), list(flat(plain(program(torch))))
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a == (pytest.approx(b, rel=1e-5, abs=1e-6) if isinstance(b, float) else b)


# -- without PyTorch -------------------------------------------------------------------------------


def test_functions_run_twice_and_stop_early():
    assert early_stops(flambeau) == ["start", "end", "start"] + ["start", "end"] * 4


def test_contexts_surround_both_runs():
    log = contexts(flambeau)
    assert log == ["enter forward", "leave forward", "between", "enter again", "leave again"]


def test_a_second_derivative():
    x = flambeau.arange(1.0, 3.0, dtype=flambeau.float64)
    g, h = gradients_of_gradients(flambeau)
    y = (x * x).exp()
    assert g[:2].double().allclose(2 * x * y * y.cos(), rtol=1e-4)
    second = 2 * y * y.cos() + 4 * x * x * (y * y.cos() - y * y * y.sin())
    assert h[:2].double().allclose(second, rtol=1e-3)


def test_passes_recompute_once_each():
    x_grad, runs = several_passes(flambeau)
    assert runs == 3
    x = flambeau.arange(3.0)
    assert x_grad.allclose(2 * x.exp() * (x.sin() + x.cos()))


def test_a_group_recomputes_once():
    assert shared_recomputation(flambeau)[1] == 2


def test_errors_say_what_went_wrong():
    found = errors(flambeau)
    assert [kind for kind, _ in found] == [
        *["CheckpointError"] * 4, *["ValueError"] * 4, *["RuntimeError"] * 4, "ValueError",
    ]  # fmt: skip


def test_autocast_is_as_in_forward():
    seen, _, again, _ = under_autocast(flambeau)
    assert seen == again == ["torch.bfloat16"] * 2


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_intermediate_results_do_not_live_until_backward(use_reentrant):
    alive = []

    def function(x):
        h = x.exp()
        alive.append(weakref.ref(h._storage))
        return h.sin()

    x = flambeau.ones(1000, requires_grad=True)
    y = flambeau.utils.checkpoint.checkpoint(function, x, use_reentrant=use_reentrant)
    assert alive[0]() is None
    y.sum().backward()
    assert x.grad.allclose(x.exp() * x.exp().cos())


def test_debug_tells_the_lines():
    count = [0]

    def function(x):
        count[0] += 1
        return x.exp() if count[0] == 1 else x.double().exp()

    x = flambeau.ones(2, requires_grad=True)
    y = flambeau.utils.checkpoint.checkpoint(function, x, use_reentrant=False, debug=True)
    with pytest.raises(flambeau.utils.checkpoint.CheckpointError) as error:
        y.sum().backward()
    assert "test_checkpoint.py" in str(error.value) and "float64" in str(error.value)


def test_warnings():
    x = flambeau.ones(2)
    module = flambeau.utils.checkpoint
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        module.checkpoint(lambda x: x, x.requires_grad_())
    with pytest.warns(UserWarning, match="checkpoint_sequential: the use_reentrant"):
        module.checkpoint_sequential([lambda x: x], 1, x)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        module.checkpoint(lambda x: x, flambeau.ones(2), use_reentrant=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.checkpoint(lambda x: x, flambeau.ones(2), use_reentrant=False)


LAYERS = {
    "convolution": lambda nn: (nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(),
                                             nn.MaxPool2d(2), nn.Flatten()), (2, 2, 8, 8)),
    "transposed": lambda nn: (nn.Sequential(nn.ConvTranspose1d(2, 3, 3), nn.GELU()), (2, 2, 5)),
    "norms": lambda nn: (nn.Sequential(nn.LayerNorm(4), nn.GroupNorm(2, 4), nn.RMSNorm(4),
                                       nn.Softmax(-1)), (3, 4)),
    "dropout": lambda nn: (nn.Sequential(nn.Dropout(0.3), nn.Linear(4, 4), nn.AlphaDropout(0.2),
                                         nn.SELU(), nn.RReLU()), (3, 4)),
    "pooling": lambda nn: (nn.Sequential(nn.AvgPool2d(2), nn.AdaptiveMaxPool2d(2), nn.Upsample(
        scale_factor=2, mode="bilinear")), (1, 2, 8, 8)),
    "lstm": lambda nn: (First(nn.LSTM(3, 4, 2, dropout=0.2)), (5, 2, 3)),
    "gru": lambda nn: (First(nn.GRU(3, 4, bidirectional=True)), (5, 2, 3)),
    "transformer": lambda nn: (nn.TransformerEncoderLayer(4, 2, 8, 0.2), (3, 2, 4)),
}  # fmt: skip


class First(flambeau.nn.Module):
    """A module of which the first result matters."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)[0]


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_every_kind_of_layer(name, use_reentrant):
    def run(forward):
        flambeau.manual_seed(4)
        model, shape = LAYERS[name](flambeau.nn)
        x = flambeau.randn(*shape, requires_grad=True)
        y = forward(model, x)
        (y * flambeau.arange(y.numel()).view_as(y)).sum().backward()
        return [y, x.grad, *(p.grad for p in model.parameters())]

    def forward(model, x):
        return flambeau.utils.checkpoint.checkpoint(model, x, use_reentrant=use_reentrant)

    for a, b in zip(run(forward), run(lambda m, x: m(x)), strict=True):
        assert a.equal(b)


# -- selective -------------------------------------------------------------------------------------


def selective(torch, policy, function, **options):
    """Gradients, and how often ops ran, with a policy that is given the namespace of ops."""
    from collections import Counter

    checkpointing = torch.utils.checkpoint
    torch.manual_seed(1)
    x, w = (torch.randn(4, 4, requires_grad=True) for _ in range(2))
    ran = Counter()

    class Counting(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            ran[str(func)] += 1
            return func(*args, **(kwargs or {}))

    def contexts():
        chosen = policy(torch)
        return checkpointing.create_selective_checkpoint_contexts(chosen, **options)

    with Counting():
        out = checkpointing.checkpoint(function, x, w, use_reentrant=False, context_fn=contexts)
        out.sum().backward()
    return plain(x.grad), plain(w.grad), ran["aten.mm.default"], ran["aten.sin.default"]


def products(torch):
    return [torch.ops.aten.mm.default]


def everything(torch):
    return lambda context, op, *args, **kwargs: torch.utils.checkpoint.CheckpointPolicy.MUST_SAVE


def nothing(torch):
    return lambda context, op, *args, **kwargs: False


SELECTIVE = {
    "products": (products, lambda x, w: (x.mm(w)).sin().exp()),
    "everything": (everything, lambda x, w: (x.mm(w)).sin().exp()),
    "nothing": (nothing, lambda x, w: (x.mm(w)).sin().exp()),
    "views": (products, lambda x, w: (x.mm(w)).view(-1).sin().view(4, 4).mm(w)),
    "several": (products, lambda x, w: x.mm(w).sin().mm(w).sin().mm(x)),
}


@pytest.mark.parametrize("case", SELECTIVE)
def test_selective_gradients_are_the_plain_ones(case):
    policy, function = SELECTIVE[case]
    flambeau.manual_seed(1)
    x, w = (flambeau.randn(4, 4, requires_grad=True) for _ in range(2))
    function(x, w).sum().backward()
    found = selective(flambeau, policy, function)
    assert found[:2] == (plain(x.grad), plain(w.grad))
    forward = 1 if case not in ("views", "several") else {"views": 2, "several": 3}[case]
    backward = {"views": 4, "several": 6}.get(case, 2)  # two products per product
    again = forward if case == "nothing" else 0
    assert found[2] == forward + backward + again


@pytest.mark.oracle
@pytest.mark.parametrize("case", SELECTIVE)
def test_selective_as_in_pytorch(case):
    import torch
    import torch.utils.checkpoint

    ours = selective(flambeau, *SELECTIVE[case])
    theirs = selective(torch, *SELECTIVE[case])
    assert ours[2:] == theirs[2:]
    for a, b in zip(ours[:2], theirs[:2]):
        for left, right in zip(a, b):
            assert left == pytest.approx(right, abs=1e-5)


def test_selective_refusals():
    import flambeau.utils.checkpoint as checkpointing

    make = checkpointing.create_selective_checkpoint_contexts
    with pytest.raises(TypeError, match="policy_fn_or_list must be either a function or a list"):
        make(3)
    with pytest.raises(ValueError, match="Please update the OpOverloadPacket to a specific"):
        make([flambeau.ops.aten.mm])

    def writes(x, w):
        y = x.mm(w)
        y.add_(1)
        return y.sin()

    with pytest.raises(RuntimeError, match="activation checkpoint has been mutated"):
        selective(flambeau, products, writes)
    selective(flambeau, products, writes, allow_cache_entry_mutation=True)
    x = flambeau.ones(2, 2, requires_grad=True)
    keep = [flambeau.ops.aten.mm.default]
    out = checkpointing.checkpoint(
        lambda x: x.mm(x).sin(), x, use_reentrant=False, context_fn=lambda: make(keep)
    )
    out.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        out.sum().backward()
