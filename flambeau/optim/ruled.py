"""Optimizers whose step is an update rule: one native call for all parameters of a group.

A class names its rule (ops/updates.py) and says three things: the state a parameter starts with
(`_fresh`), what must be equal among parameters that are updated in one call (`_key`: usually the
count of steps), and the numbers and flags that follow from it (`_facts`). With
`differentiable=True` the same rule runs on tensors, so that autograd sees the step.
"""

from functools import partial

from flambeau._device import device
from flambeau._dtype import default_dtype, float32, float64
from flambeau._sparse.conversion import with_values
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import enable_grad, modes
from flambeau.eager import creation
from flambeau.eager.updating import update
from flambeau.ops.updates import UPDATES
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.repeating import Repeating


def number(value):
    """An option as a Python number; a tensor of one element counts as its value."""
    return value.item() if isinstance(value, Tensor) else value


def counter(value=0.0):
    """A count, or another number of the state: a tensor without dimensions."""
    dtype = float64 if default_dtype() is float64 else float32
    return creation.tensor(value, dtype=dtype)


def zeros_like(param):
    return creation.zeros_like(param.detach())


def rebuilt(grad, values):
    """A sparse gradient with other values at the same places."""
    return with_values(grad, values)


def check_tensor_lr(lr):
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")


def check_range(value, text, low=0.0):
    if not low <= value:
        raise ValueError(f"Invalid {text}: {value}")


def check_betas(betas):
    for k in (0, 1):
        if not 0.0 <= betas[k] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {k}: {betas[k]}")


def check_fused(fused, foreach, differentiable):
    if fused:
        if differentiable:
            raise RuntimeError("`fused` does not support `differentiable`")
        if foreach:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def check_fused_param(param):
    if param.device.type == "meta" or not param.is_floating_point():
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of supported "
            "devices: ['mps', 'cuda', 'xpu', 'hpu', 'cpu', 'mtia', 'privateuseone'] but "
            f"{param.dtype} and {param.device.type}"
        )


def complete(optimizer, options):
    """Bring old saved groups up to date: options that came later, counts that were no tensors."""
    for group in optimizer.param_groups:
        group.update({**options, **group})
        for param in group["params"]:
            kept = optimizer.state.get(param) or {}
            if "step" in kept and not isinstance(kept["step"], Tensor):
                kept["step"] = counter(float(kept["step"]))


class RuleOptimizer(Optimizer):
    """An optimizer that steps by a rule."""

    rule = ""
    late_options: dict = {}  # options that old saved groups may lack, with their defaults
    counts = True  # does each step have other numbers, by its count?
    repeats = True  # is a count all that `_after` keeps? See repeating.py

    def __setstate__(self, state):
        super().__setstate__(state)
        complete(self, self.late_options)

    def _fresh(self, group, param):
        """The state of a parameter before its first step."""
        raise NotImplementedError

    def _key(self, group, state):
        """What parameters that are updated in one call have in common: the number of this step."""
        return state["step"].item() + 1

    def _facts(self, group, key):
        """Numbers and flags of the rule, by name."""
        raise NotImplementedError

    def _after(self, group, key, rows):
        """What follows a rule: updates of what the state says beside the rule's tensors."""
        return [("counted", [[row[2]["step"] for row in rows]], [], ())]

    def step(self, closure=None):
        """One step; closure, where given, computes the loss once more first."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        before = modes.grad
        if "cuda" in device.runtimes and "capturable" in self.defaults:
            self._check_capture()
        modes.grad = self.defaults["differentiable"]
        try:
            for name, *given in self.updates():
                if name is None:
                    given[0]()
                else:
                    update(name, *given)
        finally:
            modes.grad = before
        return loss

    def updates(self):
        """What a step launches, in order: (rule, columns, numbers, flags) of each.

        Nothing is changed yet, except that state which has to be there begins. What is no rule is
        (None, function). A compiled step asks here whether what it has on tape is what would be
        launched, and for the numbers (compiler/whole_steps.py).
        """
        found: list = []
        for group in self.param_groups:
            for key, rows in self._bundles(group, found).items():
                if group.get("fused"):
                    check_fused_param(rows[0][0])
                found.append(self._update(group, key[0], rows))
                found += self._after(group, key[0], rows)
        return found

    def repeating(self):
        """What answers the same for steps that are like the latest one, in less time."""
        return Repeating(self)

    def _bundles(self, group, others):
        """Rows of (parameter, gradient, state), by what they have in common; sparse: to others."""
        found: dict = {}
        states = self.state
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            if grad._layout.strides is None:
                others.append((None, partial(self._step_sparse, group, p, grad)))
                continue
            state = states[p]
            if not state:
                self._check(group, p)
                state.update(self._fresh(group, p))
            key = self._key(group, state), p._layout.dtype, grad._layout.dtype
            if key in found:
                found[key].append((p, grad, state))
            else:
                found[key] = [(p, grad, state)]
        return found

    def _step_sparse(self, group, param, grad):
        """A step with a sparse gradient, which few methods know."""
        name = "Adam" if type(self).__name__ == "AdamW" else type(self).__name__
        advice = ", please consider SparseAdam instead" if name == "Adam" else ""
        raise RuntimeError(f"{name} does not support sparse gradients{advice}")

    def _check_capture(self):
        """Numbers of a step that follow from its count would stay what they are in a graph."""
        if not any(runtime.is_capturing for runtime in device.runtimes["cuda"].parts.values()):
            return
        name = type(self).__name__
        if not all(group["capturable"] for group in self.param_groups):
            raise RuntimeError(
                f"Attempting CUDA graph capture of step() for an instance of {name} but "
                "param_groups' capturable is False."
            )
        raise RuntimeError(
            f"CUDA graph capture of step() for an instance of {name}: its counts of steps are the "
            "host's. Capture forward and backward, or use torch.compile"
        )

    def _check(self, group, param):
        if group.get("capturable") and param.device.type != "cuda":
            raise AssertionError(
                "If capturable=True, params and state_steps must be on supported devices: "
                "['cuda', 'xpu', 'hpu', 'privateuseone', 'xla']."
            )

    def numbers(self, group, key):
        """(numbers, flags) of the rule in this step."""
        rule, facts = UPDATES[self.rule], self._facts(group, key)
        flags = tuple([bool(facts[name]) for name in rule.flags])
        numbers = [facts[name] for name in rule.numbers]
        if not group["differentiable"]:
            numbers = [x if type(x) is float else float(number(x)) for x in numbers]
        return numbers, flags

    def _update(self, group, key, rows):
        rule = UPDATES[self.rule]
        numbers, flags = self.numbers(group, key)
        first = rows[0][2]
        columns = [[row[0] for row in rows], [row[1] for row in rows]]
        for name in rule.tensors[2:]:
            kept = first.get(name)
            columns.append(None if kept is None else [row[2][name] for row in rows])
        if group["differentiable"]:
            return None, partial(self._update_tensors, rule, columns, numbers, flags)
        return rule.name, columns, numbers, flags

    def _update_tensors(self, rule, columns, numbers, flags):
        """The same on tensors, one parameter after the other, seen by autograd."""
        options = dict(zip(rule.numbers, numbers)) | dict(zip(rule.flags, flags))
        for k in range(len(columns[0])):
            row = [None if c is None else c[k] for c in columns]
            # formulas save what they are given, and it is overwritten at the end
            given = [None if t is None else t.clone() for t in row]
            found = rule.function(**dict(zip(rule.tensors, given)), **options)
            for name, value in found.items():
                row[rule.tensors.index(name)].copy_(value)
