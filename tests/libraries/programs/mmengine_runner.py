"""mmengine, torchdata's nodes, albumentations: a Runner with hooks; pipelines of data."""

import tempfile

import albumentations
import numpy as np
import torch
from albumentations.pytorch import ToTensorV2
from mmengine.evaluator import BaseMetric
from mmengine.model import BaseModel, ExponentialMovingAverage
from mmengine.runner import Runner
from showing import show
from torch import nn
from torch.utils.data import RandomSampler
from torchdata import nodes


class Model(BaseModel):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x, y, mode="tensor"):
        z = self.linear(x)
        if mode == "loss":
            return {"loss": nn.functional.cross_entropy(z, y)}
        return z, y


class Accuracy(BaseMetric):
    def process(self, data_batch, data_samples):
        z, y = data_samples
        self.results.append((len(y), (z.argmax(1) == y).sum().item()))

    def compute_metrics(self, results):
        return {"accuracy": sum(r[1] for r in results) / sum(r[0] for r in results)}


torch.manual_seed(0)
data = [(torch.randn(4), k % 2) for k in range(16)]
model = Model()


def loader(shuffle):
    return dict(
        batch_size=4,
        dataset=data,
        sampler=dict(type="DefaultSampler", shuffle=shuffle),
        collate_fn=dict(type="default_collate"),
    )


runner = Runner(
    model,
    work_dir=tempfile.mkdtemp(),
    train_dataloader=loader(True),
    val_dataloader=loader(False),
    val_evaluator=[Accuracy(prefix="own")],
    val_cfg={},
    train_cfg=dict(by_epoch=True, max_epochs=3, val_interval=1),
    optim_wrapper=dict(optimizer=dict(type="AdamW", lr=0.01), clip_grad=dict(max_norm=1.0)),
    param_scheduler=[
        dict(type="LinearLR", start_factor=0.1, by_epoch=False, end=4),
        dict(type="MultiStepLR", milestones=[1]),
    ],
    randomness=dict(seed=0),
    default_hooks=dict(checkpoint=dict(type="CheckpointHook", interval=1)),
    custom_hooks=[dict(type="EMAHook")],
    log_level="ERROR",
)
runner.train()
history = runner.message_hub
show("loss", history.get_scalar("train/loss").current(), history.get_scalar("train/lr").current())
show("weights", model.linear.weight, runner.val())
average = ExponentialMovingAverage(model, momentum=0.1)
with torch.no_grad():
    model.linear.weight.add_(1.0)
average.update_parameters(model)
average.update_parameters(model)
show("average", average.module.linear.weight)

doubled = nodes.Mapper(nodes.IterableWrapper(range(7)), lambda x: x * 2)
show("batches", *nodes.Loader(nodes.Batcher(doubled, 3, drop_last=False)))
parallel = nodes.ParallelMapper(
    nodes.IterableWrapper(range(5)), torch.tensor, num_workers=2, method="thread"
)
ahead = nodes.Loader(nodes.Prefetcher(parallel, 2))
going = iter(ahead)
next(going), next(going)
state = ahead.state_dict()
show("rest", *going)
ahead.load_state_dict(state)
show("resumed", *ahead)
torch.manual_seed(0)
show("sampled", *nodes.Loader(nodes.SamplerWrapper(RandomSampler(range(6)))))


def fail(x):
    raise ValueError("no")


try:
    broken = nodes.ParallelMapper(nodes.IterableWrapper([1]), fail, num_workers=1, method="thread")
    list(nodes.Loader(broken))
except ValueError as error:
    show("error", str(error).splitlines()[0])

steps = albumentations.Compose(
    [albumentations.HorizontalFlip(p=1), albumentations.Normalize(), ToTensorV2()]
)
found = steps(image=np.arange(192, dtype=np.uint8).reshape(8, 8, 3), mask=np.eye(8))
show("augmented", found["image"], found["mask"])
