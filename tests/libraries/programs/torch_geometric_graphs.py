"""Graph networks of torch-geometric: layers, batches, loaders, training; no compiled extensions."""

import torch
import torch_geometric as pyg
import torch_geometric.nn as gnn
from showing import gradients, show
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader
from torch_geometric.utils import (
    add_self_loops,
    coalesce,
    degree,
    dense_to_sparse,
    remove_self_loops,
    scatter,
    softmax,
    subgraph,
    to_dense_adj,
    to_dense_batch,
    to_undirected,
)

torch.manual_seed(0)
edges = torch.randint(0, 12, (2, 40))
edges = to_undirected(coalesce(remove_self_loops(edges)[0]))
x = torch.randn(12, 6)
show("edges", edges.tolist(), degree(edges[0]).tolist())
LAYERS = {
    "GCN": lambda: gnn.GCNConv(6, 4),
    "GAT": lambda: gnn.GATConv(6, 4, heads=2),
    "GATv2": lambda: gnn.GATv2Conv(6, 4),
    "SAGE": lambda: gnn.SAGEConv(6, 4),
    "GIN": lambda: gnn.GINConv(torch.nn.Linear(6, 4)),
    "Cheb": lambda: gnn.ChebConv(6, 4, K=3),
    "Transformer": lambda: gnn.TransformerConv(6, 4),
    "TAG": lambda: gnn.TAGConv(6, 4),
    "Graph": lambda: gnn.GraphConv(6, 4),
    "ARMA": lambda: gnn.ARMAConv(6, 4),
    "SG": lambda: gnn.SGConv(6, 4, K=2),
    "Gated": lambda: gnn.GatedGraphConv(6, 2),
    "Edge": lambda: gnn.EdgeConv(torch.nn.Linear(12, 4)),
    "PNA": lambda: gnn.PNAConv(
        6,
        4,
        ["mean", "max", "std"],
        ["identity", "amplification"],
        degree(edges[1]).long().bincount(),
    ),
    "ResGated": lambda: gnn.ResGatedGraphConv(6, 4),
    "LEConv": lambda: gnn.LEConv(6, 4),
    "APPNP": lambda: gnn.APPNP(3, 0.1),
}
for name, make in LAYERS.items():
    torch.manual_seed(1)
    layer = make()
    out = layer(x, edges)
    if list(layer.parameters()):
        out.square().mean().backward()
    show(name, out, gradients(layer) if list(layer.parameters()) else 0)
show("weighted", gnn.GCNConv(6, 3)(x, edges, torch.rand(edges.shape[1])))
show(
    "scatter",
    *(
        scatter(x, torch.arange(12) % 5, reduce=kind)
        for kind in ("sum", "mean", "max", "min", "mul")
    ),
)
show("softmax", softmax(torch.randn(edges.shape[1]), edges[1]), to_dense_adj(edges))
graphs = [
    Data(x=torch.randn(n, 6), edge_index=torch.randint(0, n, (2, 3 * n)), y=torch.tensor([n % 2]))
    for n in (4, 5, 6, 7, 3, 8)
]
batch = Batch.from_data_list(graphs[:3])
show(
    "batch",
    batch.batch.tolist(),
    batch.ptr.tolist(),
    to_dense_batch(batch.x, batch.batch),
    batch[1].x,
)
for pool in (gnn.global_mean_pool, gnn.global_max_pool, gnn.global_add_pool):
    show(pool.__name__, pool(batch.x, batch.batch))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.pool = (
            gnn.GCNConv(6, 8),
            gnn.BatchNorm(8),
            gnn.TopKPooling(8, 0.7),
        )
        self.attention, self.out = gnn.GATConv(8, 8), torch.nn.Linear(8, 2)

    def forward(self, data):
        h = self.norm(self.conv(data.x, data.edge_index)).relu()
        h, e, _, b, _, _ = self.pool(h, data.edge_index, None, data.batch)
        return self.out(gnn.global_mean_pool(self.attention(h, e).relu(), b))


torch.manual_seed(2)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), 0.01)
for _ in range(2):
    for data in DataLoader(graphs, batch_size=3, shuffle=True):
        loss = torch.nn.functional.cross_entropy(net(data), data.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    show("epoch", loss, gradients(net))
hetero = HeteroData()
hetero["user"].x, hetero["item"].x = torch.randn(4, 3), torch.randn(5, 2)
hetero["user", "buys", "item"].edge_index = torch.tensor([[0, 1, 2, 3], [0, 2, 4, 4]])
hetero["item", "rev_buys", "user"].edge_index = torch.tensor([[0, 2, 4, 4], [0, 1, 2, 3]])
conv = gnn.HeteroConv({k: gnn.SAGEConv((-1, -1), 4) for k in hetero.edge_types})
out = conv(hetero.x_dict, hetero.edge_index_dict)
show("hetero", out["user"], out["item"])
model = gnn.GraphSAGE(6, 8, 2, out_channels=3)
show("model", model(x, edges), pyg.nn.summary(model, x, edges).count("\n"))
show(
    "norms", gnn.GraphNorm(6)(x), gnn.PairNorm()(x), gnn.LayerNorm(6)(x), gnn.DiffGroupNorm(6, 2)(x)
)
show("dense", gnn.dense_diff_pool(x[None], to_dense_adj(edges), torch.randn(1, 12, 3))[0])
show(
    "aggr",
    gnn.SoftmaxAggregation(learn=True)(x, torch.arange(12) // 4),
    gnn.Set2Set(6, 2)(x, torch.arange(12) // 4),
    gnn.MultiAggregation(["mean", "std", "median"])(x, torch.arange(12) // 4),
)
show(
    "subgraph",
    subgraph([0, 1, 2, 3], edges)[0].tolist(),
    dense_to_sparse(torch.eye(3))[0].tolist(),
    add_self_loops(edges)[0].shape,
)
transform = pyg.transforms.Compose(
    [pyg.transforms.NormalizeFeatures(), pyg.transforms.AddSelfLoops()]
)
show("transformed", transform(Data(x=x.abs(), edge_index=edges)).x)
