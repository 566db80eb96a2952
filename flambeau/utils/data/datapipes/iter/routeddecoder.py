"""Files decoded by the ends of their names."""

from collections.abc import Callable, Iterable, Iterator, Sized
from io import BufferedIOBase
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import _deprecation_warning
from ..utils.decoder import Decoder, basichandlers, extension_extract_fn, imagehandler
from .utils import no_length

__all__ = ["RoutedDecoderIterDataPipe"]


@functional_datapipe("routed_decode")
class RoutedDecoderIterDataPipe(IterDataPipe[tuple[str, Any]]):
    """Pairs of a path and what its file means (functional name: ``routed_decode``).

    Args:
        datapipe: the source, of pairs of a path and an open file.
        handlers: functions of a key and the bytes that answer None for keys of others; basic kinds
            and images if there are none.
        key_fn: the key of a path: the end of its name.
    """

    def __init__(
        self,
        datapipe: Iterable[tuple[str, BufferedIOBase]],
        *handlers: Callable[..., Any],
        key_fn: Callable[..., Any] = extension_extract_fn,
    ) -> None:
        super().__init__()
        self.datapipe = datapipe
        self.decoder = Decoder(*(handlers or (basichandlers, imagehandler("torch"))), key_fn=key_fn)
        _deprecation_warning(
            type(self).__name__,
            deprecation_version="1.12",
            removal_version="1.13",
            old_functional_name="routed_decode",
        )

    def add_handler(self, *handler: Callable[..., Any]) -> None:
        """Functions that are asked before the others."""
        self.decoder.add_handler(*handler)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for pair in self.datapipe:
            path = pair[0]
            yield path, self.decoder(pair)[path]

    def __len__(self) -> int:
        if isinstance(self.datapipe, Sized):
            return len(self.datapipe)
        raise no_length(self)
