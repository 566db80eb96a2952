"""Steps that are like the latest one: the same rules over the same parameters, with new numbers.

`RuleOptimizer.updates` says what a step launches, from nothing. Whoever asks at each step and knows
the last answer needs less: which tensors there are now, and numbers. `Repeating` keeps what the
answer followed from, and answers from it as long as all of that is so.
"""

from itertools import chain
from typing import Any

from flambeau._tensor import Tensor
from flambeau.ops.updates import UPDATES


class _Held:
    """What the updates of one group followed from."""

    def __init__(self, optimizer, group, bundles):
        self.group, self.options = group, [*group.values()]
        ((key, *_), rows), *more = bundles.items()
        flat = [v if type(v) in (tuple, list) else (v,) for n, v in group.items() if n != "params"]
        self.is_fit = not more and not any(isinstance(v, Tensor) for v in chain(*flat))
        self.params = [row[0] for row in rows]
        self.others = [p for p in group["params"] if all(p is not q for q in self.params)]
        names = UPDATES[optimizer.rule].tensors[2:]
        first = rows[0][2]
        self.names = [n for n in names if first.get(n) is not None]
        self.absent = [n for n in names if n not in self.names]
        self.numbers, self.flags = optimizer.numbers(group, key)


class Repeating:
    """The steps of one optimizer, as long as they are alike."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.held: list | None = None

    def learn(self) -> None:
        """The next steps are like the one that could be done now."""
        optimizer, self.held = self.optimizer, None
        if not optimizer.repeats:
            return
        held = []
        for group in optimizer.param_groups:
            bundles = optimizer._bundles(group, [])
            if not bundles:
                return
            held.append(_Held(optimizer, group, bundles))
        if all(h.is_fit for h in held):
            self.held = held

    def tell(self, tensors: list, numbers: list, written: list) -> bool:
        """Add tensors of all columns, numbers and what is written; False if something is new."""
        optimizer = self.optimizer
        groups, state = optimizer.param_groups, optimizer.state
        if self.held is None or len(groups) != len(self.held):
            return False
        for group, held in zip(groups, self.held):
            if group is not held.group or [*group.values()] != held.options:
                return False
            for p in held.others:
                if p._grad is not None:
                    return False
            params = held.params
            tensors += params
            tensors += [p._grad for p in params]
            written += params
            states: list = [state[p] for p in params] if held.names else []
            for name in held.names:
                tensors += [s[name] for s in states]
            for name in held.absent if states else ():
                if states[0].get(name) is not None:
                    return False
            if not optimizer.counts:
                numbers += held.numbers
                continue
            keys = [optimizer._key(group, s) for s in states]
            if keys.count(keys[0]) != len(keys):
                return False
            given, flags = optimizer.numbers(group, keys[0])
            if flags != held.flags:
                return False
            steps = [s["step"] for s in states]
            tensors += steps
            written += steps
            numbers += given
        return True
