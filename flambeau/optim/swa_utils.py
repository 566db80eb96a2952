"""`torch.optim.swa_utils`: averages of models along training, and what belongs to them.

AveragedModel keeps a mean of the parameters of another model: of all values alike (stochastic
weight averaging) or of the latest more than of old ones (exponential moving average). The mean of
all parameters of a dtype takes one native call (eager/updating.py).
"""

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any, Literal

from flambeau import _device
from flambeau._dtype import int64
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import no_grad
from flambeau.eager import creation
from flambeau.eager.updating import update
from flambeau.nn.modules.batchnorm import _BatchNorm
from flambeau.nn.modules.module import Module
from flambeau.optim.lr_scheduler.scheduler import LRScheduler, per_group
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.ruled import number

__all__ = [
    "AveragedModel",
    "update_bn",
    "SWALR",
    "get_ema_multi_avg_fn",
    "get_swa_multi_avg_fn",
    "get_ema_avg_fn",
    "get_swa_avg_fn",
]

_Tensors = tuple[Tensor, ...] | list[Tensor]


# -- means ----------------------------------------------------------------------------------------


def _check_decay(decay):
    if not 0.0 <= decay <= 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def _is_native(t):
    return t.device.runtime.computes and (t.is_floating_point() or t.is_complex())


def _bundles(averaged, current):
    """Lists that one native call can take: same dtypes on either side."""
    found: dict = {}
    for a, b in zip(averaged, current, strict=True):
        native = _is_native(a) and _is_native(b) and a.is_complex() == b.is_complex()
        pair = found.setdefault((native, a.dtype, b.dtype), ([], []))
        pair[0].append(a)
        pair[1].append(b)
    return [(key[0], *pair) for key, pair in found.items()]


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[_Tensors, _Tensors, Any], None]:
    """Exponential moving averages in place: decay * old + (1 - decay) * new, for lists."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param_list: _Tensors, current_param_list: _Tensors, _: Any) -> None:
        for native, old, new in _bundles(ema_param_list, current_param_list):
            if native:
                update("averaged", [old, new], [1 - decay])
            else:
                for a, b in zip(old, new):
                    a.copy_(a * decay + b * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[[_Tensors, _Tensors, Any], None]:
    """Means of all values in place: old + (new - old) / (num_averaged + 1), for lists."""

    @no_grad()
    def swa_update(
        averaged_param_list: _Tensors, current_param_list: _Tensors, num_averaged: Tensor | int
    ) -> None:
        for native, old, new in _bundles(averaged_param_list, current_param_list):
            if native:
                update("averaged_evenly", [old, new], [float(number(num_averaged)) + 1])
            else:
                for a, b in zip(old, new):
                    a.addcdiv_(b - a, creation.tensor(number(num_averaged) + 1, dtype=a.dtype))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Tensor, Tensor, Any], Tensor]:
    """The exponential moving average of one tensor, as a new one."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[[Tensor, Tensor, Any], Tensor]:
    """The mean of one tensor, as a new one."""

    @no_grad()
    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


# -- models ---------------------------------------------------------------------------------------


class AveragedModel(Module):
    """A copy of a model whose parameters are means of those of the model.

    Args:
        avg_fn: avg_fn(mean, value, count) gives a new mean, for one tensor.
        multi_avg_fn: changes lists of means in place.
        use_buffers: take means of buffers too; otherwise they are copied.

    Example:
        ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
        ...  # after every step of the optimizer:
        ema.update_parameters(model)
    """

    n_averaged: Any

    def __init__(
        self,
        model: Module,
        device: int | _device.device | None = None,
        avg_fn: Callable[[Tensor, Tensor, Tensor | int], Tensor] | None = None,
        multi_avg_fn: Callable[[_Tensors, _Tensors, Tensor | int], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        if not (avg_fn is None or multi_avg_fn is None):
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        super().__init__()
        twin = deepcopy(model)
        self.module = twin if device is None else twin.to(device)
        self.register_buffer("n_averaged", creation.zeros((), dtype=int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take in the parameters of the model as they are now."""
        mine, theirs = self._tensors(self.module), self._tensors(model)
        pairs = [(a.detach(), b.detach().to(a.device)) for a, b in zip(mine, theirs)]
        if self.n_averaged == 0:
            for mean, value in pairs:
                mean.copy_(value)
        elif self.avg_fn is not None:
            for mean, value in pairs:
                mean.copy_(self.avg_fn(mean, value, self.n_averaged.to(mean.device)))
        else:
            self._average(pairs)
        if not self.use_buffers:
            own: Any = self.module.buffers()
            for mean, value in zip(own, model.buffers(), strict=True):
                mean.detach().copy_(value)
        self.n_averaged += 1

    def _tensors(self, model):
        if self.use_buffers:
            return chain(model.parameters(), model.buffers())
        return model.parameters()

    def _average(self, pairs):
        """In place, by lists of one dtype and device."""
        lists: dict = {}
        for mean, value in pairs:
            means, values = lists.setdefault((mean.device, mean.dtype, value.dtype), ([], []))
            means.append(mean)
            values.append(value)
        for means, values in lists.values():
            count = self.n_averaged.to(means[0].device)
            if self.multi_avg_fn is not None:
                self.multi_avg_fn(means, values, count)
            elif _is_native(means[0]):
                get_swa_multi_avg_fn()(means, values, count)
            else:  # whole numbers: the mean is rounded towards zero
                for mean, value in zip(means, values):
                    mean.copy_(get_swa_avg_fn()(mean, value, count))


@no_grad()
def update_bn(
    loader: Iterable[Any], model: Module, device: int | _device.device | None = None
) -> None:
    """Compute the running statistics of batch normalisation anew, in one pass over the data.

    Args:
        loader: gives inputs, or lists and tuples whose first item is the input.
    """
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    momenta = {m: m.momentum for m in norms}
    for m in norms:
        m.reset_running_stats()
    if not norms:
        return
    training = model.training
    model.train()
    for m in norms:
        m.momentum = None  # the plain mean of all batches
    for batch in loader:
        x = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(x if device is None else x.to(device))
    for m, momentum in momenta.items():
        m.momentum = momentum
    model.train(training)


# -- the rate -------------------------------------------------------------------------------------


def _straight(t):
    return t


def _cosine(t):
    return (1 - math.cos(math.pi * t)) / 2


_CURVES = {"cos": _cosine, "linear": _straight}


class SWALR(LRScheduler):
    """From the rate of a group to swa_lr within anneal_epochs, and no further."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        goals = per_group("swa_lr", optimizer, swa_lr)
        if anneal_strategy not in _CURVES:
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not (isinstance(anneal_epochs, int) and anneal_epochs >= 0):
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        for group, goal in zip(optimizer.param_groups, goals):
            group["swa_lr"] = goal
        self.anneal_epochs = anneal_epochs
        self._set_anneal_func(anneal_strategy)
        super().__init__(optimizer, last_epoch)

    def _set_anneal_func(self, anneal_strategy):
        self._anneal_strategy = anneal_strategy
        self.anneal_func = _CURVES[anneal_strategy]

    def get_lr(self) -> list[float | Tensor]:
        self._current()
        # `_step_count` counts the first write as well
        count = self._step_count - 1
        if self.anneal_epochs == 0:
            count = max(1, count)
        before, now = (
            self.anneal_func(max(0, min(1, k / max(1, self.anneal_epochs))))
            for k in (count - 1, count)
        )
        found = []
        for group in self.optimizer.param_groups:
            rate, goal = group["lr"], group["swa_lr"]
            # where the way started, from where it is now
            start = goal if before == 1 else (rate - before * goal) / (1 - before)
            found.append(goal * now + start * (1 - now))
        return found

    def state_dict(self) -> dict[str, Any]:
        """All fields but the optimizer and the function."""
        found = super().state_dict()
        del found["anneal_func"]
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        super().load_state_dict(state_dict)
        self._set_anneal_func(self._anneal_strategy)
