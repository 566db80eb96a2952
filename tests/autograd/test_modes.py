"""no_grad, enable_grad, set_grad_enabled and inference_mode in every form, and per thread."""

import threading

import pytest

import flambeau
from tests.autograd.behaviour import Cases, attempt, name_of

cases = Cases("modes")


def _t(torch, data, grad=True, dtype=None):
    return torch.tensor(data, dtype=dtype or torch.float32, requires_grad=grad)


@cases
def contexts(torch):
    on = torch.is_grad_enabled
    found = [on()]
    with torch.no_grad():
        found.append(on())
        with torch.enable_grad():
            found.append(on())
            with torch.no_grad():
                found.append(on())
            found.append(on())
        found.append(on())
        with torch.set_grad_enabled(True):
            found.append(on())
        found.append(on())
    found.append(on())
    try:
        with torch.no_grad():
            raise ValueError
    except ValueError:
        found.append(on())
    mode = torch.no_grad()
    with mode:
        with mode:
            found.append(on())
        found.append(on())
    return [*found, on()]


@cases
def decorators(torch):
    on = torch.is_grad_enabled

    @torch.no_grad()
    def off():
        "Docs."
        return on()

    @torch.no_grad
    def off_bare():
        return on()

    @torch.enable_grad()
    def back():
        return on()

    @torch.set_grad_enabled(False)
    def setting():
        return on()

    found = [off(), off_bare(), setting(), on(), off.__name__, off.__doc__]
    with torch.no_grad():
        found += [back(), on(), setting(), on()]

    @torch.no_grad()
    def recurse(n):
        with torch.enable_grad():
            return [on()] + (recurse(n - 1) if n else [])

    class Thing:
        @torch.no_grad()
        def method(self, x):
            return (x * 2).requires_grad, on()

        @staticmethod
        @torch.inference_mode()
        def static():
            return on(), torch.is_inference_mode_enabled()

    found += [recurse(2), Thing().method(_t(torch, 1.0)), Thing.static(), on()]
    return found


@cases
def generators(torch):
    on = torch.is_grad_enabled

    @torch.no_grad()
    def steps():
        got = yield on()
        try:
            yield (on(), got)
        except KeyError:
            yield ("caught", on())
        finally:
            found.append(("closing", on()))
        return "end"

    found = []
    g = steps()
    found.append(next(g))
    found.append(on())
    found.append(g.send(5))
    found.append(on())
    found.append(g.throw(KeyError()))
    found.append(on())
    found.append(attempt(next, g))
    h = steps()
    next(h)
    next(h)
    h.close()
    return [*found, on(), list(steps())]


@cases
def calls(torch):
    on = torch.is_grad_enabled
    found = []
    torch.set_grad_enabled(False)
    found.append(on())
    torch.set_grad_enabled(True)
    found.append(on())
    mode = torch.set_grad_enabled(False)
    found.append(on())
    with mode:
        found.append(on())
    found.append(on())
    torch.set_grad_enabled(mode=True)
    found.append(on())
    torch.set_grad_enabled(True)
    found.append(attempt(torch.set_grad_enabled, 3).split(":")[0])
    return [*found, on()]


@cases
def what_is_recorded(torch):
    a = _t(torch, [1.0, 2.0])
    with torch.no_grad():
        b = a * 2
        v = a[0]
        c = a.detach()
        d = torch.ones(2, requires_grad=True)
        e = a.clone()
        f = a.view(2, 1)
        with torch.enable_grad():
            g = a * b
    return [[t.requires_grad, t.is_leaf, name_of(t.grad_fn)] for t in (b, v, c, d, e, f, g)]


@cases
def threads(torch):
    """A thread starts with recording on and does not disturb the others."""
    found = []

    def work():
        found.append(torch.is_grad_enabled())
        torch.set_grad_enabled(False)
        found.append(torch.is_grad_enabled())

    with torch.no_grad():
        t = threading.Thread(target=work)
        t.start()
        t.join()
        found.append(torch.is_grad_enabled())
    return [*found, torch.is_grad_enabled()]


@cases
def inference_contexts(torch):
    state = lambda: (torch.is_grad_enabled(), torch.is_inference_mode_enabled())
    found = [state()]
    with torch.inference_mode():
        found.append(state())
        with torch.enable_grad():
            found.append(state())
        with torch.inference_mode(False):
            found.append(state())
        with torch.inference_mode(mode=True):
            found.append(state())
        with torch.no_grad():
            found.append(state())
    found.append(state())
    with torch.no_grad(), torch.inference_mode(False):
        found.append(state())

    @torch.inference_mode()
    def f():
        return state()

    @torch.inference_mode
    def g():
        return state()

    return [*found, f(), g(), state()]


@cases
def inference_outputs(torch):
    a = _t(torch, [1.0, 2.0])
    with torch.inference_mode():
        s, v, c, m = a * 2, a[0], a.clone(), torch.ones(2) * a
        found = [[t.requires_grad, t.is_leaf, name_of(t.grad_fn)] for t in (s, v, c, m)]
    return [found, a.is_inference(), s * 3, attempt(s.backward)]


@cases
def inference_values(torch):
    @torch.inference_mode()
    def predict(w, x):
        return (x @ w).relu()

    w = _t(torch, [[1.0], [2.0]])
    return predict(w, torch.tensor([[1.0, 2.0], [-3.0, 0.0]]))


@cases
def classes(torch):
    import warnings

    found = []
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")

        def decorate():
            @torch.no_grad()
            class Thing:
                def __init__(self):
                    self.on = torch.is_grad_enabled()

            return Thing().on

        found.append(attempt(decorate))
    return [found, [w.category.__name__ for w in seen]]


@cases
def modules_of_names(torch):
    m = torch.autograd.grad_mode
    return [
        m.no_grad is torch.no_grad,
        m.inference_mode is torch.inference_mode,
        m.set_grad_enabled is torch.set_grad_enabled,
        torch.autograd.no_grad is torch.no_grad,
    ]


@pytest.mark.parametrize("name", cases.names())
def test_as_recorded(name):
    cases.check(flambeau, name)


@pytest.mark.oracle
@pytest.mark.parametrize("name", cases.names())
def test_record_is_true(name):
    cases.check(pytest.importorskip("torch"), name)
