"""Scans, losses, norms and reductions on a GPU, or on the host in place of one, against the host.

Shapes are chosen for what kernels do with them: rows of one thread, of a team, of a group, in
registers, in several blocks; vectors that do not fit; columns in vectors and in pieces.
"""

import math

import pytest

import flambeau as torch
import flambeau.nn.functional as F

CLOSE = {"float32": 5e-5, "float64": 1e-9, "bfloat16": 3e-2, "float16": 1e-2}


def check_same(run, *tensors, tolerance=5e-5, grad=True, exactly=False):
    """run(*tensors) on both devices, and its gradients; exactly: in float64 on the host."""
    found = []
    for place in ("cuda", "cpu"):
        leaves = [t.detach().clone().to(place) for t in tensors]
        if exactly and place == "cpu":
            leaves = [t.double() for t in leaves]
        for leaf in leaves:
            leaf.requires_grad_(grad and leaf.is_floating_point())
        out = run(*leaves)
        parts = [out] if isinstance(out, torch.Tensor) else list(out)
        if grad and parts[0].requires_grad:
            slopes = torch.linspace(-1, 1, parts[0].numel(), device=place).reshape(parts[0].shape)
            total = parts[0] if parts[0].dtype is torch.float64 else parts[0].float()
            (total * slopes).sum().backward()
            parts += [leaf.grad for leaf in leaves if leaf.grad is not None]
        found.append([p.detach().cpu() for p in parts])
    for x, y in zip(*found, strict=True):
        x = x.double() if exactly else x
        scale = y.abs().max().item() if y.numel() and y.is_floating_point() else 1
        bound = tolerance * (1 + (scale if math.isfinite(scale) else 1))
        torch.testing.assert_close(x, y, rtol=tolerance, atol=bound, equal_nan=True)


SCANNED = [
    (1,),
    (300,),
    (3, 1027),
    (4, 64),
    (70, 12),
    (2, 300, 3),
    (2, 5, 40, 33),
    (0, 4),
    (20_001,),
]


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"])
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "bfloat16", "int32", "uint8", "bool", "complex64"]
)
def test_scans(name, dtype):
    floats = dtype in CLOSE
    if (name == "logcumsumexp" and not floats) or (
        name.startswith("cumm") and dtype == "complex64"
    ):
        pytest.skip("not for this dtype")
    for size in SCANNED:
        x = torch.testing.make_tensor(
            size, dtype=getattr(torch, dtype), device="cpu", low=-1, high=2
        )
        x = x.sign() if name == "cumprod" and floats else x
        x = x / 3 if name == "cumprod" and dtype == "complex64" else x
        for dim in range(x.ndim):
            tolerance = CLOSE.get(dtype, 5e-5)
            check_same(lambda t, d=dim: getattr(t, name)(d), x, tolerance=tolerance, grad=False)


@pytest.mark.parametrize("rows, length", [(1, 1 << 14), (3, 300_001), (1, 2048 * 64 * 3 + 5)])
@pytest.mark.parametrize("name", ["cumsum", "cummax", "logcumsumexp"])
def test_long_scans_have_the_same_bits_each_time(name, rows, length):
    """Tiles wait for each other, in whatever order they run."""
    torch.manual_seed(0)
    x = torch.randn(rows, length)
    x[:, ::1000] = 2.5  # ties
    there = x.cuda()
    found = [getattr(there, name)(1) for _ in range(4)]
    wanted = getattr(x, name)(1)
    if name == "cummax":
        found, wanted = [torch.stack([v, i.float()]) for v, i in found], torch.stack([*wanted])
    assert all(torch.equal(found[0], f) for f in found[1:])
    torch.testing.assert_close(found[0].cpu(), wanted, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("name", ["cummax", "cummin", "logcumsumexp", "cumsum"])
def test_scans_of_what_is_no_number(name):
    inf, nan = math.inf, math.nan
    x = torch.tensor(
        [[-inf, -inf, 1, inf, 2], [inf, 1, nan, 3, nan], [-inf] * 5, [1, nan, 2, 1, inf]]
    )
    for y in (x, x.repeat(1, 60), x.mT.contiguous(), x.repeat(3, 4).mT.contiguous()):
        for dim in (0, 1):
            check_same(lambda t, d=dim: getattr(t, name)(d), y, grad=False)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(dtype, reduction):
    for size in ((1, 1), (3, 5), (128, 10), (5, 1000), (2, 9001), (900, 40), (0, 7), (3, 5, 4)):
        x = (torch.randn(size) * 3 - 50).to(getattr(torch, dtype))
        target = torch.randint(0, size[1], (size[0], *size[2:]))
        weight = torch.rand(size[1]).to(x.dtype)
        if size[0] and size[1] > 4:
            x[0, 2], target.view(-1)[0] = -math.inf, 1
        for options in ({}, {"weight": weight, "ignore_index": 1}, {"label_smoothing": 0.1}):

            def run(scores, options=options, target=target):
                given = {
                    k: v.to(scores.device) if isinstance(v, torch.Tensor) else v
                    for k, v in options.items()
                }
                goal = target.to(scores.device)
                return F.cross_entropy(scores, goal, reduction=reduction, **given)

            if "label_smoothing" in options:
                x = x.nan_to_num(neginf=-60)
            check_same(run, x, tolerance=CLOSE[dtype])

        def given_logarithms(scores, target=target):
            goal = target.to(scores.device)
            return F.nll_loss(F.log_softmax(scores, 1), goal, reduction=reduction)

        check_same(given_logarithms, x, tolerance=CLOSE[dtype])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("classes", [7, 64, 5000])
def test_cross_entropy_under_autocast(dtype, reduction, classes):
    """It is computed in float32, and scores are not copied for it."""
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    x = torch.randn(33, classes, device="cuda").to(kind).requires_grad_()
    target = torch.randint(0, classes, (33,)).cuda()
    target[3] = -100
    wanted = F.cross_entropy(x.float(), target, reduction=reduction)
    slope = torch.autograd.grad(wanted.sum(), x)[0]
    for loss in (F.cross_entropy, torch.nn.CrossEntropyLoss(reduction=reduction)):
        options = {"reduction": reduction} if loss is F.cross_entropy else {}
        with torch.autocast("cuda", dtype=kind):
            found = loss(x, target, **options)
        assert found.dtype is torch.float32 and found.grad_fn.name() == "NllLossBackward0"
        torch.testing.assert_close(found, wanted)
        for again in (True, False):
            got = torch.autograd.grad(found.sum(), x, create_graph=again)[0]
            torch.testing.assert_close(got.detach(), slope)
        assert found.grad_fn.next_functions[0][0].name() == "torch::autograd::AccumulateGrad"


def test_cross_entropy_of_probabilities():
    x, p = torch.randn(40, 1000), torch.randn(40, 1000).softmax(1)
    check_same(lambda s: F.cross_entropy(s, p.to(s.device)), x)


def test_a_class_that_is_none_is_told(cuda):
    scores = torch.randn(4, 3, device="cuda")
    F.cross_entropy(scores, torch.tensor([0, 1, 2, 9], device="cuda"))
    with pytest.raises(IndexError):
        cuda.part(0).synchronize()
    assert F.cross_entropy(scores, torch.tensor([0, 1, 2, 0], device="cuda")).isfinite()


LOSSES = (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy_with_logits)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_losses(loss, dtype):
    for size in ((1,), (300,), (0,), (40_003,), (333, 333), (20, 5, 30)):
        x, y = (torch.rand(size).to(getattr(torch, dtype)) for _ in range(2))
        for reduction in ("mean", "sum"):
            for turn in (lambda t: t, lambda t: t.mT if t.ndim > 1 else t):

                def run(a, b, turn=turn, reduction=reduction):
                    return loss(
                        turn(a), b.mT.contiguous() if a.ndim > 1 else b, reduction=reduction
                    )

                if x.ndim < 2 or turn(x).shape == y.mT.shape:
                    check_same(run, x, y, tolerance=CLOSE[dtype])


def test_losses_have_the_same_bits_each_time():
    x, y = torch.randn(100_001, device="cuda"), torch.randn(100_001, device="cuda")
    assert len({F.mse_loss(x, y).item() for _ in range(3)}) == 1


NORMS = {
    "batch_norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
    "evaluated": lambda x, w, b: F.batch_norm(x, b.detach(), w.detach(), w, b),
    "group_norm": lambda x, w, b: F.group_norm(x, 2, w, b),
    "one group": lambda x, w, b: F.group_norm(x, 1, w, b),
    "layer_norm": lambda x, w, b: F.layer_norm(x.movedim(1, -1), w.shape, w, b),
    "rms_norm": lambda x, w, b: F.rms_norm(x.movedim(1, -1), w.shape, w) + b,
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("across", [False, True])
def test_norms(name, dtype, across):
    for size in (
        (4, 6, 5, 5),
        (8, 16, 33, 40),
        (700, 40),
        (2, 4, 200, 180),
        (9, 300, 8),
        (300, 768),
    ):
        kind = getattr(torch, dtype)
        x = (torch.randn(size) * 2 + 1).to(kind)
        if across and x.ndim == 4:
            x = x.to(memory_format=torch.channels_last)
        w, b = torch.rand(size[1]).to(kind) + 0.5, torch.rand(size[1]).to(kind)
        tolerance = 4e-2 if dtype == "bfloat16" else 3e-4
        # sums of 72,000 terms that cancel: the host is further off than the GPU
        long = name == "layer_norm" and size == (2, 4, 200, 180) and dtype == "float32"
        check_same(NORMS[name], x, w, b, tolerance=tolerance, exactly=long)


def test_running_statistics():
    for size in ((8, 16, 33, 40), (40, 3)):
        x, found = torch.randn(size) + 3, []
        for place in ("cuda", "cpu"):
            mean, var = torch.zeros(size[1], device=place), torch.ones(size[1], device=place)
            F.batch_norm(x.to(place), mean, var, training=True, momentum=0.3)
            found.append((mean.cpu(), var.cpu()))
        for a, b in zip(*found):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_rows_in_registers_and_rows_that_are_too_long(dtype):
    for size in ((3, 8), (2, 1000), (3, 1024), (4500, 8), (2, 8192), (2, 9001), (2, 20_000)):
        x = (torch.randn(size) * 3 - 100).to(getattr(torch, dtype))
        for run in (
            lambda t: t.softmax(-1), lambda t: t.log_softmax(-1), lambda t: t.logsumexp(-1),
            lambda t: F.layer_norm(t, t.shape[-1:]), lambda t: t[..., 1:].softmax(-1),
        ):  # fmt: skip
            check_same(run, x, tolerance=CLOSE[dtype] if dtype != "float64" else 1e-6)


@pytest.mark.parametrize("row", ["inf 1 2 3", "-inf -inf -inf -inf", "-inf 1 2 -inf", "nan 1 2 3"])
def test_exponentials_of_what_is_no_number(row):
    x = torch.tensor([float(v) for v in row.split()])
    for count in (1, 300, 9000):
        for run in (torch.softmax, torch.log_softmax, torch.logsumexp):
            check_same(lambda t, f=run: f(t, -1), x.repeat(2, count), grad=False)
            check_same(lambda t, f=run: f(t, 0), x.repeat(2, count).mT.contiguous(), grad=False)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
def test_reductions_in_vectors_and_pieces(dtype):
    for size in ((70_001,), (3, 40_000), (1000, 256), (600, 136), (2, 300, 128), (0, 4), (4, 0)):
        x = torch.testing.make_tensor(
            size, dtype=getattr(torch, dtype), device="cpu", low=0, high=9
        )
        for dim in (None, *range(x.ndim)):
            given = {} if dim is None else {"dim": dim}
            for name in ("sum", "amax", "argmax", "var", "any", "max"):
                needs = x.numel() if name in ("amax", "argmax", "max", "var") else True
                if not needs or (name == "var" and dtype == "uint8"):
                    continue
                run = getattr(torch.Tensor, name)
                tolerance = CLOSE.get(dtype, 1e-4)
                check_same(lambda t, r=run, g=given: r(t, **g), x, tolerance=tolerance, grad=False)
