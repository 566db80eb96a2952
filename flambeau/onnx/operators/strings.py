"""Operators on text, which lives in arrays of NumPy."""

import re
from typing import Any

import numpy as np

import flambeau as torch
from flambeau import Tensor
from flambeau.onnx.operators.table import op
from flambeau.onnx.operators.values import array_of, tensor_of


def texts(x: np.ndarray) -> np.ndarray:
    """Strings whatever they were stored as."""
    plain = [t.decode() if isinstance(t, bytes) else str(t) for t in x.reshape(-1)]
    return np.array(plain, dtype=object).reshape(x.shape)


@op("StringConcat", 20)
def string_concat(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(texts(a) + texts(b), dtype=object)


@op("StringSplit", 20)
def string_split(
    x: np.ndarray, *, delimiter: str | None = None, maxsplit: int | None = None
) -> tuple[np.ndarray, Tensor]:
    """Pieces in a new last dimension, filled up with empty ones, and how many there are."""
    most = -1 if maxsplit is None else maxsplit
    rows = [text.split(delimiter or None, most) for text in texts(x).reshape(-1)]
    width = max((len(row) for row in rows), default=0)
    filled = [row + [""] * (width - len(row)) for row in rows]
    pieces = np.array(filled, dtype=object).reshape([*x.shape, width])
    return pieces, torch.tensor([len(row) for row in rows], dtype=torch.int64).reshape(x.shape)


@op("RegexFullMatch", 20)
def regex_full_match(x: np.ndarray, *, pattern: str) -> Tensor:
    wanted = re.compile(pattern)
    found = [wanted.fullmatch(text) is not None for text in texts(x).reshape(-1)]
    return torch.tensor(found, dtype=torch.bool).reshape(x.shape)


@op("StringNormalizer", 10)
def string_normalizer(
    x: np.ndarray,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str = "en_US",
    stopwords: list[str] | None = None,
) -> np.ndarray:
    """Words without stop words, in the case that is asked for; nothing left is one empty word."""
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(case_change_action, str)
    stop = stopwords or []
    same = str if is_case_sensitive else str.lower
    barred = {same(word) for word in stop}
    rows = texts(x).reshape([-1, x.shape[-1]])
    kept = [[change(word) for word in row if same(word) not in barred] for row in rows]
    kept = [row or [""] for row in kept]
    shape = [*x.shape[:-1], len(kept[0])]
    return np.array(kept, dtype=object).reshape(shape)


@op("TfIdfVectorizer", 9)
def tf_idf_vectorizer(
    x: Any,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: list[int],
    ngram_indexes: list[int],
    pool_int64s: list[int] | None = None,
    pool_strings: list[str] | None = None,
    weights: list[float] | None = None,
) -> Tensor:
    """How often sequences of words of a pool occur, with gaps between them if allowed."""
    pool = pool_int64s if pool_int64s is not None else pool_strings or []
    places = gram_places(pool, ngram_counts, ngram_indexes)
    array = array_of(x)
    rows = array.reshape([-1, array.shape[-1]]) if array.ndim > 1 else array.reshape([1, -1])
    if pool_strings is not None:
        rows = texts(rows)
    size = max(ngram_indexes) + 1
    counts = np.zeros([len(rows), size], dtype=np.float32)
    for row, words in zip(counts, rows.tolist()):
        for gram in grams(words, min_gram_length, max_gram_length, max_skip_count):
            if gram in places:
                row[places[gram]] += 1
    factors = np.ones(size, dtype=np.float32)
    if weights is not None:
        factors[np.array(ngram_indexes)] = weights
    if mode == "IDF":
        counts = (counts > 0) * factors
    elif mode == "TFIDF":
        counts = counts * factors
    return tensor_of(counts.astype(np.float32).reshape([*array.shape[:-1], size]))


def gram_places(
    pool: list[Any], starts: list[int], places: list[int]
) -> dict[tuple[Any, ...], int]:
    """Column of each sequence of the pool; those of one length follow each other."""
    found = {}
    index = 0
    for length, start in enumerate(starts, 1):
        stop = starts[length] if length < len(starts) else len(pool)
        for first in range(start, stop, length):
            found[tuple(pool[first : first + length])] = places[index]
            index += 1
    return found


def grams(words: list[Any], least: int, most: int, skips: int) -> Any:
    """Sequences of words at equal distances; single words are counted once."""
    for length in range(least, most + 1):
        for skip in range(skips + 1 if length > 1 else 1):
            reach = (length - 1) * (skip + 1) + 1
            for first in range(len(words) - reach + 1):
                yield tuple(words[first : first + reach : skip + 1])
