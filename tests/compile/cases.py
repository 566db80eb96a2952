"""Programs that are run twice, plain and compiled: each gives a list of all that can be seen of it.

A case gets `torch` and `compile`, which gives back functions as they are or compiled. What it
returns (tensors, numbers, texts, lists) and prints must be the same.
"""

import collections
import contextlib
import dataclasses
import enum
import functools
import io
import math
import threading
import typing
import warnings

CASES = {}


def case(function):
    """Put a program on the list."""
    CASES[function.__name__] = function
    return function


def numbers(torch, *shape, seed=0):
    """Numbers that are the same in every run."""
    count = math.prod(shape)
    values = torch.arange(count, dtype=torch.float32).reshape(shape)
    return (values * 0.37 + seed).sin()


def error_of(function, *args):
    """The type and the first line of what a call raises."""
    try:
        function(*args)
    except Exception as error:
        return type(error).__name__, str(error).split("\n")[0]
    return None


# -- values and structures -------------------------------------------------------------------------


@case
def pointwise(torch, compile):
    def f(x, y):
        return torch.sin(x) * y + x.cos() / 2

    g, x = compile(f), numbers(torch, 3, 4)
    return [g(x, x + 1), g(x, 2.0), g(x, 3), g(numbers(torch, 5), x[0, :1])]


@case
def structures(torch, compile):
    def f(x, flag):
        parts = [x, x + 1]
        parts.append(parts[0] * 2)
        table = {"a": parts, "b": (x.shape, x.dtype, flag), 3: None}
        table["c"] = [p.sum() for p in parts if flag or p is not x]
        return table, parts

    g, x = compile(f), numbers(torch, 3)
    table, parts = g(x, False)
    again, _ = g(x, True)
    return [table, parts, table["a"] is parts, parts[0] is x, again, type(table["b"][0]).__name__]


@case
def returns_the_argument(torch, compile):
    def f(x, rest):
        return x, rest, rest["k"], x

    g, x = compile(f), numbers(torch, 2)
    rest = {"k": [1, x]}
    a, b, c, d = g(x, rest)
    return [a is x, b is rest, c is rest["k"], d is x]


@case
def named_tuples_and_dataclasses(torch, compile):
    Pair = collections.namedtuple("Pair", "first second")

    @dataclasses.dataclass
    class State:
        h: object
        steps: int = 0
        seen: list = dataclasses.field(default_factory=list)

        def advance(self, x):
            self.h = self.h + x
            self.steps += 1
            self.seen.append(self.steps)
            return self

    def f(x):
        state = State(x * 2)
        for _ in range(3):
            state.advance(x)
        return Pair(state.h, state), Pair(first=1, second=x)._replace(first=2)

    a, b = compile(f)(numbers(torch, 3))
    return [a.first, a.second.h, a.second.steps, a.second.seen, type(a).__name__, b,
            type(a.second) is State, a.first is a.second.h]  # fmt: skip


@case
def classes_made_inside(torch, compile):
    class Base:
        scale = 2

        def __init__(self, x):
            self.x = x

        def value(self):
            return self.x * self.scale

        @property
        def double(self):
            return self.value() * 2

        @staticmethod
        def twice(x):
            return x * 2

        @classmethod
        def make(cls, x):
            return cls(x)

    class Child(Base):
        def value(self):
            return super().value() + 1

    def f(x):
        made = Child.make(x)
        return made.double + Child.twice(x), made

    value, made = compile(f)(numbers(torch, 3))
    Base.scale = 5
    changed, _ = compile(f)(numbers(torch, 3))
    return [value, type(made).__name__, made.x, changed]


@case
def class_attribute_changes(torch, compile):
    class Config:
        scale = 2

    def f(x):
        return x * Config.scale

    g, x = compile(f), numbers(torch, 3)
    found = [g(x)]
    Config.scale = 3
    return [*found, g(x)]


@case
def comprehensions_and_generators(torch, compile):
    def f(xs):
        total = sum(x * k for k, x in enumerate(xs, 1))
        pairs = {k: v * 1 for k, v in zip("abc", xs)}
        tuples = tuple(x + y for x in xs for y in xs if x is not y)
        names = {len(n) for n in pairs}
        flags = all(x.dim() == 1 for x in xs), any(x.dim() == 2 for x in xs)
        best = max(xs, key=lambda x: x.shape[0])
        return total, pairs, tuples, names, flags, best, [*map(torch.relu, xs)], sorted([3, 1])

    xs = [numbers(torch, 3, seed=k) for k in range(3)]
    return [compile(f)(xs)]


@case
def closures_and_lambdas(torch, compile):
    def f(x):
        count = 0

        def add(y, *more, by=1, **rest):
            nonlocal count
            count += 1
            return y + by + len(more) + rest.get("z", 0)

        twice = lambda h: add(add(h), 1, 2, by=3, z=4)
        return twice(x), count, functools.reduce(lambda a, b: a * b, [x, x, x])

    return [compile(f)(numbers(torch, 3))]


@case
def control_flow_over_constants(torch, compile):
    def f(x, n):
        out = x
        for k in range(n):
            if k == 1:
                continue
            if k == 4:
                break
            out = out + k
        else:
            out = out * 10
        while n > 0:
            n -= 1
            out = out - 1 if n % 2 else out
        a, *rest, b = (1, 2, 3, 4)
        return out, a, rest, b, n

    g, x = compile(f), numbers(torch, 3)
    return [g(x, 2), g(x, 3), g(x, 7)]


@case
def texts_and_numbers(torch, compile):
    def f(x):
        name = f"{x.shape[0]:>4}|{x.dtype}|{3.14159:.2f}|{'a'!r}"
        size = math.prod(x.shape) * math.sqrt(4.0)
        return name, size, "-".join(str(n) for n in x.shape), divmod(7, 2), x * size

    return [compile(f)(numbers(torch, 3, 2))]


@case
def many_kinds_of_arguments(torch, compile):
    def f(a, /, b, *rest, c=3, **named):
        return a + b * c, [r * 2 for r in rest], {k: v + 1 for k, v in named.items()}

    g, x = compile(f), numbers(torch, 2)
    return [g(x, 1), g(x, b=2), g(x, x, x, x, c=x), g(x, 1, c=5, d=x, e=2), g(x, 1, e=2, d=x)]


@case
def tensor_methods_and_views(torch, compile):
    def f(x):
        y = x.reshape(2, -1).t().contiguous()
        a, b = x.chunk(2)
        values, places = y.max(dim=0)
        rows = [r.sum() for r in y]
        return y, a - b, values, places, rows, x[1:, None], x[..., -1], y.T @ y, x.view(-1).topk(2)

    g = compile(f)
    values, places = g(numbers(torch, 4, 3))[-1]
    return [g(numbers(torch, 4, 3))[:-1], values, places]


@case
def creation(torch, compile):
    def f(x):
        a = torch.zeros(2, 3) + torch.arange(3)
        b = torch.full_like(x, 2.5) + torch.ones(x.shape, dtype=torch.float64, device=x.device)
        c = torch.tensor([[1, 2], [3, 4]]).float().tril()
        return a, b, c, torch.eye(2), torch.linspace(0, 1, 5), x.new_ones(2)

    return [compile(f)(numbers(torch, 3))]


# -- changes between calls -------------------------------------------------------------------------


@case
def numbers_change(torch, compile):
    def f(x, n):
        return x * n

    g, x = compile(f), numbers(torch, 3)
    return [g(x, n) for n in (1, 2, True, 1.0, 1, 0.0, -0.0, float("nan"), 2**40)]


@case
def flags_and_none(torch, compile):
    def f(x, mask=None, mode="a"):
        if mask is not None:
            x = x * mask
        return x + 1 if mode == "a" else x - 1

    g, x = compile(f), numbers(torch, 3)
    return [g(x), g(x, x), g(x, None, "b"), g(x, mask=x, mode="b"), g(x, mode="c")]


_SCALE = 2.0
_TABLE = {"k": 1.0}


@case
def globals_change(torch, compile):
    global _SCALE

    def f(x):
        return x * _SCALE + _TABLE["k"]

    g, x, found = compile(f), numbers(torch, 3), []
    for scale, k in ((2.0, 1.0), (3.0, 1.0), (3, 1.0), (3, 4.0)):
        _SCALE, _TABLE["k"] = scale, k
        found.append(g(x))
    _SCALE, _TABLE["k"] = 2.0, 1.0
    return found


@case
def closures_change(torch, compile):
    scale = 2.0

    def change(value):
        nonlocal scale
        scale = value

    def f(x):
        return x * scale

    g, x, found = compile(f), numbers(torch, 3), []
    for value in (2.0, 3.0, numbers(torch, 3)):
        change(value)
        found.append(g(x))
    return found


@case
def called_functions_change(torch, compile):
    helpers = {"h": lambda x: x + 1}

    def h(x):
        return x * 2

    def f(x, helper):
        return helper(x) + helpers["h"](x)

    g, x = compile(f), numbers(torch, 3)
    found = [g(x, h), g(x, lambda x: x * 3), g(x, torch.sin)]
    helpers["h"] = torch.cos
    found.append(g(x, h))
    h.__code__ = (lambda x: x * 7).__code__
    return [*found, g(x, h)]


@case
def defaults_change(torch, compile):
    def f(x, by=2):
        return x * by

    g, x = compile(f), numbers(torch, 3)
    found = [g(x)]
    f.__defaults__ = (3,)
    return [*found, g(x)]


@case
def monkeypatched_ops(torch, compile):
    functions = torch.nn.functional

    def f(x):
        return functions.relu(x)

    g, x, original = compile(f), numbers(torch, 3), functions.relu
    found = [g(x)]
    functions.relu = torch.sin
    try:
        found.append(g(x))
    finally:
        functions.relu = original
    return [*found, g(x)]


@case
def lists_change(torch, compile):
    weights, options = [1.0, 2.0], {"a": 1, "b": 2}

    def f(x):
        for w in weights:
            x = x * w
        for k, v in options.items():
            x = x + v if k != "b" else x - v
        return x, len(weights), "c" in options, options.get("d", 5)

    g, x = compile(f), numbers(torch, 3)
    found = [g(x)]
    weights.append(3.0)
    found.append(g(x))
    weights[0] = 7.0
    found.append(g(x))
    options["c"] = 10
    found.append(g(x))
    options["d"] = 1
    del options["a"]
    return [*found, g(x)]


@case
def objects_change(torch, compile):
    class Settings:
        def __init__(self):
            self.scale, self.inner = 2.0, None

        def apply(self, x):
            return x * self.scale

        @property
        def half(self):
            return self.scale / 2

    settings = Settings()

    def f(x):
        y = settings.apply(x) + settings.half
        if hasattr(settings, "extra"):
            y = y + settings.extra
        return y if settings.inner is None else y + settings.inner.scale

    g, x = compile(f), numbers(torch, 3)
    found = [g(x)]
    settings.scale = 3.0
    found.append(g(x))
    settings.extra = 5
    found.append(g(x))
    settings.inner = Settings()
    found.append(g(x))
    settings.apply = lambda x: x
    found.append(g(x))
    Settings.half = property(lambda self: 100.0)
    return [*found, g(x)]


@case
def same_object_or_not(torch, compile):
    def f(x, y, p, q):
        return x + 1 if x is y else x - y, p is q

    class Thing:
        pass

    g, x, a, b = compile(f), numbers(torch, 3), Thing(), Thing()
    y = x.clone()
    return [g(x, y, a, b), g(x, x, a, b), g(y, x, a, a), g(x, y, a, a)]


@case
def types_change(torch, compile):
    def f(x):
        if isinstance(x, (list, tuple)):
            return sum(x)
        if isinstance(x, dict):
            return {k: v * 2 for k, v in x.items()}
        return x * 2

    g, x = compile(f), numbers(torch, 3)
    return [g(x), g([x, x]), g((x, x, x)), g({"a": x}), g(3), g(torch.nn.Parameter(x))]


@case
def classes_of_arguments_change(torch, compile):
    class Small:
        size = 1

        def __init__(self):
            self.by = 2

    class Large(Small):
        pass

    def f(x, thing):
        y = x * 2 if isinstance(x, torch.nn.Parameter) else x * 3
        return y + thing.by, isinstance(thing, Large), type(thing).__name__

    g, x = compile(f), numbers(torch, 3)
    frozen = torch.nn.Parameter(x, requires_grad=False)
    return [g(x, Small()), g(frozen, Small()), g(x, Large())]


@case
def attributes_appear(torch, compile):
    class Thing:
        pass

    seen, names, flags = {}, {"a", "b"}, {}

    def f(x, thing):
        y = x * 2 if hasattr(thing, "extra") else x * 3
        y = y + 1 if flags else y - 1
        return y * 5 if "c" in names else y, "k" in seen, len(names)

    g, x, thing = compile(f), numbers(torch, 3), Thing()
    found = [g(x, thing)]
    Thing.extra = 1
    found.append(g(x, thing))
    seen["k"] = 1
    found.append(g(x, thing))
    names.add("c")
    found.append(g(x, thing))
    flags["on"] = 2
    return [*found, g(x, thing)]


@case
def dtypes_shapes_strides(torch, compile):
    def f(x):
        return (x + 1).stride(), x.is_contiguous(), x.T + 1, x.dtype, x.dim()

    g, x = compile(f), numbers(torch, 3, 4)
    given = [x, x.T, x.double(), x[:, ::2], x[:0], x.to(torch.int64), x[0], x.expand(2, 3, 4)[0]]
    return [g(t) if t.dim() == 2 else g(t.reshape(1, -1)) for t in given]


@case
def sizes_change(torch, compile):
    def f(x):
        return x.sum(0) / x.shape[0] + len(x)

    g = compile(f)
    return [g(numbers(torch, n, 2)) for n in range(1, 30)]


@case
def requires_grad_changes(torch, compile):
    def f(x):
        y = x * 2
        return y, y.requires_grad

    g, x = compile(f), numbers(torch, 3)
    found = [g(x)[1], g(x.clone().requires_grad_())[1]]
    leaf = x.clone().requires_grad_()
    y, flag = g(leaf * 3)
    y.sum().backward()
    with torch.no_grad():
        found.append(g(leaf)[1])
    return [*found, flag, leaf.grad, y.grad_fn is not None]


@case
def leaf_or_not(torch, compile):
    def f(x):
        return x * 2, x.is_leaf

    g = compile(f)
    leaf = numbers(torch, 3).requires_grad_()
    return [g(leaf), g(leaf * 1), g(leaf.detach())]


@case
def grad_mode(torch, compile):
    def f(x):
        y = x * 2
        with torch.no_grad():
            z = y * 3
            with torch.enable_grad():
                w = y * 4
        return y.requires_grad, z.requires_grad, w.requires_grad, torch.is_grad_enabled(), z + w

    g, x = compile(f), numbers(torch, 3).requires_grad_()
    found = [g(x)]
    with torch.no_grad():
        found.append(g(x))
    with torch.set_grad_enabled(False):
        found.append(g(x)[:-1])
    return [found, torch.is_grad_enabled()]


@case
def inference_mode(torch, compile):
    def f(x):
        return x * 2, torch.is_inference_mode_enabled(), torch.is_grad_enabled()

    @torch.inference_mode()
    def inside(x):
        return x + 1, torch.is_inference_mode_enabled()

    g, x = compile(f), numbers(torch, 3).requires_grad_()
    found = [g(x)]
    with torch.no_grad():
        found.append(g(x))
    with torch.inference_mode():
        found += [g(x)[1:], g(x)[0].requires_grad]
        with torch.inference_mode(False):
            found.append(g(x))
    return [*found, g(x), compile(inside)(x)[1], torch.is_inference_mode_enabled()]


@case
def grad_mode_decorator_and_call(torch, compile):
    @torch.no_grad()
    def frozen(x):
        return x * 2

    def f(x):
        y = frozen(x)
        previous = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        z = x * 3
        torch.set_grad_enabled(previous)
        return y.requires_grad, z.requires_grad, (x * 4).requires_grad

    g, x = compile(f), numbers(torch, 3).requires_grad_()
    return [g(x), torch.is_grad_enabled(), compile(frozen)(x).requires_grad]


@case
def grad_mode_left_changed(torch, compile):
    def f(x):
        torch.set_grad_enabled(False)
        return x * 2

    g, x = compile(f), numbers(torch, 3).requires_grad_()
    found = [g(x).requires_grad, torch.is_grad_enabled()]
    torch.set_grad_enabled(True)
    return [*found, g(x).requires_grad, torch.is_grad_enabled(), torch.set_grad_enabled(True) and 0]


@case
def default_dtype(torch, compile):
    def f(x):
        return x + torch.ones(3) * 1.5, torch.get_default_dtype()

    g, x = compile(f), torch.arange(3)
    found = [g(x)]
    torch.set_default_dtype(torch.float64)
    try:
        found.append(g(x))
    finally:
        torch.set_default_dtype(torch.float32)
    return found


@case
def autocast(torch, compile):
    def f(x):
        return x @ x

    def inside(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
        return y, x @ x

    g, x = compile(f), numbers(torch, 3, 3)
    found = [g(x)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found.append(g(x))
    return [*found, g(x), compile(inside)(x)]


# -- effects ---------------------------------------------------------------------------------------


@case
def prints(torch, compile):
    def f(x, n):
        y = x + 1
        print("first", n)
        z = y * 2
        print("second", z.shape)
        return z

    g, x = compile(f), numbers(torch, 3)
    return [g(x, 1), g(x, 2)]


@case
def prints_in_called_functions(torch, compile):
    def log(x, name):
        y = x * 2
        print("in", name)
        return y + 1

    def f(x):
        a = log(x, "a")
        return log(a, "b") + a

    g, x = compile(f), numbers(torch, 3)
    return [g(x), g(x)]


@case
def prints_in_loops_and_branches(torch, compile):
    def f(x, n):
        for k in range(n):
            x = x + k
            if k % 2:
                print("odd", k)
        if n > 2:
            print("many")
            x = x * 2
        else:
            x = x * 3
        return x

    g, x = compile(f), numbers(torch, 3)
    return [g(x, 1), g(x, 3), g(x, 4)]


@case
def changes_outside(torch, compile):
    seen, table = [], {}

    class Box:
        count = 0

    box = Box()

    def f(x):
        y = x * 2
        seen.append(x.shape[0])
        table["last"] = y
        box.count += 1
        return y + box.count

    g, x = compile(f), numbers(torch, 3)
    return [g(x), g(x), g(x[:2]), seen, table["last"], box.count]


_CALLS = 0


@case
def changes_globals(torch, compile):
    global _CALLS
    _CALLS = 0

    def f(x):
        global _CALLS
        _CALLS += 1
        return x * _CALLS

    g, x = compile(f), numbers(torch, 3)
    return [g(x), g(x), g(x), _CALLS]


@case
def changes_closures(torch, compile):
    count = 0

    def f(x):
        nonlocal count
        count += 1
        return x * count

    g, x = compile(f), numbers(torch, 3)
    return [g(x), g(x), count]


@case
def in_place(torch, compile):
    def f(x, y):
        x.add_(1)
        x[0] = 7
        y += x
        x.mul_(2).sub_(y)
        torch.sin(x, out=y)
        return x + 1

    g = compile(f)
    x, y = numbers(torch, 3), numbers(torch, 3, seed=1)
    found = [g(x, y), x.clone(), y.clone(), g(x, y), x, y]
    return [*found, x._version == y._version]


@case
def in_place_on_views(torch, compile):
    def f(x):
        row = x[1]
        row.add_(1)
        x[:, 0] = row.sum()
        flat = x.view(-1)
        flat[2:4] *= 3
        return row, x.t()

    g, x = compile(f), numbers(torch, 3, 3)
    row, turned = g(x)
    turned[0, 0] = 100
    row[2] = 50
    return [x, row, turned]


@case
def in_place_with_shared_memory(torch, compile):
    def f(x, y):
        x.add_(1)
        return y * 2

    g, x = compile(f), numbers(torch, 4)
    y = x.clone()
    found = [
        g(x, y),
        g(x, x.view_as(x)),
        g(x, x),
        g(x, x[1:]),
        g(x[1:], x),
        g(x.view(2, 2), x),
        g(x, y),
    ]
    return [*found, x, y]


@case
def in_place_results_are_the_argument(torch, compile):
    def f(x):
        return x.add_(1), x.contiguous(), x.to(torch.float32), x.detach()

    g, x = compile(f), numbers(torch, 3)
    a, b, c, d = g(x)
    return [a is x, b is x, c is x, d is x, d, d._is_view()]


@case
def in_place_and_gradients(torch, compile):
    def f(x):
        y = x * 2
        y.add_(1)
        y[0] = x[1]
        z = y.detach().mul_(3)
        return y.sum(), z

    g, x = compile(f), numbers(torch, 3).requires_grad_()
    loss, z = g(x)
    loss.backward()
    return [x.grad, z, error_of(compile(lambda x: x.add_(1)), x)]


@case
def buffers_in_place(torch, compile):
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))
            self.norm = torch.nn.BatchNorm1d(3)

        def forward(self, x):
            self.count += 1
            return self.norm(x) * self.count

    m = Counter()
    g, x = compile(m), numbers(torch, 4, 3)
    found = [g(x), g(x * 2)]
    m.eval()
    found.append(g(x))
    return [*found, m.count, m.norm.running_mean, m.norm.running_var, m.norm.num_batches_tracked]


@case
def random_numbers(torch, compile):
    def f(x):
        a = torch.nn.functional.dropout(x, 0.5)
        b = torch.rand(3) + torch.randn_like(x)[0, :3]
        c = x.clone().uniform_(0, 1)
        return a, b, c, torch.randint(0, 10, (2,)), torch.randperm(5)

    torch.manual_seed(0)
    g, x = compile(f), numbers(torch, 4, 4)
    found = [g(x), g(x)]
    return [found, torch.rand(2), torch.get_rng_state()]


@case
def random_numbers_that_nobody_uses(torch, compile):
    def f(x):
        torch.rand(3)
        x.clone().normal_()
        return x + 1

    torch.manual_seed(0)
    return [compile(f)(numbers(torch, 3)), torch.rand(2)]


@case
def values_of_tensors(torch, compile):
    def f(x):
        y = x * 2
        n = y.sum().item()
        z = y + n
        k = int(z.argmax())
        return z[k], z.tolist(), float(z[0]), bool(z[0] > 0), k

    g, x = compile(f), numbers(torch, 3)
    return [g(x), g(-x)]


@case
def data_dependent_branches(torch, compile):
    def f(x):
        y = x + 1
        if y.sum() > 3:
            y = y * 2
            if y.max() > 3.9:
                return y - 100
        elif x.sum() > 0 and not y.min() < 0.9:
            y = y * 5
        else:
            y = -y
        while y.sum() < 50:
            y = y.abs() * 2
        return y

    g = compile(f)
    return [g(torch.full((3,), v)) for v in (1.0, 0.5, 0.01, -0.2, -4.0)]


@case
def data_dependent_shapes(torch, compile):
    def f(x):
        y = x * 2
        kept = y[y > 0]
        places = y.nonzero()
        return kept + 1, places, torch.unique(kept), torch.where(y > 0)[0]

    g, x = compile(f), numbers(torch, 3, 4)
    return [g(x), g(x + 1)]


@case
def exceptions(torch, compile):
    class OwnError(Exception):
        pass

    def f(x, how):
        y = x * 2
        if how == "shape":
            return y @ y
        if how == "raise":
            raise OwnError(f"no {how}")
        if how == "assert":
            assert y.shape[0] == 99, "wrong size"
        if how == "key":
            return {}["k"]
        if how == "index":
            return y[10]
        if how == "gather":
            return torch.nn.functional.embedding(torch.tensor([50]), y.reshape(-1, 1))
        if how == "type":
            return y + "a"
        return len(how)

    g, x = compile(f), numbers(torch, 3, 2)
    ways = ["shape", "raise", "assert", "key", "index", "gather", "type", 3]
    return [error_of(g, x, how) for how in ways] + [error_of(g, x, "shape"), error_of(g)]


@case
def try_and_except(torch, compile):
    def f(x, weight):
        try:
            y = x @ weight
        except RuntimeError:
            y = x + 1
        try:
            z = {"a": 1}["b"]
        except KeyError as error:
            z = str(error)
        finally:
            y = y * 2
        return y, z

    g, x = compile(f), numbers(torch, 3, 2)
    return [g(x, x.T), g(x, x), g(x, x.T)]


@case
def errors_at_run_time_are_caught(torch, compile):
    def f(table, at):
        try:
            return torch.nn.functional.embedding(at, table)
        except IndexError:
            return table * 0

    g, table = compile(f), numbers(torch, 4, 2)
    return [g(table, torch.tensor([1])), g(table, torch.tensor([9]))]


@case
def grad_mode_after_an_error(torch, compile):
    def f(table, at):
        with torch.no_grad():
            return torch.nn.functional.embedding(at, table)

    g, table = compile(f), numbers(torch, 4, 2)
    found = [g(table, torch.tensor([1])), error_of(g, table, torch.tensor([9])) is not None]
    return [*found, torch.is_grad_enabled()]


@case
def generators(torch, compile):
    def parts(x):
        for k in range(3):
            print("part", k)
            yield x + k

    def f(x, steps):
        y = x * 2
        total = sum(parts(y))
        for s in steps:
            total = total + s
        return total

    def g(x):
        yield x + 1
        yield x * 2

    x = numbers(torch, 3)
    steps = iter([1, 2, 3])
    return [compile(f)(x, steps), list(steps), list(compile(g)(x))]


@case
def context_managers(torch, compile):
    log = []

    @contextlib.contextmanager
    def noting(name):
        log.append("enter " + name)
        try:
            yield name
        finally:
            log.append("leave " + name)

    def f(x):
        y = x + 1
        with noting("a") as name, noting("b"):
            y = y * 2
            log.append(name)
        return y - 1

    def g(x):
        with contextlib.suppress(ValueError):
            x = x + 1
            raise ValueError
        return x * 2

    x = numbers(torch, 3)
    return [compile(f)(x), log, compile(g)(x)]


@case
def warnings_are_given(torch, compile):
    def f(x):
        warnings.warn("careful", stacklevel=1)
        return x + 1

    g, x = compile(f), numbers(torch, 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        g(x), g(x)
    return [[(str(w.message), w.category.__name__) for w in caught]]


@case
def ops_that_warn(torch, compile):
    def f(x, y):
        return torch.nn.functional.mse_loss(x, y) + 1

    g, x = compile(f), numbers(torch, 3, 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [g(x, x), g(x, x[0]), g(x, x[0]), g(x, x)]
    return [found, [str(w.message)[:40] for w in caught]]


@case
def files_and_streams(torch, compile):
    stream = io.StringIO()

    def f(x):
        y = x + 1
        stream.write(f"{y.shape[0]};")
        return y * 2

    g, x = compile(f), numbers(torch, 3)
    return [g(x), g(x), stream.getvalue()]


@case
def locals_and_frames(torch, compile):
    def f(x):
        y = x + 1
        names = sorted(locals())
        z = y * 2
        return z, names, sorted(n for n in dir() if n != "names")

    return [compile(f)(numbers(torch, 3))]


@case
def gradients(torch, compile):
    def f(x, w):
        return (torch.tanh(x @ w) ** 2).sum()

    g = compile(f)
    x, w = numbers(torch, 3, 4).requires_grad_(), numbers(torch, 4, 2, seed=1).requires_grad_()
    g(x, w).backward()
    first = torch.autograd.grad(g(x, w), [w], create_graph=True)[0]
    first.sum().backward()
    return [x.grad, w.grad, first]


@case
def hooks_on_tensors(torch, compile):
    seen = []

    def f(x):
        y = x * 2
        y.register_hook(lambda g: seen.append(g.sum().item()))
        return y * 3

    def g(x):
        return x * 5

    x = numbers(torch, 3).requires_grad_()
    compile(f)(x).sum().backward()
    x.register_hook(lambda g: g * 2)
    compile(g)(x).sum().backward()
    return [seen, x.grad]


# -- modules ---------------------------------------------------------------------------------------


def make_net(torch):
    class Block(torch.nn.Module):
        def __init__(self, size, p):
            super().__init__()
            self.linear = torch.nn.Linear(size, size)
            self.drop = torch.nn.Dropout(p)
            self.act = torch.nn.ReLU()

        def forward(self, x):
            return x + self.drop(self.act(self.linear(x)))

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList([Block(4, 0.0), Block(4, 0.5)])
            self.heads = torch.nn.ModuleDict({"a": torch.nn.Linear(4, 2)})
            self.scale = 1.0
            self.log = []

        def forward(self, x, head="a"):
            for block in self.blocks:
                x = block(x)
            return self.heads[head](x) * self.scale

    torch.manual_seed(0)
    return Net()


@case
def modules_change(torch, compile):
    m = make_net(torch)
    g, x, found = compile(m), numbers(torch, 3, 4), []

    def note():
        torch.manual_seed(1)
        found.append(g(x))

    note()
    m.eval()
    note()
    m.scale = 2.0
    note()
    m.blocks[1].drop.p = 0.9
    m.train()
    note()
    m.blocks.append(torch.nn.Linear(4, 4))
    note()
    m.blocks[0].linear.weight = torch.nn.Parameter(numbers(torch, 4, 4))
    note()
    m.heads["a"] = torch.nn.Linear(4, 3, bias=False)
    note()
    m.blocks[0].act = torch.nn.Tanh()
    note()
    m.blocks[0].forward = lambda x: x * 2
    note()
    with torch.no_grad():
        m.blocks[2].weight.mul_(2)
    note()
    m.requires_grad_(False)
    note()
    found.append(found[-1].requires_grad)
    m.double()
    x = x.double()
    note()
    return found


@case
def modules_train(torch, compile):
    m = make_net(torch)
    g, x = compile(m), numbers(torch, 8, 4)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(6):
        optimizer.zero_grad()
        loss = (g(x * (step + 1)) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, *m.parameters()]


@case
def module_hooks(torch, compile):
    m = make_net(torch).eval()
    g, x, seen = compile(m), numbers(torch, 3, 4), []
    found = [g(x)]
    handle = m.blocks[0].register_forward_hook(lambda mod, args, out: out * 2)
    found.append(g(x))
    pre = m.register_forward_pre_hook(lambda mod, args: (args[0] + 1,))
    found.append(g(x))
    handle.remove()
    found.append(g(x))
    pre.remove()
    back = m.blocks[1].register_full_backward_hook(lambda mod, gi, go: seen.append(len(gi)))
    g(x).sum().backward()
    back.remove()
    everywhere = torch.nn.modules.module.register_module_forward_hook(
        lambda mod, args, out: seen.append(type(mod).__name__.replace("OptimizedModule", "Net"))
    )
    try:
        found.append(g(x))
    finally:
        everywhere.remove()
    return [found, sorted(set(map(str, seen))), g(x)]  # the compiled module has a call of its own


@case
def module_classes_change(torch, compile):
    class Plain(torch.nn.Module):
        def forward(self, x):
            return self.inner(x) + 1

        def inner(self, x):
            return x * 2

    m, x = Plain(), numbers(torch, 3)
    g = compile(m)
    found = [g(x)]
    Plain.inner = lambda self, x: x * 3
    found.append(g(x))
    Plain.forward = lambda self, x: x
    found.append(g(x))
    m.forward = lambda x: x * 9
    return [*found, g(x)]


@case
def two_modules_of_one_class(torch, compile):
    class Add(torch.nn.Module):
        def __init__(self, by):
            super().__init__()
            self.by = by

        def forward(self, x):
            return x + self.by

    x = numbers(torch, 3)
    a, b = Add(1), Add(numbers(torch, 3))
    ga, gb = compile(a), compile(b)
    pair = torch.nn.Sequential(a, b, a)
    gp = compile(pair)
    found = [ga(x), gb(x), gp(x)]
    a.by = 5
    pair[2] = Add(7)
    return [*found, ga(x), gb(x), gp(x)]


@case
def modules_that_count(torch, compile):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.calls, self.history = 0, []
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            self.calls += 1
            y = self.linear(x)
            self.history.append(self.calls)
            self.last = y
            return y * self.calls

    torch.manual_seed(0)
    m = Counting()
    g, x = compile(m), numbers(torch, 2, 3)
    found = [g(x), g(x), g(x)]
    return [*found, m.calls, m.history, m.last is not None, m.last]


@case
def modules_that_print(torch, compile):
    class Loud(torch.nn.Module):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def forward(self, x):
            x = x + 1
            print("in", self.name)
            return x * 2

    m = torch.nn.Sequential(Loud("a"), torch.nn.ReLU(), Loud("b"))
    g, x = compile(m), numbers(torch, 3)
    return [g(x), g(x)]


@case
def shared_parameters(torch, compile):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(3, 3)
            self.b = torch.nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    torch.manual_seed(0)
    m = Tied()
    g, x = compile(m), numbers(torch, 2, 3)
    found = [g(x)]
    g(x).sum().backward()
    found.append(m.a.weight.grad)
    m.b.weight = torch.nn.Parameter(numbers(torch, 3, 3))
    return [*found, g(x)]


@case
def methods_and_callables(torch, compile):
    class Model:
        def __init__(self):
            self.w = 2.0

        def step(self, x):
            return x * self.w

        def __call__(self, x):
            return self.step(x) + 1

    m, x = Model(), numbers(torch, 3)
    a, b = compile(m.step), compile(m)
    found = [a(x), b(x)]
    m.w = 3.0
    partial = compile(functools.partial(torch.add, alpha=2))
    return [*found, a(x), b(x), partial(x, x), compile(torch.sin)(x)]


@case
def compiled_in_compiled(torch, compile):
    inner = compile(lambda x: x * 2)
    m = compile(torch.nn.Linear(3, 3, bias=False))
    with torch.no_grad():
        m.weight.fill_(0.5)

    def f(x):
        return inner(x) + m(x)

    return [compile(f)(numbers(torch, 2, 3)), inner(numbers(torch, 2))]


@case
def recursion(torch, compile):
    def power(x, n):
        if n == 0:
            return x * 0 + 1
        half = power(x, n // 2)
        return half * half * (x if n % 2 else 1)

    g, x = compile(power), numbers(torch, 3)
    return [g(x, n) for n in (0, 1, 5, 12)]


@case
def enums_and_types(torch, compile):
    class Mode(enum.Enum):
        ADD, MUL = 1, 2

    def f(x, mode, kind: typing.Any = float):
        y = x + 2 if mode is Mode.ADD else x * 2
        return y, mode.name, kind is int, typing.cast("int", 3)

    g, x = compile(f), numbers(torch, 3)
    return [g(x, Mode.ADD), g(x, Mode.MUL), g(x, Mode.ADD, int)]


@case
def disabled_parts(torch, compile):
    def hidden(x):
        print("hidden")
        return x * 2

    if hasattr(compile, "disable"):
        hidden = compile.disable(hidden)

    def f(x):
        return hidden(x + 1) - 1

    g, x = compile(f), numbers(torch, 3)
    return [g(x), g(x)]


@case
def threads(torch, compile):
    def f(x, n):
        return (x * n).sum()

    g, x, found = compile(f), numbers(torch, 50), {}

    def work(k):
        for n in range(6):
            found[k, n] = g(x[: k + 1], n).item()

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    return [sorted(found.items())]


@case
def subclasses_of_containers(torch, compile):
    class Bag(dict):
        def __getattr__(self, name):
            return self[name]

    class Numbers(list):
        def __len__(self):
            return 100

    def f(x, bag, items):
        return x * bag.scale + len(items), bag["scale"]

    g, x = compile(f), numbers(torch, 3)
    return [g(x, Bag(scale=2.0), Numbers([1])), g(x, Bag(scale=3.0), Numbers([1, 2]))]


@case
def objects_with_their_own_ways(torch, compile):
    log = []

    class Odd:
        def __getattr__(self, name):
            log.append(name)
            return 2.0

        def __eq__(self, other):
            log.append("eq")
            return True

        def __bool__(self):
            log.append("bool")
            return False

        __hash__ = None

        def __len__(self):
            log.append("len")
            return 3

        def __iter__(self):
            log.append("iter")
            return iter([1, 2])

        def __add__(self, other):
            log.append("add")
            return other

    def f(x, odd):
        y = x * odd.scale
        y = y + 1 if odd == 3 else y - 1
        y = y * 2 if odd else y * 3
        for k in odd:
            y = y + k + len(odd)
        return odd + y, odd in [1, 2], getattr(odd, "z", 5)

    g, x = compile(f), numbers(torch, 3)
    return [g(x, Odd()), g(x, Odd()), log]


@case
def tensors_as_indices_and_keys(torch, compile):
    def f(x, at):
        table = {x: 1}
        items = [10, 20, 30]
        return x[at], x[at > 0], table[x], x in [x], items[at[0]], items.index(20)

    return [compile(f)(numbers(torch, 4), torch.tensor([1, 2, 0, 3]))]


@case
def attributes_of_tensors(torch, compile):
    def f(x):
        y = x + 1
        x.note = "seen"
        y.other = x.note
        return y.other, getattr(x, "nothing", None), x.grad, y.grad_fn is None

    x = numbers(torch, 3)
    return [compile(f)(x), x.note]


@case
def gradients_as_values(torch, compile):
    def f(x):
        return None if x.grad is None else x.grad * 2

    g, x = compile(f), numbers(torch, 3).requires_grad_()
    found = [g(x)]
    (x * 3).sum().backward()
    found.append(g(x))
    x.grad = None
    return [*found, g(x)]


@case
def training_step_changes(torch, compile):
    torch.manual_seed(0)
    m = torch.nn.Linear(3, 1)
    extra = torch.nn.Parameter(numbers(torch, 1))
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    log = []

    def step(x):
        loss = (m(x) + extra).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return loss.detach(), len(log)

    g, x = compile(step), numbers(torch, 4, 3)
    found = [g(x), g(x)]
    optimizer.param_groups[0]["lr"] = 0.5
    found.append(g(x))
    optimizer.add_param_group({"params": [extra]})
    found += [g(x), g(x), extra.detach().clone()]
    handle = optimizer.register_step_post_hook(lambda *args: log.append("step"))
    found += [g(x), list(log)]
    handle.remove()
    handle = m.weight.register_post_accumulate_grad_hook(lambda p: log.append("grad"))
    found += [g(x), list(log)]
    handle.remove()
    m.bias.requires_grad_(False)
    found.append(g(x))
    return [found, *m.parameters(), m.weight.grad, error_of(compile(lambda x: x.backward()), x)]


@case
def training_step(torch, compile):
    torch.manual_seed(0)
    m = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(m.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    def step(x, y):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(m(x), y)
        loss.backward()
        optimizer.step()
        return loss

    g, x = compile(step), numbers(torch, 8, 4)
    losses = []
    for k in range(6):
        losses.append(g(x, x[:, :1] * k).item())
        scheduler.step()
    return [losses, *m.parameters(), m[0].weight.grad]
