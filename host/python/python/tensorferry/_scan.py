"""Records of an input, as streams that any Arrow library takes."""

from __future__ import annotations

from ._results import losses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from . import _native
    from ._errors import Error
    from ._results import Loss


class Scan:
    """An opened input of records. pyarrow, polars, pandas, duckdb and others take it as it is: each of them begins a
    new stream. Nothing is read before the first batch is asked for, and then so far ahead as memory allows.
    """

    def __init__(self, raw: _native.Scan, again: tuple[Callable[..., Scan], tuple[object, ...]]) -> None:
        self._raw = raw
        self._again = again

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A new stream of all records. What a consumer would like the types to be is left to its own cast."""
        return self._raw.stream(None)

    def __arrow_c_schema__(self) -> object:
        return self._raw.schema()

    def __repr__(self) -> str:
        return f"<tensorferry.Scan {self.path!r}: {', '.join(self.schema)}>"

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return self._again

    @property
    def path(self) -> str:
        """Where it was opened."""
        return str(self._again[1][0])

    @property
    def format(self) -> str:
        """The id of the format that it is read as."""
        return self._raw.format()

    @property
    def schema(self) -> dict[str, str]:
        """The columns after the steps: names, and types as `ferry inspect` calls them."""
        return dict(self._raw.columns())

    @property
    def splits(self) -> int:
        """How many stretches of records can be read at the same time; records that go through steps are one."""
        return self._raw.splits()

    @property
    def known_records(self) -> int | None:
        """How many records there are, where that is known without reading them."""
        return self._raw.known_records()

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What batches cannot say of the input, as far as it has been read."""
        return losses(self._raw.losses())

    @property
    def error(self) -> Error | None:
        """Why the latest stream failed that did: whoever pulls a stream raises an exception of its own."""
        return self._raw.error()

    def split(self, number: int) -> Split:
        """One of the splits, as a stream of its own. Raises `IndexError` if there is none of this number, from 0."""
        if not 0 <= number < self.splits:
            raise IndexError(f"split {number} of {self.splits}")
        return Split(self, number)

    def to_pyarrow(self):  # type: ignore[no-untyped-def]
        """A new `pyarrow.RecordBatchReader`."""
        import pyarrow  # type: ignore[import-untyped]

        return pyarrow.RecordBatchReader.from_stream(self)


class Split:
    """One split of a scan, which any Arrow library takes."""

    def __init__(self, scan: Scan, number: int) -> None:
        self._scan = scan
        self._number = number

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._scan._raw.stream(self._number)

    def __repr__(self) -> str:
        return f"<split {self._number} of {self._scan!r}>"

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return Split, (self._scan, self._number)
