"""Random sparse tensors for measurements."""

import math
from typing import Any

import numpy as np

import flambeau
from flambeau.utils.benchmark.utils.fuzzer import FuzzedTensor

__all__ = ["FuzzedSparseTensor"]


class FuzzedSparseTensor(FuzzedTensor):
    """A tensor of coordinates; sparse_dim, nnz or density, and coalesced name parameters."""

    def __init__(
        self,
        name: str,
        size: tuple[str | int, ...],
        min_elements: int | None = None,
        max_elements: int | None = None,
        dim_parameter: str | None = None,
        sparse_dim: str | None = None,
        nnz: str | None = None,
        density: str | None = None,
        coalesced: str | None = None,
        dtype: Any = flambeau.float32,
        cuda: bool = False,
    ) -> None:
        super().__init__(
            name,
            size,
            min_elements=min_elements,
            max_elements=max_elements,
            dim_parameter=dim_parameter,
            dtype=dtype,
            cuda=cuda,
        )
        self._density, self._coalesced = density, coalesced
        self._sparse_dim, self._nnz = sparse_dim, nnz

    def _make_tensor(self, params: dict, state: np.random.RandomState) -> tuple:
        size, _, _ = self._get_size_and_steps(params)
        count = params[self._sparse_dim] if self._sparse_dim else len(size)
        places = math.prod(size[:count])
        nnz = params[self._nnz] if self._nnz else math.ceil(places * params[self._density or ""])
        coalesced = bool(params[self._coalesced]) if self._coalesced else False
        chosen = state.choice(places, size=nnz, replace=not coalesced or nnz > places)
        indices = flambeau.tensor(np.stack(np.unravel_index(chosen, size[:count])))
        values = self.default_tensor_constructor((nnz, *size[count:]), self._dtype)
        tensor = flambeau.sparse_coo_tensor(indices, values, size)
        tensor = tensor.coalesce() if coalesced else tensor
        if self._cuda:
            tensor = tensor.cuda()
        return tensor, {
            "numel": tensor.numel(),
            "shape": tensor.size(),
            "is_coalesced": tensor.is_coalesced(),
            "density": nnz / places if places else 0.0,
            "sparsity": 1 - nnz / places if places else 1.0,
            "sparse_dim": tensor.sparse_dim(),
            "dense_dim": tensor.dense_dim(),
            "is_hybrid": tensor.dense_dim() > 0,
            "dtype": str(self._dtype),
        }
