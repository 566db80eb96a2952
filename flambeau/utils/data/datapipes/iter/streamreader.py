"""Files read."""

from collections.abc import Iterator
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe

__all__ = ["StreamReaderIterDataPipe"]


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe[tuple[str, Any]]):
    """Pairs of a path and what its file holds (functional name: ``read_from_stream``).

    Args:
        datapipe: the source, of pairs of a path and an open file.
        chunk: how many characters or bytes a pair has at most; all if not given.

    Example:
        >>> from io import StringIO
        >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([("a", StringIO("abc"))]).read_from_stream(chunk=2))
        [('a', 'ab'), ('a', 'c')]
    """

    def __init__(self, datapipe: IterDataPipe[Any], chunk: int | None = None) -> None:
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for path, stream in self.datapipe:
            while data := stream.read(self.chunk):
                yield path, data
            stream.close()
