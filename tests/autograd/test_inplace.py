"""In-place writes: version counters, histories of views and bases, what is forbidden."""

import pytest

import flambeau
from tests.autograd.behaviour import Cases, attempt, name_of

cases = Cases("inplace")


def _t(torch, data, grad=True, dtype=None):
    return torch.tensor(data, dtype=dtype or torch.float32, requires_grad=grad)


def _steps(torch, text, **space):
    """Run statements; the gradients of a afterwards, or the complaint."""

    def run():
        values = {"torch": torch, "a": _t(torch, [[1.0, 2.0], [3.0, 4.0]]), **space}
        values["w"] = torch.tensor([[1.0, -2.0], [3.0, 0.5]])
        exec(text, values)
        return [values["a"].grad, values.get("out")]

    return attempt(run)


@cases
def versions(torch):
    a = torch.zeros(4)
    out = [a._version]
    for text in """a.add_(1)|a[0] = 3|a[1:].mul_(2)|a.zero_()|a.copy_(torch.ones(4))|a.fill_(2)
        a.view(2, 2)[0, 0] = 1|a.detach().add_(1)|a += 1
        a.data.add_(1)|a.exp_()|a.clamp_(0, 1)|a.uniform_()|torch.add(a, 1, out=a)|a[a > 0] = 1
        a.unsqueeze_(0)|a.squeeze_()|a.masked_fill_(a > 0, 2)
        a.index_fill_(0, torch.tensor([0]), 1)|a.numpy()[0] = 2|a.requires_grad_()
        a.requires_grad_(False)|a.resize_(2)""".replace("\n", "|").split("|"):
        exec(text.strip(), {"torch": torch, "a": a})
        out.append([text.strip(), a._version])
    b = torch.zeros(2)
    v = b[0]
    v.add_(1)
    return [*out, b._version, v._version, b.clone()._version]


@cases
def saved_and_overwritten(torch):
    found = {}
    for text in (
        "b = a * 2; c = b * b; b.add_(1); c.sum().backward()",
        "b = a.exp(); b.mul_(2); b.sum().backward()",
        "b = a.exp(); c = b * 3; b.add_(1); c.sum().backward()",
        "b = a * 2; c = b * w; b.add_(1); c.sum().backward()",
        "b = a * 2; c = b.sigmoid(); c[0] = 1; c.sum().backward()",
        "b = a * 2; c = b ** 2; b.zero_(); c.sum().backward()",
        "c = a * w; w.add_(1); w.add_(1); c.sum().backward()",
        "c = a * a\nwith torch.no_grad(): a.add_(1)\nc.sum().backward()",
        "b = a * 2; c = b @ w; w[0, 0] = 1; c.sum().backward()",
        "b = a * 2; c = b.tanh(); b.zero_(); c.sum().backward()",
        "b = a * 2; c = b + 1; b.zero_(); c.sum().backward()",
        "b = a * 2; c = b.relu_(); c.sum().backward()",
        "b = a * 2; v = b[0]; c = v * v; b.add_(1); c.sum().backward()",
        "b = a * 2; v = b[0]; c = v * v; v.add_(1); c.sum().backward()",
        "b = a.softmax(0); b.mul_(2); b.sum().backward()",
        "b = (a * 2).double(); c = b.exp().log(); b.zero_(); c.sum().backward()",
    ):
        found[text] = _steps(torch, text)
    return found


@cases
def leaves(torch):
    found = {}
    for text in (
        "a.add_(1)",
        "a += 1",
        "a[0] = 1",
        "a.zero_()",
        "a.copy_(w)",
        "a.fill_(1)",
        "a[0].add_(1)",
        "a.view(4).add_(1)",
        "a.t().mul_(2)",
        "a.data.add_(1); (a * a).sum().backward()",
        "a.detach().add_(1); (a * a).sum().backward()",
        "with torch.no_grad(): a.add_(1)\n(a * a).sum().backward()",
        "with torch.no_grad(): a[0] = 5\n(a * a).sum().backward()",
        "v = a[0]\nwith torch.no_grad(): v.zero_()\n(a * a).sum().backward()",
        "a.uniform_()",
        "a.normal_()",
        "a.exp_()",
        "a.clamp_(0, 1)",
        "a.masked_fill_(a > 1, 0.)",
        "a[a > 1] = 0.",
        "a.index_fill_(0, torch.tensor([0]), 1.)",
        "a.unsqueeze_(0)",
        "a.t_()",
        "torch.add(w, 1, out=a)",
        "torch.add(a, 1, out=w)",
        "torch.mm(a, w, out=w.clone())",
        "a.resize_(1)",
        "a.requires_grad_(False); a.add_(1); a.requires_grad_(); (a * a).sum().backward()",
        "a.scatter_(0, torch.zeros(1, 2, dtype=torch.int64), 1.)",
        "w.add_(a); (w * w).sum().backward()",
        "w[0] = a[1]; (w * w).sum().backward()",
        "w.copy_(a); w.mul_(a); w.sum().backward()",
    ):
        found[text] = _steps(torch, text)
    return found


@cases
def chains(torch):
    found = {}
    for text in (
        "b = a * 2; b.add_(1); b.mul_(3); b.sum().backward(); out = b.grad_fn",
        "b = a * 2; b.mul_(b); b.sum().backward(); out = b.grad_fn",
        "b = a * 2; b.mul_(a); b.sum().backward(); out = b.grad_fn",
        "b = a.clone(); b *= w; b += a; b -= 1; b /= 2; (b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b.exp_(); b.sum().backward(); out = b.grad_fn",
        "b = a.clone(); b.exp_(); b.sigmoid_(); b.pow_(2); b.neg_(); (b * w).sum().backward(); "
        "out = b.grad_fn",
        "b = a.clone(); b.relu_(); b.clamp_(0, 3); b.abs_(); b.sqrt_(); "
        "(b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b.zero_(); b.sum().backward(); out = b.grad_fn",
        "b = a.clone(); b.fill_(3); (b * a).sum().backward()",
        "b = a.clone(); b.copy_(w); (b * a).sum().backward(); out = b.grad_fn",
        "b = w.clone(); b.copy_(a * 2); (b * b).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b.masked_fill_(w > 0, 0.); (b * b).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b.t_(); (b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b.unsqueeze_(0); b.squeeze_(); (b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b.addmm_(w, a); (b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b.addcmul_(w, a, value=2); (b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b.lerp_(w, 0.3); (b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b.triu_(); (b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b.cumsum_(0); (b * w).sum().backward()",
        "b = a.clone(); b.index_add_(0, torch.tensor([0, 0]), a); (b * w).sum().backward(); "
        "out = b.grad_fn",
        "b = a.clone(); b.scatter_(0, torch.tensor([[0, 1]]), a[:1] * 2); "
        "(b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b.sub_(a, alpha=3); (b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b.add_(a[0]); (b * w).sum().backward(); out = b.grad_fn",
        "b = torch.zeros(2, 2); b.add_(a); b.mul_(a); b.sum().backward(); out = b.grad_fn",
        "b = torch.zeros(2, 2)\nfor i in range(2): b[i] = a[i] * i + b[i - 1]\n"
        "(b * w).sum().backward(); out = b.grad_fn",
    ):
        found[text] = _steps(torch, text)
    return found


@cases
def through_views(torch):
    found = {}
    for text in (
        "b = a.clone(); b[0].mul_(3); (b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); v = b[0]; v.mul_(3); (v * v).sum().backward(); out = v.grad_fn",
        "b = a.clone(); v = b[0]; v.mul_(3); ((b * w).sum() + (v * v).sum()).backward(); "
        "out = v.grad_fn",
        "b = a.clone(); v = b[0]; b.mul_(3); (v * v).sum().backward(); out = v.grad_fn",
        "b = a.clone(); v = b.t(); u = v[0]; u.add_(1); v.mul_(2); b.exp_(); "
        "((u + b[0]) * w[0]).sum().backward(); out = u.grad_fn",
        "b = a.clone(); b[:, 0] = a[:, 1]; (b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b[0, 0] = 5.; (b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b[w > 0] = 5.; (b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b[w > 0] *= 2; (b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b[[1, 0]] = a * 2; (b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b[0] = b[1] * 2; (b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b.view(4)[1:3].mul_(2); (b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b.diagonal().zero_(); (b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b.diagonal().copy_(a[0]); (b * w).sum().backward(); out = b.grad_fn",
        "b = a.clone(); b.t()[0].copy_(a[1] * a[0]); (b * w).sum().backward(); out = b.grad_fn",
        "b = torch.zeros(2, 2); v = b[0]; v.copy_(a[1]); (b * w).sum().backward(); "
        "out = [b.requires_grad, v.requires_grad, b.grad_fn, v.grad_fn]",
        "b = torch.zeros(2, 2); v = b[0]; u = b[1]; v.add_(a[1]); u.add_(1); "
        "(b * w).sum().backward(); out = [u.requires_grad, u.grad_fn]",
        "b = torch.zeros(2, 2); v = b[0]; b.add_(a); (v * v).sum().backward(); "
        "out = [v.requires_grad, v.grad_fn]",
        "b = a.clone(); v = b.expand(3, 2, 2); v.add_(1)",
        "b = a.clone(); v = b[0].expand(2, 2); v[0].add_(1); v.sum().backward()",
        "b = a.clone(); x, y = b.unbind(); x.mul_(2)",
        "b = a.clone(); x, y = b.split(1); x.mul_(2)",
        "b = a.clone(); x, y = b.chunk(2); x.mul_(2); b.sum().backward()",
        "b = a.clone(); x, y = b.unbind(); b.mul_(2); x.sum().backward()",
        "b = a.clone()\nwith torch.no_grad(): v = b[0]\nv.mul_(2)",
        "b = a.clone()\nwith torch.no_grad(): v = b[0]\nb.mul_(2); "
        "out = [v.requires_grad, v.is_leaf]; v.grad_fn",
        "b = torch.ones(2, 2)\nwith torch.no_grad(): v = b[0]\nv.mul_(a[0]); "
        "out = [b.grad_fn, v.grad_fn]",
        "b = a.clone(); v = b[0].detach(); v.mul_(2); (b * w).sum().backward(); "
        "out = v.requires_grad",
        "b = a.clone(); v = b.view(4); v.neg_(); v[0].mul_(5); b.sum().backward(); out = b.grad_fn",
        "b = a.clone(); b[0].neg_(); c = b.sum(); c.backward(); c.backward()",
        "b = a.clone(); b.neg_(); c = b.sum(); c.backward(); c.backward()",
        "b = a.clone(); v = b[0]; v.mul_(v); b.sum().backward(); out = v",
        "b = a.clone(); v = b[0]; v.mul_(b[1]); (b * w).sum().backward(); out = v",
        "b = a.clone(); v = b[0]; u = v[0:1]; u.mul_(3); v.mul_(2); (u * b).sum().backward(); "
        "out = [u.grad_fn, v.grad_fn]",
        "b = a.clone(); v = b.unsqueeze(0); v.squeeze_(); v.mul_(2); b.sum().backward(); "
        "out = v.grad_fn",
        "b = a.clone(); b[:] = a * a; (b * w).sum().backward(); out = b",
        "b = a.clone(); b[...] = 2.; b.sum().backward(); out = b",
        "b = a.clone(); b[None][0, 1] += a[0]; (b * w).sum().backward(); out = b",
        "b = a * 1; b[0] += b[1]; b[1] += b[0]; (b * w).sum().backward(); out = b",
        "b = a.clone(); v = b[0]; b.detach_(); out = [b.requires_grad, v.requires_grad, v.is_leaf]",
        "b = torch.ones(2, 2); b[0] = a[0]; out = [b.is_leaf, b[1].requires_grad]; "
        "g, = torch.autograd.grad((b * b * a).sum(), a, create_graph=True); g.sum().backward()",
    ):
        found[text] = _steps(torch, text)
    return found


@cases
def second_derivatives(torch):
    found = {}
    for text in (
        "b = a.clone(); b.mul_(a); b.exp_()",
        "b = a.clone(); b[0].mul_(a[1]); b[1] = b[0] * b[1]",
        "b = a.clone(); v = b.t()[0]; v.pow_(3); b = b * v",
        "b = torch.zeros(2, 2); b[0] = a[0] ** 3; b[:, 1] *= a[1]",
        "b = a * 1; b.sigmoid_().mul_(b.detach() + a)",
    ):
        text += "; g, = torch.autograd.grad((b * b).sum(), a, create_graph=True); out = g"
        found[text] = _steps(torch, text + "; (g * g).sum().backward()")
    return found


@cases
def names_after_writes(torch):
    a = _t(torch, [[1.0, 2.0], [3.0, 4.0]])
    b = a.clone()
    v, t, s, flat = b[0], b.t(), b[:, 1:], b.view(4)
    one = b[0][0]
    b.mul_(2)
    out = [name_of(x.grad_fn) for x in (b, v, t, s, flat, one)]
    v.mul_(2)
    out += [name_of(x.grad_fn) for x in (b, v, t, s, flat, one)]
    out += [
        [name_of(f) for f, _ in b.grad_fn.next_functions],
        [name_of(f) for f, _ in v.grad_fn.next_functions],
    ]
    return out


@cases
def bases(torch):
    a = _t(torch, [[1.0, 2.0], [3.0, 4.0]])
    b = a * 2
    v = b[0]
    u = v[0]
    d = b.detach()
    e = d[0]
    return [
        v._base is b,
        u._base is b,
        b._base,
        d._base,
        e._base is d,
        a[0]._base is a,
        a.t().t()._base is a,
        v._is_view(),
        d._is_view(),
        a.clone()._is_view(),
        b.reshape(4)._base is b,
        a.expand(3, 2, 2)._base is a,
        b.contiguous()._base is None,
        b.double()._base is None,
        b.view_as(b)._base is b,
        b.data[0]._base is b,
        b.unbind()[0]._base is b,
        b.flatten()._base is b,
        b.T._base is b,
        b.real._base,
    ]


@cases
def expanded_targets(torch):
    a = torch.zeros(3).expand(2, 3)
    b = torch.zeros(1).expand(3)
    c = torch.arange(4.0)
    return [
        attempt(a.add_, 1),
        attempt(a.copy_, torch.ones(2, 3)),
        attempt(b.__setitem__, 0, 1.0),
        attempt(a.mul_, torch.ones(3)),
        attempt(a.zero_),
        attempt(a.fill_, 1),
        attempt(c[1:].copy_, c[:-1]),
        attempt(c[1:].add_, c[:-1]),
        attempt(c.add_, torch.ones(2, 4)),
        attempt(c.add_, torch.ones(3)),
        attempt(torch.arange(3).add_, 1.5),
        attempt(torch.arange(3).copy_, torch.ones(3) * 1.5),
        attempt(torch.arange(3).mul_, torch.ones(3)),
        attempt(c.copy_, torch.ones(3)),
    ]


@cases
def increments(torch):
    a = torch.zeros(3)
    torch.autograd.graph.increment_version(a)
    torch.autograd.graph.increment_version([a, a[0]])
    return a._version


@cases
def integer_views(torch):
    a = torch.zeros(3, dtype=torch.int64)
    a[0] = 3
    a[1:] += 2
    b = _t(torch, [1.0, 2.0, 3.0])
    c = b.clone()
    c[a > 2] = 0.0
    c[a.clamp(max=2)] = b
    c.sum().backward()
    return [a, b.grad, a._version]


@pytest.mark.parametrize("name", cases.names())
def test_as_recorded(name):
    cases.check(flambeau, name)


@pytest.mark.oracle
@pytest.mark.parametrize("name", cases.names())
def test_record_is_true(name):
    cases.check(pytest.importorskip("torch"), name)


def test_filling_a_fresh_tensor_asks_the_collector_nothing(monkeypatch):
    """Looking through all objects for views takes milliseconds; there is but the one written to."""
    asked = []
    monkeypatch.setattr("flambeau.autograd.views._tell_views", asked.append)
    source = flambeau.ones(3, requires_grad=True)
    target = flambeau.zeros(2, 3)
    target[0] = source * 2
    assert not asked and target.requires_grad
    target = flambeau.zeros(2, 3)
    other = target[1]
    target[0] = source * 2
    assert len(asked) == 1 and other is not None  # with another view it must
