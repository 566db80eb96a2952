"""Transformers and their parts, as layer_cases.py writes cases."""

CASES = """
TransformerEncoderLayer(4, 2, 6) <- x(3, 2, 4)
TransformerEncoderLayer(4, 2, 6, batch_first=True, norm_first=True, activation="gelu") <- x(2, 3, 4)
TransformerEncoderLayer(4, 2, 6, 0.3, functional.silu, 1e-3, True, bias=False) <- x(2, 3, 4)
TransformerEncoderLayer(4, 1, 6, activation=GELU()) <- x(3, 4)
TransformerEncoderLayer(4, 2, 6) <- x(3, 2, 4), Transformer.generate_square_subsequent_mask(3), is_causal=True
TransformerEncoderLayer(4, 2, 6) <- x(3, 2, 4), src_key_padding_mask=lib.tensor([[False, False, True], [False, True, True]])
TransformerEncoderLayer(4, 2, 6, batch_first=True) <- x(2, 3, 4), k(2, 3, 3).bool() & ~lib.eye(3).bool()
TransformerEncoderLayer(4, 2, 6, dtype=lib.float64) <- x(3, 2, 4, dtype=lib.float64)
TransformerDecoderLayer(4, 2, 6) <- x(3, 2, 4), x(5, 2, 4)
TransformerDecoderLayer(4, 2, 6, 0.2, "gelu", batch_first=True, norm_first=True) <- x(2, 3, 4), x(2, 5, 4), Transformer.generate_square_subsequent_mask(3), tgt_is_causal=True
TransformerDecoderLayer(4, 2, 6, bias=False) <- x(3, 2, 4), x(5, 2, 4), memory_key_padding_mask=lib.tensor([[False] * 4 + [True]] * 2)
TransformerDecoderLayer(4, 2, 6) <- x(3, 4), x(5, 4), memory_mask=x(3, 5).detach()
TransformerEncoder(TransformerEncoderLayer(4, 2, 6), 2) <- x(3, 2, 4)
TransformerEncoder(TransformerEncoderLayer(4, 2, 6, batch_first=True), 2, LayerNorm(4)) <- x(2, 3, 4), Transformer.generate_square_subsequent_mask(3)
TransformerEncoder(TransformerEncoderLayer(4, 2, 6, batch_first=True), 2) <- x(2, 3, 4), None, lib.tensor([[False, False, True], [False, True, True]])
TransformerEncoder(TransformerEncoderLayer(4, 2, 6), 2, enable_nested_tensor=False) <- x(3, 2, 4), lib.ones(3, 3).triu(1).bool()
TransformerEncoder(TransformerEncoderLayer(4, 2, 6), 1) <- x(3, 4), is_causal=False
TransformerDecoder(TransformerDecoderLayer(4, 2, 6), 2) <- x(3, 2, 4), x(5, 2, 4)
TransformerDecoder(TransformerDecoderLayer(4, 2, 6, batch_first=True), 2, LayerNorm(4)) <- x(2, 3, 4), x(2, 5, 4), Transformer.generate_square_subsequent_mask(3)
Transformer(4, 2, 2, 2, 6) <- x(5, 2, 4), x(3, 2, 4)
Transformer(4, 2, 1, 1, 6, 0.2, "gelu", batch_first=True, norm_first=True) <- x(2, 5, 4), x(2, 3, 4), tgt_mask=Transformer.generate_square_subsequent_mask(3)
Transformer(4, 2, 1, 1, 6, bias=False) <- x(5, 4), x(3, 4)
Transformer(4, 2, 1, 2, 6, custom_encoder=TransformerEncoder(TransformerEncoderLayer(4, 1, 5), 1)) <- x(5, 2, 4), x(3, 2, 4)
Transformer(4, 2, 1, 1, 6) <- x(5, 2, 4), x(3, 2, 4), src_key_padding_mask=lib.tensor([[False] * 4 + [True]] * 2), memory_key_padding_mask=lib.tensor([[False] * 4 + [True]] * 2)
""".strip().splitlines()  # noqa: E501

ERRORS = """
TransformerEncoderLayer(4, 2, 6, activation="sin")
TransformerDecoderLayer(4, 2, 6, activation="sin")
TransformerEncoderLayer(4, 3)
TransformerEncoderLayer(4, 2, 6)(x(3, 2, 4), k(2, 3, 3))
TransformerEncoder(TransformerEncoderLayer(4, 2, 6), 1)(x(3, 2, 4), k(2, 3, 3))
TransformerEncoder(TransformerEncoderLayer(4, 2, 6), 1)(x(3, 2, 4), None, k(2, 2, 3))
TransformerEncoderLayer(4, 2, 6)(x(3, 2, 4), is_causal=True)
Transformer(4, 2, 1, 1, 6)(x(5, 2, 4), x(3, 3, 4))
Transformer(4, 2, 1, 1, 6, batch_first=True)(x(5, 2, 4), x(3, 2, 4))
Transformer(4, 2, 1, 1, 6)(x(5, 2, 6), x(3, 2, 6))
""".strip().splitlines()
