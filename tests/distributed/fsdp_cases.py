"""Sharded models on every rank of a world: they train as DDP and one process do."""

import copy
import functools
import os
import signal

import pytest

import flambeau as torch
import flambeau.distributed as dist
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.distributed import checkpoint
from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
)
from flambeau.distributed.checkpoint import state_dict as checkpoint_states
from flambeau.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictType,
    fully_shard,
    register_fsdp_forward_method,
)
from flambeau.distributed.fsdp import FullyShardedDataParallel as FSDP  # noqa: N817
from flambeau.distributed.fsdp import wrap as wrapping
from flambeau.distributed.tensor import DTensor, Shard, init_device_mesh
from flambeau.distributed.tensor import parallel as tp
from flambeau.nn.parallel import DistributedDataParallel as DDP  # noqa: N817
from tests.distributed.cases import enter
from tests.distributed.dtensor_cases import PLAN, Model

BATCH = 12


def mlp():
    """Sizes that no number of processes divides."""
    parts = nn.Sequential(nn.Linear(7, 7), nn.LayerNorm(7))
    return nn.Sequential(nn.Linear(5, 7), nn.GELU(), parts, nn.Tanh(), nn.Linear(7, 3)).double()


class Convnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Conv2d(1, 3, 3), nn.GroupNorm(1, 3), nn.ReLU())
        self.pool, self.head = nn.AvgPool2d(2), nn.Linear(3, 3)
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x):
        x = F.pad(x, (0, 11)).view(-1, 1, 4, 4)
        return self.head(self.pool(self.block(x)).mean((2, 3)) * self.scale)


class Transformer(nn.Module):
    """The table of words is the last layer, too."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        options = {"dim_feedforward": 12, "dropout": 0.0, "batch_first": True}
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(8, 2, **options) for _ in range(2))
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        x = self.embed((x * 3).long().remainder(11))
        for layer in self.layers:
            x = layer(x)
        return self.head(x).mean(1)


MODELS = {
    "mlp": (mlp, {nn.Linear, nn.Sequential}),
    "convnet": (lambda: Convnet().double(), {nn.Sequential}),
    "transformer": (lambda: Transformer().double(), {nn.TransformerEncoderLayer}),
}


def batches(count=3):
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(BATCH, 5, dtype=torch.float64, generator=generator) for _ in range(count)]


def mine(x):
    rows = BATCH // dist.get_world_size()
    return x[dist.get_rank() * rows :][:rows]


def trained(model, part=lambda x: x, clip=None, make=torch.optim.AdamW, micro=1):
    """Train some steps; the losses of this process."""
    optimizer = make(model.parameters(), lr=0.01)
    found = []
    for x in batches():
        optimizer.zero_grad()
        loss = model(part(x)).square().mean()
        loss.backward()
        norm = clip(model) if clip is not None else torch.zeros(())
        optimizer.step()
        norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
        found += [loss.item(), norm.item()]
    return found, optimizer


def close(found, wanted, what):
    for name, value in wanted.items():
        own = found[name]
        own = own.full_tensor() if isinstance(own, DTensor) else own
        torch.testing.assert_close(own, value, rtol=1e-9, atol=1e-11, msg=str((what, name)))
    assert list(found) == list(wanted), what


def clip_all(model):
    return nn.utils.clip_grad_norm_(model.parameters(), 0.01)


def sharded(rank, size, path):
    """fully_shard and FullyShardedDataParallel beside DDP and one process."""
    enter(rank, size, path)
    for name, (make, kinds) in MODELS.items():
        torch.manual_seed(1)
        model = make()
        one = copy.deepcopy(model)
        trained(one, clip=clip_all)
        replica = DDP(copy.deepcopy(model))
        ours, _ = trained(replica, mine, clip_all)
        close(replica.module.state_dict(), one.state_dict(), (name, "ddp"))
        for options in ({}, {"reshard_after_forward": False}):
            two = shard_parts(copy.deepcopy(model), kinds, **options)
            assert all(isinstance(p, DTensor) for p in two.parameters())
            found, optimizer = trained(two, mine, clip_all)
            close(two.state_dict(), one.state_dict(), (name, "fully_shard", options))
            torch.testing.assert_close(found, ours, rtol=1e-9, atol=1e-11)
            assert all(
                isinstance(s["exp_avg"], DTensor) for s in optimizer.state_dict()["state"].values()
            )
        for strategy in ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"):
            for originals in (False, True):
                old = FSDP(
                    copy.deepcopy(model),
                    sharding_strategy=ShardingStrategy[strategy],
                    auto_wrap_policy=wrapping.ModuleWrapPolicy(kinds),
                    use_orig_params=originals,
                    forward_prefetch=originals,
                )
                found, _ = trained(old, mine, lambda m: m.clip_grad_norm_(0.01))
                close(old.state_dict(), one.state_dict(), (name, strategy, originals))
                torch.testing.assert_close(found, ours, rtol=1e-9, atol=1e-11)
    dist.destroy_process_group()


def shard_parts(model, kinds, **options):
    for part in reversed(list(model.modules())[1:]):  # inner ones first
        if isinstance(part, tuple(kinds)) and not isinstance(part, FSDPModule):
            fully_shard(part, **options)
    return fully_shard(model, **options)


# -- fully_shard -----------------------------------------------------------------------------------


def corners(rank, size, path):
    """Options and methods of fully_shard."""
    enter(rank, size, path)
    accumulated(size)
    dtypes()
    gathered_by_hand()
    saved_and_loaded(size)
    unusual_models(size)
    refused(size)
    dist.destroy_process_group()


def accumulated(size):
    """Gradients of two halves, added up over processes once."""
    torch.manual_seed(8)
    model = mlp()
    one = copy.deepcopy(model)
    two = shard_parts(model, {nn.Sequential})
    x, y = batches(2)
    (one(x).square().mean() + one(y).square().mean()).backward()
    two.set_requires_gradient_sync(False)
    two(mine(x)).square().mean().backward()
    assert all(p.grad is None for p in two.parameters())
    two.set_requires_gradient_sync(True)
    two(mine(y)).square().mean().backward()
    grads = {n: p.grad for n, p in two.named_parameters()}
    close(grads, {n: p.grad for n, p in one.named_parameters()}, "accumulated")
    two(mine(y)).square().mean().backward()  # without zero_grad: they add up
    one(y).square().mean().backward()
    grads = {n: p.grad for n, p in two.named_parameters()}
    close(grads, {n: p.grad for n, p in one.named_parameters()}, "added")
    two.set_gradient_divide_factor(1.0)
    two.zero_grad()
    two(mine(y)).square().mean().backward()
    one.zero_grad()
    one(y).square().mean().backward()
    found = two[4].weight.grad.full_tensor() / size
    torch.testing.assert_close(found, one[4].weight.grad)


def dtypes():
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32)
    model = fully_shard(nn.Linear(4, 5), mp_policy=policy, offload_policy=CPUOffloadPolicy())
    seen = []
    model.register_forward_hook(lambda m, args, out: seen.append((m.weight.dtype, args[0].dtype)))
    out = model(torch.ones(2, 4))
    out.sum().backward()
    assert out.dtype is torch.float32 and seen == [(torch.bfloat16, torch.bfloat16)]
    assert model.weight.dtype is model.weight.grad.dtype is torch.float32
    cut = fully_shard(nn.Linear(12, 5), shard_placement_fn=lambda p: Shard(p.dim() - 1))
    whole = cut.weight.full_tensor()
    assert cut.weight.placements == (Shard(1),)
    x = torch.ones(2, 12)
    bias = cut.bias.full_tensor()
    torch.testing.assert_close(cut(x).detach(), F.linear(x, whole, bias))
    cut(x).sum().backward()
    torch.testing.assert_close(cut.weight.grad.full_tensor(), torch.full((5, 12), 2.0))


def gathered_by_hand():
    torch.manual_seed(9)
    model = mlp()
    plain = copy.deepcopy(model)
    shard_parts(model, {nn.Sequential})
    handle = model.unshard(async_op=True)
    handle.wait()
    assert type(model[0].weight) is nn.Parameter and isinstance(model[2][0].weight, DTensor)
    model.reshard()
    assert isinstance(model[0].weight, DTensor)
    model.set_modules_to_forward_prefetch([model[2]])
    model.set_modules_to_backward_prefetch([model[2]])
    model(mine(batches()[0])).sum().backward()
    assert model[2][0].weight.grad is not None
    assert all(s.leaf.untyped_storage().nbytes() == 0 for u in model._units() for s in u.slots)
    model.set_reshard_after_backward(False)
    model(mine(batches()[0])).sum().backward()
    assert type(model[0].weight) is nn.Parameter
    close(model.state_dict(), plain.state_dict(), "state dicts reshard")
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(model(batches()[0]), plain(batches()[0]))


def saved_and_loaded(size):
    torch.manual_seed(3)
    model, other = (shard_parts(mlp(), {nn.Sequential}) for _ in range(2))
    other.load_state_dict(model.state_dict())
    close(other.state_dict(), {k: v.full_tensor() for k, v in model.state_dict().items()}, "load")
    _, optimizer = trained(model, mine)
    again = torch.optim.AdamW(other.parameters(), lr=0.01)
    again.load_state_dict(optimizer.state_dict())
    for p, q in zip(model.parameters(), other.parameters()):
        assert torch.equal(optimizer.state[p]["exp_avg"], again.state[q]["exp_avg"])


class Odd(nn.Module):
    """A method beside forward, a part that runs twice, one that is not used, a frozen one."""

    def __init__(self):
        super().__init__()
        self.twice, self.unused = nn.Linear(5, 5), nn.Linear(2, 2)
        self.frozen, self.scalar = nn.Linear(5, 3), nn.Parameter(torch.ones(1))
        self.frozen.weight.requires_grad_(False)

    def forward(self, x):
        return {"out": self.frozen(self.twice(self.twice(x).tanh())) * self.scalar}

    def other(self, x):
        return self.forward(x)["out"]


def unusual_models(size):
    torch.manual_seed(4)
    one = Odd().double()
    two = copy.deepcopy(one)
    for part in (two.twice, two.unused, two):
        fully_shard(part)
    register_fsdp_forward_method(two, "other")
    x = batches()[0]
    one(x)["out"].square().mean().backward()
    two(mine(x))["out"].square().mean().backward()
    two.other(mine(x)).square().mean().backward()
    for (name, p), q in zip(one.named_parameters(), two.parameters()):
        assert (p.grad is None) == (q.grad is None), name
        if p.grad is not None:
            torch.testing.assert_close(q.grad.full_tensor(), 2 * p.grad, msg=name)
    torch.manual_seed(6)
    checked = shard_parts(mlp(), {nn.Sequential})
    plain = mlp()
    with torch.no_grad():
        for p, q in zip(plain.parameters(), checked.parameters()):
            p.copy_(q.full_tensor())
    run = torch.utils.checkpoint.checkpoint
    run(checked, mine(x), use_reentrant=False).square().mean().backward()
    plain(x).square().mean().backward()
    for p, q in zip(plain.parameters(), checked.parameters()):
        torch.testing.assert_close(q.grad.full_tensor(), p.grad)
    with torch.device("meta"):
        empty = nn.Linear(5, 3)
    fully_shard(empty)
    empty.to_empty(device="cpu")
    assert empty.weight.to_local().device.type == "cpu" and isinstance(empty.weight, DTensor)
    nn.init.ones_(empty.weight)
    nn.init.zeros_(empty.bias)
    torch.testing.assert_close(empty(torch.ones(1, 5)).detach(), torch.full((1, 3), 5.0))


def refused(size):
    model = fully_shard(nn.Linear(2, 2))
    wrong = size + 1
    table = [
        (lambda: fully_shard(model), AssertionError, "can only be applied to a module once"),
        (lambda: fully_shard(nn.ModuleList()), ValueError, "does not support containers"),
        (lambda: fully_shard(nn.Linear(2, 2), reshard_after_forward=wrong), ValueError,
         f"it should be a factor of {size}, not {wrong}"),
        (lambda: model.set_modules_to_forward_prefetch([nn.ReLU()]), ValueError, "FSDPModule"),
        (lambda: fully_shard(nn.Linear(5, 5), shard_placement_fn=lambda p: Shard(1)),
         (NotImplementedError, AssertionError), "uneven sharding on dim 1|Shard dim 1 is invalid"),
        (lambda: FSDP(nn.Linear(2, 2), sharding_strategy=ShardingStrategy.HYBRID_SHARD,
                      process_group=dist.group.WORLD), ValueError, "Expected process_group to be"),
        (lambda: FSDP.set_state_dict_type(model, StateDictType.FULL_STATE_DICT,
                                          ShardedStateDictConfig()), RuntimeError, "Expected"),
    ]  # fmt: skip
    for function, kind, text in table:
        with pytest.raises(kind, match=text):
            function()


# -- FullyShardedDataParallel ----------------------------------------------------------------------


def wrapped(rank, size, path):
    """State dicts, states of optimizers, policies and options of FullyShardedDataParallel."""
    enter(rank, size, path)
    for originals in (False, True):
        states(originals, rank)
        whole_parameters(originals)
        held_back(originals)
    policies()
    options(rank)
    checkpoints(path)
    dist.destroy_process_group()


def wrap_mlp(originals, seed=2, **options):
    torch.manual_seed(seed)
    policy = wrapping.ModuleWrapPolicy({nn.Sequential})
    return FSDP(mlp(), auto_wrap_policy=policy, use_orig_params=originals, **options)


def states(originals, rank):
    model, other = wrap_mlp(originals), wrap_mlp(not originals, 3)
    names = list(mlp().state_dict())
    _, optimizer = trained(model, mine)
    for kind in StateDictType:
        target = wrap_mlp(originals, 4) if kind is StateDictType.LOCAL_STATE_DICT else other
        with FSDP.state_dict_type(model, kind), FSDP.state_dict_type(target, kind):
            state = model.state_dict()
            target.load_state_dict(state)
            if kind is StateDictType.SHARDED_STATE_DICT:
                assert list(state) == names
                assert all(v.placements == (Shard(0),) for v in state.values())
            elif kind is StateDictType.LOCAL_STATE_DICT:
                assert list(state) == ["_flat_param", "2._flat_param"]
        close(target.state_dict(), model.state_dict(), kind)
    first = FullStateDictConfig(rank0_only=True)
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, first):
        assert list(model.state_dict()) == ([] if rank else names)
    with pytest.raises(RuntimeError, match=r'Missing key.*"2\.0\.weight"'):
        other.load_state_dict({k: v for k, v in model.state_dict().items() if k != "2.0.weight"})
    outer, inner = nn.ModuleDict({"a": model}), nn.ModuleDict({"a": mlp()})
    inner.load_state_dict(outer.state_dict())
    outer.load_state_dict(inner.state_dict())
    optimizer_states(model, optimizer, other, names)


def optimizer_states(model, optimizer, other, names):
    """Trained further from saved states, wrapped in another way or not at all, nothing differs."""
    plain = mlp()
    plain.load_state_dict(model.state_dict())
    kinds = [StateDictType.FULL_STATE_DICT, StateDictType.SHARDED_STATE_DICT]
    saved = {}
    for kind in kinds:
        with FSDP.state_dict_type(model, kind):
            saved[kind] = FSDP.optim_state_dict(model, optimizer)
        assert sorted(saved[kind]["param_groups"][0]["params"]) == sorted(names)
        assert sorted(saved[kind]["state"]) == sorted(names)
    full = saved[kinds[0]]
    assert full["state"]["2.0.weight"]["exp_avg"].shape == (7, 7)
    alone = torch.optim.AdamW(plain.parameters(), lr=0.01)
    own = copy.deepcopy(full)  # optimizers take over the tensors that they load
    alone.load_state_dict(FSDP.rekey_optim_state_dict(own, dist.fsdp.OptimStateKeyType.PARAM_ID,
                                                      plain))  # fmt: skip
    wanted = goes_on(plain, alone)
    for state in saved.values():
        other.load_state_dict(model.state_dict())
        again = torch.optim.AdamW(other.parameters(), lr=0.5)
        again.load_state_dict(FSDP.optim_state_dict_to_load(other, again, state))
        close(goes_on(other, again, mine), wanted, "states of optimizers")
    with pytest.warns(FutureWarning, match="is being deprecated and is replaced by"):
        first = FSDP.full_optim_state_dict(model, optimizer)
    assert bool(first) == (dist.get_rank() == 0)
    with FSDP.state_dict_type(
        other, kinds[0], optim_state_dict_config=FullOptimStateDictConfig(rank0_only=True)
    ):
        again = torch.optim.AdamW(other.parameters(), lr=0.5)
        FSDP.optim_state_dict_to_load(other, again, first, load_directly=True)
        assert again.param_groups[0]["lr"] == 0.01


def goes_on(model, optimizer, part=lambda x: x):
    optimizer.zero_grad()
    model(part(batches()[1])).square().mean().backward()
    optimizer.step()
    return model.state_dict()


def whole_parameters(originals):
    model = wrap_mlp(originals)
    plain = mlp()
    shapes = [(n, p.shape) for n, p in plain.named_parameters()]
    with FSDP.summon_full_params(model):
        assert [(n, p.shape) for n, p in model.named_parameters()] == shapes
        with torch.no_grad():
            model[0].weight.fill_(1.0)
    assert bool((model.state_dict()["0.weight"] == 1).all())
    with FSDP.summon_full_params(model, writeback=False):
        model[0].weight.data.zero_()
    assert bool((model.state_dict()["0.weight"] == 1).all())
    plain.load_state_dict(model.state_dict())
    x = batches()[0]
    model(mine(x)).square().mean().backward()
    plain(x).square().mean().backward()
    with FSDP.summon_full_params(model, with_grads=True):
        for (name, p), q in zip(model.named_parameters(), plain.parameters()):
            torch.testing.assert_close(p.grad, q.grad, msg=name)
    model.apply(lambda m: nn.init.zeros_(m.weight) if isinstance(m, nn.Linear) else None)
    assert bool((model.state_dict()["2.0.weight"] == 0).all())
    names = [n for n, _ in model.named_parameters()]
    expected = "_fsdp_wrapped_module." + ("0.weight" if originals else "_flat_param")
    assert names[0] == expected
    assert len(FSDP.fsdp_modules(model)) == 2 and model.check_is_root()
    model.float()
    assert model(mine(x).float()).dtype is torch.float32


def held_back(originals):
    model = wrap_mlp(originals)
    plain = mlp()
    plain.load_state_dict(model.state_dict())
    x, y = batches(2)
    with model.no_sync():
        model(mine(x)).square().mean().backward()
    model(mine(y)).square().mean().backward()
    (plain(x).square().mean() + plain(y).square().mean()).backward()
    with FSDP.summon_full_params(model, with_grads=True):
        for p, q in zip(model.parameters(), plain.parameters()):
            torch.testing.assert_close(p.grad, q.grad)
    inner = pytest.raises(RuntimeError, match="on inner FSDP instances is not supported")
    with inner, model[2].no_sync():
        pass


def policies():
    """How many parts each policy wraps, the model itself among them."""
    by_size = functools.partial(wrapping.size_based_auto_wrap_policy, min_num_params=50)
    by_class = functools.partial(
        wrapping.transformer_auto_wrap_policy, transformer_layer_cls={nn.LayerNorm}
    )
    by_function = functools.partial(
        wrapping.lambda_auto_wrap_policy, lambda_fn=lambda m: isinstance(m, nn.Linear)
    )
    custom = wrapping.CustomPolicy(
        lambda m: (
            {"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP}
            if isinstance(m, nn.Sequential)
            else False
        )
    )
    table = [
        (wrapping.always_wrap_policy, 8),
        (by_size, 2),
        (by_class, 2),
        (by_function, 4),
        (custom, 2),
        (wrapping.ModuleWrapPolicy({nn.Linear, nn.LayerNorm}), 5),
    ]
    x = batches()[0]
    for policy, count in table:
        model = FSDP(mlp(), auto_wrap_policy=policy)
        assert len(FSDP.fsdp_modules(model)) == count, policy
        model(mine(x)).sum().backward()
    with wrapping.enable_wrap(wrapper_cls=FSDP, use_orig_params=True):
        part = wrapping.wrap(nn.Linear(2, 2))
    assert isinstance(part, FSDP) and isinstance(wrapping.wrap(part.module), nn.Linear)


def options(rank):
    torch.manual_seed(rank)
    model = FSDP(mlp(), sync_module_states=True)
    torch.manual_seed(0)
    close(model.state_dict(), mlp().state_dict(), "sync_module_states")
    plain = mlp()
    part = FSDP(plain, ignored_modules=[plain[2]])
    assert part[2][0].weight.shape == (7, 7) and list(part.state_dict()) == list(mlp().state_dict())
    precision = MixedPrecision(torch.bfloat16, torch.float32, torch.bfloat16)
    inner = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2))
    policy = wrapping.ModuleWrapPolicy({nn.Linear})
    low = FSDP(inner, mixed_precision=precision, auto_wrap_policy=policy)
    out = low(torch.randn(4, 4))
    assert out.dtype is torch.bfloat16
    out.float().sum().backward()
    assert all(p.grad.dtype is torch.float32 for p in low.parameters())
    recomputed()
    with torch.device("meta"):
        empty = nn.Linear(5, 3)
    made = FSDP(empty, param_init_fn=lambda m: m.to_empty(device="cpu", recurse=False))
    assert made(torch.ones(2, 5)).shape == (2, 3)


def recomputed():
    """Parts that run again in backward, around and inside of sharded ones; names stay."""
    torch.manual_seed(2)
    plain = mlp()
    state = copy.deepcopy(plain.state_dict())
    x = batches()[0]
    plain(x).square().mean().backward()
    for originals in (False, True):
        model = mlp()
        policy = wrapping.ModuleWrapPolicy({nn.Sequential})
        model = FSDP(model, auto_wrap_policy=policy, use_orig_params=originals)
        apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, nn.Linear))
        model.load_state_dict(state)
        close(model.state_dict(), state, "wrapped for another run")
        model(mine(x)).square().mean().backward()
        with FSDP.summon_full_params(model, with_grads=True):
            for p, q in zip(model.parameters(), plain.parameters()):
                torch.testing.assert_close(p.grad, q.grad)


def checkpoints(path):
    """What one way of sharding saves, the others load, and train on alike."""
    makers = [
        lambda: shard_parts(mlp(), {nn.Sequential}),
        lambda: wrap_mlp(False),
        lambda: wrap_mlp(True),
    ]
    for k, make in enumerate(makers):
        torch.manual_seed(2)
        source, target = make(), makers[k - 1]()
        _, before = trained(source, mine)
        after = torch.optim.AdamW(target.parameters(), lr=0.5)
        model_state, optim_state = checkpoint_states.get_state_dict(source, before)
        checkpoint.save({"m": model_state, "o": optim_state}, checkpoint_id=f"{path}{k}")
        model_state, optim_state = checkpoint_states.get_state_dict(target, after)
        state = {"m": model_state, "o": optim_state}
        checkpoint.load(state, checkpoint_id=f"{path}{k}")
        checkpoint_states.set_state_dict(
            target, after, model_state_dict=state["m"], optim_state_dict=state["o"]
        )
        first, second = goes_on(source, before, mine), goes_on(target, after, mine)
        whole = {n: v.full_tensor() if isinstance(v, DTensor) else v for n, v in first.items()}
        close(second, whole, ("checkpoint", k))


# -- more processes --------------------------------------------------------------------------------


def hybrid(rank, size, path):
    """Shards within pairs, replicas between them; and shards of a model that is spread already."""
    enter(rank, size, path)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(1)
    model = mlp()
    one = copy.deepcopy(model)
    trained(one, clip=clip_all)
    two = copy.deepcopy(model)
    for part in (two[2], two):
        fully_shard(part, mesh=mesh)
    trained(two, mine, clip_all)
    close(two.state_dict(), one.state_dict(), "fully_shard on two dimensions")
    for given in ({"device_mesh": mesh}, {"process_group": tuple(mesh.get_all_groups())[::-1]}):
        for strategy in (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2):
            old = FSDP(
                copy.deepcopy(model),
                sharding_strategy=strategy,
                auto_wrap_policy=wrapping.ModuleWrapPolicy({nn.Sequential}),
                **given,
            )
            trained(old, mine, lambda m: m.clip_grad_norm_(0.01))
            close(old.state_dict(), one.state_dict(), ("hybrid", strategy))
    spread_and_sharded(mesh)
    dist.destroy_process_group()


def spread_and_sharded(mesh):
    torch.manual_seed(7)
    plain = Model().double()
    both = copy.deepcopy(plain)
    tp.parallelize_module(both, mesh["tp"], PLAN)
    for part in (*both.layers, both):
        fully_shard(part, mesh=mesh["dp"])
    x = torch.randint(0, 11, (4, 6))
    rows = x[mesh.get_local_rank("dp") * 2 :][:2]
    pair = [(plain, x), (both, rows)]
    optimizers = [torch.optim.Adam(m.parameters(), lr=0.01) for m, _ in pair]
    for _ in range(3):
        for (model, given), optimizer in zip(pair, optimizers):
            optimizer.zero_grad()
            model(given).square().mean().backward()
            optimizer.step()
    close(both.state_dict(), plain.state_dict(), "tensor parallel and sharded")


def dies(rank, size, path):
    """Rank 1 goes while others gather: they are told."""
    enter(rank, size, path)
    model = shard_parts(mlp(), {nn.Sequential})
    model(mine(batches()[0])).sum().backward()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(dist.DistBackendError, match="rank 1 died"):
        for _ in range(3):
            model(mine(batches()[0])).sum().backward()
