"""Saving and loading, attention kinds, gradient checkpointing, resized embeddings, pipelines."""

import tempfile

import torch
from showing import gradients, show
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.optimization import Adafactor, get_linear_schedule_with_warmup

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=60,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    bos_token_id=1,
    eos_token_id=2,
)
model = LlamaForCausalLM(config)
tokens = torch.randint(3, 60, (2, 7))
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder, max_shard_size="20KB")
    again = AutoModelForCausalLM.from_pretrained(folder)
    show(
        "same",
        all(
            torch.equal(a, b)
            for a, b in zip(model.state_dict().values(), again.state_dict().values())
        ),
    )
    half = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    show("bfloat16", half(tokens).logits.float().mean().round(decimals=2), half.dtype)
    for kind in ("eager", "sdpa"):
        other = AutoModelForCausalLM.from_pretrained(folder, attn_implementation=kind).eval()
        show(kind, other(tokens, output_hidden_states=True).hidden_states[-1])
    plain = AutoModel.from_pretrained(folder)
    show("base", plain(tokens).last_hidden_state)
    show("config", AutoConfig.from_pretrained(folder).hidden_size)
model.gradient_checkpointing_enable()
model.train()
model(tokens, labels=tokens).loss.backward()
show("checkpointed", gradients(model))
model.resize_token_embeddings(64, mean_resizing=False)
show("resized", model(tokens).logits.shape[-1], model.num_parameters())
optimizer = Adafactor(model.parameters(), lr=1e-2, relative_step=False, scale_parameter=False)
schedule = get_linear_schedule_with_warmup(optimizer, 2, 5)
for _ in range(3):
    loss = model(tokens, labels=tokens).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    show("adafactor", loss, schedule.get_last_lr())
model.eval()
past = model(tokens[:, :4], use_cache=True).past_key_values
show("cached", model(tokens[:, 4:], past_key_values=past).logits, past.get_seq_length())
show("embeds", model(inputs_embeds=model.get_input_embeddings()(tokens)).logits)
