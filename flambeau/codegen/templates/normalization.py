"""Row programs of batch_norm and group_norm, and the joining of statistics of pieces.

A row is a channel (batch_norm) or a group of channels of one image (group_norm); it lies in memory
as segments (`rows.Planes`) or, with the channels innermost, across it (`rows.Columns`). Where there
are enough rows for all threads, a row is read once from memory: statistics and results come from
cache. Where there are few, rows are cut into pieces whose statistics are joined in between.
Variances are sums of squared distances from the mean, in a second pass.
"""

from flambeau.codegen import descriptions
from flambeau.codegen import scalar as m
from flambeau.codegen.llvm import load_element, store_element
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.templates.rows import Between, Pass, Program, Put, SegmentSum, Sum, narrowed
from flambeau.codegen.templates.sorting import Kernel


def _compute(code):
    return "f64" if code == "f64" else "f32"


def _parameters(code, place, weighted, biased=False):
    found = {"weight": (code, place)} if weighted else {}
    return found | ({"bias": (code, place)} if biased else {})


def _sum_of_elements(e, r):
    return {"total": Sum(e.x)}


def _sum_of_squares(e, r):
    away = e.x - r.mean
    return {"squares": Sum(away * away)}


def _line(r, weighted, biased):
    """slope and shift of the line that normalises: y = x * slope + shift."""
    slope = r.rstd * r.weight if weighted else r.rstd
    shift = -r.mean * slope
    return {"slope": slope, "shift": shift + r.bias if biased else shift}


_ON_THE_LINE = Pass(lambda e, r: {"y": Put(m.fma(e.x, r.slope, r.shift))})


def batch_norm(code, parameter, statistics, weighted, biased, tracked):
    """Normalise by the statistics of each row; tracked: running ones move towards them."""
    operands = {"y": (code, "element")}
    operands |= dict.fromkeys(("mean", "rstd"), (statistics, "row out"))
    if tracked:
        operands |= dict.fromkeys(("running_mean", "running_var"), (statistics, "row"))
    operands |= {"x": (code, "element")} | _parameters(parameter, "row", weighted, biased)

    def spread(r):
        return {"rstd": 1 / m.sqrt(r.squares / r.n + r.eps)}

    def running(r):
        keep = 1 - r.momentum
        return {
            "running_mean": m.fma(r.momentum, r.mean, keep * r.running_mean),
            "running_var": m.fma(r.momentum, r.squares / (r.n - 1), keep * r.running_var),
        }

    steps = [
        Pass(_sum_of_elements),
        Between(lambda r: {"mean": r.total / r.n}),
        Pass(_sum_of_squares),
        Between(spread),
        Between(lambda r: _line(r, weighted, biased)),
        _ON_THE_LINE,
    ]
    if tracked:
        steps.insert(4, Between(running))
    return Program(operands, tuple(steps), ("eps", "momentum"))


def batch_norm_statistics(code):
    """Count, mean and sum of squared distances of each piece."""
    names = ("count", "mean", "squares")
    operands = dict.fromkeys(names, (_compute(code), "piece out")) | {"x": (code, "element")}
    steps = (
        Pass(_sum_of_elements),
        Between(lambda r: {"count": r.n, "mean": r.total / r.n}),
        Pass(_sum_of_squares),
        Between(lambda r: {"squares": r.squares}),
    )
    return Program(operands, steps)


def batch_norm_apply(code, parameter, statistics, weighted, biased, evaluating):
    """Normalise by given statistics: 1/deviations, or (evaluating) variances."""
    second = "var" if evaluating else "rstd"
    operands = {"y": (code, "element"), "x": (code, "element")}
    operands |= dict.fromkeys(("mean", second), (statistics, "row"))
    operands |= _parameters(parameter, "row", weighted, biased)
    steps = (Between(lambda r: _line(r, weighted, biased)), _ON_THE_LINE)
    return Program(operands, (_ROOT, *steps) if evaluating else steps, ("eps",))


def _root(r):
    return {"rstd": 1 / m.sqrt(r.var + r.eps)}


_ROOT = Between(_root)


def _slopes(e, r):
    return {"first": Sum(e.g), "second": Sum(e.g * (e.x - r.mean))}


def _factors(r, count, weighted):
    """dx = g * k + (x - mean) * tilt + lift."""
    k = r.rstd * r.weight if weighted else r.rstd
    tilt = -k * r.rstd * r.rstd * (r.second / count)
    return {"k": k, "tilt": tilt, "lift": -k * (r.first / count)}


_TILTED = Pass(lambda e, r: {"dx": Put(m.fma(e.g, r.k, m.fma(e.x - r.mean, r.tilt, r.lift)))})


def batch_norm_backward(code, parameter, statistics, weighted, wanted, evaluating):
    """Gradients: wanted names some of dx, dw, db."""
    second = "var" if evaluating else "rstd"
    places = {"dx": (code, "element"), "dw": (parameter, "row out"), "db": (parameter, "row out")}
    operands = {n: places[n] for n in wanted}
    operands |= {"g": (code, "element"), "x": (code, "element")}
    operands |= dict.fromkeys(("mean", second), (statistics, "row"))
    operands |= _parameters(parameter, "row", weighted)
    steps = [_ROOT] if evaluating else []
    if not evaluating or "dw" in wanted or "db" in wanted:
        steps.append(Pass(_slopes))
    if "dw" in wanted:
        steps.append(Between(lambda r: {"dw": r.second * r.rstd}))
    if "db" in wanted:
        steps.append(Between(lambda r: {"db": r.first}))
    if "dx" in wanted and evaluating:
        steps.append(Between(lambda r: {"k": r.rstd * r.weight if weighted else r.rstd}))
        steps.append(Pass(lambda e, r: {"dx": Put(e.g * r.k)}))
    elif "dx" in wanted:
        steps += [Between(lambda r: _factors(r, r.n, weighted)), _TILTED]
    return Program(operands, tuple(steps), ("eps",))


def batch_norm_backward_sums(code, statistics):
    """Sums of g and of g * (x - mean) over each piece."""
    operands = dict.fromkeys(("first", "second"), (_compute(code), "piece out"))
    operands |= {"g": (code, "element"), "x": (code, "element"), "mean": (statistics, "row")}
    steps = (Pass(_slopes), Between(lambda r: {"first": r.first, "second": r.second}))
    return Program(operands, steps)


def batch_norm_backward_apply(code, parameter, statistics, weighted):
    """dx from the joined sums of all pieces."""
    operands = dict.fromkeys(("dx", "g", "x"), (code, "element"))
    operands |= dict.fromkeys(("mean", "rstd"), (statistics, "row"))
    operands |= dict.fromkeys(("first", "second"), (_compute(code), "row"))
    operands |= _parameters(parameter, "row", weighted)
    steps = (Between(lambda r: _factors(r, r.count, weighted)), _TILTED)
    return Program(operands, steps, ("count",))


# -- group_norm ------------------------------------------------------------------------------------


def group_norm(code, parameter, statistics, weighted, biased):
    """Normalise rows of several channels; weights belong to segments."""
    operands = {"y": (code, "element")}
    operands |= dict.fromkeys(("mean", "rstd"), (statistics, "row out"))
    operands |= {"x": (code, "element")} | _parameters(parameter, "segment", weighted, biased)

    def result(e, r):
        value = (e.x - r.mean) * r.rstd
        value = value * e.weight if weighted else value
        return {"y": Put(value + e.bias if biased else value)}

    steps = (
        Pass(_sum_of_elements),
        Between(lambda r: {"mean": r.total / r.n}),
        Pass(_sum_of_squares),
        Between(lambda r: {"rstd": 1 / m.sqrt(r.squares / r.n + r.eps)}),
        Pass(result),
    )
    return Program(operands, steps, ("eps",))


def group_norm_backward(code, parameter, statistics, weighted, wanted):
    """dx, and what each segment adds to the gradients of its weight (dw) and bias (db)."""
    compute = _compute(code)
    places = {"dx": (code, "element")}
    places |= dict.fromkeys(("dw", "db"), (compute, "segment out"))
    operands = {n: places[n] for n in wanted}
    operands |= {"g": (code, "element"), "x": (code, "element")}
    operands |= dict.fromkeys(("mean", "rstd"), (statistics, "row"))
    operands |= _parameters(parameter, "segment", weighted)

    def totals(e, r):
        h = e.g * e.weight if weighted else e.g
        found = {"first": Sum(h), "second": Sum(h * (e.x - r.mean))} if "dx" in wanted else {}
        if "dw" in wanted:
            found["dw"] = SegmentSum(e.g * ((e.x - r.mean) * r.rstd))
        if "db" in wanted:
            found["db"] = SegmentSum(e.g)
        return found

    def factors(r):
        tilt = -r.rstd * r.rstd * r.rstd * (r.second / r.n)
        return {"tilt": tilt, "lift": -r.rstd * (r.first / r.n)}

    def result(e, r):
        h = e.g * e.weight if weighted else e.g
        return {"dx": Put(m.fma(h, r.rstd, m.fma(e.x - r.mean, r.tilt, r.lift)))}

    steps = (Pass(totals), Between(factors), Pass(result)) if "dx" in wanted else (Pass(totals),)
    return Program(operands, steps)


# -- statistics of pieces --------------------------------------------------------------------------


def build_joined_statistics(code, statistics, tracked):
    """Mean and 1/deviation of rows from those of their pieces, by Chan's formula, in double.

    (mean, rstd, [running mean, running variance,] counts, means, squares, eps, momentum).
    Statistics of pieces are pieces x rows.
    """
    kernel = Kernel("p" * (7 if tracked else 5) + "ff")
    fn, (*pointers, eps, momentum) = kernel.fn, kernel.arguments
    *outs, counts, means, squares = pointers
    _, rows, pieces = kernel.described(descriptions.Pieces)
    memory = LLVM_TYPE[_compute(code)]

    def number(base, at):
        return fn.convert("fpext", fn.load(fn.gep(base, at, memory), memory), "double")

    with fn.loop(0, rows) as row:
        n, mean, total = (fn.var(fn.value(0.0, "double")) for _ in range(3))
        with fn.loop(0, pieces) as piece:
            at = piece * rows + row
            more, its_mean, its_squares = (number(b, at) for b in (counts, means, squares))
            both = n.get() + more
            away = its_mean - mean.get()
            share = more / both
            total.set(total.get() + its_squares + away * away * n.get() * share)
            mean.set(mean.get() + away * share)
            n.set(both)
        numbers = n.get(), mean.get(), total.get()
        put_statistics(fn, statistics, row, numbers, outs, eps, momentum)
    return kernel.text()


def put_statistics(fn, statistics, row, numbers, outs, eps, momentum):
    """Store mean and 1/deviation of a row, and move its running numbers if there are any."""
    n, mean, squares = numbers

    def put(value, base):
        value = narrowed(fn, value, COMPUTE_TYPE[statistics])
        place = fn.gep(base, row, MEMORY_TYPE[statistics])
        store_element(fn, value, place, statistics, 1, "c")

    put(mean, outs[0])
    put(fn.value(1.0, "double") / fn.intrinsic("sqrt", squares / n + eps), outs[1])
    for base, new in zip(outs[2:], (mean, squares / (n - 1.0))):
        place = fn.gep(base, row, MEMORY_TYPE[statistics])
        old = fn.convert("fpext", load_element(fn, place, statistics, 1, "s"), "double")
        put(old * (1.0 - momentum) + new * momentum, base)
