"""Functions to transform: name -> (function, shapes of its arguments). All are smooth there."""

import flambeau as torch
import flambeau.nn.functional as F

INDEX = torch.tensor([2, 0, 1])
SQUARE = torch.tensor([[2, 0, 1], [1, 2, 0]])


def _spd(a):
    return a @ a.mT + 4 * torch.eye(a.shape[-1], dtype=a.dtype)


def _written(a):
    b = a.clone()
    b.mul_(2)
    b[0] = a[1]
    b[1:] += a[:-1]
    b[:, 0].sin_()
    return b


REDUCTIONS = {
    "sum": (lambda a: a.sum(), [(2, 3)]),
    "sum dim": (lambda a: a.sum(1, keepdim=True), [(2, 3)]),
    "sum of a number": (lambda a: a.sum(), [()]),
    "mean": (lambda a: a.mean((0, -1)), [(2, 3, 2)]),
    "prod": (lambda a: a.prod(), [(4,)]),
    "prod dim": (lambda a: a.prod(-1), [(2, 3)]),
    "amax": (lambda a: a.amax(), [(2, 3)]),
    "max dim": (lambda a: a.max(1)[0], [(2, 3)]),
    "max all": (lambda a: a.max(), [(2, 3)]),
    "var": (lambda a: a.var(1), [(2, 4)]),
    "std": (lambda a: a.std(), [(2, 4)]),
    "std_mean": (lambda a: torch.std_mean(a, 1, keepdim=True), [(2, 4)]),
    "var_mean": (lambda a: torch.var_mean(a, 0)[0], [(3, 2)]),
    "norm": (lambda a: a.norm(), [(2, 3)]),
    "norm 3": (lambda a: torch.linalg.vector_norm(a, 3, dim=0), [(2, 3)]),
    "logsumexp": (lambda a: a.logsumexp(1), [(2, 3)]),
    "median": (lambda a: a.median(0)[0], [(3, 2)]),
    "nansum": (lambda a: a.nansum(1), [(2, 3)]),
}
VIEWS = {
    "reshape": (lambda a: a.reshape(3, -1), [(2, 3)]),
    "view": (lambda a: a.view(6), [(2, 3)]),
    "flatten": (lambda a: a.flatten(1), [(2, 3, 2)]),
    "permute": (lambda a: a.permute(2, 0, 1), [(2, 3, 4)]),
    "T": (lambda a: a.T, [(2, 3)]),
    "mT": (lambda a: a.mT, [(2, 3, 4)]),
    "squeeze": (lambda a: a.squeeze(), [(1, 3, 1)]),
    "unsqueeze": (lambda a: a.unsqueeze(-1), [(2, 3)]),
    "expand": (lambda a: a.expand(2, 3, 4), [(3, 1)]),
    "slice": (lambda a: a[1:, ::2], [(3, 4)]),
    "select": (lambda a: a[..., 1], [(2, 3)]),
    "diagonal": (lambda a: a.diagonal(1), [(3, 4)]),
    "unfold": (lambda a: a.unfold(0, 2, 1), [(4,)]),
    "split": (lambda a: a.split(2, 1), [(2, 5)]),
    "unbind": (lambda a: a.unbind(-1), [(2, 3)]),
    "movedim": (lambda a: a.movedim(0, -1), [(2, 3, 4)]),
    "as_strided": (lambda a: a.clone().as_strided((2, 2), (1, 2)), [(5,)]),
    "unflatten": (lambda a: a.unflatten(-1, (2, 2)), [(3, 4)]),
}
PLACES = {
    "gather": (lambda a: a.gather(1, SQUARE), [(2, 3)]),
    "scatter": (lambda a, b: a.scatter(1, SQUARE, b), [(2, 3), (2, 3)]),
    "scatter value": (lambda a: a.scatter(1, SQUARE[:, :1], 2.0), [(2, 3)]),
    "scatter_add": (lambda a, b: a.scatter_add(0, SQUARE % 2, b), [(2, 3), (2, 3)]),
    "index_select": (lambda a: a.index_select(1, INDEX), [(2, 3)]),
    "index_add": (lambda a, b: a.index_add(0, INDEX, b), [(3, 2), (3, 2)]),
    "index_add to a number": (lambda a, b: a.index_add(0, INDEX[:1] * 0, b, alpha=2), [(), ()]),
    "index_copy to a number": (lambda a, b: a.index_copy(0, INDEX[:1] * 0, b), [(), ()]),
    "index_fill of a number": (lambda a: a.index_fill(0, INDEX[:1] * 0, 2.0) + a, [()]),
    "index_fill at own places": (
        lambda a, b: a.index_fill(1, b.argsort()[:2], b.sum()),
        [(2, 3), (3,)],
    ),
    "index_reduce at own places": (
        lambda a, b, c: a.index_reduce(0, c.argsort()[:2], b, "prod"),
        [(3, 2), (2, 2), (3,)],
    ),
    "fill": (lambda a, b: torch.fill(a, b.sum()), [(2, 3), (2,)]),
    "masked_fill of numbers": (lambda a, b: a.masked_fill(torch.tensor(True), b) * a, [(), ()]),
    "masked_select from a number": (lambda a: a.masked_select(torch.tensor([True, True])), [()]),
    "as_strided": (lambda a: a.as_strided((2, 2), (3, 2)), [(2, 3)]),
    "cond": (lambda a: torch.cond(a.sum() > 0, torch.sin, torch.cos, (a,)), [(3,)]),
    "index_copy": (lambda a, b: a.index_copy(0, INDEX, b), [(3, 2), (3, 2)]),
    "index": (lambda a: a[INDEX], [(3, 2)]),
    "index apart": (lambda a: a[INDEX, :, INDEX], [(3, 2, 3)]),
    "index after": (lambda a: a[:, INDEX], [(2, 3)]),
    "index_put": (lambda a, b: a.index_put((INDEX,), b, accumulate=True), [(3, 2), (3, 2)]),
    "masked_fill": (lambda a: a.masked_fill(a.detach() > 1, 0.5), [(2, 3)]),
    "take": (lambda a: a.take(SQUARE), [(2, 3)]),
    "where": (lambda a, b: torch.where(SQUARE > 0, a, b), [(2, 3), (2, 3)]),
    "cat": (lambda a, b: torch.cat([a, b], 1), [(2, 3), (2, 1)]),
    "stack": (lambda a, b: torch.stack([a, b], -1), [(2, 3), (2, 3)]),
    "sort": (lambda a: a.sort(1, descending=True)[0], [(2, 4)]),
    "topk": (lambda a: a.topk(2)[0], [(2, 4)]),
    "kthvalue": (lambda a: a.kthvalue(2)[0], [(2, 4)]),
    "cumsum": (lambda a: a.cumsum(1), [(2, 3)]),
    "cumprod": (lambda a: a.cumprod(0), [(3, 2)]),
    "cummax": (lambda a: a.cummax(1)[0], [(2, 3)]),
    "logcumsumexp": (lambda a: a.logcumsumexp(1), [(2, 3)]),
    "flip": (lambda a: a.flip(0, -1), [(2, 3)]),
    "roll": (lambda a: a.roll(1), [(2, 3)]),
    "repeat": (lambda a: a.repeat(2, 1, 2), [(2, 3)]),
    "tril": (lambda a: a.tril(), [(3, 3)]),
    "diag_embed": (lambda a: a.diag_embed(), [(2, 3)]),
    "slice_scatter": (lambda a, b: a.slice_scatter(b, 1, 1), [(2, 3), (2, 2)]),
    "writes": (_written, [(3, 2)]),
}
PRODUCTS = {
    "mm": (torch.mm, [(2, 3), (3, 4)]),
    "bmm": (torch.bmm, [(2, 2, 3), (2, 3, 2)]),
    "mv": (torch.mv, [(2, 3), (3,)]),
    "dot": (torch.dot, [(3,), (3,)]),
    "matmul": (torch.matmul, [(2, 1, 3, 2), (3, 2, 4)]),
    "addmm": (lambda a, b, c: torch.addmm(a, b, c, beta=0.5, alpha=2), [(4,), (2, 3), (3, 4)]),
    "baddbmm": (torch.baddbmm, [(2, 2, 2), (2, 2, 3), (2, 3, 2)]),
    "linear": (F.linear, [(2, 3), (4, 3), (4,)]),
    "linear of a vector": (F.linear, [(3,), (4, 3), (4,)]),
    "einsum": (lambda a, b: torch.einsum("ij,jk->ki", a, b), [(2, 3), (3, 4)]),
    "conv2d": (lambda a, w, b: F.conv2d(a, w, b, padding=1), [(2, 2, 4, 4), (3, 2, 3, 3), (3,)]),
    "conv2d groups": (lambda a, w: F.conv2d(a, w, groups=2), [(1, 4, 3, 3), (4, 2, 2, 2)]),
    "conv1d": (lambda a, w: F.conv1d(a, w, stride=2), [(2, 5), (3, 2, 2)]),
    "conv_transpose2d": (
        lambda a, w: F.conv_transpose2d(a, w, stride=2), [(1, 2, 3, 3), (2, 3, 2, 2)]
    ),
    "attention": (F.scaled_dot_product_attention, [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)]),
    "embedding": (lambda w: F.embedding(SQUARE, w), [(4, 2)]),
    "outer": (torch.outer, [(2,), (3,)]),
    "cdist": (torch.cdist, [(2, 3), (4, 3)]),
    "bilinear": (F.bilinear, [(2, 3), (2, 2), (4, 3, 2)]),
}  # fmt: skip
LAYERS = {
    "softmax": (lambda a: a.softmax(0), [(3, 2)]),
    "log_softmax": (lambda a: a.log_softmax(-1), [(2, 3)]),
    "layer_norm": (lambda a, w, b: F.layer_norm(a, (3,), w, b), [(2, 3), (3,), (3,)]),
    "rms_norm": (lambda a, w: F.rms_norm(a, (3,), w), [(2, 3), (3,)]),
    "statistics of group_norm": (
        lambda a: torch.native_group_norm(a, None, None, 2, 4, 3, 2, 1e-5), [(2, 4, 3)]
    ),
    "nll_loss with own weights": (
        lambda a, w: F.nll_loss(a, torch.tensor([0, 2]), 1.5 + (w > 0).double()), [(2, 3), (3,)]
    ),
    "cross_entropy with own weights": (
        lambda a, w: F.cross_entropy(
            a, torch.tensor([0, 2]), 1.5 + (w > 0).double(), label_smoothing=0.1
        ),
        [(2, 3), (3,)],
    ),
    "multi_margin with own weights": (
        lambda a, w: F.multi_margin_loss(a, torch.tensor([0, 2]), weight=1.5 + (w > 0).double()),
        [(2, 3), (3,)],
    ),
    "group_norm": (lambda a, w, b: F.group_norm(a, 2, w, b), [(2, 4, 3), (4,), (4,)]),
    "batch_norm": (lambda a, w, b: F.batch_norm(a, None, None, w, b, True), [(4, 3), (3,), (3,)]),
    "max_pool2d": (lambda a: F.max_pool2d(a, 2), [(1, 2, 4, 4)]),
    "avg_pool2d": (lambda a: F.avg_pool2d(a, 2), [(2, 4, 4)]),
    "adaptive_avg_pool2d": (lambda a: F.adaptive_avg_pool2d(a, 2), [(1, 2, 5, 5)]),
    "interpolate": (
        lambda a: F.interpolate(a, scale_factor=2, mode="bilinear"), [(1, 2, 3, 3)]
    ),
    "pad": (lambda a: F.pad(a, (1, 2), mode="reflect"), [(1, 2, 4)]),
    "pad zeros": (lambda a: F.pad(a, (1, 0, 2, 1), value=0.5), [(2, 3)]),
    "unfold images": (lambda a: F.unfold(a, 2), [(1, 2, 3, 3)]),
    "pixel_shuffle": (lambda a: F.pixel_shuffle(a, 2), [(4, 2, 2)]),
    "grid_sample": (
        lambda a, g: F.grid_sample(a, g.tanh() * 0.7, align_corners=False),
        [(1, 2, 3, 3), (1, 2, 2, 2)],
    ),
    "cross_entropy": (lambda a: F.cross_entropy(a, INDEX), [(3, 4)]),
    "cross_entropy ignored": (
        lambda a: F.cross_entropy(a, INDEX, ignore_index=0, reduction="sum"), [(3, 4)]
    ),
    "nll_loss": (lambda a: F.nll_loss(a, INDEX), [(3, 4)]),
    "mse_loss": (F.mse_loss, [(2, 3), (2, 3)]),
    "huber": (lambda a, b: F.huber_loss(a, b, reduction="sum"), [(2, 3), (2, 3)]),
    "gelu": (F.gelu, [(2, 3)]),
    "relu": (F.relu, [(2, 3)]),
    "normalize": (lambda a: F.normalize(a), [(2, 3)]),
    "gru": (
        lambda a, h, w, u, b: torch.gru(
            a, h, [w, u, b, b], True, 1, 0.0, False, False, False
        )[0],
        [(2, 1, 3), (1, 1, 2), (6, 3), (6, 2), (6,)],
    ),
    "lstm_cell": (
        lambda a, h, w, u: torch.lstm_cell(a, (h, h * 0.5), w, u)[1],
        [(2, 3), (2, 2), (8, 3), (8, 2)],
    ),
    "lstm": (
        lambda a, h, w, u: torch.lstm(
            a, (h, h * 0.5), [w, u], False, 1, 0.0, False, False, False
        )[0],
        [(2, 1, 3), (1, 1, 2), (8, 3), (8, 2)],
    ),
}  # fmt: skip


def _padded(mode, dims):
    return lambda a: F.pad(a, (1, 1) * dims, mode=mode)


def _resized(mode, **options):
    return lambda a: F.interpolate(a, scale_factor=0.6, mode=mode, **options)


MORE_IMAGES = {
    **{
        f"pad {mode} {dims}d": (_padded(mode, dims), [(1, 2, *(3, 4, 3)[:dims])])
        for mode in ("reflect", "replicate", "circular")
        for dims in (1, 2, 3)
    },
    "bilinear antialias": (_resized("bilinear", antialias=True), [(1, 2, 5, 5)]),
    "bicubic antialias": (_resized("bicubic", antialias=True), [(1, 2, 5, 5)]),
    "bicubic": (_resized("bicubic"), [(1, 1, 5, 5)]),
    "trilinear": (_resized("trilinear"), [(1, 1, 4, 4, 4)]),
    "nearest": (_resized("nearest"), [(1, 2, 5)]),
    "nearest-exact": (_resized("nearest-exact"), [(1, 2, 5, 5)]),
    "max_pool3d": (lambda a: F.max_pool3d(a, 2), [(1, 1, 4, 4, 4)]),
    "adaptive_max_pool2d": (lambda a: F.adaptive_max_pool2d(a, 2), [(2, 5, 5)]),
    "lp_pool2d": (lambda a: F.lp_pool2d(a.abs() + 1, 2.0, 2), [(1, 2, 4, 4)]),
    "fold": (lambda a: F.fold(a, (3, 3), 2), [(1, 8, 4)]),
    "instance_norm": (lambda a: F.instance_norm(a), [(2, 3, 4)]),
    "local_response_norm": (lambda a: F.local_response_norm(a, 2), [(1, 4, 3)]),
    "affine_grid": (
        lambda t: F.affine_grid(t, [1, 1, 2, 3], align_corners=False), [(1, 2, 3)]
    ),
    "nll_loss of images": (
        lambda a: F.nll_loss(a, torch.tensor([[[0, 1], [2, 1]]])), [(1, 3, 2, 2)]
    ),
}  # fmt: skip
MATRICES = {
    "inv": (lambda a: torch.linalg.inv(_spd(a)), [(3, 3)]),
    "solve": (lambda a, b: torch.linalg.solve(_spd(a), b), [(3, 3), (3, 2)]),
    "solve a vector": (lambda a, b: torch.linalg.solve(_spd(a), b), [(3, 3), (3,)]),
    "det": (lambda a: torch.linalg.det(a), [(3, 3)]),
    "slogdet": (lambda a: torch.linalg.slogdet(a)[1], [(3, 3)]),
    "cholesky": (lambda a: torch.linalg.cholesky(_spd(a)), [(3, 3)]),
    "eigvalsh": (lambda a: torch.linalg.eigvalsh(a + a.mT), [(3, 3)]),
    "svdvals": (lambda a: torch.linalg.svdvals(a), [(3, 2)]),
    "qr": (lambda a: torch.linalg.qr(a)[1].abs(), [(3, 2)]),
    "pinv": (lambda a: torch.linalg.pinv(a), [(3, 2)]),
    "matrix_exp": (lambda a: torch.linalg.matrix_exp(a * 0.3), [(3, 3)]),
    "triangular": (
        lambda a, b: torch.linalg.solve_triangular(_spd(a).tril(), b, upper=False),
        [(3, 3), (3, 2)],
    ),
    "fft": (lambda a: torch.view_as_real(torch.fft.rfft(a)), [(2, 4)]),
    "lu": (lambda a: torch.linalg.lu(_spd(a))[2], [(3, 3)]),
    "lu_solve": (
        lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(_spd(a)), b),
        [(3, 3), (3, 2)],
    ),
    "lstsq": (lambda a, b: torch.linalg.lstsq(a, b)[0], [(4, 2), (4, 1)]),
    "cholesky_solve": (
        lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(_spd(a))),
        [(3, 3), (3, 1)],
    ),
    "householder": (lambda a: torch.linalg.qr(a)[0].abs(), [(3, 2)]),
    "logsumexp of all": (lambda a: a.logsumexp((0, 1)), [(2, 3)]),
    "matrix_power": (lambda a: torch.linalg.matrix_power(a, 3), [(3, 3)]),
    "complex": (lambda a, b: torch.view_as_real(torch.complex(a, b).exp()), [(2,), (2,)]),
    "complex variance": (lambda a, b: torch.complex(a, b).var(), [(4,), (4,)]),
    "complex product": (
        lambda a, b: torch.view_as_real(torch.complex(a, b) @ torch.complex(b, a).conj()),
        [(2, 2), (2, 2)],
    ),
    "absolute value of complex": (lambda a, b: torch.complex(a, b).abs(), [(3,), (3,)]),
    "ifft": (lambda a, b: torch.fft.irfft2(torch.complex(a, b)), [(3, 3), (3, 3)]),
    "stft": (
        lambda a: torch.view_as_real(
            torch.stft(a, 4, window=torch.ones(4, dtype=a.dtype), return_complex=True)
        ),
        [(12,)],
    ),
    "trace": (torch.trace, [(3, 3)]),
    "cross": (lambda a, b: torch.linalg.cross(a, b), [(2, 3), (2, 3)]),
}
CASES = REDUCTIONS | VIEWS | PLACES | PRODUCTS | LAYERS | MORE_IMAGES | MATRICES


def arguments(name, seed=0):
    """Arguments in double precision, off the corners of what functions do."""
    generator = torch.Generator().manual_seed(100 + seed)
    function, shapes = CASES[name]
    return function, [
        torch.randn(shape, dtype=torch.float64, generator=generator) + 0.1 for shape in shapes
    ]
