"""More programs for test_programs.py: corners of Python that a reader could get wrong."""

import collections
import copy
import functools
import operator
import types

from tests.compile.cases import error_of, numbers

CASES = {}


def case(function):
    """Put a program on the list."""
    CASES[function.__name__] = function
    return function


@case
def results_are_new_each_time(torch, compile):
    def f(x):
        return [1, 2, x], {"a": []}, (x.shape, [3])

    g, x = compile(f), numbers(torch, 3)
    first = g(x)
    first[0].append(5)
    first[1]["a"].append(6)
    first[2][1].append(7)
    return [g(x), first]


@case
def variables_of_loops_in_closures(torch, compile):
    def f(x):
        late = [lambda: x * k for k in range(3)]  # noqa: B023
        early = [lambda k=k: x * k for k in range(3)]
        return [h() for h in late], [h() for h in early]

    return [compile(f)(numbers(torch, 2))]


@case
def variables_that_change_after_a_closure(torch, compile):
    def f(x):
        y = x + 1
        h = lambda: y * 2
        print("made")
        y = x - 100
        return h()

    return [compile(f)(numbers(torch, 2))]


@case
def mutable_defaults(torch, compile):
    def f(x, seen=[]):  # noqa: B006
        seen.append(len(seen))
        return x * len(seen), list(seen)

    g, x = compile(f), numbers(torch, 2)
    return [g(x), g(x), g(x, [7]), g(x)]


@case
def lists_changed_while_iterated(torch, compile):
    def f(x):
        items = [1, 2, 3]
        for k in items:
            if len(items) < 6:
                items.append(k * 10)
            x = x + k
        items[1:3] = [x]
        items += (4,)
        items.extend(n for n in (5, 6))
        del items[0]
        table = {}
        table.setdefault("k", []).append(x)
        table.update(a=1)
        return x, items, table, items.pop(), "k" in table

    return [compile(f)(numbers(torch, 2))]


@case
def walrus_and_chains(torch, compile):
    def f(x, n):
        if (m := n * 2) > 4 and 1 < n < 10 != 11:
            x = x + m
        y = [z := x + k for k in range(2)]
        return x, y, z, m if m > 0 else -m, not n, (n and "yes") or "no"

    g, x = compile(f), numbers(torch, 2)
    return [g(x, 1), g(x, 5), g(x, 0)]


@case
def conditional_variables(torch, compile):
    def f(x, how):
        if how == "set":
            y = x * 2
        print("between", how)
        if how != "never":
            z = x + 1
        return y + z

    g, x = compile(f), numbers(torch, 2)
    return [g(x, "set"), error_of(g, x, "unset"), error_of(g, x, "never")]


@case
def deleted_variables(torch, compile):
    def f(x):
        y = x + 1
        z = y
        del y
        print("gone")
        del z
        try:
            return y  # noqa: F821
        except UnboundLocalError:
            return x

    return [compile(f)(numbers(torch, 2))]


@case
def returns_from_the_middle(torch, compile):
    def f(x, n):
        y = x + 1
        for k in range(n):
            print("turn", k)
            y = y * 2
            if k == 2:
                return y, k
        with torch.no_grad():
            print("end")
            if n == 1:
                return y - 1, n
        return y, None

    g, x = compile(f), numbers(torch, 2)
    return [g(x, n) for n in (0, 1, 2, 5)]


@case
def loops_with_else_and_prints(torch, compile):
    def f(x, n):
        for k in range(3):
            x = x + k
            print(k)
            if k == n:
                break
        else:
            x = x * 100
        while n < 3:
            n += 1
            x = x + n
            print("n", n)
            if n == 2:
                continue
        return x, k, n

    g, x = compile(f), numbers(torch, 2)
    return [g(x, 1), g(x, 5), g(x, 1)]


@case
def shared_structures_across_a_break(torch, compile):
    def f(x):
        inner = [x]
        a, b = {"l": inner}, (inner, inner)
        y = x + 1
        print("cut")
        inner.append(y * 2)
        return a, b, a["l"] is b[0], b[0] is b[1], len(inner)

    g = compile(f)
    return [g(numbers(torch, 2)), g(numbers(torch, 3))]


@case
def objects_across_a_break(torch, compile):
    class State:
        def __init__(self, h):
            self.h, self.n = h, 0

        def step(self, x):
            self.h = self.h + x
            self.n += 1

    def f(x):
        state = State(x * 2)
        state.step(x)
        other = state
        print("cut", state.n)
        state.step(x)
        return other.h, other.n, other is state

    return [compile(f)(numbers(torch, 2))]


@case
def slots_and_setters(torch, compile):
    class Slotted:
        __slots__ = ("v",)

        def __init__(self, v):
            self.v = v

    class Guarded:
        def __init__(self, v):
            self._v = v

        @property
        def v(self):
            return self._v

        @v.setter
        def v(self, value):
            self._v = value * 10

    slotted, guarded = Slotted(2.0), Guarded(3.0)

    def f(x):
        made = Guarded(1)
        made.v = 5
        return x * slotted.v + guarded.v, made.v, Slotted(4).v

    g, x = compile(f), numbers(torch, 2)
    found = [g(x)]
    slotted.v, guarded.v = 5.0, 1.0
    return [*found, g(x)]


@case
def inheritance(torch, compile):
    class Base(torch.nn.Module):
        def __init__(self, scale):
            super().__init__()
            self.scale = scale

        def forward(self, x):
            return self.body(x) * self.scale

        def body(self, x):
            return x + 1

    class Middle(Base):
        def body(self, x):
            return super().body(x) * 2

    class Top(Middle):
        def forward(self, x):
            print("top")
            y = super().forward(x)
            return y + super().body(x)

    m, x = Top(2.0), numbers(torch, 2)
    g = compile(m)
    found = [g(x)]
    Base.body = lambda self, x: x + 100
    return [*found, g(x)]


@case
def modules_with_their_own_call(torch, compile):
    class Wrapped(torch.nn.Module):
        def __call__(self, x):
            return super().__call__(x + 1) * 2

        def forward(self, x):
            return x * 10

    m = torch.nn.Sequential(Wrapped(), Wrapped())
    return [compile(m)(numbers(torch, 2)), compile(m[0])(numbers(torch, 2))]


@case
def views_of_arguments(torch, compile):
    def f(x):
        return x[0], x.view(-1), x.t(), x.detach(), x.expand(2, 2, 2)

    g, x = compile(f), numbers(torch, 2, 2)
    parts = g(x)
    x.add_(1)
    parts[0].mul_(10)
    return [parts, x, [p._base is x for p in parts]]


@case
def results_that_share_memory(torch, compile):
    def f(x):
        y = x * 2
        return y, y[0], y

    a, b, c = compile(f)(numbers(torch, 2, 2))
    b.add_(5)
    return [a, b, a is c, b._base is a]


@case
def writes_to_captured_tensors(torch, compile):
    total, table = torch.zeros(2), {"t": torch.ones(2)}

    def f(x):
        total.add_(x)
        table["t"].mul_(2)
        table["t"][0] += 1
        return total * 1

    g, x = compile(f), numbers(torch, 2)
    found = [g(x), g(x)]
    table["t"] = torch.full((2,), 9.0)
    return [*found, g(x), total, table["t"]]


@case
def tensors_replaced_between_calls(torch, compile):
    box = types.SimpleNamespace(w=numbers(torch, 2))

    def f(x):
        return x * box.w

    g, x = compile(f), numbers(torch, 2)
    found = [g(x)]
    box.w = numbers(torch, 2, seed=3)
    found.append(g(x))
    box.w = 5
    found.append(g(x))
    box.w = numbers(torch, 2, 2)
    return [*found, g(x)]


@case
def gradients_flow_across_breaks(torch, compile):
    def f(x, w):
        h = torch.tanh(x * w)
        print("cut")
        return (h * w).sum()

    g = compile(f)
    x, w = numbers(torch, 3).requires_grad_(), numbers(torch, 3, seed=1).requires_grad_()
    g(x, w).backward()
    g(x, w).backward()
    return [x.grad, w.grad]


@case
def retained_graphs(torch, compile):
    def f(x):
        return (x**3).sum()

    g, x = compile(f), numbers(torch, 3).requires_grad_()
    loss = g(x)
    loss.backward(retain_graph=True)
    loss.backward()
    again = error_of(loss.backward)
    first = torch.autograd.grad(g(x), x, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), x)[0]
    return [x.grad, again is not None, second]


@case
def written_after_the_call(torch, compile):
    def f(x, w):
        return (x * w).sum()

    g, x, w = compile(f), numbers(torch, 3).requires_grad_(), numbers(torch, 3)
    loss = g(x, w)
    w.add_(1)
    return [error_of(loss.backward) is not None, error_of(g(x, w).backward)]


@case
def functions_as_values(torch, compile):
    def twice(h, x):
        return h(h(x))

    ops = {"sin": torch.sin, "own": lambda x: x * 3, "method": torch.Tensor.cos}

    def f(x, name):
        return twice(ops[name], x), callable(ops[name])

    g, x = compile(f), numbers(torch, 2)
    return [g(x, name) for name in ops]


@case
def unpacking(torch, compile):
    def inner(a, b, *c, d=1, **e):
        return a + b, c, d, e

    def f(x, pair, options):
        (a, [b, c]), d = (x, [1, 2]), 3
        return inner(*pair, x, **options), inner(*[x, x], d=x, z=b), a, c, d

    g, x = compile(f), numbers(torch, 2)
    return [g(x, (x, x), {"d": 2}), g(x, [x, 1], {"k": x}), error_of(g, x, (x,), {"q": 1})]


@case
def numbers_of_other_kinds(torch, compile):
    class Big(int):
        def __add__(self, other):
            return 1000

    def f(x, n):
        return x * float(n), n + 1, type(n).__name__

    g, x = compile(f), numbers(torch, 2)
    return [g(x, Big(3)), g(x, 3), g(x, True), g(x, 2**70), g(x, -0.0), g(x, 0.0)]


@case
def dictionaries_of_other_kinds(torch, compile):
    def f(x, table):
        table = dict(table) if type(table) is not dict else table
        return {k: v * 2 for k, v in table.items()}, len(table), list(table)

    g, x = compile(f), numbers(torch, 2)
    ordered = collections.OrderedDict(b=x, a=x + 1)
    default = collections.defaultdict(list, c=x)
    return [g(x, {"a": x}), g(x, ordered), g(x, default), g(x, {1: x, "z": 2}), g(x, {})]


@case
def isinstance_and_types(torch, compile):
    class Own(torch.nn.Module):
        pass

    def f(x, m):
        kinds = isinstance(m, torch.nn.Module), isinstance(x, torch.Tensor), torch.is_tensor(m)
        return x + 1 if type(m) is Own else x - 1, kinds, x.__class__.__name__

    g, x = compile(f), numbers(torch, 2)
    return [g(x, Own()), g(x, torch.nn.ReLU()), g(x, x), g(x, 3), g(x, "a")]


@case
def errors_after_effects(torch, compile):
    log = []

    def f(x, y):
        log.append("a")
        z = x * 2
        log.append("b")
        w = z @ y
        log.append("c")
        return w

    g, x = compile(f), numbers(torch, 2, 3)
    return [error_of(g, x, x), g(x, x.T), error_of(g, x, x), log]


@case
def in_place_before_an_error(torch, compile):
    def f(x, y):
        x.add_(1)
        return x @ y

    g, x = compile(f), numbers(torch, 2, 3)
    return [error_of(g, x, x), x.clone(), g(x, numbers(torch, 3, 2)), error_of(g, x, x), x]


@case
def infinities_and_dtypes_as_arguments(torch, compile):
    def f(x):
        y = x.masked_fill(x > 0.5, float("-inf")).clamp(max=float("inf"))
        z = torch.full((2,), float("nan"), dtype=torch.float64)
        w = x.to(device=x.device, dtype=torch.float64).contiguous(
            memory_format=torch.contiguous_format
        )
        return y, z, w, x.new_zeros(x.shape), x.expand(torch.Size([2, 2])), x * 1e-320, x + -0.0

    return [compile(f)(numbers(torch, 2))]


@case
def many_results(torch, compile):
    def f(x):
        _, s, _ = torch.linalg.svd(x)
        found = torch.sort(x, dim=0)
        parts = torch.split(x, 1)
        grid = torch.meshgrid(x[0], x[1], indexing="ij")
        return s, found, found.values, found[1], parts, torch.unbind(x), grid

    values = compile(f)(numbers(torch, 2, 3))
    return [values[0], tuple(values[1]), *values[2:]]


@case
def hooks_that_see_state(torch, compile):
    log = []
    w = torch.nn.Parameter(numbers(torch, 2))
    w.register_hook(lambda g: log.append("hook"))

    def f(x):
        (x * w).sum().backward()
        return len(log)

    g, x = compile(f), numbers(torch, 2)
    return [g(x), g(x), w.grad]


@case
def a_generator_of_random_numbers(torch, compile):
    own = torch.Generator().manual_seed(3)

    def f(x):
        return x + torch.rand(2, generator=own)

    g, x = compile(f), numbers(torch, 2)
    return [g(x), g(x)]


@case
def seeds_inside(torch, compile):
    def f(x):
        torch.manual_seed(5)
        return x + torch.rand(2)

    g, x = compile(f), numbers(torch, 2)
    return [g(x), g(x), torch.rand(1)]


@case
def containers_of_parameters(torch, compile):
    class Many(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = torch.nn.ParameterList([torch.nn.Parameter(numbers(torch, 2, seed=k))
                                                   for k in range(2)])  # fmt: skip
            self.named = torch.nn.ParameterDict({"a": torch.nn.Parameter(numbers(torch, 2))})
            self.plain = [numbers(torch, 2)]

        def forward(self, x):
            for k, w in enumerate(self.weights):
                x = x * w + k
            return x + self.named["a"] + self.plain[0] + len(self.weights)

    m = Many()
    g, x = compile(m), numbers(torch, 2)
    found = [g(x)]
    m.weights.append(torch.nn.Parameter(numbers(torch, 2)))
    m.plain[0] = numbers(torch, 2, seed=9)
    found.append(g(x))
    g(x).sum().backward()
    return [*found, m.named["a"].grad]


@case
def functional_calls(torch, compile):
    m = torch.nn.Linear(2, 2)

    def f(x, weight):
        return torch.func.functional_call(m, {"weight": weight, "bias": weight[0]}, (x,))

    return [compile(f)(numbers(torch, 2), numbers(torch, 2, 2))]


@case
def custom_functions(torch, compile):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 100

    def f(x):
        return Double.apply(x + 1).sum()

    g, x = compile(f), numbers(torch, 2).requires_grad_()
    g(x).backward()
    return [x.grad]


@case
def checkpoints(torch, compile):
    from importlib import import_module

    checkpoint = import_module(torch.__name__ + ".utils.checkpoint").checkpoint

    def f(x):
        return checkpoint(lambda t: (t * 2).sin(), x, use_reentrant=False) + 1

    g, x = compile(f), numbers(torch, 2, 2).requires_grad_()
    g(x).sum().backward()
    return [x.grad]


WRITES = [
    ("iconcat", [1, 2], ([3],)),
    ("iadd", [1], ([2],)),
    ("imul", [1], (3,)),
    ("setitem", [1, 2], (0, 5)),
    ("setitem", {"a": 1}, ("b", 5)),
    ("delitem", [1, 2], (0,)),
    ("ior", {"a": 1}, ({"b": 2},)),
    ("ior", {1}, ({2},)),
    ("iand", {1, 2}, ({2},)),
    ("ixor", {1, 2}, ({2},)),
    ("isub", {1, 2}, ({2},)),
]


@case
def functions_of_operator_that_write(torch, compile):
    found = []
    for name, value, args in WRITES:
        change, held = getattr(operator, name), copy.deepcopy(value)

        def f(held, x, change=change, args=args):
            return change(held, *args), x + 1

        result, x = compile(f)(held, numbers(torch, 2))
        result = list(result) if isinstance(result, set) else result
        found += [result, x, list(held.items()) if isinstance(held, dict) else list(held)]
    return found


@case
def objects_that_cannot_be_called(torch, compile):
    class Silent:
        pass

    class Callable:
        def __call__(self):
            return 1

    f = compile(lambda x, value: x * 2 if callable(value) else x + 1)
    x = numbers(torch, 2)
    return [f(x, value) for value in (Silent(), Callable(), Silent, [1], 3, abs)]


@case
def attributes_that_stay(torch, compile):
    class Stubborn:
        def __init__(self):
            self.a, self.tried = 1, 0

        def __delattr__(self, name):
            self.tried += 1

    def f(x):
        made = Stubborn()
        del made.a
        return x + 1, hasattr(made, "a"), made.tried

    return [compile(f)(numbers(torch, 2))]


@case
def decorators_made_inside(torch, compile):
    def f(x):
        def scaled(function):
            @functools.wraps(function)
            def inner(*args, **kwargs):
                return function(*args, **kwargs) * 2

            return inner

        @scaled
        @scaled
        def double(t):
            return t + 1

        return double(x), double.__name__

    return [compile(f)(numbers(torch, 2))]
