"""How many samples of PyTorch's own databases of modules and optimizers agree with PyTorch.

Usage: python tools/module_database.py [--only PATTERN] [--kinds modules,optimizers,schedulers]

PyTorch must be installed (and `expecttest`); its databases (`torch.testing._internal`) are read
from outside. Modules: built from the same arguments with the same state, in training and not; the
result, its dtype and shape, the gradients of inputs and parameters, and the state afterwards are
compared. Optimizers: six steps (two of LBFGS, which are forty) of a small network with each setting
and each implementation; the parameters and the state are compared. Schedulers: twenty epochs, the
rates after each.
"""

import argparse
import collections
import re
import sys
import warnings
from pathlib import Path

import torch
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db

import flambeau

sys.path.insert(0, str(Path(__file__).parent))
from op_database import TOLERANCE, Kept, Moved, difference, flat, named, rebound

DTYPES = ("float32", "float64", "bfloat16", "complex64")


def module_samples(settings):
    """(name, function that gives what differs) of the samples of modules."""
    for info in module_db:
        if not re.search(settings.only, info.name):
            continue
        for dtype in DTYPES:
            kind = getattr(torch, dtype)
            if kind not in info.dtypes:
                continue
            for training in (True, False):
                try:
                    inputs = info.module_inputs_func(
                        info, device="cpu", dtype=kind, requires_grad=True, training=training
                    )
                except Exception as error:
                    print("no samples", info.name, dtype, str(error)[:80])
                    continue
                for sample in inputs:
                    if sample.forward_input is not None:
                        yield f"{info.name} {dtype}", (module_difference, info, sample, training)


def module_difference(info, sample, training):
    given, call = sample.constructor_input, sample.forward_input
    dtype = next(
        (x.dtype for x in flat([call.args, call.kwargs]) if isinstance(x, torch.Tensor)),
        torch.float32,
    )
    dtype = dtype if dtype.is_floating_point or dtype.is_complex else torch.float32
    torch.manual_seed(0)
    theirs = info.module_cls(*given.args, **given.kwargs)
    built = Moved("cpu", False)
    ours = named("torch.nn", info.module_cls.__name__)(
        *[built(x) for x in given.args], **{key: built(x) for key, x in given.kwargs.items()}
    )
    theirs.train(training), ours.train(training)
    theirs.to(dtype), ours.to(Moved("cpu", False)(dtype))
    tolerance = TOLERANCE.get(str(dtype).removeprefix("torch."), 1e-4)
    lazy = info.is_lazy
    if not lazy:
        ours.load_state_dict(Moved("cpu", False)(dict(theirs.state_dict())))
    wanted, found = Kept("cpu", True), Moved("cpu", True)
    args = (wanted(tuple(call.args)), wanted(dict(call.kwargs)))
    ours_args = (found(tuple(call.args)), found(dict(call.kwargs)))
    torch.manual_seed(1), flambeau.manual_seed(1)
    y = theirs(*args[0], **args[1])
    torch.manual_seed(1), flambeau.manual_seed(1)
    x = ours(*ours_args[0], **ours_args[1])
    if lazy:
        ours.load_state_dict(Moved("cpu", False)(dict(theirs.state_dict())))
        x, y = ours(*ours_args[0], **ours_args[1]), theirs(*args[0], **args[1])
    more = difference(flat(x), flat(y), tolerance)
    if more:
        return more
    for result, library in ((x, flambeau), (y, torch)):
        sources = [r for r in flat(result) if isinstance(r, library.Tensor) and r.requires_grad]
        if sources:
            sum((r.abs() if r.dtype.is_complex else r).double().sum() for r in sources).backward()
    leaves = [[t.grad for t in m.leaves] for m in (found, wanted)]
    grads = [[p.grad for p in m.parameters()] for m in (ours, theirs)]
    for a, b, word in ((*leaves, "input"), (*grads, "parameter")):
        if [v is None for v in a] != [v is None for v in b]:
            return f"gradient of {word}: there or not"
        pairs = [(v, w) for v, w in zip(a, b, strict=True) if w is not None]
        more = difference([v for v, _ in pairs], [w for _, w in pairs], 10 * tolerance)
        if more:
            return f"gradient of {word}: {more}"
    states = [dict(m.state_dict()) for m in (ours, theirs)]
    if list(states[0]) != list(states[1]):
        return f"state {list(states[0])} for {list(states[1])}"
    more = difference(list(states[0].values()), list(states[1].values()), tolerance)
    return more and f"state: {more}"


def optimizer_samples(settings):
    for info in optim_db:
        if not re.search(settings.only, info.name):
            continue
        for sample in info.optim_inputs_func(device="cpu", dtype=torch.float32):
            for how in ({}, *({word: True} for word in info.supported_impls)):
                name = f"{info.name} {sample.kwargs} {how}"
                yield name, (optimizer_difference, info, {**sample.kwargs, **how})


def optimizer_difference(info, options):
    sparse = info.only_supports_sparse_grads
    runs = []
    for library in (torch, flambeau):
        values = [[[0.5, -1.5, 2.0], [0.1, 0.2, -0.3]], [[1.0, -0.25], [3.0, 0.5], [-2.0, 1.0]]]
        leaves = [library.tensor(v, dtype=library.float64, requires_grad=True) for v in values]
        weights = [w.clone() if options.get("differentiable") else w for w in leaves]
        [w.retain_grad() for w in weights]
        kwargs = {
            k: Moved("cpu", False)(v) if library is flambeau else v for k, v in options.items()
        }
        optimizer = getattr(library.optim, info.name)(weights, **kwargs)
        told = []

        def closure(library=library, weights=weights, optimizer=optimizer):
            optimizer.zero_grad()
            x = library.tensor([[1.0, 2.0], [0.5, -1.0], [0.0, 1.0]], dtype=library.float64)
            loss = ((x @ weights[0]).tanh() @ weights[1] - x).square().mean()
            grads = library.autograd.grad(loss, weights)
            for w, g in zip(weights, grads, strict=True):
                w.grad = g
            if sparse:
                for w in weights:
                    w.grad = w.grad.to_sparse()
            return loss

        # A step with a closure is twenty iterations. After sixty of them rounding has the word:
        # PyTorch, started 1e-15 away, ends 1e-3 away.
        for _ in range(2 if info.step_requires_closure else 6):
            if info.step_requires_closure:
                optimizer.step(closure)
            else:
                closure()
                optimizer.step()
            told += [w.detach().clone() for w in weights]
        state = optimizer.state_dict()["state"]
        told += [v for k in sorted(state) for n, v in sorted(state[k].items()) if v is not None]
        runs.append(told)
    return difference(flat(runs[1]), flat(runs[0]), 1e-4)


def scheduler_samples(settings):
    for info in optim_db:
        for k, made in enumerate(info.scheduler_inputs or ()):
            if re.search(settings.only, info.name):
                yield f"{info.name} {k}", (scheduler_difference, info.name, made)
    for text in SCHEDULERS:
        if re.search(settings.only, text):
            yield text, (scheduler_difference, "SGD", text)


S = "torch.optim.lr_scheduler."
SCHEDULERS = [
    f"{S}LambdaLR(o, lambda e: 0.9**e)",
    f"{S}MultiplicativeLR(o, lambda e: 0.95)",
    f"{S}StepLR(o, 3, 0.5)",
    f"{S}MultiStepLR(o, [2, 5, 9], 0.3)",
    f"{S}ConstantLR(o, 0.5, 4)",
    f"{S}LinearLR(o, 0.1, 1.0, 7)",
    f"{S}ExponentialLR(o, 0.8)",
    f"{S}PolynomialLR(o, 9, 2.0)",
    f"{S}CosineAnnealingLR(o, 6, 1e-3)",
    f"{S}CosineAnnealingWarmRestarts(o, 4, 2, 1e-3)",
    f"{S}CyclicLR(o, 0.01, 0.1, 4, mode='exp_range', gamma=0.9)",
    f"{S}OneCycleLR(o, 0.5, total_steps=30, three_phase=True)",
    f"{S}SequentialLR(o, [{S}ConstantLR(o, 0.1, 3), {S}ExponentialLR(o, 0.9)], [4])",
    f"{S}ChainedScheduler([{S}ConstantLR(o, 0.1, 3), {S}ExponentialLR(o, 0.9)])",
    f"{S}ReduceLROnPlateau(o, patience=2)",
    "torch.optim.swa_utils.SWALR(o, 0.05, 4)",
]


def scheduler_difference(name, made):
    runs = []
    for library in (torch, flambeau):
        weights = [library.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)]
        optimizer = getattr(library.optim, name)(weights, lr=0.1)
        if isinstance(made, str):
            scheduler = eval(made, {"torch": library, "o": optimizer})
        else:
            several = [f if library is torch else in_ours(f) for f in made]
            several = [f(optimizer) for f in several]
        several = [scheduler] if isinstance(made, str) else several
        rates = []
        for epoch in range(20):
            optimizer.step() if name not in ("LBFGS", "SparseAdam") else None
            for scheduler in several:
                plateau = "Plateau" in type(scheduler).__name__
                scheduler.step(abs(epoch - 8)) if plateau else scheduler.step()
            rates.append([group["lr"] for group in optimizer.param_groups])
            rates.append(sorted(scheduler.state_dict()))
        runs.append(rates)
    for epoch, (x, y) in enumerate(zip(*runs, strict=True)):
        if epoch % 2 and x != y:
            return f"state {y} for {x}"
        if not epoch % 2 and any(abs(a - b) > 1e-9 for a, b in zip(x, y, strict=True)):
            return f"epoch {epoch // 2}: {y} for {x}"
    return ""


def in_ours(made):
    """A function of the database that makes a scheduler, with our schedulers."""
    copy = rebound(made)
    for name in made.__code__.co_names:
        if hasattr(flambeau.optim.lr_scheduler, name):
            copy.__globals__[name] = getattr(flambeau.optim.lr_scheduler, name)
    return copy


SAMPLES = {
    "modules": module_samples,
    "optimizers": optimizer_samples,
    "schedulers": scheduler_samples,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--kinds", default="modules,optimizers,schedulers")
    settings = parser.parse_args()
    warnings.simplefilter("ignore")
    for kind in settings.kinds.split(","):
        counts, notes = collections.Counter(), {}
        for name, (judge, *rest) in SAMPLES[kind](settings):
            try:
                more = judge(*rest)
            except Exception as error:
                more = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            counts["differs" if more else "agrees"] += 1
            if more:
                notes.setdefault(name, [0, more])[0] += 1
        total = sum(counts.values())
        print(f"{kind}: {counts['agrees']} of {total} samples agree")
        for name, (count, more) in sorted(notes.items(), key=lambda item: -item[1][0]):
            print(f"  {count} x {name}: {more}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
