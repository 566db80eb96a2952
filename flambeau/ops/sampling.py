"""Random numbers: the rows of everything that draws from a generator.

A row here is a signature and what it means; its launcher in `eager/` (`sampling.py` and
`random_integers.py` for fills, `distributions.py` for the rest) checks the arguments and draws
PyTorch's numbers, bit for bit. New tensors (rand, randn, ...) are in `eager/random_tensors.py`,
generators and seeds in `flambeau/random.py`, dropout in `dropout.py`.
"""

from flambeau import _dtype as d
from flambeau.codegen import scalar as m
from flambeau.ops.rules import promoted
from flambeau.ops.support import refuses, same_dtype
from flambeau.ops.table import MISSING, pointwise, public, template

NOTHING = lambda g: g.new_zeros(g.shape)  # what was drawn does not depend on the input
STILL = lambda out: out.new_zeros(out.shape)  # and does not move with it


# -- fills: methods that overwrite a tensor ------------------------------------------------------


@template("uniform_", variants="method")
def uniform_(self, from_: float = 0.0, to: float = 1.0, *, generator: object = None):
    """Fill with numbers from the uniform distribution on [from, to)."""


@template("normal_", variants="method")
def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: object = None):
    """Fill with numbers from the normal distribution."""


@template("log_normal_", variants="method")
def log_normal_(self, mean: float = 1.0, std: float = 2.0, *, generator: object = None):
    """Fill with exponentials of normal numbers; mean and std are those of the normal ones."""


@template("cauchy_", variants="method")
def cauchy_(self, median: float = 0.0, sigma: float = 1.0, *, generator: object = None):
    """Fill with numbers from the Cauchy distribution."""


@template("exponential_", variants="method")
def exponential_(self, lambd: float = 1.0, *, generator: object = None):
    """Fill with numbers from the exponential distribution with rate lambd."""


@template("geometric_", variants="method")
def geometric_(self, p: float, *, generator: object = None):
    """Fill with how many trials of probability p it takes to succeed, the last one counted."""


@template("random_", variants="method")
def random_(self, from_: object = MISSING, to: object = MISSING, *, generator: object = None):
    """Fill with integers from [from, to - 1]; without bounds, from what the dtype holds exactly."""


@template("bernoulli_", variants="method")
def bernoulli_(self, p: object = 0.5, *, generator: object = None):
    """Fill with ones with probability p (a number, or a tensor that broadcasts) and zeros."""


for _row in (uniform_, random_):
    # PyTorch's name is a keyword of Python: it can only be given as **{"from": ...}
    _row.params = tuple(p._replace(name="from") if p.name == "from_" else p for p in _row.params)


# -- draws with tensors of parameters ------------------------------------------------------------


@template("bernoulli", variants="function method out", grad={"input": NOTHING}, jvp=STILL)
def bernoulli(input, p: object = MISSING, *, generator: object = None):
    """Ones with the probabilities in input (or with probability p), and zeros."""


@template("poisson", variants="function", grad={"input": NOTHING}, jvp=STILL)
def poisson(input, generator: object = None):
    """Counts from Poisson distributions with the rates in input."""


@template("binomial", variants="function", grad={"count": NOTHING, "prob": NOTHING}, jvp=STILL)
def binomial(count, prob, generator: object = None):
    """How many of count trials of probability prob succeed."""


def _alike(kernel):
    """A check of dtypes: all the same, and one that there is a kernel for."""
    same = same_dtype("Found dtype {second} but expected {first}")
    known = refuses(kernel, "bool int wide complex half")

    def check(op, operands):
        same(op, operands)
        known(op, operands)

    return check


@pointwise(
    dtype=promoted,
    variants="function",
    numbers=False,
    dtypes=_alike("_standard_gamma_grad_cpu"),
)
def _standard_gamma_grad(input, output):
    """How far samples of gamma distributions move with their shapes (codegen/slopelib.py)."""
    return m.gamma_slope(input, output)


@pointwise(
    dtype=promoted,
    variants="function",
    numbers=False,
    dtypes=_alike("_dirichlet_grad_cpu"),
)
def _dirichlet_grad(x, alpha, total):
    """The same for Dirichlet samples x; total is the sum of a row of alpha."""
    return m.beta_slope(x, alpha, total)


def _gamma_gradient(g, input, out):
    return g * public("_standard_gamma_grad")(input, out)


def _dirichlet_gradient(g, input, out):
    # what one component gains, the others lose
    slope = public("_dirichlet_grad")(out, input, input.sum(-1, True).expand_as(input))
    return slope * (g - (out * g).sum(-1, True))


@template("standard_gamma", variants="function", grad={"input": _gamma_gradient})
def _standard_gamma(input, generator: object = None):
    """Numbers from gamma distributions of scale 1 with the shapes in input."""


@template("sample_dirichlet", variants="function", grad={"input": _dirichlet_gradient})
def _sample_dirichlet(input, generator: object = None):
    """Rows from Dirichlet distributions with the concentrations in input's rows."""


def _indices_only(out, input, **_):
    if 0 < input.ndim <= 2 and input.dtype.is_floating_point and out.dtype is not d.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype.scalar_name}")


@template("multinomial", variants="function method out", before_out=_indices_only)
def multinomial(input, num_samples: int, replacement: bool = False, *, generator: object = None):
    """Indices of columns drawn with the weights in each row of input.

    Args:
        replacement: may one row give an index twice?
    """
