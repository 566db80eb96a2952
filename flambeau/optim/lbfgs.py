"""L-BFGS: quasi-Newton steps from the differences of the last gradients.

The parameters count as one flat vector. The line search that finds a step with the strong Wolfe
conditions is in line_search.py.
"""

from collections.abc import Callable, Iterable
from typing import Any

from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import enable_grad, no_grad
from flambeau.eager.methods import function
from flambeau.optim.line_search import strong_wolfe
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.ruled import check_range, check_tensor_lr, number

_KEPT = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")


class LBFGS(Optimizer):
    """L-BFGS (Nocedal and Wright, chapter 7.2). It has one group, and every step needs a closure.

    Args:
        max_iter: iterations in one step, each with at least one evaluation of the closure.
        max_eval: evaluations in one step; max_iter * 1.25 by default.
        history_size: how many differences are kept.
        line_search_fn: "strong_wolfe" or None, for steps of length lr.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_tensor_lr(lr)
        check_range(lr, "learning rate")
        defaults = dict(
            lr=lr,
            max_iter=max_iter,
            max_eval=max_iter * 5 // 4 if max_eval is None else max_eval,
            tolerance_grad=tolerance_grad,
            tolerance_change=tolerance_change,
            history_size=history_size,
            line_search_fn=line_search_fn,
        )
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    # -- parameters as one vector ------------------------------------------------------------
    def _gradient(self):
        parts = []
        for p in self._params:
            part = p.new_zeros(p.numel()) if p.grad is None else p.grad.reshape(-1)
            parts.append(function("view_as_real")(part).reshape(-1) if p.is_complex() else part)
        return function("cat")(parts, 0)

    def _move(self, length, direction):
        """Go along direction, in place."""
        start = 0
        for p in self._params:
            real = function("view_as_real")(p) if p.is_complex() else p
            part = direction[start : start + real.numel()]
            real.add_(part.view_as(real), alpha=number(length))
            start += real.numel()

    def _evaluate(self, closure, start, length, direction):
        """Loss and gradient at a distance from start; the parameters stay at start."""
        self._move(length, direction)
        loss = float(closure())
        gradient = self._gradient()
        for p, kept in zip(self._params, start):
            p.copy_(kept)
        return loss, gradient

    # -- the step ----------------------------------------------------------------------------
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Several iterations; closure computes the loss and its gradients. Gives the first loss."""
        if len(self.param_groups) != 1:
            raise AssertionError(
                f"Expected exactly one param_group, but got {len(self.param_groups)}"
            )
        evaluate = enable_grad()(closure)
        with no_grad():
            return self._iterate(evaluate, self.param_groups[0])

    def _iterate(self, closure, group):
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss, evaluations = float(first_loss), 1
        state["func_evals"] += 1
        gradient = self._gradient()
        if gradient.abs().max() <= group["tolerance_grad"]:
            return first_loss
        now = {name: state.get(name) for name in _KEPT}
        rate, change = group["lr"], group["tolerance_change"]
        if isinstance(rate, Tensor):
            rate = rate.reshape(())  # one number, in as many brackets as it may come
        iterations = 0
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            self._turn(now, state, gradient, group["history_size"])
            direction = now["d"]
            now["prev_flat_grad"] = gradient.clone()
            now["prev_loss"] = loss
            if state["n_iter"] == 1:
                now["t"] = min(1.0, 1.0 / gradient.abs().sum()) * rate
            else:
                now["t"] = rate
            slope = gradient.dot(direction)
            if slope > -change:
                break
            calls = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                start = [p.clone() for p in self._params]
                loss, gradient, now["t"], calls = strong_wolfe(
                    lambda length, start=start, direction=direction: self._evaluate(
                        closure, start, length, direction
                    ),
                    now["t"],
                    direction,
                    loss,
                    gradient,
                    slope,
                )
                self._move(now["t"], direction)
                optimal = bool(gradient.abs().max() <= group["tolerance_grad"])
            else:
                self._move(now["t"], direction)
                optimal = False
                if iterations != group["max_iter"]:
                    loss = float(closure())
                    gradient = self._gradient()
                    optimal = bool(gradient.abs().max() <= group["tolerance_grad"])
                    calls = 1
            evaluations += calls
            state["func_evals"] += calls
            if iterations == group["max_iter"] or evaluations >= group["max_eval"] or optimal:
                break
            if (direction * now["t"]).abs().max() <= change:
                break
            if abs(loss - now["prev_loss"]) < change:
                break
        state.update(now)
        return first_loss

    def _turn(self, now, state, gradient, history_size):
        """A new direction: the gradient times an estimate of the inverse Hessian."""
        if state["n_iter"] == 1:
            now["d"] = gradient.neg()
            now["old_dirs"], now["old_stps"], now["ro"] = [], [], []
            now["H_diag"] = 1
            return
        y = gradient - now["prev_flat_grad"]
        s = now["d"] * now["t"]
        curvature = y.dot(s)
        dirs, steps, ro = now["old_dirs"], now["old_stps"], now["ro"]
        if curvature > 1e-10:  # otherwise the estimate would no longer be positive
            if len(dirs) == history_size:
                del dirs[0], steps[0], ro[0]
            dirs.append(y)
            steps.append(s)
            ro.append(1.0 / curvature)
            now["H_diag"] = curvature / y.dot(y)
        alphas = state.setdefault("al", [None] * history_size)
        q = gradient.neg()
        for k in reversed(range(len(dirs))):
            alphas[k] = steps[k].dot(q) * ro[k]
            q.add_(dirs[k], alpha=-alphas[k].item())
        direction = q * now["H_diag"]
        for k in range(len(dirs)):
            beta = dirs[k].dot(direction) * ro[k]
            direction.add_(steps[k], alpha=(alphas[k] - beta).item())
        now["d"] = direction
