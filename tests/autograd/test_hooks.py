"""Hooks on tensors, leaves, nodes and saved values: their order and what they may return."""

import pytest

import flambeau
from tests.autograd.behaviour import Cases, attempt, name_of

cases = Cases("hooks")


def _t(torch, data, grad=True, dtype=None):
    return torch.tensor(data, dtype=dtype or torch.float32, requires_grad=grad)


@cases
def order(torch):
    """Everything that can happen on the way down, in the order it happens."""
    seen = []
    a, w = _t(torch, [1.0, 2.0]), _t(torch, [3.0, 4.0])

    def say(word):
        return lambda *args: seen.append(word)

    b = a * 2
    c = b * w
    d = c.sum()
    for name, t in dict(a=a, b=b, c=c, d=d, w=w).items():
        t.register_hook(say(f"tensor {name}"))
    for name, t in dict(b=b, c=c, d=d).items():
        t.grad_fn.register_hook(say(f"node {name}"))
        t.grad_fn.register_prehook(say(f"pre {name}"))
    for name, t in dict(a=a, w=w).items():
        t.register_post_accumulate_grad_hook(say(f"post {name}"))
        node = t.view_as(t).grad_fn.next_functions[0][0]
        node.register_hook(say(f"accumulator {name}"))
        node.register_prehook(say(f"accumulator pre {name}"))
        seen.append(node)  # keeps it alive
    kept = seen[:]
    seen.clear()
    d.backward()
    del kept
    return seen


@cases
def leaf_hooks_fire_when_complete(torch):
    """A leaf's hooks run as soon as its gradient is complete, not at the end of the pass."""
    seen = []
    ws = [_t(torch, [float(k), 1.0]) for k in range(4)]
    x = torch.ones(2)
    for k, w in enumerate(ws):
        w.register_hook(lambda g, k=k: seen.append(f"w{k}"))
        x = x * w
        x.register_hook(lambda g, k=k: seen.append(f"x{k}"))
    y = x * ws[3]
    y.register_hook(lambda g: seen.append("y"))
    (y * ws[0]).sum().backward()
    return seen


@cases
def replacing(torch):
    a = _t(torch, [1.0, 2.0])
    b = a * 2
    seen = []
    b.register_hook(lambda g: g * 10)
    b.register_hook(lambda g: seen.append(g.tolist()))
    b.register_hook(lambda g: g + 1)
    a.register_hook(lambda g: -g)
    (b * 3).sum().backward()
    return [seen, a.grad]


@cases
def bad_hooks(torch):
    def with_hook(hook, leaf=False):
        a = _t(torch, [1.0, 2.0])
        b = a * 2
        (a if leaf else b).register_hook(hook)
        b.sum().backward()
        return a.grad

    def fail(g):
        raise ValueError("no thanks")

    return [
        attempt(with_hook, lambda g: 3),
        attempt(with_hook, lambda g: 3, True),
        attempt(with_hook, lambda g: g[:1]),
        attempt(with_hook, lambda g: g.double()),
        attempt(with_hook, lambda g: g.double(), True),
        attempt(with_hook, lambda g: torch.ones(3), True),
        attempt(with_hook, fail),
        attempt(with_hook, lambda: None).split(":")[0],
        attempt(torch.ones(1).register_hook, print),
        attempt(torch.ones(1).register_post_accumulate_grad_hook, print),
        attempt((_t(torch, 1.0) * 2).register_post_accumulate_grad_hook, print),
    ]


@cases
def removing(torch):
    a = _t(torch, [1.0, 2.0])
    seen = []
    h = a.register_hook(lambda g: seen.append("once"))
    k = a.register_hook(lambda g: seen.append("stays"))
    (a * 2).sum().backward()
    h.remove()
    h.remove()
    (a * 2).sum().backward()
    with a.register_hook(lambda g: seen.append("with")):
        (a * 2).sum().backward()
    (a * 2).sum().backward()
    k.remove()
    (a * 2).sum().backward()
    return seen


@cases
def removing_itself(torch):
    a = _t(torch, [1.0, 2.0])
    seen, handles = [], []

    def hook(g):
        seen.append("self")
        handles[0].remove()

    b = a * 2
    handles.append(b.register_hook(hook))
    b.register_hook(lambda g: seen.append("next"))
    b.sum().backward(retain_graph=True)
    b.sum().backward(retain_graph=True)
    return [seen, a.grad]


@cases
def adding_while_running(torch):
    a = _t(torch, [1.0, 2.0])
    seen = []
    b = a * 2
    b.register_hook(lambda g: a.register_hook(lambda g: seen.append("late")) and None)
    (b * 3).sum().backward()
    return [seen, a.grad]


@cases
def nodes(torch):
    a, b = _t(torch, [1.0, 2.0]), _t(torch, [3.0, 4.0])
    seen = []
    c = a * b
    c.grad_fn.register_hook(lambda gi, go: seen.append([list(gi), list(go)]))
    c.grad_fn.register_hook(lambda gi, go: (gi[0] * 10, gi[1] * 100))
    c.grad_fn.register_prehook(lambda go: (go[0] * 2,))
    c.sum().backward()
    out = [seen, a.grad, b.grad]
    a.grad = b.grad = None
    c = a * b.detach()
    c.grad_fn.register_hook(lambda gi, go: seen.append([g is None for g in gi]))
    c.sum().backward()
    d = a.unbind()
    d[0].grad_fn.register_prehook(lambda go: seen.append([g is None for g in go]))
    d[1].backward()
    return [*out, a.grad, seen[1:]]


@cases
def bad_node_hooks(torch):
    def with_hook(hook, pre=False):
        a = _t(torch, [1.0, 2.0])
        b = a * 2
        (b.grad_fn.register_prehook if pre else b.grad_fn.register_hook)(hook)
        b.sum().backward()
        return a.grad

    return [
        attempt(with_hook, lambda gi, go: gi[0]),
        attempt(with_hook, lambda gi, go: (gi[0], gi[0], gi[0])),
        attempt(with_hook, lambda gi, go: 3),
        attempt(with_hook, lambda gi, go: (3, None)),
        attempt(with_hook, lambda go: go[0], True),
        attempt(with_hook, lambda go: (go[0], go[0]), True),
        attempt(with_hook, lambda go: 3, True),
    ]


@cases
def accumulators(torch):
    a = _t(torch, [1.0, 2.0])
    seen = []
    b = a * 2
    node = b.grad_fn.next_functions[0][0]
    node.register_hook(lambda gi, go: seen.append([len(gi), list(go), a.grad]))
    node.register_prehook(lambda go: (go[0] * 5,))
    b.sum().backward(retain_graph=True)
    torch.autograd.grad(b.sum(), a)
    return [seen, a.grad]


@cases
def post_accumulate(torch):
    a = _t(torch, [1.0, 2.0])
    seen = []

    def step(p):
        seen.append([p is a, p.grad.clone(), torch.is_grad_enabled()])
        with torch.no_grad():
            p -= p.grad * 0.1
        p.grad = None

    h = a.register_post_accumulate_grad_hook(step)
    (a * 3).sum().backward()
    (a * 3).sum().backward()
    torch.autograd.grad((a * 3).sum(), a)
    h.remove()
    (a * 3).sum().backward()
    return [seen, a, a.grad]


@cases
def post_accumulate_order_and_return(torch):
    a = _t(torch, [1.0, 2.0])
    seen = []
    a.register_post_accumulate_grad_hook(lambda p: seen.append(1))
    a.register_post_accumulate_grad_hook(lambda p: seen.append(2))
    a.sum().backward()
    a.register_post_accumulate_grad_hook(lambda p: 3)
    return [seen, attempt(a.sum().backward), a.grad]


@cases
def during_grad(torch):
    """autograd.grad runs hooks of the tensors it passes and of its inputs, not of accumulators."""
    a = _t(torch, [1.0, 2.0])
    seen = []
    b = a * 2
    c = b * b
    b.register_hook(lambda g: seen.append("b") or g * 10)
    a.register_hook(lambda g: seen.append("a") or g * 10)
    c.register_hook(lambda g: seen.append("c"))
    a.register_post_accumulate_grad_hook(lambda p: seen.append("post"))
    b.grad_fn.register_prehook(lambda go: seen.append("pre b"))
    out = [torch.autograd.grad(c.sum(), a, retain_graph=True), list(seen)]
    seen.clear()
    out += [torch.autograd.grad(c.sum(), b, retain_graph=True), list(seen)]
    seen.clear()
    out += [torch.autograd.grad(c.sum(), [b, a], retain_graph=True), list(seen)]
    seen.clear()
    c.sum().backward(inputs=[a], retain_graph=True)
    return [*out, list(seen), a.grad]


@cases
def on_views_and_in_place(torch):
    a = _t(torch, [1.0, 2.0])
    seen = []
    b = a * 2
    b.register_hook(lambda g: seen.append(["before", g.tolist()]))
    b.mul_(3)
    b.register_hook(lambda g: seen.append(["after", g.tolist()]))
    v = b[0]
    v.register_hook(lambda g: seen.append(["view", g.tolist()]))
    (v * b).sum().backward()
    return [seen, a.grad]


@cases
def saved_hooks(torch):
    hooks = torch.autograd.graph.saved_tensors_hooks
    seen = []

    def pack(t):
        seen.append(["pack", t.tolist(), t.requires_grad, t.is_leaf])
        return t.detach().clone().double()

    def unpack(x):
        seen.append(["unpack", x.tolist()])
        return x.float()

    a, b = _t(torch, [1.0, 2.0]), _t(torch, [3.0, 4.0])
    with hooks(pack, unpack):
        c = a * b
        d = c.exp()
        e = d + 1
    f = e * e
    f.sum().backward()
    out = [seen, a.grad, b.grad]
    seen.clear()
    with hooks(pack, unpack), hooks(lambda t: t, lambda t: seen.append("inner") or t):
        c = a * a
    c.sum().backward()
    return [*out, list(seen), a.grad]


@cases
def saved_hooks_errors(torch):
    hooks = torch.autograd.graph.saved_tensors_hooks
    a = _t(torch, [1.0, 2.0])

    def run(pack, unpack):
        with hooks(pack, unpack):
            b = (a * a).exp()
        b.sum().backward()

    def change(t):
        t.add_(1)
        return t

    def fail(t):
        raise ValueError("cannot pack")

    return [
        attempt(run, lambda t: t, lambda t: 3),
        attempt(run, fail, lambda t: t),
        attempt(run, lambda t: t, fail),
        attempt(run, change, lambda t: t),
        attempt(run, lambda t: t, lambda t: t),
        attempt(run, lambda: 0, lambda t: t).split(":")[0],
    ]


@cases
def saved_on_cpu(torch):
    a = _t(torch, [1.0, 2.0])
    with torch.autograd.graph.save_on_cpu():
        b = (a * a).exp()
    a_plain = a.detach().clone()
    b.sum().backward()
    with torch.autograd.graph.save_on_cpu(pin_memory=False):
        c = a_plain * a
    c.sum().backward()
    return a.grad


@cases
def saved_hooks_disabled(torch):
    graph = torch.autograd.graph
    a = _t(torch, [1.0, 2.0])

    def run():
        with (
            graph.disable_saved_tensors_hooks("not here"),
            graph.saved_tensors_hooks(lambda t: t, lambda t: t),
        ):
            return a * a

    return [attempt(run), a * a]


@cases
def saved_double_backward(torch):
    a = _t(torch, [1.0, 2.0])
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        b = (a * a * a).sum()
        (g,) = torch.autograd.grad(b, a, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), a)
    return [g, h]


@cases
def multi_grad(torch):
    graph = torch.autograd.graph
    a, b, c = _t(torch, [1.0, 2.0]), _t(torch, [3.0, 4.0]), _t(torch, [5.0, 6.0])
    seen = []
    h = graph.register_multi_grad_hook(
        [a, b, c], lambda gs: seen.append([None if g is None else g.tolist() for g in gs])
    )
    (a * b).sum().backward()
    (a * b * c).sum().backward()
    h.remove()
    (a * b * c).sum().backward()
    out = [list(seen)]
    seen.clear()
    h = graph.register_multi_grad_hook((a, b), lambda g: seen.append(g.tolist()), mode="any")
    (a * b).sum().backward()
    h.remove()
    return [*out, seen, attempt(graph.register_multi_grad_hook, [a], print, mode="some")]


@cases
def anomaly(torch):
    import warnings

    a = _t(torch, [0.0, -1.0])
    out = []
    for text in (
        "a.sqrt().sum()",
        "(a / a).sum()",
        "(a * torch.tensor(float('nan'))).sum()",
        "a.log().sum()",
        "torch.where(a < 0, a.sqrt(), a).sum()",
    ):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")

            def run(text=text):
                with torch.autograd.detect_anomaly():
                    y = eval(text, {"torch": torch, "a": a})
                    y.backward()

            found = attempt(run)
        words = [
            str(w.message).split(". ")[0].split("\n")[0].replace("flambeau", "torch") for w in seen
        ]
        out.append([text, found, words])
    return [
        out,
        torch.is_anomaly_enabled(),
        torch.autograd.is_anomaly_enabled()
        if hasattr(torch.autograd, "is_anomaly_enabled")
        else False,
    ]


@cases
def anomaly_of_overwritten(torch):
    import warnings

    a = _t(torch, [1.0, 2.0])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")

        def run():
            with torch.autograd.set_detect_anomaly(True):
                b = a * 2
                c = b * b
                b.add_(1)
                c.sum().backward()

        try:
            run()
        except RuntimeError as error:
            text = str(error)
    traceback = [str(w.message) for w in seen][-1]
    return [text, traceback.split("\n")[0], "c = b * b" in traceback, torch.is_anomaly_enabled()]


@cases
def anomaly_switches(torch):
    import warnings

    warnings.simplefilter("ignore")
    found = []
    with torch.autograd.detect_anomaly(check_nan=False):
        a = _t(torch, [-1.0])
        a.sqrt().sum().backward()
        found += [a.grad, torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()]
    torch.autograd.set_detect_anomaly(True)
    found.append(torch.is_anomaly_enabled())
    torch.autograd.set_detect_anomaly(False)
    found.append(torch.is_anomaly_enabled())
    with torch.autograd.set_detect_anomaly(False):
        found.append(torch.is_anomaly_enabled())
    return found


@cases
def names_of_hooked_nodes(torch):
    a = _t(torch, [1.0, 2.0])
    seen = []
    y = (a * 2).exp().sum()
    stack = [y.grad_fn]
    while stack:
        node = stack.pop()
        node.register_hook(lambda gi, go, node=node: seen.append(name_of(node)))
        stack += [f for f, _ in node.next_functions if f is not None and f.next_functions]
    y.backward()
    return seen


@pytest.mark.parametrize("name", cases.names())
def test_as_recorded(name):
    cases.check(flambeau, name)


@pytest.mark.oracle
@pytest.mark.parametrize("name", cases.names())
def test_record_is_true(name):
    cases.check(pytest.importorskip("torch"), name)


def test_hooks_may_be_set_as_a_whole():
    x = flambeau.ones(2, requires_grad=True)
    assert x._backward_hooks is None
    x._backward_hooks = {1: lambda g: g * 2}
    y = x * 3
    y._backward_hooks = {7: lambda g: g + 1}
    y.sum().backward()
    assert x.grad.tolist() == [12, 12]
    x.grad, x._backward_hooks = None, None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3, 3] and x._backward_hooks is None
