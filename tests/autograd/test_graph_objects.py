"""Nodes, saved values, hooks and custom functions as programs see them from outside, as recorded
from PyTorch."""

import warnings

import pytest

import flambeau
from tests.autograd.behaviour import Cases, attempt, sentence

cases = Cases("graph_objects")


def _t(torch, values, grad=True):
    return torch.tensor(values, requires_grad=grad)


def _warned(function, *args, **kwargs):
    """The first sentences of what a call warns of."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function(*args, **kwargs)
    return [sentence(w.message) for w in found]


def _function(torch, forward, backward=None, jvp=None, **members):
    def static(f):
        return None if f is None else staticmethod(f)

    named = {"forward": forward, "backward": backward, "jvp": jvp}
    named |= members
    return type(
        "Thing",
        (torch.autograd.Function,),
        {k: static(f) for k, f in named.items() if f is not None},
    )


@cases
def calls_of_nodes(torch):
    a = _t(torch, [1.0, 2.0])
    node = (a**2).grad_fn
    g = torch.ones(2)
    used = (a * 3).grad_fn
    return [
        node(g),
        attempt(node),
        attempt(node, g, g),
        used(g),
        (a * _t(torch, [3.0, 4.0])).grad_fn(g),
    ]


@cases
def saved_values_with_hooks(torch):
    a = _t(torch, [1.0, 2.0])
    y = a * a
    raw = y.grad_fn._raw_saved_self
    out = [
        attempt(torch.autograd.SavedTensor),
        attempt(raw.register_hooks, 1, 2).split(":")[0],
        raw.register_hooks(lambda t: t * 2, lambda t: t + 1),
        y.grad_fn._saved_self.tolist(),
        attempt(raw.register_hooks, lambda t: t, lambda t: t),
    ]
    y.sum().backward()
    out += [a.grad, attempt(raw.register_hooks, lambda t: t, lambda t: t)]
    e = a.exp()
    e.grad_fn._raw_saved_result.register_hooks(lambda t: t * 0 + 5, lambda t: t)
    a.grad = None
    e.sum().backward()
    e = a.exp()
    raw = e.grad_fn._raw_saved_result
    out += [a.grad, attempt(raw.register_hooks, lambda t: t.add_(1), lambda t: t)]
    f = _function(torch, lambda ctx, x: ctx.save_for_backward(x, None) or x * 2,
                  lambda ctx, g: g * ctx.saved_tensors[0])  # fmt: skip
    y = f.apply(a)
    first, second = y.grad_fn._raw_saved_tensors
    first.register_hooks(lambda t: t * 10, lambda t: t)
    out += [
        y.grad_fn.saved_tensors[0].tolist(),
        attempt(second.register_hooks, lambda t: t, lambda t: t),
    ]
    y.sum().backward()
    return [*out, attempt(lambda: y.grad_fn._raw_saved_tensors)]


@cases
def create_graph_is_warned_of(torch):
    a = _t(torch, [1.0, 2.0])
    torch.set_warn_always(True)
    try:
        seen = [_warned((a * a).sum().backward, create_graph=True), torch.is_warn_always_enabled()]
        seen.append(_warned(torch.autograd.grad, (a * a).sum(), a, create_graph=True))
    finally:
        torch.set_warn_always(False)
    return [*seen, torch.is_warn_always_enabled(), a.grad]


@cases
def materialized_gradients_go_on(torch):
    x, a = _t(torch, 0.5), _t(torch, 1.0)
    (d,) = torch.autograd.grad(x * a, x, create_graph=True)
    options = {"allow_unused": True, "materialize_grads": True}
    (second,) = torch.autograd.grad(d, x, create_graph=True, **options)
    third = torch.autograd.grad(second, x, materialize_grads=True)
    y = x.clone()
    edge = torch.autograd.graph.get_gradient_edge(y)
    return [second, third, attempt(torch.autograd.grad, (a * 2), edge, **options)]


@cases
def passes_from_edges(torch):
    x = _t(torch, [1.0, 2.0])
    y, z = x.sin(), x.sum()
    wide, single = (torch.autograd.graph.get_gradient_edge(t) for t in (y, z))
    grad = torch.autograd.grad
    return [
        attempt(grad, wide, x),
        grad(single, x, retain_graph=True),
        attempt(grad, wide, x, torch.ones(4), retain_graph=True),
        attempt(grad, single, x, torch.ones((), dtype=torch.complex64), retain_graph=True),
        grad((single, y), x, (None, torch.ones(2))),
    ]


@cases
def hooks_of_outputs_without_gradient(torch):
    x = _t(torch, [1.0, 2.0])
    first, second = x.unbind()
    seen = []
    first.register_hook(seen.append)
    second.backward()
    return [seen, x.grad]


@cases
def retained_by_two_views(torch):
    base = _t(torch, [1.0]).clone()
    view, other = base[:], base[:]
    view.retain_grad()
    other.retain_grad()
    view.mul_(2)
    (view + other).sum().backward()
    return [view.grad, other.grad]


@cases
def spread_written_after_the_mean(torch):
    b = _t(torch, [[1.0, 2.0], [3.0, 5.0]])
    spread, mean = torch.var_mean(b, 0)
    spread.mul_(2)
    (spread + mean).sum().backward()
    return b.grad


@cases
def sparse_and_dense_gradients(torch):
    sparse = torch.sparse_coo_tensor(torch.tensor([[1, 0]]), torch.tensor([2.0, 3.0]), (3,))
    dense = torch.tensor([1.0, 1.0, 1.0])

    def given(x, grad):
        return _function(torch, lambda ctx, x: x * 1, lambda ctx, g: grad).apply(x)

    out = []
    for kinds in ((sparse, dense), (dense, sparse), (sparse, sparse), (sparse, dense, sparse)):
        x = torch.zeros(3, requires_grad=True)
        total = given(x, kinds[0])
        for grad in kinds[1:]:
            total = total + given(x, grad)
        total.sum().backward()
        out.append(x.grad.is_sparse)
        out.append(x.grad.to_dense() if x.grad.is_sparse else x.grad)
    a, b = (torch.zeros(3, requires_grad=True) for _ in range(2))
    f = _function(torch, lambda ctx, x, y: x + y, lambda ctx, g: (sparse, sparse))
    f.apply(a, b).sum().backward()
    a.grad.mul_(10)
    return [*out, b.grad.to_dense(), sparse.to_dense()]


@cases
def what_is_not_deleted(torch):
    x = _t(torch, [1.0])
    del x.grad
    return [attempt(delattr, x, name) for name in ("data", "requires_grad", "_backward_hooks")]


@cases
def data_of_another_kind(torch):
    x = torch.zeros(1)
    return attempt(setattr, x, "data", torch.sparse_coo_tensor(torch.zeros(1, 1), torch.ones(1)))


@cases
def post_accumulate_hooks_return_nothing(torch):
    x = _t(torch, [1.0])
    x.register_post_accumulate_grad_hook(lambda t: t.grad)
    return attempt(x.sum().backward)


@cases
def callbacks_of_the_engine(torch):
    queue = torch.autograd.Variable._execution_engine.queue_callback
    seen = []

    def backward(ctx, g):
        queue(lambda: seen.append("first") or queue(lambda: seen.append("second")))
        seen.append("backward")
        return g

    _function(torch, lambda ctx, x: x * 1, backward).apply(_t(torch, [1.0])).sum().backward()
    return seen


@cases
def saved_values_that_may_be_written(torch):
    allow = torch.autograd.graph.allow_mutation_on_saved_tensors
    a = _t(torch, [1.0, 2.0])

    def nested():
        with allow(), allow():
            pass

    with allow():
        b = a.clone()
        inside, outside = (b**2).sum(), (b**2).sum()
        b.sin_()
        inside.backward()
    return [a.grad, attempt(outside.backward), attempt(nested)]


@cases
def anomalies_within_anomalies(torch):
    def inner_backward(ctx, g):
        return g * float("nan")

    inner = _function(torch, lambda ctx, x: x * 2, inner_backward)
    outer = _function(torch, lambda ctx, x: x.sum(0, keepdim=True),
                      lambda ctx, g: inner.apply(g.expand(2)))  # fmt: skip

    def run():
        with torch.autograd.detect_anomaly():
            x = _t(torch, [1.0, 2.0])
            y = outer.apply(x)
            seed = torch.ones(1, requires_grad=True)
            (g,) = torch.autograd.grad(y, x, seed, create_graph=True)
            return attempt(g.sum().backward)

    return [text.split(" Traceback")[0] for text in _warned(run)]


@cases
def functions_with_both_names(torch):
    a = _t(torch, [1.0, 2.0])
    forward = lambda ctx, x: x * 2
    both = _function(torch, forward, lambda ctx, g: g, vjp=lambda ctx, g: g)
    one = _function(torch, forward, vjp=lambda ctx, g: g * 5)
    one.apply(a).sum().backward()
    return [
        attempt(both.apply(a).sum().backward),
        a.grad,
        one._backward_cls is type(one.apply(a).grad_fn),
        one._backward_cls._forward_cls is one,
        hasattr(one, "vmap"),
    ]


@cases
def functions_that_write(torch):
    a = _t(torch, [1.0, 2.0])

    def written(ctx, x):
        ctx.mark_dirty(x)
        return x.add_(1)

    def stranger(view):
        def forward(ctx, x):
            out = x * 3
            out = out[:] if view else out
            ctx.mark_dirty(out)
            return out

        return _function(torch, forward, lambda ctx, g: g).apply

    f = _function(torch, written, lambda ctx, g: g).apply
    return [
        attempt(f, a),
        attempt(f, a[:]),
        attempt(stranger(True), a.clone()),
        _warned(stranger(False), a.clone()),
    ]


@cases
def functions_that_return_their_input(torch):
    a, b = torch.ones(2), _t(torch, [1.0, 2.0])
    f = _function(torch, lambda ctx, x: x, lambda ctx, g: g).apply
    y = f(a)
    narrow = _function(torch, lambda ctx, x: x[:1], lambda ctx, g: g).apply(torch.ones(2))
    return [y is a, y._base is a, attempt(y.add_, b), attempt(narrow.add_, b[:1])]


@cases
def arguments_that_were_left_out(torch):
    def setup(ctx, inputs, output):
        ctx.y = inputs[1]

    f = _function(torch, lambda x, y=3: x * y, lambda ctx, g: (g * ctx.y, None),
                  setup_context=setup)  # fmt: skip
    a = _t(torch, [1.0])
    return torch.autograd.grad(f.apply(a), a)


@cases
def gradients_of_what_is_marked(torch):
    def forward(ctx, x):
        ctx._materialize_non_diff_grads = False
        first, second = x * 1, x * 2
        ctx.mark_non_differentiable(second)
        return first, second

    seen = []
    f = _function(torch, forward, lambda ctx, g, h: seen.append(h) or g)
    f.apply(_t(torch, [1.0]))[0].sum().backward()
    return seen


def _moved(torch, forward, jvp, tangent=True):
    """What forward mode makes of a custom function."""
    forward_ad = torch.autograd.forward_ad
    f = _function(torch, forward, lambda ctx, *g: g[0], jvp)

    def run():
        with forward_ad.dual_level():
            t = torch.ones(4)
            x = forward_ad.make_dual(torch.ones(4), t)
            outs = f.apply(x)
            outs = outs if isinstance(outs, tuple) else (outs,)
            found = [forward_ad.unpack_dual(o).tangent for o in outs]
            return [found, outs[0] is x, [u is t for u in found]]

    return attempt(run)


@cases
def functions_that_move(torch):
    def dirty(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    def marked(ctx, x):
        out = x * 1
        ctx.mark_non_differentiable(out)
        return x * 2, out

    def saved(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x, x * 2)
        return x * x

    calls = []

    def counted(ctx, x):
        calls.append(1)
        ctx.kept = x * 3
        return x * 2

    return [
        _moved(torch, lambda ctx, x: x[:2], lambda ctx, t: t[:2].clone()),
        _moved(torch, lambda ctx, x: x[:2], lambda ctx, t: t[:2].clone()[:]),
        _moved(torch, lambda ctx, x: x[:2], lambda ctx, t: t[:2]),
        _moved(torch, dirty, lambda ctx, t: t * 2),
        _moved(torch, dirty, lambda ctx, t: t.mul_(2)),
        _moved(torch, lambda ctx, x: x, lambda ctx, t: t),
        _moved(torch, lambda ctx, x: x, lambda ctx, t: t.view_as(t)),
        _moved(torch, marked, lambda ctx, t: (t * 2, t * 2)),
        _moved(torch, marked, lambda ctx, t: (t * 2, None)),
        _moved(torch, lambda ctx, x: x * 1, lambda ctx, t: (t, t)),
        _moved(torch, lambda ctx, x: x * 1, lambda ctx, t: t[:2]),
        _moved(torch, lambda ctx, x: x * 1, lambda ctx, t: 3),
        _moved(torch, saved, lambda ctx, t: t * sum(ctx.saved_tensors)),
        _moved(torch, lambda ctx, x: ctx.save_for_backward(x) or x * 1,
               lambda ctx, t: t * len(ctx.saved_tensors)),
        _moved(torch, counted, lambda ctx, t: t * ctx.kept),
        calls,
    ]  # fmt: skip


@cases
def tangents_that_nobody_knows(torch):
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        x = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        return attempt(torch.igamma, x, torch.ones(2))


@cases
def jacobians_without_recording(torch):
    from_functional = torch.autograd.functional
    x = torch.tensor([1.0, 2.0])
    with torch.no_grad():
        return [
            from_functional.jacobian(torch.exp, x, create_graph=True).requires_grad,
            from_functional.hessian(lambda t: (t**3).sum(), x, create_graph=True).requires_grad,
            from_functional.vjp(torch.exp, x, x, create_graph=True)[1].requires_grad,
        ]


@cases
def switches_of_threads(torch):
    autograd = torch.autograd
    seen = [autograd.is_multithreading_enabled()]
    with autograd.set_multithreading_enabled(False):
        seen.append(autograd.is_multithreading_enabled())
    return [*seen, autograd.is_multithreading_enabled()]


@cases
def hooks_of_modules_in_second_passes(torch):
    loss = torch.nn.MSELoss()
    seen = []
    loss.register_full_backward_hook(lambda *_: seen.append(1))
    x = _t(torch, [1.0])
    (g,) = torch.autograd.grad(loss(x, torch.zeros(1)), x, create_graph=True)
    return [seen, torch.autograd.grad(g, x), seen]


@cases
def members_listed(torch):
    x = torch.zeros(1)
    names = ("volatile", "__cuda_array_interface__", "shape", "imag", "add_")
    return [name in dir(x) for name in names]


@pytest.mark.parametrize("name", cases.names())
def test_as_recorded(name):
    cases.check(flambeau, name)


@pytest.mark.oracle
@pytest.mark.parametrize("name", cases.names())
def test_record_is_true(name):
    cases.check(pytest.importorskip("torch"), name)


def test_warnings_of_anomalies_do_not_hide_them(capsys):
    x = flambeau.ones(2, requires_grad=True)
    with warnings.catch_warnings(), flambeau.autograd.set_detect_anomaly(True):
        warnings.simplefilter("error")
        y = (x + 1) ** 2
        y.grad_fn._saved_self.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
    assert "Error detected in PowBackward0" in capsys.readouterr().err
