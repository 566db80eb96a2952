"""x-transformers: decoders, encoders, cross attention, memory, sampling."""

import torch
from showing import gradients, show
from x_transformers import (
    AutoregressiveWrapper,
    ContinuousTransformerWrapper,
    CrossAttender,
    Decoder,
    Encoder,
    TransformerWrapper,
    ViTransformerWrapper,
    XTransformer,
)

torch.manual_seed(0)
tokens = torch.randint(0, 50, (2, 12))
OPTIONS = [
    dict(),
    dict(rotary_pos_emb=True),
    dict(alibi_pos_bias=True, alibi_num_heads=2),
    dict(rel_pos_bias=True),
    dict(use_rmsnorm=True, ff_glu=True),
    dict(ff_swish=True, attn_qk_norm=True),
    dict(attn_num_mem_kv=2),
    dict(sandwich_norm=True),
    dict(gate_residual=True),
    dict(attn_one_kv_head=True),
    dict(attn_flash=True),
    dict(macaron=True),
    dict(shift_tokens=1),
]
for options in OPTIONS:
    torch.manual_seed(1)
    model = TransformerWrapper(
        num_tokens=50,
        max_seq_len=16,
        attn_layers=Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, **options),
    )
    loss = AutoregressiveWrapper(model)(tokens)
    loss.backward()
    show(str(options), loss, gradients(model))
model.eval()
torch.manual_seed(2)
wrapper = AutoregressiveWrapper(model)
show("greedy", wrapper.generate(tokens[:, :3], 6, temperature=0.0).tolist())
show(
    "encoder",
    TransformerWrapper(
        num_tokens=50, max_seq_len=16, attn_layers=Encoder(dim=32, depth=1, heads=4)
    )(tokens, mask=torch.arange(12) < torch.tensor([[12], [7]])),
)
show(
    "continuous",
    ContinuousTransformerWrapper(
        max_seq_len=16, dim_in=6, dim_out=4, attn_layers=Encoder(dim=32, depth=1, heads=4)
    )(torch.randn(2, 9, 6)),
)
show(
    "vision",
    ViTransformerWrapper(
        image_size=16, patch_size=4, num_classes=3, attn_layers=Encoder(dim=32, depth=1, heads=4)
    )(torch.randn(2, 3, 16, 16)),
)
pair = XTransformer(
    dim=32,
    enc_num_tokens=50,
    enc_depth=1,
    enc_heads=2,
    enc_max_seq_len=16,
    dec_num_tokens=50,
    dec_depth=1,
    dec_heads=2,
    dec_max_seq_len=16,
)
show("pair", pair(tokens, tokens.flip(0)))
show(
    "cross",
    CrossAttender(dim=32, depth=1, heads=2)(torch.randn(2, 4, 32), context=torch.randn(2, 7, 32)),
)
