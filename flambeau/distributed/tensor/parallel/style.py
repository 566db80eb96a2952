"""How a layer is spread: which of its weights are cut, and how inputs and outputs lie."""

from functools import partial
from typing import Any

from flambeau import Tensor
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor.distributing import distribute_module, distribute_tensor
from flambeau.distributed.tensor.dtensor import DTensor
from flambeau.distributed.tensor.placement_types import Placement, Replicate, Shard
from flambeau.nn import Embedding, Linear
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
]


class ParallelStyle:
    """What `parallelize_module` does to a module; own styles override `_apply`."""

    src_data_rank: int | None = 0

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        raise NotImplementedError


def _cut(module, name, mesh, placement, source):
    """A parameter becomes a DTensor."""
    param = module._parameters[name]
    if param is not None:
        spread = distribute_tensor(param.data, mesh, [placement], src_data_rank=source)
        module.register_parameter(name, Parameter(spread, requires_grad=param.requires_grad))


def _arrived(value, mesh, is_like, wanted):
    """An input as a DTensor with the placements that the layer wants."""
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, mesh, is_like, run_check=False)
    return value if value.placements == tuple(wanted) else value.redistribute(placements=wanted)


def _left(value, wanted, as_local):
    """An output with the placements that the caller wants."""
    if isinstance(value, DTensor):
        value = value.redistribute(placements=wanted)
        return value.to_local() if as_local else value
    return value


class _OfLayers(ParallelStyle):
    """Styles of Linear and Embedding."""

    wanted: tuple[Placement, ...]
    input_layouts: tuple[Placement, ...]
    output_layouts: tuple[Placement, ...]
    use_local_output: bool

    def _weights(self, module: Module) -> dict[str, Placement]:
        """Placements of the parameters of a layer."""
        raise NotImplementedError

    def _wanted(self, module: Module) -> tuple[Placement, ...]:
        return (Replicate(),)

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        if not isinstance(module, (Linear, Embedding)):
            raise NotImplementedError(
                f"{type(self).__name__} currently only support nn.Linear and nn.Embedding!"
            )
        weights, wanted = self._weights(module), self._wanted(module)

        def parts(name: str, part: Module, mesh: DeviceMesh) -> None:
            for key in part._parameters:
                _cut(part, key, mesh, weights[key], self.src_data_rank)

        def before(_: Module, inputs: tuple, mesh: DeviceMesh) -> tuple:
            return (_arrived(inputs[0], mesh, self.input_layouts, wanted), *inputs[1:])

        def after(_: Module, outputs: Any, mesh: DeviceMesh) -> Any:
            return _left(outputs, self.output_layouts, self.use_local_output)

        return distribute_module(module, device_mesh, parts, before, after)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(input_layouts={self.input_layouts}, "
            f"output_layouts={self.output_layouts}, use_local_output={self.use_local_output})"
        )


class ColwiseParallel(_OfLayers):
    """Each process computes some of the outputs of a Linear (columns of an Embedding).

    Args:
        input_layouts: how plain inputs lie; everybody has them by default.
        output_layouts: how outputs are wanted; cut along the last dimension by default.
        use_local_output: give plain tensors.
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layouts = (input_layouts or Replicate(),)
        self.output_layouts = (output_layouts or Shard(-1),)
        self.use_local_output = use_local_output

    def _weights(self, module: Module) -> dict[str, Placement]:
        if isinstance(module, Embedding):
            return {"weight": Shard(1)}
        return {"weight": Shard(0), "bias": Shard(0)}


class RowwiseParallel(_OfLayers):
    """Each process sums over some of the inputs of a Linear (has some rows of an Embedding).

    Args:
        input_layouts: how plain inputs lie; cut along the last dimension by default.
        output_layouts: how outputs are wanted; everybody has them by default.
        use_local_output: give plain tensors.
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layouts = (input_layouts or Shard(-1),)
        self.output_layouts = (output_layouts or Replicate(),)
        self.use_local_output = use_local_output

    def _weights(self, module: Module) -> dict[str, Placement]:
        if isinstance(module, Embedding):
            return {"weight": Shard(0)}
        return {"weight": Shard(1), "bias": Replicate()}

    def _wanted(self, module: Module) -> tuple[Placement, ...]:
        return (Replicate(),) if isinstance(module, Embedding) else (Shard(-1),)


class SequenceParallel(ParallelStyle):
    """Each process computes a part of the sequence; weights are everybody's.

    Args:
        sequence_dim: the dimension of inputs that is cut.
        use_local_output: give plain tensors.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def parts(name: str, part: Module, mesh: DeviceMesh) -> None:
            for key in part._parameters:
                # weights of norms are made alike everywhere, so nothing is sent
                _cut(part, key, mesh, Replicate(), None)

        def before(_: Module, inputs: tuple, mesh: DeviceMesh) -> tuple:
            if not isinstance(inputs[0], Tensor):
                raise ValueError(
                    f"expecting input of {module} to be a torch.Tensor or DTensor, but got "
                    f"{inputs[0]}"
                )
            wanted = self.sequence_sharding
            return (_arrived(inputs[0], mesh, wanted, wanted), *inputs[1:])

        def after(_: Module, outputs: Any, mesh: DeviceMesh) -> Any:
            return outputs.to_local() if self.use_local_output else outputs

        return distribute_module(module, device_mesh, parts, before, after)

    def __repr__(self) -> str:
        return (
            f"SequenceParallel(sequence_dim={self.sequence_sharding[0].dim}, "
            f"use_local_output={self.use_local_output})"
        )


def _several(layouts):
    if layouts is None:
        return None
    return (layouts,) if isinstance(layouts, Placement) else tuple(layouts)


def _check_pairs(what, layouts, wanted):
    """There is a wanted layout for each."""
    text = f"{what}_layouts and desired_{what}_layouts should have same length!"
    assert len(layouts) == len(wanted), text


def _prepared(value, mesh, layout, wanted, as_local):
    """One tensor, from the layout it has to the one it should have."""
    if layout is None:
        return value
    if not isinstance(value, DTensor):
        assert isinstance(value, Tensor), f"expecting a torch.Tensor or DTensor, but got {value}"
        value = DTensor.from_local(value, mesh, (layout,), run_check=False)
    if wanted is not None and layout != wanted:
        value = value.redistribute(placements=(wanted,))
    return value.to_local() if as_local else value


class PrepareModuleInput(ParallelStyle):
    """Inputs of a module become DTensors, as the module wants them.

    Args:
        input_layouts: how plain tensors among the inputs lie; None for what is left alone.
        desired_input_layouts: how the module wants them.
        input_kwarg_layouts: the same for keyword arguments.
        desired_input_kwarg_layouts: the same for keyword arguments.
        use_local_output: give the module plain tensors.
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict | None = None,
        desired_input_kwarg_layouts: dict | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.use_local_output = use_local_output
        self.input_layouts = _several(input_layouts)
        self.desired_input_layouts = _several(desired_input_layouts)
        if self.input_layouts is not None:
            assert desired_input_layouts is not None, "desired module inputs should not be None!"
            _check_pairs("input", self.input_layouts, self.desired_input_layouts)
        self.with_kwargs = input_kwarg_layouts is not None
        self.input_kwarg_layouts = dict(input_kwarg_layouts or {})
        self.desired_input_kwarg_layouts = dict(desired_input_kwarg_layouts or {})
        if self.with_kwargs:
            pair = self.input_kwarg_layouts, self.desired_input_kwarg_layouts
            _check_pairs("input_kwarg", *pair)

    def _inputs(self, mesh: DeviceMesh, inputs: Any) -> Any:
        if self.input_layouts is None:
            return inputs
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        if len(inputs) != len(self.input_layouts):
            raise ValueError("module inputs and input_layouts should have same length!")
        wanted = self.desired_input_layouts or ()
        rows = zip(inputs, self.input_layouts, wanted)
        return tuple(_prepared(v, mesh, a, b, self.use_local_output) for v, a, b in rows)

    def _keywords(self, mesh: DeviceMesh, inputs: Any, kwargs: dict) -> tuple:
        found = {}
        for key, value in kwargs.items():
            layout = self.input_kwarg_layouts.get(key)
            wanted = self.desired_input_kwarg_layouts.get(key)
            found[key] = _prepared(value, mesh, layout, wanted, self.use_local_output)
        return self._inputs(mesh, inputs), found

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        if self.with_kwargs:
            told = partial(_with_keywords, self, device_mesh)
            module.register_forward_pre_hook(told, with_kwargs=True)
        else:
            module.register_forward_pre_hook(lambda m, inputs: self._inputs(device_mesh, inputs))
        return module

    def __repr__(self) -> str:
        return (
            f"PrepareModuleInput(input_layouts={self.input_layouts}, "
            f"desired_input_layouts={self.desired_input_layouts}, "
            f"input_kwarg_layouts={self.input_kwarg_layouts}, "
            f"desired_input_kwarg_layouts={self.desired_input_kwarg_layouts}, "
            f"use_local_output={self.use_local_output})"
        )


def _with_keywords(style, mesh, module, inputs, kwargs):
    return style._keywords(mesh, inputs, kwargs)


class PrepareModuleOutput(ParallelStyle):
    """Outputs of a module become DTensors, as its caller wants them.

    Args:
        output_layouts: how plain tensors among the outputs lie; None for what is left alone.
        desired_output_layouts: how they are wanted.
        use_local_output: give plain tensors.
    """

    def __init__(
        self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True
    ) -> None:
        self.output_layouts = _several(output_layouts)
        self.desired_output_layouts = _several(desired_output_layouts)
        self.use_local_output = use_local_output
        _check_pairs("output", self.output_layouts, self.desired_output_layouts)

    def _outputs(self, mesh: DeviceMesh, outputs: Any) -> Any:
        every = outputs if isinstance(outputs, tuple) else (outputs,)
        if len(every) != len(self.output_layouts):
            raise ValueError("module outputs and output_layouts should have same length!")
        rows = zip(every, self.output_layouts, self.desired_output_layouts)
        found = tuple(_prepared(v, mesh, a, b, self.use_local_output) for v, a, b in rows)
        return found[0] if len(found) == 1 else found

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        module.register_forward_hook(lambda m, inputs, out: self._outputs(device_mesh, out))
        return module

    def __repr__(self) -> str:
        return (
            f"PrepareModuleOutput(output_layouts={self.output_layouts}, "
            f"desired_output_layouts={self.desired_output_layouts}, "
            f"use_local_output={self.use_local_output})"
        )


class PrepareModuleInputOutput(ParallelStyle):
    """PrepareModuleInput and PrepareModuleOutput in one."""

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict | None = None,
        desired_input_kwarg_layouts: dict | None = None,
        use_local_input: bool = False,
        output_layouts: Any,
        desired_output_layouts: Any,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        self.prepare_module_output._apply(module, device_mesh)
        return module
