"""`torch.utils.flop_counter`: how many floating-point operations a stretch of a program takes.

Counted are products and convolutions, forward and backward, for the module they belong to and all
modules around it. The formulas are in flop_formulas.py; ops, modules and nodes of backward are
observed (interposing/), so nothing is slower while nobody counts.
"""

import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from flambeau import interposing
from flambeau._tensor import Tensor
from flambeau.aten.overloads import OpOverloadPacket, namespace
from flambeau.nn.modules.calling import Calling
from flambeau.profiler.recording import name_within
from flambeau.utils.flop_formulas import CONVOLUTIONS, FORMULAS, flops_of

__all__ = ["FlopCounterMode", "register_flop_formula"]

flop_registry: dict[str, Callable] = {}  # formulas of users, by op: of shapes, with out_shape
_SHOWN = {
    **dict.fromkeys(CONVOLUTIONS, "convolution"),
    "convolution_to_input": "convolution_backward",
    "convolution_to_weight": "convolution_backward",
    "convolution_to_weight_and_bias": "convolution_backward",
    "_batched_product": "bmm",
    "linear_to_weight": "mm",
    "_attention": "_scaled_dot_product_flash_attention_for_cpu",
    "scaled_dot_product_attention": "_scaled_dot_product_flash_attention_for_cpu",
    "_attention_backward": "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_rnn_layer": "_rnn_layer",
}


def _key(target: Any) -> str:
    """aten.mm, however it is spelled."""
    return "aten." + str(target).replace("::", ".").removeprefix("aten.").split(".")[0]


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable:
    """Decorates a formula for an op: of the shapes of its arguments, with out_shape.

    With get_raw it is given the arguments themselves, and the result as out_val.
    """

    targets = targets if isinstance(targets, (list, tuple)) else (targets,)
    for target in targets:
        if not isinstance(target, OpOverloadPacket):
            raise ValueError(
                "register_flop_formula(targets): expected each target to be OpOverloadPacket "
                f"(i.e. torch.ops.mylib.foo), got {target} which is of type {type(target)}"
            )

    def register(formula: Callable) -> Callable:
        if get_raw:
            formula._get_raw = True  # type: ignore[attr-defined]
        flop_registry.update(dict.fromkeys(map(_key, targets), formula))
        return formula

    return register


class FlopCounterMode(interposing.Observer):
    """Counts operations of products and convolutions in a block.

    Args:
        depth: how many levels of modules the table shows.
        display: print the table when the block ends.
        custom_mapping: further formulas, by op.

    Example:
        >>> from flambeau.utils.flop_counter import FlopCounterMode
        >>> with FlopCounterMode(display=False) as counter:
        ...     y = flambeau.ones(2, 3) @ flambeau.ones(3, 4)
        >>> counter.get_total_flops()
        48
    """

    kinds = frozenset({"op", "module", "node"})

    def __init__(
        self,
        mods: Any = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        if mods is not None:
            warnings.warn(
                "mods argument is not needed anymore, you can stop passing it", stacklevel=2
            )
        self.depth, self.display = depth, display
        self.formulas = {**flop_registry, **{_key(k): f for k, f in (custom_mapping or {}).items()}}
        self.flop_counts: dict[str, dict[OpOverloadPacket, int]] = defaultdict(
            lambda: defaultdict(int)
        )
        self._open: list[tuple[Any, str]] = []  # modules we are in, with their names
        self._owners: dict[int, list[str]] = {}  # node -> names of the modules it was made in
        self._in_node: list[list[str] | None] = []
        self._counting = 0

    # -- results -------------------------------------------------------------------------------
    def get_total_flops(self) -> int:
        """All operations."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[OpOverloadPacket, int]]:
        """Operations by module and op, such as `torch.ops.aten.mm`."""
        return {module: dict(ops) for module, ops in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Operations by module and op, as text."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        lines: list[tuple[str, str, str]] = []
        for module, ops in [
            ("Global", self.flop_counts["Global"]),
            *sorted((m, o) for m, o in self.flop_counts.items() if m != "Global"),
        ]:
            level = 0 if module == "Global" else module.count(".") + 1
            if level > depth:
                continue
            rows = [(module, sum(ops.values())), *((f" - {op}", n) for op, n in ops.items())]
            for name, count in rows:
                share = f"{100 * count / total:.2f}%" if total else "0.00%"
                lines.append((" " * level + name, _with_unit(count), share))
        first = max([len(line[0]) for line in lines] + [6])
        second = max([len(line[1]) for line in lines] + [4])
        head = [f"{'Module':<{first}}  {'FLOP':>{second}}  {'% Total':>9}"]
        head.append(f"{'-' * first}  {'-' * second}  {'-' * 9}")
        return "\n".join([*head, *(f"{a:<{first}}  {b:>{second}}  {c:>9}" for a, b, c in lines)])

    # -- counting ------------------------------------------------------------------------------
    def __enter__(self) -> "FlopCounterMode":
        self.flop_counts.clear()
        interposing.offer(Calling.__call__, "nn.Module", "module")
        interposing.push(self)
        return self

    def __exit__(self, *error: Any) -> None:
        interposing.pop(self)
        self._owners.clear()
        if self.display:
            print(self.get_table())

    def _modules(self) -> list[str]:
        if self._in_node and self._in_node[-1] is not None:
            return self._in_node[-1]
        return [name for _, name in self._open]

    def before(self, name: interposing.Name, args: tuple, kwargs: dict) -> bool:
        if name.kind == "node":
            self._in_node.append(self._owners.get(args[0].seq))
            return False
        if name.kind == "module":
            self._open.append((args[0], self._path(args[0])))
            return False
        is_counted = name.row in FORMULAS or _key(name) in self.formulas
        self._counting += is_counted
        return is_counted

    def _path(self, module: Any) -> str:
        kind = type(module).__name__
        if not self._open:
            return kind
        above, path = self._open[-1]
        return f"{path}.{name_within(above, module) or kind}"

    def after(
        self,
        token: bool,
        name: interposing.Name,
        args: tuple,
        kwargs: dict,
        result: Any,
        error: Any,
    ) -> None:
        if name.kind != "op":
            (self._in_node if name.kind == "node" else self._open).pop()
            return
        self._counting -= token
        if self._open and isinstance(result, Tensor) and result._grad_fn is not None:
            self._owners.setdefault(result._grad_fn.seq, self._modules())
        if token and not self._counting and error is None:
            self._count(name, args, kwargs, result)

    def _count(self, name: interposing.Name, args: tuple, kwargs: dict, result: Any) -> None:
        key = _shown(name.row, args, kwargs)
        formula = self.formulas.get(key) or self.formulas.get(_key(name))
        if formula is not None and hasattr(formula, "_get_raw"):
            count = formula(*args, **kwargs, out_val=result)
        elif formula is not None:
            shapes = [a.shape if isinstance(a, Tensor) else a for a in args]
            out = result.shape if isinstance(result, Tensor) else None
            count = formula(*shapes, **kwargs, out_shape=out)
        else:
            count = flops_of(name.row, args, kwargs, result)
        op = namespace("aten").packet(key.removeprefix("aten."))
        for module in {"Global", *self._modules()}:
            self.flop_counts[module][op] += count


def _shown(row, args, kwargs):
    """The op PyTorch would count."""
    if row == "linear":
        bias = args[2] if len(args) > 2 else kwargs.get("bias")
        return "aten.mm" if bias is None else "aten.addmm"
    if row == "matmul":
        other = args[1] if len(args) > 1 else kwargs["other"]
        return "aten.bmm" if args[0].ndim > 2 and other.ndim > 2 else "aten.mm"
    return "aten." + _SHOWN.get(row, row)


def _with_unit(count):
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("K", 1e3)):
        if count >= size:
            return f"{count / size:.3f}{unit}"
    return str(count)
