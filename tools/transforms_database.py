"""How many samples of PyTorch's op database agree under vmap and jvp; which rows run one by one.

Usage: python tools/transforms_database.py [--only PATTERN] [--samples 3] [--what vmap,jvp,vmapgrad]
           [--dtype float64] [--part 0/1] [--show 60]

PyTorch must be installed; its database (`torch.testing._internal`) is read from outside. `jvp` is
compared with `torch.func.jvp`, or with the vjp of the vjp where PyTorch has no forward formula;
`vmap` (samples first, samples last, one operand without) and `vmapgrad` with a loop over samples,
or with PyTorch's vmap where that is another (as_strided counts from the first sample's memory).
At the end it says which differentiable rows of the table were met, and which of them looped.
"""

import argparse
import collections
import re
import signal
import sys
import warnings

import torch
from op_database import NOT_UNIQUE, RANDOM, Kept, Moved, TimeIsUpError, difference, late, ours_of
from torch.testing._internal.common_methods_invocations import op_db

import flambeau
import flambeau.func
from flambeau.ops.table import TABLE
from flambeau.transforms import batching, duals, handling  # noqa: F401

SECONDS = 30
SKIPPED = re.compile(f"{RANDOM.pattern}|sparse|empty")  # nobody knows the elements of new memory
TURNED = {  # whose samples have another order of arguments
    "where": lambda x, condition, other: flambeau.where(condition, x, other),
    "polygamma": lambda x, n: flambeau.polygamma(n, x),
    "special.polygamma": lambda x, n: flambeau.polygamma(n, x),
    "einsum": lambda tensors, equation: flambeau.einsum(equation, tensors),
    "nn.functional.embedding": lambda weight, index, **more: flambeau.nn.functional.embedding(
        index, weight, **more
    ),
}
BATCH = 3
MET: dict = {"vmap": set(), "jvp": set(), "looped": set(), "tricked": set()}


def watch():
    """Note which rows levels are asked for."""
    batch, dual, loop = batching.BatchLevel.apply, duals.DualLevel.apply, batching.one_by_one
    trick = duals._back_of_back

    def met(word, function, place=1):
        def wrapped(*args):
            MET[word].add(args[place].name)
            return function(*args)

        return wrapped

    batching.BatchLevel.apply = met("vmap", batch)
    duals.DualLevel.apply = met("jvp", dual)
    batching.one_by_one = met("looped", loop)
    duals._back_of_back = met("tricked", trick, 0)


def leaves_of(value, found):
    """Floating tensors of arguments, in order."""
    if isinstance(value, (torch.Tensor, flambeau.Tensor)):
        if value.dtype.is_floating_point or value.dtype.is_complex:
            found.append(value)
    elif isinstance(value, (list, tuple)):
        for v in value:
            leaves_of(v, found)
    elif isinstance(value, dict):
        for v in value.values():
            leaves_of(v, found)
    return found


def put(value, new):
    """Arguments with their floating tensors exchanged, in order."""
    if isinstance(value, (torch.Tensor, flambeau.Tensor)):
        floating = value.dtype.is_floating_point or value.dtype.is_complex
        return next(new) if floating else value
    if isinstance(value, (list, tuple)):
        return type(value)(put(v, new) for v in value)
    if isinstance(value, dict):
        return {k: put(v, new) for k, v in value.items()}
    return value


def smooth(result, module):
    """Floating results."""
    flat = result if isinstance(result, (list, tuple)) else [result]
    found = []
    for r in flat:
        if isinstance(r, (list, tuple)):
            found += smooth(r, module)
        elif isinstance(r, module.Tensor) and (r.dtype.is_floating_point or r.dtype.is_complex):
            found.append(r)
    return found


def function_of(op, sample, moved, module):
    args = [moved(sample.input), *[moved(a) for a in sample.args]]
    kwargs = {k: moved(v) for k, v in sample.kwargs.items()}
    leaves = [x.detach() for x in leaves_of([args, kwargs], [])]

    def run(*new):
        it = iter(new)
        a, k = put([args, kwargs], it)
        return tuple(smooth(op(*a, **k), module))

    return run, leaves


def tangents_like(leaves, module):
    found = []
    for k, x in enumerate(leaves):
        count = x.numel()
        values = [((7 * i + 3 * k) % 11 - 5) / 5 for i in range(count)]
        t = module.tensor(values, dtype=x.dtype).reshape(tuple(x.shape))
        found.append(t)
    return tuple(found)


def judge_jvp(op, ours, sample):
    theirs, leaves = function_of(op.op, sample, Kept("cpu", False), torch)
    if not leaves:
        return None
    v = tangents_like(leaves, torch)
    try:
        wanted = torch.func.jvp(theirs, tuple(leaves), v)[1]
    except Exception:
        try:
            wanted = torch.autograd.functional.jvp(theirs, tuple(leaves), v)[1]
        except Exception as error:
            return "refused by PyTorch", str(error)[:80]
    if not wanted:
        return None
    mine, own = function_of(ours, sample, Moved("cpu", False), flambeau)
    found = flambeau.func.jvp(mine, tuple(own), tangents_like(own, flambeau))[1]
    more = difference(list(found), list(wanted), 1e-6)
    if not more:
        return "agrees", ""
    return (
        ("agrees with differences", "") if by_differences(mine, own, found) else ("differs", more)
    )


def by_differences(mine, own, found):
    """Is a derivative what small steps say? PyTorch's own may be another where both are defined."""
    v, step = tangents_like(own, flambeau), 1e-6
    ahead = mine(*[x + step * t for x, t in zip(own, v)])
    behind = mine(*[x - step * t for x, t in zip(own, v)])
    wanted = [(a - b) / (2 * step) for a, b in zip(ahead, behind)]
    return not difference(list(found), as_torch_list(wanted), 1e-4)


def spread(x, k):
    """A sample that differs a little from another."""
    return x * (1 + 0.01 * k) if x.dtype.is_floating_point or x.dtype.is_complex else x


def variants(count):
    """Which leaves have samples, and where."""
    yield "first", [0] * count
    yield "last", [-1] * count
    if count > 1:
        yield "one without", [None] + [0] * (count - 1)
        yield "others without", [0] + [None] * (count - 1)


def judged_function(function, gradients, module):
    """A function, or the gradients of the sum of its squares."""
    if not gradients:
        return function

    def inner(*xs):
        def total(*ys):
            return sum((abs(o) ** 2).sum() if o.is_complex() else (o * o).sum()
                       for o in function(*ys))  # fmt: skip

        return module.func.grad(total, tuple(range(len(xs))))(*xs)

    return inner


def judge_vmap(op, ours, sample, gradients=False):
    mine, leaves = function_of(ours, sample, Moved("cpu", False), flambeau)
    if not leaves:
        return None
    inner = judged_function(mine, gradients, flambeau)
    batches = [flambeau.stack([spread(x, k) for k in range(BATCH)]) for x in leaves]
    for title, dims in variants(len(leaves)):
        try:
            runs = [
                inner(*[x if d is None else b[k] for x, b, d in zip(leaves, batches, dims)])
                for k in range(BATCH)
            ]
        except Exception as error:
            return "not one by one either", str(error)[:80]
        if not runs[0]:
            return None
        try:
            wanted = [flambeau.stack(column) for column in zip(*runs)]
        except RuntimeError:
            return "sizes that depend on values", ""
        given = [
            x if d is None else b if d == 0 else b.movedim(0, -1)
            for x, b, d in zip(leaves, batches, dims)
        ]
        try:
            found = list(flambeau.func.vmap(inner, tuple(dims))(*given))
        except Exception:
            if by_pytorch(op, sample, dims, given, gradients) is None:
                return "refused, as by PyTorch", ""
            raise
        more = difference(found, as_torch_list(wanted), 1e-6)
        if more:  # PyTorch's own vmap may be another than a loop
            theirs = by_pytorch(op, sample, dims, given, gradients)
            if theirs is None or difference(found, theirs, 1e-6):
                return "differs", f"{title}: {more}"
            return "as PyTorch's vmap, not as a loop", ""
    return "agrees", ""


def by_pytorch(op, sample, dims, given, gradients):
    """What PyTorch's vmap gives; None where it refuses."""
    theirs, _ = function_of(op.op, sample, Kept("cpu", False), torch)
    inner = judged_function(theirs, gradients, torch)
    try:
        return list(torch.func.vmap(inner, tuple(dims))(*as_torch_list(given)))
    except Exception:
        return None


def as_torch_list(values):
    from op_database import as_torch

    return [as_torch(v) for v in values]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--what", default="vmap,jvp")
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--show", type=int, default=80)
    settings = parser.parse_args()
    part, parts = map(int, settings.part.split("/"))
    signal.signal(signal.SIGALRM, late)
    warnings.simplefilter("ignore")
    watch()
    kind = getattr(torch, settings.dtype)
    judges = {
        "jvp": judge_jvp,
        "vmap": judge_vmap,
        "vmapgrad": lambda *a: judge_vmap(*a, gradients=True),
    }
    counts: dict = {w: collections.Counter() for w in settings.what.split(",")}
    complaints: dict = {}
    for number, op in enumerate(op_db):
        if number % parts != part or not re.search(settings.only, op.name):
            continue
        ours = ours_of(op)
        if not callable(ours) or isinstance(ours, flambeau.dtype):
            ours = getattr(flambeau.Tensor, op.name, None)
        ours = ours if callable(ours) else None
        ours = TURNED.get(op.name, ours)
        if ours is None or kind not in op.dtypes or SKIPPED.search(op.name):
            continue
        for word in counts:
            if word != "vmap" and (not op.supports_autograd or NOT_UNIQUE.search(op.name)):
                continue
            try:
                signal.alarm(SECONDS)
                for k, sample in enumerate(op.sample_inputs("cpu", kind, requires_grad=False)):
                    if k >= settings.samples:
                        break
                    try:
                        found = judges[word](op, ours, sample)
                    except TimeIsUpError:
                        raise
                    except Exception as error:
                        text = f"{type(error).__name__}: {' '.join(str(error).split())[:170]}"
                        found = "raises", text
                    if found is None:
                        continue
                    counts[word][found[0]] += 1
                    if found[0] in ("raises", "differs"):
                        complaints.setdefault(f"{word} {op.name}", found[1])
            except TimeIsUpError:
                counts[word]["took too long"] += 1
                complaints.setdefault(f"{word} {op.name}", "took too long")
            finally:
                signal.alarm(0)
    for word, count in counts.items():
        print(word + ":", ", ".join(f"{w}: {n}" for w, n in count.most_common()))
    differentiable = {n for n, row in TABLE.items() if row.is_differentiable}
    for word in ("vmap", "jvp"):
        print(f"{word}: {len(MET[word] & differentiable)} of {len(differentiable)} rows met")
        missing = sorted(differentiable - MET[word])
        print(f"  not met by {word}:", *missing)
    print("one by one:", *sorted(MET["looped"]))
    print("by the way back:", *sorted(MET["tricked"]))
    for name, more in list(complaints.items())[: settings.show]:
        print(f"  {name}: {more}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
