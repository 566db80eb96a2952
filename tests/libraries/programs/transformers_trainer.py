"""Trainer: a small classifier, with schedule, accumulation, checkpoints and resuming."""

import tempfile

import numpy as np
import torch
from showing import show
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)


class Words(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(3, 40, (count, 8), generator=generator)
        self.labels = (self.tokens.sum(1) % 2).long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": self.labels[index]}


class Losses(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            show(
                "step",
                state.global_step,
                logs["loss"],
                logs["learning_rate"],
                float(logs["grad_norm"]),
            )


def metrics(prediction):
    return {
        "accuracy": float((np.argmax(prediction.predictions, -1) == prediction.label_ids).mean())
    }


with tempfile.TemporaryDirectory() as folder:
    set_seed(5)
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=40,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=16,
        )
    )
    arguments = dict(
        output_dir=folder,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        num_train_epochs=2,
        learning_rate=1e-3,
        warmup_steps=2,
        weight_decay=0.01,
        logging_steps=2,
        lr_scheduler_type="cosine",
        save_steps=4,
        report_to=[],
        seed=5,
        use_cpu=True,
        disable_tqdm=True,
        eval_strategy="epoch",
        max_grad_norm=0.5,
    )
    trainer = Trainer(
        model=model,
        args=TrainingArguments(**arguments),
        train_dataset=Words(32, 1),
        eval_dataset=Words(12, 2),
        compute_metrics=metrics,
        callbacks=[Losses()],
    )
    result = trainer.train()
    show("train", result.global_step, result.training_loss)
    scores = trainer.evaluate()
    show("eval", scores["eval_loss"], scores["eval_accuracy"])
    show("weights", model.classifier.weight, model.bert.pooler.dense.weight)
    show("predict", trainer.predict(Words(3, 3)).predictions)
    set_seed(5)
    again = BertForSequenceClassification.from_pretrained(folder + "/checkpoint-4")
    trainer = Trainer(
        model=again,
        args=TrainingArguments(**arguments),
        train_dataset=Words(32, 1),
        eval_dataset=Words(12, 2),
        callbacks=[Losses()],
    )
    show(
        "resumed",
        trainer.train(resume_from_checkpoint=folder + "/checkpoint-4").global_step,
        again.classifier.weight,
    )
