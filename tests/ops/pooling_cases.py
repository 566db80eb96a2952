"""Calls of pooling functions, for tests with and without an oracle.

A case is (function, shape of the input, arguments, keywords). BAD cases must be refused in
PyTorch's words; what these are is recorded in tests/golden/pooling.json.
"""

PLAIN = [
    # (dimensions, shape, arguments after the input): borders, overlaps, gaps, dilation, unbatched
    (1, (2, 3, 21), (3, 2, 1)),
    (1, (3, 20), (4,)),
    (1, (2, 2, 40), (5, 3, 2)),
    (1, (1, 2, 67), (9, 1, 4)),
    (2, (2, 3, 13, 14), (3, 2, 1)),
    (2, (2, 2, 8, 34), (2,)),
    (2, (3, 9, 10), (3, 1, 1)),
    (2, (1, 2, 17, 19), (5, 3, 2)),
    (2, (1, 2, 12, 13), ((2, 3), (3, 4), (1, 0))),
    (2, (2, 2, 9, 37), (9, 5, 4)),
    (2, (1, 1, 1, 1), (1,)),
    (2, (1, 3, 7, 1), ((3, 1), 1, (1, 0))),
    (3, (2, 2, 6, 7, 9), (3, 2, 1)),
    (3, (2, 5, 6, 7), (2,)),
    (3, (1, 2, 5, 9, 9), ((1, 4, 8), 3)),
]
DILATED = [
    (1, (2, 3, 21), (3, 2, 1, 2)),
    (2, (2, 3, 13, 14), (2, 2, 1, 2)),
    (2, (1, 2, 15, 16), ((3, 2), 1, 0, (2, 3))),
    (3, (1, 2, 6, 7, 9), (2, 1, 1, 2)),
]
ADAPTIVE = [
    (1, (2, 3, 21), 5),
    (1, (3, 8), 1),
    (2, (2, 3, 13, 14), 7),
    (2, (2, 3, 14, 14), 7),
    (2, (2, 3, 16, 40), (2, 2)),
    (2, (3, 5, 6), (3, None)),
    (2, (1, 2, 4, 3), (6, 7)),
    (2, (2, 3, 4, 4), 0),
    (3, (2, 2, 6, 7, 9), (3, 4, 5)),
    (3, (2, 6, 7, 9), 2),
]

BAD = [
    ("max_pool2d", (3, 4), (2,), {}),
    ("max_pool2d", (2, 3, 4, 5, 6), (2,), {}),
    ("max_pool2d", (2, 0, 4, 5), (2,), {}),
    ("max_pool2d", (2, 3, 0, 5), (2,), {}),
    ("max_pool2d", (2, 3, 4, 5), ((2, 2, 2),), {}),
    ("max_pool2d", (2, 3, 4, 5), (2, (1, 2, 3)), {}),
    ("max_pool2d", (2, 3, 4, 5), (2,), {"padding": 2}),
    ("max_pool2d", (2, 3, 4, 5), (2,), {"padding": -1}),
    ("max_pool2d", (2, 3, 4, 5), ((2, 3),), {"padding": (1, 2)}),
    ("max_pool2d", (2, 3, 4, 5), (2,), {"padding": (1, 2, 3)}),
    ("max_pool2d", (2, 3, 4, 5), (2,), {"dilation": 0}),
    ("max_pool2d", (2, 3, 4, 5), (2,), {"dilation": (1, 2, 3)}),
    ("max_pool2d", (2, 3, 4, 5), (2,), {"stride": 0}),
    ("max_pool2d", (2, 3, 4, 5), (2,), {"stride": -1}),
    ("max_pool2d", (2, 3, 4, 5), (0, 1), {}),
    ("max_pool2d", (2, 3, 4, 5), (6,), {}),
    ("max_pool2d", (2, 3, 4, 5), (2.5,), {}),
    ("max_pool1d", (4,), (2,), {}),
    ("max_pool1d", (2, 3, 4, 5), (2,), {}),
    ("max_pool1d", (2, 3, 4), (5,), {}),
    ("max_pool1d", (2, 3, 4), (2,), {"padding": 2}),
    ("max_pool1d", (2, 3, 4), (2,), {"padding": -1}),
    ("max_pool1d", (2, 3, 4), (0,), {}),
    ("max_pool1d", (2, 3, 4), (2, 0), {}),
    ("max_pool1d", (2, 3, 4), (2,), {"dilation": 0}),
    ("max_pool1d", (2, 3, 0), (2,), {}),
    ("max_pool1d", (2, 3, 4), ((2, 2),), {}),
    ("max_pool3d", (2, 3, 4), (2,), {}),
    ("max_pool3d", (2, 3, 4, 5, 6), (6,), {}),
    ("max_pool3d", (2, 3, 4, 5, 6), (2,), {"padding": (1, 1, 2)}),
    ("max_pool3d", (2, 3, 4, 5, 6), ((2, 2),), {}),
    ("max_pool3d", (2, 3, 4, 5, 6), (2,), {"dilation": 0}),
    ("max_pool3d", (2, 0, 4, 5, 6), (2,), {}),
    ("avg_pool1d", (4,), (2,), {}),
    ("avg_pool1d", (2, 3, 4), (5,), {}),
    ("avg_pool1d", (2, 3, 4), ((2, 2),), {}),
    ("avg_pool1d", (2, 3, 4), (2,), {"padding": 2}),
    ("avg_pool1d", (2, 0, 4), (2,), {}),
    ("avg_pool2d", (3, 4), (2,), {}),
    ("avg_pool2d", (2, 3, 4, 5), ((2, 2, 2),), {}),
    ("avg_pool2d", (2, 3, 4, 5), (2, 0), {}),
    ("avg_pool2d", (2, 3, 4, 5), (2,), {"padding": 2}),
    ("avg_pool2d", (2, 3, 4, 5), (2,), {"divisor_override": 0}),
    ("avg_pool2d", (2, 3, 4, 5), (6,), {}),
    ("avg_pool2d", (2, 3, 0, 5), (2,), {}),
    ("avg_pool3d", (3, 4, 5), (2,), {}),
    ("avg_pool3d", (2, 3, 4, 5, 6), ((2, 2),), {}),
    ("avg_pool3d", (2, 3, 4, 5, 6), (2, (2, 2)), {}),
    ("avg_pool3d", (2, 3, 4, 5, 6), (2,), {"padding": (1, 1)}),
    ("avg_pool3d", (2, 3, 4, 5, 6), (2,), {"divisor_override": 0}),
    ("avg_pool3d", (2, 3, 4, 5, 6), (7,), {}),
    ("avg_pool3d", (2, 0, 4, 5, 6), (2,), {}),
    ("adaptive_avg_pool1d", (4,), (2,), {}),
    ("adaptive_avg_pool1d", (2, 3, 4), ((2, 2),), {}),
    ("adaptive_avg_pool1d", (2, 3, 4), (None,), {}),
    ("adaptive_avg_pool1d", (2, 3, 4), (-1,), {}),
    ("adaptive_avg_pool1d", (2, 3, 0), (2,), {}),
    ("adaptive_avg_pool2d", (3, 4), (2,), {}),
    ("adaptive_avg_pool2d", (2, 3, 4, 5), ((2, 2, 2),), {}),
    ("adaptive_avg_pool2d", (2, 3, 4, 5), (-1,), {}),
    ("adaptive_avg_pool2d", (2, 3, 0, 5), (2,), {}),
    ("adaptive_avg_pool3d", (3, 4, 5), (2,), {}),
    ("adaptive_avg_pool3d", (2, 3, 4, 5, 6), (-1,), {}),
    ("adaptive_avg_pool3d", (2, 0, 4, 5, 6), (2,), {}),
    ("adaptive_max_pool1d", (4,), (2,), {}),
    ("adaptive_max_pool1d", (2, 3, 4), ((2, 2),), {}),
    ("adaptive_max_pool1d", (2, 3, 0), (2,), {}),
    ("adaptive_max_pool2d", (3, 4), (2,), {}),
    ("adaptive_max_pool2d", (2, 3, 4, 5), ((2,),), {}),
    ("adaptive_max_pool2d", (2, 3, 4, 5), (-1,), {}),
    ("adaptive_max_pool2d", (2, 0, 4, 5), (2,), {}),
    ("adaptive_max_pool3d", (3, 4, 5), (2,), {}),
    ("adaptive_max_pool3d", (2, 3, 0, 5, 6), (2,), {}),
    ("lp_pool1d", (9,), (2, 3), {}),
    ("lp_pool2d", (3, 9), (2, 3), {}),
    ("lp_pool2d", (2, 3, 9, 9), (0, 3), {}),
    ("fractional_max_pool2d", (2, 3, 9, 9), (2,), {}),
    ("fractional_max_pool2d", (2, 3, 9, 9), (2, 9), {}),
    ("fractional_max_pool2d", (9, 9), (2, 3), {}),
    ("fractional_max_pool2d", (2, 3, 9, 9), ((2, 2, 2), 3), {}),
    ("fractional_max_pool2d", (2, 3, 9, 9), (2, (3, 3, 3)), {}),
    ("fractional_max_pool2d", (2, 0, 9, 9), (2, 3), {}),
    ("fractional_max_pool2d", (2, 3, 9, 9), (2, -1), {}),
    ("fractional_max_pool3d", (2, 3, 9, 9, 9), (2,), {}),
    ("fractional_max_pool3d", (2, 3, 9, 9, 9), (2, 9), {}),
    ("fractional_max_pool3d", (9, 9, 9), (2, 3), {}),
    ("fractional_max_pool3d", (2, 3, 9, 9, 9), ((2, 2), 3), {}),
]

# shape of input and indices, value of all indices, arguments after them
BAD_UNPOOL = [
    ("max_unpool1d", (2, 3, 4), 8, (2,), {}),
    ("max_unpool1d", (2, 3, 4), -1, (2,), {}),
    ("max_unpool1d", (2, 3, 4), 0, (2,), {"output_size": (11,)}),
    ("max_unpool1d", (2, 3, 4), 0, (2,), {"output_size": (11, 1)}),
    ("max_unpool1d", (4,), 0, (2,), {}),
    ("max_unpool2d", (2, 3, 4, 5), 80, (2,), {}),
    ("max_unpool2d", (2, 3, 4, 5), -7, (2,), {}),
    ("max_unpool2d", (3, 4), 0, (2,), {}),
    ("max_unpool2d", (2, 3, 4, 5), 0, (2,), {"output_size": (19, 11)}),
    ("max_unpool2d", (2, 0, 4, 5), 0, (2,), {}),
    ("max_unpool3d", (2, 3, 4, 5, 6), 960, (2,), {}),
    ("max_unpool2d", (2, 3, 1, 1), 0, (2,), {"padding": 2}),
    ("max_unpool3d", (4, 5, 6), 0, (2,), {}),
    ("max_unpool3d", (2, 3, 4, 5, 6), 0, (2, 0), {}),
]


def refusals(lib, functional):
    """[case, exception, first sentence] for every bad case."""
    found = []
    for name, shape, args, kwargs in BAD:
        x = lib.zeros(shape)
        found.append(_refusal(name, lambda f, x=x, a=args, k=kwargs: f(x, *a, **k), functional))
    for name, shape, index, args, kwargs in BAD_UNPOOL:
        x, i = lib.zeros(shape), lib.full(shape, index, dtype=lib.int64)
        call = lambda f, x=x, i=i, a=args, k=kwargs: f(x, i, *a, **k)
        found.append(_refusal(name, call, functional))
    return found


def _refusal(name, call, functional):
    try:
        call(getattr(functional, name))
    except Exception as error:  # which one, and its words, is the answer
        return [name, type(error).__name__, str(error).split("\n")[0]]
    return [name, None, ""]
