"""Tiny models of twenty families: outputs, losses and gradients."""

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
GPT = dict(
    vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2
)
SEQ = dict(
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
    ("GPT2", "GPT2LMHeadModel", GPT),
    ("Llama", "LlamaForCausalLM", KEYS),
    ("Mistral", "MistralForCausalLM", KEYS | dict(sliding_window=4)),
    ("Qwen2", "Qwen2ForCausalLM", KEYS),
    ("Qwen3", "Qwen3ForCausalLM", KEYS | dict(head_dim=8)),
    ("Gemma", "GemmaForCausalLM", KEYS | dict(head_dim=8)),
    ("Gemma2", "Gemma2ForCausalLM", KEYS | dict(head_dim=8, sliding_window=4)),
    ("Phi", "PhiForCausalLM", KEYS),
    ("Phi3", "Phi3ForCausalLM", KEYS),
    ("GPTNeoX", "GPTNeoXForCausalLM", SMALL),
    ("GPTJ", "GPTJForCausalLM", GPT | dict(rotary_dim=4)),
    ("OPT", "OPTForCausalLM", SMALL | dict(ffn_dim=48, word_embed_proj_dim=32)),
    ("Bloom", "BloomForCausalLM", dict(vocab_size=60, hidden_size=32, n_layer=2, n_head=4)),
    ("Falcon", "FalconForCausalLM", SMALL | dict(alibi=False, multi_query=True)),
    ("Mixtral", "MixtralForCausalLM", KEYS | dict(num_local_experts=4)),
    (
        "Mamba",
        "MambaForCausalLM",
        dict(vocab_size=60, hidden_size=32, state_size=4, num_hidden_layers=2),
    ),
    ("StableLm", "StableLmForCausalLM", KEYS),
    ("Olmo", "OlmoForCausalLM", KEYS),
    ("Cohere", "CohereForCausalLM", KEYS),
    ("Starcoder2", "Starcoder2ForCausalLM", KEYS),
]
MASKED = [
    ("Bert", "BertForMaskedLM", SMALL),
    ("Roberta", "RobertaForMaskedLM", SMALL),
    (
        "DistilBert",
        "DistilBertForMaskedLM",
        dict(vocab_size=60, dim=32, hidden_dim=48, n_layers=2, n_heads=4),
    ),
    ("Electra", "ElectraForMaskedLM", SMALL | dict(embedding_size=16)),
    ("Albert", "AlbertForMaskedLM", SMALL | dict(embedding_size=16)),
    (
        "DebertaV2",
        "DebertaV2ForMaskedLM",
        SMALL | dict(relative_attention=True, pos_att_type=["p2c", "c2p"]),
    ),
    (
        "ModernBert",
        "ModernBertForMaskedLM",
        SMALL | dict(local_attention=4, reference_compile=False),
    ),
    ("MPNet", "MPNetForMaskedLM", SMALL),
]
PAIRS = [
    (
        "T5",
        "T5ForConditionalGeneration",
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
    ("Bart", "BartForConditionalGeneration", SEQ),
    ("Pegasus", "PegasusForConditionalGeneration", SEQ),
    ("Marian", "MarianMTModel", SEQ),
]
IMAGES = [
    ("ViT", "ViTForImageClassification", IMAGE),
    ("DeiT", "DeiTForImageClassification", IMAGE),
    ("Dinov2", "Dinov2ForImageClassification", IMAGE),
    (
        "Swin",
        "SwinForImageClassification",
        dict(
            image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=4
        ),
    ),
    (
        "ConvNext",
        "ConvNextForImageClassification",
        dict(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2),
    ),
    (
        "ResNet",
        "ResNetForImageClassification",
        dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1]),
    ),
    (
        "Segformer",
        "SegformerForImageClassification",
        dict(
            num_encoder_blocks=2,
            depths=[1, 1],
            sr_ratios=[2, 1],
            hidden_sizes=[8, 16],
            num_attention_heads=[1, 2],
            patch_sizes=[7, 3],
            strides=[4, 2],
            mlp_ratios=[2, 2],
            decoder_hidden_size=16,
        ),
    ),
]


def build(family, name, options):
    torch.manual_seed(1)
    config = getattr(transformers, family + "Config")(**options)
    return getattr(transformers, name)(config)


def losses(family, name, options, **inputs):
    """Loss, logits and gradients of one step, without dropout."""
    model = build(family, name, options).eval()
    result = model(**inputs)
    result.loss.backward()
    show(family, result.loss, result.logits, gradients(model))


torch.manual_seed(0)
tokens = torch.randint(3, 60, (2, 10))
mask = torch.ones_like(tokens)
mask[1, 7:] = 0
image = torch.randn(2, 3, 32, 32)
for row in CAUSAL:
    losses(*row, input_ids=tokens, attention_mask=mask, labels=tokens)
for row in MASKED:
    losses(*row, input_ids=tokens, attention_mask=mask, labels=tokens)
for row in PAIRS:
    losses(*row, input_ids=tokens, attention_mask=mask, labels=tokens[:, :6].contiguous())
for row in IMAGES:
    losses(*row, pixel_values=image, labels=torch.tensor([0, 1]))

clip = build(
    "CLIP", "CLIPModel", dict(text_config=SMALL, vision_config=IMAGE, projection_dim=16)
).eval()
result = clip(input_ids=tokens, attention_mask=mask, pixel_values=image, return_loss=True)
result.loss.backward()
show("CLIP", result.loss, result.logits_per_image, gradients(clip))
whisper = build(
    "Whisper",
    "WhisperForConditionalGeneration",
    SEQ | dict(num_mel_bins=8, max_source_positions=16),
)
result = whisper.eval()(input_features=torch.randn(2, 8, 32), labels=tokens[:, :6].contiguous())
result.loss.backward()
show("Whisper", result.loss, result.logits, gradients(whisper))
wave = build(
    "Wav2Vec2",
    "Wav2Vec2ForCTC",
    SMALL
    | dict(
        conv_dim=(8, 8),
        conv_kernel=(5, 3),
        conv_stride=(4, 2),
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
        num_feat_extract_layers=2,
    ),
).eval()
result = wave(input_values=torch.randn(2, 200), labels=tokens[:, :4].contiguous())
result.loss.backward()
show("Wav2Vec2", result.loss, result.logits, gradients(wave))
