"""Generation: greedy, sampling, beams, caches, stopping; encoder and decoder."""

import torch
from showing import show
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    LogitsProcessorList,
    MinLengthLogitsProcessor,
    T5Config,
    T5ForConditionalGeneration,
)

torch.manual_seed(0)
gpt = GPT2LMHeadModel(
    GPT2Config(
        vocab_size=60,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=64,
        bos_token_id=1,
        eos_token_id=2,
    )
).eval()
llama = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=60,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
).eval()
prompt = torch.randint(3, 60, (2, 5))
mask = torch.ones_like(prompt)
mask[0, :2] = 0
common = dict(attention_mask=mask, pad_token_id=0, max_new_tokens=8)
for name, model in (("gpt2", gpt), ("llama", llama)):
    show(name + " greedy", model.generate(prompt, do_sample=False, **common).tolist())
    torch.manual_seed(3)
    show(
        name + " sampled",
        model.generate(
            prompt, do_sample=True, top_k=10, top_p=0.9, temperature=0.8, **common
        ).tolist(),
    )
    show(
        name + " beams",
        model.generate(
            prompt,
            num_beams=3,
            num_return_sequences=2,
            length_penalty=0.5,
            no_repeat_ngram_size=2,
            **common,
        ).tolist(),
    )
    torch.manual_seed(4)
    show(
        name + " beams sampled",
        model.generate(prompt, num_beams=2, do_sample=True, **common).tolist(),
    )
    scores = model.generate(
        prompt,
        do_sample=False,
        output_scores=True,
        return_dict_in_generate=True,
        repetition_penalty=1.3,
        min_new_tokens=4,
        **common,
    )
    show(name + " scores", scores.scores[-1].clamp(min=-50), scores.sequences.tolist())
    show(
        name + " no cache",
        model.generate(prompt, do_sample=False, use_cache=False, **common).tolist(),
    )
    show(
        name + " static",
        model.generate(
            prompt, do_sample=False, cache_implementation="static", disable_compile=True, **common
        ).tolist(),
    )
show(
    "processors",
    gpt.generate(
        prompt,
        logits_processor=LogitsProcessorList([MinLengthLogitsProcessor(12, 2, device="cpu")]),
        do_sample=False,
        **common,
    ).tolist(),
)
torch.manual_seed(1)
t5 = T5ForConditionalGeneration(
    T5Config(
        vocab_size=60,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
    )
).eval()
bart = BartForConditionalGeneration(
    BartConfig(
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
        forced_eos_token_id=2,
    )
).eval()
for name, model in (("t5", t5), ("bart", bart)):
    show(
        name + " greedy",
        model.generate(prompt, attention_mask=mask, max_new_tokens=8, do_sample=False).tolist(),
    )
    show(
        name + " beams",
        model.generate(prompt, attention_mask=mask, max_new_tokens=8, num_beams=3).tolist(),
    )
