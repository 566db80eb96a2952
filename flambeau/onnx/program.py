"""What `torch.onnx.export` gives: a model that can be saved, checked and run."""

import os
from pathlib import Path
from typing import Any

import numpy as np

import flambeau as torch
from flambeau.onnx.errors import OnnxExporterError
from flambeau.onnx.operators.values import array_of, elem_type_of, tensor_of
from flambeau.onnx.protobufs import onnx
from flambeau.utils import _pytree as pytree

__all__ = ["ONNXProgram"]

LARGEST = 2**31 - 2**20  # what a file of the format can hold, less the graph
ALIGNED = 4096  # tensors of another file begin on pages, so that they can be mapped


class ONNXProgram:
    """A model in ONNX, and the program that it was written from."""

    def __init__(self, proto: Any, weights: dict[str, Any], exported_program: Any) -> None:
        self._proto = proto  # without weights
        self._weights = weights
        self.exported_program = exported_program
        self._session: Any = None

    def __repr__(self) -> str:
        graph = self._proto.graph
        inputs = ", ".join(value.name for value in graph.input)
        outputs = ", ".join(value.name for value in graph.output)
        return f"ONNXProgram({inputs} -> {outputs}; {len(graph.node)} nodes)"

    @property
    def model_proto(self) -> Any:
        """The model with its weights, as the package onnx has it."""
        return self.assembled(True, False)

    model = model_proto

    def assembled(self, weights: bool, as_inputs: bool) -> Any:
        """A copy with weights, or with inputs in their place, or both."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self._proto)
        for name, value in self._weights.items():
            array = array_of(value)
            if weights:
                proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
            if as_inputs or not weights:
                info = onnx.helper.make_tensor_value_info(name, elem_type_of(array), array.shape)
                proto.graph.input.append(info)
        return proto

    def check(self) -> None:
        """By the rules of the format, shapes and types inferred."""
        bare = self.assembled(False, False)
        try:
            onnx.checker.check_model(bare, full_check=True)
        except Exception as error:
            raise OnnxExporterError(f"the model breaks the rules of ONNX: {error}") from error

    def save(
        self,
        destination: str | os.PathLike,
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
    ) -> None:
        """Write the model. Weights go to a file beside it if asked for, or if too large."""
        size = sum(array_of(value).nbytes for value in self._weights.values())
        beside = external_data or (external_data is None and size > LARGEST)
        if not include_initializers or not beside:
            proto = self.assembled(include_initializers, keep_initializers_as_inputs)
            if hasattr(destination, "write"):
                destination.write(proto.SerializeToString())
            else:
                Path(destination).write_bytes(proto.SerializeToString())
            return
        self._save_beside(Path(destination), keep_initializers_as_inputs)

    def _save_beside(self, path: Path, as_inputs: bool) -> None:
        """Weights one after the other in `model.onnx.data`."""
        proto = self.assembled(False, False) if as_inputs else onnx.ModelProto()
        if not as_inputs:
            proto.CopyFrom(self._proto)
        location = f"{path.name}.data"
        with open(path.with_name(location), "wb") as file:
            for name, value in self._weights.items():
                array = np.ascontiguousarray(array_of(value))
                file.write(b"\0" * (-file.tell() % ALIGNED if array.nbytes >= ALIGNED else 0))
                tensor = proto.graph.initializer.add()
                tensor.name, tensor.data_type = name, elem_type_of(array)
                tensor.dims.extend(value.shape)
                tensor.data_location = onnx.TensorProto.EXTERNAL
                entries = ("location", location), ("offset", file.tell()), ("length", array.nbytes)
                for key, entry in entries:
                    field = tensor.external_data.add()
                    field.key, field.value = key, str(entry)
                file.write(array.tobytes())
        path.write_bytes(proto.SerializeToString())

    def apply_weights(self, state_dict: Any) -> None:
        """Other values for weights that go by these names."""
        for name, value in state_dict.items():
            if name in self._weights:
                self._weights[name] = value.detach()
        self._session = None

    def initialize_inference_session(self, initializer: Any = None) -> None:
        """Prepare onnxruntime (or what `initializer` makes of the serialized model)."""
        data = self.model_proto.SerializeToString()
        if initializer is not None:
            self._session = initializer(data)
            return
        try:
            import onnxruntime
        except ImportError as error:
            raise ImportError(
                "running an ONNXProgram needs the package onnxruntime; install it with "
                "`pip install onnxruntime`, or load the program with flambeau.onnx.load"
            ) from error
        self._session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run it by onnxruntime; tensors in, tensors out."""
        if self._session is None:
            self.initialize_inference_session()
        flat = pytree.tree_leaves((args, kwargs))
        tensors = [value for value in flat if isinstance(value, torch.Tensor)]
        names = [value.name for value in self._session.get_inputs()]
        feed = dict(zip(names, map(array_of, tensors)))
        return tuple(tensor_of(value) for value in self._session.run(None, feed))

    def release(self) -> None:
        """Let the session go."""
        self._session = None

    def verify(self, args: Any, kwargs: Any) -> None:
        """Compare with the program that it was written from."""
        expected = pytree.tree_leaves(self.exported_program.module()(*args, **kwargs))
        for ours, theirs in zip(expected, self(*args, **kwargs)):
            torch.testing.assert_close(theirs, ours.detach(), rtol=1e-3, atol=1e-4)
