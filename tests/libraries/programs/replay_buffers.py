"""TorchRL and tensordict: replay buffers, samplers, tensors in files."""

import tempfile
from pathlib import Path

import torch
from showing import show
from tensordict import MemoryMappedTensor, TensorDict
from torchrl.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    ReplayBuffer,
    TensorDictReplayBuffer,
)
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement, SliceSampler

torch.manual_seed(0)
first = torch.empty_like(TensorDict({"a": torch.ones(3, 2)}, [3]))
show("empty_like", list(first.keys()), tuple(first.batch_size))


def steps(count):
    return TensorDict(
        {
            "obs": torch.randn(count, 3),
            "reward": torch.arange(float(count)),
            "episode": torch.arange(count) // 5,
            "next": {"done": torch.arange(count) % 5 == 4},
        },
        [count],
    )


buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(12), batch_size=4)
buffer.extend(steps(10))
sample = buffer.sample()
show("tensors", len(buffer), sample["obs"], sample["index"])
buffer.extend(steps(5))  # the oldest go
show("ring", len(buffer), buffer[:]["reward"], buffer.sample(6)["reward"])

listed = ReplayBuffer(storage=ListStorage(10), collate_fn=torch.stack, batch_size=3)
listed.extend([torch.randn(2) for _ in range(5)])
show("list", len(listed), listed.sample())

mapped = TensorDictReplayBuffer(
    storage=LazyMemmapStorage(20), sampler=SamplerWithoutReplacement(), batch_size=4
)
mapped.extend(steps(10))
for batch in range(3):
    show(f"memory map {batch}", mapped.sample()["reward"])

slices = TensorDictReplayBuffer(
    storage=LazyTensorStorage(20),
    sampler=SliceSampler(num_slices=2, traj_key="episode"),
    batch_size=6,
)
slices.extend(steps(20))
found = slices.sample()
show("slices", found["episode"], found["reward"], found["next", "done"])

with tempfile.TemporaryDirectory() as folder:
    kept = steps(6).memmap(folder)
    back = TensorDict.load_memmap(folder)
    kept["reward"][2] = 7.0
    show("files", type(back["obs"]).__name__, back["obs"], back["reward"])
    path = Path(folder) / "alone.memmap"
    alone = MemoryMappedTensor.from_tensor(torch.arange(6.0).view(2, 3), filename=path)
    alone += 1
    again = MemoryMappedTensor.from_filename(path, dtype=torch.float32, shape=(2, 3))
    show("one tensor", again, alone[1], again * 2)
