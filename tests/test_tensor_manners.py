"""Copies, orders of dimensions and conversions as programs ask for them; scalers of gradients."""

import copy

import pytest

import flambeau as torch


def test_shallow_copies_share_memory_and_attributes():
    p = torch.nn.Parameter(torch.ones(2))
    p.note = "kept"
    q = copy.copy(p)
    assert type(q) is torch.nn.Parameter and q.note == "kept" and q.requires_grad
    q.data.fill_(3)
    assert p.tolist() == [3.0, 3.0]


def test_copies_of_sparse_tensors_keep_gradients():
    s = torch.eye(3).to_sparse()
    s.grad = torch.eye(3).to_sparse()
    assert torch.equal(copy.deepcopy(s).grad.to_dense(), torch.eye(3))


class Wild:
    def __radd__(self, other):
        return 42


VALUES = (
    (lambda: torch.Size([1]) + Wild(), 42),
    (lambda: torch.empty(2, 3, 4, 5).dim_order(ambiguity_check=True), (0, 1, 2, 3)),
    (
        lambda: (
            torch.empty(2, 2, 1, 2)
            .to(memory_format=torch.channels_last)
            .dim_order(ambiguity_check=[torch.contiguous_format, torch.channels_last])
        ),
        (0, 2, 3, 1),
    ),
    (lambda: torch.ones(2).int().type(torch.Tensor).dtype, torch.float32),
    (lambda: torch.ones(1).new(size=(3, 4)).shape, (3, 4)),
    (lambda: torch.tensor([]).is_set_to(torch.tensor([])), False),
)


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_value(number):
    call, value = VALUES[number]
    assert call() == value


UNIQUE = "The tensor does not have unique dim order"
REFUSED = (
    (lambda: torch.empty(1, 1).dim_order(ambiguity_check=True), RuntimeError, UNIQUE),
    (lambda: torch.empty(2).dim_order(ambiguity_check="x"), TypeError, "The ambiguity_check"),
    (lambda: torch.ones(2).as_subclass(int), TypeError, "Creating a Tensor subclass from a class"),
    (
        lambda: torch.ones(1).map2_(torch.ones(1, requires_grad=True), torch.ones(1), max),
        RuntimeError,
        "Can't call map2_",
    ),
    (lambda: torch.Size([1]) + 3, TypeError, "can only concatenate tuple"),
)


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refused(number):
    call, kind, message = REFUSED[number]
    with pytest.raises(kind, match=message):
        call()


def test_views_beyond_memory_of_the_same_shape_are_refused():
    t = torch.ones(1)
    with pytest.raises(RuntimeError, match="are out of bounds for storage of size 4"):
        t.set_(t.untyped_storage(), 0x41414141, t.size())


def test_scale_follows_what_was_found():
    scale, tracker = torch.full((1,), 4.0), torch.zeros(1, dtype=torch.int32)
    fine, bad = torch.zeros(1), torch.ones(1)
    seen = []
    for found in fine, fine, bad:
        torch._amp_update_scale_(scale, tracker, found, 2.0, 0.25, 2)
        seen.append((scale.item(), tracker.item()))
    assert seen == [(4.0, 1), (8.0, 0), (2.0, 0)]


def test_gradients_are_unscaled_and_looked_through():
    grads, found = [torch.full((2,), 4.0), torch.tensor([torch.inf])], torch.zeros(1)
    torch._amp_foreach_non_finite_check_and_unscale_(grads, found, torch.tensor(0.25))
    assert grads[0].tolist() == [1.0, 1.0] and found.item() == 1.0


class Own(torch.optim.SGD):
    """Unscales by itself."""

    _step_supports_amp_scaling = True

    def step(self, closure=None):
        self.told = self.grad_scale.item(), self.found_inf.item()


def test_optimizers_that_unscale_are_told_the_scale():
    layer = torch.nn.Linear(2, 1)
    optimizer, scaler = Own(layer.parameters(), 1.0), torch.amp.GradScaler("cpu", init_scale=2.0)
    scaler.scale(layer(torch.ones(1, 2)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert optimizer.told == (2.0, 0.0) and not hasattr(optimizer, "grad_scale")
    assert layer.bias.grad.item() == 2.0


def test_warn_only_stays_as_it_was_told():
    torch.use_deterministic_algorithms(False, warn_only=True)
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
