"""Run random calls in worker processes and say what went wrong.

    python -m tests.fuzz.run --seed 1 --calls 10000 --jobs 4 [--oracle] [--first N] [--show 5]

A worker makes one call after the other and writes down what each came to. One that dies or stays
silent for too long loses its call, and another goes on after it: crashes and hangs are findings
like others. With --oracle the same programs run in PyTorch, and results are compared. A finding
names its number: `--first NUMBER --calls 1` with the same seed makes that call again.

A file of programs (JSON lines with "op" and "program", which leaves its result in `out`) takes the
place of random ones with --programs FILE.

So many calls are shared among so many jobs, each with a worker of its own (two with --oracle). The
last line counts findings by kind (an accident is one of PyTorch, see accidents.py); --json FILE
keeps all of them, a line each. The long run is

    python -m tests.fuzz.run --seed 23 --calls 300000 --jobs 16 --json findings.jsonl
"""

import argparse
import base64
import contextlib
import faulthandler
import itertools
import json
import os
import pickle
import queue
import selectors
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE
from typing import NamedTuple

import numpy as np

SILENCE = 60  # seconds after which a call is made again, by itself, and hangs if it is silent again
LONG = 20  # seconds of processor time after which a call is slow: a finding with its program
SLOW = "took"
ACCIDENT = "accident"
# Errors that say something about us instead of about the arguments. (PyTorch has some assertions.)
RAW = {
    "AttributeError", "KeyError", "UnboundLocalError", "NameError", "error",
    "SystemError", "ZeroDivisionError", "RecursionError", "StopIteration", "ImportError",
    "ModuleNotFoundError", "UnicodeDecodeError", "BufferError", "InvalidStateError",
}  # fmt: skip


# Functions that divide by an argument in PyTorch, too.
DIVIDE = {"lp_pool1d", "lp_pool2d", "lp_pool3d", "functional_group_norm"}


# Where an infinity in the input goes depends on the order of sums inside: another FFT or another
# LAPACK has it elsewhere. And what is small beside other numbers of a result is lost in rounding.
SPREADING = ("fft_", "linalg_", "_linalg_", "svd", "pinverse", "stft", "istft", "qr", "geqrf")
# Results that are not unique: signs of vectors, bases of planes, places of equal elements. Their
# values are compared by others (eigvalsh, svdvals, ...), here only shapes and dtypes are.
FREE = {
    "linalg_svd", "_linalg_svd", "svd", "svd_lowrank", "pca_lowrank", "_linalg_eigh", "linalg_eigh",
    "linalg_eig", "lobpcg", "qr", "linalg_qr", "geqrf", "linalg_lu", "kthvalue", "topk", "median",
    "nanmedian", "mode",
}  # fmt: skip


class Finding(NamedTuple):
    """What is wrong with a call, and how it reads."""

    kind: str
    op: str
    number: int
    text: str
    note: str


def plain(value):
    """Results as arrays and texts, which travel between processes."""
    if hasattr(value, "numpy") and hasattr(value, "dtype"):
        kind = str(value.dtype).removeprefix("torch.").removeprefix("flambeau.")
        t = value.detach()
        if t.is_complex():
            t = t.resolve_conj()
        t = t.resolve_neg() if hasattr(t, "resolve_neg") else t
        t = t.float() if kind == "bfloat16" else t
        return ("tensor", kind, np.array(t.cpu().numpy()))
    if isinstance(value, (tuple, list)):
        return ("several", [plain(v) for v in value])
    if isinstance(value, (bool, int, float, complex, str)) or value is None:
        return ("value", value)
    return ("text", type(value).__name__)


def worker(package, seed, first, count):
    """Make calls and write one line for each to stdout."""
    from tests.fuzz.programs import made, program

    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print, too
    if package == "flambeau":
        import flambeau as torch
        from flambeau.eager.kernels import CHECKS
    else:
        import torch
    warnings.simplefilter("ignore")
    torch.set_num_threads(2 if package == "flambeau" else 1)
    for number in range(first, first + count):
        call = program(seed, number)
        torch.manual_seed(number)
        space = {"torch": torch, "made": made}
        faulthandler.dump_traceback_later(SILENCE - 5)  # a hang says where
        start = time.process_time()
        try:
            exec(compile(call.text, f"<call {number}>", "exec"), space)
            out = space["out"]
            if "# then grad" in call.text:
                out = out, _gradients(torch, space)
            result = "ok", plain(out)
            if package == "flambeau":
                _go_back(out)
        except Exception as error:  # which one is the result
            result = "error", type(error).__name__, str(error)[:200]
        out = None
        space.clear()
        harm = CHECKS.guards.broken() if package == "flambeau" else []
        if time.process_time() - start > LONG:
            harm.append(f"{SLOW} {time.process_time() - start:.1f} s")
        line = base64.b64encode(pickle.dumps((number, result, harm))).decode()
        told.write(line + "\n")
        told.flush()


def _gradients(torch, space):
    """Gradients of `out` with respect to the tensors of a program that want one."""
    leaves = [t for name, t in sorted(space.items()) if name != "out" and _wants(torch, t)]
    outs = space["out"] if isinstance(space["out"], (tuple, list)) else [space["out"]]
    outs = [t for t in outs if _wants(torch, t)]
    if not outs or not leaves:
        return None
    total = sum((t.sum().real if t.is_complex() else t.sum()) for t in outs)
    return torch.autograd.grad(total, leaves, allow_unused=True)


def _wants(torch, value):
    return isinstance(value, torch.Tensor) and value.requires_grad


def _go_back(out):
    """Gradients of a result; that there are none is PyTorch's business as well as ours."""
    if getattr(out, "requires_grad", False):
        with contextlib.suppress(RuntimeError, NotImplementedError):
            out.sum().abs().backward()


def checked():
    """An environment in which every launch is looked at, and memory lies between guards."""
    return os.environ | {"FLAMBEAU_CHECK": "1"}


def outcomes(package, seed, first, count):
    """(number, result, harm) of each call; results of lost ones are ("crash" or "hang", note)."""
    at, last, again = first, first + count, None
    while at < last:
        command = [sys.executable, "-m", "tests.fuzz.run", "--worker", package]
        source = "--programs" if isinstance(seed, str) else "--seed"
        command += [source, str(seed), "--first", str(at), "--calls", str(last - at)]
        # What a worker prints goes to a file: a pipe that nobody reads fills, and stops its writer.
        with tempfile.TemporaryFile() as printed:
            process = subprocess.Popen(command, stdout=PIPE, stderr=printed, env=checked())
            silent = False
            try:
                with selectors.DefaultSelector() as ready:
                    ready.register(process.stdout, selectors.EVENT_READ)
                    while at < last:
                        silent = not ready.select(SILENCE)
                        line = b"" if silent else process.stdout.readline()
                        if not line:
                            break
                        at += 1
                        yield pickle.loads(base64.b64decode(line))
            finally:
                if silent or at >= last:
                    process.kill()
                process.communicate()
                printed.seek(0)
                note = printed.read().decode(errors="replace")[-2000 if silent else -300 :]
        if at < last and silent and again != at:
            again = at  # the machine may have been busy: once more, and the first time is kept
            print(f"-- silent: number {at}\n{note}", file=sys.stderr, flush=True)
        elif at < last:
            yield at, ("hang" if silent else "crash", f"{process.returncode}: {note}"), []
            at += 1


TOLERANCE = {"float16": 1e-2, "bfloat16": 6e-2, "float32": 2e-4, "complex64": 1e-3}


def _near(a, b, limit):
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        return same | (np.abs(a - b) <= limit * (1 + np.abs(b)))


def is_finite(result):
    """Are all numbers of a result finite?"""
    if result[0] == "several":
        return all(map(is_finite, result[1]))
    return result[0] != "tensor" or np.isfinite(result[2]).all()


def unlike(ours, theirs, op=""):
    """How two results of an op differ; an empty text if they do not."""
    if ours[0] != theirs[0]:
        return f"{ours[0]} for {theirs[0]}"
    if ours[0] == "several":
        if len(ours[1]) != len(theirs[1]):
            return f"{len(ours[1])} results for {len(theirs[1])}"
        return next(filter(None, [unlike(a, b, op) for a, b in zip(ours[1], theirs[1])]), "")
    if ours[0] == "tensor":
        (_, kind, a), (_, wanted, b) = ours, theirs
        if kind != wanted or a.shape != b.shape:
            return f"{kind}{list(a.shape)} for {wanted}{list(b.shape)}"
        if op in FREE:
            return ""
        if a.dtype.kind in "biu":
            same = a == b
        else:
            limit = TOLERANCE.get(kind, 1e-6)
            same = _near(a, b, limit)
            if op.startswith(SPREADING) and b.size and np.isfinite(b).all():
                same |= np.abs(a - b) <= limit * np.abs(b).max()
            if a.dtype.kind == "c":  # inf + i is near to inf + 1.0001i, too
                same |= _near(a.real, b.real, limit) & _near(a.imag, b.imag, limit)
        if not same.all():
            k = np.flatnonzero(~same.ravel())[0]
            return f"{a.ravel()[k]} for {b.ravel()[k]}"
    if ours[0] == "value" and ours[1] != theirs[1] and ours[1] == ours[1]:
        both = isinstance(ours[1], (int, float)) and isinstance(theirs[1], (int, float))
        if not both or abs(ours[1] - theirs[1]) > 1e-4 * (1 + abs(theirs[1])):
            return f"{ours[1]!r} for {theirs[1]!r}"
    return ""


def judged(op, result, harm, theirs):
    """(kind of finding, note) of a call; None if nothing is wrong. theirs: PyTorch's result."""
    if result[:2] == ("error", "ZeroDivisionError") and op in DIVIDE:
        return None
    if harm and harm[-1].startswith(SLOW):
        return "slow", harm[-1]
    if harm or result[:2] == ("error", "LaunchError"):
        return "writes outside", str(harm[:3] or result[2])
    if result[0] in ("crash", "hang"):
        return result
    if result[0] == "error" and result[1] in RAW and (theirs is None or theirs[:2] != result[:2]):
        return "raw error", f"{result[1]}: {result[2]}"
    if theirs is None or theirs[0] in ("crash", "hang") or theirs[1] == "AttributeError":
        return None  # PyTorch has no such function, or is no help
    if result[0] != theirs[0]:
        if result[0] == "ok":
            return "accepts", f"{theirs[1]}: {theirs[2]}"
        return "refuses", f"{result[1]}: {result[2]}"
    if result[0] == "error":
        if result[1] == theirs[1]:
            return None
        return "other error", f"{result[1]} for {theirs[1]}: {theirs[2]}"
    if op.startswith(SPREADING) and not is_finite(theirs[1]) and not is_finite(result[1]):
        return None
    note = unlike(result[1], theirs[1], op)
    return ("differs", note) if note else None


def findings(seed, first, count, oracle=False):
    """What is wrong with so many calls, one by one."""
    from tests.fuzz.accidents import reason
    from tests.fuzz.programs import program

    streams = [outcomes("flambeau", seed, first, count)]
    if oracle:
        streams.append(outcomes("torch", seed, first, count))
    for (number, result, harm), *theirs in zip(*streams, strict=True):
        call = program(seed, number)
        found = judged(call.op, result, harm, theirs[0][1] if theirs else None)
        if found is not None:
            why = reason(call.op, found[0], f"{call.text}\n{found[1]}")
            kind = ACCIDENT if why else found[0]
            note = f"{found[0]}: {found[1]}\n{why}" if why else found[1]
            yield Finding(kind, call.op, number, call.text, note)


def findings_of_all(seed, first, count, oracle, jobs):
    """The same, by several jobs at once, in the order in which they come."""
    found = queue.SimpleQueue()

    def work(start, end):
        for f in findings(seed, start, end - start, oracle):
            found.put(f)

    edges = [first + count * k // jobs for k in range(jobs + 1)]
    with ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(work, *edge) for edge in itertools.pairwise(edges)}
        for job in running:
            job.add_done_callback(found.put)
        while running:
            item = found.get()
            if isinstance(item, Finding):
                yield item
            else:
                running.remove(item)
                item.result()  # what went wrong in a job is raised here


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", help="a file of programs in place of random ones")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1, help="how many at the same time")
    parser.add_argument("--oracle", action="store_true", help="compare with PyTorch")
    parser.add_argument("--show", type=int, default=5, help="examples of each kind of finding")
    parser.add_argument("--json", help="write all findings to this file, a line each")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    calls = options.programs or options.seed, options.first, options.calls
    if options.worker:
        return worker(options.worker, *calls)
    counts, lines = Counter(), []
    for f in findings_of_all(*calls, options.oracle, options.jobs):
        counts[f.kind] += 1
        lines.append(json.dumps(f._asdict()) + "\n")
        if counts[f.kind] <= options.show:
            print(f"-- {f.kind}: {f.op}, number {f.number}\n{f.text}\n{f.note}\n", flush=True)
    if options.json:
        Path(options.json).write_text("".join(lines))
    print(f"{options.calls} calls, seed {calls[0]}: {dict(counts) or 'nothing found'}")
    return None


if __name__ == "__main__":
    main()
