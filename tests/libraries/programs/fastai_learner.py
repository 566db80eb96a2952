"""fastai: a Learner with tabular and vision blocks made by hand, schedules, callbacks."""

import torch
from fastai.basics import DataLoaders, Learner, accuracy, set_seed
from fastai.callback.all import GradientClip
from fastai.layers import AdaptiveConcatPool2d, ConvLayer, SelfAttention, SimpleCNN
from fastai.losses import CrossEntropyLossFlat, FocalLossFlat, LabelSmoothingCrossEntropy
from fastai.optimizer import Adam, Lamb, RAdam, ranger
from showing import show
from torch import nn

set_seed(0)
x = torch.randn(64, 4)
y = (x.sum(1) > 0).long()
data = torch.utils.data.TensorDataset(x, y)


def learner(optimizer, **words):
    set_seed(1)
    loaders = DataLoaders(
        torch.utils.data.DataLoader(data, 16), torch.utils.data.DataLoader(data, 32)
    )
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    return Learner(
        loaders,
        net,
        loss_func=CrossEntropyLossFlat(),
        opt_func=optimizer,
        metrics=accuracy,
        **words,
    )


for name, optimizer in (("adam", Adam), ("lamb", Lamb), ("radam", RAdam), ("ranger", ranger)):
    learn = learner(optimizer)
    with learn.no_bar(), learn.no_logging():
        learn.fit(2, 1e-2)
    show(name, list(learn.recorder.values[-1]), learn.model[0].weight)
learn = learner(Adam, cbs=GradientClip(0.5))
with learn.no_bar(), learn.no_logging():
    learn.fit_one_cycle(2, 1e-2)
show("one cycle", list(learn.recorder.values[-1]), learn.recorder.lrs)
show(
    "layers",
    SimpleCNN([3, 4, 2])(torch.randn(2, 3, 8, 8)),
    ConvLayer(3, 4)(torch.randn(2, 3, 6, 6)),
    SelfAttention(8)(torch.randn(2, 8, 4, 4)),
    AdaptiveConcatPool2d()(torch.randn(1, 2, 5, 5)),
)
show("losses", FocalLossFlat()(learn.model(x), y), LabelSmoothingCrossEntropy()(learn.model(x), y))
