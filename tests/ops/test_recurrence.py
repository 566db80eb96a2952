"""Recurrent layers: against loops in NumPy, finite differences, and PyTorch."""

import numpy as np
import pytest

import flambeau as fl
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.eager.recurrence_layers import Layer

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
LENGTHS = [6, 4, 4, 1]  # of packed sequences
SIZES = [sum(n > t for n in LENGTHS) for t in range(6)]


def _weights(kind, inputs, hidden, layers, both, bias, projection=0, seed=1):
    random = np.random.default_rng(seed)
    shown, found = projection or hidden, []
    for layer in range(layers):
        for _ in range(2 if both else 1):
            width = inputs if layer == 0 else shown * (2 if both else 1)
            rows = GATES[kind] * hidden
            shapes = [(rows, width), (rows, shown), *[(rows,)] * (2 if bias else 0)]
            shapes += [(projection, hidden)] if projection else []
            found += [random.standard_normal(s) * 0.3 for s in shapes]
    return found


def _states(kind, hidden, layers, both, batch, projection=0, seed=2):
    random = np.random.default_rng(seed)
    count = layers * (2 if both else 1)
    h = random.standard_normal((count, batch, projection or hidden))
    return (h, random.standard_normal((count, batch, hidden))) if kind == "lstm" else (h,)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _step(kind, x, h, c, w):
    """One step of one sequence or batch, from the definition."""
    w_ih, w_hh, b_ih, b_hh = w
    a, b = x @ w_ih.T + b_ih, h @ w_hh.T + b_hh
    if kind == "lstm":
        i, f, g, o = np.split(a + b, 4, -1)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        return _sigmoid(o) * np.tanh(c), c
    if kind == "gru":
        (xr, xz, xn), (hr, hz, hn) = np.split(a, 3, -1), np.split(b, 3, -1)
        z = _sigmoid(xz + hz)
        return (1 - z) * np.tanh(xn + _sigmoid(xr + hr) * hn) + z * h, c
    return np.tanh(a + b) if kind == "rnn_tanh" else np.maximum(a + b, 0), c


def _reference(kind, x, states, weights, layers, both):
    h, c = states[0].copy(), states[-1].copy()
    for layer in range(layers):
        outputs = []
        for direction in range(2 if both else 1):
            k = layer * (2 if both else 1) + direction
            out = np.empty((*x.shape[:2], h.shape[2]))
            order = range(len(x) - 1, -1, -1) if direction else range(len(x))
            for t in order:
                h[k], c[k] = _step(kind, x[t], h[k], c[k], weights[4 * k : 4 * k + 4])
                out[t] = h[k]
            outputs.append(out)
        x = np.concatenate(outputs, -1)
    return (x, h, c) if kind == "lstm" else (x, h)


def _call(package, kind, x, states, weights, bias, layers, both, sizes=None, **options):
    hx = tuple(states) if kind == "lstm" else states[0]
    run = getattr(package, kind)
    if sizes is not None:
        return run(x, sizes, hx, weights, bias, layers, 0.0, True, both)
    return run(x, hx, weights, bias, layers, 0.0, True, both, options.get("batch_first", False))


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", GATES)
def test_sequences(kind, layers, both):
    weights = _weights(kind, 5, 7, layers, both, True)
    states = _states(kind, 7, layers, both, 4)
    x = np.random.default_rng(3).standard_normal((6, 4, 5))
    expected = _reference(kind, x, states, weights, layers, both)
    given = [fl.tensor(s) for s in states], [fl.tensor(w) for w in weights], True, layers, both
    found = _call(fl, kind, fl.tensor(x), *given)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b, 1e-11, 1e-12)
    turned = fl.tensor(x.swapaxes(0, 1).copy())
    first = _call(fl, kind, turned, *given, batch_first=True)
    np.testing.assert_allclose(first[0].numpy(), expected[0].swapaxes(0, 1), 1e-11, 1e-12)


@pytest.mark.parametrize("kind", GATES)
def test_packed_sequences_are_sequences(kind):
    """Each sequence on its own gives the same rows and last states."""
    weights = _weights(kind, 5, 7, 1, True, True)
    states = _states(kind, 7, 1, True, 4)
    padded = np.random.default_rng(4).standard_normal((6, 4, 5))
    data = np.concatenate([padded[t, :n] for t, n in enumerate(SIZES)])
    tensors = [fl.tensor(s) for s in states], [fl.tensor(w) for w in weights], True, 1, True
    out, h, *_ = _call(fl, kind, fl.tensor(data), *tensors, sizes=fl.tensor(SIZES))
    starts = np.cumsum([0, *SIZES])
    for k, length in enumerate(LENGTHS):
        own = tuple(s[:, k : k + 1] for s in states)
        expected = _reference(kind, padded[:length, k : k + 1], own, weights, 1, True)
        rows = out.numpy()[[starts[t] + k for t in range(length)]]
        np.testing.assert_allclose(rows, expected[0][:, 0], 1e-11, 1e-12)
        np.testing.assert_allclose(h.numpy()[:, k], expected[1][:, 0], 1e-11, 1e-12)


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh"])
def test_gradients(kind):
    weights = [fl.tensor(w).requires_grad_() for w in _weights(kind, 3, 2, 1, False, True)]
    states = [fl.tensor(s).requires_grad_() for s in _states(kind, 2, 1, False, 2)]
    x = fl.tensor(np.random.default_rng(5).standard_normal((3, 2, 3))).requires_grad_()
    count = len(states)

    def run(x, *rest):
        return _call(fl, kind, x, rest[:count], list(rest[count:]), True, 1, False)

    assert gradcheck(run, (x, *states, *weights))
    assert gradgradcheck(run, (x, *states, *weights))


def test_gradients_of_projections_and_packed_rows():
    weights = [fl.tensor(w).requires_grad_() for w in _weights("lstm", 3, 4, 1, True, True, 2)]
    states = [fl.tensor(s).requires_grad_() for s in _states("lstm", 4, 1, True, 2, 2)]
    x = fl.tensor(np.random.default_rng(6).standard_normal((5, 3))).requires_grad_()
    sizes = fl.tensor([2, 2, 1])

    def run(x, h, c, *weights):
        return _call(fl, "lstm", x, (h, c), list(weights), True, 1, True, sizes)

    assert gradcheck(run, (x, *states, *weights))
    out = run(x, *states, *weights)
    assert [tuple(o.shape) for o in out] == [(5, 4), (2, 2, 2), (2, 2, 4)]


def test_only_what_is_asked_for():
    """Frozen weights, unused states, missing biases."""
    weights = [fl.tensor(w) for w in _weights("gru", 3, 4, 1, False, False)]
    x = fl.randn(5, 2, 3, dtype=fl.float64, requires_grad=True)
    h = fl.zeros(1, 2, 4, dtype=fl.float64)
    out, last = fl.gru(x, h, weights, False, 1, 0.0, True, False, False)
    last.sum().backward()
    assert x.grad.shape == x.shape
    assert all(w.grad is None for w in weights)
    np.testing.assert_array_equal(out[-1].detach().numpy(), last[0].detach().numpy())


@pytest.mark.parametrize("kind", GATES)
def test_cells(kind):
    weights = _weights(kind, 5, 7, 1, False, True)
    states = [s[0] for s in _states(kind, 7, 1, False, 4)]
    x = np.random.default_rng(7).standard_normal((4, 5))
    h, c = _step(kind, x, states[0], states[-1], weights)
    tensors = [fl.tensor(s) for s in states]
    hx = tensors if kind == "lstm" else tensors[0]
    found = getattr(fl, kind + "_cell")(fl.tensor(x), hx, *[fl.tensor(w) for w in weights])
    first = found[0] if kind == "lstm" else found
    np.testing.assert_allclose(first.numpy(), h, 1e-11, 1e-12)
    if kind == "lstm":
        np.testing.assert_allclose(found[1].numpy(), c, 1e-11, 1e-12)


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh"])
def test_gradients_of_cells(kind):
    weights = [fl.tensor(w).requires_grad_() for w in _weights(kind, 3, 2, 1, False, True)]
    states = [fl.tensor(s[0]).requires_grad_() for s in _states(kind, 2, 1, False, 2)]
    x = fl.tensor(np.random.default_rng(5).standard_normal((2, 3))).requires_grad_()
    count = len(states)

    def run(x, *rest):
        hx = rest[:count] if kind == "lstm" else rest[0]
        return getattr(fl, kind + "_cell")(x, hx, *rest[count:])

    assert gradcheck(run, (x, *states, *weights))
    assert gradgradcheck(run, (x, *states, *weights))
    meta = [t.detach().to("meta") for t in (x, *states, *weights)]
    found = run(*meta)
    assert (found[0] if kind == "lstm" else found).shape == (2, 2)


@pytest.mark.parametrize("dtype", [fl.float32, fl.float16, fl.bfloat16])
def test_narrow_dtypes(dtype):
    weights = _weights("lstm", 5, 8, 1, False, True)
    states = _states("lstm", 8, 1, False, 3)
    x = np.random.default_rng(8).standard_normal((4, 3, 5))
    expected = _reference("lstm", x, states, weights, 1, False)
    cast = [[fl.tensor(a).to(dtype) for a in group] for group in (states, weights)]
    found = _call(fl, "lstm", fl.tensor(x).to(dtype), *cast, True, 1, False)
    tolerance = 1e-5 if dtype is fl.float32 else 0.05
    assert found[0].dtype is dtype
    np.testing.assert_allclose(found[0].float().numpy(), expected[0], tolerance, tolerance)


@pytest.mark.parametrize("kind", GATES)
def test_steps_in_python_are_the_same(kind, monkeypatch):
    """Where a product needs scratch, or comes in pieces, steps are not run as native programs."""
    weights = [fl.tensor(w).requires_grad_() for w in _weights(kind, 5, 24, 1, False, True)]
    states = [fl.tensor(s) for s in _states(kind, 24, 1, False, 20)]
    x = fl.tensor(np.random.default_rng(8).standard_normal((7, 20, 5)))
    results = []
    for how in ("program", "loop", "pieces"):
        if how != "program":
            monkeypatch.setattr(Layer, "runs_natively", lambda self, biased: False)
        if how == "pieces":
            monkeypatch.setattr(Layer, "plan_product", lambda *sizes: "no plan")
        out = _call(fl, kind, x, states, weights, True, 1, False)[0]
        grads = fl.autograd.grad((out * out).sum(), weights)
        results.append([out.detach().numpy(), *(g.numpy() for g in grads)])
    for other in results[1:]:
        for a, b in zip(results[0], other):
            np.testing.assert_allclose(a, b, 1e-11, 1e-11)


def test_bits_do_not_depend_on_threads():
    weights = [
        fl.tensor(w).float().requires_grad_() for w in _weights("lstm", 64, 128, 1, False, True)
    ]
    h = fl.zeros(1, 32, 128)
    x = fl.randn(20, 32, 64)
    threads, results = fl.get_num_threads(), []
    for count in (1, 2):
        fl.set_num_threads(count)
        out = fl.lstm(x, (h, h), weights, True, 1, 0.0, True, False, False)[0]
        grads = fl.autograd.grad(out.sum(), weights)
        results.append([t.detach().numpy().tobytes() for t in (out, *grads)])
    fl.set_num_threads(threads)
    assert results[0] == results[1]


def test_dropout_between_layers():
    weights = [fl.tensor(w) for w in _weights("lstm", 3, 4, 2, False, True)]
    states = [fl.tensor(s) for s in _states("lstm", 4, 2, False, 2)]
    x = fl.randn(5, 2, 3, dtype=fl.float64)
    calm = fl.lstm(x, states, weights, True, 2, 0.5, False, False, False)[0]
    plain = fl.lstm(x, states, weights, True, 2, 0.0, True, False, False)[0]
    assert fl.equal(calm, plain)
    fl.manual_seed(3)
    a = fl.lstm(x, states, weights, True, 2, 0.5, True, False, False)[0]
    fl.manual_seed(3)
    b = fl.lstm(x, states, weights, True, 2, 0.5, True, False, False)[0]
    assert fl.equal(a, b) and not fl.equal(a, plain)


@pytest.mark.parametrize(
    "change, text",
    [
        (dict(x=(5, 2, 9)), "input.size(-1) must be equal to input_size. Expected 3, got 9"),
        (dict(h=(1, 9, 4)), "Expected hidden size (1, 2, 4), got [1, 9, 4]"),
        (dict(x=(0, 2, 3)), "Expected sequence length to be larger than 0 in RNN"),
        (dict(drop=1), "MatrixRef: ArrayRef size 3 not divisible by stride 4"),
    ],
)
def test_refuses(change, text):
    weights = [fl.tensor(w).float() for w in _weights("gru", 3, 4, 1, False, True)]
    weights = weights[: len(weights) - change.get("drop", 0)]
    x, h = fl.zeros(change.get("x", (5, 2, 3))), fl.zeros(change.get("h", (1, 2, 4)))
    with pytest.raises(RuntimeError) as caught:
        fl.gru(x, h, weights, True, 1, 0.0, True, False, False)
    assert str(caught.value).startswith(text)


@pytest.mark.oracle
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", GATES)
def test_like_pytorch(kind, bias, packed):
    torch = pytest.importorskip("torch")
    for layers, both, projection in ((1, False, 0), (2, True, 0), (2, True, 3)):
        if projection and kind != "lstm":
            continue
        weights = _weights(kind, 5, 7, layers, both, bias, projection)
        states = _states(kind, 7, layers, both, 4, projection)
        shape = (sum(LENGTHS), 5) if packed else (6, 4, 5)
        x = np.random.default_rng(9).standard_normal(shape)
        results = []
        for package in (fl, torch):
            leaves = [package.tensor(a).requires_grad_() for a in (x, *states, *weights)]
            own, rest = leaves[1 : 1 + len(states)], leaves[1 + len(states) :]
            sizes = package.tensor(SIZES) if packed else None
            out = _call(package, kind, leaves[0], own, rest, bias, layers, both, sizes)
            sum((o * o).sum() * (k + 1) for k, o in enumerate(out)).backward()
            results.append([o.detach().numpy() for o in out] + [t.grad.numpy() for t in leaves])
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(a, b, 1e-9, 1e-9)
