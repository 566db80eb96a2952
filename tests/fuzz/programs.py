"""Random calls over the whole table, each a program of a few lines that both libraries can run.

`program(seed, number)` always gives the same text. A program names its tensors x0, x1, ... (made by
`made`, from a number, a shape, a dtype and a form), then calls one public function or method. Most
calls are sensible; some have a wrong type, a dimension too many, or a number that is far too large.
"""

import json
import random
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.random  # here: an interrupted import would leave its lock locked for all threads

import flambeau
from flambeau.ops.table import REQUIRED, TABLE

DTYPES = (
    ["float32"] * 8
    + ["float64", "float64", "int64", "int64", "bool", "float16", "bfloat16"]
    + ["complex64", "complex128", "int32", "int16", "int8", "uint8"]
)
FORMS = ["plain"] * 5 + ["turned", "stepped", "repeated", "offset", "needs_grad"]
EDGES = [0, 1, -1, 0.5, -2.5, 3, 1e-30, 1e30, float("inf"), float("-inf"), float("nan"), 127, 255]
ODD = [None, True, 0, -1, 3, 1.5, "sum", (), (1, 2), [1], -(2**63), 2**63, 2**40, float("nan"), 1j]
DIM = [0, 1, -1, 2, -2]
SIZE = [(2, 3), (1,), (2, -1), (3, 2, 2), (0,), (6,)]
FLAG = [True, False]
SMALL = [0, 1, 2, 3]
PAIR = [1, 2, 3, (1, 2), (2, 2), (2,)]
FLOAT = [0.0, 0.5, 1.0, -1.0, 2.5, 1e-5]
CHOICES = {
    **dict.fromkeys("dim dim0 dim1 dim2 dimension start_dim end_dim".split(), DIM),
    **dict.fromkeys("size shape sizes normalized_shape s output_size".split(), SIZE),
    **dict.fromkeys(
        "k n r niter decimals diagonal row col chunks bins minlength num_classes num_samples "
        "length start end step index offset num_groups groups split_size storage_offset M "
        "downscale_factor upscale_factor padding_idx ignore_index num_heads blank".split(),
        SMALL,
    ),
    **dict.fromkeys("kernel_size stride padding dilation output_padding".split(), PAIR),
    **dict.fromkeys(
        "p eps alpha beta value delta margin lambd min max sigma tau rtol atol tol scale rcond "
        "threshold momentum std mean negative_slope min_val max_val max_norm maxnorm q".split(),
        FLOAT,
    ),
    "dims": [0, 1, (0, 1), (-1,), (1, 0), (0, 1, 2)],
    "reduction": ["none", "mean", "sum"],
    "reduce": ["sum", "prod", "mean", "amax", "amin"],
    "mode": ["constant", "reflect", "replicate", "circular", "nearest", "bilinear", "mean", "sum"],
    "padding_mode": ["zeros", "border", "reflection"],
    "interpolation": ["linear", "lower", "higher", "nearest", "midpoint"],
    "rounding_mode": [None, "floor", "trunc"],
    "approximate": ["none", "tanh"],
    "norm": [None, "forward", "backward", "ortho"],
    "ord": [None, 1, 2, -1, "fro", "nuc", float("inf")],
    "dtype": ["torch.float32", "torch.float64", "torch.int64", "torch.bfloat16", None],
    "pad": [(1, 1), (0, 1, 2, 0), (-1, 0), (1,)],
    "shifts": [1, (1, 2), -3],
    "repeats": [2, (2, 1), (1, 2, 2)],
    "correction": [0, 1, 2.5],
    "side": ["left", "right"],
    "indexing": ["ij", "xy"],
    "UPLO": ["L", "U"],
    "scale_factor": [2, 0.5, (1.5, 2)],
}
FLAGS = """keepdim align_corners ceil_mode training upper left full full_matrices hermitian inplace
return_indices sorted largest descending stable unbiased right increasing equal_nan accumulate
include_self return_inverse return_counts count_include_pad log_input log_target swap is_causal
transpose unitriangular some hard symmetric onesided center normalized assume_unique
invert""".split()
CHOICES.update(dict.fromkeys(FLAGS, FLAG))


class Program(NamedTuple):
    """A call that can be made again: its text, the op, and its number."""

    number: int
    op: str
    text: str


def made(lib, number, shape, dtype, form):
    """A tensor of a library: values from a number, in memory of some form."""
    rng = numpy.random.default_rng(number)
    values = rng.choice(EDGES[:8] if rng.random() < 0.8 else EDGES, size=shape)
    values = values + np.round(rng.standard_normal(shape), 2) * (rng.random() < 0.7)
    with np.errstate(all="ignore"):
        if dtype in ("float32", "float64", "float16", "bfloat16"):
            values = values.astype("float64")
        elif dtype.startswith("complex"):
            values = values + 1j * np.round(rng.standard_normal(shape), 2)
        elif dtype == "bool":
            values = values > 0
        else:
            values = np.abs(np.nan_to_num(values, posinf=3, neginf=0)) % 5
            values = values.astype("int64")
    t = lib.from_numpy(np.array(values)).to(getattr(lib, dtype))
    if form == "turned" and t.dim() > 1:
        t = t.transpose(0, -1).contiguous().transpose(0, -1)
    elif form == "stepped" and t.dim():
        t = lib.stack([t, t], -1)[..., 0]
    elif form == "repeated" and t.dim():
        t = t[:1].expand(t.shape)
    elif form == "offset":
        t = lib.cat([t.flatten(), t.flatten()])[t.numel() :].view(t.shape)
    elif form == "needs_grad" and (t.is_floating_point() or t.is_complex()):
        t.requires_grad_()
    return t


def _spelling(name):
    """How users reach a row: an expression; None if they do not."""
    functional = flambeau.nn.functional
    if name.startswith("functional_"):
        short = name.removeprefix("functional_")
        return f"torch.nn.functional.{short}" if hasattr(functional, short) else None
    spaces = {
        "special_": ("torch.special", flambeau.special),
        "linalg_": ("torch.linalg", flambeau.linalg),
        "fft_": ("torch.fft", flambeau.fft),
    }
    for prefix, (written, space) in spaces.items():
        short = name.removeprefix(prefix)
        if short != name and hasattr(space, short):
            return f"{written}.{short}"
    if hasattr(flambeau, name):
        return f"torch.{name}"
    if hasattr(functional, name):
        return f"torch.nn.functional.{name}"
    return f"torch.Tensor.{name}" if hasattr(flambeau.Tensor, name) else None


# What draws without a seed that both libraries share, sleeps, or returns whatever memory holds.
LEFT_OUT = {"empty_like", "pin_memory", "record_stream", "_to_copy"}


@cache
def spellings():
    """name -> expression, of all rows that users reach."""
    return {
        name: written for name in TABLE if name not in LEFT_OUT and (written := _spelling(name))
    }


@cache
def _listed(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def program(seed, number):
    """The call with a number in the stream of a seed; seed may be the path of a file of them."""
    if isinstance(seed, str):
        line = _listed(seed)[number]
        text, _, last = line["program"].rpartition("print(")
        return Program(number, line["op"], f"{text}out = {last.rstrip(')')}")
    return _drawn(seed, number)


def _drawn(seed, number):
    rng = random.Random(f"{seed} {number}")
    written = spellings()
    name = rng.choice(sorted(written))
    op, lines, given = TABLE[name], [], []
    shape = tuple(rng.choice([1, 2, 3, 4]) for _ in range(rng.choice([0, 1, 2, 2, 3, 4])))
    dtype = rng.choice(DTYPES)

    def tensor(k):
        own, kind = shape, dtype
        luck = rng.random()
        if luck < 0.12 and own:
            own = own[rng.randrange(len(own)) :]
        elif luck < 0.2 and len(own) > 1:
            own = (*own[:-2], own[-1], own[-2])
        elif luck < 0.3:
            own = tuple(rng.choice([0, 1, 2, 3]) for _ in range(rng.randrange(4)))
        if rng.random() < (0.5 if "ind" in op.params[k].name else 0.1):
            kind = rng.choice(DTYPES)
        lines.append(
            f"x{len(lines)} = made(torch, {rng.randrange(10**6)}, {own}, {kind!r}, "
            f"{rng.choice(FORMS)!r})"
        )
        return f"x{len(lines) - 1}"

    for k, p in enumerate(op.params):
        if p.name.startswith("_") or (p.default is not REQUIRED and rng.random() < 0.6):
            continue  # (the first are not for users)
        if rng.random() < 0.03 and p.name != "niter":  # 2**40 rounds would take days anywhere
            value = repr(rng.choice(ODD))
        elif p.kind == "tensor" or (p.kind == "optional" and rng.random() < 0.8):
            value = tensor(k)
        elif p.kind == "tensors":
            value = "[" + ", ".join(tensor(k) for _ in range(rng.randrange(1, 4))) + "]"
        else:
            choices = CHOICES.get(p.name) or (FLOAT if p.kind in ("float", "scalar") else SMALL)
            value = rng.choice(choices)
            value = value if str(value).startswith("torch.") else repr(value)
        value = value.replace("inf", 'float("inf")') if value in ("inf", "-inf") else value
        value = 'float("nan")' if value == "nan" else value
        given.append(value if not p.keyword_only and len(given) == k else f"{p.name}={value}")
    lines.append(f"out = {written[name]}({', '.join(given)})")
    return Program(number, name, "\n".join(lines))
