"""Tables of vectors: Embedding looks rows up, EmbeddingBag sums, averages or compares them."""

from dataclasses import InitVar
from typing import Any

from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import no_grad
from flambeau.eager.creation import empty
from flambeau.nn import init
from flambeau.nn.modules.declaring import layer
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


def _padding_row(padding_idx, num_embeddings, name):
    """The row that stands for nothing, counted from the front."""
    if padding_idx is None:
        return None
    if not -num_embeddings <= padding_idx < num_embeddings:
        raise AssertionError(f"{name} must be within num_embeddings")
    return padding_idx % num_embeddings


def _checked(embeddings):
    """The sizes and the table of a layer around a table that exists."""
    if embeddings.dim() != 2:
        raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
    rows, columns = embeddings.shape
    return {"num_embeddings": rows, "embedding_dim": columns, "_weight": embeddings}


# what the text of a table leaves out, unless it is something else
_USUAL = {
    "padding_idx": None,
    "max_norm": None,
    "norm_type": 2,
    "scale_grad_by_freq": False,
    "sparse": False,
}


class _Table(Module):
    """The weight (num_embeddings, embedding_dim) and its padding row."""

    weight: Any
    _shown: tuple[str, ...]  # options in the text, in order

    def _make_weight(self, given, frozen, device, dtype):
        shape = [self.num_embeddings, self.embedding_dim]
        if given is not None and list(given.shape) != shape:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        table = empty(shape, device=device, dtype=dtype) if given is None else given
        self.weight = Parameter(table, requires_grad=not frozen)
        if given is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal numbers; the padding row is zero."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].zero_()

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        for name in self._shown:
            value = getattr(self, name)
            if name not in _USUAL or value != _USUAL[name]:
                text += f", {name}={value!r}"
        return text


@layer(
    "embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)",
    takes="input: Tensor",
)
class Embedding(_Table):
    """Rows of a table: indices (*) give (*, embedding_dim).

    padding_idx: a row that starts at zero and gets no gradient. max_norm: rows that are looked up
    are first shortened to this norm.
    """

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None = None
    max_norm: float | None = None
    norm_type: float = 2.0
    scale_grad_by_freq: bool = False
    sparse: bool = False
    _weight: InitVar[Tensor | None] = None
    _freeze: InitVar[bool] = False
    device: InitVar[Any] = None
    dtype: InitVar[Any] = None

    _shown = ("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")

    def _settle(self, _weight, _freeze, device, dtype):
        self.padding_idx = _padding_row(self.padding_idx, self.num_embeddings, "Padding_idx")
        self._make_weight(_weight, _freeze, device, dtype)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> "Embedding":
        """An embedding around a table that exists; frozen: it does not learn."""
        options: dict = {"padding_idx": padding_idx, "max_norm": max_norm, "norm_type": norm_type}
        options |= {"scale_grad_by_freq": scale_grad_by_freq, "sparse": sparse}
        return cls(**_checked(embeddings), **options, _freeze=freeze)


@layer(
    "embedding_bag(input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse,"
    " per_sample_weights, include_last_offset, padding_idx)",
    takes="input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None",
)
class EmbeddingBag(_Table):
    """Sums, means or maxima of rows: indices (B, n), or (n) with offsets (B), give
    (B, embedding_dim). No table of all looked-up rows is made.
    """

    num_embeddings: int
    embedding_dim: int
    max_norm: float | None = None
    norm_type: float = 2.0
    scale_grad_by_freq: bool = False
    mode: str = "mean"
    sparse: bool = False
    _weight: InitVar[Tensor | None] = None
    include_last_offset: bool = False
    padding_idx: int | None = None
    device: InitVar[Any] = None
    dtype: InitVar[Any] = None

    _shown = ("max_norm", "norm_type", "scale_grad_by_freq", "mode", "padding_idx")

    def _settle(self, _weight, device, dtype):
        self.padding_idx = _padding_row(self.padding_idx, self.num_embeddings, "padding_idx")
        self._make_weight(_weight, False, device, dtype)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> "EmbeddingBag":
        """A bag around a table that exists; frozen: it does not learn."""
        options: dict = {"mode": mode, "sparse": sparse, "max_norm": max_norm}
        options |= {"norm_type": norm_type, "scale_grad_by_freq": scale_grad_by_freq}
        options |= {"include_last_offset": include_last_offset, "padding_idx": padding_idx}
        bag = cls(**_checked(embeddings), **options)
        bag.weight.requires_grad_(not freeze)
        return bag
