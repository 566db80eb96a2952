"""How gradients reach .grad: added, kept or copied; their strides and dtypes; assigning .grad."""

import pytest

import flambeau
from tests.autograd.behaviour import Cases, attempt

cases = Cases("accumulate")


def _t(torch, data, grad=True, dtype=None):
    return torch.tensor(data, dtype=dtype or torch.float32, requires_grad=grad)


@cases
def adding_up(torch):
    a = _t(torch, [1.0, 2.0])
    out = [a.grad]
    for _ in range(3):
        (a * a).sum().backward()
        out.append(a.grad.clone())
    a.grad.zero_()
    (a * 3).sum().backward()
    out.append(a.grad.clone())
    a.grad = None
    (a * 4).sum().backward()
    return [*out, a.grad]


@cases
def in_place_or_not(torch):
    """Without create_graph later gradients are added to the tensor that is already there."""
    a = _t(torch, [1.0, 2.0])
    (a * a).sum().backward()
    first = a.grad
    version = first._version
    (a * a).sum().backward()
    out = [first is a.grad, first, first._version - version]
    (a * a).sum().backward(create_graph=True)
    out += [first is a.grad, first, a.grad, a.grad.requires_grad]
    last = a.grad
    (a * a).sum().backward()
    return [*out, last is a.grad, a.grad, a.grad.requires_grad]


@cases
def under_no_grad(torch):
    a = _t(torch, [1.0, 2.0])
    b = (a * a).sum()
    with torch.no_grad():
        b.backward()
    return [a.grad, a.grad.requires_grad]


@cases
def two_leaves_do_not_share(torch):
    a, b = _t(torch, [1.0, 2.0]), _t(torch, [3.0, 4.0])
    (a + b).sum().backward()
    out = [a.grad.data_ptr() != b.grad.data_ptr()]
    a.grad.mul_(10)
    out += [a.grad, b.grad]
    a.grad = b.grad = None
    g = torch.tensor([1.0, 2.0])
    (a + b).backward(g)
    a.grad.mul_(10)
    out += [a.grad, b.grad, g]
    a.grad = None
    a.backward(g)
    a.grad.mul_(10)
    out += [g, a.grad]
    a.grad = None
    c = a + 1
    c.retain_grad()
    c.sum().backward()
    a.grad.mul_(10)
    return [*out, c.grad]


@cases
def grad_results_do_not_share_with_grad(torch):
    a = _t(torch, [1.0, 2.0])
    g = torch.tensor([1.0, 2.0])
    (r,) = torch.autograd.grad(a + 0, a, g)
    return [r.data_ptr() == g.data_ptr(), r]


@cases
def strides(torch):
    out = []
    base = torch.arange(6.0).reshape(2, 3)
    a = base.t().detach().requires_grad_()
    (a * 2).sum().backward()
    out.append([list(a.stride()), list(a.grad.stride()), a.grad])
    a = base.clone().requires_grad_()
    a.t().mul(torch.ones(3, 2)).sum().backward()
    out.append([list(a.stride()), list(a.grad.stride())])
    a = base.clone().requires_grad_()
    a.sum().backward()
    out.append(list(a.grad.stride()))
    a = base.clone().requires_grad_()
    a.t().backward(torch.ones(3, 2))
    out.append(list(a.grad.stride()))
    a = torch.arange(12.0).reshape(3, 4)[:, ::2].detach().requires_grad_()
    (a * 2).sum().backward()
    out.append([list(a.stride()), list(a.grad.stride())])
    a = torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last).requires_grad_()
    (a * 2).sum().backward()
    out.append([list(a.stride()), list(a.grad.stride())])
    a = torch.ones(3).expand(2, 3).detach().requires_grad_()
    (a * 2).sum().backward()
    out.append([list(a.stride()), list(a.grad.stride())])
    a = torch.ones(2, 1, 3).requires_grad_()
    a.transpose(0, 1).exp().sum().backward()
    out.append([list(a.stride()), list(a.grad.stride())])
    return out


@cases
def dtypes(torch):
    out = []
    for d in ("float16", "bfloat16", "float32", "float64", "complex64"):
        a = _t(torch, [1.0, 2.0], dtype=getattr(torch, d))
        (a * torch.tensor([1.0, 2.0], dtype=torch.float64)).abs().sum().backward()
        out.append(a.grad)
    return out


@cases
def assigning(torch):
    a = _t(torch, [1.0, 2.0])
    b = a * 2
    out = [
        attempt(setattr, a, "grad", torch.ones(3)),
        attempt(setattr, a, "grad", torch.ones(2, dtype=torch.float64)),
        attempt(setattr, a, "grad", 1.0),
        attempt(setattr, a, "grad", a),
        attempt(setattr, a, "grad", [1.0, 2.0]),
        attempt(setattr, a, "grad", torch.ones(2)),
        a.grad,
    ]
    a.grad = None
    mine = torch.zeros(2)
    a.grad = mine
    (a * 3).sum().backward()
    out += [mine, a.grad is mine]
    del a.grad
    out += [a.grad]
    c = torch.ones(2)
    c.grad = torch.ones(2)
    out += [c.grad]
    b.grad = torch.ones(2)
    return [*out, b.grad]


@cases
def retained(torch):
    a = _t(torch, [1.0, 2.0])
    b = a * 2
    out = [b.retains_grad, a.retains_grad]
    b.retain_grad()
    b.retain_grad()
    a.retain_grad()
    out += [b.retains_grad, a.retains_grad]
    (b * b).sum().backward(retain_graph=False)
    out += [b.grad, a.grad, b.grad.requires_grad]
    out += [attempt(torch.ones(1).retain_grad)]
    e = a.exp()
    e.retain_grad()
    for _ in range(2):
        (e * 2).sum().backward(retain_graph=True)
    out += [e.grad]
    e.grad = None
    torch.autograd.grad((e * e).sum(), a, create_graph=True)
    out += [e.grad.requires_grad, e.grad]
    return out


@cases
def retained_after_hooks_in_place(torch):
    a = _t(torch, [1.0, 2.0])
    b = a * 2
    b.retain_grad()
    b.register_hook(lambda g: g * 10)
    b.register_hook(lambda g: g + 1)
    b.sum().backward()
    out = [b.grad, a.grad]
    c = a * 3
    c.retain_grad()
    c.mul_(2)
    c.sum().backward()
    return [*out, c.grad]


@cases
def grad_of_a_nonleaf(torch):
    import warnings

    a = _t(torch, [1.0, 2.0])
    b = a * 2
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        b.sum().backward()
        found = b.grad
    return [
        found,
        [str(w.message).split(". ")[0] for w in seen],
        [w.category.__name__ for w in seen],
    ]


@cases
def leaf_used_as_grad(torch):
    a = _t(torch, [1.0, 2.0])
    (a * a).sum().backward()
    g = a.grad
    b = (g * a).sum()
    b.backward()
    return [a.grad, g is a.grad]


@cases
def grad_shared_with_saved(torch):
    """The gradient that arrives is also an argument of the graph: it must not be written to."""
    a, w = _t(torch, [1.0, 2.0]), torch.tensor([5.0, 6.0])
    for _ in range(3):
        (a * w).sum().backward()
    return [a.grad, w]


@cases
def expanded_gradients(torch):
    a = _t(torch, [1.0, 2.0, 3.0])
    a.sum().backward()
    out = [list(a.grad.stride()), a.grad._is_view()]
    a.grad[0] = 7
    out += [a.grad]
    b = _t(torch, [1.0, 2.0, 3.0])
    b.backward(torch.tensor(1.0).expand(3))
    b.grad[1] = 4
    return [*out, b.grad, list(b.grad.stride())]


@cases
def data_swapped(torch):
    a = _t(torch, [1.0, 2.0])
    (a * a).sum().backward()
    a.data = torch.tensor([5.0, 6.0])
    out = [a.grad.clone(), a.requires_grad, a.is_leaf]
    (a * a).sum().backward()
    out += [a.grad]
    a.data -= 0.1 * a.grad
    a.data.add_(1)
    out += [a, a._version, attempt(setattr, a, "data", torch.ones(3, dtype=torch.int64))]
    out += [attempt(setattr, a, "data", 3)]
    return out


@cases
def data_is_not_counted(torch):
    a = _t(torch, [1.0, 2.0])
    b = a * a
    a.data.mul_(10)
    a.data[0] = 3.0
    out = [a._version, a]
    b.sum().backward()
    c = a.exp()
    c.data.zero_()
    c.sum().backward()
    out += [a.grad, c._version]
    d = a.data
    d.add_(1)
    out += [d._version, a._version, d.requires_grad, d._is_view()]
    e = a.detach()
    e.add_(1)
    return [*out, e._version, a._version]


@cases
def data_shares_memory(torch):
    a = torch.arange(6.0).reshape(2, 3)
    d = a.data
    v = d[1]
    v.zero_()
    out = [a, d._version, a._version, v._is_view(), v._base is d]
    out += [d.untyped_storage().data_ptr() == a.untyped_storage().data_ptr()]
    del a, d
    return [*out, v]


@pytest.mark.parametrize("name", cases.names())
def test_as_recorded(name):
    cases.check(flambeau, name)


@pytest.mark.oracle
@pytest.mark.parametrize("name", cases.names())
def test_record_is_true(name):
    cases.check(pytest.importorskip("torch"), name)


def test_first_gradient_is_kept():
    """A fresh gradient becomes .grad without a copy."""
    a = flambeau.tensor([1.0, 2.0], requires_grad=True)
    seen = []
    a.register_hook(lambda g: seen.append(g.data_ptr()))
    (a * flambeau.tensor([3.0, 4.0])).sum().backward()
    assert a.grad.data_ptr() == seen[0]


def test_a_sum_of_gradients_that_was_passed_on_is_not_added_to():
    p, q = (flambeau.ones(3, requires_grad=True) for _ in range(2))
    u = p + q  # its gradient is a sum of two, and goes to p and to q as one tensor
    (u * 2 + u * 3 + p).sum().backward()
    assert p.grad.tolist() == [6.0] * 3 and q.grad.tolist() == [5.0] * 3
    assert p.grad.data_ptr() != q.grad.data_ptr()


def test_gradients_keep_no_large_storage_alive():
    """A part of a long tensor of gradients is copied; what is most of one is kept."""
    leaf = flambeau.zeros(1000, requires_grad=True)
    (flambeau.cat([leaf, flambeau.ones(9000)]) * 2.0).sum().backward()
    assert leaf.grad._storage.nbytes < 20_000


def test_neighbours_in_memory_are_not_joined():
    whole = flambeau.arange(24.0).reshape(2, 12)
    x = flambeau.zeros(2, 12, requires_grad=True)
    for parts in (whole.split(4, 1), whole.split([3, 9], 1), whole.chunk(2, 0)):
        dim = int(parts[0].shape[0] == 2)
        sizes = [p.shape[dim] for p in parts]
        found = flambeau.autograd.grad(x.split(sizes, dim), x, parts)[0]
        assert found.equal(whole) and found.data_ptr() == whole.data_ptr()
    swapped = [whole[:, 4:8], whole[:, :4], whole[:, 8:]]
    found = flambeau.autograd.grad(x.split(4, 1), x, swapped)[0]
    assert found.equal(flambeau.cat(swapped, 1)) and found.data_ptr() != whole.data_ptr()
    x.grad = None
    flambeau.autograd.backward(x.split(4, 1), whole.split(4, 1))
    assert x.grad.equal(whole) and x.grad.data_ptr() != whole.data_ptr()
