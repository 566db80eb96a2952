"""Adapters of peft around a small model: trained, merged, saved."""

import tempfile

import torch
from peft import (
    AdaLoraConfig,
    IA3Config,
    LoHaConfig,
    LoKrConfig,
    LoraConfig,
    OFTConfig,
    PeftModel,
    PrefixTuningConfig,
    PromptTuningConfig,
    TaskType,
    VeraConfig,
    get_peft_model,
)
from showing import gradients, show
from transformers import LlamaConfig, LlamaForCausalLM

tokens = torch.randint(3, 60, (2, 6), generator=torch.Generator().manual_seed(0))


def base():
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=60,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            bos_token_id=1,
            eos_token_id=2,
        )
    )


kinds = {
    "lora": LoraConfig(
        r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type=TaskType.CAUSAL_LM
    ),
    "dora": LoraConfig(r=4, use_dora=True, target_modules=["q_proj"], init_lora_weights=False),
    "rslora": LoraConfig(r=4, use_rslora=True, target_modules="all-linear", lora_dropout=0.1),
    "pissa": LoraConfig(r=2, init_lora_weights="pissa_niter_2", target_modules=["o_proj"]),
    "adalora": AdaLoraConfig(r=4, init_r=6, target_r=2, total_step=10, target_modules=["q_proj"]),
    "loha": LoHaConfig(r=2, target_modules=["q_proj"], init_weights=False),
    "lokr": LoKrConfig(r=2, target_modules=["q_proj"], init_weights=False),
    "ia3": IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]),
    "oft": OFTConfig(oft_block_size=8, target_modules=["q_proj"], use_cayley_neumann=False),
    "vera": VeraConfig(r=4, target_modules=["q_proj"]),
    "prompt": PromptTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=3),
    "prefix": PrefixTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=3),
}
for name, config in kinds.items():
    torch.manual_seed(5)
    model = get_peft_model(base(), config)
    model.eval()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2)
    for _ in range(2):
        loss = model(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    show(name, loss, gradients(model), model.get_nb_trainable_parameters())
    if name in ("lora", "dora", "loha", "lokr"):
        out = model(input_ids=tokens).logits
        merged = model.merge_and_unload()
        show(
            name + " merged", bool(torch.allclose(out, merged(input_ids=tokens).logits, atol=1e-4))
        )
model = get_peft_model(base(), kinds["lora"])
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    again = PeftModel.from_pretrained(base(), folder)
    show("loaded", again.eval()(input_ids=tokens).logits)
    with again.disable_adapter():
        show("disabled", again(input_ids=tokens).logits)
