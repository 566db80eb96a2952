"""A third device, for tests alone: the processor under another name, with memory of its own.

It shows that nothing takes "the device" for the host. Its blocks are filled with a pattern whenever
they change hands, so reading memory before it is written shows; copies to and from it are counted.
"""

import copy
import ctypes
import io
import pickle
import re

import pytest

import flambeau as torch
from flambeau._device import device as devices
from flambeau.codegen.llvm_cpu import host
from flambeau.eager.kernels import building_for
from flambeau.eager.methods import function
from flambeau.ops.table import TABLE
from flambeau.runtime.allocator import NO_POOL, Allocator, Pool
from flambeau.runtime.base import Runtime
from flambeau.runtime.cpu import copy_bytes
from tests.ops.compare import build, outcome, tensor_count
from tests.ops.samples import calls_of, operands

F, nn = torch.nn.functional, torch.nn
NAME = "privateuseone"


class PoisonedPool(Pool):
    """Free blocks, written full when they are taken and when they come back."""

    __slots__ = ()

    def __init__(self, size, owner):
        super().__init__(size, owner)
        self.give = self.take_back

    def _poisoned(self, address, write=ctypes.memset):  # kept here for when modules are gone
        write(address, 0xA5, self.size)
        return address

    def pop(self, *place):
        return self._poisoned(super().pop(*place))

    def grow(self):
        return self._poisoned(super().grow())

    def take_back(self, address):
        self.append(self._poisoned(address))


class PoisonedAllocator(Allocator):
    def _pool(self, size):
        with self.lock:
            return self.pools.setdefault(size, PoisonedPool(size, self))

    def owns(self, address, nbytes):
        """Does a block lie in memory that this allocator has mapped?"""
        # slabs move their start forward as they are cut, so it is counted back from their end
        slabs = [(start + left - (1 << 22), start + left) for start, left, _ in self.slabs]
        large = [(start, start + size) for start, (_, size) in self.maps.items()]
        return any(first <= address <= last - nbytes for first, last in slabs + large)


class Third(Runtime):
    """Memory of a PoisonedAllocator, kernels for the host's processor."""

    def __init__(self):
        self.allocator = PoisonedAllocator()
        self.read_bytes = self.written_bytes = 0
        loading = building_for(lambda: host().target)
        super().__init__(self.allocator.pool_for, loading, copy_bytes, self._read, self._write)

    def _read(self, to, source, nbytes):
        self.read_bytes += nbytes
        copy_bytes(to, source, nbytes)

    def _write(self, target, source, nbytes):
        self.written_bytes += nbytes
        copy_bytes(target, source, nbytes)


@pytest.fixture(scope="module")
def third():
    devices.runtimes[NAME] = runtime = Third()
    yield runtime
    del devices.runtimes[NAME]


def test_memory_comes_from_the_runtime_of_the_device(third):
    x = torch.empty(100, device=NAME)
    assert x.device == torch.device(NAME) and x.device.type == NAME
    assert third.allocator.owns(x.data_ptr(), x.nbytes)
    assert set(x.view(torch.uint8).tolist()) == {0xA5}
    assert (x.untyped_storage().device, x.storage().device) == (x.device, x.device)
    assert third.allocator.owns(x.resize_(300000).data_ptr(), x.nbytes)
    assert third.allocator.pool_for(0) is NO_POOL


def test_copies_go_through_the_runtimes(third):
    a = torch.randn(7, 6)
    before = third.written_bytes, third.read_bytes
    x = a.t().to(NAME)
    assert x.device.type == NAME and third.written_bytes - before[0] == a.nbytes
    assert torch.equal(x.cpu(), a.t()) and third.read_bytes - before[1] == a.nbytes
    assert x.tolist() == a.t().tolist() and x[0, 0].item() == a[0, 0].item()
    y = torch.zeros(6, 7, dtype=torch.float64, device=NAME)
    assert torch.equal(y.copy_(a.t()).cpu(), a.t().double())
    assert torch.equal(torch.zeros(2, 6, 7).copy_(x), a.t().expand(2, 6, 7))
    assert torch.equal(x.to(torch.float16).to("cpu"), a.t().half())
    assert x.to("cpu", torch.float64).dtype is torch.float64
    assert x.to(NAME) is x and x.to(x.device) is x


def test_tensors_are_made_there(third):
    for made in (
        torch.zeros(3, device=NAME), torch.tensor([1, 2.5], device=NAME), torch.eye(3, device=NAME),
        torch.arange(5, device=NAME), torch.full((2, 2), 3, device=NAME),
        torch.linspace(0, 1, 4, device=NAME), torch.rand(4, device=NAME),
        torch.as_tensor(1.0, device=NAME),
        torch.zeros(2, device=NAME).new_ones(3), torch.ones_like(torch.zeros(2, device=NAME)),
        torch.hann_window(5, device=NAME), torch.randperm(4, device=NAME),
    ):  # fmt: skip
        assert made.device.type == NAME and third.allocator.owns(made.data_ptr(), made.nbytes)
    with torch.device(NAME):
        assert torch.ones(2).device.type == NAME
    torch.manual_seed(3)
    drawn = torch.randn(50, device=NAME)
    torch.manual_seed(3)
    assert torch.equal(drawn.cpu(), torch.randn(50))


def test_copies_and_pickles_stay_there(third):
    x = torch.randn(5, device=NAME, requires_grad=True)
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone(), x.detach().contiguous()):
        assert y.device == x.device and torch.equal(y.cpu(), x.cpu())
        assert third.allocator.owns(y.data_ptr(), y.nbytes)
    file = io.BytesIO()
    torch.save({"x": x.detach()}, file)
    file.seek(0)
    assert torch.equal(torch.load(file)["x"].cpu(), x.detach().cpu())
    assert repr(torch.ones(2, device=NAME)) == f"tensor([1., 1.], device='{NAME}')"
    with pytest.raises(TypeError, match=f"can't convert {NAME} device type tensor to numpy"):
        torch.ones(2, device=NAME).numpy()


# Everything below runs on both devices: a, b of 4 x 6, v of 6, w of 5 x 6, s of 6 x 6, i of indices
# below 4, t of classes below 6, m a mask, pictures p of 2 x 3 x 8 x 8, filters k of 4 x 3 x 3 x 3.
CASES = """
a + b; a * 2 - b; a.exp().log1p(); (a > 0) & (b < 0); torch.where(m, a, b); a.clamp(-0.5, 0.5)
a.add(b, alpha=2); torch.addcmul(a, b, b, value=0.5); a.to(torch.float64); a.half() + b.half()
a ** 2; a.sum(); a.sum(0); a.mean(1, keepdim=True); a.max(); a.max(1); a.argmin(0); a.var(1)
a.std(); a.prod(1); a.norm(); a.logsumexp(1); (a > 0).any(1); a.amax((0, 1)); a.cumsum(1)
a.cumprod(0); a.logcumsumexp(1); a.t(); a[1:, ::2] + 1; a.reshape(-1)[3:9]
a.unsqueeze(1).expand(4, 3, 6).sum(1); a.flip(0); a.roll(1, 0); a.select(0, 1); a.unbind(0)[1]
torch.cat([a, b]); torch.stack([a, b], 1); a.repeat(2, 1); a.tril(); a[i]; a[m]; a[i, 2]
a.gather(0, i[None, :]); a.index_select(0, i); torch.nonzero(m); a.masked_select(m)
a.masked_fill(m, 3.0); a.index_add(0, i, w); a.scatter_add(0, i[:, None].expand(5, 6), w)
a.take(i); a @ b.t(); a @ v; v @ v; torch.addmm(s, a.t(), b); torch.bmm(p[0], p[1])
torch.outer(v, v); a.mm(s); torch.einsum('ij,kj->ik', a, b); F.linear(a, w, w[:, 0])
F.linear(a, w); torch.einsum('ij,ij->i', a, b); F.conv2d(p, k)
F.conv2d(p, k, padding=1, stride=2); F.conv_transpose2d(p, k.transpose(0, 1))
F.conv1d(p[:, :, 0], k[:, :, 0]); F.conv2d(p.contiguous(memory_format=torch.channels_last), k)
F.conv2d(p, k[:3, :1].contiguous(), groups=3); F.max_pool2d(p, 2); F.avg_pool2d(p, 3, 2)
F.adaptive_avg_pool2d(p, 1); F.interpolate(p, scale_factor=2)
F.interpolate(p, size=5, mode='bilinear'); F.pad(p, (1, 2))
F.pad(p, (1, 1, 1, 1), mode='reflect'); F.unfold(p, 3)
F.grid_sample(p, torch.zeros_like(p)[:, 0, :, :2, None].expand(2, 8, 2, 2), align_corners=False)
F.softmax(a, 1); F.log_softmax(a, 0); F.gelu(a); F.relu(a); F.layer_norm(a, (6,))
F.rms_norm(a, (6,)); F.group_norm(p, 3); F.batch_norm(p, None, None, training=True)
F.instance_norm(p); F.normalize(a); F.cross_entropy(a, t); F.nll_loss(F.log_softmax(a, 1), t)
F.mse_loss(a, b); F.l1_loss(a, b, reduction='none')
F.binary_cross_entropy_with_logits(a, (b > 0).float()); F.smooth_l1_loss(a, b)
F.kl_div(a, b.softmax(1), reduction='sum'); F.embedding(i, a); F.one_hot(t, 6)
F.embedding_bag(i, a, torch.zeros_like(i)[:1]); F.cosine_similarity(a, b)
F.scaled_dot_product_attention(p, p, p); torch.cdist(a, b); F.glu(a); F.prelu(a, v[:1])
F.dropout(a, 0.0); a.sort(1); a.topk(2); a.kthvalue(2); a.median(); t.unique(); t.bincount()
torch.searchsorted(a.sort(1)[0], b); torch.linalg.solve(s @ s.t() + 6 * torch.eye(6, device=d), v)
torch.linalg.inv(s); torch.linalg.det(s)
torch.linalg.cholesky(s @ s.t() + 6 * torch.eye(6, device=d)); torch.linalg.qr(s)[1].abs()
torch.linalg.svdvals(s); torch.fft.fft(a); torch.fft.irfft(torch.fft.rfft(a)); torch.fft.fft2(a)
a.histc(4); torch.quantile(a, 0.5); a.clone().add_(b); a.clone().mul_(2).relu_()
a.clone().fill_(3); a.clone().zero_(); a.clone().copy_(b)
torch.add(a, b, out=torch.empty(0, device=d)); torch.meshgrid(v, v, indexing='ij')[0]
torch.tensordot(a, b, 2); torch.complex(a, b).abs(); torch.view_as_real(torch.complex(a, b))
torch.polar(a.abs(), b); torch.diag(v); torch.combinations(v); torch.cartesian_prod(v, v)
torch.block_diag(a, b); torch.trapezoid(a); a.diff(); nn.utils.rnn.pad_sequence([v, v[:3]])
torch.allclose(a, a); torch.equal(a, b); a.isnan().sum(); v.tolist()
"""


MODULES = """
nn.LSTM(6, 4)(a[:, None]); nn.GRU(6, 4, 2, bidirectional=True)(a[:, None]); nn.RNN(6, 4)(a[None])
nn.LSTMCell(6, 4)(a); nn.MultiheadAttention(6, 2)(a, b, b); nn.TransformerEncoderLayer(6, 2, 8)(a)
nn.BatchNorm2d(3)(p); nn.Conv2d(3, 4, 3, padding=1)(p); nn.ConvTranspose2d(3, 2, 2, 2)(p)
nn.Embedding(5, 4)(i); nn.EmbeddingBag(5, 4)(i[None]); nn.Bilinear(6, 6, 3)(a, b); nn.PReLU()(a)
nn.GroupNorm(3, 3)(p); nn.InstanceNorm2d(3)(p); nn.LocalResponseNorm(2)(p)
nn.Upsample(scale_factor=2)(p); nn.TripletMarginLoss()(a, b, a + 1); nn.MultiMarginLoss()(a, t)
nn.HuberLoss()(a, b); nn.PixelShuffle(1)(p)
nn.CTCLoss()(a[:, None].log_softmax(2), t[None, 1:2] + 1, (4,), (1,))
nn.GaussianNLLLoss()(a, b, b * b)
"""


def expressions(text):
    return [part.strip() for part in text.replace("\n", "; ").split("; ") if part.strip()]


def names_on(device):
    generator = torch.Generator().manual_seed(1)

    def drawn(*shape):
        return torch.randn(*shape, generator=generator).to(device)

    names = {"torch": torch, "F": F, "nn": nn, "d": device}
    names |= {"a": drawn(4, 6), "b": drawn(4, 6), "v": drawn(6), "w": drawn(5, 6), "s": drawn(6, 6)}
    names |= {"p": drawn(2, 3, 8, 8), "k": drawn(4, 3, 3, 3), "m": drawn(4, 6) > 0}
    names |= {
        "i": torch.tensor([3, 0, 2, 1, 1]).to(device),
        "t": torch.tensor([5, 0, 2, 1]).to(device),
    }
    return names


def parts_of(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


def check_same(found, wanted):
    for x, y in zip(parts_of(found), parts_of(wanted), strict=True):
        if isinstance(y, torch.Tensor):
            assert x.device.type == NAME
            torch.testing.assert_close(x.cpu(), y, rtol=0, atol=0, equal_nan=True)
        else:
            assert x == y


@pytest.mark.parametrize("expression", expressions(CASES))
def test_the_same_as_on_the_host(third, expression):
    check_same(eval(expression, names_on(NAME)), eval(expression, names_on("cpu")))


@pytest.mark.parametrize("expression", expressions(MODULES))
def test_modules(third, expression):
    made, rest = re.match(r"(nn\.\w+\(.*?\))(\(.*)", expression).groups()
    found = []
    for place in (NAME, "cpu"):
        torch.manual_seed(0)
        found.append(eval(f"({made}).to(d).eval(){rest}", names_on(place)))
    check_same(*map(flat, found))


def flat(value):
    """All tensors of a nested result."""
    return [t for part in value for t in flat(part)] if isinstance(value, tuple) else [value]


ROWS = sorted(
    n for n, op in TABLE.items() if op.kind == "pointwise" and (op.variants or op.namespaces)
)


@pytest.mark.parametrize("name", sorted(ROWS))
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_every_pointwise_row(third, name, dtype):
    for call in calls_of(TABLE[name]):
        values = operands(TABLE[name], dtype, max(1, tensor_count(call)))
        args, kwargs = build(torch, call, values, dtype)
        wanted = outcome(function(name), args, kwargs)
        there = [[moved(a) for a in args], {k: moved(v) for k, v in kwargs.items()}]
        found = outcome(function(name), *there)
        if isinstance(wanted, Exception):
            assert type(found) is type(wanted) and str(found) == str(wanted)
        else:
            check_same(found, wanted)


def moved(value):
    return value.to(NAME) if isinstance(value, torch.Tensor) else value


SLOPES = """
(a * b).sum(); (a @ s).relu().sum(); F.cross_entropy(a, t); F.layer_norm(a, (6,)).pow(2).sum()
a[i].sum(); F.softmax(a, 1)[:, 0].sum(); F.linear(a, w).tanh().sum(); a.max(1)[0].sum()
a.cumsum(1).pow(2).sum(); torch.cat([a, a * 2]).pow(2).sum(); F.embedding(i, a).pow(2).sum()
a.std(); a.t()[1:3].exp().sum(); a[m].sum(); torch.zeros_like(a).masked_scatter(m, a * 2).sum()
F.conv2d(F.linear(a, w).reshape(1, 1, 4, 5), k[:, :1]).pow(2).sum(); a.norm()
a.gather(0, i[None, :]).sum(); F.batch_norm(a, None, None, training=True).pow(2).sum()
F.gelu(a).sum(); a.sort(1)[0][:, 0].sum(); F.max_pool2d(a[None], 2).sum()
F.scaled_dot_product_attention(a[None], a[None], a[None]).sum(); a.var(0).sum()
"""


@pytest.mark.parametrize("expression", expressions(SLOPES))
def test_the_same_gradients(third, expression):
    slopes = []
    for place in (NAME, "cpu"):
        names = names_on(place)
        names["a"].requires_grad_()
        eval(expression, names).backward()
        slopes.append(names["a"].grad)
    check_same(*slopes)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_training(third, optimizer):
    losses = []
    for place in (NAME, "cpu"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 6)).to(
            place
        )
        names, steps = names_on(place), []
        opt = getattr(torch.optim, optimizer)(model.parameters(), lr=1e-2)
        for _ in range(5):
            opt.zero_grad()
            loss = F.cross_entropy(model(names["a"]), names["t"])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            steps.append(loss.item())
        assert all(p.device.type == torch.device(place).type for p in model.parameters())
        losses.append(steps)
    assert losses[0] == losses[1]


MIXED = """
a + B; B * a; torch.where(m, B, B); a.clone().add_(B); torch.cat([a, B]); torch.stack([a, B])
a @ B.t(); F.conv2d(p, K); F.linear(a, B); torch.addmm(s, a.t(), B); F.layer_norm(a, (6,), V)
F.cross_entropy(a, T); F.mse_loss(a, B); a > B; torch.lerp(a, B, 0.5)
F.batch_norm(a, None, None, V, V, True); torch.cdist(a, B); F.embedding(I, a)
torch.searchsorted(a, B); F.scaled_dot_product_attention(a[None], B[None], B[None])
a.gather(0, I[None, :]); a.index_select(0, I); torch.bmm(p[0], P[1]); torch.dot(v, V)
"""


@pytest.mark.parametrize("expression", expressions(MIXED))
def test_two_devices_do_not_mix(third, expression):
    names = names_on(NAME)
    names |= {n.upper(): v for n, v in names_on("cpu").items() if len(n) == 1}
    with pytest.raises(RuntimeError, match=r"same device"):
        eval(expression, names)


def test_numbers_of_the_host_may_meet_any_device(third):
    x, one = torch.ones(3, device=NAME), torch.tensor(2.0)
    for found in (x * one, one + x, x.clone().mul_(one)):
        assert found.device.type == NAME and found.tolist() in ([2.0] * 3, [3.0] * 3)


def test_kernels_are_kept_by_the_runtime(third):
    x = torch.randn(33, 7, device=NAME)
    assert torch.device("cpu").runtime.kernels is not third.kernels
    before = len(torch.device("cpu").runtime.kernels)
    _ = (x.sinh() + x.t().contiguous().t().cosh()).softmax(0).sum()
    assert len(torch.device("cpu").runtime.kernels) == before
    assert len(third.kernels) > 0


@pytest.mark.parametrize(
    "name, kind, words",
    [
        ("cuda", AssertionError, "Torch not compiled with CUDA enabled"),
        ("xpu", AssertionError, "Torch not compiled with XPU enabled"),
        ("hpu", ModuleNotFoundError, "No module named 'torch.hpu'"),
        ("xla", NotImplementedError, "Could not run 'aten::empty.memory_format' with arguments"),
    ],
)
def test_devices_without_a_runtime_say_what_pytorch_says(name, kind, words):
    for make in (lambda: torch.empty(2, device=name), lambda: torch.ones(2).to(name)):
        with pytest.raises(kind, match=words):
            make()


def test_there_is_one_device_of_each_kind():
    assert str(torch.empty(0, device="meta:2").device) == "meta"
    assert str(torch.empty(0, device="cpu:0").device) == "cpu"
