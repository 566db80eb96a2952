"""Tiny models of fifty more families: mixtures of experts, states, long inputs, images, speech."""

import torch
import transformers
from showing import gradients, show

SMALL = dict(
    vocab_size=60,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=64,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)
KEYS = SMALL | dict(num_key_value_heads=2)
SEQUENCES = dict(
    vocab_size=60,
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
    max_position_embeddings=64,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
)
IMAGE = dict(
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    image_size=32,
    patch_size=8,
)
CAUSAL = [
    (
        "Mamba2",
        "Mamba2ForCausalLM",
        dict(
            vocab_size=60,
            hidden_size=32,
            state_size=8,
            num_hidden_layers=2,
            num_heads=4,
            head_dim=16,
            expand=2,
            n_groups=1,
            chunk_size=4,
        ),
    ),
    (
        "RecurrentGemma",
        "RecurrentGemmaForCausalLM",
        KEYS | dict(num_hidden_layers=3, lru_width=32, attention_window_size=4),
    ),
    (
        "Jamba",
        "JambaForCausalLM",
        KEYS
        | dict(
            use_mamba_kernels=False,
            num_experts=2,
            attn_layer_period=2,
            attn_layer_offset=1,
            expert_layer_period=2,
            expert_layer_offset=1,
            mamba_d_state=4,
            mamba_dt_rank=4,
        ),
    ),
    (
        "Qwen2Moe",
        "Qwen2MoeForCausalLM",
        KEYS
        | dict(
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
            shared_expert_intermediate_size=16,
            decoder_sparse_step=1,
        ),
    ),
    (
        "Qwen3Moe",
        "Qwen3MoeForCausalLM",
        KEYS | dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, head_dim=8),
    ),
    (
        "DeepseekV3",
        "DeepseekV3ForCausalLM",
        KEYS
        | dict(
            num_key_value_heads=4,
            n_routed_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
            first_k_dense_replace=1,
            n_group=2,
            topk_group=1,
            kv_lora_rank=8,
            q_lora_rank=16,
            qk_rope_head_dim=4,
            qk_nope_head_dim=4,
            v_head_dim=8,
        ),
    ),
    ("Olmoe", "OlmoeForCausalLM", KEYS | dict(num_experts=4, num_experts_per_tok=2)),
    (
        "GptOss",
        "GptOssForCausalLM",
        KEYS | dict(num_local_experts=4, num_experts_per_tok=2, head_dim=8, sliding_window=4),
    ),
    ("Granite", "GraniteForCausalLM", KEYS),
    ("Glm", "GlmForCausalLM", KEYS | dict(head_dim=8)),
    ("Olmo2", "Olmo2ForCausalLM", KEYS),
    ("Cohere2", "Cohere2ForCausalLM", KEYS | dict(sliding_window=4)),
    ("SmolLM3", "SmolLM3ForCausalLM", KEYS),
    ("Nemotron", "NemotronForCausalLM", KEYS),
    ("Ernie4_5", "Ernie4_5ForCausalLM", KEYS),
    ("Lfm2", "Lfm2ForCausalLM", KEYS | dict(layer_types=["conv", "full_attention"])),
    (
        "Qwen3Next",
        "Qwen3NextForCausalLM",
        KEYS
        | dict(
            head_dim=8,
            layer_types=["linear_attention", "full_attention"],
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
            shared_expert_intermediate_size=16,
            linear_num_key_heads=2,
            linear_num_value_heads=4,
            linear_key_head_dim=8,
            linear_value_head_dim=8,
        ),
    ),
    ("XLNet", "XLNetLMHeadModel", dict(vocab_size=60, d_model=32, n_layer=2, n_head=4, d_inner=48)),
    (
        "CTRL",
        "CTRLLMHeadModel",
        dict(vocab_size=60, n_embd=32, n_layer=2, n_head=4, dff=48, n_positions=64),
    ),
    (
        "GPTBigCode",
        "GPTBigCodeForCausalLM",
        dict(vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=64),
    ),
    (
        "GPTNeo",
        "GPTNeoForCausalLM",
        dict(
            vocab_size=60,
            hidden_size=32,
            num_layers=2,
            num_heads=4,
            attention_types=[[["global", "local"], 1]],
            window_size=4,
            max_position_embeddings=64,
        ),
    ),
    (
        "Mpt",
        "MptForCausalLM",
        dict(vocab_size=60, d_model=32, n_layers=2, n_heads=4, max_seq_len=64),
    ),
    ("Persimmon", "PersimmonForCausalLM", SMALL),
    (
        "CodeGen",
        "CodeGenForCausalLM",
        dict(vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=64, rotary_dim=4),
    ),
    ("DiffLlama", "DiffLlamaForCausalLM", KEYS),
    (
        "FalconMamba",
        "FalconMambaForCausalLM",
        dict(vocab_size=60, hidden_size=32, state_size=4, num_hidden_layers=2),
    ),
    ("Gemma3Text", "Gemma3ForCausalLM", KEYS | dict(head_dim=8, sliding_window=4)),
    (
        "Llama4Text",
        "Llama4ForCausalLM",
        KEYS
        | dict(
            head_dim=8,
            num_local_experts=2,
            intermediate_size_mlp=48,
            interleave_moe_layer_step=1,
            attention_chunk_size=8,
        ),
    ),
]
MASKED = [
    ("Longformer", "LongformerForMaskedLM", SMALL | dict(attention_window=4)),
    ("BigBird", "BigBirdForMaskedLM", SMALL | dict(attention_type="original_full")),
    ("FNet", "FNetForMaskedLM", SMALL),
    (
        "Funnel",
        "FunnelForMaskedLM",
        dict(
            vocab_size=60,
            d_model=32,
            n_head=4,
            d_head=8,
            d_inner=48,
            block_sizes=[1, 1],
            num_decoder_layers=1,
        ),
    ),
    ("ConvBert", "ConvBertForMaskedLM", SMALL | dict(embedding_size=16)),
    (
        "Nystromformer",
        "NystromformerForMaskedLM",
        SMALL | dict(num_landmarks=5, segment_means_seq_len=10),
    ),
    ("RoFormer", "RoFormerForMaskedLM", SMALL),
    ("SqueezeBert", "SqueezeBertForMaskedLM", SMALL | dict(embedding_size=32)),
    ("XLM", "XLMWithLMHeadModel", dict(vocab_size=60, emb_dim=32, n_layers=2, n_heads=4)),
    (
        "Deberta",
        "DebertaForMaskedLM",
        SMALL | dict(relative_attention=True, pos_att_type=["p2c", "c2p"]),
    ),
    (
        "Perceiver",
        "PerceiverForMaskedLM",
        dict(
            vocab_size=60,
            num_latents=4,
            d_latents=16,
            d_model=16,
            num_blocks=1,
            num_self_attends_per_block=1,
            num_self_attention_heads=2,
            num_cross_attention_heads=2,
            max_position_embeddings=10,
            qk_channels=16,
            v_channels=16,
        ),
    ),
    ("Esm", "EsmForMaskedLM", SMALL | dict(position_embedding_type="rotary", mask_token_id=4)),
    ("EuroBert", "EuroBertForMaskedLM", KEYS),
]
PAIRS = [
    ("MBart", "MBartForConditionalGeneration", SEQUENCES),
    (
        "LED",
        "LEDForConditionalGeneration",
        SEQUENCES
        | dict(
            max_encoder_position_embeddings=64,
            max_decoder_position_embeddings=64,
            attention_window=4,
        ),
    ),
    ("Blenderbot", "BlenderbotForConditionalGeneration", SEQUENCES),
    ("M2M100", "M2M100ForConditionalGeneration", SEQUENCES),
    (
        "LongT5",
        "LongT5ForConditionalGeneration",
        dict(
            vocab_size=60,
            d_model=32,
            d_kv=8,
            d_ff=48,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
            local_radius=3,
            encoder_attention_type="transient-global",
            global_block_size=4,
        ),
    ),
    (
        "MT5",
        "MT5ForConditionalGeneration",
        dict(
            vocab_size=60,
            d_model=32,
            d_kv=8,
            d_ff=48,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
        ),
    ),
    (
        "SwitchTransformers",
        "SwitchTransformersForConditionalGeneration",
        dict(
            vocab_size=60,
            d_model=32,
            d_kv=8,
            d_ff=48,
            num_layers=2,
            num_heads=4,
            num_experts=2,
            decoder_start_token_id=0,
        ),
    ),
    (
        "ProphetNet",
        "ProphetNetForConditionalGeneration",
        dict(
            vocab_size=60,
            hidden_size=32,
            num_encoder_layers=2,
            num_decoder_layers=2,
            encoder_ffn_dim=48,
            decoder_ffn_dim=48,
            num_encoder_attention_heads=4,
            num_decoder_attention_heads=4,
            max_position_embeddings=64,
            decoder_start_token_id=1,
            ngram=2,
        ),
    ),
]
IMAGES = [
    ("Beit", "BeitForImageClassification", IMAGE),
    (
        "Swinv2",
        "Swinv2ForImageClassification",
        dict(
            image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=4
        ),
    ),
    (
        "ConvNextV2",
        "ConvNextV2ForImageClassification",
        dict(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2),
    ),
    (
        "RegNet",
        "RegNetForImageClassification",
        dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], groups_width=4),
    ),
    (
        "PoolFormer",
        "PoolFormerForImageClassification",
        dict(hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1]),
    ),
    ("Dinov2WithRegisters", "Dinov2WithRegistersForImageClassification", IMAGE),
    (
        "PvtV2",
        "PvtV2ForImageClassification",
        dict(
            image_size=32,
            depths=[1, 1, 1, 1],
            hidden_sizes=[8, 8, 16, 16],
            num_attention_heads=[1, 1, 2, 2],
        ),
    ),
    ("Data2VecVision", "Data2VecVisionForImageClassification", IMAGE),
    ("ViTMSN", "ViTMSNForImageClassification", IMAGE),
    ("IJepa", "IJepaForImageClassification", IMAGE),
    (
        "Pvt",
        "PvtForImageClassification",
        dict(
            image_size=32,
            hidden_sizes=[8, 8, 16, 16],
            depths=[1, 1, 1, 1],
            num_attention_heads=[1, 1, 2, 2],
        ),
    ),
]


def build(family, name, options):
    torch.manual_seed(1)
    config = getattr(transformers, family + "Config")(**options)
    return getattr(transformers, name)(config).eval()


def step(family, name, options, **inputs):
    """Loss, logits and gradients of one step, without dropout."""
    model = build(family, name, options)
    result = model(**inputs)
    result.loss.mean().backward()
    show(family, result.loss, result.logits, gradients(model))


torch.manual_seed(0)
tokens = torch.randint(3, 60, (2, 10))
image = torch.randn(2, 3, 32, 32)
for row in CAUSAL + MASKED:
    step(*row, input_ids=tokens, labels=tokens)
for row in PAIRS:
    step(*row, input_ids=tokens, labels=tokens[:, :6].contiguous())
for row in IMAGES:
    step(*row, pixel_values=image, labels=torch.tensor([0, 1]))
