"""Masks of attention by blocks: which blocks of scores there are, and what holds within them."""

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor

_DEFAULT_SPARSE_BLOCK_SIZE = 128


def numbers(shape: Any, device: Any) -> list[Tensor]:
    """Numbers of batches, heads, queries and keys, each along its own dimension."""
    found = []
    for k, size in enumerate(shape):
        view = [1] * len(shape)
        view[k] = size
        found.append(flambeau.arange(size, device=device).view(view))
    return found


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """All keys for all queries."""
    return batch.new_ones(size=(), dtype=flambeau.bool, device=batch.device)


def _sliced_mask_mod_error(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Tensor:
    """The mask function of a part of a mask, which counts from another start."""
    raise RuntimeError(
        "Cannot use mask_mod from a sliced BlockMask. When you slice a BlockMask using [], the "
        "mask_mod attribute is reset. You must set it from the original BlockMask's mask_mod."
    )


def _check_functions(mask_mods: tuple) -> None:
    if not all(callable(function) for function in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")


def or_masks(*mask_mods: Callable) -> Callable:
    """A mask function: what any of some allow."""
    _check_functions(mask_mods)

    def or_mask(b, h, q_idx, kv_idx):
        found = b.new_zeros((), dtype=flambeau.bool)
        for function in mask_mods:
            found = found | function(b, h, q_idx, kv_idx)
        return found

    return or_mask


def and_masks(*mask_mods: Callable) -> Callable:
    """A mask function: what all of some allow."""
    _check_functions(mask_mods)

    def and_mask(b, h, q_idx, kv_idx):
        found = b.new_ones((), dtype=flambeau.bool)
        for function in mask_mods:
            found = found & function(b, h, q_idx, kv_idx)
        return found

    return and_mask


def _positional(function: Callable) -> int:
    """How many arguments a function takes by position."""
    import inspect

    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return sum(p.default is p.empty and p.kind in kinds for p in parameters)


def create_mask(
    mod_fn: Callable,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
) -> Tensor:
    """A mask function (or a score function, of zeros) as a tensor (B, H, Q_LEN, KV_LEN)."""
    shape = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    count = _positional(mod_fn)
    if count not in (4, 5):
        raise AssertionError(f"Expected 4 or 5 positional args, got {count}")
    if count == 5:
        scores = mod_fn(flambeau.zeros(shape, device=device), *numbers(shape, device))
        return flambeau.isneginf(scores).logical_not().expand(shape)
    return mod_fn(*numbers(shape, device)).to(flambeau.bool).expand(shape)


def _ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """(how many blocks of each row there are, their numbers, those that are not there last)."""
    dense = dense.to(flambeau.int32)
    counts = dense.sum(-1)
    indices = dense.argsort(dim=-1, descending=True, stable=True)
    return counts.to(flambeau.int32).contiguous(), indices.to(flambeau.int32).contiguous()


def _dense(counts: Tensor, indices: Tensor) -> Tensor:
    """The converse of _ordered."""
    columns = indices.size(-1)
    there = flambeau.arange(columns, device=counts.device) < counts.unsqueeze(-1)
    found = there.new_zeros(indices.shape, dtype=flambeau.int32)
    return found.scatter(-1, indices.long(), there.to(flambeau.int32))


class BlockMask:
    """Which blocks of scores are computed: for each row of blocks, how many, and their numbers.

    Blocks are partial (mask_mod decides within) or full. q_num_blocks and q_indices say the same by
    columns. Of create_block_mask or BlockMask.from_kv_blocks.
    """

    _TENSORS = (
        "kv_num_blocks kv_indices full_kv_num_blocks full_kv_indices q_num_blocks q_indices "
        "full_q_num_blocks full_q_indices"
    ).split()

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (_DEFAULT_SPARSE_BLOCK_SIZE, _DEFAULT_SPARSE_BLOCK_SIZE),
        mask_mod: Callable = noop_mask,
        **options: Any,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.is_exact = False  # does mask_mod alone say all that blocks do?

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: Callable | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
        **options: Any,
    ) -> "BlockMask":
        """A mask from blocks by rows; those by columns follow."""
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError(
                "full_kv_num_blocks and full_kv_indices must be both provided or omitted"
            )
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        by_columns: list[Any] = [None] * 4
        if compute_q_blocks:
            by_columns[:2] = _ordered(_dense(kv_num_blocks, kv_indices).transpose(-2, -1))
            if full_kv_num_blocks is not None and full_kv_indices is not None:
                full = _dense(full_kv_num_blocks, full_kv_indices)
                by_columns[2:] = _ordered(full.transpose(-2, -1))
        if seq_lengths is None:
            rows, columns = kv_indices.shape[-2:]
            seq_lengths = (rows * size[0], columns * size[1])
        made: Any = cls
        return made(
            seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices,
            *by_columns, BLOCK_SIZE=size, mask_mod=mask_mod or noop_mask,
        )  # fmt: skip

    def as_tuple(self, flatten: bool = True) -> tuple:
        """All there is, in PyTorch's order."""
        size = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        lengths = self.seq_lengths if flatten else (self.seq_lengths,)
        tensors = [getattr(self, name) for name in self._TENSORS]
        return (*lengths, *tensors, None, None, None, None, *size, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """Scores without a mask."""
        total = 1
        for size in self.shape:
            total *= size
        return total

    def sparsity(self) -> float:
        """How much of all scores is in blocks that are not computed, in percent."""
        blocks = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            blocks += int(self.full_kv_num_blocks.sum())
        return 100 * (1 - blocks * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Tensor:
        """A one for each block that is computed."""
        found = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is None or self.full_kv_indices is None:
            return found
        return found | _dense(self.full_kv_num_blocks, self.full_kv_indices)

    def to(self, device: Any) -> "BlockMask":
        """The same on another device."""
        return self._with(lambda t: t.to(device))

    def _with(self, change: Callable) -> "BlockMask":
        tensors = [getattr(self, name) for name in self._TENSORS]
        changed = [None if t is None else change(t) for t in tensors]
        kind: Any = BlockMask
        out = kind(self.seq_lengths, *changed, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod)
        out.is_exact = self.is_exact
        return out

    def __getitem__(self, index: Any) -> "BlockMask":
        index = index[:3] if isinstance(index, tuple) else (index,)  # not within rows of blocks
        kept = tuple(slice(k, k + 1 or None) if isinstance(k, int) else k for k in index)
        parts = [None if t is None else t[kept] for t in self._by_rows()]
        made: Any = BlockMask.from_kv_blocks
        out = made(
            *parts, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=_sliced_mask_mod_error,
            seq_lengths=self.seq_lengths, compute_q_blocks=self.q_indices is not None,
        )  # fmt: skip
        return out

    def _by_rows(self) -> list[Any]:
        return [getattr(self, name) for name in self._TENSORS[:4]]

    def _adjust(self, new_q_len: int, new_kv_len: int) -> "BlockMask":
        """The same for shorter sequences."""
        rows = -(-new_q_len // self.BLOCK_SIZE[0])
        columns = -(-new_kv_len // self.BLOCK_SIZE[1])
        partial = _dense(self.kv_num_blocks, self.kv_indices)[..., :rows, :columns]
        parts = [*_ordered(partial)]
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            full = _dense(self.full_kv_num_blocks, self.full_kv_indices)[..., :rows, :columns]
            parts += _ordered(full)
        made: Any = BlockMask.from_kv_blocks
        out = made(
            *parts, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod,
            seq_lengths=(new_q_len, new_kv_len),
        )  # fmt: skip
        out.is_exact = self.is_exact
        return out

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A picture of the blocks, of the first few batches and heads."""
        dense = self.to_dense()
        rows, columns = dense.shape[-2:]
        if isinstance(grid_size, int):
            grid_size = (rows, columns) if grid_size == -1 else (grid_size, grid_size)
        steps = max(-(-rows // grid_size[0]), 1), max(-(-columns // grid_size[1]), 1)
        lead = dense.shape[:-2]
        flat = dense.reshape(-1, rows, columns)
        pieces = []
        for k, blocks in enumerate(flat):
            if k == limit:
                pieces.append(
                    "...\nTo print out more, set BlockMask.to_string(limit=N)\nYou can also index "
                    "(BlockMask[batch, head]) to choose a specific batch or head"
                )
                break
            place: list[int] = []
            rest = k
            for size in reversed(lead):
                place.insert(0, rest % size)
                rest //= size
            pieces.append(f"{tuple(place)}\n{_picture(blocks.tolist(), *steps)}")
        return "\n".join(pieces)

    def __str__(self) -> str:
        text = f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n"
        return text + self.to_string().strip() + "\n)"

    def __repr__(self) -> str:
        def shown(name):
            t = getattr(self, name)
            return f"{name}={None if t is None else t.shape}"

        lines = [
            *map(shown, self._TENSORS),
            f"BLOCK_SIZE={self.BLOCK_SIZE}",
            f"shape={self.shape}",
            f"sparsity={self.sparsity():.2f}%",
            f"mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}",
        ]
        return "BlockMask(\n    " + ",\n    ".join(lines) + "\n)"


def _picture(blocks: list, high: int, wide: int) -> str:
    """Rows of cells, each of which stands for several blocks: all, some or none of them there."""
    text = ""
    for top in range(0, len(blocks), high):
        for left in range(0, len(blocks[0]), wide):
            cell = [there for row in blocks[top : top + high] for there in row[left : left + wide]]
            text += "██" if all(cell) else "░░" if any(cell) else "  "
        text += "\n"
    return text


def create_block_mask(
    mask_mod: Callable,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    **options: Any,
) -> BlockMask:
    """The blocks that a mask function leaves something in.

    Args:
        mask_mod: (batch, head, query number, key number) -> may this query see this key?
        B, H: None where the mask is the same for all batches or heads.

    Example:
        >>> from flambeau.nn.attention.flex_attention import create_block_mask
        >>> create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256).sparsity()
        25.0
    """
    if _positional(mask_mod) == 5:
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    high, wide = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    rows, columns = -(-Q_LEN // high), -(-KV_LEN // wide)
    padded = flambeau.nn.functional.pad(
        mask.to(flambeau.uint8), (0, columns * wide - KV_LEN, 0, rows * high - Q_LEN)
    )
    sums = padded.view(*mask.shape[:2], rows, high, columns, wide).sum((3, 5))
    there, full = sums > 0, sums == high * wide
    parts: list[Any] = [*_ordered(there & ~full), *_ordered(full)]
    if not separate_full_blocks:
        parts = [*_ordered(there)]
    made: Any = BlockMask.from_kv_blocks
    out = made(*parts, BLOCK_SIZE=(high, wide), mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN))
    out.is_exact = True
    return out


def mask_of(block_mask: BlockMask, query: Tensor) -> Tensor:
    """A mask for all scores of some queries."""
    lengths = block_mask.seq_lengths
    shape = (*query.shape[:2], *lengths)
    mask = block_mask.mask_mod(*numbers(shape, query.device)).to(flambeau.bool)
    if block_mask.is_exact:
        return mask.expand(shape)

    def spread(counts, indices):
        found = _dense(counts, indices).bool()
        for dim, size in ((-2, block_mask.BLOCK_SIZE[0]), (-1, block_mask.BLOCK_SIZE[1])):
            found = found.repeat_interleave(size, dim)
        return found[..., : lengths[0], : lengths[1]]

    mask = mask & spread(block_mask.kv_num_blocks, block_mask.kv_indices)
    if block_mask.full_kv_num_blocks is not None:
        mask = mask | spread(block_mask.full_kv_num_blocks, block_mask.full_kv_indices)
    return mask.expand(shape)
