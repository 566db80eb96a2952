"""What processes of the tests of training do; each function runs on every rank of a world."""

import copy
import os

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.nn.parallel import DistributedDataParallel as DDP  # noqa: N817
from tests.distributed.cases import enter


def convnet(norm):
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4) if norm else nn.Identity(),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 36, 3),
    )


class Tied(nn.Module):
    """A transformer layer whose output weights are its embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.out = nn.Linear(8, 11, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, x):
        return self.out(self.layer(self.embedding(x))).mean(1)


def trains_as_one(rank, size, path):
    """DDP equals one process with the whole batch."""
    enter(rank, size, path)
    torch.manual_seed(0)
    images = torch.randn(4 * size, 1, 8, 8, dtype=torch.float64)
    words = torch.randint(0, 11, (4 * size, 5))
    for make, inputs in (
        (lambda: convnet(False), images),
        (lambda: convnet(True), images),
        (Tied, words),
    ):
        for options in (
            {"bucket_cap_mb": 0.0005},
            {"find_unused_parameters": True},
            {"static_graph": True},
            {"gradient_as_bucket_view": True},
        ):
            compare(make().double(), inputs, rank, options)
    dist.destroy_process_group()


def compare(alone, inputs, rank, options):
    size = dist.get_world_size()
    target = torch.randint(0, 3, (len(inputs),), generator=torch.Generator().manual_seed(3))
    together = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(alone))
    if rank:
        with torch.no_grad():
            for p in together.parameters():
                p.add_(1)  # process 0's count
    together = DDP(together, **options)
    share = slice(rank * len(inputs) // size, (rank + 1) * len(inputs) // size)
    losses = []
    for model, part in ((alone, slice(None)), (together, share)):
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs[part]), target[part])
            loss.backward()
            optimizer.step()
        dist.all_reduce(loss.detach(), op=dist.ReduceOp.AVG)
        losses.append(loss.item())
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-10, atol=1e-12)
    for (name, a), b in zip(alone.state_dict().items(), together.module.state_dict().values()):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11, msg=f"{name} {options}")


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x, second=False):
        return self.b(x) if second else self.a(x)


def ddp_corners(rank, size, path):
    """no_sync, unused parameters, join, hooks, errors."""
    enter(rank, size, path)
    mean = sum(range(1, size + 1)) / size
    x = torch.ones(1, 2) * (rank + 1)
    model = DDP(Branch())
    model(x).sum().backward()
    try:
        model(x)
        raise AssertionError("no error for unused parameters")
    except RuntimeError as error:
        assert str(error).startswith("Expected to have finished reduction in the prior iteration")
        assert f"did not receive grad for rank {rank}: 2 3" in str(error)
    model = DDP(Branch(), find_unused_parameters=True)
    model(x).sum().backward()
    assert model.module.b.weight.grad is None
    assert model.module.a.weight.grad[0, 0].item() == mean
    model(x, second=rank == 0).sum().backward()  # used by some: everybody gets the average
    assert model.module.b.weight.grad[0, 0].item() == 1 / size
    model = DDP(nn.Linear(2, 1))
    with model.no_sync():
        model(x).sum().backward()
    assert model.module.weight.grad[0, 0].item() == rank + 1
    model(x).sum().backward()
    assert model.module.weight.grad[0, 0].item() == 2 * mean
    hooks(rank, size, mean)
    for by_initial in (True, False):
        model = DDP(nn.Linear(2, 1))
        with model.join(divide_by_initial_world_size=by_initial):
            for _ in range(2 + rank):
                model.zero_grad()
                model(torch.ones(1, 2)).sum().backward()
        if rank == size - 1:
            assert model.module.weight.grad[0, 0].item() == (1 / size if by_initial else 1)
    wrong = nn.Linear(2, 1 if rank == 0 else 2)
    try:
        DDP(wrong)
        raise AssertionError("no error for other shapes")
    except RuntimeError as error:
        assert "appears not to match sizes of the same param in process" in str(error)
    dist.barrier()


class Backwards(nn.Module):
    """Uses its layers in the reverse of the order in which they were made."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, x):
        for layer in reversed(self.layers):
            x = layer(x).tanh()
        return x


def rebuilds(rank, size, path):
    """After the first step buckets follow the order in which gradients come; values stay."""
    enter(rank, size, path)
    for options in ({}, {"gradient_as_bucket_view": True}, {"static_graph": True}):
        torch.manual_seed(0)
        alone = Backwards().double()
        model = DDP(copy.deepcopy(alone), bucket_cap_mb=1e-4, **options)
        before = [bucket.places for bucket in model.reducer.buckets]
        assert before[0][0] == 7
        x = torch.randn(2 * size, 4, dtype=torch.float64)
        for _ in range(3):
            for one, part in ((alone, x), (model, x[2 * rank : 2 * rank + 2])):
                one.zero_grad()
                one(part).square().mean().backward()
        places = [place for bucket in model.reducer.buckets for place in bucket.places]
        assert sorted(places[:2]) == [0, 1] and sorted(places[-2:]) == [6, 7], places
        for p, q in zip(alone.parameters(), model.parameters()):
            torch.testing.assert_close(p.grad, q.grad)
    model = DDP(Backwards())
    with model.join():  # whoever has run out of inputs takes part in the rebuilding
        for _ in range(1 + 2 * rank):
            model(torch.ones(1, 4)).sum().backward()
    dist.destroy_process_group()


def detailed(rank, size, path):
    """Under DETAIL everything still works, and what was not used is named."""
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    enter(rank, size, path)
    dist.set_debug_level_from_env()
    assert dist.get_debug_level() is dist.DebugLevel.DETAIL
    model = DDP(Branch())
    model(torch.ones(1, 2)).sum().backward()
    try:
        model(torch.ones(1, 2))
        raise AssertionError("no error for unused parameters")
    except RuntimeError as error:
        expected = f"Parameters which did not receive grad for rank {rank}: b.weight, b.bias"
        assert expected in str(error), error
    t = torch.ones(3)
    dist.all_reduce(t)
    dist.broadcast(t, 0)
    dist.all_gather([torch.empty(3) for _ in range(size)], t)
    dist.barrier()
    try:
        dist.all_reduce(t) if rank else dist.broadcast(t, 0)
        raise AssertionError("nothing was noticed")
    except RuntimeError as error:
        assert "OpType=ALL_REDUCE" in str(error) and "OpType=BROADCAST" in str(error)


def overlaps(rank, size, path):
    """The profiler shows reductions beside backward: the first begins before the last node ends."""
    from flambeau.profiler import profile

    enter(rank, size, path)
    layers = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.ReLU())]
    model = DDP(nn.Sequential(*layers), bucket_cap_mb=0.25)
    x = torch.randn(64, 256)
    model(x).sum().backward()
    with profile() as watched:
        model(x).sum().backward()
    dist.all_reduce(torch.ones(1))
    nodes = [e for e in watched.events() if "evaluate_function" in e.name]
    sent = [e for e in watched.events() if e.name == "gloo:all_reduce"]
    assert len(sent) == len(model.reducer.buckets) > 3
    assert min(e.time_range.start for e in sent) < max(e.time_range.end for e in nodes)
    assert {e.thread for e in sent}.isdisjoint(e.thread for e in nodes)
    assert sum(row.count for row in watched.key_averages() if row.key == "gloo:all_reduce") > 3
    dist.destroy_process_group()


def hooks(rank, size, mean):
    from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    for hook, state in (
        (default_hooks.allreduce_hook, None),
        (default_hooks.fp16_compress_hook, None),
        (default_hooks.bf16_compress_hook, None),
        (default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), None),
        (powerSGD_hook.powerSGD_hook, powerSGD_hook.PowerSGDState(None, 2, 2)),
    ):
        model = DDP(nn.Linear(32, 16))
        model.register_comm_hook(state, hook)
        for _ in range(4):
            model.zero_grad()
            model(torch.ones(1, 32) * (rank + 1)).sum().backward()
            assert abs(model.module.weight.grad[0, 0].item() - mean) < 2e-2


# -- beyond DDP ------------------------------------------------------------------------------------


def zero_steps_as_one(rank, size, path):
    """ZeroRedundancyOptimizer equals the optimizer itself, and so do its states."""
    from flambeau.distributed.optim import ZeroRedundancyOptimizer

    enter(rank, size, path)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    plain = copy.deepcopy(model)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.05)
    reference = torch.optim.AdamW(plain.parameters(), lr=0.05)
    x = torch.randn(8, 3, dtype=torch.float64)
    for _ in range(3):
        for one, opt in ((model, optimizer), (plain, reference)):
            opt.zero_grad()
            one(x).square().mean().backward()
            opt.step()
    for a, b in zip(model.parameters(), plain.parameters()):
        assert torch.equal(a, b)
    optimizer.consolidate_state_dict(0)
    if rank == 0:
        saved, expected = optimizer.state_dict(), reference.state_dict()
        assert saved["state"].keys() == expected["state"].keys()
        for key, state in expected["state"].items():
            assert torch.equal(saved["state"][key]["exp_avg"], state["exp_avg"])
    optimizer.load_state_dict(reference.state_dict())
    assert sum(len(s) > 0 for s in optimizer.optim.state.values()) < 4
    dist.destroy_process_group()


def collectives_with_gradients(rank, size, path):
    from flambeau.distributed.nn import functional as F

    enter(rank, size, path)
    x = torch.full((2,), float(rank + 1), requires_grad=True)
    total = sum(range(1, size + 1))

    def gradient(out):
        return torch.autograd.grad(out, x)[0].tolist()

    assert gradient((F.all_reduce(x) * (rank + 1)).sum()) == [total] * 2
    assert gradient((F.broadcast(x, 0) * (rank + 1)).sum()) == [total * (rank == 0)] * 2
    assert (
        gradient(sum((k + 1) * t.sum() for k, t in enumerate(F.all_gather(x))))
        == [size * (rank + 1)] * 2
    )
    out = F.reduce_scatter(torch.empty(2), [x * (k + 1) for k in range(size)])
    assert out.tolist() == [total * (rank + 1)] * 2 and gradient(out.sum()) == [total] * 2
    outs = F.all_to_all([torch.empty(2)] * size, [x * (k + 1) for k in range(size)])
    assert [t[0].item() for t in outs] == [(k + 1) * (rank + 1) for k in range(size)]
    assert gradient(sum(t.sum() for t in outs)) == [total] * 2
    dist.destroy_process_group()


def functional_collectives(rank, size, path):
    from flambeau.distributed import _functional_collectives as F

    enter(rank, size, path)
    made = dist.init_device_mesh("cpu", (size,))
    x = torch.arange(2.0 * size) + rank
    ranks = sum(range(size))
    for group in (dist.group.WORLD, made, (made, 0)):
        assert torch.equal(F.all_reduce(x, "sum", group), torch.arange(2.0 * size) * size + ranks)
    assert torch.equal(F.all_reduce(x, "avg", made), torch.arange(2.0 * size) + ranks / size)
    assert F.all_reduce(x, "max", made)[0] == size - 1 and x[0] == rank
    assert F.all_gather_tensor(x[:2].view(1, 2), 1, made).shape == (1, 2 * size)
    part = F.reduce_scatter_tensor(x, "sum", 0, made)
    assert part.tolist() == [size * (2 * rank + k) + ranks for k in range(2)]
    assert F.broadcast(x, 0, made)[0] == 0
    swapped = F.all_to_all_single(x, None, None, made)
    assert swapped.tolist() == [2 * rank + k + other for other in range(size) for k in range(2)]
    around = F.permute_tensor(x[:1], [(r + 1) % size for r in range(size)], made)
    assert around.tolist() == [(rank - 1) % size]
    y = x.clone().requires_grad_()
    F.wait_tensor(F.all_to_all_single_autograd(y, None, None, made)).sum().backward()
    assert y.grad.tolist() == [1] * 2 * size
    dist.destroy_process_group()


def mesh(rank, size, path):
    enter(rank, size, path)
    made = dist.init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("dp", "tp"))
    assert made.get_coordinate() == [rank // 2, rank % 2] and made["tp"].size() == 2
    t = torch.tensor([float(rank)])
    dist.all_reduce(t, group=made.get_group("tp"))
    assert t.item() == 2 * (rank - rank % 2) + 1
    assert made.get_local_rank("tp") == rank % 2 and made["dp"].mesh.numel() == size // 2
    assert str(made) == f"DeviceMesh((dp={size // 2}, tp=2), 'cpu', stride=(2, 1))"
    dist.destroy_process_group()
