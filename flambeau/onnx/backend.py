"""`onnx.backend.base.Backend` over flambeau, so that suites written for backends run on it."""

from typing import Any

import numpy as np

import flambeau as torch
from flambeau import nn
from flambeau.onnx.importing import load
from flambeau.onnx.operators.values import array_of, tensor_of
from flambeau.onnx.protobufs import onnx

from onnx.backend.base import Backend, BackendRep, namedtupledict  # isort: skip

__all__ = ["FlambeauBackend", "FlambeauRep", "prepare", "run_model", "run_node", "supports_device"]


def given(value: Any) -> Any:
    """An input of a suite as a value of ours."""
    if value is None or isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (list, tuple)):
        return [given(entry) for entry in value]
    if isinstance(value, onnx.TensorProto):
        value = onnx.numpy_helper.to_array(value)
    return tensor_of(value)


def wanted(value: Any) -> Any:
    """A value of ours as suites compare it."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [wanted(entry) for entry in value]
    return array_of(value)


class FlambeauRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Outputs as arrays, named as in the file."""
        names = self.module.meta["onnx"]
        if isinstance(inputs, dict):
            inputs = [inputs.get(name) for name in names["inputs"]]
        elif isinstance(inputs, np.ndarray):
            inputs = [inputs]
        with torch.no_grad():
            results = self.module(*map(given, inputs))
        outputs = names["outputs"]
        if len(outputs) == 1:
            results = (results,)
        return namedtupledict("Outputs", outputs)(*map(wanted, results))


class FlambeauBackend(Backend):
    """Runs on the processor."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        return True

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> FlambeauRep:
        return FlambeauRep(load(model, trainable=False))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> Any:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> Any:
        """One node as a model of its own; `opset_version` says what it means."""
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        arrays = [np.asarray(value) for value in inputs]
        infos = [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in zip(node.input, arrays)
        ]
        outs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output]
        for out in outs:
            # The checker wants a type; what the node really gives is nobody's promise here.
            out.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
            out.type.tensor_type.shape.SetInParent()
        graph = onnx.helper.make_graph([node], "node", infos, outs)
        opsets = [onnx.helper.make_opsetid(node.domain, version)]
        return cls.run_model(onnx.helper.make_model(graph, opset_imports=opsets), arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


is_compatible = FlambeauBackend.is_compatible
prepare = FlambeauBackend.prepare
run_model = FlambeauBackend.run_model
run_node = FlambeauBackend.run_node
supports_device = FlambeauBackend.supports_device
