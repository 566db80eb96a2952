"""Random programs over tensors: arithmetic, broadcasting, views, reductions, joins, writes.

`program(seed)` gives lines of Python; a tensor is known by its shape while the program is written,
so every line is valid. `run` executes one with PyTorch or flambeau and gives the loss, the
gradients and the gradients of the gradients' squares, or the complaint.
"""

import math
import random

from tests.autograd.behaviour import attempt

SHAPES = [(), (3,), (2, 3), (3, 2), (2, 1), (1, 3), (2, 3, 2), (2, 2, 3)]
UNARY = "sin cos tanh sigmoid exp_small square abs neg softplus_like atan erf relu log_safe".split()
TEXTS = {
    "exp_small": "({0} * 0.3).exp()",
    "softplus_like": "(1 + ({0} * 0.5).exp()).log()",
    "log_safe": "(1.5 + {0} * {0}).log()",
}


class Writer:
    """Writes one program."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.lines, self.shapes, self.count = [], {}, 0

    def leaf(self, shape):
        name = f"x{len(self.shapes)}"
        self.shapes[name] = shape
        return name

    def make(self, text, shape):
        name = f"t{self.count}"
        self.count += 1
        self.lines.append(f"{name} = {text}")
        self.shapes[name] = shape
        return name

    def pick(self, fits=lambda shape: True):
        names = [n for n, s in self.shapes.items() if fits(s)]
        recent = names[-6:]
        return self.r.choice(recent if recent and self.r.random() < 0.7 else names or ["x0"])

    def partner(self, shape):
        """A tensor that broadcasts with a shape."""
        return self.pick(lambda s: broadcast(s, shape) is not None)

    def unary(self):
        a = self.pick()
        word = self.r.choice(UNARY)
        self.make(TEXTS.get(word, "{0}." + word + "()").format(a), self.shapes[a])

    def binary(self):
        a = self.pick()
        b = self.partner(self.shapes[a])
        text = self.r.choice(
            ["{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / ({1} * {1} + 1)", "2.5 * {0} - {1}",
             "torch.maximum({0}, {1})", "torch.where({0} > {1}, {0}, {1} * 2)", "{0} - 0.5",
             "1 - {0}", "{0} ** 2", "torch.atan2({0}, {1} * {1} + 1)",
             "torch.add({0}, {1}, alpha=0.5)"]
        )  # fmt: skip
        shape = broadcast(self.shapes[a], self.shapes[b]) if "{1}" in text else self.shapes[a]
        self.make(text.format(a, b), shape)

    def reduce(self):
        a = self.pick(lambda s: len(s) > 0)
        shape = self.shapes[a]
        if not shape:
            return self.unary()
        dim, keep = self.r.randrange(len(shape)), self.r.random() < 0.5
        word = self.r.choice(
            "sum mean amax prod logsumexp cumsum softmax var norm".split()
            if shape[dim] > 1
            else "sum mean amax cumsum softmax".split()
        )
        if word in ("cumsum", "softmax"):
            return self.make(f"{a}.{word}({dim})", shape)
        new = shape[:dim] + ((1,) if keep else ()) + shape[dim + 1 :]
        return self.make(f"{a}.{word}(dim={dim}, keepdim={keep})", new)

    def view(self):
        a = self.pick(lambda s: len(s) > 0)
        text, shape = self.view_of(a)
        self.make(text, shape)

    def view_of(self, a):
        r, shape = self.r, self.shapes[a]
        ways = ["unsqueeze", "expand"]
        if shape:
            ways += ["select", "slice", "flip_slice", "reshape", "unsqueeze"]
        if len(shape) > 1:
            ways += ["transpose", "permute", "index", "diagonal"]
        way = r.choice(ways)
        if way == "unsqueeze":
            return f"{a}.unsqueeze(0)", (1, *shape)
        if way == "expand":
            return f"{a}.expand(2, {', '.join(['-1'] * len(shape))})", (2, *shape)
        dim = r.randrange(len(shape))
        if way == "select":
            return f"{a}.select({dim}, {r.randrange(shape[dim])})", shape[:dim] + shape[dim + 1 :]
        if way == "slice":
            start = r.randrange(shape[dim])
            new = (*shape[:dim], shape[dim] - start, *shape[dim + 1 :])
            return f"{a}.narrow({dim}, {start}, {shape[dim] - start})", new
        if way == "flip_slice":
            return f"{a}[::2]", ((shape[0] + 1) // 2, *shape[1:])
        if way == "reshape":
            return f"{a}.reshape(-1)", (math.prod(shape),)
        other = r.randrange(len(shape))
        new = list(shape)
        if way == "transpose":
            new[dim], new[other] = new[other], new[dim]
            return f"{a}.transpose({dim}, {other})", tuple(new)
        if way == "permute":
            order = list(range(len(shape)))
            r.shuffle(order)
            return f"{a}.permute({order})", tuple(shape[k] for k in order)
        if way == "diagonal":
            return f"{a}.diagonal()", (*shape[2:], min(shape[0], shape[1]))
        return f"{a}[{r.randrange(shape[0])}, {r.randrange(shape[1])}]", shape[2:]

    def write(self):
        """An in-place op on a fresh copy, or on a view of one, or an assignment."""
        r = self.r
        a = self.pick()
        c = self.make(f"{a}.clone()", self.shapes[a])
        for _ in range(r.choice([1, 1, 2, 3])):
            target, shape = c, self.shapes[c]
            if shape and r.random() < 0.7:
                while True:
                    target, shape = self.view_of(c)
                    if "expand" not in target and "reshape" not in target:
                        break
            b = self.pick(lambda s, shape=shape: broadcast(s, shape) == shape)
            if broadcast(self.shapes[b], shape) != shape:
                b = "0.5"
            text = r.choice(
                ["{0}.mul_({1})", "{0}.add_({1})", "{0}.sin_()", "{0}.copy_(torch.as_tensor({1}))",
                 "{0}.sub_({1}, alpha=2)", "{0}.zero_()", "{0}.tanh_()", "{0}.pow_(2)"]
            )  # fmt: skip
            self.lines.append(text.format(target, b))

    def join(self):
        a = self.pick(lambda s: len(s) > 0)
        shape = self.shapes[a]
        b = self.pick(lambda s: s == shape)
        if not shape or self.shapes[b] != shape:
            return self.unary()
        if self.r.random() < 0.5:
            return self.make(f"torch.stack([{a}, {b}])", (2, *shape))
        return self.make(f"torch.cat([{a}, {b}])", (2 * shape[0], *shape[1:]))

    def matmul(self):
        a = self.pick(lambda s: len(s) == 2)
        if len(self.shapes[a]) != 2:
            return self.unary()
        m, _ = self.shapes[a]
        return self.make(f"({a} @ {a}.t()).tanh()", (m, m))

    def index(self):
        a = self.pick(lambda s: len(s) > 0 and s[0] > 1)
        shape = self.shapes[a]
        if not shape or shape[0] < 2:
            return self.unary()
        rows = [self.r.randrange(shape[0]) for _ in range(3)]
        return self.make(f"{a}[torch.tensor({rows})]", (3, *shape[1:]))


def broadcast(a, b):
    """The common shape, or None."""
    out = []
    for k in range(1, max(len(a), len(b)) + 1):
        m = a[-k] if k <= len(a) else 1
        n = b[-k] if k <= len(b) else 1
        if m != n and 1 not in (m, n):
            return None
        out.append(max(m, n) if 0 not in (m, n) else 0)
    return tuple(reversed(out))


def program(seed, steps=20):
    """(shapes of the leaves, lines, names of the results that make the loss)"""
    w = Writer(seed)
    leaves = [w.leaf(w.r.choice(SHAPES[1:])) for _ in range(3)]
    shapes = [w.shapes[n] for n in leaves]
    while len(w.lines) < steps:
        kinds = [w.unary, w.binary, w.reduce, w.view, w.write, w.join, w.index, w.matmul]
        w.r.choices(kinds, [5, 6, 3, 6, 4, 2, 2, 1])[0]()
        last = list(w.shapes)[-1]
        if math.prod(w.shapes[last]) > 200:  # keep it small: fold what grew
            w.make(f"{last}.mean(0)", w.shapes[last][1:])
    results = list(w.shapes)[-4:]
    return shapes, w.lines, results


def run(torch, seed):
    """Loss, gradients and second gradients of a program, or what it complains about."""
    shapes, lines, results = program(seed)
    numbers = random.Random(seed + 1)

    def fill(shape):
        flat = [numbers.uniform(-1.5, 1.5) for _ in range(math.prod(shape))]
        return torch.tensor(flat, dtype=torch.float64).reshape(shape).requires_grad_()

    leaves = [fill(s) for s in shapes]

    def work():
        space = {"torch": torch, **{f"x{k}": t for k, t in enumerate(leaves)}}
        exec("\n".join(lines), space)
        loss = sum((space[n] * space[n]).mean().sin() for n in results)
        grads = torch.autograd.grad(
            loss, leaves, create_graph=True, allow_unused=True, materialize_grads=True
        )
        again = sum((g * g).sum() for g in grads) + 0 * sum(t.sum() for t in leaves)
        second = torch.autograd.grad(again, leaves, retain_graph=True)
        loss.backward()
        return [
            loss.item(),
            [g.tolist() for g in grads],
            [g.tolist() for g in second],
            [None if t.grad is None else t.grad.tolist() for t in leaves],
        ]

    return attempt(work)
