"""PassManager runs passes one after another, in an order that fits."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from flambeau.fx.passes.infra.pass_base import PassResult
from flambeau.nn import Module

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]


def pass_result_wrapper(fn: Callable) -> Callable[..., PassResult | None]:
    """A pass that changes a module in place and returns nothing, as one that tells."""

    @functools.wraps(fn)
    def wrapped(module):
        result = fn(module)
        if isinstance(result, PassResult):
            return result
        return PassResult(module if result is None else result, True)

    if not inspect.isfunction(fn):
        wrapped.__name__ = type(fn).__name__
    return wrapped


def this_before_that_pass_constraint(this: Callable, that: Callable) -> Callable:
    """A constraint: one pass runs before another."""
    return lambda a, b: not (a == that and b == this)


class PassManager:
    """Passes, constraints on their order, and how often they run until nothing changes."""

    def __init__(
        self,
        passes: list[Callable] | None = None,
        constraints: list[Callable] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes, self.constraints = passes or [], constraints or []
        self.steps = 1 if steps is None else steps
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._validated = False

    def add_pass(self, _pass: Callable) -> None:
        """One more pass."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Callable) -> None:
        """One more constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def add_checks(self, check: Callable) -> None:
        """A function that raises an error if a module is not as it should be."""
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self.check = check  # type: ignore[method-assign]

    def check(self, module: Module) -> None:
        """Nothing to check unless somebody says so."""

    def validate_constraints(self) -> None:
        """Raise an error if the order breaks a constraint."""
        for constraint in self.constraints:
            for k, earlier in enumerate(self.passes):
                for later in self.passes[k + 1 :]:
                    if not constraint(earlier, later):
                        raise RuntimeError(
                            f"pass schedule constraint violated. Expected {later} before {earlier} "
                            f"but found {earlier} at index {k}"
                        )
        self._validated = True

    def solve_constraints(self) -> None:
        """Find an order that fits."""
        left, order = list(self.passes), []
        while left:
            fits = lambda p: all(c(p, q) for c in self.constraints for q in left if q is not p)
            first = next((p for p in left if fits(p)), None)
            if first is None:
                raise RuntimeError(f"Circular dependency detected within the passes {left}")
            order.append(first)
            left.remove(first)
        self.passes = order
        self._validated = True

    def __call__(self, module: Module) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        changed_at_all = False
        for _ in range(self.steps):
            changed = False
            for place, step in enumerate(self.passes):
                module, did = self._run(step, module, self.passes[:place])
                changed |= did
            changed_at_all |= changed
            if not changed:
                break
        return PassResult(module, changed_at_all)

    def _run(self, step, module, before) -> tuple[Any, bool]:
        name = step.__name__ if inspect.isfunction(step) else type(step).__name__
        try:
            result = step(module)
            if not isinstance(result, PassResult):
                raise TypeError(
                    f"The result of the pass {name} should be type PassResult. Please wrap it with "
                    "pass_result_wrapper()"
                )
            module = result.graph_module
            recompile = getattr(module, "recompile", None)
            if recompile is not None:
                recompile()
            if self.run_checks_after_each_pass:
                self.check(module)
        except Exception as error:
            names = [getattr(p, "__name__", type(p).__name__) for p in before]
            raise Exception(
                f"An error occurred when running the '{name}' pass after the following passes: "
                f"{names}"
            ) from error
        return module, result.modified
