"""Transforms in each other, models, writes, random numbers, and functions of their own."""

import copy
import gc
import warnings

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import interposing, nn
from flambeau.func import (
    debug_unwrap,
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    rearrange,
    replace_all_batch_norm_modules_,
    stack_module_state,
    vjp,
    vmap,
)
from flambeau.utils.checkpoint import checkpoint

one = torch.tensor(1.0)


@pytest.fixture
def x():
    return torch.randn(3, 4, dtype=torch.float64)


def close(a, b, tolerance=1e-10):
    assert a.shape == b.shape
    assert (a - b).abs().max() <= tolerance


# -- nesting ---------------------------------------------------------------------------------------


def test_perturbations_are_not_confused():
    def inner_grad(x):
        return x * grad(lambda y: x + y)(one)

    def inner_jvp(x):
        return x * jvp(lambda y: x + y, (one,), (one,))[1]

    assert grad(inner_grad)(one) == 1
    assert grad(inner_jvp)(one) == 1
    assert jvp(inner_jvp, (one,), (one,))[1] == 1
    assert jvp(inner_grad, (one,), (one,))[1] == 1
    deep = grad(lambda x: grad(lambda y: grad(lambda z: x * y * z * z)(y))(x))
    assert deep(one * 2) == 16  # d/dx d/dy 2 x y y at y = x


def test_orders_of_nesting_agree(x):
    def f(a):
        return (a.sin() * a.cumsum(0)).sum()

    wanted = torch.stack([torch.autograd.functional.hessian(f, row) for row in x])
    close(vmap(hessian(f))(x), wanted)
    close(vmap(jacrev(jacfwd(f)))(x), wanted)
    close(vmap(jacrev(grad(f)))(x), wanted)
    close(torch.stack([jacfwd(grad(f))(row) for row in x]), wanted)
    close(hessian(lambda a: vmap(f)(a).sum())(x).sum((0, 1)), wanted.sum(1).T.contiguous().T, 100)


def test_gradient_of_a_batch_of_gradients(x):
    w = torch.randn(4, dtype=torch.float64)

    def outer(w):
        return vmap(grad(lambda row: (row * w).sin().sum()))(x).pow(2).sum()

    v = w.clone().requires_grad_()
    (x.mul(v).cos() * v).pow(2).sum().backward()
    close(grad(outer)(w), v.grad)
    leaf = w.clone().requires_grad_()
    outer(leaf).backward()  # ordinary backward through it
    close(leaf.grad, v.grad)


def test_jvp_of_parts_that_do_not_move(x):
    value, moved = jvp(lambda a, b: (a * 2, b * 3), (x, x), (torch.zeros_like(x), x))
    close(value[0], x * 2)
    close(moved[1], x * 3)
    assert jvp(lambda a: x, (x,), (x,))[1].abs().max() == 0
    with pytest.raises(RuntimeError, match="independent"):
        jvp(lambda a: x, (x,), (x,), strict=True)


def test_reverse_of_forward_and_forward_of_reverse(x):
    row, direction = x[0], x[1]

    def f(a):
        return (a.softmax(0) * a).sum()

    second = torch.autograd.functional.hessian(f, row) @ direction
    close(jvp(grad(f), (row,), (direction,))[1], second)
    close(grad(lambda a: jvp(f, (a,), (direction,))[1])(row), second)


def test_what_is_outside_stays_connected(x):
    leaf = x[0].clone().requires_grad_()
    found = grad(lambda a: (a**3).sum())(leaf)
    assert found.requires_grad
    found.sum().backward()
    close(leaf.grad, 6 * x[0])
    assert not grad(lambda a: (a**3).sum())(x[0]).requires_grad
    with torch.no_grad():
        assert not grad(lambda a: (a**3).sum())(leaf).requires_grad
    captured = x[1].clone().requires_grad_()
    value = jvp(lambda a: (a * captured).sum(), (x[0],), (x[2],))[1]
    value.backward()
    close(captured.grad, x[2])


def test_functions_that_keep_aux_and_trees(x):
    def f(tree, scale):
        return (tree["a"] * tree["b"][0] * scale).sum(), {"seen": tree["a"] + 1}

    tree = {"a": x[0], "b": [x[1]]}
    found, aux = grad(f, has_aux=True)(tree, 2.0)
    close(found["a"], 2 * x[1])
    close(found["b"][0], 2 * x[0])
    close(aux["seen"], x[0] + 1)
    _, (value, _) = grad_and_value(f, has_aux=True)(tree, 2.0)
    close(value, 2 * (x[0] * x[1]).sum())
    rows = vmap(lambda t: t["a"] + t["b"][0], in_dims=({"a": 0, "b": [None]},))(
        {"a": x, "b": [x[0]]}
    )
    close(rows, x + x[0])
    blocks = jacrev(lambda a, b: {"s": a * b}, argnums=(0, 1))(x[0], x[1])
    close(blocks["s"][0], torch.diag(x[1]))
    blocks = jacfwd(lambda a, b: (a * b, a), argnums=(0, 1))(x[0], x[1])
    close(blocks[0][1], torch.diag(x[0]))
    assert blocks[1][1].abs().max() == 0
    close(jacfwd(lambda a: (a * 2, a + 1), has_aux=True)(x[0])[1], x[0] + 1)
    close(jacrev(lambda a: (a * 2, a + 1), has_aux=True)(x[0])[1], x[0] + 1)


def test_linearize_runs_the_function_once(x):
    runs = []

    def f(a):
        runs.append(1)
        return a.sin(), a.sum()

    value, push = linearize(f, x)
    for direction in (x, x + 1):
        moved = push(direction)
        close(moved[0], direction * x.cos())
        close(moved[1], direction.sum())
    assert len(runs) == 1
    close(value[0], x.sin())


def test_chunks(x):
    close(vmap(torch.sin, chunk_size=2, out_dims=1)(x), x.sin().T.contiguous())
    close(jacrev(torch.sin, chunk_size=3)(x), jacrev(torch.sin)(x))
    close(jacrev(torch.sin, chunk_size=1)(x), jacrev(torch.sin)(x))


def test_batched_vectors_of_autograd(x):
    leaf = x[0].clone().requires_grad_()
    out = leaf.exp() * leaf
    (found,) = torch.autograd.grad(out, leaf, torch.eye(4, dtype=x.dtype), is_grads_batched=True)
    close(found.detach(), torch.diag((leaf.exp() * (leaf + 1)).detach()))


def test_nothing_stays_behind(x):
    gc.collect()
    gc.disable()
    try:
        vmap(grad(lambda a: (a.sin() * a).sum()))(x)
        jvp(grad(lambda a: (a.sin() * a).sum()), (x,), (x,))
        from flambeau.transforms.levels import Wrapped

        assert not [t for t in gc.get_objects() if type(t) is Wrapped]
    finally:
        gc.enable()
    assert not interposing.is_active() or not any(
        type(h).__name__ == "_Transforming" for h in interposing.handlers()
    )


# -- writes ----------------------------------------------------------------------------------------


def test_writes_into_what_moves(x):
    def f(a):
        out = torch.zeros(4, dtype=a.dtype)
        out[1:] = a[:3] * 2
        out[0] = 3
        out += a
        return out

    value, moved = jvp(f, (x[0],), (x[1],))
    close(value, f(x[0]))
    wanted = x[1].clone()
    wanted[1:] += 2 * x[1][:3]
    close(moved, wanted)


def test_indices_with_samples(x):
    places = torch.tensor([0, 3, 1])
    close(vmap(lambda a, k: a[k])(x, places), x[torch.arange(3), places])
    close(vmap(lambda k: x[0][k])(places), x[0][places])

    def put(a, k):
        a = a.clone()
        a[k] = 5.0
        return a

    wanted = x.clone()
    wanted[torch.arange(3), places] = 5.0
    close(vmap(put)(x, places), wanted)
    several = torch.tensor([[0, 1], [3, 3], [2, 0]])
    close(vmap(lambda a, k: a[k])(x, several), x.gather(1, several))
    close(vmap(lambda a, k: a.index_select(0, k))(x, several), x.gather(1, several))
    table = torch.randn(2, 4, 3)
    wanted = torch.stack([table[:, k] for k in several])
    close(vmap(lambda k: table[:, k])(several), wanted)
    batch = torch.randn(3, 2, 4, 5)
    wanted = torch.stack([b[:, k] for b, k in zip(batch, several)])
    close(vmap(lambda b, k: b[:, k])(batch, several), wanted)


# -- random numbers --------------------------------------------------------------------------------


def test_randomness():
    rows = torch.ones(3, 50)
    different = vmap(lambda a: a * torch.randn(50), randomness="different")(rows)
    assert not torch.equal(different[0], different[1])
    same = vmap(lambda a: a * torch.randn(50), randomness="same")(rows)
    assert torch.equal(same[0], same[1])
    for randomness, alike in (("same", True), ("different", False)):
        dropped = vmap(F.dropout, randomness=randomness)(rows)
        assert torch.equal(dropped[0], dropped[1]) == alike
        assert set(dropped.flatten().tolist()) == {0.0, 2.0}
        coins = vmap(lambda a: torch.bernoulli(a * 0.5), randomness="different")(rows)
        assert coins.shape == rows.shape and not torch.equal(coins[0], coins[1])
        drawn = vmap(torch.rand_like, randomness=randomness)(rows)
        assert torch.equal(drawn[0], drawn[1]) == alike
    close(vmap(lambda a: F.dropout(a, training=False))(rows), rows)
    slopes = vmap(grad(lambda a: F.dropout(a).sum()), randomness="different")(rows)
    assert set(slopes.flatten().tolist()) == {0.0, 2.0}
    value, moved = jvp(lambda a: F.dropout(a), (rows,), (rows,))
    close(value, moved)
    channels = vmap(lambda a: F.dropout2d(a), randomness="different")(torch.ones(3, 2, 8, 4, 4))
    assert (channels.amax((-1, -2)) == channels.amin((-1, -2))).all()
    selu = vmap(lambda a: F.alpha_dropout(a, training=True), randomness="different")(rows)
    assert len(set(selu.flatten().tolist())) == 2


DRAWING = {
    "dropout": lambda a: F.dropout(a),
    "dropout of all dimensions": lambda a: torch.dropout(a, 0.5, True),
    "native": lambda a: torch.native_dropout(a, 0.5, True)[0],
    "alpha": lambda a: F.alpha_dropout(a, training=True),
    "channels": lambda a: F.dropout1d(a[:, None])[:, 0],
    "rrelu": lambda a: F.rrelu(-a, training=True),
    "bernoulli": lambda a: torch.bernoulli(a / 2),
    "chance": lambda a: torch.bernoulli(a, 0.5),
    "poisson": lambda a: torch.poisson(a * 10),
    "binomial": lambda a: torch.binomial(a * 10, a / 2),
    "gamma": lambda a: torch._standard_gamma(a),
    "dirichlet": lambda a: torch._sample_dirichlet(a),
    "multinomial": lambda a: torch.multinomial(a, 30),
    "mean": lambda a: torch.normal(a, 1.0),
    "deviation": lambda a: torch.normal(0.0, a),
    "both": lambda a: torch.normal(mean=a, std=a),
    "sizes": lambda a: torch.normal(0.0, 1.0, (40,)),
    "integers": lambda a: torch.randint(100, (40,)),
    "order": lambda a: torch.randperm(40),
    "like": lambda a: torch.rand_like(a),
    "moving": lambda a: jvp(F.dropout, (a,), (a,))[1],
    "slopes": lambda a: grad(lambda b: F.dropout(b).sum())(a),
    "distribution": lambda a: torch.distributions.Gamma(a, a).sample(),
}


@pytest.mark.parametrize("name", DRAWING)
@pytest.mark.parametrize(
    ("inner", "outer", "place"),
    [
        ("same", "different", None),
        ("different", "same", None),
        ("different", "different", None),
        ("different", "same", 0),
        ("different", "different", 0),
    ],
)
def test_numbers_differ_where_they_are_asked_to(name, inner, outer, place):
    """Also where the tensor itself is the same for all samples (place None), in any nesting."""
    given = torch.ones(40) if place is None else torch.ones(3, 40)
    each = vmap(lambda a, _: DRAWING[name](a), (place, 0), randomness=inner)
    found = vmap(lambda _: each(given, torch.zeros(3)), randomness=outer)(torch.zeros(2))
    assert found.shape[:2] == (2, 3)
    assert (found[0] == found[1]).all() == (outer == "same")
    assert (found[:, 0] == found[:, 1]).all() == (inner == "same")


def test_vmap_above_jvp_draws_for_its_samples():
    row = torch.ones(50)

    def f(a):
        return vmap(lambda s: F.dropout(a) * s, randomness="different")(torch.ones(3))

    value, moved = jvp(f, (row,), (row,))
    close(value, moved)
    assert not torch.equal(value[0], value[1])


def test_multinomial_of_stacks():
    weights = torch.eye(3).expand(2, 3, 3)
    found = vmap(lambda w: torch.multinomial(w, 4, True), randomness="different")(weights)
    assert found.tolist() == [[[k] * 4 for k in range(3)]] * 2


def test_distributions_of_samples():
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    found = vmap(lambda a: torch.distributions.Normal(a, a).log_prob(a))(rows)
    close(found, torch.distributions.Normal(rows, rows).log_prob(rows))
    wide = vmap(lambda a: torch.distributions.MultivariateNormal(a, torch.diag_embed(a)).entropy())
    close(wide(rows), torch.distributions.MultivariateNormal(rows, rows.diag_embed()).entropy())
    assert vmap(lambda a: a if torch._is_all_true(a > 0) else -a)(rows).tolist() == rows.tolist()
    assert vmap(lambda a: -a if torch._is_any_true(a > 3) else a)(rows).tolist() == (-rows).tolist()


# -- models ----------------------------------------------------------------------------------------


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.layer(self.table(x)).mean(1))


MODELS = {
    "perceptron": (
        lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 5)),
        lambda: torch.randn(4, 6),
    ),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.GroupNorm(2, 8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, groups=2),
            nn.GELU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 5),
        ),
        lambda: torch.randn(4, 3, 8, 8),
    ),
    "transformer": (Transformer, lambda: torch.randint(0, 11, (4, 7))),
}


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_each_sample_of_a_model(name):
    make, inputs = MODELS[name]
    model, samples = make(), inputs()
    targets = torch.randint(0, 5, (4,))
    parameters = {n: p.detach() for n, p in model.named_parameters()}

    def loss(parameters, sample, target):
        scores = functional_call(model, parameters, (sample.unsqueeze(0),))
        return F.cross_entropy(scores, target.unsqueeze(0))

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing runs one by one
        found = vmap(grad(loss), (None, 0, 0))(parameters, samples, targets)
    for k in range(4):
        model.zero_grad()
        F.cross_entropy(model(samples[k : k + 1]), targets[k : k + 1]).backward()
        for n, p in model.named_parameters():
            close(found[n][k], p.grad, 1e-5)


def test_ensembles():
    models = [nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5)) for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    x = torch.randn(4, 6)
    found = vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))(parameters, buffers)
    close(found, torch.stack([m(x) for m in models]), 1e-6)
    found.sum().backward()
    assert parameters["0.weight"].grad.shape == (3, 8, 6)


def test_batch_norms_that_keep_nothing():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    x = torch.randn(5, 6, 4)
    parameters = dict(model.named_parameters())
    with pytest.raises(RuntimeError, match="Batch norm got a batched tensor as input"):
        vmap(lambda a: functional_call(model, parameters, (a,)))(x)
    replace_all_batch_norm_modules_(model)
    found = vmap(lambda a: functional_call(model, parameters, (a,)))(x)
    close(found, torch.stack([model(a) for a in x]), 1e-5)


# -- functions with a derivative of their own ------------------------------------------------------


class Product(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(a, b):
        return a * b, a + b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g, h):
        a, b = ctx.saved_tensors
        return g * b + h, g * a + h

    @staticmethod
    def jvp(ctx, s, t):
        a, b = ctx.saved_tensors
        return s * b + a * t, s + t


class ByRule(Product):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, a, b):
        assert info.batch_size == 3 and info.randomness == "error"
        first, second = (
            t.unsqueeze(0) if d is None else t.movedim(d, 0) for t, d in zip((a, b), in_dims)
        )
        return Product.apply(first, second), (0, 0)


class Root(torch.autograd.Function):
    """Saves its result."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a):
        return a.abs().sqrt()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, g):
        a, root = ctx.saved_tensors
        return g * a.sign() / (2 * root)


@pytest.mark.parametrize("function", [Product, ByRule])
def test_custom_functions(function, x):
    def custom(a, b):
        first, second = function.apply(a, b)
        return (first.sin() * second).sum()

    def plain(a, b):
        return ((a * b).sin() * (a + b)).sum()

    for dims in ((0, 0), (0, None), (None, 0)):
        args = tuple(x if d == 0 else x[1] for d in dims)
        close(vmap(custom, dims)(*args), vmap(plain, dims)(*args))
        for f, g in zip(
            vmap(grad(custom, (0, 1)), dims)(*args), vmap(grad(plain, (0, 1)), dims)(*args)
        ):
            close(f, g)
        close(
            grad(lambda a, b: vmap(custom, dims)(a, b).sum())(*args),  # noqa: B023
            grad(lambda a, b: vmap(plain, dims)(a, b).sum())(*args),  # noqa: B023
        )
    close(jvp(custom, (x, x), (x + 1, x))[1], jvp(plain, (x, x), (x + 1, x))[1])
    if function is Product:
        close(hessian(lambda a: custom(a, x[0]))(x[1]), hessian(lambda a: plain(a, x[0]))(x[1]))


def test_custom_functions_that_save_results(x):
    close(vmap(grad(lambda a: Root.apply(a).sum()))(x), x.sign() / (2 * x.abs().sqrt()))
    close(
        grad(lambda a: vmap(lambda row: Root.apply(row).sum())(a).sum())(x),
        x.sign() / (2 * x.abs().sqrt()),
    )


# -- small things ----------------------------------------------------------------------------------


def test_what_tensors_inside_look_like(x):
    shown = []

    def look(a):
        shown.append(repr(a))
        assert a.shape == (4,) and a.ndim == 1 and a.device == x.device and a.dtype is x.dtype
        assert a.is_cpu and not a.is_meta and len(a) == 4
        assert torch.equal(debug_unwrap(a), x)
        assert not a.requires_grad
        return a.to(torch.float32).double()

    vmap(look)(x)
    assert shown[0].startswith("BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[")


def test_tensors_of_a_transform_that_has_ended_are_refused(x):
    kept = []
    vmap(lambda a: kept.append(a) or a)(x)
    with pytest.raises(RuntimeError, match="has ended"):
        vmap(lambda a: a + kept[0])(x)


def test_casts_and_new_tensors(x):
    def f(a):
        zeros = a.new_zeros(2)
        zeros[0] = a[0]
        return torch.cat([zeros, torch.ones_like(a), a.float().to(a), a.new_full((1,), 3.0)])

    close(vmap(f)(x), torch.stack([f(a) for a in x]), 1e-6)
    mixed = vmap(lambda a, s: a + s)(torch.ones(3, 4), torch.ones(3, dtype=torch.float64))
    assert mixed.dtype is torch.float32  # numbers do not widen, whether there are many or not


def test_what_is_no_number_of_the_kind_that_moves(x):
    moved = jvp(lambda a: a.long().double() + a, (x,), (x,))[1]
    close(moved, x)
    value, moved = jvp(lambda a: (a > 0, a.argmax(), a), (x,), (x,))
    assert value[0].dtype is torch.bool and not moved[0].any()


def test_autocast(x):
    rows = x.float().unsqueeze(1)
    with torch.autocast("cpu", torch.bfloat16):
        assert vmap(lambda a: a @ a.T)(rows).dtype is torch.bfloat16
        assert jvp(lambda a: a @ a.mT, (rows,), (rows,))[1].dtype is torch.bfloat16


def test_copies(x):
    close(vmap(lambda a: copy.copy(a) + copy.deepcopy(a))(x), 2 * x)


def test_contiguous(x):
    close(vmap(lambda a: a.T.contiguous().view(-1))(x.reshape(3, 2, 2)), x[:, [0, 2, 1, 3]])


def test_functionalize_and_rearrange(x):
    assert functionalize(lambda a: a.clone().add_(1))(x).shape == x.shape
    with pytest.raises(RuntimeError, match="received invalid argument"):
        functionalize(torch.sin, remove="all")
    close(rearrange(x, "a (b c) -> c a b", b=2), x.reshape(3, 2, 2).permute(2, 0, 1).contiguous())
    close(rearrange(x, "... b -> b ..."), x.T.contiguous())
    with pytest.raises(ValueError):
        rearrange(x, "a b -> a c")
    close(rearrange(x, "a b -> a 1 (b)"), x[:, None])
    close(rearrange([x, x], "k ... -> (k ...)"), torch.stack([x, x]).reshape(-1))


@pytest.mark.parametrize(
    ("pattern", "sizes", "start"),
    [
        ("a b", {}, "Pattern must contain a single '->' separator"),
        ("a -> a -> a", {}, "Pattern must contain a single '->' separator"),
        ("a b -> b", {}, "Identifiers only on one side of rearrange expression"),
        ("a ... -> a", {}, "Identifiers only on one side of rearrange expression"),
        ("a b c -> a b c", {}, "Number of dimensions in pattern (3) must be equal to the number"),
        ("a b c ... -> a b c ...", {}, "Number of dimensions in pattern (3) must be less than or"),
        ("a 2 -> a", {}, "rearrange only supports unnamed axes of size 1"),
        ("a b -> a b", {"c": 2}, "Identifiers not found in rearrange expression: {'c'}"),
        ("a a -> a", {}, "Indexing expression contains duplicate dimension 'a'"),
        ("a b -> (...) a b", {}, "Ellipsis found in right side, but not left side of a pattern"),
        ("(...) b -> ... b", {}, "Ellipsis is parenthesis in the left side is not allowed"),
        ("... a ... -> a", {}, "Expression may contain dots only inside ellipsis (...); only one"),
        ("a . b -> a b", {}, "Expression may contain dots only inside ellipsis (...)"),
        ("1a b -> b", {}, "Invalid axis identifier: 1a"),
        ("_a b -> b _a", {}, "Invalid axis identifier: _a"),
        ("(a b -> a b", {}, "Imbalanced parentheses in expression: '(a b '"),
        ("a b) -> a b", {}, "Brackets are not balanced"),
        ("a ((b)) -> a b", {}, "Axis composition is one-level"),
        ("a? b -> b", {}, "Unknown character '?'"),
        ("a b -> a b", {"a": 3.0}, "rearrange axis lengths must be integers, got: <class 'float'>"),
    ],
)
def test_patterns_that_are_refused(x, pattern, sizes, start):
    with pytest.raises((ValueError, TypeError)) as error:
        rearrange(x, pattern, **sizes)
    assert str(error.value).startswith(start)


def test_jvp_moves_where_forward_mode_is_off(x):
    with torch.autograd.forward_ad._set_fwd_grad_enabled(False):
        close(jvp(torch.sin, (x,), (torch.ones_like(x),))[1], x.cos())


def test_chunks_draw_the_same_numbers():
    torch.manual_seed(3)
    drawn = vmap(lambda a: a * 0 + torch.rand(2), randomness="same", chunk_size=2)(torch.ones(5))
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(2).expand(5, 2))


def test_only_the_bias_of_a_convolution_has_samples(x):
    images, weight = torch.randn(2, 3, 6), torch.randn(4, 3, 2)
    biases = torch.randn(5, 4)
    for given in (images, images[0]):
        found = vmap(F.conv1d, in_dims=(None, None, 0))(given, weight, biases)
        close(found, torch.stack([F.conv1d(given, weight, b) for b in biases]), 1e-5)


def test_pulling_takes_one_tree_and_switches():
    _, pull = vjp(lambda a: (a, a * 2), torch.ones(2))
    given = torch.ones(2), torch.ones(2)
    assert pull(given, True, True)[0].tolist() == pull(cotangents=given)[0].tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="same as pytree structure of outputs"):
        pull(*given)


def test_rules_are_told_where_lists_have_samples():
    told = []

    class Noted(Product):
        generate_vmap_rule = False

        @staticmethod
        def vmap(info, in_dims, a, rest):
            told.append((in_dims, type(rest)))
            return a, 0

    for make in (list, tuple):
        vmap(lambda a, make=make: Noted.apply(a, make((a, torch.ones(3), 2))))(torch.ones(2))
    assert told == [((0, [0, None, None]), list), ((0, (0, None, None)), tuple)]


@pytest.mark.parametrize("name", ["grad", "jacrev", "vmap", "make_functional"])
def test_functorch_warns_of_where_it_is_now(name):
    from flambeau._functorch import older

    home = {"vmap": "torch.vmap", "make_functional": "torch.func.functional_call"}
    text = f"`functorch.{name}` is deprecated .* use `{home.get(name, 'torch.func.' + name)}`"
    with pytest.warns(FutureWarning, match=text):
        getattr(older, name)(torch.nn.Linear(1, 1))


def test_vjp_under_vmap(x):
    _, pull = vjp(lambda a: a.sin(), x[0])
    close(vmap(lambda g: pull(g)[0])(x), x * x[0].cos())


def test_ranges_between_bounds_of_samples(x):
    low, high = x[:, 0], x[:, 1]
    wanted = torch.stack([torch.linspace(a.item(), b.item(), 5) for a, b in zip(low, high)])
    close(vmap(lambda a, b: torch.linspace(a, b, 5))(low, high), wanted, 1e-6)
    close(vmap(lambda a, b: torch.logspace(a, b, 5, 2.0))(low, high), 2.0**wanted, 1e-6)
    close(vmap(lambda a: torch.linspace(a, 3, 1))(low), low[:, None], 1e-6)


def test_masked_medians_of_samples(x):
    wanted = torch.stack([torch.masked.median(a, 0, mask=a > a.min()) for a in x])
    close(vmap(lambda a: torch.masked.median(a, 0, mask=a > a.amin()))(x), wanted)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_of_histograms_finds_edges_per_sample():
    x = torch.arange(6.0).reshape(2, 3)
    counts, edges = torch.vmap(lambda v: torch.histogram(v, 3))(x)
    assert counts.tolist() == [[1, 1, 1], [1, 1, 1]]
    assert edges[:, 0].tolist() == [0, 3] and edges[:, -1].tolist() == [2, 5]


# -- what has its own way --------------------------------------------------------------------------


def test_resize_is_over_the_memory_of_all_samples(x):
    given = x.clone()
    found = vmap(lambda row: row.resize_(2, 2))(given)
    assert torch.equal(found, x.view(3, 2, 2)) and given.shape == (3, 2, 2)
    found = vmap(lambda row: row.clone().resize_(2))(x)
    assert torch.equal(found, x.flatten()[:6].view(3, 2))
    assert vmap(lambda row: torch.ones(6).resize_(4) + row)(x).shape == (3, 4)
    with pytest.raises(RuntimeError, match="batch dim != 0"):
        vmap(lambda row: row.clone().resize_(2), in_dims=1)(x)


def test_new_tensors_have_the_strides_that_were_asked_for(x):
    assert vmap(lambda row: row.new_empty_strided((2, 3), (1, 2)))(x).stride() == (6, 1, 2)


def test_ctc_loss_of_samples(x):
    scores = torch.randn(3, 5, 2, 4, dtype=torch.float64).log_softmax(-1)
    targets = torch.tensor([[[1, 2], [2, 3]], [[3, 1], [1, 1]], [[2, 1], [3, 2]]])
    for lengths in (((5, 4), (2, 1)), (torch.tensor([5, 4]), torch.tensor([2, 1]))):

        def loss(s, t):
            return F.ctc_loss(s, t, *lengths)  # noqa: B023

        with warnings.catch_warnings():
            warnings.simplefilter("error")  # not one by one
            close(vmap(loss)(scores, targets), torch.stack([*map(loss, scores, targets)]))
            found = vmap(grad(loss), (0, None))(scores, targets[0])
        close(found, torch.stack([grad(loss)(s, targets[0]) for s in scores]))


def test_factored_solves_of_samples():
    a = torch.randn(3, 2, 4, 4, dtype=torch.float64)
    factors, pivots = torch.linalg.ldl_factor(a + a.mT)
    right = torch.randn(4, 1, dtype=torch.float64)
    solve = torch.linalg.ldl_solve
    found = vmap(solve, (0, 0, None))(factors, pivots, right)
    close(found, torch.stack([solve(f, p, right) for f, p in zip(factors, pivots)]))


def test_counts_and_places_of_samples():
    x = torch.tensor([[1.0, 0, 2], [0, 0, 3]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert vmap(torch.count_nonzero)(x).tolist() == [2, 1]
        assert vmap(torch.count_nonzero)(x[0]).tolist() == [1, 0, 1]
    with pytest.warns(UserWarning, match="nonzero_static"):
        found = vmap(lambda row: torch.nonzero_static(row, size=2))(x)
    assert found.tolist() == [[[0], [2]], [[2], [-1]]]


def test_cond_takes_a_way_for_each_sample():
    ways = (lambda a: {"a": a + 1}, lambda a: {"a": -a})
    which = torch.tensor([True, False])
    found = vmap(lambda p, a: torch.cond(p, *ways, (a,)), (0, None))(which, torch.ones(2))
    assert found["a"].tolist() == [[2, 2], [-1, -1]]


def test_checkpoints_inside_of_transforms(x):
    def once(row):
        return (row.sin() * row).sum()

    def twice(row):
        return checkpoint(lambda a: a.sin() * a, row, use_reentrant=False).sum()

    close(vmap(grad(twice))(x), vmap(grad(once))(x))
    close(hessian(twice)(x[0]), hessian(once)(x[0]))
    close(jacrev(grad(twice))(x[0]), hessian(once)(x[0]))
    close(vmap(hessian(twice))(x), vmap(hessian(once))(x))


@pytest.mark.filterwarnings("ignore:std_mean")
def test_statistics_of_nothing_move_to_nan():
    value, moved = jvp(lambda a: torch.std_mean(a, 0), (torch.zeros(0),), (torch.zeros(0),))
    assert all(t.isnan() for t in (*value, *moved))
    constant = torch.ones(3)
    assert jvp(torch.std, (constant,), (torch.arange(3.0),))[1] == 0


def test_statistics_of_groups_have_gradients():
    x = torch.randn(2, 4, 3, dtype=torch.float64).requires_grad_()

    def spelled(x):
        rows = x.reshape(2, 2, -1)
        mean = rows.mean(2)
        scale = (rows.var(2, correction=0) + 1e-5).rsqrt()
        normal = (rows - mean.unsqueeze(2)) * scale.unsqueeze(2)
        return normal.sin().sum() + mean.exp().sum() + scale.sin().sum()

    def row(x):
        out, mean, scale = torch.native_group_norm(x, None, None, 2, 4, 3, 2, 1e-5)
        return out.sin().sum() + mean.exp().sum() + scale.sin().sum()

    close(torch.autograd.grad(row(x), x)[0], torch.autograd.grad(spelled(x), x)[0])
    close(hessian(row)(x.detach()), hessian(spelled)(x.detach()), 1e-8)


def test_steps_of_vmap_may_be_replaced(x, monkeypatch):
    from flambeau._functorch import vmap as steps

    class Rows(dict):
        """A batch that is no tree of tensors."""

    def process(in_dims, args, func):
        size = len(args[0]["rows"])
        return size, [0], [args[0]["rows"]], "rows"

    def create(dims, leaves, vmap_level, spec):
        assert spec == "rows"
        return (Rows(rows=steps._add_batch_dim(leaves[0], dims[0], vmap_level)),)

    def unwrap(results, out_dims, vmap_level, batch_size, func):
        rows = steps._remove_batch_dim(results["rows"], vmap_level, batch_size, out_dims)
        return Rows(rows=rows)

    monkeypatch.setattr(steps, "_process_batched_inputs", process)
    monkeypatch.setattr(steps, "_create_batched_inputs", create)
    monkeypatch.setattr(steps, "_unwrap_batched", unwrap)
    found = vmap(lambda sample: Rows(rows=sample["rows"].cumsum(0)), out_dims=1)(Rows(rows=x))
    assert isinstance(found, Rows)
    close(found["rows"], x.cumsum(1).t())


def test_lines_between_ends_of_samples():
    ends = torch.tensor([1 + 2j, 2.0])
    found = vmap(lambda a: torch.linspace(a, 3, 4))(ends)
    wanted = torch.stack([torch.linspace(e, 3, 4) for e in ends.tolist()])
    assert found.dtype is torch.complex64 and (found - wanted).abs().max() < 1e-6
    assert vmap(lambda a: torch.linspace(0, a, 3))(ends.real.double()).dtype is torch.float64


def test_complex_gradients_of_cholesky():
    """Of the factor, not of a function of Hermitian matrices: as PyTorch has them."""
    a = torch.tensor([[2, 1j], [-1j, 3]], dtype=torch.complex128)
    g = torch.tensor([[1 + 1j, 0], [2 - 1j, 1j]], dtype=torch.complex128)
    L = torch.linalg.cholesky(a)
    inner = (L.mH @ g).tril()
    wanted = L.mH.inverse() @ (inner + inner.tril(-1).mH) @ L.inverse() / 2
    close(vjp(torch.linalg.cholesky, a)[1](g)[0], wanted)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_weights_of_logits_move(reduction):
    """Gradients of weights are refused, their tangents count."""
    values = torch.rand(4, 3, 2, dtype=torch.float64) + 0.1
    tangents = torch.randn(4, 3, 2, dtype=torch.float64)

    def loss(logits, target, weight, pos_weight):
        options = {"pos_weight": pos_weight, "reduction": reduction}
        return F.binary_cross_entropy_with_logits(logits, target, weight, **options)

    step = 1e-6
    ahead, behind = loss(*(values + step * tangents)), loss(*(values - step * tangents))
    found = jvp(loss, tuple(values), tuple(tangents))[1]
    close(found, (ahead - behind) / (2 * step), 1e-7)


@pytest.mark.parametrize("ord", [1.5, 2, 3, 3.5])
def test_norms_of_nothing_do_not_move(ord):
    zeros = torch.zeros(3)
    assert jvp(lambda a: torch.linalg.norm(a, ord), (zeros,), (zeros + 1,))[1] == 0


def test_what_is_written_into_an_argument_that_does_not_move():
    def f(x, y):
        x[:2] = y
        return (x**2).sum()

    y = torch.tensor([1.0, 2.0])
    assert jacfwd(f, 1)(torch.ones(3), y).tolist() == [2, 4]


def test_custom_functions_without_writes():
    found = functionalize(Product.apply)(torch.ones(2), torch.ones(2))
    assert [t.tolist() for t in found] == [[1, 1], [2, 2]]


def test_normal_numbers_around_samples():
    mean, std = torch.arange(3.0) * 100, torch.tensor([0.5, 1.0])
    draw = torch.func.vmap(lambda m: torch.normal(m, std), randomness="different")
    found = draw(mean)
    assert found.shape == (3, 2) and (found - mean[:, None]).abs().max() < 20
    same = torch.func.vmap(lambda m: torch.normal(m, 1.0), randomness="same")
    with pytest.raises(RuntimeError, match="does not currently support same randomness"):
        same(mean)
    value, slope = torch.func.jvp(lambda m: torch.normal(m, 1.0) * m, (mean,), (mean,))
    assert torch.equal(value, slope)
    assert torch.func.grad(lambda m: torch.normal(m, 1.0).sum())(mean).tolist() == [0.0] * 3
