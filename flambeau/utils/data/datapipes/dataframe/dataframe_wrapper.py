"""What pipes ask of data frames; pandas answers, unless a program sets somebody else."""

import importlib.util
import sys
from collections.abc import Iterator
from typing import Any


class PandasWrapper:
    """The answers of pandas. Nothing is a frame before a program has imported it."""

    @classmethod
    def _pandas(cls) -> Any:
        return sys.modules.get("pandas")

    @classmethod
    def create_dataframe(cls, data: Any, columns: Any) -> Any:
        if importlib.util.find_spec("pandas") is None:
            raise RuntimeError("DataFrames prototype requires pandas to function")
        return importlib.import_module("pandas").DataFrame(data, columns=columns)

    @classmethod
    def is_dataframe(cls, data: Any) -> bool:
        pandas = cls._pandas()
        return pandas is not None and isinstance(data, pandas.DataFrame)

    @classmethod
    def is_column(cls, data: Any) -> bool:
        pandas = cls._pandas()
        return pandas is not None and isinstance(data, pandas.Series)

    @classmethod
    def iterate(cls, data: Any) -> Iterator[Any]:
        yield from data.itertuples(index=False)

    @classmethod
    def concat(cls, buffer: Any) -> Any:
        return cls._pandas().concat(buffer)

    @classmethod
    def get_item(cls, data: Any, idx: Any) -> Any:
        return data[idx : idx + 1]

    @classmethod
    def get_len(cls, df: Any) -> int:
        return len(df.index)

    @classmethod
    def get_columns(cls, df: Any) -> Any:
        return list(df.columns.values.tolist())


default_wrapper: Any = PandasWrapper


def get_df_wrapper() -> Any:
    """Who answers."""
    return default_wrapper


def set_df_wrapper(wrapper: Any) -> None:
    """Let a class with the methods of `PandasWrapper` answer."""
    global default_wrapper
    default_wrapper = wrapper


def create_dataframe(data: Any, columns: Any = None) -> Any:
    """A frame of rows."""
    return default_wrapper.create_dataframe(data, columns)


def is_dataframe(data: Any) -> bool:
    return default_wrapper.is_dataframe(data)


def is_column(data: Any) -> bool:
    return default_wrapper.is_column(data)


def concat(buffer: Any) -> Any:
    """One frame of the rows of several."""
    return default_wrapper.concat(buffer)


def iterate(data: Any) -> Any:
    """The rows of a frame, as tuples."""
    return default_wrapper.iterate(data)


def get_item(data: Any, idx: Any) -> Any:
    """The frame of one row."""
    return default_wrapper.get_item(data, idx)


def get_len(df: Any) -> int:
    """How many rows a frame has."""
    return default_wrapper.get_len(df)


def get_columns(df: Any) -> Any:
    """The names of its columns."""
    return default_wrapper.get_columns(df)
