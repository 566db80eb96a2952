"""Whole steps of training are one native call with the bits of plain steps, whatever changes."""

import copy

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._layout import worked_out
from flambeau.compiler import stepping

F = nn.functional
clip = nn.utils.clip_grad_norm_


@pytest.fixture
def slow_calls(monkeypatch):
    """Grows by one with each step that is not like the latest one on tape."""
    found = []
    plain = stepping._Step._otherwise

    def noted(self, inputs):
        found.append(self)
        return plain(self, inputs)

    monkeypatch.setattr(stepping._Step, "_otherwise", noted)
    return found


class Net(nn.Module):
    """Layers, statistics, random numbers, and a parameter of its own."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(6, 9), nn.BatchNorm1d(9)
        self.last = nn.Linear(9, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        hidden = F.dropout(torch.relu(self.norm(self.first(x))), 0.2, self.training)
        return self.last(hidden) * self.scale


class Run:
    """A model, its optimizer and what a step of them is."""

    def __init__(self, make, form, is_compiled, late=False):
        torch._dynamo.reset()
        torch.manual_seed(5)
        self.model = Net()
        self.late = late
        held = [p for n, p in self.model.named_parameters() if not late or n != "scale"]
        self.optimizer = make(held)
        self.handles = []
        step = form(self.model, self.optimizer)
        self.step = torch.compile(step) if is_compiled else step

    def trained(self, steps, event=None, batch=8):
        """Everything that can be seen after some steps; event(run, k) comes before each."""
        seen = []
        for k in range(steps):
            if event is not None:
                event(self, k)
            count = batch(k) if callable(batch) else batch
            outs = self.step(torch.randn(count, 6), torch.randint(4, (count,)))
            outs = outs if isinstance(outs, tuple) else (outs,)
            seen += [o.detach().clone() for o in outs]
            seen += [bool(o.requires_grad) for o in outs]
            for p in self.model.parameters():
                seen.append(None if p.grad is None else p.grad.clone())
                seen.append(p.detach().clone())
        seen += [copy.deepcopy(v) for v in self.model.state_dict().values()]
        state = self.optimizer.state_dict()
        return seen, state["state"], state["param_groups"]


def assert_same(a, b):
    if isinstance(a, torch.Tensor):
        assert isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        for left, right in zip(a, b, strict=True):
            assert_same(left, right)
    else:
        assert a == b


def both(make, form, steps, event=None, batch=8, late=False):
    plain = Run(make, form, False, late).trained(steps, event, batch)
    found = Run(make, form, True, late)
    assert_same(plain, found.trained(steps, event, batch))


# -- forms of steps --------------------------------------------------------------------------------


def usual(model, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def with_scores(model, optimizer):
    def step(x, y):
        model.zero_grad()
        scores = model(x)
        loss = F.cross_entropy(scores, y)
        loss.backward()
        optimizer.step()
        return scores, loss.detach(), loss

    return step


def forgotten_after(model, optimizer):
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def filled_before(model, optimizer):
    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def filled_after(model, optimizer):
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return loss

    return step


def never_forgotten(model, optimizer):
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def clipped(model, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        norm = clip(model.parameters(), 0.5)
        optimizer.step()
        return loss, norm

    return step


def clipped_largely(model, optimizer):
    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        norm = clip(model.parameters(), 0.01 if y[0] > 9 else 1e4, norm_type=float("inf"))
        optimizer.step()
        return norm, loss

    return step


def clipped_and_checked(model, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        clip(list(model.parameters()), 0.5, error_if_nonfinite=True)
        optimizer.step()
        return loss

    return step


def no_step(model, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    return step


TAPED = [usual, with_scores, forgotten_after, filled_before, filled_after, never_forgotten, clipped]
TAPED += [no_step]
FORMS = [*TAPED, clipped_largely, clipped_and_checked]
optim = torch.optim
OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, 0.1),
    "momentum": lambda p: optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: optim.SGD(p, 1e-3, momentum=0.9, nesterov=True, maximize=True),
    "adam": lambda p: optim.Adam(p, 0.01),
    "amsgrad": lambda p: optim.Adam(p, 0.01, amsgrad=True, weight_decay=0.1),
    "adamw": lambda p: optim.AdamW(p, 0.01),
    "rmsprop": lambda p: optim.RMSprop(p, 0.01),
    "centered": lambda p: optim.RMSprop(p, 0.01, centered=True, momentum=0.9),
    "adagrad": lambda p: optim.Adagrad(p, 0.05, lr_decay=0.1),
    "adadelta": lambda p: optim.Adadelta(p),
    "adamax": lambda p: optim.Adamax(p),
    "nadam": lambda p: optim.NAdam(p),
    "radam": lambda p: optim.RAdam(p),
    "asgd": lambda p: optim.ASGD(p, 0.05, t0=3),
    "rprop": lambda p: optim.Rprop(p),
    "tensor rate": lambda p: optim.Adam(p, torch.tensor(0.02)),
    "groups": lambda p: optim.AdamW([{"params": p[:3], "lr": 0.1}, {"params": p[3:]}], 0.01),
    "adafactor": lambda p: optim.Adafactor(p),  # whose updates are no rules
    "foreach": lambda p: optim.Adam(p, 1e-3, foreach=True, maximize=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fifty_steps_are_the_same(name, slow_calls):
    both(OPTIMIZERS[name], usual, 50)
    if name == "adafactor":
        assert len(slow_calls) == 50
    else:  # the first two, where the rule changes, and where a layout was forgotten meanwhile
        assert len(slow_calls) <= 3 + (name in ("radam", "asgd"))


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_forms_of_steps_are_the_same(form, slow_calls):
    both(OPTIMIZERS["adamw"], form, 12)
    if form in TAPED:
        assert len(slow_calls) <= 4


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_forms_with_all_optimizers_are_the_same(name, form):
    both(OPTIMIZERS[name], form, 10)


# -- what changes between steps --------------------------------------------------------------------


def rate(run, k):
    if k in (7, 8, 15):
        run.optimizer.param_groups[0]["lr"] = 0.3 / k


def schedule(run, k):
    if k == 0:
        run.schedule = optim.lr_scheduler.StepLR(run.optimizer, 3)
    else:
        run.schedule.step()


def loaded(run, k):
    if k == 6:
        run.saved = copy.deepcopy(run.optimizer.state_dict())
    if k == 12:
        run.optimizer.load_state_dict(run.saved)


def emptied(run, k):
    if k == 9:
        run.optimizer.state.clear()


def frozen(run, k):
    if k in (8, 14):
        run.model.last.weight.requires_grad_(k == 14)


def frozen_with_gradient(run, k):
    """Its last gradient stays, and momentum goes on."""
    if k == 8:
        run.model.scale.requires_grad_(False)
    if k == 9:
        run.model.scale.grad = torch.ones(4)


def extra_group(run, k):
    if k == 10:
        run.optimizer.add_param_group({"params": [run.model.scale], "lr": 0.2})


def options(run, k):
    group = run.optimizer.param_groups[0]
    if k == 6:
        group["weight_decay"] = 0.2
    if k == 12:
        group["weight_decay"] = 0
        group["maximize"] = True


def momentum(run, k):
    if k in (6, 12) and "momentum" in run.optimizer.param_groups[0]:
        run.optimizer.param_groups[0]["momentum"] = 0 if k == 6 else 0.8


def counted(run, k):
    """Counts that are not those of the others."""
    for n, state in enumerate(run.optimizer.state.values()):
        if k == 8 and "step" in state and n < 2:
            state["step"].fill_(100)
        if k == 12 and "step" in state and n < 2:
            state["step"].data.mul_(0.5)


def _halved(optimizer, *_):
    for p in optimizer.param_groups[0]["params"]:
        if p.grad is not None:
            p.grad.mul_(0.5)


def step_hook(run, k):
    if k == 7:
        run.handles.append(run.optimizer.register_step_pre_hook(_halved))
    if k == 12:
        run.handles.pop().remove()


def gradient_hook(run, k):
    if k == 7:
        run.handles.append(run.model.first.weight.register_hook(lambda g: g * 2))
    if k == 12:
        run.handles.pop().remove()


def accumulate_hook(run, k):
    if k == 7:
        hook = run.model.first.bias.register_post_accumulate_grad_hook
        run.handles.append(hook(lambda p: p.grad.neg_()))
    if k == 12:
        run.handles.pop().remove()


def gradient_before(run, k):
    if k in (5, 11):
        run.model.first.bias.grad = torch.full((9,), 2.0)


def other_data(run, k):
    if k in (5, 6, 13):
        run.model.last.weight.data = run.model.last.weight.data * 0.5


def other_parameter(run, k):
    """The optimizer goes on with the old one."""
    if k == 8:
        run.model.scale = nn.Parameter(torch.full((4,), 2.0))


def evaluated(run, k):
    run.model.train(k % 5 != 3)


def transposed_state(run, k):
    """State whose memory has another order than its parameter's."""
    if k == 8:
        for state in run.optimizer.state.values():
            for name, value in state.items():
                if value.dim() == 2:
                    state[name] = value.t().contiguous().t()


def shared_state(run, k):
    if k == 8:
        run.other = copy.deepcopy(run.optimizer)
        for p, q in zip(run.optimizer.state, run.other.state):
            run.optimizer.state[p] = run.other.state[q]


EVENTS = [rate, schedule, loaded, emptied, frozen, frozen_with_gradient, extra_group, options]
EVENTS += [momentum, counted, step_hook, gradient_hook, accumulate_hook, gradient_before]
EVENTS += [other_data, other_parameter, evaluated, transposed_state, shared_state]
QUICK = {rate: "adam", schedule: "sgd", loaded: "adam", frozen: "momentum", extra_group: "adam"}
QUICK |= {options: "rmsprop", step_hook: "sgd", emptied: "momentum", counted: "adamw"}
QUICK |= {other_data: "adagrad", gradient_before: "sgd"}


@pytest.mark.parametrize("event", QUICK, ids=lambda f: f.__name__)
def test_changes_between_steps_are_noticed(event):
    both(OPTIMIZERS[QUICK[event]], usual, 18, event, late=event is extra_group)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", ["momentum", "adam", "groups"])
@pytest.mark.parametrize("event", EVENTS, ids=lambda f: f.__name__)
def test_all_changes_are_noticed(event, name, form):
    if event is schedule and form is no_step:
        pytest.skip("schedulers warn where nobody steps")
    both(OPTIMIZERS[name], form, 18, event, late=event is extra_group)


@pytest.mark.parametrize("form", [never_forgotten, clipped], ids=lambda f: f.__name__)
def test_gradients_of_others_are_not_taken_for_ours(form):
    both(OPTIMIZERS["momentum"], form, 14, other_parameter)


@pytest.mark.parametrize("form", [usual, clipped], ids=lambda f: f.__name__)
def test_batches_of_changing_size_are_the_same(form):
    both(OPTIMIZERS["adam"], form, 20, batch=lambda k: 4 + k % 3)


# -- corners ---------------------------------------------------------------------------------------


def ready(form=usual, name="sgd"):
    run = Run(OPTIMIZERS[name], form, True)
    run.trained(4)
    return run


def test_a_bad_class_is_told_and_changes_nothing(slow_calls):
    run = ready()
    before = [p.detach().clone() for p in run.model.parameters()]
    with pytest.raises(IndexError, match="out of bounds"):
        run.step(torch.randn(8, 6), torch.full((8,), 7))
    for p, old in zip(run.model.parameters(), before):
        assert p.grad is None and torch.equal(p, old)
    count = len(slow_calls)
    run.trained(2)
    assert len(slow_calls) <= count + 1


def test_results_cannot_be_gone_back_through_again():
    run = ready(with_scores)
    scores, detached, loss = run.step(torch.randn(8, 6), torch.randint(4, (8,)))
    assert loss.requires_grad and scores.requires_grad and not detached.requires_grad
    for result in (loss, scores.sum()):
        with pytest.raises(RuntimeError, match="second time"):
            result.backward()


def test_a_result_with_a_history_of_its_own_keeps_it():
    w, v = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    optimizer = optim.SGD([w], 0.1)

    @torch.compile
    def step(x):
        optimizer.zero_grad()
        other = (v * x).exp().sum()
        loss = (w * x).sin().sum()
        loss.backward()
        optimizer.step()
        return loss, other

    for _ in range(4):
        v.grad = None
        _, other = step(torch.ones(3))
        other.backward()
        assert torch.equal(v.grad, torch.full((3,), 1.0).exp())


def test_an_infinite_result_beside_the_loss_does_no_harm():
    w = nn.Parameter(torch.ones(3))
    optimizer = optim.SGD([w], 0.1)

    @torch.compile
    def step(x):
        optimizer.zero_grad()
        scores = w * x
        loss = scores.clamp(max=2).sum()
        loss.backward()
        optimizer.step()
        return loss, scores.exp()

    for _ in range(5):
        step(torch.tensor([1.0, 2.0, 1000.0]))
    assert torch.isfinite(w).all()


def test_two_optimizers_in_one_step(slow_calls):
    def form(model, first):
        second = optim.Adam([model.scale], 0.1)
        second.param_groups[0]["weight_decay"] = 0.1

        def step(x, y):
            first.zero_grad()
            second.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            first.step()
            second.step()
            return loss

        return step

    both(OPTIMIZERS["momentum"], form, 12, late=True)
    assert len(slow_calls) <= 3


def test_copies_behind_a_step_are_made_behind_it():
    w = nn.Parameter(torch.ones(2, 3))
    optimizer = optim.SGD([w], 0.5)

    @torch.compile
    def step():
        optimizer.zero_grad()
        turned = w.t()
        loss = turned.sum()
        loss.backward()
        optimizer.step()
        return turned.detach().clone(), loss.detach().clone()

    for k in range(5):
        turned, loss = step()
        assert turned.tolist() == [[0.5 - k / 2] * 2] * 3 and loss.item() == 6 - 3 * k


def test_old_gradients_are_not_written_to():
    """What somebody kept of the step before is his."""
    run = ready()
    kept = [(p.grad, p.grad.clone()) for p in run.model.parameters()]
    run.trained(1)
    assert all(torch.equal(grad, copied) for grad, copied in kept)


def test_half_types_are_the_same():
    def form(model, optimizer):
        model.to(torch.bfloat16)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x.to(torch.bfloat16)), y)
            loss.backward()
            norm = clip(model.parameters(), 0.3)
            optimizer.step()
            return loss, norm

        return step

    both(OPTIMIZERS["adam"], form, 15)


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam", "nadam", "asgd", "adafactor"])
def test_a_compiled_step_of_an_optimizer_is_the_same(name):
    def event(run, k):
        rate(run, k)
        loaded(run, k)
        frozen(run, k)

    def form(model, optimizer, way=torch.compile):
        update = way(optimizer.step)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            update()
            return loss

        return step

    plain = Run(OPTIMIZERS[name], lambda *given: form(*given, lambda f: f), False)
    assert_same(plain.trained(15, event), Run(OPTIMIZERS[name], form, False).trained(15, event))


def test_a_compiled_step_takes_closures():
    w = nn.Parameter(torch.ones(2))
    optimizer = optim.SGD([w], 0.5)
    update = torch.compile(optimizer.step)

    def closure():
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    for expected in (2.0, 0.0, 0.0):
        assert update(closure).item() == expected


def test_scaled_losses_are_the_same():
    def form(model, optimizer):
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss

        return step

    both(OPTIMIZERS["adam"], form, 8)


def test_layouts_that_state_the_same_facts_are_the_same(slow_calls):
    """Of layouts that were forgotten while somebody held them there may be two."""
    model = Net()
    for p in model.parameters():
        known = p._layout
        p._layout = worked_out((known.shape, known.strides, known.dtype, known.device))
    optimizer = torch.optim.Adam(model.parameters())
    step = usual(model, optimizer)
    run = torch.compile(step)
    for _ in range(12):
        run(torch.randn(8, 6), torch.randint(3, (8,)))
    assert len(slow_calls) <= 3
