"""Duals by hand, and what checks and functions of autograd make of them."""

import threading

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.autograd import forward_ad, functional, gradcheck, gradgradcheck


@pytest.fixture
def x():
    return torch.randn(4, dtype=torch.float64)


@pytest.fixture
def t():
    return torch.randn(4, dtype=torch.float64)


def close(a, b, tolerance=1e-10):
    assert a.shape == b.shape
    assert (a.detach() - b.detach()).abs().max() <= tolerance


def test_tangents_go_through(x, t):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        primal, tangent = forward_ad.unpack_dual(dual.sin() * 2)
        assert forward_ad.unpack_dual(x).tangent is None
        assert forward_ad.unpack_dual(dual.detach()).tangent is None
        assert (dual > 0).dtype is torch.bool
    close(primal, 2 * x.sin())
    close(tangent, 2 * t * x.cos())


def test_through_modules_and_both_modes(x, t):
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh()).double()
    with forward_ad.dual_level():
        moved = forward_ad.unpack_dual(model(forward_ad.make_dual(x, t))).tangent
        moved.sum().backward()
    wanted = functional.jacobian(model, x) @ t
    close(moved, wanted)
    assert model[0].weight.grad.abs().max() > 0


def test_second_derivatives(x, t):
    leaf = x.clone().requires_grad_()
    second = functional.hessian(lambda a: (a**3).sum(), x) @ t
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(leaf, t)
        value = (dual**3).sum()
        (slope,) = torch.autograd.grad(value, dual, create_graph=True)
        close(forward_ad.unpack_dual(slope).tangent, second)
        forward_ad.unpack_dual(value).tangent.backward()
    close(leaf.grad, second)


def test_duals_are_plain_tensors_afterwards(x, t):
    leaf = x.clone().requires_grad_()
    with forward_ad.dual_level():
        out = forward_ad.make_dual(leaf, t).sin()
        assert out.requires_grad
    assert type(out) is torch.Tensor
    close(out + 1, x.sin() + 1)
    out.sum().backward()
    close(leaf.grad, x.cos())


def test_writes(x, t):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        whole = torch.zeros(4, dtype=x.dtype)
        whole[1] = dual[0]
        whole[2:].add_(dual[:2])
        tangent = forward_ad.unpack_dual(whole).tangent
        other = torch.ones(4, dtype=x.dtype)
        other.mul_(dual)
        close(forward_ad.unpack_dual(other).tangent, t)
    close(tangent, torch.stack([t[0] * 0, t[0], t[0], t[1]]))


def test_switch(x, t):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        assert forward_ad._is_fwd_grad_enabled()
        with forward_ad._set_fwd_grad_enabled(False):
            assert forward_ad.unpack_dual(dual * 2).tangent is None
        assert forward_ad.unpack_dual(dual * 2).tangent is not None


def test_what_duals_look_like():
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.zeros(2))
        assert repr(dual) == "tensor([1., 1.], tangent=tensor([0., 0.]))"
        assert dual.sum().item() == 2 and dual.tolist() == [1, 1] and bool(dual[0] > 0)
        assert dual.numpy().shape == (2,)


def test_threads_have_levels_of_their_own(x, t):
    found = []

    def other():
        with forward_ad.dual_level():
            found.append(forward_ad.unpack_dual(forward_ad.make_dual(x, t) * 3).tangent)

    with forward_ad.dual_level():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    close(found[0], 3 * t)


def test_by_hand(x, t):
    level = forward_ad.enter_dual_level()
    assert level == 0
    try:
        close(forward_ad.unpack_dual(forward_ad.make_dual(x, t) * 2).tangent, 2 * t)
    finally:
        forward_ad.exit_dual_level()


def test_gradcheck():
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    w = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)

    def f(x, w):
        return torch.softmax(x.sin() @ w, 1).cumsum(0)

    assert gradcheck(f, (x, w), check_forward_ad=True)
    assert gradgradcheck(f, (x, w), check_fwd_over_rev=True)
    z = torch.randn(3, dtype=torch.complex128, requires_grad=True)
    assert gradcheck(lambda z: z * z.conj() + z.abs() + z.sin(), (z,), check_forward_ad=True)

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def jvp(ctx, t):
            return t * 3

    assert gradcheck(Wrong.apply, (x,))
    with pytest.raises(RuntimeError, match="Jacobian computed with forward mode mismatch"):
        gradcheck(Wrong.apply, (x,), check_forward_ad=True)


def test_jacobians(x):
    w = torch.randn(4, 3, dtype=torch.float64)

    def f(a):
        return (a.sin() @ w).tanh(), a.prod()

    plain = functional.jacobian(f, x)
    for options in ({"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}):
        for a, b in zip(functional.jacobian(f, x, **options), plain):
            close(a, b)
            assert not a.requires_grad

    def g(a):
        return (a.sin() @ w).tanh().sum()

    second = functional.hessian(g, x)
    close(functional.hessian(g, x, vectorize=True), second)
    close(functional.hessian(g, x, vectorize=True, outer_jacobian_strategy="forward-mode"), second)


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 3)])
def test_tangents_of_pseudoinverses_agree_with_differences(shape):
    a = torch.randn(shape, dtype=torch.float64)
    t, step = torch.randn(shape, dtype=torch.float64), 1e-6
    found = torch.func.jvp(torch.linalg.pinv, (a,), (t,))[1]
    ahead, behind = (torch.linalg.pinv(a + s * t) for s in (step, -step))
    assert torch.allclose(found, (ahead - behind) / (2 * step), atol=1e-6)


def test_tangents_of_a_pseudoinverse_with_equal_singular_values():
    eye, ones = torch.eye(3, dtype=torch.float64), torch.ones(3, 3, dtype=torch.float64)
    assert torch.allclose(torch.func.jvp(torch.linalg.pinv, (eye,), (ones,))[1], -ones)


def test_nothing_moves_in_inference_mode(x, t):
    with forward_ad.dual_level(), torch.inference_mode():
        assert forward_ad.unpack_dual(forward_ad.make_dual(x, t).sin()).tangent is None
    assert forward_ad._current_level == -1


@pytest.mark.parametrize(
    "draw",
    [torch.bernoulli, torch.poisson, lambda x: torch.normal(x, 1.0), lambda x: torch.normal(x, x)],
)
def test_what_is_drawn_does_not_move(draw):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.full((3,), 0.5), torch.ones(3))
        value, tangent = forward_ad.unpack_dual(draw(dual))
        assert value.isfinite().all() and tangent.tolist() == [0.0] * 3
        assert torch.empty(3).bernoulli_(dual).shape == (3,)


def test_gradcheck_of_forward_mode(x):
    leaf, other = x.clone().requires_grad_(), x.clone().requires_grad_()

    def stretched(a, b):
        if forward_ad._current_level >= 0:
            assert not a.requires_grad and not b.requires_grad
            value, tangent = forward_ad.unpack_dual(b)
            b = forward_ad.make_dual(value, tangent * 1.1)
        return a + b

    with pytest.raises(RuntimeError, match="mismatch for output 0 with respect to input 1"):
        gradcheck(stretched, (leaf, other), check_forward_ad=True)

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            raise RuntimeError("backward")

        @staticmethod
        def jvp(ctx, t):
            raise RuntimeError("forward")

    with pytest.raises(RuntimeError, match="backward"):  # which is looked at first
        gradcheck(Fails.apply, leaf, check_forward_ad=True)
    options = {"check_forward_ad": True, "check_batched_forward_grad": True}
    assert gradcheck(lambda a, b: (a * b, a.sin()), (leaf, other), **options)
    with pytest.raises(RuntimeError, match="failed while testing batched gradient"):
        gradcheck(lambda a: a + 0 * torch.rand(4), leaf, **options)


def test_views_that_were_there_before_a_write():
    moving = torch.arange(1.0, 3.0)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.zeros(2), moving)
        table = torch.zeros(2, 2)
        row, column = table[0], table[:, 1]
        table.copy_(dual)
        assert forward_ad.unpack_dual(row).tangent.tolist() == [1, 2]
        assert forward_ad.unpack_dual(column * 2).tangent.tolist() == [4, 4]
        assert forward_ad.unpack_dual(torch.cat([row[:1], column])).tangent.tolist() == [1, 2, 2]
        row.mul_(3)
        assert forward_ad.unpack_dual(table).tangent.tolist() == [[3, 6], [1, 2]]
        table = torch.zeros(2, 2)
        one, same = table[1], table[1]
        one.copy_(dual)
        assert forward_ad.unpack_dual(same).tangent.tolist() == [1, 2]
        assert forward_ad.unpack_dual(table[0].clone()).tangent.tolist() == [0, 0]

    def f(start, end):
        table = start.clone()
        row = table[0]
        table.copy_(end)
        return row

    def push(start, end):
        return torch.func.jvp(lambda e: f(start, e), (end,), (end,))[1]

    starts, ends = torch.zeros(3, 2, 2), torch.arange(12.0).view(3, 2, 2)
    assert torch.equal(torch.vmap(push)(starts, ends), ends[:, 0])
    apart = ends.movedim(0, -1).contiguous()
    assert torch.equal(torch.vmap(push, (0, -1))(starts, apart), ends[:, 0])
    assert torch.equal(push(starts[0], ends[1].t()), ends[1].t()[0])
    assert torch.equal(torch.vmap(push, (1, -1))(starts.movedim(0, 1).clone(), apart), ends[:, 0])


def test_jvp_in_inference_mode(x, t):
    with torch.inference_mode():
        value, moved = torch.func.jvp(torch.square, (x,), (t,))
    close(value, x * x)
    close(moved, 2 * x * t)


def test_detach_in_place_ends_both_kinds_of_history(x, t):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.clone().requires_grad_(), t) * 2
        assert dual.detach_() is dual and not dual.requires_grad
        primal, tangent = forward_ad.unpack_dual(dual * 3)
        assert tangent is None and not primal.requires_grad
        close(primal, 6 * x)
    rows = torch.vmap(lambda a: (a * 2).detach_() + a)(x)
    close(rows, 3 * x)
    assert torch.func.grad(lambda a: ((a * 2).detach_() * a).sum())(x).tolist() == (2 * x).tolist()
    moved = torch.func.jvp(lambda a: (a * 2).detach_() * a, (x,), (t,))[1]
    close(moved, 2 * x * t)
