"""What NVIDIA's libraries do on a GPU: results are those of the host's kernels. With the host in
place of a GPU the same calls run on our own kernels, and native calls of libraries are watched.
"""

import ctypes
import importlib
import math
import types

import numpy as np
import pytest

import flambeau
from flambeau.eager.cuda_kernels import _load
from flambeau.runtime import cudnn_rnn
from flambeau.runtime.cpu import packed
from flambeau.runtime.cuda import TF32
from flambeau.runtime.switches import switches

F = flambeau.nn.functional
FAR = {"float64": 1e-10, "float32": 5e-3, "float16": 1e-2, "bfloat16": 4e-2}


def drawn(*shape, dtype="float32", seed=0):
    generator = flambeau.Generator().manual_seed(seed + 7 * len(shape))
    return flambeau.randn(*shape, generator=generator).to(getattr(flambeau, dtype))


def compare(work, tensors, far, order=None):
    """Results and gradients of work, on the GPU and on the host."""
    found = []
    for place in ("cpu", "cuda"):
        given = [t.to(place) for t in tensors]
        if order is not None:
            given = [t.contiguous(memory_format=order) if t.ndim == 4 else t for t in given]
        given = [t.detach().requires_grad_() for t in given]
        out = work(*given)
        out.backward(drawn(*out.shape, seed=3).to(place).to(out.dtype))
        found.append([out, *[t.grad for t in given]])
    for host, gpu in zip(*found):
        assert host.shape == gpu.shape
        host, gpu = host.detach().double(), gpu.detach().cpu().double()
        assert float((host - gpu).norm()) <= far * float(host.norm()) + 1e-12


CONVOLUTIONS = {
    "2d": ("conv2d", (2, 16, 9, 8), (8, 16, 3, 3), {"padding": 1}),
    "bias": ("conv2d", (2, 16, 9, 8), (8, 16, 3, 3), {"stride": 2, "bias": 8}),
    "groups": ("conv2d", (2, 16, 8, 8), (16, 4, 3, 3), {"groups": 4, "dilation": 2}),
    "depthwise": ("conv2d", (2, 8, 8, 8), (8, 1, 3, 3), {"groups": 8, "padding": 1}),
    "odd": ("conv2d", (2, 3, 11, 9), (7, 3, 5, 3), {"padding": (2, 1), "stride": (2, 1)}),
    "1d": ("conv1d", (2, 8, 20), (4, 8, 3), {"padding": 1, "dilation": 2}),
    "3d": ("conv3d", (1, 8, 5, 6, 7), (8, 8, 3, 3, 3), {"stride": 2, "padding": 1}),
    "turned": ("conv_transpose2d", (2, 16, 6, 6), (16, 8, 3, 3), {"stride": 2, "bias": 8}),
}


@pytest.mark.parametrize("last", [False, True], ids=["", "last"])
@pytest.mark.parametrize("dtype", FAR)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name, dtype, last):
    call, shape, weight, options = CONVOLUTIONS[name]
    if last and len(shape) != 4:
        pytest.skip("channels last is for images")
    options = dict(options)
    bias = options.pop("bias", None)
    tensors = [drawn(*shape, dtype=dtype), 0.2 * drawn(*weight, dtype=dtype, seed=1)]
    tensors += [] if bias is None else [drawn(bias, dtype=dtype, seed=2)]
    work = lambda *given: getattr(F, call)(*given, **options)
    compare(work, tensors, FAR[dtype], flambeau.channels_last if last else None)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_results_are_channels_last(dtype):
    x = drawn(2, 8, 6, 6, dtype=dtype).to("cuda").contiguous(memory_format=flambeau.channels_last)
    w = drawn(8, 8, 3, 3, dtype=dtype).to("cuda").requires_grad_()
    x.requires_grad_()
    y = F.conv2d(x, w)
    y.backward(flambeau.ones_like(y))
    assert y.is_contiguous(memory_format=flambeau.channels_last)
    assert x.grad.is_contiguous(memory_format=flambeau.channels_last)


@pytest.mark.parametrize(
    "flags", [{"enabled": False}, {"benchmark": True}, {"deterministic": True}]
)
def test_switches_of_convolutions(flags):
    tensors = drawn(2, 8, 6, 6), drawn(8, 8, 3, 3, seed=1)
    with flambeau.backends.cudnn.flags(**flags):
        compare(F.conv2d, tensors, 5e-3)


def test_float32_stays_float32():
    tensors = drawn(2, 64, 8, 8), drawn(64, 64, 3, 3, seed=1)
    with flambeau.backends.cudnn.flags(allow_tf32=False):
        compare(F.conv2d, tensors, 3e-6)


def masks():
    seen = drawn(24, 24) > -0.5
    seen[3] = False
    return seen


ATTENTION = {
    "plain": {},
    "causal": {"is_causal": True},
    "scale": {"scale": 0.3},
    "boolean": {"attn_mask": masks},
    "keys": {"attn_mask": lambda: drawn(2, 1, 1, 24) > -0.5},
    "added": {"attn_mask": lambda: drawn(2, 4, 24, 24)},
    "infinite": {"attn_mask": lambda: flambeau.where(masks(), 0.0, -math.inf)},
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name, dtype):
    options = dict(ATTENTION[name])
    mask = options.pop("attn_mask", None)
    mask = None if mask is None else mask()
    if mask is not None and mask.is_floating_point():
        mask = mask.to(getattr(flambeau, dtype))
    tensors = [drawn(2, 4, 24, 16, dtype=dtype, seed=k) for k in range(3)]

    def work(q, k, v):
        given = None if mask is None else mask.to(q.device)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=given, **options)

    compare(work, tensors, FAR[dtype])


def test_attention_of_shared_heads():
    q = drawn(2, 4, 24, 16, dtype="bfloat16")
    k, v = (drawn(2, 2, 24, 16, dtype="bfloat16", seed=n) for n in (1, 2))
    compare(lambda *t: F.scaled_dot_product_attention(*t, enable_gqa=True), (q, k, v), 4e-2)


def test_attention_drops():
    q, k = (drawn(2, 4, 64, 16, dtype="bfloat16", seed=n).to("cuda") for n in (1, 2))
    v = flambeau.ones(2, 4, 64, 16, dtype=flambeau.bfloat16, device="cuda")
    flambeau.manual_seed(5)
    first = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25).float().cpu()
    other = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25).float().cpu()
    flambeau.manual_seed(5)
    again = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25).float().cpu()
    assert flambeau.equal(first, again) and not flambeau.equal(first, other)
    assert abs(float(first.mean()) - 1) < 0.05


RECURRENT = {
    "lstm": ("LSTM", {"num_layers": 2}),
    "gru": ("GRU", {"bidirectional": True}),
    "tanh": ("RNN", {"bias": False}),
    "relu": ("RNN", {"nonlinearity": "relu"}),
    "projected": ("LSTM", {"proj_size": 4}),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name, dtype):
    kind, options = RECURRENT[name]
    net = getattr(flambeau.nn, kind)(6, 8, **options).to(getattr(flambeau, dtype))
    params = [p.detach() for p in net.parameters()]
    names = [n for n, _ in net.named_parameters()]

    def work(x, *weights):
        found = flambeau.func.functional_call(net.to(x.device), dict(zip(names, weights)), (x,))
        return found[0]

    for _ in range(3):  # from the second time on, some are graphs
        compare(work, [drawn(5, 3, 6, dtype=dtype), *params], FAR[dtype])


@pytest.mark.gpu
def test_libraries_are_used(cuda):
    runtime = cuda.part(None)
    if runtime.cudnn() is None:
        pytest.skip("needs nvidia-cudnn-frontend")
    q = drawn(1, 2, 16, 16, dtype="bfloat16").to("cuda")._layout
    assert runtime.attention.takes(q, q, q, None, False, True)
    x, h = (drawn(*shape).to("cuda")._layout for shape in ((6, 4), (1, 2, 4)))
    assert runtime.recurrence.stack(x, h, "lstm", 3, 1, False, True) is not None


# -- a product in native code ----------------------------------------------------------------------


class Watched:
    """Functions in place of cuBLASLt's, and a description of a product that leads to them."""

    def __init__(self, tf32=0):
        pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        self.calls, self.otherwise = [], self._python
        multiply = ctypes.CFUNCTYPE(number, *[pointer] * 14, size, pointer)(self._multiply)
        set_one = ctypes.CFUNCTYPE(number, pointer, number, pointer, size)(self._set)
        self.kept = multiply, set_one
        places = [ctypes.cast(f, pointer).value for f in self.kept]
        self.words = packed([*places, id(self.otherwise), *range(101, 110), tf32])

    def _multiply(self, *given):
        factors = [ctypes.c_float.from_address(given[k]).value for k in (2, 7)]
        others = [x or 0 for k, x in enumerate(given) if k not in (2, 7)]
        self.calls.append((others, factors))
        return 0

    def _set(self, operation, name, value, size):
        self.calls.append((operation, name, ctypes.c_int64.from_address(value).value, size))
        return 0

    def _python(self, *given):
        self.calls.append(("otherwise", given[1:]))


C, A, B, EXTRA = (k << 12 for k in (1, 2, 3, 4))
NATIVE = {
    # name -> (what is built, arguments after C, A, B, what the library is handed)
    "plain": ((False, False, 0, None, None, False), (), (B, A, C, [1, 0], None)),
    "turned": ((False, False, 0, None, None, True), (), (A, B, C, [1, 0], None)),
    "bias": ((False, False, 1, 0, None, False), (EXTRA, 1.0), (B, A, C, [1, 0], EXTRA)),
    "added": ((False, True, 1, None, 0, False), (3.0, EXTRA, 0.5), (B, A, EXTRA, [3, 0.5], None)),
}


@pytest.mark.parametrize("name", NATIVE)
def test_native_products(cuda, name):
    runtime = cuda.part(None)
    key, more, (first, second, source, factors, bias) = NATIVE[name]
    kernel, watched = _native(runtime, key), Watched()
    kernel(watched.words, C, A, B, 0, 0, *more)
    if bias is not None:
        assert watched.calls.pop(0) == (102, 8, bias, 8)
    (handed, found), *none = watched.calls
    assert not none and found == factors
    assert handed[:13] == [101, 102, first, 103, second, 104, source, 105, C, 106, 107, 108, 109]


@pytest.mark.parametrize(
    "arguments, tf32",
    [((C, A + 4, B, 0, 0, EXTRA, 1.0), 0), ((C, A, B, 0, 0, EXTRA, 2.0), 0), (
        (C, A, B, 0, 0, EXTRA, 1.0), 1)],
    ids=["odd address", "factor of a bias", "another switch"],
)  # fmt: skip
def test_native_products_ask_python(cuda, arguments, tf32):
    runtime = cuda.part(None)
    kernel, watched = _native(runtime, (False, False, 1, 0, None, False)), Watched(tf32)
    kernel(watched.words, *arguments)
    assert watched.calls == [("otherwise", arguments)]


def _native(runtime, key):
    kernel = _load(runtime, "product", "library_product:build", key)
    # the emulated device looks for addresses of the host, of which there are some here
    return kernel.__closure__[1].cell_contents if runtime.driver.emulated else kernel


def test_switches_of_products(cuda):
    runtime = cuda.part(None)
    assert not runtime.allows_tf32 and not flambeau.backends.cuda.matmul.allow_tf32
    flambeau.set_float32_matmul_precision("high")
    try:
        assert runtime.allows_tf32 and runtime.state[TF32] == 1
        assert flambeau.backends.cuda.matmul.allow_tf32
        flambeau.backends.cuda.matmul.allow_tf32 = False
        assert flambeau.get_float32_matmul_precision() == "highest"
    finally:
        switches.change(precision="highest")


# -- a stack of recurrent layers in a library ----------------------------------------------------


class OneLayer:
    """In place of the library: one layer of tanh, computed by NumPy on memory of the host."""

    def __init__(self, driver, steps, batch, inputs, width):
        self.driver, self.sizes = driver, (steps, batch, inputs, width)
        weights = width * (inputs + width + 2)
        self.weight_bytes, self.room, self.kept = map(ctypes.c_size_t, (4 * weights, 64, 64))

    def _do(self, act, *given):
        if self.driver.recorded is not None:
            self.driver.recorded.append((act, given))
        else:
            act(*given)

    def forward(self, _, *places):
        self._do(self._forward, *places)

    def backward(self, _, *places):
        self._do(self._backward, *places)

    def _weights(self, place):
        _, _, inputs, width = self.sizes
        flat = memory(place, width * (inputs + width + 2))
        w_ih, w_hh, b_ih, b_hh = np.split(flat, np.cumsum([width * inputs, width * width, width]))
        return w_ih.reshape(width, inputs), w_hh.reshape(width, width), b_ih, b_hh

    def _forward(self, x, y, h, hn, c, cn, w, room, kept):
        steps, batch, inputs, width = self.sizes
        w_ih, w_hh, b_ih, b_hh = self._weights(w)
        x, y = memory(x, steps, batch, inputs), memory(y, steps, batch, width)
        state = memory(h, batch, width)
        for t in range(steps):
            state = y[t] = np.tanh(x[t] @ w_ih.T + b_ih + state @ w_hh.T + b_hh)
        memory(hn, batch, width)[:] = state
        memory(kept, 1)[0] = 7

    def _backward(self, y, d_y, x, d_x, h, d_hn, d_h, c, d_cn, d_c, w, d_w, room, kept):
        steps, batch, inputs, width = self.sizes
        assert memory(kept, 1)[0] == 7
        memory(kept, 1)[0] = 8  # what is kept changes, as the library's does
        w_ih, w_hh, _, _ = self._weights(w)
        s_ih, s_hh, s_bi, s_bh = self._weights(d_w)
        x, y = memory(x, steps, batch, inputs), memory(y, steps, batch, width)
        d_x, d_y = memory(d_x, steps, batch, inputs), memory(d_y, steps, batch, width)
        slope = memory(d_hn, batch, width).copy()
        for t in reversed(range(steps)):
            slope = (slope + d_y[t]) * (1 - y[t] ** 2)
            d_x[t] = slope @ w_ih
            s_ih += slope.T @ x[t]
            s_hh += slope.T @ (y[t - 1] if t else memory(h, batch, width))
            s_bi += slope.sum(0)
            s_bh += slope.sum(0)
            slope = slope @ w_hh
        memory(d_h, batch, width)[:] = slope


def memory(place, *shape):
    """Floats of the host at an address."""
    count = math.prod(shape)
    return np.frombuffer((ctypes.c_float * count).from_address(place), np.float32).reshape(shape)


def with_one_layer(runtime, monkeypatch):
    """Let the library have layers of one kind."""
    monkeypatch.setattr(runtime.driver, "recording", False, raising=False)
    monkeypatch.setattr(runtime.recurrence, "stacks", {})
    monkeypatch.setattr(runtime, "cudnn", lambda: True)

    def made(library, kind, code, steps, batch, inputs, width, layers, both, biased, tf32, way):
        if (kind, code, layers, both, biased) != ("tanh", "f32", 1, False, True):
            raise cudnn_rnn.Failed
        return OneLayer(runtime.driver, steps, batch, inputs, width)

    monkeypatch.setattr(cudnn_rnn, "Stack", made)


def test_stacks_of_layers(cuda, monkeypatch):
    runtime = cuda.part(None)
    if not runtime.driver.emulated:
        pytest.skip("NumPy does not see memory of a GPU")
    with_one_layer(runtime, monkeypatch)
    net = flambeau.nn.RNN(6, 8)
    params = [p.detach() for p in net.parameters()]
    names = [n for n, _ in net.named_parameters()]

    def work(x, h, *weights):
        given = (x, h)
        out, last = flambeau.func.functional_call(
            net.to(x.device), dict(zip(names, weights)), given
        )
        return flambeau.cat([out, 2 * last])

    for seed in range(2):
        x, h = drawn(5, 3, 6, seed=seed), drawn(1, 3, 8, seed=seed)
        compare(work, [x, h, *params], 1e-5)
    on_gpu = [p.to("cuda").requires_grad_() for p in params]

    def steps(count):
        """Gradients of so many steps with the same tensors: addresses come again."""
        x, h = (drawn(*s).to("cuda").requires_grad_() for s in ((50, 30, 6), (1, 30, 8)))
        found = []
        for _ in range(count):
            loss = (work(x, h, *on_gpu) ** 2).sum()
            found.append([g.cpu() for g in flambeau.autograd.grad(loss, (x, h, *on_gpu))])
        return found

    for _ in range(2):
        first, *others = steps(8)
        assert all(a.equal(b) for other in others for a, b in zip(first, other))
        *_, stack = runtime.recurrence.stacks.values()
        for call in stack.calls:
            assert call.graphs.graphs and call.graphs.hits >= 4
        flambeau.cuda.empty_cache()
        assert not any(call.graphs.graphs for call in stack.calls)


def test_stacks_go_back_twice(cuda, monkeypatch):
    """What the library keeps is changed by the way back; whoever goes back again has a copy."""
    runtime = cuda.part(None)
    if not runtime.driver.emulated:
        pytest.skip("NumPy does not see memory of a GPU")
    with_one_layer(runtime, monkeypatch)
    net, x = flambeau.nn.RNN(6, 8).to("cuda"), drawn(5, 3, 6).to("cuda").requires_grad_()
    loss = net(x)[0].sum()
    first, second = (flambeau.autograd.grad(loss, x, retain_graph=k) for k in (True, False))
    assert first[0].equal(second[0])


def test_gradients_of_attention_lie_as_its_arguments(cuda, monkeypatch):
    """Parts of one tensor have gradients that are parts of one: nothing is left to be joined."""
    runtime = cuda.part(None)
    if not runtime.driver.emulated:
        pytest.skip("NumPy does not see memory of a GPU")
    batch, length, heads, width = 2, 5, 3, 4
    seen = []

    class Noted:
        def probe(self):
            pass

        def __call__(self, _, dq, dk, dv, *others):
            seen.append((dq, dk, dv, others[-2:]))
            whole = memory(dq, batch, length, 3, heads, width)
            for k in range(3):
                whole[:, :, k] = k + 1

    own = runtime.attention
    monkeypatch.setattr(own, "kernels", {})
    monkeypatch.setattr(own, "calls", {})
    monkeypatch.setattr("flambeau.eager.cuda_attention.Backward", lambda *facts: Noted())
    x = flambeau.zeros(batch, length, 3 * heads * width, device="cuda")
    q, k, v = (t.view(batch, length, heads, width).transpose(1, 2) for t in x.chunk(3, 2))
    out = flambeau.zeros(batch, length, heads, width, device="cuda").transpose(1, 2)
    logs = flambeau.zeros(batch, heads, length, device="cuda")
    found = own.side_by_side(q, k, v, out, logs, out, None, None, True, 0.5, 1.0)
    step = heads * width * 4
    ((dq, dk, dv, numbers),) = seen
    assert (dk - dq, dv - dq, numbers) == (step, 2 * step, (0.5, 1.0))
    parts = [t.transpose(1, 2).reshape(batch, length, heads * width) for t in found]
    for number, part in enumerate(parts):
        assert part.tolist() == flambeau.full(part.shape, number + 1.0).tolist()
    joined = flambeau.autograd.grad(x.requires_grad_().chunk(3, 2), x, parts)[0]
    assert joined.data_ptr() == dq and joined.is_contiguous()
    for others in ((k, q, v), (q, k, v.clone())):
        assert own.side_by_side(*others, out, logs, out, None, None, True, 0.5, 1.0) is None


@pytest.mark.parametrize("name, module", [("cuBLASLt", "cublas"), ("cuDNN", "cudnn")])
def test_libraries_that_cannot_be_used_say_why(name, module, monkeypatch):
    """Else a machine would be slow, and nobody would know."""
    library = importlib.import_module(f"flambeau.runtime.{module}")

    def missing(runtime):
        raise ImportError("No module named 'cuda.bindings.cynvvm'")

    monkeypatch.setattr(library, "Lt" if module == "cublas" else "Library", missing)
    runtime = types.SimpleNamespace(driver=types.SimpleNamespace(emulated=False))
    with pytest.warns(UserWarning, match=f"{name} cannot be used .*cynvvm"):
        assert library.start(runtime) is None
