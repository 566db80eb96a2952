"""The row programs: softmax and its kin, logsumexp, layer_norm, rms_norm, forward and backward.

Each function takes dtype codes and gives a `Program` (see `rows.py`). Totals come first, results in
the last pass; what a backward wants again (mean, 1/deviation) is stored once per row. `build` gives
the kernel of a program, of this file or of `normalization.py`, for one way of walking.
"""

import math

from flambeau.codegen import scalar as m
from flambeau.codegen.llvm_names import COMPUTE_TYPE
from flambeau.codegen.target import current
from flambeau.codegen.templates import normalization
from flambeau.codegen.templates.rows import (
    Between,
    Max,
    Pass,
    Program,
    Put,
    Rows,
    Sum,
    SumExp,
    Tallies,
)
from flambeau.codegen.templates.rows_columns import Columns
from flambeau.codegen.templates.rows_planes import Planes
from flambeau.codegen.templates.sorting import Kernel

HALF = ("f16", "bf16")
WALKS = {"rows": Rows, "planes": Planes, "columns": Columns}


def build(walk, name, *facts):
    """IR of the program of that name for one way of walking: rows, planes or columns."""
    return _text(walk, program_of(name, *facts))


def program_of(name, *facts):
    return (globals().get(name) or getattr(normalization, name))(*facts)


def build_joined(walk, name, facts, operands, kinds, head, tail):
    """The same with pointwise work around it.

    operands: name -> dtype code of further elements, as pairs; kinds: letters of further numbers.
    """
    program = program_of(name, *facts)
    more = {n: (code, "element") for n, code in operands}
    program = program._replace(operands=program.operands | more, head=head, tail=tail)
    return _text(walk, program, kinds)


def _text(walk, program, kinds=""):
    first = next(iter(program.operands.values()))[0]
    kernel = Kernel("p" * len(program.operands) + "f" * len(program.scalars) + kinds)
    return WALKS[walk](kernel, program, COMPUTE_TYPE[first]).run()


def softmax(code):
    """y = exp(x - max) / sum."""

    # half types have no room for the power itself: it is computed once more at the end, as it is
    # where computing costs less than writing
    again = code in HALF or bool(current().gpu)

    def powers(e, r):
        power = m.exp(e.x - r.top)
        return {"total": Sum(power)} | ({} if again else {"y": Put(power)})

    def result(e, r):
        power = m.exp(e.x - r.top) if again else e.y
        return {"y": Put(power * r.scale)}

    totals = Pass(lambda e, r: {"top": Max(e.x)}), Pass(powers)
    totals = (Pass(lambda e, r: {"total": SumExp(e.x)}),) if current().gpu else totals
    steps = (*totals, Between(lambda r: {"scale": 1 / r.total}), Pass(result))
    return Program({"y": (code, "element"), "x": (code, "element")}, steps)


def log_softmax(code):
    """y = x - max - log(sum of exp(x - max))."""
    totals = (
        Pass(lambda e, r: {"top": Max(e.x)}),
        Pass(lambda e, r: {"total": Sum(m.exp(e.x - r.top))}),
    )
    totals = (Pass(lambda e, r: {"total": SumExp(e.x)}),) if current().gpu else totals
    steps = (
        *totals,
        Between(lambda r: {"log_total": m.log(r.total)}),
        Pass(lambda e, r: {"y": Put(e.x - r.top - r.log_total)}),
    )
    return Program({"y": (code, "element"), "x": (code, "element")}, steps)


def softmax_backward(code):
    """dx = y * (g - sum of g * y)."""
    steps = (
        Pass(lambda e, r: {"total": Sum(e.g * e.y)}),
        Pass(lambda e, r: {"dx": Put(e.y * (e.g - r.total))}),
    )
    return Program(dict.fromkeys(("dx", "g", "y"), (code, "element")), steps)


def log_softmax_backward(code):
    """dx = g - exp(y) * sum of g."""
    steps = (
        Pass(lambda e, r: {"total": Sum(e.g)}),
        Pass(lambda e, r: {"dx": Put(m.fma(-m.exp(e.y), r.total, e.g))}),
    )
    return Program(dict.fromkeys(("dx", "g", "y"), (code, "element")), steps)


def logsumexp(code):
    """y = log(sum of exp(x - max)) + max, one number per row; an infinite max is not taken off."""

    def shifted(r):
        finite = (r.top < math.inf) & (r.top > -math.inf)
        return {"shift": m.where(finite, r.top, m.const(0, r.top.type))}

    totals = (
        Pass(lambda e, r: {"top": Max(e.x)}),
        Between(shifted),
        Pass(lambda e, r: {"total": Sum(m.exp(e.x - r.shift))}),
    )
    if current().gpu:
        totals = Pass(lambda e, r: {"total": SumExp(e.x, plain=True)}), Between(shifted)
    steps = (*totals, Between(lambda r: {"y": m.log(r.total) + r.shift}))
    return Program({"y": (code, "piece out"), "x": (code, "element")}, steps)


def logsumexp_backward(code):
    """dx = g * exp(x - y), with g and y per row."""
    operands = {"dx": (code, "element"), "g": (code, "piece")}
    operands |= {"x": (code, "element"), "y": (code, "piece")}
    return Program(operands, (Pass(lambda e, r: {"dx": Put(r.g * m.exp(e.x - r.y))}),))


def layer_norm(code, parameter, statistics, weighted, biased):
    """y = (x - mean) / deviation * weight + bias, and mean and 1/deviation per row."""
    operands = {"y": (code, "element"), "mean": (statistics, "row out")}
    operands |= {"rstd": (statistics, "row out"), "x": (code, "element")}
    operands |= {"weight": (parameter, "column")} if weighted else {}
    operands |= {"bias": (parameter, "column")} if biased else {}

    def squares(e, r):
        away = e.x - r.mean
        return {"squares": Sum(away * away)}

    def result(e, r):
        value = (e.x - r.mean) * r.rstd
        value = value * e.weight if weighted else value
        return {"y": Put(value + e.bias if biased else value)}

    steps = (
        Pass(lambda e, r: {"total": Sum(e.x)}),
        Between(lambda r: {"mean": r.total / r.n}),
        Pass(squares),
        Between(lambda r: {"rstd": 1 / m.sqrt(r.squares / r.n + r.eps)}),
        Pass(result),
    )
    return Program(operands, steps, ("eps",))


def layer_norm_backward(code, parameter, statistics, weighted, wanted):
    """Gradients of layer_norm: wanted names some of dx, dw, db."""
    compute = "f64" if code == "f64" else "f32"
    places = {"dx": (code, "element"), "dw": (compute, "tally"), "db": (compute, "tally")}
    operands = {n: places[n] for n in wanted}
    operands |= {"g": (code, "element"), "x": (code, "element")}
    operands |= {"mean": (statistics, "row"), "rstd": (statistics, "row")}
    operands |= {"weight": (parameter, "column")} if weighted else {}

    def scaled(e):
        return e.g * e.weight if weighted else e.g

    def totals(e, r):
        return {"first": Sum(scaled(e)), "second": Sum(scaled(e) * (e.x - r.mean))}

    def tallies(e, r):
        found = {"dw": e.g * ((e.x - r.mean) * r.rstd), "db": e.g}
        return {n: v for n, v in found.items() if n in wanted}

    def factors(r):
        return {
            "shift": -r.rstd * (r.first / r.n),
            "slope": -r.rstd * r.rstd * r.rstd * (r.second / r.n),
        }

    def result(e, r):
        return {"dx": Put(m.fma(r.rstd, scaled(e), m.fma(e.x - r.mean, r.slope, r.shift)))}

    steps = (Pass(totals), Between(factors), Pass(result)) if "dx" in wanted else ()
    return Program(operands, (*steps, Tallies(tallies)) if wanted != ("dx",) else steps)


def rms_norm(code, weighted):
    """y = x / sqrt(mean of squares + eps) * weight, and the factor per row."""
    operands = {"y": (code, "element")}
    operands |= {"rstd": ("f64" if code == "f64" else "f32", "row out"), "x": (code, "element")}
    operands |= {"weight": (code, "column")} if weighted else {}

    def result(e, r):
        value = e.x * r.rstd
        return {"y": Put(value * e.weight if weighted else value)}

    steps = (
        Pass(lambda e, r: {"squares": Sum(e.x * e.x)}),
        Between(lambda r: {"rstd": 1 / m.sqrt(r.squares / r.n + r.eps)}),
        Pass(result),
    )
    return Program(operands, steps, ("eps",))


def rms_norm_backward(code, weighted, wanted):
    """Gradients of rms_norm: wanted names some of dx, dw."""
    compute = "f64" if code == "f64" else "f32"
    places = {"dx": (code, "element"), "dw": (compute, "tally")}
    operands = {n: places[n] for n in wanted}
    operands |= {"g": (code, "element"), "x": (code, "element"), "rstd": (compute, "row")}
    operands |= {"weight": (code, "column")} if weighted else {}

    def scaled(e):
        return e.g * e.weight if weighted else e.g

    steps = (
        Pass(lambda e, r: {"total": Sum(scaled(e) * e.x)}),
        Between(lambda r: {"slope": -r.rstd * r.rstd * r.rstd * (r.total / r.n)}),
        Pass(lambda e, r: {"dx": Put(m.fma(r.rstd, scaled(e), e.x * r.slope))}),
    )
    steps = steps if "dx" in wanted else ()
    tallies = Tallies(lambda e, r: {"dw": e.g * (e.x * r.rstd)})
    return Program(operands, (*steps, tallies) if "dw" in wanted else steps)
