"""Writes a Ray dataset as files of any record format. The files appear all together or not at all.

Ray repeats a write task if its node is lost or seems to be lost. Each attempt therefore writes its
own files into a hidden folder next to the output, and returns their names. When all tasks have
ended, the driver renames the files of the successful attempts to their final names and removes the
other files. If the output folder is new, it becomes visible in one step. A late attempt finds its
folder gone and has no effect.
"""

from __future__ import annotations

import os
import re
import shutil
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow  # type: ignore[import-untyped]
from ray.data.block import BlockAccessor
from ray.data.datasource import Datasink

from .. import _api, _engine
from .._errors import Error, unsupported, usage
from .._results import Report, losses
from ._read import _absolute, _engine_of

_MODES = ("error", "overwrite", "ignore")


def write(ds, path, *, to=None, output_options=None, mode="error", sync=False, concurrency=None, num_cpus=None):  # type: ignore[no-untyped-def]
    """Writes a `ray.data.Dataset` as files in a folder that all nodes share, one file per task.

    No file gets its final name before all files are written. To choose the number of files, pass
    `ds.repartition(8)`.

    Args: ds: The dataset. path: `"out/train.tfrecord"` becomes `out/train-00000-of-00008.tfrecord`
    and so on. With `to`, this may also be a folder, in which the files are named
    `part-00000-of-00008` with the format's suffix. to: The id of the output format, if `path` does
    not imply it. output_options: Options of the output format. mode: The action if such files
    exist: `"error"`, `"overwrite"`, or `"ignore"`, which writes nothing. sync: If true, the files
    are flushed to disk, so that they survive a power failure. concurrency: The maximum number of
    write tasks that run at the same time. num_cpus: Processors and threads of each write task. By
    default 1.

    Returns:
        A `Report`.
    """
    if mode not in _MODES:
        raise usage("no such mode", expected=" or ".join(_MODES), found=repr(mode))
    place = _place(os.fsdecode(os.fspath(path)), to)
    there = place.there()
    if there and mode == "ignore":
        return _report(place, [], [], time.monotonic())
    if there and mode == "error":
        raise place.taken(there[0])
    settings = {**_engine._settings, "threads": max(1, int(num_cpus or 1))}
    sink = TensorferryDatasink(place, _api._options(output_options or {}), mode == "overwrite", bool(sync), settings)
    remote = {} if num_cpus is None else {"num_cpus": num_cpus}
    ds.write_datasink(sink, concurrency=concurrency, ray_remote_args=remote)
    if sink.report is None:
        # Without rows, the tasks do not see the columns, and not every version of Ray
        # passes the schema to a sink.
        sink.write_nothing(getattr(ds.schema(), "base_schema", None))
    return sink.report


@dataclass(frozen=True)
class _Place:
    """The folder and names of the output files."""

    folder: str
    stem: str
    suffix: str
    format: str

    def name(self, number: int, count: int) -> str:
        return f"{self.stem}-{number:05}-of-{count:05}{self.suffix}"

    def there(self) -> list[str]:
        """Returns the existing files of any set with this stem and suffix."""
        name = re.compile(rf"{re.escape(self.stem)}-\d{{5}}-of-\d{{5}}{re.escape(self.suffix)}")
        try:
            return sorted(found for found in os.listdir(self.folder) if name.fullmatch(found))
        except FileNotFoundError:
            return []

    def taken(self, name: str) -> Error:
        path = os.path.join(self.folder, name)
        error = usage('the output is there already: mode="overwrite" replaces it', file=path)
        return error


@dataclass(frozen=True)
class _Part:
    """The file that one attempt of a task has written."""

    # The position of this part among all parts, in the order of their rows.
    order: int
    name: str
    records: int
    bytes: int
    losses: list[dict[str, Any]]


class TensorferryDatasink(Datasink):  # type: ignore[type-arg]
    """A sink that writes files of a record format."""

    def __init__(
        self,
        place: _Place,
        options: list[tuple[str, str]],
        replaces: bool,
        sync: bool,
        settings: dict[str, object],
    ) -> None:
        self._place, self._options, self._replaces = place, options, replaces
        self._sync, self._settings = sync, settings
        self._began = time.monotonic()
        self._schema: Any = None
        self._is_new = not os.path.isdir(place.folder) or not os.listdir(place.folder)
        mark = uuid.uuid4().hex[:12]
        parent, name = os.path.split(place.folder)
        # If the output folder is new, the staging folder is renamed to it as a whole.
        stage = os.path.join(parent, f".{name}.ferry-{mark}") if self._is_new else f"{place.folder}/.ferry-{mark}"
        self._stage, self._attempts, self._whole = stage, f"{stage}/attempts", f"{stage}/whole"
        self.report: Report | None = None

    def get_name(self) -> str:
        return "Tensorferry"

    def on_write_start(self, schema: Any = None) -> None:
        self._schema = schema if isinstance(schema, pyarrow.Schema) else None
        os.makedirs(self._attempts, exist_ok=True)

    def write(self, blocks: Iterable[Any], ctx: Any) -> _Part | None:
        tables = [BlockAccessor.for_block(block).to_arrow() for block in blocks]
        tables = [table for table in tables if table.num_rows]
        if not tables:
            return None
        name = f"{ctx.task_idx:06}-{uuid.uuid4().hex}{self._place.suffix}"
        return self._write(tables, name, int(ctx.task_idx))

    def _write(self, tables: list[Any], name: str, order: int) -> _Part:
        schema = pyarrow.unify_schemas([_without_dictionaries(table.schema) for table in tables])
        batches = (batch for table in tables for batch in table.cast(schema).to_batches())
        stream = pyarrow.RecordBatchReader.from_batches(schema, batches)
        output = (os.path.join(self._attempts, name), self._place.format, self._options, False, self._sync)
        done = _engine_of(self._settings).write(stream, output, None)
        if [os.path.basename(file) for file in done["files"]] != [name]:
            raise unsupported(f"{self._place.format} with these options writes several files per part")
        return _Part(order, name, done["records"], done["bytes"], done["losses"])

    def on_write_complete(self, write_result: Any) -> None:
        parts = sorted(filter(None, write_result.write_returns), key=lambda part: (part.order, part.name))
        if parts:
            self._commit(parts)
        elif self._schema is not None:
            self.write_nothing(self._schema)
        else:
            shutil.rmtree(self._stage, ignore_errors=True)

    def write_nothing(self, schema: Any) -> None:
        """Writes one file without rows."""
        if not isinstance(schema, pyarrow.Schema):
            raise usage("a dataset without rows and without a schema cannot be written")
        os.makedirs(self._attempts, exist_ok=True)
        self._commit([self._write([schema.empty_table()], f"empty{self._place.suffix}", 0)])

    def _commit(self, parts: list[_Part]) -> None:
        names = [self._place.name(number, len(parts)) for number in range(len(parts))]
        os.mkdir(self._whole)
        for part, name in zip(parts, names, strict=True):
            os.rename(os.path.join(self._attempts, part.name), os.path.join(self._whole, name))
        if not (self._is_new and self._became_visible()):
            self._move_beside(names)
        shutil.rmtree(self._stage, ignore_errors=True)
        self.report = _report(self._place, parts, names, self._began)

    def _became_visible(self) -> bool:
        """Renames the whole folder, unless a folder with files has appeared in its place."""
        try:
            os.rename(self._whole, self._place.folder)
        except OSError:
            return False
        return True

    def _move_beside(self, names: list[str]) -> None:
        """Moves the files into an existing folder.

        If the move is interrupted, the names of the files show how many files the set should have.
        """
        folder = self._place.folder
        os.makedirs(folder, exist_ok=True)
        old = self._place.there()
        if old and not self._replaces:
            raise self._place.taken(old[0])
        for name in old:
            if name not in names:
                os.unlink(os.path.join(folder, name))
        for name in names:
            os.rename(os.path.join(self._whole, name), os.path.join(folder, name))

    def on_write_failed(self, error: Exception) -> None:
        shutil.rmtree(self._stage, ignore_errors=True)


def _without_dictionaries(schema: Any) -> Any:
    """Replaces dictionary columns with plain ones, because key widths differ between blocks. All files then have one schema."""
    plain = [
        field.with_type(field.type.value_type) if pyarrow.types.is_dictionary(field.type) else field for field in schema
    ]
    return pyarrow.schema(plain, schema.metadata)


def _place(path: str, to: str | None) -> _Place:
    """Returns the folder, the names and the format of the output files."""
    if "://" in path:
        hint = "write into a folder that all nodes share, and convert or copy it from there"
        raise unsupported("object stores cannot rename the parts of a dataset to their final names", hint=hint)
    formats = {id: format for id, format in _api.formats().items() if format.writes_records}
    if to is not None and to not in formats:
        raise usage("unknown or read-only record format", expected=", ".join(sorted(formats)), found=repr(to))
    wanted = formats if to is None else {to: formats[to]}
    is_folder = path.endswith("/") or os.path.isdir(path)
    path = _absolute(path)
    folder, name = os.path.split(path)
    endings = [(suffix, id) for id, format in wanted.items() for suffix in format.suffixes]
    fitting = [] if is_folder else [(suffix, id) for suffix, id in endings if name.lower().endswith(suffix)]
    if fitting:
        suffix, id = max(fitting, key=lambda found: len(found[0]))
        stem = name[: -len(suffix)]
        return _Place(folder, stem or "part", name[len(stem) :], id)
    if to is None:
        raise usage("the name of the output does not determine its format: pass to=", file=path)
    if not formats[to].suffixes:
        raise unsupported(f"{to} has no standalone files: write another format, and convert it")
    return _Place(path, "part", formats[to].suffixes[0], to)


def _report(place: _Place, parts: list[_Part], names: list[str], began: float) -> Report:
    # Parts usually have the same losses, so each loss is reported once.
    lost: dict[str, dict[str, Any]] = {}
    for part in parts:
        for loss in part.losses:
            lost.setdefault(repr(loss), loss)
    return Report(
        {
            "input": "a data set",
            "output": os.path.join(place.folder, f"{place.stem}-*{place.suffix}"),
            "files_read": 0,
            "format": place.format,
            "tensors": 0,
            "records": sum(part.records for part in parts),
            "bytes": sum(part.bytes for part in parts),
            "seconds": time.monotonic() - began,
            "verified": False,
            "losses": losses(list(lost.values())),
            "files": [os.path.join(place.folder, name) for name in names],
            "receipt": None,
            "notes": [],
            "dry_run": False,
        }
    )
