"""Accelerator: a loop with accumulation, clipping, gathering, state files; big models by hooks."""

import tempfile

import torch
from accelerate import Accelerator, cpu_offload, infer_auto_device_map, init_empty_weights
from accelerate.utils import find_executable_batch_size, set_seed
from showing import show
from torch import nn

set_seed(3)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
x = torch.randn(24, 4)
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), 4, shuffle=True
)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
for epoch in range(2):
    for a, b in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(a), b)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    show("epoch", epoch, loss, norm, schedule.get_last_lr())
show(
    "gathered", accelerator.gather_for_metrics(loss), accelerator.num_processes, accelerator.device
)
with tempfile.TemporaryDirectory() as folder:
    accelerator.save_state(folder)
    before = [p.clone() for p in model.parameters()]
    for p in model.parameters():
        p.data.zero_()
    accelerator.load_state(folder)
    show("state", [torch.equal(a, b) for a, b in zip(before, model.parameters())])
    accelerator.save_model(model, folder + "/model")
with init_empty_weights():
    big = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)))
show(
    "empty",
    next(big.parameters()).device,
    infer_auto_device_map(big, max_memory={"cpu": "40KB", "disk": "1GB"}),
)
plain = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
want = plain(x[:2])
cpu_offload(plain, "cpu")
show("offloaded", plain(x[:2]), want)


@find_executable_batch_size(starting_batch_size=64)
def train(batch_size):
    if batch_size > 20:
        raise RuntimeError("CUDA out of memory.")
    return batch_size


show("batch size", train())
