"""Small programs around torch.nn.utils, written once and run with either library.

Each takes the library and gives nested lists of numbers and texts. What PyTorch gives is recorded
in tests/golden/nn_utils.json.
"""

import copy
import warnings

SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


def plain(value):
    """Tensors, sizes and dtypes as JSON has them."""
    if hasattr(value, "tolist"):
        return value.detach().double().tolist() if value.is_floating_point() else value.tolist()
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def run(name, torch):
    torch.manual_seed(7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plain(SCENARIOS[name](torch))


def errors(*attempts):
    """Type and first line of what each attempt raises."""
    found = []
    for attempt in attempts:
        try:
            attempt()
        except Exception as error:
            found.append([type(error).__name__, str(error).splitlines()[0][:150]])
        else:
            found.append(None)
    return found


def names(module):
    return {k: list(v.shape) for k, v in module.state_dict().items()}


def backward(module, x):
    """Output and all gradients of one call."""
    module.zero_grad()
    y = module(x)
    (y * y).sum().backward()
    return [y, {k: p.grad for k, p in module.named_parameters()}]


# -- vectors, fusion, formats ----------------------------------------------------------------------


@scenario
def vectors(torch):
    utils = torch.nn.utils
    a, b = torch.nn.Parameter(torch.randn(2, 3)), torch.nn.Parameter(torch.randn(4))
    vector = utils.parameters_to_vector([a, b])
    (vector * torch.arange(10.0)).sum().backward()
    new = torch.arange(10.0)
    utils.vector_to_parameters(new, [a, b])
    new[0] = 50
    return [vector, a.grad, b.grad, a, b, errors(lambda: utils.vector_to_parameters([1], [a]))]


@scenario
def fused_convolutions(torch):
    nn = torch.nn
    found = []
    for conv, bn, shape, transpose in (
        (nn.Conv1d(2, 3, 3), nn.BatchNorm1d(3), (2, 2, 7), False),
        (nn.Conv2d(2, 4, 3, bias=False), nn.BatchNorm2d(4), (2, 2, 6, 5), False),
        (nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4, affine=False), (2, 2, 6, 5), False),
        (nn.ConvTranspose2d(2, 3, 2), nn.BatchNorm2d(3), (1, 2, 4, 4), True),
    ):
        bn(torch.randn(6, bn.num_features, *shape[2:]))
        conv.eval(), bn.eval()
        fused = nn.utils.fuse_conv_bn_eval(conv, bn, transpose)
        x = torch.randn(*shape)
        found.append(
            [fused.weight, fused.bias, fused(x), (fused(x) - bn(conv(x))).abs().max() < 1e-5]
        )
    return found


@scenario
def fused_linear(torch):
    nn = torch.nn
    linear, bn = nn.Linear(3, 4), nn.BatchNorm1d(4)
    bn(torch.randn(8, 4))
    raised = errors(
        lambda: nn.utils.fuse_linear_bn_eval(linear, bn),
        lambda: nn.utils.fuse_conv_bn_eval(nn.Conv1d(1, 1, 1), nn.BatchNorm1d(1)),
        lambda: nn.utils.fuse_linear_bn_eval(linear.eval(), nn.BatchNorm1d(3).eval()),
    )
    linear.eval(), bn.eval()
    fused = nn.utils.fuse_linear_bn_eval(linear, bn)
    x = torch.randn(5, 3)
    return [fused.weight, fused.bias, fused(x), bn(linear(x)), raised]


@scenario
def formats(torch):
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(2, 3, 2), nn.Conv3d(2, 3, 2), nn.ConvTranspose2d(2, 3, 2))
    nn.utils.convert_conv2d_weight_memory_format(model, torch.channels_last)
    nn.utils.convert_conv3d_weight_memory_format(model, torch.channels_last_3d)
    return [list(m.weight.stride()) for m in model]


@scenario
def without_initial_values(torch):
    nn = torch.nn
    made = nn.utils.skip_init(nn.Linear, 3, 4, bias=False)
    before = torch.get_rng_state().tolist()[:32]
    nn.utils.skip_init(nn.Conv2d, 1, 2, 3)
    raised = errors(lambda: nn.utils.skip_init(int), lambda: nn.utils.skip_init(nn.Flatten))
    same = before == torch.get_rng_state().tolist()[:32]
    return [list(made.weight.shape), str(made.weight.device), same, raised[1]]


@scenario
def stateless_calls(torch):
    nn, call = torch.nn, torch.func.functional_call

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.tied = self.linear
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x, scale=1.0):
            self.count = self.count + 1
            return self.tied(x) * scale

    model = Counting()
    x = torch.ones(1, 2)
    given = {"linear.weight": torch.eye(2, requires_grad=True), "count": torch.tensor(5.0)}
    y = call(model, given, (x,), {"scale": 2.0})
    y.sum().backward()
    raised = errors(
        lambda: call(model, {"nothing": x}, x),
        lambda: call(model, {"linear.weight": x}, x, strict=True),
        lambda: call(model, {"linear.weight": x, "tied.weight": x + 1}, x),
        lambda: call(model, [{"a": x}, {"a": x}], x),
        lambda: call(model, 3, x),
        lambda: call(model, [3], x),
    )
    two = [nn.Linear(2, 1), nn.Linear(2, 1)]
    params, buffers = torch.func.stack_module_state(two)
    shapes = {k: [list(v.shape), v.requires_grad, v.is_leaf] for k, v in params.items()}
    return [y, given["linear.weight"].grad, given["count"], model.count, raised, shapes, buffers]


# -- pruning ---------------------------------------------------------------------------------------


@scenario
def pruned_by_each_method(torch):
    nn, prune = torch.nn, torch.nn.utils.prune
    found = []
    for apply in (
        lambda m: prune.identity(m, "weight"),
        lambda m: prune.random_unstructured(m, "weight", 0.3),
        lambda m: prune.random_unstructured(m, "bias", 2),
        lambda m: prune.l1_unstructured(m, "weight", amount=0.4),
        lambda m: prune.l1_unstructured(m, "weight", 3, importance_scores=-m.weight.abs()),
        lambda m: prune.random_structured(m, "weight", 2, dim=0),
        lambda m: prune.random_structured(m, "weight", 0.4, dim=-1),
        lambda m: prune.ln_structured(m, "weight", 0.5, n=2, dim=1),
        lambda m: prune.ln_structured(m, "weight", 1, n=float("-inf"), dim=0),
        lambda m: prune.custom_from_mask(m, "weight", torch.arange(20).reshape(5, 4) % 3 == 0),
        lambda m: prune.ln_structured(m, "weight", 0, n=1, dim=0),
    ):
        module = apply(nn.Linear(4, 5))
        hooks = [type(h).__name__ for h in module._forward_pre_hooks.values()]
        found.append([names(module), hooks, dict(module.named_buffers()), prune.is_pruned(module)])
        found.append(backward(module, torch.randn(2, 4)))
    return found


@scenario
def pruned_convolution(torch):
    prune = torch.nn.utils.prune
    conv = torch.nn.Conv2d(3, 4, 3)
    prune.ln_structured(conv, "weight", 0.25, n=2, dim=0)
    prune.random_structured(conv, "weight", 1, dim=1)
    return [conv.weight_mask, names(conv), backward(conv, torch.randn(1, 3, 4, 4))]


@scenario
def pruned_again_and_removed(torch):
    nn, prune = torch.nn, torch.nn.utils.prune
    module = nn.Linear(4, 6)
    prune.l1_unstructured(module, "weight", 0.25)
    prune.random_unstructured(module, "weight", 0.5)
    prune.ln_structured(module, "weight", 1, n=2, dim=0)
    (hook,) = module._forward_pre_hooks.values()
    kinds = [type(m).__name__ for m in hook]
    out = backward(module, torch.randn(2, 4))
    with torch.no_grad():
        module(torch.ones(1, 4))  # the weight is no part of a graph now, and can be copied
    copied = copy.deepcopy(module)
    prune.remove(module, "weight")
    return [
        kinds, len(hook), hook._tensor_name, out, names(module), names(copied), module.weight,
        isinstance(module.weight, nn.Parameter), prune.is_pruned(module), prune.is_pruned(copied),
        copied(torch.ones(1, 4)),
    ]  # fmt: skip


@scenario
def pruned_globally(torch):
    nn, prune = torch.nn, torch.nn.utils.prune
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    places = [(model[0], "weight"), (model[2], "weight"), (model[0], "bias")]
    prune.global_unstructured(places, prune.L1Unstructured, amount=0.5)
    first = dict(model.named_buffers())
    first = copy.deepcopy(first)
    prune.global_unstructured(places[:2], prune.RandomUnstructured, amount=3)
    raised = errors(
        lambda: prune.global_unstructured(3, prune.L1Unstructured, amount=1),
        lambda: prune.global_unstructured(
            places, prune.L1Unstructured, importance_scores=[1], amount=1
        ),
    )
    kinds = [type(h).__name__ for h in model[0]._forward_pre_hooks.values()]
    return [first, dict(model.named_buffers()), kinds, raised, model(torch.randn(2, 3))]


@scenario
def pruned_by_scores_globally(torch):
    nn, prune = torch.nn, torch.nn.utils.prune
    a, b = nn.Linear(2, 3), nn.Linear(3, 2)
    scores = {(a, "weight"): torch.arange(6.0).reshape(3, 2)}
    prune.global_unstructured(
        [(a, "weight"), (b, "weight")], prune.L1Unstructured, importance_scores=scores, amount=4
    )
    return [a.weight_mask, b.weight_mask]


@scenario
def pruned_by_an_own_method(torch):
    nn, prune = torch.nn, torch.nn.utils.prune

    class EverySecond(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    module = nn.Linear(3, 4)
    EverySecond.apply(module, "weight")
    first = module.weight_mask.clone()
    EverySecond.apply(module, "weight")
    return [first, module.weight_mask, EverySecond().prune(torch.arange(6.0))]


@scenario
def pruning_errors(torch):
    nn, prune = torch.nn, torch.nn.utils.prune
    m = nn.Linear(3, 4)
    found = errors(
        lambda: prune.l1_unstructured(m, "weight", "much"),
        lambda: prune.l1_unstructured(m, "weight", 1.5),
        lambda: prune.l1_unstructured(m, "weight", -1),
        lambda: prune.l1_unstructured(m, "weight", 13),
        lambda: prune.ln_structured(m, "bias", 1, n=2, dim=0),
        lambda: prune.ln_structured(m, "weight", 1, n=2, dim=2),
        lambda: prune.random_structured(m, "weight", 9, dim=0),
        lambda: prune.custom_from_mask(m, "weight", torch.ones(3)),
        lambda: prune.l1_unstructured(m, "weight", 1, importance_scores=torch.ones(2)),
        lambda: prune.remove(m, "weight"),
        lambda: prune.PruningContainer().add_pruning_method(3),
        lambda: prune.BasePruningMethod(),
    )
    return [[kind for kind, *_ in found], [text for _, text in found[:-4]], names(m)]


@scenario
def pruned_state(torch):
    nn, prune = torch.nn, torch.nn.utils.prune
    a, b = nn.Linear(3, 4), nn.Linear(3, 4)
    prune.l1_unstructured(a, "weight", 0.5)
    prune.identity(b, "weight")
    b.load_state_dict(a.state_dict())
    x = torch.ones(1, 3)
    return [a(x), b(x), b.weight_mask]


# -- norms of weights ------------------------------------------------------------------------------


@scenario
def weight_norm_by_hook(torch):
    nn, utils = torch.nn, torch.nn.utils
    found = []
    for module, dim, x in (
        (nn.Linear(3, 4), 0, torch.randn(2, 3)),
        (nn.Linear(3, 4), 1, torch.randn(2, 3)),
        (nn.Linear(3, 4), None, torch.randn(2, 3)),
        (nn.Conv2d(2, 3, 2), 0, torch.randn(1, 2, 3, 3)),
    ):
        utils.weight_norm(module, dim=dim)
        found.append([names(module), backward(module, x)])
        raised = errors(lambda m=module: utils.weight_norm(m))
        utils.remove_weight_norm(module)
        raised += errors(lambda m=module: utils.remove_weight_norm(m))
        found.append([names(module), module.weight, raised[0], raised[1][0]])
    return found


@scenario
def weight_norm_as_parametrization(torch):
    nn = torch.nn
    found = []
    for module, dim, x in (
        (nn.Linear(3, 4), 0, torch.randn(2, 3)),
        (nn.Linear(3, 4), None, torch.randn(2, 3)),
        (nn.Conv1d(2, 3, 2), 1, torch.randn(1, 2, 3)),
    ):
        nn.utils.parametrizations.weight_norm(module, dim=dim)
        found.append([names(module), backward(module, x), type(module).__name__, repr(module)])
    old = nn.utils.weight_norm(nn.Linear(3, 4))
    new = nn.utils.parametrizations.weight_norm(nn.Linear(3, 4))
    found.append(str(new.load_state_dict(old.state_dict())))
    found.append(new(torch.ones(1, 3)))
    return found


@scenario
def spectral_norm_by_hook(torch):
    nn, utils = torch.nn, torch.nn.utils
    found = []
    for module, x, options in (
        (nn.Linear(3, 4), torch.randn(2, 3), {}),
        (nn.Conv2d(2, 3, 2), torch.randn(1, 2, 3, 3), {"n_power_iterations": 3}),
        (nn.ConvTranspose1d(2, 3, 2), torch.randn(1, 2, 3), {}),
    ):
        utils.spectral_norm(module, **options)
        first = backward(module, x)
        second = backward(module, x)
        module.eval()
        found.append([names(module), first, second, module(x), module.weight_u])
        raised = errors(lambda m=module: utils.spectral_norm(m))
        state = copy.deepcopy(module.state_dict())
        found.append([dict(state._metadata[""]), str(module.load_state_dict(state)), raised])
        utils.remove_spectral_norm(module)
        found.append([names(module), module.weight])
    return found


@scenario
def spectral_norm_of_old_files(torch):
    nn, utils = torch.nn, torch.nn.utils
    module = utils.spectral_norm(nn.Linear(3, 4))
    module(torch.randn(2, 3))
    state = copy.deepcopy(module.state_dict())
    state["weight"] = module.weight.detach().clone()
    del state["weight_v"]
    state._metadata[""].pop("spectral_norm")
    other = utils.spectral_norm(nn.Linear(3, 4)).eval()
    other.load_state_dict(state)
    return [other.weight_u, other(torch.ones(1, 3))]


@scenario
def spectral_norm_as_parametrization(torch):
    nn, P = torch.nn, torch.nn.utils.parametrizations
    found = []
    for module, x, options in (
        (nn.Linear(3, 4), torch.randn(2, 3), {}),
        (nn.Conv2d(2, 3, 2), torch.randn(1, 2, 3, 3), {"n_power_iterations": 2, "dim": 1}),
        (nn.ConvTranspose1d(2, 3, 2), torch.randn(1, 2, 3), {}),
        (nn.LayerNorm(4), torch.randn(2, 4), {}),
    ):
        P.spectral_norm(module, **options)
        found.append([names(module), backward(module, x), backward(module, x)])
        module.eval()
        found.append([module(x), repr(module)])
    found += errors(
        lambda: P.spectral_norm(nn.Linear(2, 2), "nothing"),
        lambda: P.spectral_norm(nn.Linear(2, 2), dim=5),
        lambda: P.spectral_norm(nn.Linear(2, 2), n_power_iterations=0),
    )
    return found


@scenario
def orthogonal_maps(torch):
    nn, P = torch.nn, torch.nn.utils.parametrizations
    found = []
    for shape in ((3, 3), (4, 3), (3, 4)):
        for kind in (None, "matrix_exp", "cayley", "householder"):
            for trivial in (True, False):
                module = nn.Linear(*shape)
                P.orthogonal(module, "weight", kind, use_trivialization=trivial)
                Q = module.weight
                small = Q if Q.shape[0] <= Q.shape[1] else Q.mT
                error = (small @ small.mT - torch.eye(min(shape))).abs().max()
                found.append([names(module), bool(error < 1e-5), [str(kind), trivial, *shape]])
                found.append(backward(module, torch.ones(2, shape[0])))
    found += errors(
        lambda: P.orthogonal(nn.Linear(2, 2), "nothing"),
        lambda: P.orthogonal(nn.Linear(2, 2), "bias"),
        lambda: P.orthogonal(nn.Linear(2, 2), orthogonal_map="some"),
    )
    return found


@scenario
def orthogonal_assignment(torch):
    nn, P = torch.nn, torch.nn.utils.parametrizations
    module = P.orthogonal(nn.Linear(3, 3))
    turned = torch.tensor([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]])
    module.weight = turned
    other = P.orthogonal(nn.Linear(3, 5), use_trivialization=False)
    wanted = nn.init.orthogonal_(torch.empty(5, 3))
    other.weight = wanted
    fixed = P.orthogonal(nn.Linear(3, 3), orthogonal_map="cayley", use_trivialization=False)
    return [
        module.weight, (other.weight - wanted).abs().max() < 1e-5,
        errors(lambda: setattr(fixed, "weight", turned), lambda: setattr(module, "weight", wanted)),
    ]  # fmt: skip


# -- parametrize -----------------------------------------------------------------------------------


def some_parametrizations(torch):
    nn = torch.nn

    class Symmetric(nn.Module):
        def forward(self, X):
            return X.triu() + X.triu(1).mT

        def right_inverse(self, A):
            return A.triu()

    class Doubled(nn.Module):
        calls = 0

        def forward(self, X):
            Doubled.calls += 1
            return 2 * X

    class Product(nn.Module):
        def forward(self, a, b):
            return a @ b

        def right_inverse(self, A):
            return A[:, :1].clone(), A[:1].clone()

    return Symmetric, Doubled, Product


@scenario
def parametrized(torch):
    nn, P = torch.nn, torch.nn.utils.parametrize
    Symmetric, Doubled, _ = some_parametrizations(torch)
    module = nn.Linear(3, 3)
    P.register_parametrization(module, "weight", Symmetric())
    first = backward(module, torch.ones(1, 3))
    P.register_parametrization(module, "weight", Doubled())
    P.register_parametrization(module, "bias", Doubled())
    found = [
        first, names(module), repr(module), type(module).__name__,
        P.type_before_parametrizations(module).__name__, P.is_parametrized(module),
        P.is_parametrized(module, "weight"), P.is_parametrized(module, "other"),
        [k for k, _ in module.named_parameters()], backward(module, torch.ones(1, 3)),
    ]  # fmt: skip
    found.append(copy.deepcopy(module).weight)
    P.remove_parametrizations(module, "weight")
    P.remove_parametrizations(module, "bias", leave_parametrized=False)
    found += [module.weight, module.bias, names(module), type(module).__name__]
    return found


@scenario
def parametrized_values_are_cached(torch):
    nn, P = torch.nn, torch.nn.utils.parametrize
    _, Doubled, _ = some_parametrizations(torch)
    module = P.register_parametrization(nn.Linear(2, 2), "weight", Doubled(), unsafe=True)
    Doubled.calls = 0
    with P.cached():
        one = module.weight is module.weight
        with P.cached():
            module(torch.ones(1, 2))
        inside = Doubled.calls
        module(torch.ones(1, 2))
    module(torch.ones(1, 2))
    return [one, inside, Doubled.calls, module.weight is module.weight]


@scenario
def parametrized_by_several_tensors(torch):
    nn, P = torch.nn, torch.nn.utils.parametrize
    _, _, Product = some_parametrizations(torch)
    module = P.register_parametrization(nn.Linear(3, 2), "weight", Product())
    found = [names(module), backward(module, torch.ones(1, 3))]
    module.weight = torch.arange(6.0).reshape(2, 3)
    found += [module.weight, errors(lambda: P.remove_parametrizations(module, "weight", False))]
    other = nn.Linear(3, 2)
    P.transfer_parametrizations_and_params(module, other)
    found += [names(other), other.weight, isinstance(other.parametrizations, nn.ModuleDict)]
    P.remove_parametrizations(module, "weight")
    return [*found, names(module), isinstance(module.weight, nn.Parameter)]


@scenario
def parametrized_buffers_and_optimizers(torch):
    nn, P = torch.nn, torch.nn.utils.parametrize
    Symmetric, Doubled, _ = some_parametrizations(torch)
    module = nn.Linear(2, 2)
    module.register_buffer("seen", torch.ones(2))
    P.register_parametrization(module, "seen", Doubled())
    weight = module.weight
    P.register_parametrization(module, "weight", Symmetric())
    same = module.parametrizations.weight.original is weight
    optimizer = torch.optim.SGD([weight], lr=0.1)
    backward(module, torch.ones(1, 2))
    optimizer.step()
    module.weight = torch.tensor([[1.0, 2.0], [2.0, 3.0]])
    return [names(module), same, module.seen, module.weight, weight]


@scenario
def parametrization_errors(torch):
    nn, P = torch.nn, torch.nn.utils.parametrize
    _, Doubled, _ = some_parametrizations(torch)

    def module_of(forward=lambda X: X, right_inverse=None):
        class Some(nn.Module):
            pass

        Some.forward = lambda self, *X: forward(*X)
        if right_inverse is not None:
            Some.right_inverse = lambda self, X: right_inverse(X)
        return Some()

    def register(*made, name="weight", module=None):
        module = module or nn.Linear(2, 2)
        for one in made:
            P.register_parametrization(module, name, one)

    doubled = P.register_parametrization(nn.Linear(2, 2), "weight", Doubled())
    return errors(
        lambda: register(Doubled(), name="nothing"),
        lambda: register(module_of(lambda X: X.double())),
        lambda: register(module_of(lambda X: X[0])),
        lambda: register(module_of(lambda X: 3)),
        lambda: register(module_of(right_inverse=lambda X: X.double())),
        lambda: register(module_of(right_inverse=lambda X: 3)),
        lambda: register(module_of(right_inverse=lambda X: (X, 3))),
        lambda: register(Doubled(), module_of(lambda X: X.double())),
        lambda: register(Doubled(), module_of(lambda X: X[0])),
        lambda: register(Doubled(), module_of(lambda X: 3)),
        lambda: register(Doubled(), module_of(right_inverse=lambda X: 3)),
        lambda: register(Doubled(), module_of(right_inverse=lambda X: X.double())),
        lambda: register(Doubled(), module_of(right_inverse=lambda X: X[0])),
        lambda: setattr(doubled, "weight", torch.ones(2, 2)),
        lambda: P.remove_parametrizations(nn.Linear(2, 2), "weight"),
        lambda: doubled.__getstate__(),
        lambda: P.ParametrizationList([], torch.ones(2)),
    )


@scenario
def data_parallel(torch):
    nn = torch.nn
    model = nn.DataParallel(nn.Linear(2, 3))
    x = torch.ones(2, 2)
    return [
        names(model), model(x), model.module.weight, model.device_ids, repr(model),
        errors(lambda: torch.func.functional_call(model, {}, x)),
    ]  # fmt: skip
