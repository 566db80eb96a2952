"""Poutyne, pytorch-accelerated: loops of training; what they log and keep."""

import tempfile

import torch
from poutyne import EarlyStopping, Model, ModelCheckpoint
from pytorch_accelerated import Trainer
from pytorch_accelerated.callbacks import (
    ModelEmaCallback,
    SaveBestModelCallback,
    TerminateOnNaNCallback,
)
from showing import show
from torch import nn
from torch.utils.data import TensorDataset

draw = torch.Generator().manual_seed(0)
x = torch.randn(40, 6, generator=draw)
y = (x[:, 0] * x[:, 1] > 0).long()
data = TensorDataset(x, y)


def network():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(6, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2)
    )


folder = tempfile.mkdtemp()
net = network()
model = Model(
    net, torch.optim.Adam(net.parameters(), 0.02), "cross_entropy",
    batch_metrics=["accuracy"], epoch_metrics=["f1"],
)  # fmt: skip
history = model.fit_dataset(
    data,
    data,
    epochs=3,
    batch_size=8,
    progress_options={"coloring": False},
    verbose=False,
    dataloader_kwargs={"shuffle": False},
    callbacks=[
        EarlyStopping(patience=2),
        ModelCheckpoint(folder + "/best.pt", save_best_only=True),
    ],
)
show("poutyne", [{k: v for k, v in row.items() if k != "time"} for row in history])
show("evaluated", model.evaluate(x.numpy(), y.numpy()), model.predict(x.numpy()))
net = network()
trainer = Trainer(
    net,
    nn.CrossEntropyLoss(),
    torch.optim.AdamW(net.parameters(), 0.02),
    callbacks=(
        TerminateOnNaNCallback,
        ModelEmaCallback(0.9, save_path=folder + "/mean.pt"),
        SaveBestModelCallback(folder + "/accelerated.pt"),
    ),
)
trainer.train(data, 3, eval_dataset=data, per_device_batch_size=8, max_num_train_steps=None,
              create_scheduler_fn=None, gradient_accumulation_steps=2)  # fmt: skip
history = trainer.run_history
show(
    "accelerated",
    history.get_metric_values("eval_loss_epoch"),
    history.get_metric_values("ema_model_eval_loss"),
    net[3].weight,
)
