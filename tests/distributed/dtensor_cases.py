"""DTensors on every rank of a world: results and gradients equal to those of plain tensors."""

import copy
import itertools
import warnings

import pytest

import flambeau as torch
import flambeau.distributed as dist
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    init_device_mesh,
)
from flambeau.distributed.tensor import parallel as tp
from flambeau.distributed.tensor.experimental import implicit_replication, local_map
from tests.distributed.cases import enter

R = Replicate()


def heads(x):
    return x.unflatten(-1, (2, 4)).transpose(1, 2)


# functions of x (5 x 6 x 8), w (7 x 8) and b (7), by which of them are cut in all ways
OPS = {
    "x": [
        lambda x, w, b: x.sum(1),
        lambda x, w, b: x.mean(),
        lambda x, w, b: x.softmax(-1),
        lambda x, w, b: x.log_softmax(0),
        lambda x, w, b: (x * 2 + 1).relu(),
        lambda x, w, b: x.transpose(0, 1).reshape(6, -1),
        lambda x, w, b: x.flatten(1),
        lambda x, w, b: x.permute(2, 0, 1) * 1.5,
        lambda x, w, b: F.layer_norm(x, (8,)),
        lambda x, w, b: x.norm(),
        lambda x, w, b: x.norm(p=1),
        lambda x, w, b: x.amax(1),
        lambda x, w, b: x.max(),
        lambda x, w, b: torch.cat([x, x], 1),
        lambda x, w, b: torch.stack([x, x], 1),
        lambda x, w, b: x.chunk(2, -1)[1],
        lambda x, w, b: heads(x),
        lambda x, w, b: x.var(0),
        lambda x, w, b: x.std(),
        lambda x, w, b: x[1],
        lambda x, w, b: x[:, 1:3],
        lambda x, w, b: x.unsqueeze(1).squeeze(1),
        lambda x, w, b: x.cumsum(1),
        lambda x, w, b: torch.where(x > 0, x, 0.0),
        lambda x, w, b: F.mse_loss(x, x * 0),
        lambda x, w, b: F.scaled_dot_product_attention(*[heads(x)] * 3, is_causal=True),
        lambda x, w, b: F.cross_entropy(x.flatten(0, 1), (x.flatten(0, 1)[:, 0] * 0).long()),
        lambda x, w, b: x @ x.transpose(1, 2),
        lambda x, w, b: x.sum() * x,
        lambda x, w, b: x / (x.abs().sum(-1, keepdim=True) + 1),
        lambda x, w, b: x.sort(1)[0],
    ],
    "xw": [
        lambda x, w, b: x @ w.t(),
        lambda x, w, b: F.gelu(F.linear(x, w, b)) @ w,
    ],
    "xwb": [lambda x, w, b: F.linear(x, w, b)],
    "xb": [lambda x, w, b: x[..., :7] + b],
    "b": [lambda x, w, b: b.expand(3, 7)],
}


def same(found, wanted, what=""):
    found = found.full_tensor() if isinstance(found, DTensor) else found
    assert found.shape == wanted.shape, (what, found.shape, wanted.shape)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-10, msg=str(what))


def dtensors(rank, size, path):
    """Everything that DTensors and the parallel styles do."""
    enter(rank, size, path)
    torch.manual_seed(3)
    mesh = init_device_mesh("cpu", (size,))
    ops(mesh, [[Shard(0)], [Shard(1)], [Shard(2)], [R]])
    embeddings(mesh)
    moves(mesh, size)
    refusals(mesh)
    values(mesh, rank, size)
    modules(mesh, size)
    randomness(mesh, rank)
    dist.destroy_process_group()


def plane(rank, size, path):
    """The same on a mesh of two dimensions."""
    enter(rank, size, path)
    torch.manual_seed(3)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    ops(mesh, [[Shard(0), Shard(1)], [Shard(0), Shard(0)], [R, Shard(0)]])
    nested(mesh)
    embeddings(mesh["tp"])
    dist.destroy_process_group()


def ops(mesh, ways):
    shapes = {"x": (5, 6, 8), "w": (7, 8), "b": (7,)}
    plain = {k: torch.randn(s, dtype=torch.float64) for k, s in shapes.items()}
    whole = [R] * mesh.ndim
    for cut, functions in OPS.items():
        fitting = {
            k: [w for w in ways if all(not p.is_shard() or p.dim < len(shapes[k]) for p in w)]
            for k in shapes
        }
        choices = [fitting[k] if k in cut else [whole] for k in "xwb"]
        for function, placed in itertools.product(functions, itertools.product(*choices)):
            mine = [t.clone().requires_grad_() for t in plain.values()]
            theirs = [distribute_tensor(t, mesh, p) for t, p in zip(mine, placed)]
            what = function.__code__.co_firstlineno, placed
            wanted, found = function(*mine), function(*theirs)
            same(found, wanted, what)
            g = torch.linspace(-1, 1, wanted.numel(), dtype=wanted.dtype).view(wanted.shape)
            (wanted * g).sum().backward()
            (
                found.redistribute(placements=whole) * distribute_tensor(g, mesh, whole)
            ).sum().backward()
            for t, u in zip(mine, theirs):
                if t.grad is not None:
                    same(u.grad, t.grad, what)


def embeddings(mesh):
    table = torch.randn(7, 5, dtype=torch.float64)
    index = torch.tensor([[0, 3, 6], [6, 1, 2]])
    for p, q in itertools.product([Shard(0), Shard(1), R], repeat=2):
        mine = table.clone().requires_grad_()
        theirs = distribute_tensor(mine, mesh, [p])
        wanted = F.embedding(index, mine, padding_idx=3)
        found = F.embedding(distribute_tensor(index, mesh, [q]), theirs, padding_idx=3)
        same(found, wanted, (p, q))
        (wanted**2).sum().backward()
        (found**2).sum().backward()
        same(theirs.grad, mine.grad, (p, q))


def moves(mesh, size):
    """Every change of placements, and gradients on the way back."""
    x = torch.arange(30, dtype=torch.float64).view(5, 6)
    for p, q in itertools.product([Shard(0), Shard(1), R], repeat=2):
        d = distribute_tensor(x.clone().requires_grad_(), mesh, [p])
        moved = d.redistribute(placements=[q])
        assert moved.placements == (q,)
        same(moved, x)
        (moved.to_local() ** 2).sum().backward()
        same(d.grad, 2 * x, (p, q))
    part = DTensor.from_local(x.clone(), mesh, [Partial()])
    for q in (R, Shard(0), Shard(-1)):
        same(part.redistribute(placements=[q]), x * size)
    same(DTensor.from_local(x.clone(), mesh, [Partial("avg")]), x)
    same(DTensor.from_local(x * (dist.get_rank() + 1), mesh, [Partial("max")]), x * size)
    local = x.clone().requires_grad_()
    DTensor.from_local(local, mesh, [R]).redistribute(placements=[Shard(0)]).sum().backward()
    same(local.grad, torch.ones_like(x))
    d = distribute_tensor(x.clone().requires_grad_(), mesh, [R])
    d.to_local(grad_placements=[Partial()]).sum().backward()
    same(d.grad, torch.full_like(x, size))
    (g,) = torch.autograd.grad((d * d).sum(), [d])
    same(g, 2 * x)


def nested(mesh):
    x = torch.arange(35, dtype=torch.float64).view(7, 5)
    kinds = [Shard(0), Shard(1), R]
    pairs = list(itertools.product(kinds, repeat=2))
    for src, dst in itertools.product(pairs, repeat=2):
        same(distribute_tensor(x, mesh, src).redistribute(placements=dst), x, (src, dst))
    for dst in pairs:
        part = DTensor.from_local(x.clone(), mesh, [Partial(), Partial()])
        same(part.redistribute(placements=dst), x * 4, dst)


REFUSALS = [
    (lambda x: x + torch.ones(5, 6), RuntimeError, "got mixed torch.Tensor and DTensor"),
    (lambda x: x.redistribute(placements=[Partial()]), RuntimeError, "for internal use only"),
    (lambda x: x.redistribute(), RuntimeError, "placements is needed"),
    (lambda x: distribute_tensor(torch.ones(2), x.device_mesh, [Shard(3)]), AssertionError,
     "Sharding dim 3 greater than tensor ndim 1"),
    (lambda x: distribute_tensor(torch.ones(2), x.device_mesh, [R, R]), ValueError,
     "must have the same length as `device_mesh.ndim`"),
    (lambda x: DTensor.from_local(torch.ones(2), x.device_mesh, [Shard(2)]), RuntimeError,
     "Sharding dim 2 greater than tensor ndim 1 for placement number 0"),
    (lambda x: x.item(), RuntimeError, "cannot be converted to Scalar"),
    (lambda x: x.tolist(), RuntimeError, "not supported for tensor subclasses"),
    (lambda x: x.numpy(), RuntimeError, "not supported for tensor subclasses"),
    (lambda x: DTensor.from_local(torch.ones(2)), RuntimeError, "No device mesh is currently"),
    (lambda x: tp.parallelize_module(nn.ReLU(), x.device_mesh, tp.ColwiseParallel()),
     NotImplementedError, "ColwiseParallel currently only support nn.Linear and nn.Embedding!"),
    (lambda x: tp.parallelize_module(nn.ReLU(), x.device_mesh, 3), TypeError,
     "Expect Union"),
    (lambda x: tp.PrepareModuleInput(input_layouts=R), AssertionError, "should not be None"),
]  # fmt: skip


def refusals(mesh):
    x = distribute_tensor(torch.zeros(5, 6), mesh, [Shard(0)])
    for function, kind, text in REFUSALS:
        with pytest.raises(kind, match=text):
            function(x)
    with pytest.warns(UserWarning, match="No parallelize_plan"):
        tp.parallelize_module(nn.ReLU(), mesh)
    with pytest.warns(UserWarning, match="Parallelize plan key '7' could not be resolved"):
        tp.parallelize_module(nn.Sequential(nn.ReLU()), mesh, {"7": tp.ColwiseParallel()})


def values(mesh, rank, size):
    """What a DTensor is, and what may be done with it in place."""
    x = distribute_tensor(torch.arange(10.0).view(5, 2), mesh, [Shard(0)])
    assert x.shape == (5, 2) and x.stride() == (2, 1) and x.is_leaf and not x.requires_grad
    if rank == 0 and size == 2:
        assert repr(x) == (
            "DTensor(local_tensor=tensor([[0., 1.],\n        [2., 3.],\n        [4., 5.]]), "
            "device_mesh=DeviceMesh((2,), 'cpu', stride=(1,)), placements=(Shard(dim=0),))"
        )
    x.add_(1).mul_(x)
    same(x, (torch.arange(10.0).view(5, 2) + 1) ** 2)
    x.zero_()
    assert bool((x == 0).all()) and x.sum().item() == 0 and torch.equal(x, x)
    with implicit_replication():
        same(x + torch.ones(5, 2), torch.ones(5, 2))
    even = distribute_tensor(torch.ones(2 * size, 2), mesh, [Shard(0)])
    same(local_map(lambda t: t * 2, [Shard(0)])(even), torch.full((2 * size, 2), 2.0))
    p = nn.Parameter(x)
    assert isinstance(p, nn.Parameter) and isinstance(p, DTensor) and p.requires_grad
    q = copy.deepcopy(p)
    assert isinstance(q, nn.Parameter) and q.placements == p.placements
    whole = dist.tensor.zeros(3, 4, device_mesh=mesh, placements=[Shard(1)])
    same(whole, torch.zeros(3, 4))


class Block(nn.Module):
    """Attention over cut heads and a feed-forward layer, as tensor parallel models write them."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(8, 12) for _ in range(4))
        self.wo = nn.Linear(12, 8)
        self.up, self.down = nn.Linear(8, 12), nn.Linear(12, 8)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = (f(h).unflatten(-1, (-1, 2)).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.wo(a)
        return x + self.down(F.gelu(self.up(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(8, 12)

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


PLAN = {
    "embed": tp.RowwiseParallel(input_layouts=R),
    **{f"layers.*.{k}": tp.ColwiseParallel() for k in ("wq", "wk", "wv", "up")},
    **{f"layers.*.{k}": tp.RowwiseParallel() for k in ("wo", "down")},
}


def modules(mesh, size):
    """A model spread by a plan trains as the plain one does; so does one that is replicated."""
    torch.manual_seed(7)
    plain = Model().double()
    x, y = torch.randint(0, 11, (4, 6)), torch.randint(0, 12, (24,))
    wanted = steps(plain, lambda m: F.cross_entropy(m(x).flatten(0, 1), y))
    torch.manual_seed(7)
    cut = Model().double()
    tp.parallelize_module(cut, mesh, PLAN | {"head": tp.ColwiseParallel(use_local_output=False)})

    def loss(model):
        return F.cross_entropy(model(x).flatten(0, 1), y)

    with tp.loss_parallel():
        found = steps(cut, loss)
    same(found, wanted)
    for name, p in cut.state_dict().items():
        same(p, plain.state_dict()[name], name)
    assert cut.layers[0].wq.weight.placements == (Shard(0),)
    assert cut.layers[1].wo.weight.placements == (Shard(1),)
    sequences(mesh)
    spread = distribute_module(copy.deepcopy(plain), mesh)
    assert isinstance(spread.head.weight, DTensor)
    rows = distribute_tensor(x, mesh, [Shard(0)])
    same(spread(rows), plain(x).detach())
    with pytest.raises(RuntimeError, match="should only be called once"):
        distribute_module(spread, mesh)


def steps(model, loss):
    """Losses of some steps, with gradients clipped."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    found = []
    for _ in range(3):
        optimizer.zero_grad()
        value = loss(model)
        value.backward()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
        value = value.full_tensor() if isinstance(value, DTensor) else value
        found += [value.detach(), norm]
    return torch.stack(found)


def sequences(mesh):
    """Sequences that are cut between layers, gathered before and scattered after products."""
    torch.manual_seed(1)
    plain = Block().double()
    cut = copy.deepcopy(plain)
    plan = {
        "norm": tp.SequenceParallel(),
        **{k: tp.ColwiseParallel(input_layouts=Shard(1)) for k in ("wq", "wk", "wv", "up")},
        **{
            k: tp.RowwiseParallel(output_layouts=Shard(1), use_local_output=False)
            for k in ("wo", "down")
        },
    }
    tp.parallelize_module(cut, mesh, plan)
    tp.parallelize_module(
        cut, mesh, tp.PrepareModuleInput(input_layouts=R, desired_input_layouts=Shard(1))
    )
    tp.parallelize_module(
        cut, mesh, tp.PrepareModuleOutput(output_layouts=Shard(1), desired_output_layouts=R)
    )
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    wanted, found = plain(mine), cut(theirs)
    same(found, wanted)
    (wanted**2).sum().backward()
    (found**2).sum().backward()
    same(theirs.grad, mine.grad)
    for (name, p), q in zip(plain.named_parameters(), cut.parameters()):
        same(q.grad, p.grad, name)


def randomness(mesh, rank):
    """What all have is drawn alike; parts are drawn differently."""
    torch.manual_seed(rank)
    x = distribute_tensor(torch.ones(64, 4), mesh, [R])
    kept = F.dropout(x).to_local()
    other = kept.clone()
    dist.broadcast(other, 0)
    assert torch.equal(kept, other)
    drawn = dist.tensor.rand(8, 4, device_mesh=mesh, placements=[Shard(0)]).full_tensor()
    assert len(set(drawn.flatten().tolist())) == 32
