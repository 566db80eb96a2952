"""Opacus: per-sample gradients, clipping, noise, accounting."""

import torch
from opacus import GradSampleModule, PrivacyEngine
from opacus.accountants import RDPAccountant
from opacus.validators import ModuleValidator
from showing import show
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)
)
x, y = torch.randn(16, 1, 8, 8), torch.randint(0, 3, (16,))
wrapped = GradSampleModule(nn.Sequential(*(type(m).__call__ and m for m in net)))
nn.functional.cross_entropy(wrapped(x), y).backward()
show("per sample", [p.grad_sample for p in wrapped.parameters()])
mixed = GradSampleModule(
    nn.ModuleDict({"e": nn.Embedding(5, 4), "n": nn.LayerNorm(4), "l": nn.Linear(4, 2)})
)
h = mixed._module["l"](mixed._module["n"](mixed._module["e"](torch.randint(0, 5, (3, 6)))))
h.square().mean().backward()
show("embedding", [p.grad_sample for p in mixed.parameters()])
torch.manual_seed(1)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 8)
engine = PrivacyEngine(accountant="rdp")
model, optimizer, loader = engine.make_private(
    module=model,
    optimizer=optimizer,
    data_loader=loader,
    noise_multiplier=1.0,
    max_grad_norm=0.5,
    poisson_sampling=False,
)
for a, b in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(a), b)
    loss.backward()
    optimizer.step()
    show("step", loss, model._module[1].weight)
show("epsilon", engine.get_epsilon(1e-5))
bad = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4))
show(
    "validator",
    len(ModuleValidator.validate(bad, strict=False)),
    [type(m).__name__ for m in ModuleValidator.fix(bad)],
)
accountant = RDPAccountant()
accountant.history = [(1.1, 0.01, 100)]
show("accountant", accountant.get_epsilon(1e-5))
