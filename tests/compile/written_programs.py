"""Random Python functions for the reader: assignments, branches, loops, effects, breaks.

`source(seed)` always gives the same text. Programs handle three tensors of one shape, two ints, a
list, a dictionary, an object and a log from outside. Many raise errors somewhere, which is as good.
"""

import random

TENSORS, INTS = ["a", "b", "c"], ["n", "m"]


class Writer:
    """Writes a module with helpers and a function `program`."""

    def __init__(self, seed):
        self.rng, self.lines, self.depth = random.Random(seed), [], 0
        self.loops, self.helpers, self.room = 0, 0, 0

    def put(self, text):
        self.lines.append("    " * self.depth + text)

    def one(self, *choices):
        return self.rng.choice(choices)

    def tensor(self):
        t, u = self.rng.choice(TENSORS), self.rng.choice(TENSORS)
        return self.one(
            t, t, f"{t} + {u}", f"{t} * {self.integer()}", f"torch.sin({t})", f"{t}.relu()",
            f"({t} - {u}).abs()", f"torch.stack([{t}, {u}])[1]", f"{t}.flip(0)", f"{t}.view(3)",
            f"torch.where({t} > 0, {t}, {u})", f"torch.cat([{t}, {u}])[:3]", f"{t}[:]",
            f"{t}.clone()", f"{t}.detach()", f"box.w * {t}", f"SCALE * {t}", f"{t}.max(0)[0] + {u}",
            f"[{t}, {u}][{self.integer()} % 2]", f"torch.zeros(3) + {t}", f"torch.rand(3) * {t}",
            f"sum([{t}, {u}])", f"({t} if {self.integer()} > 1 else {u})", f"table['t'] + {t}",
        )  # fmt: skip

    def integer(self):
        n = self.rng.choice(INTS)
        return self.one(
            n, str(self.rng.randrange(4)), f"{n} + 1", "len(items)", "a.shape[0]", f"{n} % 3",
            "box.k", f"max({n}, 2)", "len(table)", "int(a.sum().item()) % 3", f"abs({n} - 2)",
        )  # fmt: skip

    def test(self):
        t = self.rng.choice(TENSORS)
        return self.one(
            f"{self.integer()} > {self.rng.randrange(3)}", f"{self.integer()} % 2", "items",
            f"{t}.sum() > 0", "'t' in table", f"{t} is {self.rng.choice(TENSORS)}", "not n",
            f"{t}.requires_grad", f"n and {t}.max() > 0.5", "box.flag", "len(items) < 3",
        )  # fmt: skip

    def block(self, size):
        self.depth += 1
        for _ in range(self.rng.randrange(1, size + 1)):
            self.statement()
        self.depth -= 1

    def statement(self):
        self.room -= 1
        if self.room < 0:
            self.put("pass")
            return
        kinds = [self.assign] * 8 + [self.change] * 3 + [self.effect] * 3 + [self.structure] * 3
        if self.depth < 4:
            kinds += [self.branch, self.branch, self.loop, self.around, self.inner]
        self.rng.choice([*kinds, self.leave])()

    def assign(self):
        name = self.rng.choice(TENSORS + INTS)
        value = self.tensor() if name in TENSORS else self.integer()
        self.put(f"{name} = {value}")

    def change(self):
        t, u = self.rng.choice(TENSORS), self.rng.choice(TENSORS)
        self.put(self.one(
            f"{t}.add_(1)", f"{t}[0] = {self.integer()}", f"{t} *= 2", f"{t}[1:] += {u}[1:]",
            f"torch.cos({u}, out={t})", f"{t}.view(3).mul_(0.5)", f"{t} += {u}", "n += 1",
        ))  # fmt: skip

    def effect(self):
        self.put(self.one(
            f"print('p', {self.integer()})", f"log.append({self.integer()})", "box.k += 1",
            f"box.w = {self.tensor()}", "box.flag = not box.flag", "box.step()", "count()",
            f"print(float({self.rng.choice(TENSORS)}.sum()) > 0)",
        ))  # fmt: skip

    def structure(self):
        self.put(self.one(
            f"items.append({self.tensor()})", f"items = [{self.integer()}, {self.tensor()}]",
            f"table['t'] = {self.tensor()}", "other = items", f"items += [{self.integer()}]",
            "items = [x for x in items if x is not a]", f"a, b = b, {self.tensor()}",
            f"table = dict(table, k={self.integer()})", "items = items[:2]", "n, *items = n, a, b",
            f"pair = ({self.tensor()}, items)", "m = sum(1 for x in items)",
            f"made = Made({self.tensor()}); c = made.twice()", "items.reverse()", "del m",
        ))  # fmt: skip

    def branch(self):
        self.put(f"if {self.test()}:")
        self.block(3)
        if self.rng.random() < 0.5:
            self.put("else:")
            self.block(2)

    def loop(self):
        self.loops += 1
        if self.rng.random() < 0.7:
            self.put(
                f"for i in {self.one('range(3)', 'items[:3]', 'range(n % 4)', 'list(table)')}:"
            )
        else:
            turn = f"turn{len(self.lines)}"  # a name of its own, so that every loop ends
            self.put(f"{turn} = 0")
            self.put(f"while {turn} < 3:")
            self.depth += 1
            self.put(f"{turn} = {turn} + 1")
            self.depth -= 1
        self.block(3)
        self.loops -= 1

    def around(self):
        kind = self.rng.randrange(3)
        if kind == 0:
            self.put("with torch.no_grad():")
            self.block(3)
        elif kind == 1:
            self.put("try:")
            self.block(3)
            self.put("except (RuntimeError, KeyError, TypeError):")
            self.block(1)
        else:
            self.put("with noting('w'):")
            self.block(2)

    def inner(self):
        t = self.rng.choice(TENSORS)
        if self.helpers and self.rng.random() < 0.7:
            self.put(f"{t} = helper{self.rng.randrange(self.helpers)}({self.tensor()}, {t}, box)")
        else:
            self.put(f"h = lambda x, k={self.integer()}: x * k + {t}")
            self.put(f"{t} = h({self.tensor()})")

    def leave(self):
        if self.loops and self.rng.random() < 0.6:
            self.put(self.one("break", "continue"))
        elif self.rng.random() < 0.3:
            self.put(self.one("return a, n", "raise ValueError(n)", "assert n < 4, 'n'"))
        else:
            self.put("pass")

    def module(self):
        for k in range(self.rng.randrange(3)):
            self.put(f"def helper{k}(a, b, box):")
            self.depth += 1
            self.put("c, n, m, items, table = a, 1, 2, [], {'t': b}")
            self.depth -= 1
            self.room = 6
            self.block(4)
            self.put("    return a + b")
            self.helpers += 1
        self.put("def program(a, b, n, items, table):")
        self.depth += 1
        self.put("c, m = a * 1, 1")
        self.depth -= 1
        self.room = 18
        self.block(10)
        self.put("    return a, b, c, n, items, table, box.k")
        return "\n".join(self.lines) + "\n"


def source(seed):
    """The text of a program."""
    return Writer(seed).module()
