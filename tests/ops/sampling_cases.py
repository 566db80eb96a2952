"""Calls that draw random numbers, as text: recorded with PyTorch, repeated with flambeau.

EXACT calls depend on arithmetic alone and must agree bit for bit on every machine; NEAR calls pass
through the C library (log1p, sin, lgamma, ...), whose last bit is the machine's, so that goldens of
another machine are met within rounding. Beside an installed PyTorch both kinds must be equal.
"""

SIZES = (0, 1, 2, 7, 15, 16, 17, 31, 100, 1000)
FLOATS = ("float32", "float64", "float16", "bfloat16")
NARROW = ("float32", "float16", "bfloat16")
PLAIN = ("float32", "float64")
WIDE = ("float64", "int32", "int64", "uint32")
INTS = ("int8", "uint8", "int16", "int32", "int64")


def _over(pattern, sizes=SIZES, dtypes=FLOATS):
    return [pattern.format(n=n, d=f"dtype=torch.{d}") for d in dtypes for n in sizes]


_SOME = (0, 1, 17, 300)
_P = "torch.arange({n}, {d}) / {n}"

EXACT = [
    *_over("torch.rand({n}, {d})"),
    *_over("torch.empty({n}, {d}).uniform_(-1.5, 2.25)", _SOME),
    *_over("torch.randn({n}, {d})", (16, 17, 31, 100, 1000, 5003), NARROW),
    *_over("torch.empty({n}, {d}).normal_(0.3, 1.7)", (16, 33), NARROW),
    *_over("torch.empty({n}, {d}).random_()", _SOME, (*FLOATS, *INTS, "bool")),
    *_over("torch.empty({n}, {d}).random_(100)", _SOME, (*FLOATS, *INTS)),
    *_over("torch.empty({n}, {d}).random_(-3, 77)", _SOME, (*FLOATS, "int8", "int16", "int64")),
    *_over(
        "torch.empty({n}, {d}).random_(2**28 - 1)", (17,), ("float64", "int32", "int64", "uint32")
    ),
    *_over("torch.empty({n}, {d}).random_(2**28)", (17,), WIDE),
    *_over("torch.empty({n}, {d}).random_(-(2**40), 2**50)", (17,), ("float64", "int64")),
    *_over("torch.empty({n}, {d}).random_(5, None)", (17,), (*FLOATS, *INTS, "uint16", "uint32")),
    *_over("torch.empty({n}, {d}).random_(-(2**63), None)", (17,), ("float32", "float64", "int64")),
    *_over("torch.randint(3, 1000, ({n},), {d})", _SOME, ("int64", "int16", "float32")),
    "torch.randint(6, (3, 4))",
    "torch.randint_like(torch.empty(3, 4), 2, 9)",
    "torch.randint(1, 6700417, (1000,))",
    *_over("torch.randperm({n}, {d})", (0, 1, 2, 7, 31, 100), (*FLOATS, *INTS)),
    "torch.randperm(5003)",
    *_over("torch.empty({n}, {d}).bernoulli_(0.3)", _SOME, (*FLOATS, *INTS, "bool")),
    *_over(f"torch.bernoulli({_P})", (1, 17, 300)),
    *_over(f"torch.empty({{n}}, dtype=torch.int64).bernoulli_({_P})", (1, 17, 300)),
    "torch.bernoulli(torch.full((3, 5), 0.25), 0.75)",
    "torch.empty(4, 3).t().uniform_()",
    "torch.empty(6, 10)[::2, 1::3].uniform_()",
    "torch.empty(6, 10)[::2, 1::3].t().random_(50)",
    "torch.empty(2, 3, 4).permute(1, 2, 0).bernoulli_(0.5)",
    "torch.rand_like(torch.empty(3, 4).t())",
    "torch.rand(3, dtype=torch.complex64)",
    "torch.randn(20, dtype=torch.complex64)",
    "torch.normal(torch.arange(20.0), 0.5)",
    "torch.normal(2.0, torch.arange(20.0))",
    "torch.normal(torch.arange(20.0), torch.arange(20.0).reshape(20, 1) / 7)",
    "torch.multinomial(torch.arange(1.0, 11.0), 40, True)",
    "torch.multinomial(torch.arange(1, 31, dtype=torch.float64).reshape(3, 10), 7, True)",
    "torch.multinomial(torch.arange(1, 31, dtype=torch.bfloat16).reshape(3, 10), 7, True)",
    "torch.nn.functional.dropout(torch.ones(99), 0.25)",
    "torch.dropout(torch.ones(5, 3), 0.5, True)",
    "torch.feature_dropout(torch.ones(4, 3, 5), 0.5, True)",
]

NEAR = [
    *_over("torch.randn({n}, {d})", (0, 1, 2, 7, 15)),
    *_over("torch.randn({n}, {d})", (16, 17, 100), ("float64",)),
    *_over("torch.empty({n}, 2, {d})[:, 0].normal_(0.3, 1.7)", (2, 17, 100)),
    *_over("torch.empty({n}, {d}).log_normal_()", _SOME),
    *_over("torch.empty({n}, {d}).log_normal_(0.1, 0.7)", (17,)),
    *_over("torch.empty({n}, {d}).cauchy_()", _SOME, PLAIN),
    *_over("torch.empty({n}, {d}).cauchy_(2, 0.3)", (17,)),
    *_over("torch.empty({n}, {d}).exponential_()", _SOME),
    *_over("torch.empty({n}, {d}).exponential_(0.3)", (17,)),
    *_over("torch.empty({n}, {d}).geometric_(0.3)", _SOME, (*FLOATS, *INTS)),
    "torch.randn_like(torch.empty(5, 7).t())",
    "torch.randn(3, dtype=torch.complex128)",
    "torch.normal(0.5, 2.0, (3, 4))",
    "torch.multinomial(torch.arange(1.0, 11.0), 4)",
    "torch.multinomial(torch.arange(1.0, 31.0).reshape(3, 10), 1, True)",
    "torch.multinomial(torch.arange(1, 31, dtype=torch.float64).reshape(3, 10), 10)",
    *_over("torch.poisson(torch.arange({n}, {d}) / 4)", (1, 17, 200)),
    "torch.poisson(torch.full((20,), 1e5))",
    *_over("torch._standard_gamma(torch.arange({n}, {d}) / 8)", (1, 17, 100), PLAIN),
    *_over(
        "torch._sample_dirichlet(torch.arange(1, 1 + 3 * {n}, {d}).reshape(3, {n}))",
        (1, 3, 9),
        PLAIN,
    ),
    *_over(f"torch.binomial(torch.full(({{n}},), 12, {{d}}), {_P})", (1, 50), PLAIN),
    *_over(f"torch.binomial(torch.full(({{n}},), 999, {{d}}), {_P})", (1, 50), PLAIN),
    "torch.alpha_dropout(torch.ones(20), 0.3, True)",
    "torch.rrelu(-torch.ones(20), 0.1, 0.4, True)",
]
