"""The graph and the walk over it: names, leaves, backward, grad, their arguments and complaints."""

import gc
import threading
import weakref

import pytest

import flambeau
from flambeau import interposing
from tests.autograd.behaviour import Cases, attempt, name_of, plain

cases = Cases("engine")


def _t(torch, data, grad=True, dtype=None):
    return torch.tensor(data, dtype=dtype or torch.float32, requires_grad=grad)


def _lines(texts):
    return [t.strip() for t in texts.replace("\n", "|").split("|") if t.strip()]


def _next(node):
    return [(name_of(f), n) for f, n in node.next_functions]


# -- names, edges, leaves ---------------------------------------------------------------------


@cases
def node_names(torch):
    x, y = _t(torch, [[1.0, 2.0], [3.0, 4.0]]), _t(torch, [[5.0, 6.0], [7.0, 8.0]])
    space = {"torch": torch, "x": x, "y": y}
    texts = """x + y|x + 1|1 + x|x - y|1 - x|x * y|x * 2|2 * x|x / y|x / 2|1 / x|x ** 2|x ** y
        2 ** x|-x|abs(x)
        x.sum()|x.sum(0)|x.mean()|x.mean(1)|x.prod()|x.prod(0)|x.max()|x.min()|x.amax(0)|x.var()
        x.std()|x.norm()
        x.exp()|x.log()|x.sqrt()|x.sin()|x.cos()|x.tan()|x.tanh()|x.sigmoid()|x.relu()|x.sign()
        x.square()
        x @ y|x.mm(y)|x.t()|x.T|x.mT|x.view(4)|x.reshape(4)|x.reshape(2, 2)|x.flatten()
        x.transpose(0, 1)|x.permute(1, 0)
        x[0]|x[:, 0]|x[0, 0]|x[x > 1]|x[[0, 1]]|x[None]|x[..., 0]|x[0:1]|x.clone()|x.contiguous()
        x.expand(3, 2, 2)
        x.unsqueeze(0)|x.squeeze()|x.squeeze(0)|x.repeat(2, 1)|torch.cat([x, y])
        torch.stack([x, y])|x.double()|x.clamp(0, 1)
        x.clamp(min=0)|torch.where(x > 0, x, y)|torch.maximum(x, y)|x.cumsum(0)|x.softmax(0)
        x.log_softmax(0)|x.logsumexp(0)
        x.sort()[0]|x.topk(1)[0]|x.gather(0, torch.zeros(1, 2, dtype=torch.int64))
        x.masked_fill(x > 1, 0.)|x.diagonal()|x.diag()
        x.triu()|x.tril()|x.flip(0)|x.roll(1)|x.mul(y)|x.add(y)|x.real
        x[0].dot(y[0])|x.mv(y[0])|torch.outer(x[0], y[0])|torch.addmm(x, x, y)
        x.unsqueeze(0).bmm(y.unsqueeze(0))
        x.lerp(y, 0.5)|torch.atan2(x, y)|x.floor()|x.round()|x.erf()|x.log1p()|x.expm1()
        x.reciprocal()|x.rsqrt()|x.pow(3)|x.fmod(2)
        x.unbind()[0]|x.split(1)[0]|x.chunk(2)[1]|x.as_strided((2,), (1,))|x.narrow(0, 0, 1)
        x.select(0, 1)|x.index_select(0, torch.tensor([0]))
        x.addcmul(x, y)|x.detach().requires_grad_() * 1|x.movedim(0, 1)|x.max(0)[0]|x.median()
        x.cumprod(0)|x.unfold(0, 1, 1)"""
    return {t: name_of(eval(t, dict(space)).grad_fn) for t in _lines(texts)}


@cases
def next_functions(torch):
    a, b = _t(torch, [1.0, 2.0]), _t(torch, [3.0, 4.0])
    c = a * b + a
    d = (c * torch.ones(2)).sum()
    return [
        _next(d.grad_fn),
        _next(d.grad_fn.next_functions[0][0]),
        _next(c.grad_fn),
        _next(c.grad_fn.next_functions[0][0]),
        c.grad_fn.next_functions[1][0].variable is a,
        c.grad_fn.next_functions[1][0] is c.grad_fn.next_functions[0][0].next_functions[0][0],
        _next(c.grad_fn.next_functions[1][0]),
        name_of(a.grad_fn),
    ]


@cases
def node_attributes(torch):
    a, b = _t(torch, [1.0, 2.0]), _t(torch, [3.0, 4.0])
    c = a * b
    node = c.grad_fn
    e = a.exp()
    return [
        plain(node._saved_self),
        plain(node._saved_other),
        plain(e.grad_fn._saved_result),
        e.grad_fn._saved_result.grad_fn is e.grad_fn,
        isinstance(node.metadata, dict),
        isinstance(node, torch.autograd.graph.Node),
        type(node).__name__,
        repr(node).split(" ")[0],
        attempt(getattr, node, "nothing"),
        (a * a.detach()).grad_fn._saved_self is None,
    ]


@cases
def leaves(torch):
    a = _t(torch, [1.0, 2.0])
    b = torch.tensor([1.0, 2.0])
    with torch.no_grad():
        c = a * 2
        v = a[0:1]
    d = b * 2
    e = a.detach()
    f = a * 2
    g = torch.tensor([1, 2])
    m = a.max(0)
    found = []
    for t in (
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        a > 1,
        f.detach(),
        v,
        m.values,
        m.indices,
        a.argmax(),
        a.long(),
        a.clone(),
        a.data,
    ):
        found.append([t.requires_grad, t.is_leaf, name_of(t.grad_fn), t.output_nr])
    return found


@cases
def requires_grad_rules(torch):
    a = _t(torch, [1.0, 2.0])
    b = a * 2
    i = torch.tensor([1, 2])
    return [
        attempt(b.requires_grad_, False),
        attempt(b.requires_grad_, True) is b,
        attempt(i.requires_grad_),
        attempt(i.requires_grad_, False) is i,
        attempt(setattr, b, "requires_grad", False),
        attempt(setattr, i, "requires_grad", True),
        attempt(torch.tensor, [1], requires_grad=True),
        attempt(torch.zeros, 2, dtype=torch.bool, requires_grad=True),
        attempt(torch.zeros, 2, dtype=torch.complex64, requires_grad=True).requires_grad,
        attempt(setattr, a, "requires_grad", False),
        a.requires_grad,
        attempt(setattr, b, "grad_fn", None).split(":")[0],
        attempt(setattr, b, "is_leaf", None).split(":")[0],
    ]


@cases
def detaching(torch):
    a = _t(torch, [1.0, 2.0])
    b = a * 2
    c = b.detach()
    v = b[0]
    out = [c.requires_grad, c.data_ptr() == b.data_ptr(), c._is_view(), c._version]
    c.add_(1)
    out += [b._version, attempt(v.detach_)]
    d = b.detach_()
    out += [d is b, b.requires_grad, b.is_leaf, name_of(b.grad_fn)]
    b.requires_grad_()
    (b * 3).sum().backward()
    out += [b.grad, a.grad]
    w = a[0]
    out += [attempt(w.detach_)]
    return out


@cases
def deepcopy_rules(torch):
    import copy

    a = _t(torch, [1.0, 2.0])
    a.grad = torch.ones(2)
    b = copy.deepcopy(a)
    return [b, b.grad, b.is_leaf, attempt(copy.deepcopy, a * 2), b.grad is not a.grad]


# -- backward ---------------------------------------------------------------------------------


@cases
def backward_of_a_scalar(torch):
    a = _t(torch, 3.0)
    b = _t(torch, 4.0)
    c = (a * b + a).exp().log()
    out = [c.backward()]
    return [*out, a.grad, b.grad]


@cases
def backward_with_gradient(torch):
    a = _t(torch, [1.0, 2.0, 3.0])
    (a * a).backward(torch.tensor([1.0, 0.1, 0.01]))
    out = [a.grad.clone()]
    (a * a).backward(gradient=torch.ones(3))
    return [*out, a.grad]


@cases
def backward_complaints(torch):
    a = _t(torch, [1.0, 2.0, 3.0])
    b = a * a
    return [
        attempt(b.backward),
        attempt(b.backward, torch.ones(2)),
        attempt(b.backward, torch.ones(3, 1)),
        attempt(b.backward, 1.0),
        attempt(b.backward, [torch.ones(3)]),
        attempt(torch.ones(3).sum().backward),
        attempt(torch.autograd.backward, [b.sum(), torch.ones(1)]),
        attempt(torch.autograd.backward, [b, b], [torch.ones(3)]),
        attempt(torch.autograd.backward, [b.sum()], inputs=[]),
        attempt(torch.autograd.backward, [b.sum()], inputs=[torch.ones(1)]),
        attempt(b.sum().backward, inputs=[]),
        attempt(b.backward, torch.ones(3, dtype=torch.complex64)),
        attempt((b * 1j).sum().backward),
        attempt(
            torch.autograd.backward,
            b.sum(),
            grad_tensors=torch.tensor(1.0),
            grad_variables=torch.tensor(1.0),
        ),
        attempt(torch.autograd.grad, b.sum(), []),
        attempt(torch.autograd.grad, b.sum(), torch.ones(1)),
        attempt(torch.autograd.grad, b.sum(), _t(torch, 1.0)),
        attempt(torch.autograd.grad, b, a),
        attempt(torch.autograd.grad, b, a, torch.ones(2)),
        attempt(torch.autograd.grad, torch.ones(1), a),
        attempt(
            torch.autograd.grad, b.sum(), _t(torch, 1.0), allow_unused=False, materialize_grads=True
        ),
        attempt(torch.autograd.grad, [b.sum(), b.sum()], a, [torch.tensor(1.0)]),
        attempt(torch.autograd.grad, b.sum(), [a, 3]).split(":")[0],
        attempt(torch.autograd.grad, b, a, torch.ones(3), is_grads_batched=True),
    ]


@cases
def backward_twice(torch):
    a = _t(torch, [1.0, 2.0])
    found = {}
    texts = """(a * a).sum()|(a * 2).sum()|(a + 1).sum()|a.exp().sum()|a.sum()|a.view(2, 1).sum()
        (a / 2).sum()|(a ** 2).sum()
        a.mean()|a.relu().sum()|a[0]|a[[0]].sum()|a.prod()|a.max()|torch.cat([a, a]).sum()
        torch.stack([a, a]).sum()|a.dot(a)|a.clone().sum()
        a.softmax(0)[0]|a.double().sum()|(-a).sum()|a.abs().sum()|(a - a).sum()
        a.clamp(0, 1).sum()|a.sqrt().sum()|torch.where(a > 0, a, a).sum()
        a.cumsum(0).sum()|a.unbind()[0]|a.amax()|a.expand(2, 2).sum()|a.norm()|a.var()
        a.log().sum()|a.masked_fill(a > 1, 0.).sum()"""
    for text in _lines(texts):
        y = eval(text, {"torch": torch, "a": a})
        y.backward()
        found[text] = attempt(y.backward)
    return found


@cases
def retaining_the_graph(torch):
    a = _t(torch, [1.0, 2.0])
    b = (a * a * a).sum()
    b.backward(retain_graph=True)
    b.backward(retain_graph=True)
    b.backward()
    out = [a.grad, attempt(b.backward)]
    b = (a * a * a).sum()
    torch.autograd.grad(b, a)
    out.append(attempt(torch.autograd.grad, b, a))
    b = (a * a * a).sum()
    node = b.grad_fn.next_functions[0][0]
    b.backward()
    out.append(attempt(getattr, node, "_saved_self"))
    c = a.exp()
    c.sum().backward()
    out.append(attempt(getattr, c.grad_fn, "_saved_result"))
    return out


@cases
def second_order(torch):
    a = _t(torch, [1.0, 2.0])
    b = (a**3).sum()
    (g,) = torch.autograd.grad(b, a, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), a, create_graph=True)
    (k,) = torch.autograd.grad(h.sum(), a)
    out = [g, h, k]
    b = (a**3).sum()
    b.backward(create_graph=True)
    out += [a.grad, a.grad.requires_grad]
    grad = a.grad
    a.grad = None
    grad.sum().backward()
    return [*out, a.grad, a.grad.requires_grad]


@cases
def create_graph_and_retain(torch):
    a = _t(torch, [1.0, 2.0])
    b = (a**3).sum()
    (g,) = torch.autograd.grad(b, a, create_graph=True, retain_graph=False)
    return [g, attempt(torch.autograd.grad, b, a), attempt(torch.autograd.grad, g.sum(), a)]


@cases
def backward_inputs(torch):
    a, b, c = _t(torch, [1.0, 2.0]), _t(torch, [3.0, 4.0]), _t(torch, [5.0, 6.0])
    d = a * b
    e = d * c
    e.sum().backward(inputs=[a], retain_graph=True)
    out = [a.grad, b.grad, c.grad]
    e.sum().backward(inputs=a, retain_graph=True)
    out += [a.grad.clone()]
    d.retain_grad()
    e.sum().backward(inputs=[d, b], retain_graph=True)
    out += [a.grad.clone(), b.grad, c.grad, d.grad]
    f = d * 2
    f.sum().backward(inputs=[d], retain_graph=True)
    out += [d.grad]
    h = a * 2
    (h * 3).sum().backward(inputs=[h])
    return [*out, h.grad]


@cases
def grad_of_intermediates(torch):
    a, b = _t(torch, [1.0, 2.0]), _t(torch, [3.0, 4.0])
    c = a * b
    d = c * c
    e = d.sum()
    return [
        torch.autograd.grad(e, [c, d, e, a, b], retain_graph=True),
        torch.autograd.grad(e, [a, a], retain_graph=True),
        torch.autograd.grad(e, [c, a], retain_graph=True),
        torch.autograd.grad(e, e, retain_graph=True),
        torch.autograd.grad([e, c.sum()], a, retain_graph=True),
        torch.autograd.grad([e, e], a, [torch.tensor(2.0), torch.tensor(3.0)], retain_graph=True),
        torch.autograd.grad(e, a, None, retain_graph=True),
        torch.autograd.grad(d, c, torch.ones(2), retain_graph=True),
        torch.autograd.grad(d, c, grad_outputs=[torch.ones(2)], retain_graph=True),
        a.grad,
        type(torch.autograd.grad(e, [a])).__name__,
    ]


@cases
def unused_inputs(torch):
    a, b = _t(torch, [1.0, 2.0]), _t(torch, [3.0, 4.0])
    c = (a * 2).sum()
    d = b * 2
    return [
        attempt(torch.autograd.grad, c, [a, b], retain_graph=True),
        torch.autograd.grad(c, [a, b], allow_unused=True, retain_graph=True),
        torch.autograd.grad(c, [a, b], materialize_grads=True, retain_graph=True),
        attempt(torch.autograd.grad, c, [a, d], retain_graph=True),
        torch.autograd.grad(c, [d, a], allow_unused=True, retain_graph=True),
        attempt(torch.autograd.grad, a.sum(), a),
    ]


@cases
def only_what_is_needed_runs(torch):
    """grad() towards some inputs runs, and frees, only the nodes on the way to them."""
    a, b = _t(torch, [1.0, 2.0]), _t(torch, [3.0, 4.0])
    seen = []
    x, y = a.exp(), b.exp()
    x.register_hook(lambda g: seen.append("x"))
    y.register_hook(lambda g: seen.append("y"))
    a.register_hook(lambda g: seen.append("a"))
    b.register_hook(lambda g: seen.append("b"))
    z = (x + y).sum()
    out = [torch.autograd.grad(z, a)]
    out += [list(seen), attempt(torch.autograd.grad, z, a)]
    seen.clear()
    out += [attempt(torch.autograd.grad, z, b), list(seen)]
    z = (a.exp() * b.exp()).sum()
    z.backward(inputs=[b])
    return [*out, a.grad, b.grad, seen]


@cases
def needed_argument_gradients_only(torch):
    """A Function learns which of its gradients this pass wants."""
    seen = []

    class Pair(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            seen.append(tuple(ctx.needs_input_grad))
            return g, g

    a, b = _t(torch, 1.0), _t(torch, 2.0)
    out = [torch.autograd.grad(Pair.apply(a, b), a), torch.autograd.grad(Pair.apply(a, b), [b])]
    Pair.apply(a, b.detach()).backward()
    Pair.apply(a * 2, b).backward(inputs=[a])
    return [*out, seen]


@cases
def batched_grads(torch):
    a = _t(torch, [1.0, 2.0, 3.0])
    b = a * a
    eye = torch.eye(3)
    out = [torch.autograd.grad(b, a, eye, is_grads_batched=True, retain_graph=True)]
    c = a.sum()
    out.append(
        torch.autograd.grad(
            [b, c],
            a,
            [eye, torch.tensor([1.0, 2.0, 3.0])],
            is_grads_batched=True,
            retain_graph=True,
        )
    )
    out.append(
        attempt(torch.autograd.grad, b, a, torch.ones(3), is_grads_batched=True, retain_graph=True)
    )
    d = _t(torch, 1.0)
    out.append(
        torch.autograd.grad(
            b, [a, d], eye, is_grads_batched=True, allow_unused=True, retain_graph=True
        )
    )
    return out


@cases
def several_roots(torch):
    a = _t(torch, [1.0, 2.0])
    b, c = a.exp(), a * 3
    torch.autograd.backward([b.sum(), c], [None, torch.tensor([1.0, 10.0])])
    out = [a.grad.clone()]
    torch.autograd.backward((a.sum(), a.sum()))
    out.append(a.grad.clone())
    torch.autograd.backward(a, torch.ones(2))
    d = a * 2
    torch.autograd.backward([d.sum(), (d * d).sum()])
    return [*out, a.grad]


@cases
def backward_of_a_leaf(torch):
    a = _t(torch, 2.0)
    a.backward()
    out = [a.grad.clone()]
    a.backward(torch.tensor(3.0))
    return [*out, a.grad]


@cases
def diamond_and_reuse(torch):
    a = _t(torch, 2.0)
    b = a * a
    c = b + b * a + a
    d = c * c + b
    d.backward()
    e = a
    for _ in range(10):
        e = e + e
    a.grad, first = None, a.grad
    e.backward()
    return [first, a.grad]


@cases
def dtype_of_given_gradients(torch):
    a = _t(torch, [1.0, 2.0])
    b = a * 2
    out = [attempt(b.backward, torch.ones(2, dtype=torch.float64)), a.grad]
    a.grad = None
    out += [attempt((a * 2).backward, torch.ones(2, dtype=torch.int64)), a.grad]
    a.grad = None
    out += [attempt(a.exp().backward, torch.ones(2, dtype=torch.float16)), a.grad]
    return out


@cases
def mixed_dtypes(torch):
    a, b = _t(torch, [1.0, 2.0]), _t(torch, [3.0, 4.0], dtype=torch.float64)
    h = _t(torch, [1.0, 2.0], dtype=torch.float16)
    i = torch.tensor([2, 3])
    ((a * b) + h * i + a.double() * i + h * a).sum().backward()
    out = [a.grad, b.grad, h.grad]
    s = _t(torch, 2.0, dtype=torch.float64)
    c = a * s
    c.sum().backward()
    return [*out, c.dtype is torch.float32, s.grad]


@cases
def complex_gradients(torch):
    z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    x = _t(torch, [1.0, 2.0])
    y = z * z.conj() * x + z * (2 + 1j)
    y.abs().sum().backward()
    out = [z.grad, x.grad]
    z.grad = None
    (z * z).backward(torch.tensor([1 + 0j, 1j]))
    out.append(z.grad)
    z.grad = None
    (z.real * z.imag).sum().backward()
    out.append(z.grad)
    z.grad = None
    torch.view_as_real(z).pow(2).sum().backward()
    out += [z.grad, attempt((z * z).sum().backward)]
    (g,) = torch.autograd.grad((z.exp() / z).abs().sum(), z, create_graph=True)
    (h,) = torch.autograd.grad(g.abs().sum(), z)
    return [*out, g, h]


@cases
def broadcasting(torch):
    a, b, c = _t(torch, [[1.0], [2.0]]), _t(torch, [1.0, 2.0, 3.0]), _t(torch, 2.0)
    ((a + b) * c / (b - 5) + a.expand(2, 3) * b - c**b + torch.where(b > 1, a, c)).sum().backward()
    return [a.grad, b.grad, c.grad]


@cases
def empty_tensors(torch):
    a = torch.zeros(0, requires_grad=True)
    b = torch.zeros(2, 0, requires_grad=True)
    (a * 2).sum().backward()
    (b.sum(1) * 2).sum().backward()
    return [a.grad, b.grad, attempt((a * 2).backward)]


@cases
def control_flow(torch):
    def f(a):
        b = a * 2
        while b.norm() < 1000:
            b = b * 2
        return b if b.sum() > 0 else 100 * b

    a = _t(torch, 0.37)
    f(a).backward()
    v = _t(torch, [0.3, -0.2, 0.5])
    f(v).sum().backward()
    return [a.grad, (a.grad == f(a) / a).item(), v.grad]


@cases
def sum_over_a_tensor(torch):
    a = _t(torch, [1.0, 2.0, 3.0])
    total = sum(x * x for x in a)
    total.backward()
    out = [total, a.grad.clone(), name_of(sum(a).grad_fn)]
    b = _t(torch, [[1.0, 2.0], [3.0, 4.0]])
    for row in b:
        (row * 2).sum().backward(retain_graph=True)
    return [*out, b.grad]


@cases
def through_clone(torch):
    a = _t(torch, [1.0, 2.0])
    b = a.clone()
    b.mul_(3)
    (b * a).sum().backward()
    return [a, b, a.grad]


@cases
def variables(torch):
    from importlib import import_module

    variable = import_module(torch.__name__ + ".autograd").Variable
    a = variable(torch.ones(2), requires_grad=True)
    (a * a).sum().backward()
    b = variable(torch.ones(2))
    return [
        a.grad,
        isinstance(a, torch.Tensor),
        a.requires_grad,
        b.requires_grad,
        isinstance(a, variable),
    ]


@cases
def two_layer_network(torch):
    torch.manual_seed(0)
    x, t = torch.linspace(-1, 1, 12).reshape(4, 3), torch.tensor([0, 1, 2, 1])
    w = torch.linspace(-0.5, 0.5, 15).reshape(5, 3).requires_grad_()
    b = torch.zeros(5, requires_grad=True)
    v = torch.linspace(0.3, -0.6, 15).reshape(3, 5).requires_grad_()
    h = torch.tanh(x @ w.t() + b)
    loss = -(h @ v.t()).log_softmax(1)[torch.arange(4), t].mean()
    loss.backward()
    return [loss, w.grad, b.grad, v.grad]


@cases
def reentrant_in_backward(torch):
    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = ctx.x**3
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, g):
            with torch.enable_grad():
                ctx.y.backward(g)
            return ctx.x.grad

    a = _t(torch, [1.0, 2.0])
    (Inner.apply(a * 2) * 3).sum().backward()
    return a.grad


@cases
def reentrant_in_hooks(torch):
    a, b = _t(torch, [1.0, 2.0]), _t(torch, [3.0, 4.0])
    seen = []

    def hook(g):
        with torch.enable_grad():
            (b * b).sum().backward()
        seen.append(b.grad.tolist())

    c = a * 2
    c.register_hook(hook)
    a.register_hook(hook)
    (c * 3).sum().backward()
    return [seen, a.grad, b.grad]


@cases
def grad_mode_inside_backward(torch):
    seen = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(torch.is_grad_enabled())
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            seen.append((torch.is_grad_enabled(), g.requires_grad))
            return g * 2

    a = _t(torch, 1.0)
    b = Look.apply(a * 2)
    b.register_hook(lambda g: seen.append(torch.is_grad_enabled()))
    b.backward(retain_graph=True)
    torch.autograd.grad(b, a, create_graph=True)
    with torch.no_grad():
        b.backward()
    return [seen, a.grad, torch.is_grad_enabled()]


@cases
def gradient_edges(torch):
    graph = torch.autograd.graph
    a = _t(torch, [1.0, 2.0])
    b = a * 2
    e, f = graph.get_gradient_edge(b), graph.get_gradient_edge(a)
    out = [
        name_of(e.node),
        e.output_nr,
        name_of(f.node),
        attempt(graph.get_gradient_edge, torch.ones(1)),
    ]
    c = (b * b).sum()
    out.append(torch.autograd.grad(c, [e, f], retain_graph=True))
    d = graph.get_gradient_edge(c)
    out.append(torch.autograd.grad(d, a, torch.tensor(1.0), retain_graph=True))
    torch.autograd.backward(d, torch.tensor(2.0))
    return [*out, a.grad]


@cases
def error_leaves_grad_mode(torch):
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no way")

    a = _t(torch, 1.0)
    return [attempt(Bad.apply(a).backward), torch.is_grad_enabled(), a.grad]


@cases
def gradient_of_everything_used_twice(torch):
    a = _t(torch, [[1.0, 2.0], [3.0, 4.0]])
    b = a.t()
    c = (
        a[0]
        + b[1]
        + a.reshape(-1)[1:3]
        + a.expand(2, 2, 2)[0, 1]
        + a.diagonal()
        + torch.cat([a, b])[3]
    )
    (g,) = torch.autograd.grad((c * c).sum(), a, create_graph=True)
    (h,) = torch.autograd.grad((g * g).sum(), a)
    return [g, h]


@cases
def attributes_of_the_namespace(torch):
    graph = torch.autograd.graph
    names = """Node GradientEdge get_gradient_edge increment_version register_multi_grad_hook
        save_on_cpu saved_tensors_hooks disable_saved_tensors_hooks
        allow_mutation_on_saved_tensors"""
    more = """Function Variable backward grad grad_mode no_grad enable_grad set_grad_enabled
        inference_mode detect_anomaly set_detect_anomaly gradcheck gradgradcheck functional graph
        function"""
    return [
        [hasattr(graph, n) for n in names.split()],
        [hasattr(torch.autograd, n) for n in more.split()],
    ]


# -- what needs no comparison -----------------------------------------------------------------


@pytest.mark.parametrize("name", cases.names())
def test_as_recorded(name):
    cases.check(flambeau, name)


@pytest.mark.oracle
@pytest.mark.parametrize("name", cases.names())
def test_record_is_true(name):
    cases.check(pytest.importorskip("torch"), name)


# -- long chains, lifetimes, threads ----------------------------------------------------------


CHAINS = {
    "add": lambda y: y + 1,
    "mul": lambda y: y * 1.00001,
    "exp and log": lambda y: y.exp().log(),
    "views": lambda y: y.view(2, 1).t().reshape(2),
    "in place": lambda y: y.mul_(1.0) if y.grad_fn is not None else y.clone(),
}


@pytest.mark.parametrize("name", CHAINS)
def test_long_chains_need_no_stack(name):
    length = 100_000 if name == "add" else 20_000
    x = flambeau.ones(2, requires_grad=True)
    y = x
    for _ in range(length):
        y = CHAINS[name](y)
    y.sum().backward()
    assert x.grad is not None
    del y  # and neither does their end


def test_long_chain_that_never_ran():
    y = x = flambeau.ones(2, requires_grad=True)
    for _ in range(100_000):
        y = y.exp()
    reference = weakref.ref(y.grad_fn)
    del y
    assert reference() is None
    assert x.grad is None


class Twice(flambeau.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y / x


def _mixed(a):
    h = (a @ a + a[0]).tanh()
    s = h.softmax(1)
    z = (s[0] * h[:, 1]).clone()
    z[1:].mul_(2)
    return h, s, z, (z.exp() + Twice.apply(z)).sum() + h.max() + flambeau.cat([h, s]).norm()


def _after_backward(a):
    *inner, loss = _mixed(a)
    loss.backward()
    return [*inner, loss]


def _never_run(a):
    return list(_mixed(a))


def _second_order(a):
    h = (a @ a).sigmoid()
    (g,) = flambeau.autograd.grad(h.sum(), a, create_graph=True)
    loss = (g * g).sum()
    loss.backward()
    return [h, g, loss]


def _with_hooks(a):
    b = a.exp()
    b.retain_grad()
    b.register_hook(lambda g: g * 2)
    a.register_hook(lambda g: g)
    with flambeau.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        c = b * a
    c.sum().backward()
    assert c.grad_fn.next_functions
    return [b, c]


@pytest.mark.parametrize("work", [_after_backward, _never_run, _second_order, _with_hooks])
def test_graphs_go_by_reference_counts(work):
    """No cycles: tensors and their memory go at once, without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        a = flambeau.randn(4, 4, requires_grad=True)
        made = [a, *work(a)]
        references = [weakref.ref(t) for t in made] + [weakref.ref(t._storage) for t in made]
        del a, made
        assert [r() for r in references] == [None] * len(references)
    finally:
        gc.enable()


def test_saved_values_go_with_backward():
    a = flambeau.randn(4, requires_grad=True)
    b = a.exp()
    c = b * b
    memory = weakref.ref(b._storage)
    loss = c.sum()
    del b, c
    assert memory() is not None
    loss.backward()
    assert memory() is None


def _in_threads(work, count=8):
    failures = []

    def run():
        try:
            work()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_threads_share_a_leaf():
    w = flambeau.ones(100, requires_grad=True)

    def work():
        for _ in range(20):
            (w * 3).sum().backward()

    _in_threads(work)
    assert w.grad.tolist() == [3.0 * 8 * 20] * 100


def test_threads_share_a_graph():
    w = flambeau.ones(3, requires_grad=True)
    y = (w.exp() * w).sum()
    one = flambeau.autograd.grad(y, w, retain_graph=True)[0]
    _in_threads(lambda: [y.backward(retain_graph=True) for _ in range(10)])
    assert flambeau.allclose(w.grad, one * 80)


def test_threads_keep_their_modes():
    seen = []

    def work():
        with flambeau.no_grad():
            seen.append((flambeau.ones(1, requires_grad=True) * 2).requires_grad)
        seen.append((flambeau.ones(1, requires_grad=True) * 2).requires_grad)

    _in_threads(work, 4)
    assert sorted(seen) == [False] * 4 + [True] * 4


def test_saved_layouts_do_not_mix():
    """In place the saved value is a dense copy, while the argument has gaps: two plans, not one."""
    for _ in range(2):
        x = flambeau.arange(6.0, dtype=flambeau.float64).reshape(3, 2).requires_grad_()
        x.select(1, 1).sin().sum().backward()
        expected, x.grad = x.grad, None
        y = x.clone()
        y.select(1, 1).sin_()
        y.select(1, 1).sum().backward()
        assert x.grad.tolist() == expected.tolist()
        x.grad = None
        x.select(1, 1).exp().sum().backward()
        expected, x.grad = x.grad, None
        y = x.clone()
        y.select(1, 1).exp_()
        y.select(1, 1).sum().backward()
        assert x.grad.tolist() == expected.tolist()


def test_grad_computes_nothing_that_nobody_asked_for():
    """autograd.grad towards the input of a layer runs no product for its weight."""

    def note(name, function, args, kwargs):
        seen.append(name)
        return function(*args, **kwargs)

    x, w, b = (flambeau.randn(*size, requires_grad=True) for size in ((3, 4), (5, 4), (5,)))
    for make in (lambda: (x @ w.t()).sum(), lambda: flambeau.nn.functional.linear(x, w, b).sum()):
        counts = []
        for inputs in ((x,), (x, w)):
            y, seen = make(), []
            with interposing.handling(note):
                found = flambeau.autograd.grad(y, inputs)
            counts.append(len(seen))
            assert all(g.shape == t.shape for g, t in zip(found, inputs))
        assert counts[0] < counts[1], (seen, counts)
    y = x * flambeau.randn(3, 4, requires_grad=True)
    node, needs = y.grad_fn, y.grad_fn.needs
    flambeau.autograd.grad(y.sum(), (x,), retain_graph=True)
    assert node.needs == needs and None not in node.edges  # as before


def test_gradients_in_batches_are_not_retained():
    a = flambeau.ones(2, requires_grad=True)
    b = a * 3
    b.retain_grad()
    for _ in range(2):
        found = flambeau.autograd.grad(
            (b * 2,), (a,), flambeau.ones(4, 2), is_grads_batched=True, retain_graph=True
        )
    assert found[0].tolist() == [[6.0, 6.0]] * 4 and b.grad is None
