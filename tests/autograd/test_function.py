"""Custom functions: every form of forward, what ctx offers, what backward may return."""

import pytest

import flambeau
from tests.autograd.behaviour import Cases, attempt, name_of

cases = Cases("function")


def _t(torch, data, grad=True, dtype=None):
    return torch.tensor(data, dtype=dtype or torch.float32, requires_grad=grad)


def _make(torch, forward, backward=None, setup=None, name="Thing"):
    """A Function from plain functions."""
    space = {"forward": staticmethod(forward)}
    if backward is not None:
        space["backward"] = staticmethod(backward)
    if setup is not None:
        space["setup_context"] = staticmethod(setup)
    return type(name, (torch.autograd.Function,), space)


@cases
def the_notes_exp(torch):
    from importlib import import_module

    base = import_module(torch.__name__ + ".autograd").Function

    class Exp(base):
        @staticmethod
        def forward(ctx, i):
            result = i.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, grad_output):
            (result,) = ctx.saved_tensors
            return grad_output * result

    x = torch.tensor([1.0], requires_grad=True)
    ret = Exp.apply(x)
    out = [repr(ret), name_of(ret.grad_fn), ret.grad_fn.next_functions[0][0]]
    ret.backward(retain_graph=True)
    out.append(x.grad)
    y = Exp.apply(x)
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (h,) = torch.autograd.grad(g, x, create_graph=True)
    (k,) = torch.autograd.grad(h, x)
    return [*out, g, h, k]


@cases
def linear(torch):
    def forward(ctx, x, w, b=None):
        ctx.save_for_backward(x, w, b)
        y = x @ w.t()
        return y if b is None else y + b

    def backward(ctx, g):
        x, w, b = ctx.saved_tensors
        need = ctx.needs_input_grad
        return (
            g @ w if need[0] else None,
            g.t() @ x if need[1] else None,
            g.sum(0) if b is not None and need[2] else None,
        )

    f = _make(torch, forward, backward, name="LinearFunction")
    x, w, b = _t(torch, [[1.0, 2.0]]), _t(torch, [[3.0, 4.0], [5.0, 6.0]]), _t(torch, [0.1, 0.2])
    y = f.apply(x, w, b)
    y.sum().backward()
    out = [name_of(y.grad_fn), x.grad, w.grad, b.grad]
    x.grad = w.grad = None
    attempt(lambda: f.apply(x, w).sum().backward())
    f.apply(x, w, None).sum().backward()
    out += [x.grad, w.grad]
    f.apply(x.detach(), w, b).sum().backward()
    return [*out, x.grad, w.grad]


@cases
def needs_input_grad(torch):
    seen = []

    def forward(ctx, x, n, y, s):
        seen.append(list(ctx.needs_input_grad))
        return x * n + y

    def backward(ctx, g):
        seen.append(list(ctx.needs_input_grad))
        return g, None, g, None

    f = _make(torch, forward, backward)
    a, b = _t(torch, 1.0), _t(torch, 2.0)
    f.apply(a, 3, b, "s").backward()
    f.apply(a, 3, b.detach(), None).backward()
    with torch.no_grad():
        f.apply(a, 3, b, None)
    return [seen, a.grad, b.grad]


@cases
def setup_form(torch):
    def forward(x, n):
        return x**n

    def setup(ctx, inputs, output):
        x, n = inputs
        ctx.save_for_backward(x, output)
        ctx.n = n

    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * ctx.n * y / x, None

    f = _make(torch, forward, backward, setup)
    a = _t(torch, [1.0, 2.0])
    (g,) = torch.autograd.grad(f.apply(a, 3).sum(), a, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), a)
    return [g, h]


@cases
def several_outputs(torch):
    seen = []

    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x + y, 7, "text", None, x.argmax()

    def backward(ctx, *gs):
        seen.append([g if g is None else [str(g.dtype).split(".")[-1], g.tolist()] for g in gs])
        x, y = ctx.saved_tensors
        return gs[0] * y + gs[1], gs[0] * x + gs[1]

    f = _make(torch, forward, backward)
    a, b = _t(torch, [1.0, 2.0]), _t(torch, [3.0, 4.0])
    p, s, n, text, none, k = f.apply(a, b)
    out = [
        p,
        s,
        n,
        text,
        none,
        k,
        p.grad_fn is s.grad_fn,
        p.output_nr,
        s.output_nr,
        k.requires_grad,
    ]
    p.sum().backward(retain_graph=True)
    out += [a.grad.clone(), b.grad.clone()]
    (p * s).sum().backward()
    return [*out, a.grad, b.grad, seen]


@cases
def unmaterialized(torch):
    seen = []

    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    def backward(ctx, g, h):
        seen.append([g is None, h is None])
        return (0 if g is None else g * 2) + (0 if h is None else h * 3)

    f = _make(torch, forward, backward)
    a = _t(torch, [1.0, 2.0])
    p, q = f.apply(a)
    p.sum().backward()
    p, q = f.apply(a)
    (p + q).sum().backward()
    return [seen, a.grad]


@cases
def non_differentiable(torch):
    seen = []

    def forward(ctx, x):
        s, i = x.sort()
        big = x * 2
        ctx.mark_non_differentiable(i, big)
        ctx.save_for_backward(i)
        return s, i, big

    def backward(ctx, g, gi, gb):
        seen.append([g is None, gi is None, gb is None])
        (i,) = ctx.saved_tensors
        return torch.zeros_like(g).scatter_(0, i, g)

    f = _make(torch, forward, backward)
    a = _t(torch, [3.0, 1.0, 2.0])
    s, i, big = f.apply(a)
    (s * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
    return [s, i, big, big.is_leaf, name_of(big.grad_fn), a.grad, seen]


@cases
def dirty(torch):
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    def backward(ctx, g):
        return g * 3

    f = _make(torch, forward, backward)
    a = _t(torch, [1.0, 2.0])
    b = a * 2
    version = b._version
    c = f.apply(b)
    out = [c is b, name_of(b.grad_fn), b._version - version, b]
    c.sum().backward()
    out.append(a.grad.clone())
    out.append(attempt(f.apply, a))
    b = a * 2
    v = b[0]
    out.append(attempt(lambda: f.apply(v)) is v)
    out.append([name_of(b.grad_fn), name_of(v.grad_fn), b])
    b.sum().backward()
    out.append(a.grad)
    d = torch.ones(2)
    e = f.apply(d)
    out += [e is d, d, d.requires_grad, d._version]
    return out


@cases
def dirty_but_not_returned(torch):
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x.clone()

    f = _make(torch, forward, lambda ctx, g: g * 3)
    a = _t(torch, [1.0, 2.0])
    return attempt(f.apply, a * 2)


@cases
def returning_an_input(torch):
    def forward(ctx, x, y):
        return x, y * 2

    def backward(ctx, g, h):
        return g * 5, h * 2

    f = _make(torch, forward, backward)
    a, b = _t(torch, [1.0, 2.0]), _t(torch, [3.0, 4.0])
    p, q = f.apply(a, b)
    out = [p is a, p._is_view(), p.data_ptr() == a.data_ptr(), name_of(p.grad_fn), p.is_leaf]
    (p * q).sum().backward()
    out += [a.grad, b.grad]
    c = torch.ones(2)
    p, q = f.apply(c, b)
    out += [p is c, p.requires_grad, c.requires_grad]
    return out


@cases
def returning_a_view(torch):
    f = _make(torch, lambda ctx, x: x.view(-1), lambda ctx, g: (g * 2).view(2, 2))
    a = _t(torch, [[1.0, 2.0], [3.0, 4.0]])
    b = a * 1
    v = f.apply(b)
    out = [
        v._is_view(),
        name_of(v.grad_fn),
        attempt(v.mul_, 2).split(" ")[0] if isinstance(attempt(v.mul_, 2), str) else "wrote",
    ]
    f.apply(a).sum().backward()
    return [*out, a.grad]


@cases
def wrong_backwards(torch):
    a, b = _t(torch, [1.0, 2.0]), _t(torch, [3.0, 4.0])
    one = lambda ctx, x: x * 2
    two = lambda ctx, x, y: x * y

    def run(forward, backward, *args):
        return _make(torch, forward, backward).apply(*args).sum().backward()

    return [
        attempt(run, one, lambda ctx, g: (g, g), a),
        attempt(run, two, lambda ctx, g: g, a, b),
        attempt(run, two, lambda ctx, g: (g, g, None), a, b),
        attempt(run, one, lambda ctx, g: None, a),
        attempt(run, one, lambda ctx, g: 3, a),
        attempt(run, one, lambda ctx, g: g[:1], a),
        attempt(run, one, lambda ctx, g: torch.ones(3), a),
        attempt(run, one, lambda ctx, g: torch.ones(4, 2), a),
        attempt(run, one, lambda ctx, g: g.double(), a),
        attempt(run, one, None, a),
        attempt(run, lambda ctx, x: 3, lambda ctx, g: g, a).split(":")[0],
        attempt(
            lambda: _make(torch, lambda ctx, x: [x, x], lambda ctx, g: g).apply(a)[0].requires_grad
        ),
        attempt(run, two, lambda ctx, g: (g, "x"), a, b),
        attempt(run, lambda ctx, x, n: x * n, lambda ctx, g: (g, g), a, 3),
        attempt(torch.autograd.Function.apply, a).split(":")[0],
        attempt(run, one, lambda ctx, g: [g], a),
        attempt(run, one, lambda ctx: 3, a).split(":")[0],
        a.grad,
        b.grad,
    ]


@cases
def saving(torch):
    a = _t(torch, [1.0, 2.0])
    kept = []

    def forward(ctx, x):
        ctx.save_for_backward(x, None, x * 2)
        ctx.number = 5
        kept.append(ctx)
        return x * x

    def backward(ctx, g):
        _, none, y = ctx.saved_tensors
        return g * y * ctx.number * (none is None)

    f = _make(torch, forward, backward)
    y = f.apply(a)
    out = [
        y.grad_fn is kept[0],
        y.grad_fn.number,
        [None if t is None else t.tolist() for t in y.grad_fn.saved_tensors],
    ]
    out.append(y.grad_fn.saved_tensors[0] is a)
    y.sum().backward()
    out += [a.grad, attempt(lambda: y.grad_fn.saved_tensors), attempt(y.sum().backward)]
    out.append(
        attempt(_make(torch, lambda ctx, x: ctx.save_for_backward(3) or x * 1, None).apply, a)
    )
    out.append(
        attempt(_make(torch, lambda ctx, x: ctx.save_for_backward([x]) or x * 1, None).apply, a)
    )
    return out


@cases
def saved_and_overwritten(torch):
    def forward(ctx, x):
        y = x * 2
        ctx.save_for_backward(x, y)
        return y

    f = _make(torch, forward, lambda ctx, g: g * len(ctx.saved_tensors))
    a = _t(torch, [1.0, 2.0])
    b = a * 1
    c = f.apply(b)
    b.add_(1)
    out = [attempt(c.sum().backward)]
    b = a * 1
    c = f.apply(b)
    c.mul_(2)
    return [*out, attempt(c.sum().backward)]


@cases
def once(torch):
    once_differentiable = torch.autograd.function.once_differentiable

    class F(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            seen.append(torch.is_grad_enabled())
            (x,) = ctx.saved_tensors
            return g * 2 * x

    seen = []
    a = _t(torch, [1.0, 2.0])
    F.apply(a).sum().backward()
    out = [a.grad.clone()]
    (g,) = torch.autograd.grad(F.apply(a).sum(), a, create_graph=True)
    out += [g.requires_grad, attempt(torch.autograd.grad, g.sum(), a)]
    (g,) = torch.autograd.grad((F.apply(a) * a).sum(), a, create_graph=True)
    return [*out, g.requires_grad, attempt(torch.autograd.grad, g.sum(), a), seen]


@cases
def double_backward(torch):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return Square.apply(x) * g * 3

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    a = _t(torch, [1.0, 2.0])
    (g,) = torch.autograd.grad(Cube.apply(a).sum(), a, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), a, create_graph=True)
    (k,) = torch.autograd.grad(h.sum(), a)
    return [g, h, k]


@cases
def modes_in_forward(torch):
    seen = []

    def forward(ctx, x):
        seen.append(torch.is_grad_enabled())
        y = x * 2
        seen.append(y.requires_grad)
        with torch.enable_grad():
            seen.append((x * 2).requires_grad)
        return y

    f = _make(torch, forward, lambda ctx, g: g * 2)
    a = _t(torch, 1.0)
    out = [f.apply(a).requires_grad]
    with torch.no_grad():
        y = f.apply(a)
        out += [y.requires_grad, name_of(y.grad_fn)]
    out.append(f.apply(a.detach()).requires_grad)
    return [*out, seen]


@cases
def non_tensor_arguments(torch):
    def forward(ctx, x, number, text, items, flag=True):
        ctx.items = items
        return x * number + len(text) + sum(items)

    f = _make(torch, forward, lambda ctx, g: (g * len(ctx.items), None, None, None))
    a = _t(torch, [1.0, 2.0])
    y = f.apply(a, 2.0, "abc", [1, 2])
    y.sum().backward()
    return [y, a.grad, attempt(lambda: f.apply(a, 2.0, "a", [1], flag=False).tolist())]


@cases
def lists_of_tensors(torch):
    """Tensors inside lists are not arguments that get gradients."""
    f = _make(torch, lambda ctx, x, items: x * items[0], lambda ctx, g: (g, None))
    a, b = _t(torch, [1.0, 2.0]), _t(torch, [3.0, 4.0])
    y = f.apply(a, [b])
    y.sum().backward()
    z = f.apply(a.detach(), [b])
    return [y, a.grad, b.grad, z.requires_grad]


@cases
def same_input_twice(torch):
    f = _make(torch, lambda ctx, x, y: x * 2 + y, lambda ctx, g: (g * 2, g))
    a = _t(torch, [1.0, 2.0])
    f.apply(a, a).sum().backward()
    return a.grad


@cases
def integer_outputs_and_inputs(torch):
    f = _make(
        torch, lambda ctx, x, i: (x[i], i * 2), lambda ctx, g, gi: (torch.ones(3) * g.sum(), None)
    )
    a, i = _t(torch, [1.0, 2.0, 3.0]), torch.tensor([0, 2])
    y, j = f.apply(a, i)
    y.sum().backward()
    return [y, j, j.requires_grad, a.grad]


@cases
def attributes(torch):
    f = _make(torch, lambda ctx, x: x * 1, lambda ctx, g: g)
    a = _t(torch, 1.0)
    node = f.apply(a).grad_fn
    return [
        node.name(),
        type(node).__name__,
        isinstance(node, torch.autograd.graph.Node),
        isinstance(node, torch.autograd.function.FunctionCtx),
        list(node.needs_input_grad),
        node.next_functions[0][0],
        attempt(lambda: f()(a)).split(":")[0],
        list(node.saved_tensors),
    ]


@cases
def subclasses(torch):
    class Base(torch.autograd.Function):
        scale = 2

        @classmethod
        def forward(cls, ctx, x):
            return x * cls.scale

        @classmethod
        def backward(cls, ctx, g):
            return g * cls.scale

    class Sub(Base):
        scale = 5

    a = _t(torch, 1.0)
    out = [attempt(lambda: Base.apply(a)), attempt(lambda: Sub.apply(a))]
    attempt(lambda: (Base.apply(a) + Sub.apply(a)).backward())
    return [*out, a.grad]


@cases
def hooks_on_function_nodes(torch):
    seen = []
    f = _make(torch, lambda ctx, x: x * 2, lambda ctx, g: g * 2)
    a = _t(torch, [1.0, 2.0])
    y = f.apply(a)
    y.grad_fn.register_hook(lambda gi, go: seen.append([gi[0].tolist(), go[0].tolist()]))
    y.grad_fn.register_prehook(lambda go: (go[0] * 10,))
    y.register_hook(lambda g: g + 1)
    y.sum().backward()
    return [seen, a.grad]


@cases
def straight_through(torch):
    class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, g):
            return g.clamp(-1, 1)

    a = _t(torch, [0.3, 1.7])
    (Round.apply(a) * torch.tensor([5.0, -0.5])).sum().backward()
    return a.grad


@pytest.mark.parametrize("name", cases.names())
def test_as_recorded(name):
    cases.check(flambeau, name)


@pytest.mark.oracle
@pytest.mark.parametrize("name", cases.names())
def test_record_is_true(name):
    cases.check(pytest.importorskip("torch"), name)
