"""Functions that write, for PyTorch and flambeau alike: what is left of them without writes."""

import importlib

# name: statements of a function of a (and b), both 2 by 2
PROGRAMS = {
    "view": "b = a + 1; b.view(-1).add_(1); return b",
    "input": "a.add_(1); return a * 2",
    "inputs": "a.add_(b); b.mul_(a); return a - b",
    "nothing": "a.add_(1)",
    "view of input": "a.view(-1).mul_(2); return a.sum()",
    "returned views": "a.add_(1); return a.view(-1), a[0]",
    "detached": "a.detach().add_(1); return a",
    "numbers": "a[0] = 5; a[0, 1] = 1.0; a[..., 0] = a[..., 1]; a[None, 1] += 2; return a",
    "slices": "b = a + 1; s = b[1:]; s.add_(1); s[:, ::2].mul_(2); b[:] = 0; return b, s",
    "mask": "b = a.clone(); b[b > 1] = 0; return b",
    "places": "b = a.clone(); b[torch.tensor([0, 1])] = 0; return b",
    "out": "o = torch.empty(2, 2); torch.add(a, 1, out=o); return o",
    "out is input": "torch.mul(a, 2, out=b); return a + b",
    "out is view": "o = torch.zeros(2, 2); torch.add(a[0], 1, out=o[1]); return o",
    "out is two": "v, i = torch.empty(2), torch.empty(2, dtype=torch.long)\n"
    "torch.max(a, 0, out=(v, i)); return v, i",
    "out is small": "return torch.add(a, 1, out=torch.empty(0))",
    "chain": "b = a.clone(); d = b.view(2, 1, 2); e = d[1]; f = e.t(); f.mul_(3)\n"
    "return b, d, e, f",
    "select": "b = a + 1; b.select(1, -1).zero_(); return b",
    "diagonal": "b = a + 1; b.diagonal().add_(5); b.diagonal(1).add_(5); return b",
    "turned": "b = a + 1; t = b.t(); t.add_(1); u = b.T; u.add_(1); return b, t, u",
    "permuted": "b = a + 1; b.view(2, 1, 2).permute(2, 0, 1).add_(1); return b",
    "transposed": "b = a + 1; b.transpose(0, 1).add_(1); b.mT.add_(1); return b",
    "split": "b = a + 1; p, q = b.split(1); p.add_(q); q.mul_(2); return b",
    "sections": "b = a + 1; p, q = b.split([1, 1], -1); q.add_(p); return b, p, q",
    "chunks": "b = a + 1; p, q = b.chunk(2); p.add_(q); return b",
    "unbound": "b = a + 1; p, q = b.unbind(); p.add_(q); return b, q",
    "rows": "b = a + 1\nfor r in b:\n    r.add_(1)\nreturn b",
    "expanded": "b = a + 1; e = b.expand(3, 2, 2); b.add_(1); return e",
    "write to expanded": "b = a + 1; b.expand(3, 2, 2).add_(1); return b",
    "squeezed": "b = a + 1; b.unsqueeze(1).add_(1); b.unsqueeze(0).squeeze().mul_(2); return b",
    "reshaped": "b = a + 1; b.flatten().add_(1); b.reshape(-1).add_(1); b.ravel().add_(1)\n"
    "return b",
    "narrow": "b = a + 1; b.narrow(0, 0, 1).add_(1); b.view_as(a).add_(1); return b",
    "unflat": "b = a + 1; b.unflatten(0, (1, 2)).zero_(); return b",
    "moved": "b = a + 1; b.movedim(0, 1).add_(1); b.swapaxes(0, 1).add_(1); return b",
    "strided": "b = a + 1; b.as_strided((2,), (1,), 1).add_(1); return b",
    "windows": "b = a + 1; b.unfold(0, 2, 2).add_(1); return b",
    "real": "z = torch.complex(a, a); z.real.add_(1); torch.view_as_real(z).mul_(2); return z",
    "fewer": "b = a + 1; b.resize_(4); b.add_(1); return b",
    "more": "b = torch.empty(0); b.resize_(2, 2); b.copy_(a); return b",
    "aliases": "b = a + 1; v = b.view(-1); w = b[0]; b.add_(1); r = v + 1; w.mul_(2)\n"
    "return r, v, w, b",
    "of itself": "b = a.clone(); b[0].copy_(b[1]); b[:, 0].add_(b[:, 1]); return b",
    "index": "b = a + 1; b.index_put_((torch.tensor([0]),), torch.ones(2)); return b",
    "masked": "b = a + 1; b.masked_fill_(a > 1, 0); b.masked_scatter_(a > 1, a); return b",
    "scattered": "b = a + 1; i = torch.zeros(1, 2, dtype=torch.long); b.scatter_(0, i, 3.0)\n"
    "b.scatter_add_(0, i, a); return b",
    "random": "b = a / 10; b.uniform_(); b.normal_(); b.exponential_(); b.random_(); b.random_(5)\n"
    "b.cauchy_(); b.log_normal_(); b.geometric_(0.5); b.bernoulli_(); return b",
    "bernoulli": "b = a.sigmoid(); b.bernoulli_(b); return b",
    "many": "b = a + 1; b.relu_(); b.clamp_(0, 2); b.sub_(a); b.pow_(2); b.fill_(3); b.zero_()\n"
    "b.copy_(a); b.lerp_(a, 0.5); b.addmm_(a, a); b.eq_(a); b.logical_not_(); b.cumsum_(0)\n"
    "return b",
    "operators": "b = a + 1; b += 1; b -= a; b *= 2; b /= 3; b **= 2; b //= 2; b %= 3; return b",
    "casts": "b = a.to(torch.int64); b.view(-1).copy_(a.view(-1))\n"
    "d = torch.ones(2, 2, dtype=torch.float64); d.add_(a); return b, d",
    "spread": "b = torch.zeros(2, 2); b.copy_(a[0]); b.fill_(a[0, 0]); return b",
    "turned in place": "b = a + 1; b.t_(); b.add_(1); d = a.clone(); d.unsqueeze_(0)\n"
    "d.squeeze_(0); d.transpose_(0, 1); return b, d",
    "factories": "c = a.new_zeros(2); c.add_(a[0]); d = torch.full((2,), 3.0); d.add_(c)\n"
    "e = torch.arange(2.0); e.mul_(d); g = torch.eye(2); g.add_(1)\n"
    "j = torch.tensor([1.0, 2.0]); j.add_(1); return c, d, e, g, j",
    "dropout": "return F.dropout(a, 0.5)",
    "in place": "c = a + 1; F.relu(c, inplace=True); F.hardtanh(c, inplace=True)\n"
    "F.silu(c, inplace=True); return c",
    "layers": "return F.linear(a, a, a[0]), F.softmax(a, 0), F.layer_norm(a, (2,))",
    "statistics": "m, v = torch.zeros(2), torch.ones(2)\n"
    "return F.batch_norm(a, m, v, training=True), m, v",
    "no writes": "return torch.relu(a.view(-1)) @ a.reshape(4)",
    "no_grad": "with torch.no_grad():\n    b = a.clone(); b[0] = 1\nreturn b",
    "tree": "a.add_(1); return {'s': a + 1, 'l': [a, (b,)], 'n': None}",
    "batches inside": "return func.vmap(lambda r: r.clone().add_(1))(a)",
    "batches written": "func.vmap(lambda r: r.mul_(2))(a); return a",
    "gradient inside": "return func.grad(lambda r: r.clone().mul_(2).sin().sum())(a)",
}
REMOVES = ("mutations", "mutations_and_views")
# expressions of a function w of one tensor, in which functionalize is fz
NESTED = {
    "grad over": "func.grad(fz(lambda a: w(a).sum()))",
    "grad inside": "fz(func.grad(lambda a: w(a).sum()))",
    "vmap over": "func.vmap(fz(row))",
    "vmap inside": "fz(func.vmap(row))",
    "both inside": "fz(func.vmap(func.grad(lambda r: row(r).sum())))",
    "jvp over": "lambda a: func.jvp(fz(w), (a,), (torch.ones(2, 2),))",
    "jvp inside": "fz(lambda a: func.jvp(w, (a,), (torch.ones(2, 2),)))",
    "vjp inside": "fz(lambda a: func.vjp(w, a)[1](torch.ones(2, 2)))",
    "hessian over": "func.hessian(fz(lambda a: w(a).sum()))",
    "hessian inside": "fz(func.hessian(lambda a: w(a).sum()))",
    "input written, vmap over": "func.vmap(fz(lambda a: a.mul_(2).sin()))",
    "input written, vmap inside": "fz(func.vmap(lambda a: a.mul_(2).sin()))",
}
# what modes of the program see
SEEN = ("view", "input", "numbers", "out is view", "split", "random", "dropout")


def function(torch, name):
    """The function of a name."""
    return _made(torch, f"def f(a, b):\n{_laid_out(PROGRAMS[name])}", "f")


def _laid_out(text):
    """Statements one per line."""
    found = []
    for line in text.split("\n"):
        depth = len(line) - len(line.lstrip())
        found += [" " * (depth + 4) + part.strip() for part in line.split("; ")]
    return "\n".join(found)


def _made(torch, source, name):
    part = lambda path: importlib.import_module(f"{torch.__name__}.{path}")
    names = {"torch": torch, "F": part("nn.functional"), "func": torch.func}
    exec(source, names)
    return names[name]


def arguments(torch):
    return torch.arange(4.0).reshape(2, 2), torch.arange(4.0).reshape(2, 2) + 0.5


def text(torch, name, remove):
    """The program that is recorded."""
    path = f"{torch.__name__}.fx.experimental.proxy_tensor"
    make_fx = importlib.import_module(path).make_fx
    f = torch.func.functionalize(function(torch, name), remove=remove)
    return make_fx(f)(*arguments(torch)).code.strip().splitlines()


def nested(torch, name):
    """The function of an expression."""
    source = f"""
def w(a):
    b = a * 2
    b[0].add_(a[1])
    b.view(-1).mul_(a.view(-1))
    return b.sin()
def row(r):
    b = r * 2
    b[0] = 3.0
    b.view(-1).mul_(r)
    return b
fz = func.functionalize
f = {NESTED[name]}
"""
    return _made(torch, source, "f")


def numbers(value):
    """Tensors as lists."""
    if isinstance(value, dict):
        return {key: numbers(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [numbers(v) for v in value]
    return value.tolist() if hasattr(value, "tolist") else value


def worked_out(torch, name):
    """(result, argument) of a nested function."""
    a = arguments(torch)[0] / 3 + 0.5
    return [numbers(nested(torch, name)(a)), numbers(a)]


def seen(torch, name, remove):
    """The ops that a mode is told of."""
    path = f"{torch.__name__}.utils._python_dispatch"
    found = []

    class Watch(importlib.import_module(path).TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            found.append(str(func))
            return func(*args, **(kwargs or {}))

    f = torch.func.functionalize(function(torch, name), remove=remove)
    given = arguments(torch)
    with Watch():
        f(*given)
    return found
