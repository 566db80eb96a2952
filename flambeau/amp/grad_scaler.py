"""GradScaler: losses multiplied by a large number, so that float16 gradients do not vanish.

Before the step gradients are divided by it again and looked through for infinities; with any, the
step is left out and the scale shrinks; after many steps without, it grows.
"""

import inspect
import math
import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

import flambeau
from flambeau import _device, _dtype
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import no_grad
from flambeau.eager.updating import total_norm, update

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """How far an optimizer is in this iteration."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


_TOO_LATE_TO_UNSCALE = {
    OptState.UNSCALED: (
        "unscale_() has already been called on this optimizer since the last update()."
    ),
    OptState.STEPPED: "unscale_() is being called after step().",
}


def _refresh_per_optimizer_state() -> dict[str, Any]:
    """What is known of an optimizer at the beginning of an iteration."""
    return {"stage": OptState.READY, "found_inf_per_device": {}}


_OPTIONS = ("growth_factor", "backoff_factor", "growth_interval")


class GradScaler:
    """Scales losses, unscales gradients, and follows which scale is safe."""

    _scale: Tensor | None
    _growth_tracker: Tensor | None

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and not _device.is_there("cuda"):
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                stacklevel=2,
            )
            self._enabled = False
        if not self._enabled:
            return
        if not growth_factor > 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if not backoff_factor < 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        # both become tensors when the first loss shows its device
        self._init_scale, self._init_growth_tracker = init_scale, 0
        self._scale = self._growth_tracker = None
        self._known: dict[str, tuple] = {}
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(
            _refresh_per_optimizer_state
        )

    def _made(self, caller):
        for name in ("_scale", "_growth_tracker"):
            if getattr(self, name) is None:
                raise AssertionError(
                    f"Attempted {caller} but {name} is None.  This may indicate your script did "
                    "not use scaler.scale(loss or outputs) earlier in the iteration."
                )
        return self._scale, self._growth_tracker

    def _number(self, name):
        """What one of the tensors holds; a GPU is asked only if somebody else wrote to it."""
        tensor = getattr(self, name)
        known = self._known.get(name)
        if known is None or known[0] is not tensor or known[1] != tensor._version:
            known = self._known[name] = tensor, tensor._version, tensor.item()
        return known[2]

    # -- before backward ---------------------------------------------------------------------
    def scale(self, outputs: Tensor | Iterable[Tensor]) -> Any:
        """Losses (or a nested collection of them) times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._scale = flambeau.full(
                    (), self._init_scale, dtype=_dtype.float32, device=outputs.device
                )
                self._growth_tracker = flambeau.full(
                    (), self._init_growth_tracker, dtype=_dtype.int32, device=outputs.device
                )
            return outputs * self._scale
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    # -- after backward ----------------------------------------------------------------------
    @no_grad()
    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        """Multiply gradients by inv_scale; gives, by device, whether any was not finite.

        found_inf is not written to: results are tensors of their own.
        """
        grads: dict = {}
        for group in optimizer.param_groups:
            for param in group["params"]:
                if param.grad is None:
                    continue
                if not allow_fp16 and param.grad.dtype is _dtype.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                grad = param.grad
                if grad.is_sparse:
                    if grad.dtype is _dtype.float16:  # the sum of two may be too large
                        grad = param.grad = grad.coalesce()
                    grad = grad._values()
                grads.setdefault((grad.device, grad.dtype), []).append(grad)
        found: dict = {}
        factor = inv_scale.item()
        for (device, dtype), tensors in grads.items():
            if device.type == "cuda":  # it is not waited for
                largest = flambeau.stack([g.abs().amax().float() for g in tensors if g.numel()])
                bad = flambeau.isfinite(largest).all().logical_not().float()
                found[device] = bad + found.get(device, 0.0)
                update("scaled", [tensors], [factor])
                continue
            if dtype.is_complex:
                finite = all(flambeau.isfinite(g).all().item() for g in tensors)
            else:  # one native call for all
                finite = math.isfinite(total_norm(tensors, math.inf))
            found[device] = found.get(device, False) or not finite
            update("scaled", [tensors], [factor])
        return {
            device: bad if isinstance(bad, Tensor) else flambeau.tensor(float(bad))
            for device, bad in found.items()
        }

    def unscale_(self, optimizer) -> None:
        """Divide the gradients of an optimizer by the scale, to clip them for example."""
        if not self._enabled:
            return
        self._made("unscale_")
        notes = self._per_optimizer_states[id(optimizer)]
        too_late = _TOO_LATE_TO_UNSCALE.get(notes["stage"])
        if too_late is not None:
            raise RuntimeError(too_late)
        inverse = flambeau.tensor(1 / self._number("_scale"), dtype=_dtype.float32)
        bad = self._unscale_grads_(optimizer, inverse, None, False)
        notes.update(stage=OptState.UNSCALED, found_inf_per_device=bad)

    def step(self, optimizer, *args: Any, **kwargs: Any) -> float | None:
        """optimizer.step(), unless gradients are not finite."""
        if self._enabled and "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        self._made("step")
        notes = self._per_optimizer_states[id(optimizer)]
        if notes["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_by_itself(optimizer, notes, args, kwargs)
            notes["stage"] = OptState.STEPPED
            return result
        if notes["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not notes["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None
        notes["found"] = [bad.item() for bad in notes["found_inf_per_device"].values()]
        if not any(notes["found"]):
            result = optimizer.step(*args, **kwargs)
        notes["stage"] = OptState.STEPPED
        return result

    def _step_by_itself(self, optimizer, notes, args, kwargs):
        """Optimizers that unscale and look for infinities are told the scale, or the scaler."""
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            warnings.warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed "
                "optimizer. In the near future GradScaler registers `grad_scale: Tensor` and "
                "`found_inf: Tensor` to the passed optimizer and let the optimizer use them "
                "directly.",
                FutureWarning,
                stacklevel=3,
            )
            return optimizer.step(*args, **{**kwargs, "grad_scaler": self})
        scale = self._scale
        if notes["stage"] is OptState.READY:
            notes["found_inf_per_device"] = self._check_inf_per_device(optimizer)
        else:
            scale = None  # the gradients are what they are
        found = list(notes["found_inf_per_device"].values())
        given = getattr(optimizer, "grad_scale", None)
        if given is not None:
            scale = given if scale is None else scale * given
        optimizer.grad_scale = scale
        optimizer.found_inf = sum(found[1:], found[0])
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def _check_inf_per_device(self, optimizer):
        """Whether any gradient is not finite, by device; gradients stay as they are."""
        one = flambeau.ones((), dtype=_dtype.float32)
        return self._unscale_grads_(optimizer, one, None, True)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """At the end of an iteration: shrink or grow the scale, or set it."""
        if not self._enabled:
            return
        scale, tracker = self._made("update")
        if isinstance(new_scale, float):
            scale.fill_(new_scale)
        elif new_scale is not None:
            if (
                new_scale.device.type != self._device
                or new_scale.numel() != 1
                or new_scale.requires_grad
            ):
                raise AssertionError(
                    "new_scale should be a float or a 1-element torch.cuda.FloatTensor or "
                    "torch.FloatTensor with requires_grad=False."
                )
            scale.copy_(new_scale)
        else:
            found: list = []
            for notes in self._per_optimizer_states.values():
                bad = notes["found_inf_per_device"].values()
                found += notes["found"] if "found" in notes else [b.item() for b in bad]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._follow(scale, tracker, any(found))
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _follow(self, scale, tracker, bad):
        if bad:
            scale.mul_(self._backoff_factor)
            tracker.fill_(0)
            return
        steps = self._number("_growth_tracker") + 1
        if steps == self._growth_interval:
            grown = scale * self._growth_factor
            if flambeau.isfinite(grown).item():  # an infinite scale could never come back
                scale.copy_(grown)
            steps = 0
        tracker.fill_(steps)
        self._known["_growth_tracker"] = tracker, tracker._version, steps

    # -- settings ----------------------------------------------------------------------------
    def get_scale(self) -> float:
        """The present scale; 1.0 if disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._number("_scale")

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        tracker = self._growth_tracker
        return self._init_growth_tracker if tracker is None else self._number("_growth_tracker")

    def is_enabled(self) -> bool:
        return self._enabled

    # -- saving ------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """Scale, factors and counter; empty if disabled."""
        if not self._enabled:
            return {}
        options = {name: getattr(self, "_" + name) for name in _OPTIONS}
        tracker = self._get_growth_tracker()
        return {"scale": self.get_scale(), **options, "_growth_tracker": tracker}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Back to what state_dict gave."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        for name in _OPTIONS:
            setattr(self, "_" + name, state_dict[name])
        self._init_scale = state_dict["scale"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, "
                    "or at the end after scaler.update()."
                )
            state.update(
                _init_scale=self.get_scale(),
                _init_growth_tracker=self._get_growth_tracker(),
                _scale=None,
                _growth_tracker=None,
                _known={},
            )
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


@no_grad()
def _amp_foreach_non_finite_check_and_unscale_(
    tensors: Iterable[Tensor], found_inf: Tensor, inv_scale: Tensor
) -> None:
    """Multiply tensors by inv_scale; found_inf becomes 1 if an element is not finite."""
    for t in tensors:
        if not flambeau.isfinite(t).all():
            found_inf.fill_(1.0)
        t.mul_(inv_scale.to(t.device, t.dtype))


@no_grad()
def _amp_update_scale_(
    input: Tensor,
    growth_tracker: Tensor,
    found_inf: Tensor,
    scale_growth_factor: float,
    scale_backoff_factor: float,
    growth_interval: int,
) -> Tensor:
    """The next scale, written into input: smaller after an infinity, larger after many steps."""
    if found_inf.item():
        input.mul_(scale_backoff_factor)
        growth_tracker.zero_()
    elif int(growth_tracker.item()) + 1 == growth_interval:
        grown = input * scale_growth_factor
        if flambeau.isfinite(grown).item():
            input.copy_(grown)
        growth_tracker.zero_()
    else:
        growth_tracker.add_(1)
    return input
