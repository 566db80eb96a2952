"""Functions written above the rows make tensors of their own, which must lie beside their inputs.

Each work gets a way to draw tensors (the same numbers on every device) and gives back tensors;
what a GPU gives back must lie there and be what the host gives back.
"""

import pytest

import flambeau as torch
from flambeau import distributions, nested, nn
from flambeau.distributions import kl_divergence
from flambeau.nn import functional as F
from flambeau.nn.attention import bias, flex_attention
from flambeau.vision import ops, tv_tensors
from flambeau.vision.transforms import functional as plain
from flambeau.vision.transforms.v2 import functional as pictures

JAGGED = {"layout": torch.jagged}


class Drawn:
    """Numbers that depend on nothing but the order in which they are asked for."""

    def __init__(self, device):
        self.device, self.count = torch.device(device), 0

    def __call__(self, *shape, dtype=torch.float32):
        self.count += 1
        generator = torch.Generator().manual_seed(self.count)
        return torch.randn(*shape, generator=generator, dtype=dtype).to(self.device)

    def whole(self, high, *shape):
        self.count += 1
        generator = torch.Generator().manual_seed(self.count)
        return torch.randint(high, shape, generator=generator).to(self.device)

    def mask(self, *shape):
        return self(*shape) > -0.5

    def boxes(self, count):
        corners = self(count, 4).abs() * 10
        return torch.cat([corners[:, :2], corners[:, :2] + corners[:, 2:] + 1], 1)

    def sparse(self, *shape):
        return (self(*shape) * (self(*shape) > 0.3)).to_sparse()


def _jagged(n):
    return nested.nested_tensor([n(2, 4), n(5, 4), n(1, 4)], **JAGGED)


def _log_prob(make, value):
    def work(n):
        d = make(n)
        return d.log_prob(value(n)), d.mean, d.variance

    return work


WORKS = {
    # masked
    **{
        f"masked {name}": lambda n, name=name: getattr(torch.masked, name)(
            n(4, 5), 1, mask=n.mask(4, 5)
        )
        for name in (
            "sum prod amax amin argmax argmin mean logsumexp var std softmax log_softmax softmin "
            "cumsum cumprod"
        ).split()
    },
    "masked mean, no mask": lambda n: torch.masked.mean(n(4, 5), 1),
    "masked var, no mask": lambda n: torch.masked.var(n(4, 5), 1),
    "masked norm": lambda n: torch.masked.norm(n(4, 5), 2, 1, mask=n.mask(4, 5)),
    "masked median": lambda n: torch.masked.median(n(4, 5), 1, mask=n.mask(4, 5)),
    "masked_tensor": lambda n: (
        torch.masked.masked_tensor(n(3, 4), n.mask(3, 4)).sum(1).to_tensor(0.0)
    ),
    # nested
    "nested padded": lambda n: _jagged(n).to_padded_tensor(0.0),
    "nested pointwise": lambda n: (_jagged(n) * 2).sin().values(),
    "nested linear": lambda n: (_jagged(n) @ n(4, 3)).values(),
    "nested pieces": lambda n: _jagged(n).unbind(),
    "nested offsets": lambda n: _jagged(n).offsets(),
    "nested sum": lambda n: _jagged(n).sum(1),
    "nested narrow": lambda n: nested.narrow(n(3, 5, 2), 1, 1, n.whole(3, 3), **JAGGED).unbind(),
    "nested as": lambda n: nested.as_nested_tensor([n(2, 3), n(4, 3)], **JAGGED).values(),
    "nested attention": lambda n: (
        F.scaled_dot_product_attention(
            *(
                nested.nested_tensor([n(2, 8), n(5, 8)], **JAGGED)
                .unflatten(-1, [2, 4])
                .transpose(1, 2)
                for _ in range(3)
            )
        )
        .transpose(1, 2)
        .values()
    ),
    "nested attention, causal": lambda n: (
        F.scaled_dot_product_attention(
            *(
                nested.nested_tensor([n(2, 8), n(5, 8)], **JAGGED)
                .unflatten(-1, [2, 4])
                .transpose(1, 2)
                for _ in range(3)
            ),
            is_causal=True,
        )
        .transpose(1, 2)
        .values()
    ),
    # sparse
    "sparse there and back": lambda n: n.sparse(4, 5).to_dense(),
    "sparse coalesce": lambda n: (
        torch.sparse_coo_tensor(n.whole(4, 2, 9), n(9), (4, 4)).coalesce().values()
    ),
    "sparse indices": lambda n: n.sparse(4, 5).coalesce().indices(),
    "sparse product": lambda n: torch.sparse.mm(n.sparse(4, 5), n(5, 3)),
    "sparse csr product": lambda n: n.sparse(4, 5).to_dense().to_sparse_csr() @ n(5, 3),
    "sparse csr vector": lambda n: n.sparse(4, 5).to_dense().to_sparse_csr() @ n(5),
    "sparse addmm": lambda n: torch.sparse.addmm(n(4, 3), n.sparse(4, 5), n(5, 3)),
    "sparse sum": lambda n: torch.sparse.sum(n.sparse(4, 5), 1).to_dense(),
    "sparse sum of all": lambda n: torch.sparse.sum(n.sparse(4, 5)),
    "sparse softmax": lambda n: torch.sparse.softmax(n.sparse(4, 5), 1).to_dense(),
    "sparse and sparse": lambda n: (n.sparse(4, 5) + n.sparse(4, 5)).to_dense(),
    "sparse times sparse": lambda n: (n.sparse(4, 5) * n.sparse(4, 5)).to_dense(),
    "sparse times number": lambda n: (n.sparse(4, 5) * 3).to_dense(),
    "sparse transposed": lambda n: n.sparse(4, 5).t().to_dense(),
    "sparse csc": lambda n: n.sparse(4, 5).to_dense().to_sparse_csc().to_dense(),
    "sparse bsr": lambda n: n.sparse(4, 6).to_dense().to_sparse_bsr((2, 2)).to_dense(),
    "sparse select": lambda n: n.sparse(4, 5).index_select(0, n.whole(4, 2)).to_dense(),
    "sparse mask": lambda n: n(4, 5).sparse_mask(n.sparse(4, 5).coalesce()).to_dense(),
    "sampled_addmm": lambda n: torch.sparse.sampled_addmm(
        n.sparse(4, 5).to_dense().to_sparse_csr(), n(4, 3), n(3, 5)
    ).to_dense(),
    # distributions
    "normal": _log_prob(lambda n: distributions.Normal(n(3), n(3).abs() + 1), lambda n: n(3)),
    "gamma": _log_prob(
        lambda n: distributions.Gamma(n(3).abs() + 1, n(3).abs() + 1), lambda n: n(3).abs()
    ),
    "beta": _log_prob(lambda n: distributions.Beta(n(3).abs() + 1, 2.0), lambda n: n(3).sigmoid()),
    "categorical": lambda n: (
        distributions.Categorical(logits=n(3, 4)).log_prob(n.whole(4, 3)),
        distributions.Categorical(logits=n(3, 4)).entropy(),
    ),
    "multinomial": lambda n: distributions.Multinomial(5, logits=n(4)).log_prob(
        torch.tensor([1.0, 2.0, 0.0, 2.0], device=n.device)
    ),
    "one hot": lambda n: distributions.OneHotCategorical(logits=n(4)).enumerate_support(),
    "multivariate": _log_prob(
        lambda n: distributions.MultivariateNormal(n(3), torch.eye(3, device=n.device) * 2),
        lambda n: n(3),
    ),
    "low rank": lambda n: distributions.LowRankMultivariateNormal(
        n(3), n(3, 2), n(3).abs() + 1
    ).log_prob(n(3)),
    "mixture": lambda n: distributions.MixtureSameFamily(
        distributions.Categorical(logits=n(3)), distributions.Normal(n(3), 1.0)
    ).log_prob(n(2)),
    "student": _log_prob(
        lambda n: distributions.StudentT(n(3).abs() + 3, n(3), 1.0), lambda n: n(3)
    ),
    "dirichlet": _log_prob(
        lambda n: distributions.Dirichlet(n(3).abs() + 1), lambda n: n(3).softmax(-1)
    ),
    "wishart": lambda n: distributions.Wishart(
        torch.tensor(5.0, device=n.device), torch.eye(3, device=n.device)
    ).log_prob(torch.eye(3, device=n.device) * 2),
    "kl": lambda n: kl_divergence(
        distributions.Normal(n(3), n(3).abs() + 1), distributions.Normal(n(3), 1.0)
    ),
    "transformed": lambda n: distributions.LogNormal(n(3), 1.0).log_prob(n(3).abs()),
    "correlations": lambda n: distributions.LKJCholesky(
        3, torch.tensor(1.5, device=n.device)
    ).log_prob(torch.eye(3, device=n.device)),
    "negative binomial": lambda n: distributions.NegativeBinomial(5.0, logits=n(3)).log_prob(
        n.whole(5, 3).float()
    ),
    "von mises": lambda n: distributions.VonMises(n(3), n(3).abs() + 1).log_prob(n(3)),
    # vision
    "nms": lambda n: ops.nms(n.boxes(8), n(8), 0.3),
    "batched nms": lambda n: ops.batched_nms(n.boxes(8), n(8), n.whole(3, 8), 0.3),
    "iou": lambda n: (
        ops.box_iou(n.boxes(4), n.boxes(5)),
        ops.complete_box_iou(n.boxes(4), n.boxes(5)),
    ),
    "masks to boxes": lambda n: ops.masks_to_boxes(torch.ones(2, 5, 6, device=n.device).tril()),
    "roi align": lambda n: ops.roi_align(n(1, 3, 16, 16), [n.boxes(3) / 4], 4),
    "roi pool": lambda n: ops.roi_pool(n(1, 3, 16, 16), [n.boxes(3) / 4], 4),
    "deform": lambda n: ops.deform_conv2d(n(1, 2, 6, 6), n(1, 18, 4, 4), n(3, 2, 3, 3)),
    "focal": lambda n: ops.sigmoid_focal_loss(n(4, 3), n.mask(4, 3).float()),
    "rotate": lambda n: plain.rotate(n(3, 16, 16), 30.0),
    "affine": lambda n: plain.affine(n(3, 16, 16), 20.0, [1, 2], 1.1, [3.0, 4.0]),
    "perspective": lambda n: plain.perspective(
        n(3, 16, 16), [[0, 0], [15, 0], [15, 15], [0, 15]], [[1, 1], [14, 0], [15, 14], [0, 15]]
    ),
    "blur": lambda n: plain.gaussian_blur(n(3, 16, 16), [3, 5]),
    "colours": lambda n: plain.adjust_hue(n(3, 8, 8).sigmoid(), 0.2),
    "equalize": lambda n: plain.equalize(n.whole(256, 3, 8, 8).to(torch.uint8)),
    "resize": lambda n: plain.resize(n(3, 16, 16), [8, 10]),
    "elastic": lambda n: pictures.elastic(n(3, 16, 16), n(1, 16, 16, 2) / 10),
    "boxes resized": lambda n: pictures.resize(
        tv_tensors.BoundingBoxes(n.boxes(3), format="XYXY", canvas_size=(40, 40)), [20, 20]
    ).as_subclass(torch.Tensor),
    "boxes turned": lambda n: pictures.rotate(
        tv_tensors.BoundingBoxes(n.boxes(3), format="XYXY", canvas_size=(40, 40)), 20.0
    ).as_subclass(torch.Tensor),
    "normalize": lambda n: plain.normalize(n(3, 8, 8), [0.5] * 3, [0.2] * 3),
    # functions and modules of nn, signals, transforms of functions
    "embedding bag": lambda n: F.embedding_bag(
        n.whole(6, 9), n(6, 3), torch.tensor([0, 4], device=n.device)
    ),
    "one_hot": lambda n: F.one_hot(n.whole(6, 9), 6),
    "ctc": lambda n: F.ctc_loss(
        n(7, 2, 5).log_softmax(-1), n.whole(4, 2, 3) + 1, torch.tensor([7, 6]), torch.tensor([3, 2])
    ),
    "gaussian nll": lambda n: F.gaussian_nll_loss(n(3), n(3), n(3).abs()),
    "adaptive softmax": lambda n: _adaptive(n),
    "cosine": lambda n: F.cosine_embedding_loss(
        n(3, 4), n(3, 4), torch.tensor([1, -1, 1], device=n.device)
    ),
    "stft": lambda n: torch.view_as_real(
        torch.stft(n(64), 16, window=torch.hann_window(16, device=n.device), return_complex=True)
    ),
    "bilinear": lambda n: F.interpolate(n(1, 2, 5, 5), scale_factor=1.7, mode="bilinear"),
    "grid": lambda n: F.grid_sample(
        n(1, 2, 5, 5),
        F.affine_grid(n(1, 2, 3), (1, 2, 4, 4), align_corners=False),
        align_corners=False,
    ),
    "packed": lambda n: nn.utils.rnn.pad_packed_sequence(
        nn.utils.rnn.pack_padded_sequence(n(5, 3, 2), torch.tensor([5, 3, 2]))
    )[0],
    "causal mask": lambda n: nn.Transformer.generate_square_subsequent_mask(4, device=n.device),
    "jacobians": lambda n: (
        torch.func.jacrev(torch.sin)(n(3)),
        torch.func.jacfwd(torch.sin)(n(3)),
        torch.func.hessian(lambda x: x.sin().sum())(n(3)),
    ),
    "vmap": lambda n: torch.vmap(lambda a, b: a @ b)(n(4, 3), n(4, 3)),
    "vmap with numbers": lambda n: torch.vmap(lambda a: torch.where(a > 0, a, 0.0).sum())(n(4, 3)),
    "causal bias": lambda n: F.scaled_dot_product_attention(
        n(1, 2, 4, 8), n(1, 2, 4, 8), n(1, 2, 4, 8), attn_mask=bias.causal_lower_right(4, 4)
    ),
    "flex": lambda n: flex_attention.flex_attention(
        n(1, 2, 16, 8), n(1, 2, 16, 8), n(1, 2, 16, 8), score_mod=lambda s, b, h, q, k: s + (q - k)
    ),
    "block mask": lambda n: flex_attention.create_block_mask(
        lambda b, h, q, k: q >= k, 1, 1, 256, 256, device=n.device
    ).to_dense(),
    "distances": lambda n: torch.cdist(n(3, 4), n(5, 4)),
    "pruned": lambda n: _pruned(n),
    "parametrized": lambda n: _parametrized(n),
    "einsum": lambda n: torch.einsum("ij,jk->ik", n(3, 4), n(4, 5)),
    "tril indices": lambda n: torch.tril_indices(3, 4, device=n.device),
    "lstsq": lambda n: torch.linalg.lstsq(n(5, 3), n(5, 2)).solution,
    "expm": lambda n: torch.matrix_exp(n(3, 3)),
    "pinv": lambda n: torch.linalg.pinv(n(4, 3)),
    "multi_dot": lambda n: torch.linalg.multi_dot([n(3, 4), n(4, 5), n(5, 2)]),
    "rank": lambda n: torch.linalg.matrix_rank(n(4, 3)),
    "cov": lambda n: (torch.cov(n(3, 6)), torch.corrcoef(n(3, 6))),
    "bucketize": lambda n: torch.bucketize(n(5), torch.tensor([-1.0, 0.0, 1.0], device=n.device)),
    "quantile": lambda n: torch.quantile(n(4, 9), 0.3, dim=1),
    "unique": lambda n: torch.unique(n.whole(5, 20), return_counts=True),
    "trapezoid": lambda n: torch.trapezoid(n(4, 5)),
    "cartesian": lambda n: torch.cartesian_prod(n(3), n(2)),
    "combinations": lambda n: torch.combinations(n(5)),
    "vander": lambda n: torch.vander(n(4)),
    "gradient": lambda n: torch.gradient(n(5)),
    "block_diag": lambda n: torch.block_diag(n(2, 2), n(3, 1)),
    "tensor_split": lambda n: torch.tensor_split(n(7), 3),
    "segment": lambda n: torch.segment_reduce(
        n(6), "sum", lengths=torch.tensor([2, 3, 1], device=n.device)
    ),
    "places told on the host": lambda n: (
        n(4, 5)[[0, 2]],
        n(4, 5)[:, torch.tensor([1, 3])],
        n(4, 5)[torch.tensor([True, False, True, False])],
        n(4, 5)[torch.tensor([0, 2]), torch.tensor([1, 2], device=n.device)],
    ),
    "writes told on the host": lambda n: _written(n),
    "histc": lambda n: torch.histc(n(30), 5, -2, 2),
    "index_reduce": lambda n: n(4, 3).index_reduce(0, n.whole(4, 5), n(5, 3), "amax"),
    "householder": lambda n: torch.linalg.householder_product(n(4, 2), n(2)),
    "nested gradients": lambda n: torch.func.grad(
        lambda x: torch.func.grad(lambda y: (y**3).sum())(x).sum()
    )(n(3)),
    "per-sample": lambda n: torch.vmap(
        torch.func.grad(lambda w, x: (w * x).sin().sum()), (None, 0)
    )(n(3), n(5, 3)),
}


def _adaptive(n):
    torch.manual_seed(0)
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 8], div_value=2.0).to(n.device)
    return layer(n(5, 8), n.whole(12, 5)).output, layer.log_prob(n(5, 8)), layer.predict(n(5, 8))


def _written(n):
    t = n(4, 5)
    t[torch.tensor([0, 2])] = 1.0
    t[[1], 2] = torch.tensor(3.0)
    t[torch.ones(4, 5, dtype=torch.bool).tril()] = 2.0
    t.index_put_((torch.tensor([3]),), n(5), accumulate=True)
    return t


def _pruned(n):
    torch.manual_seed(0)
    layer = nn.Linear(6, 5).to(n.device)
    nn.utils.prune.l1_unstructured(layer, "weight", 0.4)
    nn.utils.prune.ln_structured(layer, "weight", 0.4, 2, 0)
    nn.utils.prune.random_unstructured(layer, "bias", 0.0)
    return layer.weight, layer.weight_mask, layer.bias


def _parametrized(n):
    torch.manual_seed(0)
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(6, 5)).to(n.device)
    other = nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)).to(n.device)
    return layer(n(2, 6)), other(n(2, 4))


def _flat(found):
    if isinstance(found, torch.Tensor):
        return [found]
    return [t for part in found for t in _flat(part)]


@pytest.mark.parametrize("name", WORKS)
def test_results_are_the_hosts_and_lie_on_the_gpu(name):
    on_gpu, on_host = _flat(WORKS[name](Drawn("cuda"))), _flat(WORKS[name](Drawn("cpu")))
    assert len(on_gpu) == len(on_host)
    for found, wanted in zip(on_gpu, on_host, strict=True):
        assert found.device.type == "cuda"
        torch.testing.assert_close(found.cpu(), wanted, rtol=2e-3, atol=2e-4, equal_nan=True)
