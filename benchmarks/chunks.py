"""What threads do: the cost of an empty parallel region, and when each chunk of a launch ran.

`python benchmarks/chunks.py --threads 1,4,16` times regions whose chunks do nothing, one right
after the other and after the workers have gone to sleep. `--only matmul` (a pattern of names below)
shows one call of each case as its launches: how many chunks, how long, the share of the threads'
time spent in chunks, how late the last thread began and how long the longest chunk took. The pool
is built with a clock around every chunk for that; nothing else changes.
"""

import argparse
import ctypes
import re
import statistics
import time

from timing import thread_counts

ROOM = 1 << 16  # records of the log
CLOCKED = """
@log = internal global [{words} x i64] zeroinitializer, align 64
declare i64 @llvm.readcyclecounter()
define ptr @flambeau_log() {{ ret ptr @log }}
define internal void @note(i64 %chunk, i64 %start) {{
  %end = call i64 @llvm.readcyclecounter()
  %n = atomicrmw add ptr @log, i64 1 seq_cst
  %k = and i64 %n, {mask}
  %at = shl i64 %k, 2
  %place = add i64 %at, 8
  %p = getelementptr i64, ptr @log, i64 %place
  store i64 %chunk, ptr %p
  %q = getelementptr i64, ptr %p, i64 1
  store i64 %start, ptr %q
  %r = getelementptr i64, ptr %p, i64 2
  store i64 %end, ptr %r
  ret void
}}
define void @flambeau_pool_run(ptr %body, ptr %block, i64 %chunks) {{
  %start = call i64 @llvm.readcyclecounter()
  call void @plain_pool_run(ptr %body, ptr %block, i64 %chunks)
  %mark = sub i64 -1, %chunks
  call void @note(i64 %mark, i64 %start)
  ret void
}}
"""
EMPTY = "define void @nothing(ptr %block, i64 %c) { ret void }"
CASES = {
    "matmul 256": ("a, b = torch.randn(256, 256), torch.randn(256, 256)", "a @ b"),
    "matmul 1024": ("a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)", "a @ b"),
    "bf16 matmul 1024": (
        "a, b = (torch.randn(1024, 1024).bfloat16() for _ in '12')", "a @ b"),
    "linear 512x768x3072": ("a, b = torch.randn(512, 768), torch.randn(3072, 768)", "a @ b.t()"),
    "bf16 linear 512x768x3072": (
        "a, b = torch.randn(512, 768).bfloat16(), torch.randn(3072, 768).bfloat16()", "a @ b.t()"),
    "row 1x1024x1024": ("a, b = torch.randn(1, 1024), torch.randn(1024, 1024)", "a @ b"),
    "rows 16x1024x1024": ("a, b = torch.randn(16, 1024), torch.randn(1024, 1024)", "a @ b"),
    "conv 256": (
        "a, b = torch.randn(8, 256, 14, 14), torch.randn(256, 256, 3, 3)",
        "torch.nn.functional.conv2d(a, b, padding=1)"),
    "conv 256 back": (
        "a, b = torch.randn(8, 256, 14, 14), torch.randn(256, 256, 3, 3, requires_grad=True)\n"
        "y = torch.nn.functional.conv2d(a.requires_grad_(), b, padding=1)\ng = torch.randn_like(y)",
        "torch.autograd.grad(y, (a, b), g, retain_graph=True)"),
    "bf16 conv 64": (
        "a, b = torch.randn(8, 64, 56, 56).bfloat16(), torch.randn(64, 64, 3, 3).bfloat16()",
        "torch.nn.functional.conv2d(a, b, padding=1)"),
    "add 1e5": ("a, b = torch.randn(100000), torch.randn(100000)", "a + b"),
    "exp 1e6": ("a = torch.randn(1000000)", "a.exp()"),
    "sum 0": ("a = torch.randn(2000, 1000)", "a.sum(0)"),
    "LSTM": (
        "net, a = torch.nn.LSTM(64, 128, batch_first=True), torch.randn(32, 50, 64)",
        "net(a)[0].sum().backward()"),
}  # fmt: skip


def model_cases():
    """Steps of training, as training.py has them."""
    from training import inference, steps

    return {case.name: (case.setup, case.run) for case in (*steps(), *inference())}


def clocked(ir):
    """The pool with a clock around its chunks."""
    start, rest = ir.split("define internal void @work(ptr %p, i64 %c) {")
    body, after = rest.split("ret void", 1)
    call = "call void %body(ptr %block, i64 %c)"
    timed = f"%start = call i64 @llvm.readcyclecounter()\n  {call}\n"
    body = body.replace(call, timed + "  call void @note(i64 %c, i64 %start)")
    ir = f"{start}define internal void @work(ptr %p, i64 %c) {{{body}ret void{after}"
    ir = ir.replace("@flambeau_pool_run(", "@plain_pool_run(")
    return ir + CLOCKED.format(words=8 + 4 * ROOM, mask=ROOM - 1)


def regions(counts):
    """Microseconds of a region that does nothing."""
    from flambeau.eager import kernels

    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    nothing = kernels.load_functions(EMPTY, ("nothing",))["nothing"]
    pool = kernels.pool()
    run = kind(dict(pool.entries)["flambeau_pool_run"])
    print(f"{'threads':>8}{'chunks':>8}{'us':>8}{'after 5 ms':>12}")
    for threads in counts:
        pool.set_num_threads(threads)
        pool.ensure_workers()
        time.sleep(0.05)
        for chunks in sorted({threads, 4 * threads}):
            times, late = [], []
            for _ in range(15):
                begin = time.perf_counter()
                for _ in range(1000):
                    run(nothing, None, chunks)
                times.append((time.perf_counter() - begin) * 1e3)
            for _ in range(15):
                time.sleep(0.005)
                begin = time.perf_counter()
                run(nothing, None, chunks)
                late.append((time.perf_counter() - begin) * 1e6)
            figures = statistics.median(times), statistics.median(late)
            print(f"{threads:>8}{chunks:>8}{figures[0]:>8.2f}{figures[1]:>12.1f}", flush=True)


def ticks_per_second():
    from flambeau.eager import kernels

    text = (
        "declare i64 @llvm.readcyclecounter()\n"
        "define i64 @now() { %t = call i64 @llvm.readcyclecounter()\n ret i64 %t }"
    )
    now = ctypes.CFUNCTYPE(ctypes.c_int64)(kernels.load_functions(text, ("now",))["now"])
    begin, first = time.perf_counter(), now()
    time.sleep(0.1)
    return (now() - first) / (time.perf_counter() - begin)


class Log:
    def __init__(self, address):
        self.words = (ctypes.c_int64 * (8 + 4 * ROOM)).from_address(address)
        self.second = ticks_per_second()

    def clear(self):
        self.words[0] = 0

    def launches(self):
        """[(chunks, start, end, [(chunk, start, end)])] in microseconds."""
        found, inside = [], []
        for k in range(min(self.words[0], ROOM)):
            chunk, start, end = self.words[8 + 4 * k : 11 + 4 * k]
            start, end = start / self.second * 1e6, end / self.second * 1e6
            if chunk >= 0:
                inside.append((chunk, start, end))
            else:
                found.append((-1 - chunk, start, end, inside))
                inside = []
        return found


def show(name, log, threads, torch, most):
    setup, text = CASES[name]
    names = {"torch": torch}
    exec(setup, names)
    code = compile(text, name, "exec")
    for _ in range(5):
        exec(code, names)
    calls = []
    for _ in range(15):
        log.clear()
        begin = time.perf_counter()
        exec(code, names)
        calls.append(((time.perf_counter() - begin) * 1e6, log.launches()))
    whole, launches = sorted(calls, key=lambda call: call[0])[len(calls) // 2]
    print(f"{name}, {threads} threads: {whole:.0f} us, {len(launches)} launches")
    for chunks, start, end, parts in sorted(launches, key=lambda x: x[1] - x[2])[:most]:
        if not parts:
            continue
        lengths = [b - a for _, a, b in parts]
        parts.sort(key=lambda part: part[0])
        used = sum(lengths) / (min(threads, chunks) * (end - start))
        starts = sorted(a - start for _, a, _ in parts)[: min(threads, chunks)]
        ends = end - max(b for _, _, b in parts)
        text = " ".join(f"{b - a:.0f}" for _, a, b in parts[:40])
        print(
            f"  {chunks} chunks, {end - start:.0f} us, used {used:.2f}, last begins "
            f"{starts[-1]:.1f}, longest {max(lengths):.0f}, closing {ends:.1f}: {text}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=thread_counts, default=[1, 2])
    parser.add_argument("--only", default="", help="show launches of cases that match this")
    parser.add_argument("--launches", type=int, default=6, help="of each case, longest first")
    arguments = parser.parse_args()
    import flambeau
    from flambeau.eager import kernels
    from flambeau.runtime import threads as pools

    if not arguments.only:
        regions(arguments.threads)
        return
    plain, linked = pools.pool_ir, kernels._linked
    pools.pool_ir = lambda *host: clocked(plain(*host))
    found = {}

    def link(ir, names, *rest):
        if "flambeau_pool_run" in names:
            names = (*names, "flambeau_log")
        addresses = linked(ir, names, *rest)
        found.update(addresses)
        return addresses

    kernels._linked = link
    kernels.pool()
    log = Log(ctypes.CFUNCTYPE(ctypes.c_void_p)(found["flambeau_log"])())
    CASES.update(model_cases())
    for name in CASES:
        if re.search(arguments.only, name):
            for threads in arguments.threads:
                flambeau.set_num_threads(threads)
                show(name, log, threads, flambeau, arguments.launches)


if __name__ == "__main__":
    main()
