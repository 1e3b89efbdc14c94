"""Records of an input, as Arrow streams."""

from __future__ import annotations

from ._results import losses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from . import _native
    from ._errors import Error
    from ._results import Loss


class Scan:
    """An opened input of records.

    pyarrow, polars, pandas, duckdb and other Arrow libraries accept it directly, and each use starts a new stream.
    Nothing is read before the first batch is requested. After that, batches are read ahead as far as memory allows.

    Example:
        >>> rows = tensorferry.scan("rows.jsonl")
        >>> rows.schema
        {'id': 'int64', 'text': 'utf8'}
    """

    def __init__(self, raw: _native.Scan, again: tuple[Callable[..., Scan], tuple[object, ...]]) -> None:
        self._raw = raw
        self._again = again

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns a new stream of all records. `requested_schema` is ignored; consumers cast the batches themselves."""
        return self._raw.stream(None)

    def __arrow_c_schema__(self) -> object:
        return self._raw.schema()

    def __repr__(self) -> str:
        return f"<tensorferry.Scan {self.path!r}: {', '.join(self.schema)}>"

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return self._again

    @property
    def path(self) -> str:
        """The path that was opened."""
        return str(self._again[1][0])

    @property
    def format(self) -> str:
        """The id of the input format."""
        return self._raw.format()

    @property
    def schema(self) -> dict[str, str]:
        """The columns after the steps: their names, and their types as `ferry inspect` prints them."""
        return dict(self._raw.columns())

    @property
    def splits(self) -> int:
        """The number of splits that can be read in parallel. It is 1 if there are steps."""
        return self._raw.splits()

    @property
    def known_records(self) -> int | None:
        """The number of records, or `None` if it is not known without reading them."""
        return self._raw.known_records()

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses found so far: content of the input that the batches cannot represent."""
        return losses(self._raw.losses())

    @property
    def error(self) -> Error | None:
        """The error of the latest stream that failed. Libraries that read a stream raise their own exceptions."""
        return self._raw.error()

    def split(self, number: int) -> Split:
        """Returns one split as a separate stream.

        Args:
            number: The number of the split, from 0.

        Raises:
            IndexError: There is no such split.
        """
        if not 0 <= number < self.splits:
            raise IndexError(f"split {number} of {self.splits}")
        return Split(self, number)

    def to_pyarrow(self):  # type: ignore[no-untyped-def]
        """Returns a new `pyarrow.RecordBatchReader`."""
        import pyarrow  # type: ignore[import-untyped]

        return pyarrow.RecordBatchReader.from_stream(self)


class Split:
    """A split of a scan, which any Arrow library can read."""

    def __init__(self, scan: Scan, number: int) -> None:
        self._scan = scan
        self._number = number

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._scan._raw.stream(self._number)

    def __repr__(self) -> str:
        return f"<split {self._number} of {self._scan!r}>"

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return Split, (self._scan, self._number)
