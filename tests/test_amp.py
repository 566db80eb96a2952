"""Mixed precision: which dtypes ops give under autocast, and how GradScaler follows infinities."""

import copy
import math
import pickle
import threading
import warnings

import pytest

import flambeau
from flambeau import interposing
from tests.amp_cases import CASES, run

bf16, f16, f32 = flambeau.bfloat16, flambeau.float16, flambeau.float32
LOWER = (
    "linear matmul operator method vectors mm bmm addmm addbmm baddbmm einsum tensordot multi_dot "
    "vecdot prelu conv1d conv2d conv3d conv_transpose2d attention Linear Conv2d LSTM RNN RNNCell "
    "MultiheadAttention"
).split()
SINGLE = (
    "mse_loss l1_loss cross_entropy nll_loss bce bce_with_logits prod trace cdist quantile inverse "
    "solve svdvals avg_pool3d max_pool3d grid_sample reflected replicated"
).split()
KEPT = "exp sum softmax gelu max_pool2d avg_pool2d outer mv dot pad cat LayerNorm".split()


# -- dtypes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOWER)
def test_products_run_in_the_lower_dtype(name):
    assert run(flambeau, name, "float32")[0] == "torch.bfloat16"
    assert run(flambeau, name, "float32", "float16")[0] == "torch.float16"


@pytest.mark.parametrize("name", SINGLE)
def test_delicate_ops_run_in_float32(name):
    assert run(flambeau, name, "bfloat16")[0] == "torch.float32"


@pytest.mark.parametrize("name", KEPT)
def test_other_ops_run_in_what_comes(name):
    for dtype in ("float32", "bfloat16"):
        assert run(flambeau, name, dtype)[0] == f"torch.{dtype}"


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_dtypes_and_values_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    for dtype, target in (
        ("float32", "bfloat16"),
        ("float32", "float16"),
        ("bfloat16", "bfloat16"),
    ):
        if name == "LSTM" and target == "float16":
            continue  # PyTorch has no kernel for it on every processor
        (found, values), (expected, wanted) = (
            run(lib, name, dtype, target) for lib in (flambeau, torch)
        )
        assert found == expected
        assert values == pytest.approx(wanted, rel=3e-2, abs=3e-2, nan_ok=True)


# -- the switch ------------------------------------------------------------------------------------


def product():
    return flambeau.mm(flambeau.ones(2, 2), flambeau.ones(2, 2)).dtype


def test_nesting():
    with flambeau.autocast("cpu"):
        assert product() is bf16
        with flambeau.autocast("cpu", dtype=f16):
            assert product() is f16
            with flambeau.autocast("cpu", enabled=False):
                assert product() is f32
                with flambeau.amp.autocast("cpu"):
                    assert product() is f16  # the dtype is that of the enclosing one
        assert product() is bf16
    assert product() is f32


def test_an_error_inside_leaves_everything_as_it_was():
    with pytest.raises(RuntimeError), flambeau.autocast("cpu"):
        flambeau.mm(flambeau.ones(2, 3), flambeau.ones(2, 3))
    assert product() is f32
    with flambeau.autocast("cpu"):
        with pytest.raises(RuntimeError):
            flambeau.mm(flambeau.ones(2, 3), flambeau.ones(2, 3))
        assert product() is bf16


def test_functions_are_their_own_again_afterwards():
    interposing.disarm()
    before = flambeau.mm.__code__, flambeau.cat.__code__
    with flambeau.autocast("cpu"):
        assert flambeau.mm.__code__ is not before[0]
        assert flambeau.mm.__name__ == "mm"
    interposing.disarm()  # as some thousand calls would
    assert (flambeau.mm.__code__, flambeau.cat.__code__) == before


def test_decorator():
    @flambeau.autocast("cpu")
    def function():
        """Its text."""
        return product()

    assert function() is bf16 and function.__doc__ == "Its text."
    assert product() is f32
    with pytest.raises(TypeError, match="requires a callable"):
        flambeau.autocast("cpu")(3)


def test_threads_have_their_own():
    inside, outside = threading.Event(), threading.Event()
    found = []

    def other():
        found.append(product())
        with flambeau.autocast("cpu", dtype=f16):
            found.append(product())
            inside.set()
            outside.wait(10)
            found.append(product())

    with flambeau.autocast("cpu"):
        thread = threading.Thread(target=other)
        thread.start()
        inside.wait(10)
        assert product() is bf16
    assert product() is f32
    outside.set()
    thread.join()
    assert found == [f32, f16, f16]
    assert product() is f32


def test_out_and_inplace_keep_their_dtypes():
    a, out = flambeau.ones(2, 2), flambeau.empty(2, 2)
    with flambeau.autocast("cpu"):
        flambeau.mm(a, a, out=out)
        assert a.clone().addmm_(a, a).dtype is f32
    assert out.tolist() == [[2, 2], [2, 2]]


def test_parameters_are_cast_once():
    weight = flambeau.randn(3, 3, requires_grad=True)
    x = flambeau.randn(2, 3)

    def casts(y):
        return y.grad_fn.next_functions

    for cache, same in ((True, True), (False, False)):
        with flambeau.autocast("cpu", cache_enabled=cache):
            a, b = x @ weight, x @ weight
        assert (casts(a)[1][0] is casts(b)[1][0]) is same
        (a + b).float().sum().backward()
    assert weight.grad.dtype is f32
    expected = 4 * x.bfloat16().float().sum(0)
    assert weight.grad[:, 0].allclose(expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("quietly", [flambeau.no_grad, flambeau.inference_mode])
def test_parameters_cast_without_gradients_have_them_later(quietly):
    layer = flambeau.nn.Linear(2, 2)
    x = flambeau.ones(1, 2)
    with flambeau.autocast("cpu"):
        with quietly():
            assert not layer(x).requires_grad
        layer(x).sum().backward()
        with quietly():
            assert not layer(x).requires_grad
    assert layer.weight.grad.tolist() == [[1, 1], [1, 1]] and layer.bias.grad.tolist() == [1, 1]


def test_changed_parameters_are_cast_anew():
    weight = flambeau.ones(2, 2, requires_grad=True)
    for k in (1, 2):
        with flambeau.no_grad():
            weight.fill_(k)
        with flambeau.autocast("cpu"):
            assert (flambeau.ones(1, 2) @ weight).tolist() == [[2.0 * k, 2.0 * k]]


def test_settings():
    assert not flambeau.is_autocast_enabled("cpu") and flambeau.get_autocast_dtype("cpu") is bf16
    flambeau.set_autocast_enabled("cpu", True)
    flambeau.set_autocast_dtype("cpu", f16)
    try:
        assert flambeau.is_autocast_enabled("cpu") and product() is f16
    finally:
        flambeau.set_autocast_enabled("cpu", False)
        flambeau.set_autocast_dtype("cpu", bf16)
    assert flambeau.is_autocast_cache_enabled()
    assert flambeau.get_autocast_dtype("cuda") is f16 and not flambeau.is_autocast_enabled()
    assert flambeau.amp.is_autocast_available("cpu")
    assert not flambeau.amp.is_autocast_available("meta")
    with pytest.warns(DeprecationWarning, match="get_autocast_cpu_dtype"):
        assert flambeau.get_autocast_cpu_dtype() is bf16


def test_warnings_and_errors():
    with pytest.warns(UserWarning, match="target dtype is not supported. Disabling autocast"):
        mode = flambeau.autocast("cpu", dtype=f32)
    with mode:
        assert product() is f32
    with pytest.warns(UserWarning, match="CUDA is not available"):
        flambeau.autocast("cuda")
    with pytest.warns(FutureWarning, match=r"torch.cpu.amp.autocast\(args...\)` is deprecated"):
        mode = flambeau.cpu.amp.autocast()
    with mode:
        assert product() is bf16
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        flambeau.autocast(3)
    with pytest.raises(RuntimeError, match="unsupported scalarType"):
        flambeau.autocast("meta")
    with pytest.raises(RuntimeError, match="Expected one of cpu"):
        flambeau.autocast("foo")
    with flambeau.autocast("cpu"), pytest.raises(RuntimeError, match="Unexpected floating"):
        flambeau.cat([flambeau.ones(2).half(), flambeau.ones(2).bfloat16()])


def test_custom_functions():
    seen = []

    class Plain(flambeau.autograd.Function):
        @staticmethod
        @flambeau.amp.custom_fwd(device_type="cpu")
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a @ a

        @staticmethod
        @flambeau.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            (a,) = ctx.saved_tensors
            seen.append(product())
            return (g.float() @ a.T + a.T @ g.float()).float()

    class InSingle(Plain):
        @staticmethod
        @flambeau.amp.custom_fwd(device_type="cpu", cast_inputs=f32)
        def forward(ctx, a):
            assert a.dtype is f32
            ctx.save_for_backward(a)
            return a @ a

    x = flambeau.eye(2, requires_grad=True)
    with flambeau.autocast("cpu"):
        y = Plain.apply(x)
        z = InSingle.apply(x.bfloat16())
    assert y.dtype is bf16 and z.dtype is f32
    y.float().sum().backward()
    z.sum().backward()
    assert seen == [bf16, f32]


def test_a_training_converges():
    flambeau.manual_seed(0)
    nn = flambeau.nn
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 2))
    x = flambeau.randn(64, 4)
    y = (x.sum(1) > 0).long()
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.5)
    scaler = flambeau.amp.GradScaler("cpu", init_scale=1024.0)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        with flambeau.autocast("cpu", dtype=f16):
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
        assert out.dtype is f16 and loss.dtype is f32
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]
    assert all(p.grad.dtype is f32 for p in model.parameters())


# -- GradScaler ------------------------------------------------------------------------------------


def scaled_training(torch, bad_steps, unscale=False, **options):
    """Scales and weights over ten steps, some of which have infinite gradients."""
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.5)
    scaler = torch.amp.GradScaler("cpu", **options)
    found = []
    for k in range(10):
        optimizer.zero_grad()
        factor = math.inf if k in bad_steps else 1.0
        scaler.scale((weight * factor).sum()).backward()
        if unscale:
            scaler.unscale_(optimizer)
            found.append(weight.grad.tolist())
        scaler.step(optimizer)
        scaler.update()
        found.append([scaler.get_scale(), scaler._get_growth_tracker(), *weight.tolist()])
    return found, scaler.state_dict()


def test_scales_shrink_and_grow():
    found, state = scaled_training(flambeau, {2, 7}, init_scale=8.0, growth_interval=3)
    assert [f[0] for f in found] == [8, 8, 4, 4, 4, 8, 8, 4, 4, 4]
    assert [f[1] for f in found] == [1, 2, 0, 1, 2, 0, 1, 0, 1, 2]
    assert found[1][2:] == found[2][2:] and found[2][2:] != found[3][2:]
    assert list(state) == [
        "scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker",
    ]  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("unscale", [False, True])
@pytest.mark.parametrize("options", [
    {"init_scale": 8.0, "growth_interval": 3}, {"growth_factor": 3.0, "growth_interval": 2},
    {"backoff_factor": 0.1, "init_scale": 3.0}, {"enabled": False},
])  # fmt: skip
def test_scaled_training_is_pytorchs(options, unscale):
    torch = pytest.importorskip("torch")
    bad = set() if not options.get("enabled", True) else {2, 7}
    found, expected = (scaled_training(lib, bad, unscale, **options) for lib in (flambeau, torch))
    assert repr(found[1]) == repr(expected[1])
    for a, b in zip(found[0], expected[0], strict=True):
        assert a == pytest.approx(b, nan_ok=True)


def made(torch):
    weight = torch.nn.Parameter(torch.ones(2))
    return weight, torch.optim.SGD([weight], lr=0.1), torch.amp.GradScaler("cpu")


def scaler_errors(torch):
    """What happens in the wrong order."""
    weight, optimizer, scaler = made(torch)

    def iteration(*steps):
        def run():
            optimizer.zero_grad()
            scaler.update(1.0) if scaler._scale is not None else None
            scaler.scale(weight.sum()).backward()
            for step in steps:
                step()

        return run

    half = torch.nn.Parameter(torch.ones(2).half())
    half.grad = torch.ones(2).half()
    attempts = [
        lambda: scaler.step(optimizer),
        lambda: scaler.unscale_(optimizer),
        lambda: scaler.update(),
        iteration(lambda: scaler.unscale_(optimizer), lambda: scaler.unscale_(optimizer)),
        iteration(lambda: scaler.step(optimizer), lambda: scaler.unscale_(optimizer)),
        iteration(lambda: scaler.step(optimizer), lambda: scaler.step(optimizer)),
        iteration(lambda: scaler.update()),
        iteration(lambda: scaler.step(optimizer, closure=lambda: 1)),
        iteration(lambda: scaler.step(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], 0.1))),
        iteration(lambda: scaler.step(torch.optim.SGD([half], 0.1))),
        iteration(lambda: scaler.update(torch.ones(2))),
        iteration(lambda: scaler.step(optimizer), lambda: pickle.dumps(scaler)),
        lambda: scaler.scale(3),
        lambda: scaler.load_state_dict({}),
        lambda: torch.amp.GradScaler("cpu", growth_factor=1.0),
        lambda: torch.amp.GradScaler("cpu", backoff_factor=1.0),
    ]
    found = []
    for attempt in attempts:
        try:
            attempt()
            found.append(None)
        except Exception as error:
            found.append([type(error).__name__, str(error)])
    return found


def test_wrong_order():
    kinds = [found and found[0] for found in scaler_errors(flambeau)]
    assert kinds == [
        *["AssertionError"] * 3, *["RuntimeError"] * 3, "AssertionError", "RuntimeError",
        "AssertionError", "ValueError", *["AssertionError"] * 2, "ValueError", "RuntimeError",
        *["AssertionError"] * 2,
    ]  # fmt: skip


@pytest.mark.oracle
def test_errors_are_pytorchs():
    torch = pytest.importorskip("torch")
    assert scaler_errors(flambeau) == scaler_errors(torch)


def test_saving_and_copies():
    weight, optimizer, scaler = made(flambeau)
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    scaler.update(32.0)
    other = flambeau.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    for copied in (pickle.loads(pickle.dumps(scaler)), copy.deepcopy(scaler), other):
        assert copied.get_scale() == 32.0 and copied.is_enabled()
    scaled = scaler.scale([weight.sum(), (weight.sum(),)])
    assert isinstance(scaled, list) and isinstance(scaled[1], tuple)
    assert scaled[1][0].item() == weight.sum().item() * 32


def test_scalers_without_a_gpu_are_disabled():
    with pytest.warns(UserWarning, match="CUDA is not available.  Disabling"):
        scaler = flambeau.amp.GradScaler()
    weight, optimizer, _ = made(flambeau)
    loss = weight.sum()
    assert scaler.scale(loss) is loss and scaler.get_scale() == 1.0 and scaler.state_dict() == {}
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == pytest.approx([0.9, 0.9])
    with pytest.warns(FutureWarning, match="torch.cuda.amp.GradScaler"), warnings.catch_warnings():
        warnings.simplefilter("always")
        assert not flambeau.cuda.amp.GradScaler(enabled=False).is_enabled()


def test_casts_without_a_graph_do_not_serve_those_who_want_gradients():
    layer, x = flambeau.nn.Linear(2, 2), flambeau.ones(3, 2)
    for context in (flambeau.no_grad, flambeau.inference_mode):
        layer.zero_grad()
        with flambeau.autocast("cpu"):
            with context():
                assert not layer(x).requires_grad
            layer(x).sum().backward()
        assert layer.weight.grad.abs().sum() > 0
