"""Inference tensors: what is one, what is refused to them, and in which words.

Each line of EXPRESSIONS is evaluated under PyTorch and under flambeau. `made()` is a 2 x 2 tensor
of inference mode, `inside(f)` is what f gives there, `n` an ordinary tensor, `w` a leaf that
requires gradients; what comes of a line is told with its flags.
"""

import copy
import pickle
import threading

import numpy as np
import pytest

import flambeau
from tests.autograd.behaviour import Cases, agree, attempt, outcome

EXPRESSIONS = {
    "flags": """
        made()
        torch.is_inference(made())
        inside(lambda: n * w)
        inside(lambda: torch.ones(2, requires_grad=True))
        inside(lambda: torch.ones(2).requires_grad_())
        inside(lambda: torch.from_numpy(np.ones(2)))
        inside(lambda: copy.deepcopy(n))
        inside(lambda: torch.stack([n, n]))
        inside(lambda: torch.eye(2).to_sparse().is_inference())
        inside(lambda: torch.nn.Parameter(torch.ones(2)))
        inside(lambda: torch.nn.Parameter(n))
        inside(lambda: torch.nn.Linear(2, 2)).weight.is_inference()
        inside(lambda: torch.inference_mode(False)(lambda: torch.ones(2))())
        inside(lambda: torch.inference_mode(False)(lambda: w * 2)())
        inside(lambda: torch.vmap(lambda a: a * 2)(torch.ones(2)))
        made() * n
        made().sum()
        made().clone()
        made().double()
        made().float()
        made().contiguous()
        torch.tensor(made())
        torch.as_tensor(made())
        made().new_zeros(1)
        copy.deepcopy(made())
        pickle.loads(pickle.dumps(made()))
        (made() == n).is_inference()
        torch.empty_like(made()).is_inference()
        repr(made())
    """,
    "versions": """
        made()._version
        inside(lambda: torch.ones(2)._version)
        inside(lambda: n.add_(1))._version
        inside(lambda: n.mul_(n).add_(1))._version
        torch.autograd.graph.increment_version(made())
    """,
    "writes": """
        made().add_(1)
        made().mul_(n)
        made().zero_()
        made().fill_(2)
        made().copy_(n)
        made().__setitem__(0, 5)
        made().__setitem__(slice(None), n)
        made()[0].add_(1)
        torch.add(n, n, out=made())
        torch.mm(torch.ones(2, 2), torch.ones(2, 2), out=made())
        made().uniform_(3, 3)
        made().normal_(0, 1)
        made().relu_()
        made().clamp_(0, 1)
        made().index_fill_(0, torch.tensor([0]), 3.0)
        made().scatter_(0, torch.tensor([[0]]), 3.0)
        made().masked_fill_(torch.tensor([True, False]), 3.0)
        made().t_()
        made().transpose_(0, 1)
        made().squeeze_()
        made().unsqueeze_(0)
        made().as_strided_((2,), (1,))
        made().resize_(4)
        made().set_()
        made().detach_()
        torch._foreach_add_([made()], 1.0)
        torch.nn.functional.dropout(made(), 0.5, inplace=True)
        torch.nn.init.ones_(made())
        inside(lambda: torch.nn.BatchNorm1d(2))(torch.ones(2, 2))
        inside(lambda: torch.nn.BatchNorm1d(2)(torch.ones(2, 2)))
        inside(lambda: made().add_(1))
        inside(lambda: n.add_(1))
        inside(lambda: w.add_(1))
        inside(lambda: torch.add(n, n, out=w))
        inside(lambda: n[0].add_(1))
        written(lambda a: a.add_(1))
        written(lambda a: a.__setitem__(0, 7))
        inside(lambda: w.detach_())
        inside(lambda: setattr(w, "requires_grad", False))
        inside(lambda: n.set_(n))
        n.set_(made()[0])
        n.copy_(made()[0])
        w.clone().mul_(made()[0])
        w.clone().copy_(made()[0])
        (w * 1).masked_fill_(index() > 0, 1.0)
        (w * 1).__setitem__(index(), 1.0)
        torch.cat([n, n], out=inside(lambda: torch.ones(4)))
        torch.sum(torch.ones(2, 2), 0, out=inside(lambda: torch.ones(2)))
    """,
    "views": """
        made().view(-1)
        made()[0]
        made().t()
        made().expand(3, 2, 2)
        made().split(1)[0]
        made().unbind()[0]
        made().detach()
        made().data
        torch.view_as_real(inside(lambda: torch.ones(2, dtype=torch.complex64)))
        made().view(-1)._is_view()
        made().view(-1)._base
        inside(lambda: n.view(-1)._is_view())
        inside(lambda: n.view(-1))
        inside(lambda: n.view(-1)).add_(1)
        inside(lambda: n.detach())
        inside(lambda: n.data)
        inside(lambda: n.split(1)[0])
        inside(lambda: n.reshape(1, 2))
        inside(lambda: torch.broadcast_tensors(n, torch.ones(2, 2))[0])
        inside(lambda: w.view(-1))
        inside(lambda: w[0])
        inside(lambda: w.detach())
        inside(lambda: w.view(-1)) * 2
        inside(lambda: w.view(-1)).add_(0)
        inside(lambda: w.view(-1)).view(2).add_(1)
        inside(lambda: n.view(-1)).view(2).add_(1)
        inside(lambda: n.view(-1)).mul_(w)
        torch.no_grad()(lambda: w.view(-1))().view(2).add_(1)
        inside(lambda: w.data).add_(1)
    """,
    "recording": """
        made() * w
        w * made()
        made() + w
        made() @ w
        torch.cat([made(), torch.ones(2, 2, requires_grad=True)])
        torch.nn.functional.linear(made(), torch.ones(2, 2, requires_grad=True))
        torch.nn.functional.conv1d(made()[None], torch.ones(2, 2, 1, requires_grad=True))
        torch.nn.functional.mse_loss(w, made()[0])
        torch.nn.functional.l1_loss(w, made()[0])
        torch.nn.functional.smooth_l1_loss(w, made()[0])
        torch.nn.functional.binary_cross_entropy(torch.sigmoid(w), made()[0])
        torch.nn.functional.linear(n, inside(lambda: torch.nn.Parameter(torch.ones(2, 2))), w)
        torch.nn.functional.linear(w, inside(lambda: torch.nn.Parameter(torch.ones(2, 2))))
        w.scatter_add(0, index(), made()[0])
        n.scatter_add(0, index(), w)
        w.index_add(0, index(), made()[0])
        n.index_add(0, index(), w)
        w.index_copy(0, index(), made()[0])
        w.masked_fill(index() > 0, 0.0)
        torch.addmm(made(), torch.ones(2, 2), torch.ones(2, 2, requires_grad=True))
        torch.lerp(w, made()[0], 0.5)
        torch.outer(w, made()[0])
        torch.nn.functional.embedding(index(), torch.ones(2, 2, requires_grad=True))
        torch.nn.functional.cross_entropy(torch.ones(2, 2, requires_grad=True), index())
        w[index()]
        w[index() > 0]
        w.gather(0, index())
        torch.where(index() > 0, w, n)
        inside(lambda: torch.ones(2).requires_grad_()) * 2
        inside(lambda: torch.nn.Parameter(torch.ones(2))) * 2
        inside(lambda: torch.enable_grad()(lambda: (w * 2, torch.is_grad_enabled()))())
        inside(lambda: (w * 2).sum().backward())
        (lambda total: inside(lambda: total.backward()))((w * 2).sum()), w.grad
        (w * 2).backward(made()[0]), w.grad
        made().sum().backward()
        made().retain_grad()
        made().requires_grad_()
        made().requires_grad_(False)
        setattr(made(), "requires_grad", True)
        torch.nn.Parameter(made())
        torch.nn.Parameter(made(), requires_grad=False)
        setattr(w, "grad", made()[0])
        torch.func.grad(lambda a: (a * a).sum())(made())
        inside(lambda: torch.func.grad(lambda a: a * a)(torch.tensor(2.0))).item()
    """,
}
cases = Cases("inference")


class Flagged:
    """What came of a line, with the flags of tensors in it."""

    def __init__(self, torch):
        self.torch = torch

    def told(self, value):
        if isinstance(value, tuple):
            return [self.told(item) for item in value]
        if not isinstance(value, self.torch.Tensor):
            return value
        flags = ["inference" if value.is_inference() else "ordinary"]
        flags += [name for name in ("requires_grad", "is_leaf") if getattr(value, name)]
        return [" ".join(flags), value]

    def evaluate(self, line):
        torch = self.torch

        def inside(function):
            with torch.inference_mode():
                return function()

        def made():
            return inside(lambda: torch.ones(2, 2))

        def written(write):
            a = made()
            with pytest.raises(RuntimeError, match="Inplace update"):
                write(a)
            return a

        names = {"torch": torch, "inside": inside, "made": made, "written": written}
        names |= {"copy": copy, "pickle": pickle, "np": np}
        names |= {"n": torch.ones(2), "w": torch.ones(2, requires_grad=True)}
        names["index"] = lambda: inside(lambda: torch.tensor([0, 1]))
        return attempt(lambda: self.told(eval(line, names)))


def _lines(topic):
    return [line.strip() for line in EXPRESSIONS[topic].strip().splitlines()]


for _topic in EXPRESSIONS:
    cases.found[_topic] = lambda torch, topic=_topic: {
        line: Flagged(torch).evaluate(line) for line in _lines(topic)
    }


def test_lines_do_as_recorded():
    wrong = []
    for topic in cases.names():
        recorded = cases.recorded(topic)
        for line, found in outcome(flambeau, cases.found[topic]).items():
            if not agree(found, recorded[line]):
                wrong.append(f"{line}\n  found    {found}\n  recorded {recorded[line]}")
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.oracle
@pytest.mark.parametrize("name", cases.names())
def test_record_is_true(name):
    cases.check(pytest.importorskip("torch"), name)


def test_other_threads_are_not_in_inference_mode():
    """Memory says whose it is, even while another thread is inside."""
    entered, done, found = threading.Event(), threading.Event(), []

    def work():
        with flambeau.inference_mode():
            entered.set()
            done.wait(10)
            found.append((flambeau.ones(2) * 2).is_inference())

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(10)
    a = flambeau.ones(2, requires_grad=True)
    here = (a * 3).is_inference(), (a * 3).requires_grad, flambeau.zeros(2)._version
    done.set()
    thread.join()
    assert here == (False, True, 0) and found == [True]


def test_modes_nest():
    with flambeau.inference_mode():
        with flambeau.inference_mode(False):
            assert not (flambeau.ones(2) + 1).is_inference()
        assert (flambeau.ones(2) + 1).is_inference()
    assert not (flambeau.ones(2) + 1).is_inference()
