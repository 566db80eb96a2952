"""ignite: engines, events, metrics, handlers."""

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import EarlyStopping, PiecewiseLinear, TerminateOnNan
from ignite.metrics import (
    SSIM,
    Accuracy,
    ConfusionMatrix,
    Fbeta,
    Loss,
    Precision,
    Recall,
    RunningAverage,
)
from showing import show
from torch import nn

torch.manual_seed(0)
x = torch.randn(48, 4)
data = torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long())
loader = torch.utils.data.DataLoader(data, 12, shuffle=True)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
trainer = create_supervised_trainer(model, optimizer, nn.CrossEntropyLoss())
precision, recall = Precision(average=False), Recall(average=False)
evaluator = create_supervised_evaluator(
    model,
    metrics={
        "acc": Accuracy(),
        "loss": Loss(nn.CrossEntropyLoss()),
        "f1": Fbeta(1, True, precision, recall),
        "confusion": ConfusionMatrix(2),
    },
)
RunningAverage(output_transform=lambda out: out).attach(trainer, "running")
trainer.add_event_handler(
    Events.ITERATION_STARTED, PiecewiseLinear(optimizer, "lr", [(0, 0.1), (12, 0.01)])
)
trainer.add_event_handler(Events.ITERATION_COMPLETED, TerminateOnNan())
evaluator.add_event_handler(
    Events.COMPLETED, EarlyStopping(2, lambda e: -e.state.metrics["loss"], trainer)
)


@trainer.on(Events.EPOCH_COMPLETED(every=1))
def evaluate(engine):
    evaluator.run(loader)
    show(
        "epoch",
        engine.state.epoch,
        engine.state.metrics["running"],
        dict(sorted(evaluator.state.metrics.items())),
    )


state = trainer.run(loader, max_epochs=3)
show("state", state.iteration, state.output, optimizer.param_groups[0]["lr"])
ssim = SSIM(1.0)
ssim.update((torch.rand(2, 3, 16, 16), torch.rand(2, 3, 16, 16)))
show("ssim", ssim.compute())
