"""Transforms and constraints to try: `d` is the module of distributions, `t` the library."""

from typing import NamedTuple


class Example(NamedTuple):
    make: object  # (distributions, library) -> transform
    x: object  # nested list that it is applied to


def example(make, x):
    return Example(make, x)


NUMBERS = [-2.0, -0.3, 0.0, 0.7, 3.0]
POSITIVE = [0.1, 0.9, 1.0, 2.5, 40.0]
MATRIX = [[0.3, 0.0, 0.0], [0.5, -0.2, 0.0], [-0.7, 0.4, 0.1]]

TRANSFORMS = {
    "exp": example(lambda d, t: d.ExpTransform(), NUMBERS),
    "log": example(lambda d, t: d.ExpTransform().inv, POSITIVE),
    "abs": example(lambda d, t: d.AbsTransform(), NUMBERS),
    "sigmoid": example(lambda d, t: d.SigmoidTransform(), [*NUMBERS, 90.0, -90.0]),
    "softplus": example(lambda d, t: d.SoftplusTransform(), NUMBERS),
    "tanh": example(lambda d, t: d.TanhTransform(), NUMBERS),
    "power": example(lambda d, t: d.PowerTransform(2.5), POSITIVE),
    "power tensor": example(
        lambda d, t: d.PowerTransform(t.tensor([[-1.0], [0.5]], dtype=t.float64)), POSITIVE
    ),
    "affine": example(lambda d, t: d.AffineTransform(1.0, -2.0), NUMBERS),
    "affine tensor": example(
        lambda d, t: d.AffineTransform(
            t.tensor([[1.0], [2.0]], dtype=t.float64), t.tensor([3.0] * 5, dtype=t.float64)
        ),
        [NUMBERS, NUMBERS],
    ),
    "affine event": example(lambda d, t: d.AffineTransform(1.0, 2.0, event_dim=1), [NUMBERS] * 2),
    "affine event tensor": example(
        lambda d, t: d.AffineTransform(0.0, t.tensor([1.0, 2, 3, 4, 5], dtype=t.float64), 1),
        [NUMBERS] * 2,
    ),
    "cdf": example(lambda d, t: d.CumulativeDistributionTransform(d.Normal(1.0, 2.0)), NUMBERS),
    "compose": example(
        lambda d, t: d.ComposeTransform([d.AffineTransform(1.0, 2.0), d.TanhTransform()]), NUMBERS
    ),
    "compose vectors": example(
        lambda d, t: d.ComposeTransform([d.ExpTransform(), d.StickBreakingTransform()]),
        [[-2.0, 0.3, 1.0]] * 2,
    ),
    "identity": example(lambda d, t: d.identity_transform, NUMBERS),
    "independent": example(lambda d, t: d.IndependentTransform(d.ExpTransform(), 1), [NUMBERS] * 2),
    "reshape": example(lambda d, t: d.ReshapeTransform((2, 3), (6,)), [[[1.0, 2, 3], [4, 5, 6]]]),
    "softmax": example(lambda d, t: d.SoftmaxTransform(), [NUMBERS, NUMBERS[::-1]]),
    "sticks": example(lambda d, t: d.StickBreakingTransform(), [NUMBERS, NUMBERS[::-1]]),
    "lower cholesky": example(lambda d, t: d.LowerCholeskyTransform(), MATRIX),
    "positive definite": example(lambda d, t: d.PositiveDefiniteTransform(), MATRIX),
    "correlations": example(
        lambda d, t: d.CorrCholeskyTransform(), [[0.3, -0.5, 1.2], [0.0, 2.0, -1.0]]
    ),
    "cat": example(
        lambda d, t: d.CatTransform([d.ExpTransform(), d.TanhTransform()], 0, [2, 3]), NUMBERS
    ),
    "cat columns": example(
        lambda d, t: d.CatTransform([d.ExpTransform(), d.AffineTransform(1.0, 3.0)], -1, [4, 1]),
        [NUMBERS] * 3,
    ),
    "stack": example(
        lambda d, t: d.StackTransform([d.ExpTransform(), d.TanhTransform().inv], dim=1),
        [[-0.5, 0.1], [0.2, -0.4]],
    ),
}  # fmt: skip

CONSTRAINTS = {
    "boolean": (lambda c, t: c.boolean, [0.0, 1.0, 0.5, -1.0]),
    "one_hot": (lambda c, t: c.one_hot, [[0.0, 1.0], [1.0, 1.0], [0.5, 0.5]]),
    "nonnegative_integer": (lambda c, t: c.nonnegative_integer, [0.0, 3.0, -1.0, 0.5]),
    "positive_integer": (lambda c, t: c.positive_integer, [0.0, 3.0, -1.0, 0.5]),
    "integer_interval": (lambda c, t: c.integer_interval(-1, 2), [0.0, 3.0, -1.0, 0.5]),
    "integer_less_than": (lambda c, t: c._IntegerLessThan(2), [0.0, 3.0, -1.0, 0.5]),
    "real": (lambda c, t: c.real, [0.0, float("inf"), float("nan")]),
    "real_vector": (lambda c, t: c.real_vector, [[0.0, 1.0], [2.0, float("nan")]]),
    "positive": (lambda c, t: c.positive, [0.0, 1.0, -1.0]),
    "nonnegative": (lambda c, t: c.nonnegative, [0.0, 1.0, -1.0]),
    "greater_than": (lambda c, t: c.greater_than(1), [0.0, 1.0, 2.0]),
    "greater_than_eq": (lambda c, t: c.greater_than_eq(1), [0.0, 1.0, 2.0]),
    "less_than": (lambda c, t: c.less_than(1), [0.0, 1.0, 2.0]),
    "multinomial": (lambda c, t: c.multinomial(3), [[0.0, 1.0], [2.0, 2.0], [-1.0, 2.0]]),
    "unit_interval": (lambda c, t: c.unit_interval, [0.0, 1.0, 2.0]),
    "interval": (
        lambda c, t: c.interval(t.tensor([0.0, 1.0]), t.tensor([3.0, 1.5])),
        [[1.0, 1.0], [3.5, 2.0]],
    ),
    "half_open_interval": (lambda c, t: c.half_open_interval(-1.0, 1.0), [-1.0, 0.0, 1.0]),
    "simplex": (lambda c, t: c.simplex, [[0.2, 0.8], [0.5, 0.6], [-0.5, 1.5]]),
    "lower_triangular": (
        lambda c, t: c.lower_triangular, [[[1.0, 0.0], [2.0, 0.0]], [[1.0] * 2] * 2],
    ),
    "lower_cholesky": (
        lambda c, t: c.lower_cholesky, [[[1.0, 0.0], [2.0, 0.0]], [[1.0, 0.0], [2.0, 1.0]]],
    ),
    "corr_cholesky": (
        lambda c, t: c.corr_cholesky, [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [2.0, 1.0]]],
    ),
    "square": (lambda c, t: c.square, [[1.0, 0.0], [2.0, 0.0]]),
    "not square": (lambda c, t: c.square, [[[1.0, 0.0]]] * 2),
    "symmetric": (lambda c, t: c.symmetric, [[[1.0, 2.0], [2.0, 0.0]], [[1.0, 0.0], [2.0, 1.0]]]),
    "not square, not symmetric": (lambda c, t: c.symmetric, [[1.0, 0.0]]),
    "positive_semidefinite": (
        lambda c, t: c.positive_semidefinite, [[[1.0, 0.0], [0.0, 0.0]], [[1.0, 2.0], [2.0, 1.0]]],
    ),
    "positive_definite": (
        lambda c, t: c.positive_definite, [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 2.0], [2.0, 1.0]]],
    ),
    "independent": (lambda c, t: c.independent(c.positive, 2), [[[1.0, 2.0]], [[0.0, 3.0]]]),
    "cat": (lambda c, t: c.cat([c.positive, c.real], 0, [1, 2]), [-1.0, 2.0, float("nan")]),
    "stack": (lambda c, t: c.stack([c.positive, c.real], 0), [[-1.0, 2.0], [0.0, -1.0]]),
    "stack columns": (lambda c, t: c.stack([c.positive, c.real], -1), [[-1.0, 2.0], [0.0, -1.0]]),
    "mixture": (
        lambda c, t: c.MixtureSameFamilyConstraint(c.interval(t.zeros(2), t.tensor([1.0, 2.0]))),
        [0.5, 1.5],
    ),
}  # fmt: skip

# constraints that have a transform, and numbers to send there
REACHABLE = {
    "real": (lambda c, t: c.real, NUMBERS),
    "real_vector": (lambda c, t: c.real_vector, [NUMBERS]),
    "positive": (lambda c, t: c.positive, NUMBERS),
    "nonnegative": (lambda c, t: c.nonnegative, NUMBERS),
    "greater_than": (lambda c, t: c.greater_than(-2.0), NUMBERS),
    "greater_than_eq": (lambda c, t: c.greater_than_eq(3.0), NUMBERS),
    "less_than": (lambda c, t: c.less_than(1.0), NUMBERS),
    "unit_interval": (lambda c, t: c.unit_interval, NUMBERS),
    "interval": (lambda c, t: c.interval(-3.0, 5.0), NUMBERS),
    "half_open_interval": (lambda c, t: c.half_open_interval(0.0, 5.0), NUMBERS),
    "simplex": (lambda c, t: c.simplex, [NUMBERS]),
    "lower_cholesky": (lambda c, t: c.lower_cholesky, MATRIX),
    "positive_definite": (lambda c, t: c.positive_definite, MATRIX),
    "positive_semidefinite": (lambda c, t: c.positive_semidefinite, MATRIX),
    "corr_cholesky": (lambda c, t: c.corr_cholesky, NUMBERS[:3]),
    "independent": (lambda c, t: c.independent(c.positive, 1), [NUMBERS]),
    "cat": (lambda c, t: c.cat([c.positive, c.interval(0.0, 2.0)], 0, [2, 3]), NUMBERS),
    "stack": (lambda c, t: c.stack([c.positive, c.unit_interval], 0), [NUMBERS] * 2),
}
