"""Statistics of pieces joined on a GPU: a warp per row."""

from flambeau.codegen.descriptions import Pieces
from flambeau.codegen.gpu.teams import GROUP, WARP, Team
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import LLVM_TYPE
from flambeau.codegen.loops import I64, Module
from flambeau.codegen.templates.normalization import _compute, put_statistics


class Warps(Team):
    """Teams of a warp each."""

    def __init__(self, kernel):
        self.kernel, self.fn, self.shared = kernel, kernel.fn, {}
        self.size = kernel.fn.value(WARP, I64)


def build_joined_statistics(code, statistics, tracked):
    """Both texts: mean and 1/deviation of rows from those of their pieces, by Chan's formula.

    (mean, rstd, [running mean, running variance,] counts, means, squares, eps, momentum).
    """
    module = Module()
    many = 7 if tracked else 5
    kernel = Kernel(module, "p" * (1 + many) + "ff", GROUP, words=len(Pieces._fields))
    fn, team = kernel.fn, Warps(kernel)
    *outs, counts, means, squares = (kernel.argument(1 + k) for k in range(many))
    eps, momentum = kernel.argument(1 + many), kernel.argument(2 + many)
    _, rows, pieces = (kernel.word(k) for k in range(3))
    memory = LLVM_TYPE[_compute(code)]
    cells = [kernel.private("double") for _ in range(3)]

    def joined(a, b):
        """Of (count, mean, squared distances); a count may be 0."""
        n = a[0] + b[0]
        away = b[1] - a[1]
        share = fn.select(n > 0.0, b[0] / n, fn.value(0.0, "double"))
        return [n, a[1] + away * share, a[2] + b[2] + away * away * a[0] * share]

    with team.items(rows) as first:
        with kernel.threads(last=True) as thread:
            row, lane = team.mine(first, thread)
            row = fn.min(row, rows - 1)
            own = [fn.var(fn.value(0.0, "double")) for _ in range(3)]
            with fn.loop(lane, pieces, WARP) as piece:
                at = piece * rows + row
                part = [
                    fn.convert("fpext", fn.load(fn.gep(b, at, memory), memory), "double")
                    for b in (counts, means, squares)
                ]
                for cell, value in zip(own, joined([c.get() for c in own], part)):
                    cell.set(value)
            for cell, value in zip(cells, own):
                cell.set(thread, value.get())
        team.join(cells, joined)
        with kernel.threads(last=True) as thread:
            row, lane = team.mine(first, thread)
            with fn.when((row < rows) & (lane == 0)):
                numbers = [c.get(thread) for c in cells]
                put_statistics(fn, statistics, row, numbers, outs, eps, momentum)
    kernel.done()
    add_host_entry(module, kernel, lambda fn, word: (word(1) * WARP + (GROUP - 1)) / GROUP)
    return module_text(module)
