"""vector-quantize-pytorch: codebooks, residuals, finite scalars."""

import torch
from showing import show
from vector_quantize_pytorch import (
    FSQ,
    LFQ,
    GroupedResidualVQ,
    RandomProjectionQuantizer,
    ResidualFSQ,
    ResidualVQ,
    SimVQ,
    VectorQuantize,
)

torch.manual_seed(0)
x = torch.randn(2, 16, 8, requires_grad=True)
for name, make in {
    "plain": lambda: VectorQuantize(dim=8, codebook_size=16, decay=0.8, commitment_weight=1.0),
    "cosine": lambda: VectorQuantize(
        dim=8, codebook_size=16, use_cosine_sim=True, threshold_ema_dead_code=0
    ),
    "kmeans": lambda: VectorQuantize(dim=8, codebook_size=4, kmeans_init=True, kmeans_iters=3),
    "low": lambda: VectorQuantize(
        dim=8, codebook_size=16, codebook_dim=4, heads=2, separate_codebook_per_head=True
    ),
    "orthogonal": lambda: VectorQuantize(dim=8, codebook_size=16, orthogonal_reg_weight=1.0),
    "residual": lambda: ResidualVQ(dim=8, codebook_size=16, num_quantizers=3),
    "grouped": lambda: GroupedResidualVQ(dim=8, groups=2, num_quantizers=2, codebook_size=8),
    "sim": lambda: SimVQ(dim=8, codebook_size=16),
}.items():
    torch.manual_seed(1)
    layer = make()
    out, indices, loss = layer(x)
    (out.square().mean() + loss.sum()).backward()
    show(name, out, indices, loss, x.grad)
    x.grad = None
for layer in (
    FSQ([5, 3, 4]),
    ResidualFSQ(dim=8, levels=[5, 3], num_quantizers=2),
    LFQ(codebook_size=8, dim=8, entropy_loss_weight=0.1),
):
    out = layer(x[..., :3] if isinstance(layer, FSQ) else x)
    show(type(layer).__name__, out[0], out[1])
show(
    "random",
    RandomProjectionQuantizer(dim=8, num_codebooks=2, codebook_dim=4, codebook_size=8)(x.detach()),
)
