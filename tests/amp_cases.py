"""Ops under autocast: name -> function of (torch, F, t), where t(*shape) draws a tensor."""

CASES = {
    # products
    "linear": lambda T, F, t: F.linear(t(3, 4), t(2, 4), t(2)),
    "matmul": lambda T, F, t: T.matmul(t(3, 4), t(4, 2)),
    "operator": lambda T, F, t: t(3, 4) @ t(4, 2),
    "method": lambda T, F, t: t(3, 4).mm(t(4, 2)),
    "vectors": lambda T, F, t: t(4) @ t(4),
    "mm": lambda T, F, t: T.mm(t(3, 4), t(4, 2)),
    "bmm": lambda T, F, t: T.bmm(t(2, 3, 4), t(2, 4, 2)),
    "addmm": lambda T, F, t: T.addmm(t(3, 2), t(3, 4), t(4, 2)),
    "addbmm": lambda T, F, t: T.addbmm(t(3, 2), t(2, 3, 4), t(2, 4, 2)),
    "baddbmm": lambda T, F, t: T.baddbmm(t(2, 3, 2), t(2, 3, 4), t(2, 4, 2)),
    "einsum": lambda T, F, t: T.einsum("ij,jk->ik", t(3, 4), t(4, 2)),
    "tensordot": lambda T, F, t: T.tensordot(t(3, 4), t(4, 2), 1),
    "multi_dot": lambda T, F, t: T.linalg.multi_dot([t(3, 4), t(4, 2), t(2, 3)]),
    "vecdot": lambda T, F, t: T.linalg.vecdot(t(3, 4), t(3, 4)),
    "prelu": lambda T, F, t: F.prelu(t(3, 4), t(4)),
    "conv1d": lambda T, F, t: F.conv1d(t(1, 2, 5), t(3, 2, 2), t(3)),
    "conv2d": lambda T, F, t: F.conv2d(t(1, 2, 5, 5), t(3, 2, 3, 3), padding="same"),
    "conv3d": lambda T, F, t: F.conv3d(t(1, 2, 3, 3, 3), t(3, 2, 2, 2, 2)),
    "conv_transpose2d": lambda T, F, t: F.conv_transpose2d(t(1, 2, 5, 5), t(2, 3, 2, 2)),
    "attention": lambda T, F, t: F.scaled_dot_product_attention(t(1, 2, 3), t(1, 2, 3), t(1, 2, 3)),
    # kept
    "mv": lambda T, F, t: T.mv(t(3, 4), t(4)),
    "dot": lambda T, F, t: T.dot(t(4), t(4)),
    "outer": lambda T, F, t: T.outer(t(3), t(4)),
    "addmv": lambda T, F, t: T.addmv(t(3), t(3, 4), t(4)),
    "addr": lambda T, F, t: T.addr(t(3, 4), t(3), t(4)),
    "bilinear": lambda T, F, t: F.bilinear(t(2, 3), t(2, 4), t(5, 3, 4)),
    "exp": lambda T, F, t: T.exp(t(3)),
    "sum": lambda T, F, t: T.sum(t(3)),
    "softmax": lambda T, F, t: F.softmax(t(2, 3), -1),
    "gelu": lambda T, F, t: F.gelu(t(3)),
    "max_pool2d": lambda T, F, t: F.max_pool2d(t(1, 2, 4, 4), 2),
    "avg_pool2d": lambda T, F, t: F.avg_pool2d(t(1, 2, 4, 4), 2),
    "add": lambda T, F, t: t(3) + T.ones(3),
    "layer_norm": lambda T, F, t: F.layer_norm(t(2, 4), (4,)),
    "double": lambda T, F, t: T.mm(t(3, 4).double(), t(4, 2).double()),
    "integers": lambda T, F, t: T.mm(T.ones(2, 2, dtype=T.int64), T.ones(2, 2, dtype=T.int64)),
    # float32
    "mse_loss": lambda T, F, t: F.mse_loss(t(3), t(3)),
    "l1_loss": lambda T, F, t: F.l1_loss(t(3), t(3)),
    "smooth_l1_loss": lambda T, F, t: F.smooth_l1_loss(t(3), t(3)),
    "huber_loss": lambda T, F, t: F.huber_loss(t(3), t(3)),
    "cross_entropy": lambda T, F, t: F.cross_entropy(t(3, 4), T.tensor([1, 2, 0])),
    "nll_loss": lambda T, F, t: F.nll_loss(t(3, 4), T.tensor([1, 2, 0])),
    "kl_div": lambda T, F, t: F.kl_div(t(3), t(3), reduction="sum"),
    "bce": lambda T, F, t: F.binary_cross_entropy(t(3).sigmoid(), t(3).sigmoid()),
    "bce_with_logits": lambda T, F, t: F.binary_cross_entropy_with_logits(t(3), t(3)),
    "poisson_nll_loss": lambda T, F, t: F.poisson_nll_loss(t(3), t(3)),
    "soft_margin_loss": lambda T, F, t: F.soft_margin_loss(t(3), t(3)),
    "hinge_embedding_loss": lambda T, F, t: F.hinge_embedding_loss(t(3), T.ones(3)),
    "margin_ranking_loss": lambda T, F, t: F.margin_ranking_loss(t(3), t(3), T.ones(3)),
    "triplet_margin_loss": lambda T, F, t: F.triplet_margin_loss(t(2, 3), t(2, 3), t(2, 3)),
    "multi_margin_loss": lambda T, F, t: F.multi_margin_loss(t(2, 3), T.tensor([1, 0])),
    "cosine_embedding": lambda T, F, t: F.cosine_embedding_loss(t(2, 3), t(2, 3), T.ones(2)),
    "prod": lambda T, F, t: T.prod(t(3)),
    "prod of a dimension": lambda T, F, t: t(3, 2).prod(0),
    "trace": lambda T, F, t: t(3, 3).trace(),
    "cdist": lambda T, F, t: T.cdist(t(3, 2), t(4, 2)),
    "quantile": lambda T, F, t: T.quantile(t(5), 0.5),
    "rfft": lambda T, F, t: T.fft.rfft(t(4)),
    "inverse": lambda T, F, t: T.linalg.inv(t(3, 3) + 3 * T.eye(3)),
    "solve": lambda T, F, t: T.linalg.solve(t(3, 3) + 3 * T.eye(3), t(3, 2)),
    "svdvals": lambda T, F, t: T.linalg.svdvals(t(3, 2)),
    "qr": lambda T, F, t: T.linalg.qr(t(3, 2))[1].abs(),
    "avg_pool3d": lambda T, F, t: F.avg_pool3d(t(1, 1, 4, 4, 4), 2),
    "max_pool3d": lambda T, F, t: F.max_pool3d(t(1, 1, 4, 4, 4), 2),
    "grid_sample": lambda T, F, t: F.grid_sample(t(1, 1, 3, 3), t(1, 2, 2, 2), align_corners=False),
    "pad": lambda T, F, t: F.pad(t(1, 3), (1, 1)),
    "reflected": lambda T, F, t: F.pad(t(1, 3), (1, 1), mode="reflect"),
    "replicated": lambda T, F, t: F.pad(t(1, 2, 3), (1, 1), "replicate"),
    # the widest
    "cat": lambda T, F, t: T.cat([t(2), t(3)]),
    "cat with float32": lambda T, F, t: T.cat([t(2), T.ones(3)]),
    "stack": lambda T, F, t: T.stack([t(2), T.ones(2)]),
    "index_copy": lambda T, F, t: T.ones(3).index_copy(0, T.tensor([1]), t(1)),
    # modules
    "Linear": lambda T, F, t: T.nn.Linear(3, 4)(t(2, 3)),
    "Conv2d": lambda T, F, t: T.nn.Conv2d(2, 3, 2)(t(1, 2, 4, 4)),
    "BatchNorm2d": lambda T, F, t: T.nn.BatchNorm2d(2)(t(2, 2, 4, 4)),
    "LayerNorm": lambda T, F, t: T.nn.LayerNorm(4)(t(2, 4)),
    "GroupNorm": lambda T, F, t: T.nn.GroupNorm(2, 4)(t(2, 4, 3)),
    "LSTM": lambda T, F, t: T.nn.LSTM(3, 4)(t(5, 2, 3))[0],
    "RNN": lambda T, F, t: T.nn.RNN(3, 4)(t(5, 2, 3))[0],
    "GRU": lambda T, F, t: T.nn.GRU(3, 4)(T.randn(5, 2, 3))[0],
    "LSTMCell": lambda T, F, t: T.nn.LSTMCell(3, 4)(T.randn(2, 3))[0],
    "GRUCell": lambda T, F, t: T.nn.GRUCell(3, 4)(T.randn(2, 3)),
    "RNNCell": lambda T, F, t: T.nn.RNNCell(3, 4)(t(2, 3)),
    "MultiheadAttention": lambda T, F, t: T.nn.MultiheadAttention(4, 2)(*[t(3, 2, 4)] * 3)[0],
    "attention without weights": lambda T, F, t: T.nn.MultiheadAttention(4, 2)(
        *[t(3, 2, 4)] * 3, need_weights=False
    )[0],
    "TransformerEncoderLayer": lambda T, F, t: T.nn.TransformerEncoderLayer(4, 2, 8, 0.0)(
        T.randn(3, 2, 4)
    ),
    "Embedding": lambda T, F, t: T.nn.Embedding(3, 4)(T.tensor([1, 2])),
}


def run(torch, name, dtype, target="bfloat16"):
    """Dtype and values of one op under autocast, from inputs of a dtype."""
    torch.manual_seed(11)

    def draw(*shape):
        return torch.randn(*shape).to(getattr(torch, dtype))

    with torch.autocast("cpu", dtype=getattr(torch, target)):
        found = CASES[name](torch, torch.nn.functional, draw)
    if found.is_complex():
        return str(found.dtype), torch.view_as_real(found).detach().flatten().tolist()
    return str(found.dtype), found.detach().double().flatten().tolist()
