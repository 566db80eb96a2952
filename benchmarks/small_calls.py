"""Microseconds per call of what programs call most, on inputs that hold next to nothing.

Usage: python benchmarks/small_calls.py [--threads 1] [--only PATTERN] [--seconds 1] [--shared]

`overhead.py` asks how cheap the one path is that all pointwise ops share; the table here goes
through the others: making tensors, reading them, views, indexing, joining, reductions, losses,
layers, modules, optimizers and modes.
"""

from timing import Case, main

VECTOR = "x = torch.randn(16)"
MATRIX = "x = torch.randn(4, 8)"
CUBE = "x = torch.randn(2, 3, 4)"
LOGITS = """
F = torch.nn.functional
x = torch.randn(8, 10)
y = torch.randint(0, 10, (8,))
"""
MODEL = """
nn, F = torch.nn, torch.nn.functional
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
x = torch.randn(5, 8)
y = torch.randint(0, 4, (5,))
def step():
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    return loss
"""

MAKING = [
    Case("torch.empty(4, 4)", "torch.empty(4, 4)"),
    Case("torch.zeros(4, 4)", "torch.zeros(4, 4)"),
    Case("torch.ones(3)", "torch.ones(3)"),
    Case("torch.zeros(4, dtype=torch.int64)", "torch.zeros(4, dtype=torch.int64)"),
    Case("torch.full((4, 4), 2.0)", "torch.full((4, 4), 2.0)"),
    Case("torch.arange(10)", "torch.arange(10)"),
    Case("torch.linspace(0, 1, 10)", "torch.linspace(0, 1, 10)"),
    Case("torch.eye(4)", "torch.eye(4)"),
    Case("torch.rand(4, 4)", "torch.rand(4, 4)"),
    Case("torch.randn(4, 4)", "torch.randn(4, 4)"),
    Case("torch.randint(0, 10, (4,))", "torch.randint(0, 10, (4,))"),
    Case("torch.randperm(10)", "torch.randperm(10)"),
    Case("torch.zeros_like(x)", "torch.zeros_like(x)", VECTOR),
    Case("torch.randn_like(x)", "torch.randn_like(x)", VECTOR),
    Case("torch.tensor(3.0)", "torch.tensor(3.0)"),
    Case("torch.tensor([1, 2, 3])", "torch.tensor([1, 2, 3])"),
    Case("torch.tensor of 2 x 2 floats", "torch.tensor([[1.0, 2.0], [3.0, 4.0]])"),
    Case("torch.from_numpy(a)", "torch.from_numpy(a)", "import numpy\na = numpy.zeros(4)"),
    Case("torch.as_tensor(a)", "torch.as_tensor(a)", "import numpy\na = numpy.zeros(4)"),
    Case("Generator().manual_seed(3)", "torch.Generator().manual_seed(3)"),
    Case("a seeded generator, first draw", "torch.randperm(10, generator=g.manual_seed(3))",
         "g = torch.Generator()"),
    Case("torch.manual_seed(3)", "torch.manual_seed(3)"),
]  # fmt: skip
READING = [
    Case("x.item(), float32", "x.item()", "x = torch.tensor(1.5)"),
    Case("x.item(), int64", "x.item()", "x = torch.tensor(3)"),
    Case("x.item(), bool", "x.item()", "x = torch.tensor(True)"),
    Case("float(x)", "float(x)", "x = torch.tensor(1.5)"),
    Case("x.tolist(), 16 floats", "x.tolist()", VECTOR),
    Case("x.numpy()", "x.numpy()", VECTOR),
    Case("len(x), x.size(0), x.shape", "len(x), x.size(0), x.shape", MATRIX),
]
VIEWS = [
    Case("x.clone()", "x.clone()", VECTOR),
    Case("x.detach()", "x.detach()", VECTOR),
    Case("x.to(torch.float64)", "x.to(torch.float64)", VECTOR),
    Case("x.to(torch.float32), the same", "x.to(torch.float32)", VECTOR),
    Case('x.to("cpu")', 'x.to("cpu")', VECTOR),
    Case("x.float() of int64", "x.float()", "x = torch.arange(16)"),
    Case("x.long()", "x.long()", VECTOR),
    Case("x.view(-1, 4)", "x.view(-1, 4)", MATRIX),
    Case("x.reshape(8, 4)", "x.reshape(8, 4)", MATRIX),
    Case("x.permute(2, 0, 1)", "x.permute(2, 0, 1)", CUBE),
    Case("x.transpose(0, 1)", "x.transpose(0, 1)", MATRIX),
    Case("x.transpose(0, 1).contiguous()", "x.transpose(0, 1).contiguous()", MATRIX),
    Case("x.unsqueeze(0)", "x.unsqueeze(0)", VECTOR),
    Case("x.squeeze(0)", "x.squeeze(0)", "x = torch.randn(1, 4)"),
    Case("x.expand(4, 16)", "x.expand(4, 16)", VECTOR),
    Case("x.flatten(1)", "x.flatten(1)", CUBE),
    Case("x.repeat(2, 2)", "x.repeat(2, 2)", MATRIX),
    Case("x[i]", "x[1]", MATRIX),
    Case("x[:, 1:3]", "x[:, 1:3]", MATRIX),
    Case("x[mask]", "x[m]", MATRIX + "\nm = x > 0"),
    Case("x[index]", "x[i]", MATRIX + "\ni = torch.tensor([1, 3, 0])"),
    Case("x[rows, columns]", "x[i, j]", MATRIX + "\ni = torch.arange(4)\nj = i + 2"),
    Case("x[1] = 0.0", "x[1] = 0.0", MATRIX),
    Case("x[mask] = 0.0", "x[m] = 0.0", MATRIX + "\nm = x > 0"),
    Case("torch.cat([x, y])", "torch.cat([x, y])", MATRIX + "\ny = torch.randn(2, 8)"),
    Case("torch.stack([x, x, x])", "torch.stack([x, x, x])", VECTOR),
    Case("x.split(2)", "x.split(2)", MATRIX),
    Case("x.chunk(2, dim=1)", "x.chunk(2, dim=1)", MATRIX),
    Case("x.unbind(0)", "x.unbind(0)", MATRIX),
    Case("pad_sequence", "pad_sequence(x, batch_first=True)",
         "pad_sequence = torch.nn.utils.rnn.pad_sequence\n"
         "x = [torch.randn(n) for n in (3, 5, 2)]"),
]  # fmt: skip
OPS = [
    Case("x.masked_fill(m, 0.0)", "x.masked_fill(m, 0.0)", MATRIX + "\nm = x > 0"),
    Case("torch.where(m, x, y)", "torch.where(m, x, y)", MATRIX + "\nm = x > 0\ny = x * 2"),
    Case("x.gather(1, i)", "x.gather(1, i)", MATRIX + "\ni = torch.zeros(4, 1, dtype=torch.long)"),
    Case("F.one_hot(y, 10)", "F.one_hot(y, 10)", LOGITS),
    Case("x.argmax(1)", "x.argmax(1)", LOGITS),
    Case("x.max(1)", "x.max(1)", LOGITS),
    Case("x.topk(3)", "x.topk(3)", LOGITS),
    Case("x.sort()", "x.sort()", LOGITS),
    Case("x.cumsum(0)", "x.cumsum(0)", LOGITS),
    Case("x.norm()", "x.norm()", VECTOR),
    Case("x.mean(), x.sum(1), x.std()", "x.mean(), x.sum(1), x.std()", MATRIX),
    Case("(x.argmax(1) == y).sum().item()", "(x.argmax(1) == y).sum().item()", LOGITS),
    Case('einsum("ij,jk->ik")', 'torch.einsum("ij,jk->ik", x, w)', MATRIX + "\nw = x.t().clone()"),
    Case("x @ w", "x @ w", MATRIX + "\nw = x.t().clone()"),
    Case("torch.allclose(x, x)", "torch.allclose(x, x)", MATRIX),
    Case("torch.multinomial(p, 1)", "torch.multinomial(p, 1)", LOGITS + "p = x.softmax(1)"),
    Case("F.softmax(x, dim=-1)", "F.softmax(x, dim=-1)", LOGITS),
    Case("F.cross_entropy(x, y)", "F.cross_entropy(x, y)", LOGITS),
    Case("F.multi_margin_loss(x, y)", "F.multi_margin_loss(x, y)", LOGITS),
    Case("F.mse_loss(x, y)", "F.mse_loss(x, x)", LOGITS),
    Case("F.dropout(x, 0.1)", "F.dropout(x, 0.1)", LOGITS),
    Case("F.pad(x, (1, 1))", "F.pad(x, (1, 1))", LOGITS),
]
MODULES = [
    Case("nn.Linear(8, 4)", "m(x)", MATRIX + "\nm = torch.nn.Linear(8, 4)"),
    Case("nn.Linear, no grad", "with torch.no_grad():\n    m(x)",
         MATRIX + "\nm = torch.nn.Linear(8, 4)"),
    Case("nn.Conv2d(3, 4, 3)", "m(x)",
         "x = torch.randn(1, 3, 6, 6)\nm = torch.nn.Conv2d(3, 4, 3)"),
    Case("nn.LSTM(4, 6), 3 steps", "m(x)[0]", "x = torch.randn(3, 2, 4)\nm = torch.nn.LSTM(4, 6)"),
    Case("nn.GroupNorm(2, 4)", "m(x)", "x = torch.randn(2, 4, 5)\nm = torch.nn.GroupNorm(2, 4)"),
    Case("nn.LayerNorm(8)", "m(x)", MATRIX + "\nm = torch.nn.LayerNorm(8)"),
    Case("nn.BatchNorm1d(8)", "m(x)", MATRIX + "\nm = torch.nn.BatchNorm1d(8)"),
    Case("nn.Embedding(10, 4)", "m(x)", "x = torch.arange(5)\nm = torch.nn.Embedding(10, 4)"),
    Case("nn.Identity()", "m(x)", MATRIX + "\nm = torch.nn.Identity()"),
    Case("model(x), two layers", "model(x)", MODEL),
    Case("forward, loss, backward", "step()", MODEL),
    Case("zero_grad, step(), SGD", "step()\nopt.step()\nopt.zero_grad()",
         MODEL + "opt = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)"),
    Case("zero_grad, step(), Adam", "step()\nopt.step()\nopt.zero_grad()",
         MODEL + "opt = torch.optim.Adam(model.parameters(), lr=1e-3)"),
    Case("opt.zero_grad() alone", "opt.zero_grad()",
         MODEL + "opt = torch.optim.SGD(model.parameters(), lr=1e-3)"),
    Case("clip_grad_norm_", "clip(p, 1.0)",
         MODEL + "step()\nclip = nn.utils.clip_grad_norm_\np = list(model.parameters())"),
    Case("list(m.named_parameters())", "list(model.named_parameters())", MODEL),
    Case("list(m.parameters())", "list(model.parameters())", MODEL),
    Case("m.train(), m.eval()", "model.train(); model.eval()", MODEL),
    Case("m.state_dict()", "model.state_dict()", MODEL),
    Case("m.load_state_dict(s)", "model.load_state_dict(s)", MODEL + "s = model.state_dict()"),
    Case("copy.deepcopy(m)", "copy.deepcopy(model)", MODEL + "import copy"),
    Case("nn.Linear(8, 16), made", "nn.Linear(8, 16)", MODEL),
]  # fmt: skip
MODES = [
    Case("with no_grad()", "with torch.no_grad():\n    pass"),
    Case("with autocast", 'with torch.autocast("cpu", dtype=torch.bfloat16):\n    pass'),
]

CASES = [*MAKING, *READING, *VIEWS, *OPS, *MODULES, *MODES]

if __name__ == "__main__":
    main("Microseconds per call on small inputs, flambeau against PyTorch.", CASES)
