# ruff: noqa: E501 (a snippet is one line)
"""Snippets about dtypes: promotion, limits, names (see snippets.py)."""

import itertools

NAMES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 "
    "complex32 complex64 complex128"
).split()
SCALARS = ["True", "2", "2.5", "2j"]

PAIRS = [
    *[f"torch.promote_types(torch.{a}, torch.{b})" for a, b in itertools.product(NAMES, NAMES)],
    *[f"torch.can_cast(torch.{a}, torch.{b})" for a, b in itertools.product(NAMES, NAMES)],
]
MIXED = [
    *[
        f"a, b = torch.zeros({s}, dtype=torch.{x}), torch.zeros({t}, dtype=torch.{y}); torch.result_type(a, b)"
        for x, y in itertools.product(NAMES, NAMES)
        for s, t in (("()", "()"), ("1", "()"), ("()", "1"), ("1", "1"))
    ],
    *[
        f"torch.result_type(torch.zeros({s}, dtype=torch.{x}), {n})"
        for x in NAMES
        for n in SCALARS
        for s in ("()", "1")
    ],
    *[
        f"torch.result_type({n}, torch.zeros(1, dtype=torch.{x}))"
        for x in NAMES
        for n in SCALARS[:3]
    ],
    *[f"torch.result_type({a}, {b})" for a in SCALARS for b in SCALARS],
    *[
        f"torch.set_default_dtype(torch.{d}); [torch.result_type(torch.zeros(1, dtype=torch.{x}), n) for n in (True, 2, 2.5)]"
        for d in ("float16", "float64")
        for x in ("bool", "int32", "float32", "float64", "complex64")
    ],
    "torch.set_default_dtype(torch.float64); torch.result_type(torch.zeros(1), 2j)",
    "torch.set_default_dtype(torch.float64); torch.result_type(torch.zeros(1, dtype=torch.float32), 2j)",
]

_LIMITS = "bits eps max min tiny resolution smallest_normal dtype".split()
LIMITS = [
    *[
        f"f = torch.finfo(torch.{d}); {[f'f.{x}' for x in _LIMITS]!r}".replace("'", "")
        for d in NAMES
        if d.startswith(("float", "bfloat", "complex"))
    ],
    *[
        f"repr(torch.finfo(torch.{d})), str(torch.finfo(torch.{d}))"
        for d in NAMES
        if "float" in d or "complex" in d
    ],
    *[
        f"i = torch.iinfo(torch.{d}); (i.bits, i.max, i.min, i.dtype, repr(i))"
        for d in NAMES
        if "int" in d
    ],
    "torch.finfo()",
    "torch.set_default_dtype(torch.float64); torch.finfo().dtype",
    "torch.finfo(torch.int32)",
    "torch.iinfo(torch.float32)",
    "torch.iinfo(torch.bool)",
    "torch.iinfo(torch.complex64)",
    "torch.finfo(torch.bool)",
    "torch.finfo('float32')",
    "torch.iinfo('int32')",
    "torch.finfo(torch.float32) == torch.finfo(torch.float32), torch.finfo(torch.float32) == torch.finfo(torch.float64)",
    "torch.iinfo(torch.int8) == torch.iinfo(torch.int8), torch.iinfo(torch.int8) != torch.iinfo(torch.int16)",
]

NAMED = [
    *[
        f"d = torch.{d}; (d, str(d), d.itemsize, d.is_floating_point, d.is_complex, d.is_signed, d.to_real())"
        for d in NAMES
    ],
    *[f"torch.{d}.to_complex()" for d in NAMES],
    *[f"torch.{a}" for a in "half float double short int long chalf cfloat cdouble".split()],
    *[f"pickle.loads(pickle.dumps(torch.{d})) is torch.{d}" for d in NAMES],
    *[f"copy.deepcopy(torch.{d}) is torch.{d}" for d in ("float32", "bool")],
    "torch.float is torch.float32, torch.long is torch.int64, torch.float == torch.float32",
    "torch.float32 == 'float32', torch.float32 != torch.float64",
    "len({torch.float32: 1, torch.float: 2})",
    "isinstance(torch.float32, torch.dtype), type(torch.float32).__name__",
    "torch.dtype()",
    "torch.get_default_dtype()",
    "torch.set_default_dtype(torch.float64); torch.get_default_dtype()",
    "torch.set_default_dtype(torch.int32)",
    "torch.set_default_dtype(3)",
    "torch.set_default_tensor_type('torch.DoubleTensor'); torch.get_default_dtype()",
    "torch.promote_types(torch.float32, 3)",
    "torch.promote_types('a', torch.float32)",
    "torch.can_cast(1, 2)",
    "torch.result_type('a', 2)",
    "torch.result_type(torch.ones(1), 'a')",
    "torch.result_type(torch.ones(1), np.float64(1))",
    "torch.memory_format, torch.channels_last, torch.contiguous_format, torch.preserve_format",
    "torch.strided, torch.layout",
    "(torch.ones(1, dtype=torch.uint8) + torch.ones(1, dtype=torch.int8)).dtype",
    "(torch.ones(1, dtype=torch.int32) / 2).dtype, (torch.ones(1, dtype=torch.int32) * 2.5).dtype",
    "(torch.ones(1, dtype=torch.float16) + torch.ones((), dtype=torch.float64)).dtype",
    "(torch.ones(1, dtype=torch.bool) + True).dtype, (torch.ones(1, dtype=torch.bool) + 1).dtype",
    "torch.ones(1, dtype=torch.uint16) + torch.ones(1, dtype=torch.int16)",
    # types of Python's numbers stand for dtypes everywhere
    "torch.ones(2).to(dtype=float), torch.ones(2).to('cpu', dtype=bool), torch.ones(2).to(complex)",
    "torch.ones(2).to_sparse().to(dtype=float).dtype",
    "torch.ones(2).sum(dtype=float), torch.ones(2).cumsum(0, dtype=int)",
    "torch.softmax(torch.zeros(2), 0, dtype=float), torch.ones(2).view(int)",
    "torch.can_cast(float, int), torch.promote_types(float, int), torch.finfo(float).eps",
    "torch.nn.Linear(2, 3).to(float).weight.dtype",
    "torch.ones(2).type(bool)",
    "torch.ones(2).to(dtype=3)",
    "torch.ones(2).to(dtype=str)",
    "torch.ones(2).to(str)",
    "torch.ones(2).to(device=3.5)",
    "torch.ones(2).to(memory_format=3)",
]

SNIPPETS = [*PAIRS, *MIXED, *LIMITS, *NAMED]
