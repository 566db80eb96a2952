"""How many samples of PyTorch's own op database agree: with PyTorch, or on a GPU with the host.

Usage: python tools/op_database.py [--device cpu|cuda] [--beside torch|host] [--dtypes int64,...]
           [--only PATTERN] [--samples 4] [--gradients] [--part 1/8] [--show 20]

PyTorch must be installed; its database (`torch.testing._internal`) is read from outside. A sample
is called with our tensors on `--device`, and its result is compared with PyTorch's on the CPU, or
with our own there (`--beside host`: what a GPU gets wrong). Ops of the database that have no name
here, and samples that PyTorch itself refuses, are counted apart. `--part 1/8` takes every eighth
op, so that several processes can share the work.
"""

import argparse
import collections
import re
import signal
import sys
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db

import flambeau

SECONDS = 20  # for one op with one dtype
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float64": 1e-7, "complex128": 1e-7}
RANDOM = re.compile(
    "bernoulli|cauchy|dropout|exponential|geometric|log_normal|multinomial|normal|rand|uniform|"
    "empty|svd_lowrank|pca_lowrank|rrelu|new_empty"
)
NOT_UNIQUE = re.compile(r"eig|svd|qr|householder|ormqr|sort$|argsort|topk|lu|ldl|lobpcg|unique")


class TimeIsUpError(Exception):
    pass


def ours_of(op):
    """What the database calls an op, in our namespace; None where there is no such name."""
    found = flambeau
    for word in op.name.split("."):
        found = getattr(found, word, None)
        if found is None:
            return getattr(flambeau.Tensor, op.name, None)
    return found


class Moved:
    """Arguments of PyTorch's as ours, on a device."""

    def __init__(self, device, slopes):
        self.device, self.slopes, self.leaves = device, slopes, []

    def __call__(self, value):
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, torch.dtype):
            return getattr(flambeau, str(value).removeprefix("torch."))
        if isinstance(value, torch.device):
            return flambeau.device(self.device)
        if isinstance(value, torch.memory_format | torch.layout):
            return getattr(flambeau, str(value).removeprefix("torch."))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self, value))
        if isinstance(value, list | tuple):
            return type(value)(map(self, value))
        if isinstance(value, dict):
            return {key: self(item) for key, item in value.items()}
        return value

    def tensor(self, value):
        plain = value.detach().resolve_conj().resolve_neg()
        if plain.dtype == torch.bfloat16:
            there = flambeau.from_numpy(plain.contiguous().view(torch.int16).numpy().copy())
            there = there.view(flambeau.bfloat16)
        else:
            there = flambeau.from_numpy(plain.contiguous().numpy().copy())
        if not plain.is_contiguous() and plain.numel():
            there = flambeau.empty_strided(
                tuple(plain.shape), plain.stride(), dtype=there.dtype
            ).copy_(there)
        there = there.to(self.device)
        if self.slopes and value.requires_grad:
            self.leaves.append(there.requires_grad_())
        return there


class Kept(Moved):
    """Arguments of PyTorch's as they are, copied."""

    def tensor(self, value):
        there = value.detach().clone()
        if self.slopes and value.requires_grad:
            self.leaves.append(there.requires_grad_())
        return there

    def __call__(self, value):
        if isinstance(value, torch.dtype | torch.device | torch.memory_format | torch.layout):
            return value
        return super().__call__(value)


def called(function, sample, moved):
    """Results and gradients, as flat lists of tensors and other values."""
    arguments = moved(sample.input), moved(tuple(sample.args)), moved(sample.kwargs)
    found = flat(function(arguments[0], *arguments[1], **arguments[2]))
    slopes = []
    if moved.slopes and moved.leaves:
        sources = [x for x in found if getattr(x, "requires_grad", False)]
        if sources:
            total = sum((x.abs() if x.dtype.is_complex else x).double().sum() for x in sources)
            total.backward()
            slopes = [leaf.grad for leaf in moved.leaves]
    return found, slopes


def flat(value):
    if isinstance(value, list | tuple):
        return [item for part in value for item in flat(part)]
    if isinstance(value, dict):
        return flat(list(value.values()))
    return [value]


def as_torch(value):
    if isinstance(value, flambeau.Tensor):
        value = value.detach().cpu().resolve_conj().resolve_neg()
        if value.dtype == flambeau.bfloat16:
            return torch.from_numpy(value.float().numpy()).to(torch.bfloat16)
        return torch.from_numpy(value.contiguous().numpy().copy()).reshape(tuple(value.shape))
    return value.detach() if isinstance(value, torch.Tensor) else value


def difference(found, wanted, tolerance, unique=True):
    """What is different, in a few words; empty if nothing is. unique: is there one right result?"""
    if len(found) != len(wanted):
        return f"{len(found)} results for {len(wanted)}"
    for x, y in zip(map(as_torch, found), map(as_torch, wanted), strict=True):
        if not isinstance(y, torch.Tensor) or not isinstance(x, torch.Tensor):
            if type(x) is type(y) and isinstance(y, bool | int | str) and x != y:
                return f"{x} for {y}"
            continue
        if x.dtype != y.dtype:
            return f"dtype {x.dtype} for {y.dtype}"
        if x.shape != y.shape:
            return f"shape {tuple(x.shape)} for {tuple(y.shape)}"
        if not unique:
            continue
        try:
            torch.testing.assert_close(
                x, y, rtol=tolerance, atol=tolerance, equal_nan=True, check_stride=False
            )
        except AssertionError as error:
            return "values: " + " ".join(str(error).split())[:110]
    return ""


def judge(op, sample, settings, dtype):
    """One word for what came of a sample, and more about it."""
    ours = ours_of(op)
    try:
        warnings.simplefilter("ignore")
        wanted, wanted_slopes = called(op.op, sample, Kept("cpu", settings.gradients))
    except TimeIsUpError:
        raise
    except Exception as error:  # PyTorch refuses: not a sample for us
        return "refused by PyTorch", str(error)
    try:
        if settings.beside == "host":
            wanted, wanted_slopes = called(ours, sample, Moved("cpu", settings.gradients))
    except TimeIsUpError:
        raise
    except Exception:
        return "not on the host either", ""
    try:
        found, slopes = called(ours, sample, Moved(settings.device, settings.gradients))
        tolerance = TOLERANCE.get(dtype, 1e-4)
        unique = not (NOT_UNIQUE if settings.beside == "torch" else RANDOM).search(op.name)
        unique = unique and not RANDOM.search(op.name)
        more = difference(found, wanted, tolerance, unique)
        if not more and unique:
            more = difference(
                [x for x in slopes if x is not None],
                [x for x in wanted_slopes if x is not None],
                10 * tolerance,
            )
            more = more and f"gradient: {more}"
    except TimeIsUpError:
        raise
    except Exception as error:
        return "raises", f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
    return ("differs", more) if more else ("agrees", "")


def late(*_):
    raise TimeIsUpError


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--beside", default="torch", choices=["torch", "host"])
    parser.add_argument("--dtypes", default="float32,float64,bfloat16,int64,bool,complex64")
    parser.add_argument("--only", default="")
    parser.add_argument("--samples", type=int, default=4, help="of each op and dtype")
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--show", type=int, default=40)
    settings = parser.parse_args()
    part, parts = map(int, settings.part.split("/"))
    signal.signal(signal.SIGALRM, late)
    counts, complaints = collections.Counter(), {}
    for number, op in enumerate(op_db):
        if number % parts != part or not re.search(settings.only, op.name):
            continue
        if ours_of(op) is None:
            counts["ops without a name here"] += 1
            complaints.setdefault(op.name, "no such name")
            continue
        for dtype in settings.dtypes.split(","):
            kind = getattr(torch, dtype)
            if kind not in op.dtypes:
                continue
            slopes = settings.gradients and op.supports_autograd and kind.is_floating_point
            try:
                signal.alarm(SECONDS)
                for k, sample in enumerate(op.sample_inputs("cpu", kind, requires_grad=slopes)):
                    if k >= settings.samples:
                        break
                    word, more = judge(op, sample, settings, dtype)
                    counts[word] += 1
                    if word in ("raises", "differs"):
                        complaints.setdefault(f"{op.name} {dtype}", more)
            except TimeIsUpError:
                counts["took too long"] += 1
                complaints.setdefault(f"{op.name} {dtype}", "took too long")
            except Exception as error:
                counts["no samples"] += 1
                complaints.setdefault(f"{op.name} {dtype}", f"no samples: {str(error)[:80]}")
            finally:
                signal.alarm(0)
    print(", ".join(f"{word}: {count}" for word, count in counts.most_common()))
    for name, more in list(complaints.items())[: settings.show]:
        print(f"  {name}: {more}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
