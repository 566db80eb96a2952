"""Transforms, constraints and the way between them: against PyTorch, and on their own."""

import pickle

import numpy as np
import pytest

import flambeau
import flambeau.distributions as ours
from flambeau.distributions import constraints
from tests.distributions.transform_cases import CONSTRAINTS, REACHABLE, TRANSFORMS

BIJECTIVE = [name for name in TRANSFORMS if name not in ("abs", "softmax", "lower cholesky",
                                                         "positive definite")]  # fmt: skip


def numbers(x):
    return np.asarray(x.detach().numpy())


def facts(d, t, name):
    """Everything a transform says and does, as text and arrays."""
    make, x = TRANSFORMS[name]
    transform, x = make(d, t), t.tensor(x, dtype=t.float64)
    y = transform(x)
    back = transform.inv(y)
    found = {"y": numbers(y), "back": numbers(back), "again": numbers(transform.inv.inv(x))}
    if transform.bijective:
        found["stretch"] = numbers(transform.log_abs_det_jacobian(x, y))
        found["stretch back"] = numbers(transform.inv.log_abs_det_jacobian(y, back))
    for what in ("bijective", "domain", "codomain", "sign", "event_dim"):
        try:
            found[what] = str(getattr(transform, what))
        except (NotImplementedError, ValueError) as error:
            found[what] = type(error).__name__
    found["shapes"] = str([transform.forward_shape(x.shape), transform.inverse_shape(y.shape)])
    found["repr"] = repr(transform) + repr(transform.inv)
    found["equal"] = [transform == make(d, t), transform != make(d, t), transform == 1]
    return found


def assert_same(mine, theirs):
    assert mine.keys() == theirs.keys()
    for what, value in theirs.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_allclose(mine[what], value, rtol=1e-9, atol=1e-11, err_msg=what)
        else:
            assert str(mine[what]).replace("flambeau", "torch") == str(value), what


@pytest.mark.oracle
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_do_what_pytorchs_do(name):
    torch = pytest.importorskip("torch")
    assert_same(facts(ours, flambeau, name), facts(torch.distributions, torch, name))


@pytest.mark.parametrize("name", BIJECTIVE)
def test_the_inverse_undoes_and_the_stretch_is_the_determinant(name):
    make, x = TRANSFORMS[name]
    transform = make(ours, flambeau)
    x = flambeau.tensor(x, dtype=flambeau.float64)
    if name == "sigmoid":
        x = x[:5]  # beyond, numbers round to the ends
    y = transform(x)
    grown = x.expand(transform.inverse_shape(y.shape))
    np.testing.assert_allclose(numbers(transform.inv(y)), numbers(grown), rtol=1e-7, atol=1e-9)
    matrix = flambeau.autograd.functional.jacobian(
        lambda x: triangle_or_all(transform, transform(x)), grown
    )
    if name in ("compose vectors", "sticks"):
        matrix = flambeau.autograd.functional.jacobian(lambda x: transform(x)[..., :-1], grown)
    rows = matrix.reshape(grown.numel(), grown.numel())
    total = transform.log_abs_det_jacobian(grown, y).sum()
    np.testing.assert_allclose(
        float(total), float(flambeau.linalg.slogdet(rows).logabsdet), rtol=1e-7, atol=1e-9
    )


def triangle_or_all(transform, y):
    if isinstance(transform, ours.CorrCholeskyTransform):
        return ours.utils.tril_matrix_to_vec(y, -1)
    return y


def test_a_cache_gives_back_the_very_same_tensors():
    for make, x in TRANSFORMS.values():
        transform = make(ours, flambeau).with_cache(1)
        assert transform.with_cache(1) is transform
        assert transform.with_cache(0)._cache_size == 0
        x = flambeau.tensor(x, dtype=flambeau.float64)
        y = transform(x)
        if not isinstance(transform, (ours.ComposeTransform, ours.transforms._InverseTransform)):
            assert transform(x) is y
            assert transform.inv(y) is x


def test_a_cache_keeps_what_tanh_rounds_away():
    x = flambeau.tensor([50.0])
    plain, cached = ours.TanhTransform(), ours.TanhTransform(cache_size=1)
    assert plain.inv(plain(x)).isinf().all()
    assert cached.inv(cached(x)) is x


class Shifted(ours.Transform):
    def __init__(self, by):
        super().__init__()
        self.by = by


def test_transforms_with_arguments_of_their_own_say_that_they_cannot_be_cached():
    with pytest.raises(NotImplementedError, match="with_cache is not implemented"):
        Shifted(1).with_cache()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_survive_pickling(name):
    make, x = TRANSFORMS[name]
    transform, x = make(ours, flambeau), flambeau.tensor(x, dtype=flambeau.float64)
    back = transform.inv  # an inverse that is at hand must not hinder
    loaded = pickle.loads(pickle.dumps(transform))
    assert flambeau.equal(loaded(x), transform(x))
    y = transform(x)
    assert flambeau.equal(pickle.loads(pickle.dumps(back))(y), back(y))


# -- constraints -----------------------------------------------------------------------------------

EXPECTED = {  # which of the values are inside
    "boolean": [1, 1, 0, 0], "one_hot": [1, 0, 0], "nonnegative_integer": [1, 1, 0, 0],
    "positive_integer": [0, 1, 0, 0], "integer_interval": [1, 0, 1, 0],
    "integer_less_than": [1, 0, 1, 0], "real": [1, 1, 0], "real_vector": [1, 0],
    "positive": [0, 1, 0], "nonnegative": [1, 1, 0], "greater_than": [0, 0, 1],
    "greater_than_eq": [0, 1, 1], "less_than": [1, 0, 0], "multinomial": [1, 0, 0],
    "unit_interval": [1, 1, 0], "interval": [[1, 1], [0, 0]], "half_open_interval": [1, 1, 0],
    "simplex": [1, 0, 0], "lower_triangular": [1, 0], "lower_cholesky": [0, 1],
    "corr_cholesky": [1, 0], "square": 1, "not square": [0, 0], "symmetric": [1, 0],
    "not square, not symmetric": 0, "positive_semidefinite": [1, 0], "positive_definite": [1, 0],
    "independent": [1, 0], "cat": [0, 1, 0], "stack": [[0, 1], [1, 1]],
    "stack columns": [[0, 1], [0, 1]], "mixture": [1, 0],
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints_tell_what_is_inside(name):
    make, value = CONSTRAINTS[name]
    inside = make(constraints, flambeau).check(flambeau.tensor(value, dtype=flambeau.float64))
    assert inside.dtype is flambeau.bool
    assert inside.int().tolist() == EXPECTED[name]


@pytest.mark.oracle
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    make, value = CONSTRAINTS[name]
    theirs, mine = make(torch.distributions.constraints, torch), make(constraints, flambeau)
    assert repr(mine) == repr(theirs)
    assert (mine.event_dim, mine.is_discrete) == (theirs.event_dim, theirs.is_discrete)
    assert type(mine).__name__ == type(theirs).__name__
    answer = theirs.check(torch.tensor(value, dtype=torch.float64))
    assert answer.int().tolist() == EXPECTED[name]


def test_dependent_constraints():
    dependent = constraints.dependent(event_dim=1)
    assert constraints.is_dependent(dependent) and dependent.event_dim == 1
    assert dependent(is_discrete=True).is_discrete and dependent(is_discrete=True).event_dim == 1
    assert constraints.is_dependent(ours.Uniform.support)
    assert ours.Uniform.support.event_dim == 0
    assert not constraints.is_dependent(constraints.real)


# -- from real numbers into a set ------------------------------------------------------------------

NOT_ONE_TO_ONE = ("lower_cholesky", "positive_definite", "positive_semidefinite")


@pytest.mark.parametrize("name", REACHABLE)
@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_transforms_lead_into_the_set(name, registry):
    make, x = REACHABLE[name]
    if registry == "biject_to" and name in NOT_ONE_TO_ONE:
        with pytest.raises(NotImplementedError, match="Cannot transform"):
            ours.biject_to(make(constraints, flambeau))
        return
    constraint = make(constraints, flambeau)
    transform = getattr(ours, registry)(constraint)
    x = flambeau.tensor(x, dtype=flambeau.float64)
    y = transform(x)
    assert constraint.check(y).all()
    if registry == "biject_to":
        assert transform.bijective
        np.testing.assert_allclose(numbers(transform.inv(y)), numbers(x), atol=1e-9)
    else:
        assert flambeau.allclose(transform(transform.inv(y)), y)


@pytest.mark.oracle
@pytest.mark.parametrize("name", REACHABLE)
@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_the_ways_into_a_set_are_pytorchs(name, registry):
    torch = pytest.importorskip("torch")
    make, x = REACHABLE[name]

    def way(d, t):
        try:
            transform = getattr(d, registry)(make(d.constraints, t))
        except NotImplementedError as error:
            return str(error), None
        return repr(transform), numbers(transform(t.tensor(x, dtype=t.float64)))

    (mine, y), (theirs, expected) = way(ours, flambeau), way(torch.distributions, torch)
    assert mine == theirs
    if y is not None:
        np.testing.assert_allclose(y, expected, rtol=1e-12)


def test_a_registry_takes_constraints_of_ones_own():
    class Even(constraints.Constraint):
        pass

    registry = ours.constraint_registry.ConstraintRegistry()
    registry.register(Even, lambda constraint: ours.AffineTransform(0, 2))

    @registry.register(constraints.boolean)
    def to_boolean(constraint):
        return ours.SigmoidTransform()

    assert registry(Even()) == ours.AffineTransform(0, 2)
    assert registry(constraints.boolean) == ours.SigmoidTransform()


def test_the_shape_of_triangles():
    matrix = flambeau.arange(9.0).view(3, 3)
    for diag in (-1, 0, 1):
        vector = ours.utils.tril_matrix_to_vec(matrix, diag)
        expected = matrix.numpy()[np.tril(np.ones((3, 3)), diag) > 0]
        np.testing.assert_array_equal(vector.numpy(), expected)
        back = ours.utils.vec_to_tril_matrix(vector, diag)
        np.testing.assert_array_equal(back.numpy(), np.tril(matrix.numpy(), diag))


def test_shapes_are_of_the_kind_that_pytorch_gives():
    stick, move = (
        ours.transforms.StickBreakingTransform(),
        ours.transforms.AffineTransform(1.0, 2.0),
    )
    for found in (stick.forward_shape((2,)), stick.inverse_shape((2,))):
        assert type(found) is tuple
    assert type(stick.forward_shape(flambeau.Size([2]))) is flambeau.Size
    assert type(move.forward_shape((2,))) is flambeau.Size
