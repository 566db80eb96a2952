"""trl: fine-tuning, preferences and rewards on a tiny random model."""

import tempfile

import torch
from datasets import Dataset
from showing import show
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    PreTrainedTokenizerFast,
)
from trl import (
    DPOConfig,
    DPOTrainer,
    GRPOConfig,
    GRPOTrainer,
    RewardConfig,
    RewardTrainer,
    SFTConfig,
    SFTTrainer,
)

WORDS = "<pad> <s> </s> <unk> a b c d e f g h i j k l m n o p . ! ? yes no".split()
plain = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<unk>"))
plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=plain,
    pad_token="<pad>",
    bos_token="<s>",
    eos_token="</s>",
    unk_token="<unk>",
)
config = LlamaConfig(
    vocab_size=len(WORDS),
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    max_position_embeddings=64,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)


def fresh(kind=LlamaForCausalLM, seed=0, **more):
    torch.manual_seed(seed)
    for name, value in more.items():
        setattr(config, name, value)
    return kind(config)


def losses(trainer):
    return [row[k] for row in trainer.state.log_history for k in ("loss", "grad_norm") if k in row]


folder = tempfile.mkdtemp()
common = dict(
    output_dir=folder,
    per_device_train_batch_size=2,
    max_steps=3,
    logging_steps=1,
    learning_rate=1e-2,
    report_to="none",
    use_cpu=True,
    bf16=False,
    save_strategy="no",
    disable_tqdm=True,
    gradient_checkpointing=False,
)
texts = Dataset.from_dict({"text": ["a b c d .", "e f g !", "h i j k l m ?", "n o p a ."] * 2})
model = fresh()
trainer = SFTTrainer(
    model,
    args=SFTConfig(**common, max_length=16),
    train_dataset=texts,
    processing_class=tokenizer,
)
trainer.train()
show("sft", losses(trainer), model.model.embed_tokens.weight)
model = fresh()
trainer = SFTTrainer(
    model,
    args=SFTConfig(**common, max_length=12, packing=True, packing_strategy="wrapped"),
    train_dataset=texts,
    processing_class=tokenizer,
)
trainer.train()
show("packed", losses(trainer))
pairs = Dataset.from_dict(
    {
        "prompt": ["a b", "c d e", "f", "g h"],
        "chosen": [" yes .", " yes !", " yes", " yes c ."],
        "rejected": [" no .", " no a b", " no !", " no"],
    }
)
for kind in ("sigmoid", "ipo", "hinge"):
    trainer = DPOTrainer(
        fresh(),
        ref_model=fresh(),
        args=DPOConfig(**common, loss_type=kind, beta=0.5),
        train_dataset=pairs,
        processing_class=tokenizer,
    )
    trainer.train()
    show("dpo", kind, losses(trainer))
trainer = RewardTrainer(
    fresh(LlamaForSequenceClassification, num_labels=1),
    args=RewardConfig(**common),
    train_dataset=pairs,
    processing_class=tokenizer,
)
trainer.train()
show("reward", losses(trainer))


def longer(completions, **_):
    return [float(len(set(text.split()))) for text in completions]


torch.manual_seed(0)
trainer = GRPOTrainer(
    fresh(),
    reward_funcs=longer,
    args=GRPOConfig(
        **common, num_generations=2, max_completion_length=5, beta=0.0, temperature=1.0
    ),
    train_dataset=Dataset.from_dict({"prompt": ["a b", "c d e", "f g"]}),
    processing_class=tokenizer,
)
trainer.train()
show("grpo", losses(trainer), [r["reward"] for r in trainer.state.log_history if "reward" in r])
