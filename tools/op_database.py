"""How many samples of PyTorch's own op database agree: with PyTorch, or on a GPU with the host.

Usage: python tools/op_database.py [--device cpu|cuda] [--beside torch|host] [--dtypes int64,...]
           [--only PATTERN] [--samples 4] [--gradients] [--refusals] [--part 1/8] [--show 20]
           [--json FILE]

PyTorch must be installed (and `expecttest`, which its database asks for); the database
(`torch.testing._internal`) is read from outside. A sample is called with our tensors on `--device`,
and its result is compared with PyTorch's on the CPU, or with our own there (`--beside host`: what a
GPU gets wrong): value, dtype, shape, and with `--gradients` the gradients. The share that agrees is
printed, and what differs by op and kind. Samples that PyTorch itself refuses are counted apart, and
so are those whose difference was judged once (`op_accidents.py` says why); a name that is missing
here makes all samples of its op differ. With `--refusals` the type and the first sentence of what
PyTorch raises count as its result. Samples of complex32 are those of complex64, narrowed, for all
ops: the database knows few that have any. `--part 1/8` takes every eighth op, so that several
processes can share the work; `--join FILE...` adds up what they wrote with `--json`.
"""

import argparse
import collections
import json
import re
import signal
import sys
import types
import warnings
from pathlib import Path

import torch
from torch.testing._internal.common_methods_invocations import op_db

import flambeau

sys.path.insert(0, str(Path(__file__).parent))
import op_accidents

SECONDS = 60  # of processor time for one op with one dtype
TOLERANCE = {
    "float16": 2e-3,
    "complex32": 0.0,
    "bfloat16": 2e-2,
    "float64": 1e-7,
    "complex128": 1e-7,
}
BITS = {torch.bfloat16: torch.int16, torch.complex32: torch.int32}  # NumPy has no names for these
# Drawn: a sample draws the same numbers in both libraries on the host, not on another device.
RANDOM = re.compile(
    "bernoulli|cauchy|dropout|exponential|geometric|log_normal|multinomial|normal|rand|uniform|"
    "svd_lowrank|pca_lowrank|rrelu"
)
EMPTY = re.compile("empty|resize_")  # whatever memory held
# Results that several answers satisfy; what the database makes of them is unique.
NOT_UNIQUE = re.compile(r"eig|svd|qr$|householder|ormqr|lu$|ldl|lobpcg|lstsq|pca_lowrank")


# Equal elements may come in any order: places are compared in shape and dtype only.
TIES = re.compile(r"^(topk|kthvalue|sort|argsort|mode|median|nanmedian|unique.*|lu.*)$")


class TimeIsUpError(Exception):
    pass


def rebound(function, seen=None):
    """A function of the database that says `torch`, saying flambeau instead."""
    seen = {} if seen is None else seen
    if function in seen:
        return seen[function]
    space = dict(function.__globals__)
    copy = types.FunctionType(
        function.__code__, space, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    seen[function] = copy
    names = set(function.__code__.co_names)
    for inner in function.__code__.co_consts:
        if isinstance(inner, types.CodeType):
            names |= set(inner.co_names)
    for name in names & set(space):
        value = space[name]
        if value is torch:
            space[name] = flambeau
        elif isinstance(value, types.FunctionType) and "torch.testing" in value.__module__:
            space[name] = rebound(value, seen)
    return copy


def ours_of(op):
    """What the database calls, in our namespace; None where there is no such name."""
    if isinstance(op.op, types.FunctionType) and "torch.testing" in op.op.__module__:
        return rebound(op.op)
    name = op.name.removeprefix("torch.")
    if getattr(op.op, "__module__", "") == "torch._ops.aten":
        name = "ops." + str(op.op)
    found = flambeau
    for word in name.split("."):
        found = getattr(found, word, None)
    if not callable(found) or isinstance(found, flambeau.dtype):  # torch.cfloat is no function
        found = getattr(flambeau.Tensor, op.name, None)
    if found is None and getattr(op.op, "__module__", "") == "torch":
        found = getattr(flambeau, op.op.__name__, None)
    return found


def named(path, name):
    """The same name in our namespace."""
    found = flambeau
    for word in [*path.split(".")[1:], name]:
        found = getattr(found, word)
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
        if isinstance(value, torch.nn.Module):
            return twin(value)
        if isinstance(value, types.BuiltinFunctionType):
            return getattr(flambeau.nn.functional, value.__name__, None) or getattr(
                flambeau, value.__name__
            )
        if isinstance(value, types.FunctionType | type) and "torch" in value.__module__:
            ours = "torch.testing" in value.__module__ and isinstance(value, types.FunctionType)
            return rebound(value) if ours else named(value.__module__, value.__qualname__)
        return value

    def tensor(self, value):
        if value.layout is not torch.strided:
            return self.sparse(value)
        plain = value.detach().resolve_conj().resolve_neg()
        if plain.dtype in BITS:
            flat = plain.contiguous().reshape(-1).view(BITS[plain.dtype]).numpy().copy()
            there = flambeau.from_numpy(flat).view(self(plain.dtype)).reshape(tuple(plain.shape))
        else:
            there = flambeau.from_numpy(plain.contiguous().numpy().copy())
        apart = all(step or size < 2 for size, step in zip(plain.shape, plain.stride()))
        if not plain.is_contiguous() and plain.numel() and apart:
            there = flambeau.empty_strided(
                tuple(plain.shape), plain.stride(), dtype=there.dtype
            ).copy_(there)
        there = there.to(self.device)
        if self.slopes and value.requires_grad:
            self.leaves.append(there.requires_grad_())
        return there

    def sparse(self, value):
        plain, size = value.detach(), tuple(value.shape)
        if plain.layout is torch.sparse_coo:
            parts = plain._indices(), plain._values()
            make = flambeau.sparse_coo_tensor
        else:
            parts = plain.crow_indices(), plain.col_indices(), plain.values()
            make = flambeau.sparse_csr_tensor
        there = make(*map(self.tensor, parts), size)
        if self.slopes and value.requires_grad:
            self.leaves.append(there.requires_grad_())
        return there


def twin(module):
    """A copy of one of PyTorch's modules in our classes, with its parameters and settings."""
    names = [kind.__name__ for kind in type(module).__mro__]
    ours = getattr(flambeau.nn, next(name for name in names if hasattr(flambeau.nn, name)))
    copy = ours.__new__(ours)
    flambeau.nn.Module.__init__(copy)
    built = Moved("cpu", False)
    for name, value in vars(module).items():
        if name not in vars(torch.nn.Module()) and name != "training":
            setattr(copy, name, built(value) if value is not None else None)
    copy.training = module.training
    for name, value in module._parameters.items():
        parameter = None if value is None else flambeau.nn.Parameter(built.tensor(value))
        copy.register_parameter(name, parameter)
    for name, value in module._buffers.items():
        copy.register_buffer(name, None if value is None else built.tensor(value))
    for name, value in module._modules.items():
        copy.add_module(name, None if value is None else twin(value))
    return copy


class Kept(Moved):
    """Arguments of PyTorch's as they are, copied."""

    def tensor(self, value):
        there = value.detach().clone()
        if self.slopes and value.requires_grad:
            self.leaves.append(there.requires_grad_())
        return there

    def __call__(self, value):
        kept = torch.dtype | torch.device | torch.memory_format | torch.layout
        functions = types.FunctionType | types.BuiltinFunctionType
        if isinstance(value, kept | functions | type | torch.nn.Module):
            return value
        return super().__call__(value)


class Narrow(Kept):
    """Arguments of complex64 as complex32, and floats as float16."""

    def tensor(self, value):
        kinds = {torch.complex64: torch.complex32, torch.float32: torch.float16}
        found = value.detach().to(kinds.get(value.dtype, value.dtype))
        return found.requires_grad_(value.requires_grad)

    def __call__(self, value):
        return torch.complex32 if value is torch.complex64 else super().__call__(value)


def narrowed(sample):
    """A sample of complex64 in half the precision."""
    found, narrow = types.SimpleNamespace(), Narrow("cpu", False)
    found.input, found.args = narrow(sample.input), narrow(tuple(sample.args))
    found.kwargs = narrow(sample.kwargs)
    found.output_process_fn_grad = sample.output_process_fn_grad
    return found


def sentence(error):
    """The type and the first sentence of a complaint."""
    text = re.split(r"\n|(?<=[a-z)\]'\"])\. |; ", str(error).strip(), maxsplit=1)[0]
    text = re.sub(r"(invalid combination of arguments) - got.*", r"\1", text)
    kind = type(error)
    name = kind.__name__ if kind.__module__ == "builtins" else kind.__mro__[1].__name__
    return f"{name}: {text.rstrip('. ')}"


class Exact(Kept):
    """Arguments of PyTorch's in twice the precision."""

    def tensor(self, value):
        kind = torch.complex128 if value.is_complex() else torch.float64
        wide = value.is_floating_point() or value.is_complex()
        there = value.detach().to(kind) if wide else value.detach().clone()
        if self.slopes and value.requires_grad:
            self.leaves.append(there.requires_grad_())
        return there

    def __call__(self, value):
        if isinstance(value, torch.dtype) and (value.is_floating_point or value.is_complex):
            return torch.complex128 if value.is_complex else torch.float64
        return super().__call__(value)


def flattened(value):
    """A place of equal elements, without saying which."""
    return value * 0 if hasattr(value, "dtype") else value


def nearer(x, y, exact):
    """Is x as near to the exact result as y, which was rounded on the way?"""
    if x is None or y is None or exact is None:
        return x is y
    x, y, exact = map(as_torch, (x, y, exact))
    if not isinstance(exact, torch.Tensor) or not exact.numel():
        return True
    kind = torch.complex128 if exact.is_complex() else torch.float64
    ours, theirs = ((v.to(kind) - exact.to(kind)).abs() for v in (x, y))
    finite = theirs.isfinite() & ours.isfinite()
    if (ours.isnan() & ~theirs.isnan()).any() or not finite.any():
        return not (ours.isnan() & ~theirs.isnan()).any()
    return bool(ours[finite].max() <= theirs[finite].max() * 1.01 + 1e-12)


def called(function, sample, moved, unlike=False):
    """Results and gradients, as flat lists; unlike: what the database makes of results."""
    library = torch if isinstance(moved, Kept) else flambeau
    library.manual_seed(0)
    arguments = moved(sample.input), moved(tuple(sample.args)), moved(sample.kwargs)
    found = function(arguments[0], *arguments[1], **arguments[2])
    process = sample.output_process_fn_grad
    if unlike and isinstance(process, types.FunctionType) and "torch" in process.__module__:
        found = process(found) if library is torch else rebound(process)(found)
    found = flat(found)
    slopes = []
    if moved.slopes and moved.leaves:
        sources = [x for x in found if getattr(x, "requires_grad", False)]
        if sources:
            total = sum((x.abs() if x.dtype.is_complex else x).double().sum() for x in sources)
            if total.requires_grad:
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
    if isinstance(value, flambeau.Tensor | torch.Tensor) and "strided" not in str(value.layout):
        value = value.detach().to_dense()
    if isinstance(value, flambeau.Tensor):
        value = value.detach().cpu().resolve_conj().resolve_neg()
        if value.dtype == flambeau.bfloat16:
            return torch.from_numpy(value.float().numpy()).to(torch.bfloat16)
        if value.dtype == flambeau.complex32:
            flat = value.contiguous().reshape(-1).view(flambeau.int32).numpy().copy()
            return torch.from_numpy(flat).view(torch.complex32).reshape(tuple(value.shape))
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
    ours, slopes = ours_of(op), settings.gradients
    unlike = bool(NOT_UNIQUE.search(op.name))
    try:
        warnings.simplefilter("ignore")
        wanted, wanted_slopes = called(op.op, sample, Kept("cpu", slopes), unlike)
    except TimeIsUpError:
        raise
    except Exception as error:  # PyTorch refuses: not a sample for us
        if settings.refusals and ours is not None:
            return refused(ours, sample, settings, sentence(error))
        return "refused by PyTorch", str(error)
    if ours is None:
        return "no such name", ""
    try:
        if settings.beside == "host":
            wanted, wanted_slopes = called(ours, sample, Moved("cpu", slopes), unlike)
    except TimeIsUpError:
        raise
    except Exception:
        return "not on the host either", ""
    try:
        found, slopes = called(ours, sample, Moved(settings.device, slopes), unlike)
        unique = not EMPTY.search(op.name)
        unique = unique and not (settings.beside == "host" and RANDOM.search(op.name))
        if TIES.search(op.name):
            found, wanted = ([x, *map(flattened, rest)] for x, *rest in (found, wanted))
            unique = unique and op.name != "argsort"
        word, more = compared(
            found, wanted, slopes, wanted_slopes, TOLERANCE.get(dtype, 1e-4), unique
        )
        if word in ("values", "gradient") and settings.beside == "torch":
            exact, exact_slopes = called(op.op, sample, Exact("cpu", settings.gradients), unlike)
            pairs = (found, wanted, exact), (slopes, wanted_slopes, exact_slopes)
            if all(map(nearer, *pairs[word == "gradient"])):
                return "agrees", ""
        return word, more
    except TimeIsUpError:
        raise
    except Exception as error:
        return "raises", f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"


def refused(ours, sample, settings, wanted):
    """Is a sample that PyTorch refuses refused here, in the same words?"""
    try:
        called(ours, sample, Moved(settings.device, False))
    except TimeIsUpError:
        raise
    except Exception as error:
        found = sentence(error)
        return ("agrees", "") if found == wanted else ("words", f"{found} for {wanted}")
    return "not refused", wanted


def compared(found, wanted, slopes, wanted_slopes, tolerance, unique):
    """One word for how results and gradients agree, and more about it."""
    more = difference(found, wanted, tolerance, unique)
    if more:
        return more.split(" ")[0].rstrip(":"), more
    if unique and len(slopes) == len(wanted_slopes):
        pairs = [(x, y) for x, y in zip(slopes, wanted_slopes, strict=True) if not gone(x, y)]
        more = difference([x for x, _ in pairs], [y for _, y in pairs], 10 * tolerance)
    elif unique:
        more = f"{len(slopes)} for {len(wanted_slopes)}"
    return ("gradient", more) if more else ("agrees", "")


def gone(x, y):
    """No gradient and a gradient of zeros are alike; PyTorch itself has now one, now the other."""
    return all(value is None or not as_torch(value).any() for value in (x, y))


def late(*_):
    raise TimeIsUpError


def counted(settings):
    """[op, dtype, word, count, more] of the ops of a part, one for each word that a sample got."""
    part, parts = map(int, settings.part.split("/"))
    signal.signal(signal.SIGPROF, late)
    for number, op in enumerate(op_db):
        if number % parts != part or not re.search(settings.only, op.name):
            continue
        name = op.name + (f" ({op.variant_test_name})" if op.variant_test_name else "")
        for dtype in settings.dtypes.split(","):
            kind = getattr(torch, dtype)
            narrow = kind is torch.complex32
            if kind not in op.dtypes and not (narrow and torch.complex64 in op.dtypes):
                continue
            counts, notes = collections.Counter(), {}
            slopes = settings.gradients and op.supports_autograd
            slopes = slopes and (kind.is_floating_point or kind.is_complex)
            try:
                signal.setitimer(signal.ITIMER_PROF, SECONDS)
                given = torch.complex64 if narrow else kind
                for k, sample in enumerate(op.sample_inputs("cpu", given, requires_grad=slopes)):
                    if k >= settings.samples:
                        break
                    sample = narrowed(sample) if narrow else sample
                    word, more = judge(op, sample, settings, dtype)
                    counts[word] += 1
                    notes.setdefault(word, more)
            except TimeIsUpError:
                counts["took too long"] += 1
            except Exception as error:
                counts["no samples"] += 1
                notes["no samples"] = str(error)[:80]
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            for word, count in counts.items():
                yield [name, dtype, word, count, notes.get(word, "")]


APART = ("refused by PyTorch", "no samples", "not on the host either")


def told(rows, show):
    """Print the share that agrees, and what differs."""
    totals, judged, left = collections.Counter(), collections.Counter(), []
    for name, dtype, word, count, more in rows:
        reason = op_accidents.reason(name, dtype, word) if word != "agrees" else None
        if word not in APART and reason:
            judged[reason] += count
            word = "judged"
        totals[word] += count
        if word not in (*APART, "agrees", "judged"):
            left.append((name, dtype, word, count, more))
    samples = sum(count for word, count in totals.items() if word not in APART)
    differ = sum(item[3] for item in left)
    print(", ".join(f"{word}: {count}" for word, count in totals.most_common()))
    if samples:
        print(
            f"{totals['agrees'] / samples:.2%} of {samples} samples agree, "
            f"{(samples - differ) / samples:.2%} with those that were judged"
        )
    for reason, count in judged.most_common():
        print(f"  judged, {count}: {reason}")
    for name, dtype, word, count, more in sorted(left, key=lambda item: -item[3])[:show]:
        print(f"  {count} x {name} {dtype}: {word}{': ' if more else ''}{more}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--beside", default="torch", choices=["torch", "host"])
    parser.add_argument("--dtypes", default="float32,float64,bfloat16,int64,bool,complex64")
    parser.add_argument("--only", default="")
    parser.add_argument("--samples", type=int, default=4, help="of each op and dtype")
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--refusals", action="store_true", help="compare what is raised, too")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--show", type=int, default=40)
    parser.add_argument("--json", help="write what was counted to this file, a line each")
    parser.add_argument("--join", nargs="+", help="files written with --json; nothing is run")
    settings = parser.parse_args()
    if settings.join:
        lines = [line for file in settings.join for line in Path(file).read_text().splitlines()]
        rows = [json.loads(line) for line in lines]
    else:
        rows = []
        with open(settings.json, "w") if settings.json else open("/dev/null", "w") as file:
            for row in counted(settings):
                rows.append(row)
                file.write(json.dumps(row) + "\n")
                file.flush()
    told(rows, settings.show)
    return 0


if __name__ == "__main__":
    sys.exit(main())
