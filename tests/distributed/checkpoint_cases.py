"""What processes of the tests of checkpoints do."""

import os

import flambeau as torch
import flambeau.distributed as dist
import flambeau.distributed.checkpoint as dcp
from flambeau import nn
from flambeau.distributed.checkpoint import state_dict as states
from flambeau.nn.parallel import DistributedDataParallel as DDP  # noqa: N817
from tests.distributed.cases import enter

SAVES_FOR_EVER = """
import sys, warnings
import flambeau as torch, flambeau.distributed.checkpoint as dcp
warnings.simplefilter("ignore")
for count in range(1 << 30):
    t = torch.full((200_000,), float(count))
    dcp.save({"a": t, "b": t, "count": count}, checkpoint_id=sys.argv[1])
    print(count, flush=True)
"""


def together(rank, size, folder):
    """Values of all and of each; errors of one; a thread beside training; a wrapped model."""
    enter(rank, size, os.path.join(folder, "store"))
    mine = {"same": torch.full((3,), 4.0), f"rank{rank}": torch.full((2,), float(rank))}
    described = dcp.save(mine, checkpoint_id=os.path.join(folder, "sync"))
    assert len(described.state_dict_metadata) == size + 1
    files = {info.relative_path for info in described.storage_data.values()}
    assert files == {f"__{r}_0.distcp" for r in range(size)}
    pending = dcp.async_save(mine, checkpoint_id=os.path.join(folder, "async"))
    for _ in range(20):
        dist.all_reduce(torch.ones(10))
    pending.result(60)
    loaded = {"same": torch.zeros(3), f"rank{rank}": torch.zeros(2)}
    dcp.load(loaded, checkpoint_id=os.path.join(folder, "async"))
    assert torch.equal(loaded["same"], mine["same"])
    assert torch.equal(loaded[f"rank{rank}"], mine[f"rank{rank}"])
    try:
        dcp.load({"same": torch.zeros(3 + (rank == 1))}, checkpoint_id=os.path.join(folder, "sync"))
        raise AssertionError("an error of rank 1 is one of all")
    except dcp.CheckpointException as error:
        assert list(error.failures) == [1], error
    wrapped(rank, folder)
    dist.destroy_process_group()


def spread_state(mesh, value=None):
    """Tensors cut in several ways: 7 rows over 2 or 3 processes are uneven, 2 leave one out."""
    from flambeau.distributed.tensor import Replicate, Shard, distribute_tensor

    whole = torch.arange(42.0).view(7, 6) if value is None else torch.full((7, 6), value)
    return {
        "rows": distribute_tensor(whole, mesh, [Shard(0)]),
        "columns": distribute_tensor(whole.to(torch.int32), mesh, [Shard(1)]),
        "same": distribute_tensor(whole.bfloat16(), mesh, [Replicate()]),
        "few": distribute_tensor(whole[:2].contiguous(), mesh, [Shard(0)]),
        "epoch": 3 if value is None else 0,
    }


def spread_save(rank, size, folder):
    enter(rank, size, os.path.join(folder, f"store{size}"))
    mesh = dist.init_device_mesh("cpu", (size,))
    described = dcp.save(spread_state(mesh), checkpoint_id=os.path.join(folder, "spread"))
    assert len(described.state_dict_metadata["rows"].chunks) == size
    assert len(described.state_dict_metadata["same"].chunks) == 1
    dist.destroy_process_group()


def spread_load(rank, size, folder):
    """Another number of processes, or another way of cutting, reads the same numbers."""
    from flambeau.distributed.tensor import Shard, distribute_tensor

    enter(rank, size, os.path.join(folder, f"store{size}"))
    mesh = dist.init_device_mesh("cpu", (size,))
    loaded = spread_state(mesh, 0.0)
    loaded["rows"] = distribute_tensor(torch.zeros(7, 6), mesh, [Shard(1)])  # was cut the other way
    dcp.load(loaded, checkpoint_id=os.path.join(folder, "spread"))
    expected = torch.arange(42.0).view(7, 6)
    assert torch.equal(loaded["rows"].full_tensor(), expected)
    assert torch.equal(loaded["columns"].full_tensor(), expected.to(torch.int32))
    assert torch.equal(loaded["same"].full_tensor(), expected.bfloat16())
    assert torch.equal(loaded["few"].full_tensor(), expected[:2]) and loaded["epoch"] == 3
    dist.destroy_process_group()


def sharded(size, kind):
    """A model and an optimizer whose states are spread over processes."""
    from flambeau.distributed.fsdp import FullyShardedDataParallel, fully_shard

    torch.manual_seed(size)
    model = nn.Sequential(nn.Linear(3, 7), nn.Tanh(), nn.Linear(7, 2)).double()
    if kind == "fully_shard":
        for layer in (model[0], model[2]):
            fully_shard(layer)
        fully_shard(model)
    elif kind == "fsdp":
        model = FullyShardedDataParallel(model, use_orig_params=True)
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


INPUT = torch.arange(12.0).view(4, 3).double() / 12
WHOLE = states.StateDictOptions(full_state_dict=True)


def sharded_save(rank, size, folder, kind):
    """Two steps, a checkpoint, one more step: what it leads to is kept for comparison."""
    enter(rank, size, os.path.join(folder, f"store{size}"))
    model, optimizer = sharded(size, kind)
    for step in range(3):
        if step == 2:
            saved = dict(zip("mo", states.get_state_dict(model, optimizer)))
            dcp.save(saved, checkpoint_id=os.path.join(folder, "sharded"))
        optimizer.zero_grad()
        model(INPUT).square().mean().backward()
        optimizer.step()
    final = states.get_model_state_dict(model, options=WHOLE)
    if rank == 0:
        torch.save(dict(final), os.path.join(folder, "final.pt"))
    dist.destroy_process_group()


def sharded_load(rank, size, folder, kind):
    """Another number of processes, or another kind of sharding, goes on from the checkpoint."""
    enter(rank, size, os.path.join(folder, f"store{size}"))
    model, optimizer = sharded(size, kind)
    loaded = dict(zip("mo", states.get_state_dict(model, optimizer)))
    dcp.load(loaded, checkpoint_id=os.path.join(folder, "sharded"))
    states.set_state_dict(
        model, optimizer, model_state_dict=loaded["m"], optim_state_dict=loaded["o"]
    )
    model(INPUT).square().mean().backward()
    optimizer.step()
    expected = torch.load(os.path.join(folder, "final.pt"))
    for name, value in states.get_model_state_dict(model, options=WHOLE).items():
        torch.testing.assert_close(value, expected[name])
    dist.destroy_process_group()


def wrapped(rank, folder):
    """A checkpoint of a DDP model is that of the model; rank 0 can give its state to all."""
    torch.manual_seed(rank)
    model = DDP(nn.Linear(2, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(1, 2) * (rank + 1)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    saved, moments = states.get_state_dict(model, optimizer)
    assert list(saved) == ["weight", "bias"] and list(moments["state"]) == ["weight", "bias"]
    dcp.save({"m": saved, "o": moments}, checkpoint_id=os.path.join(folder, "ddp"))
    bare = nn.Linear(2, 1)
    fresh = torch.optim.Adam(bare.parameters(), lr=0.5)
    loaded = dict(zip("mo", states.get_state_dict(bare, fresh)))
    dcp.load(loaded, checkpoint_id=os.path.join(folder, "ddp"))
    states.set_state_dict(bare, fresh, model_state_dict=loaded["m"], optim_state_dict=loaded["o"])
    assert torch.equal(bare.weight, model.module.weight) and fresh.param_groups[0]["lr"] == 0.1
    options = states.StateDictOptions(full_state_dict=True, cpu_offload=True)
    whole, moments = states.get_state_dict(model, optimizer, options=options)
    assert (whole == {}) == (rank != 0)
    options = states.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    other = nn.Linear(2, 1)
    fresh = torch.optim.Adam(other.parameters())
    states.set_model_state_dict(other, whole, options=options)
    states.set_optimizer_state_dict(other, fresh, moments, options=options)
    assert torch.equal(other.weight, model.module.weight)
    step = fresh.state[other.weight]["exp_avg"]
    assert torch.equal(step, optimizer.state[model.module.weight]["exp_avg"])
