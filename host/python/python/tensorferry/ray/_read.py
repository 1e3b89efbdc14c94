"""Records as a Ray dataset. The driver finds the schema once, and each task reads stretches of files.

If the format's reader accepts a schema as an option, a task opens only the files of its own group,
with the schema that the driver found. Without such an option, the files of a task may have a
different schema than all files together. The task then opens all files, as the driver did. All
blocks have the driver's schema.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow  # type: ignore[import-untyped]
import ray.data
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from .. import _api, _engine
from .._errors import Error, TransientError

if TYPE_CHECKING:
    from .. import _native

# The engines of this process, keyed by their settings, because one worker may read several
# datasets.
_engines: dict[str, _native.Engine] = {}


def read(  # type: ignore[no-untyped-def]
    path,
    steps=(),
    columns=None,
    *,
    part=None,
    from_=None,
    override_num_blocks=None,
    concurrency=None,
    num_cpus=None,
    **options,
):
    """Reads the records of a file or folder that all nodes share, in any supported format.

    The driver infers the column types from all files, unless an option (`schema`, `infer`)
    determines them.

    Args:
        path: A file, a folder or a URL.
        steps: Steps to apply to the records, as for `tensorferry.scan`. The tasks that read the records run the steps.
            Steps that depend on other records, such as `take` and `shuffle`, need a single task that reads everything.
        columns: The columns to keep, as for `tensorferry.scan`.
        part: A split of the input, as for `tensorferry.scan`.
        from_: The id of the format. By default the format is detected.
        override_num_blocks: As for `ray.data.read_datasource`.
        concurrency: As for `ray.data.read_datasource`.
        num_cpus: Processors and threads of each read task. By default 1.
        **options: Options of the format's reader.

    Returns:
        A `ray.data.Dataset`.

    Raises:
        Error: The input cannot be read, as for `tensorferry.scan`. Ray's exception for a failed task is also a
            `tensorferry.Error`.
    """
    if isinstance(path, (str, os.PathLike)):
        path = _absolute(os.fsdecode(os.fspath(path)))
    if options.get("schema") is not None:
        options["schema"] = _absolute(os.fsdecode(os.fspath(options["schema"])))
    asked, texts, columns = _api._records(path, steps, columns, part, from_, options)
    settings = {**_engine._settings, "threads": max(1, int(num_cpus or 1))}
    source = TensorferryDatasource(_Request(asked, texts, columns, bool(steps), settings))
    given = {"override_num_blocks": override_num_blocks, "concurrency": concurrency, "num_cpus": num_cpus}
    return ray.data.read_datasource(source, **{key: value for key, value in given.items() if value is not None})


@dataclass(frozen=True)
class _Request:
    """A read request, in the form that the engine accepts."""

    input: tuple[str, str | None, str | None, list[tuple[str, str]], bool]
    steps: list[str]
    columns: list[str] | None
    # Whether there are steps other than the column selection.
    is_changed: bool
    settings: dict[str, object]

    def of_format(self, format: str) -> _Request:
        """Returns the same request with the detected format."""
        path, _, part, options, follow_links = self.input
        asked = (path, format, part, options, follow_links)
        return _Request(asked, self.steps, self.columns, self.is_changed, self.settings)

    def open(self, engine: _native.Engine, group: tuple[str, list[str], str | None] | None = None) -> _native.Scan:
        return engine.scan(self.input, self.steps, self.columns, (False, []), group)


@dataclass(frozen=True)
class _Stretch:
    """A part of a file that can be read independently of the parts before it."""

    file: str
    offset: int
    bytes: int
    records: int | None

    @property
    def end(self) -> int:
        return self.offset + self.bytes


@dataclass(frozen=True)
class _Table:
    """The description of an input that the driver passes to its tasks."""

    request: _Request
    folder: str
    schema: Any
    # The schema as a file that the format's reader accepts, or `None`.
    schema_file: str | None


@dataclass(frozen=True)
class _Group:
    """The input of one task: consecutive stretches of one file, or one or more whole files."""

    stretches: tuple[_Stretch, ...]

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(stretch.file for stretch in self.stretches))

    @property
    def bytes(self) -> int:
        return _bytes(self.stretches)

    @property
    def records(self) -> int | None:
        return _sum(stretch.records for stretch in self.stretches)


class TensorferryDatasource(Datasource):
    """A Ray datasource for an input's records."""

    def __init__(self, request: _Request) -> None:
        super().__init__()
        here = _engine.engine()
        scan = request.open(here)
        request = request.of_format(scan.format())
        self._is_row_wise = scan.is_row_wise()
        self._table = _Table(request, _absolute(os.fsdecode(scan.folder())), _schema(scan), scan.schema_file())
        self._stretches = [_Stretch(*stretch) for stretch in scan.stretches()]
        if self._table.schema_file is not None and len(self._stretches) > 1:
            self._divide_as_tasks_do(here)

    def _divide_as_tasks_do(self, here: _native.Engine) -> None:
        """Divides the files as a reader with a given schema does.

        Such a reader may divide the files differently than a reader that infers the schema from all
        files. The known number of records of each file is kept.
        """
        files = list(dict.fromkeys(stretch.file for stretch in self._stretches))
        with _schema_at(self._table) as path:
            again = self._table.request.open(here, (self._table.folder, files, path))
            if not _is_same(again, self._table.schema):
                self._table = _Table(self._table.request, self._table.folder, self._table.schema, None)
                return
            divided = [_Stretch(*stretch) for stretch in again.stretches()]
        before, after = _by_file(self._stretches), _by_file(divided)
        self._stretches = [
            _Stretch(file, part.offset, part.bytes, _sum(one.records for one in before[file]) if len(parts) == 1 else part.records)
            for file, parts in after.items()
            for part in parts
        ]

    def get_name(self) -> str:
        return "Tensorferry"

    def estimate_inmemory_data_size(self) -> int | None:
        return _bytes(self._stretches)

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: object = None
    ) -> list[ReadTask]:
        groups = _groups(self._stretches, parallelism) if self._is_row_wise else []
        # There is at least one task, because even an input without records has columns.
        groups = groups or [_Group(tuple(self._stretches))]
        limit: dict[str, Any] = {} if per_task_row_limit is None else {"per_task_row_limit": per_task_row_limit}
        schema = self._table.schema
        return [ReadTask(_Reading(self._table, group), self._metadata(group), schema, **limit) for group in groups]

    def _metadata(self, group: _Group) -> BlockMetadata:
        # Steps may remove records.
        records = None if self._table.request.is_changed else group.records
        names = [os.path.join(self._table.folder, file) for file in group.files]
        return BlockMetadata(num_rows=records, size_bytes=group.bytes, input_files=names, exec_stats=None)


class _Reading:
    """The function of a read task, which yields the records of a group as tables with the driver's schema."""

    def __init__(self, table: _Table, group: _Group) -> None:
        self._table = table
        self._group = group

    def __call__(self) -> Iterator[Any]:
        yield self._table.schema.empty_table()
        if not self._group.stretches:
            return
        with _schema_at(self._table) as path:
            scan = self._open(_engine_of(self._table.request.settings), path)
            reader = pyarrow.RecordBatchReader.from_stream(_Stream(scan))
            try:
                for batch in reader:
                    block = pyarrow.Table.from_batches([batch])
                    # The schema of a block may differ in nullability and metadata.
                    yield block if block.schema == self._table.schema else block.cast(self._table.schema)
            except Exception as error:
                # pyarrow raises its own exception, which contains only the message.
                raise scan.error() or error from None

    def _open(self, engine: _native.Engine, schema_file: str | None) -> _native.Scan:
        request, group = self._table.request, self._group
        try:
            scan = request.open(engine, (self._table.folder, group.files, schema_file))
            if _is_same(scan, self._table.schema):
                return scan.narrowed(*_places(scan, group))
        except Error as error:
            if isinstance(error, TransientError) or schema_file is not None:
                raise
        # The schema or the stretches of these files depend on the other files, so the task opens
        # all files.
        scan = request.open(engine)
        return scan.narrowed(*_places(scan, group))


class _Stream:
    """A scan, as an Arrow stream for pyarrow."""

    def __init__(self, scan: _native.Scan) -> None:
        self._scan = scan

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._scan.stream(None)


class _Described:
    """The schema of a scan, for pyarrow."""

    def __init__(self, scan: _native.Scan) -> None:
        self._scan = scan

    def __arrow_c_schema__(self) -> object:
        return self._scan.schema()


class _schema_at:
    """A temporary file with the schema. Entering the context returns its path, or `None` without a schema file."""

    def __init__(self, table: _Table) -> None:
        self._text = table.schema_file
        self._file: Any = None

    def __enter__(self) -> str | None:
        if self._text is None:
            return None
        self._file = tempfile.NamedTemporaryFile("w", suffix=".json")
        self._file.write(self._text)
        self._file.flush()
        return str(self._file.name)

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def _groups(stretches: Sequence[_Stretch], count: int) -> list[_Group]:
    """Returns about `count` groups of about the same number of bytes, in order."""
    each = max(1, -(-_bytes(stretches) // max(1, count)))
    groups: list[_Group] = []
    # Consecutive whole files, each as a list of its stretches.
    files: list[list[_Stretch]] = []
    for parts in _by_file(stretches).values():
        if len(parts) > 1 and _bytes(parts) > each:
            groups += _dealt(files, each)
            files = []
            groups += _dealt([[part] for part in parts], each)
        else:
            files.append(parts)
    return groups + _dealt(files, each)


def _dealt(units: list[list[_Stretch]], each: int) -> list[_Group]:
    """Divides the units, in order, into groups of about `each` bytes. The middle of a unit determines its group."""
    total = sum(_bytes(unit) for unit in units)
    count = max(1, min(len(units), round(total / each)))
    groups: list[list[_Stretch]] = [[] for _ in range(count)]
    before = 0
    for unit in units:
        size = _bytes(unit)
        groups[min(count - 1, (2 * before + size) * count // max(1, 2 * total))] += unit
        before += size
    return [_Group(tuple(group)) for group in groups if group]


def _bytes(stretches: Iterable[_Stretch]) -> int:
    return sum(stretch.bytes for stretch in stretches)


def _by_file(stretches: Sequence[_Stretch]) -> dict[str, list[_Stretch]]:
    """Returns the stretches of each file."""
    found: dict[str, list[_Stretch]] = {}
    for stretch in stretches:
        found.setdefault(stretch.file, []).append(stretch)
    return found


def _places(scan: _native.Scan, group: _Group) -> tuple[int, int]:
    """Returns the range of a group's stretches in a scan of its files or of all files. The end of the range is exclusive."""
    found = [_Stretch(*stretch) for stretch in scan.stretches()]
    first, last = group.stretches[0], group.stretches[-1]
    starts = [n for n, one in enumerate(found) if (one.file, one.offset) == (first.file, first.offset)]
    ends = [n + 1 for n, one in enumerate(found) if (one.file, one.end) == (last.file, last.end)]
    if starts and ends:
        within = found[starts[0] : ends[-1]]
        if _bytes(within) == group.bytes:
            return starts[0], ends[-1]
    text = f"{first.file!r} has changed since the dataset was opened: read it again"
    error = TransientError(text)
    error.kind, error.message, error.file = "transient", text, first.file
    raise error


def _schema(scan: _native.Scan) -> Any:
    return pyarrow.schema(_Described(scan))


def _is_same(scan: _native.Scan, schema: Any) -> bool:
    """Whether the blocks of a scan have the names and types of a schema."""
    own = _schema(scan)
    return own.names == schema.names and own.types == schema.types


def _engine_of(settings: dict[str, object]) -> _native.Engine:
    """Returns an engine of this process that is separate from the engine that the user's code may configure."""
    key = repr(sorted(settings.items()))
    if key not in _engines:
        _engines[key] = _engine._make(settings)
    return _engines[key]


def _absolute(path: str) -> str:
    """Returns the absolute path, which other processes can use too, or an unchanged URL."""
    return path if "://" in path else os.path.abspath(path)


def _sum(counts: Iterable[int | None]) -> int | None:
    """Returns the sum if all counts are known."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total
