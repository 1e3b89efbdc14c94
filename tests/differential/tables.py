"""Record formats and the libraries that write and read them."""

import base64
import csv
import gzip
import io
import json
import random
import re
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq

import columns
from values import UNITS, Column, Date, Duration, Interval, Map, Time, Timestamp, columns_of, json_value
from workers import remote


# ---- Readers: a path to neutral columns ----


def read_parquet(path) -> list[Column]:
    file = pq.ParquetFile(path)
    try:
        table = file.read()
    except pa.ArrowInvalid:
        table = None
    kinds = [file.schema.column(i) for i in range(len(file.schema))]
    if any(kind.physical_type == "INT96" for kind in kinds):
        # Times in nanoseconds overflow outside the years 1677 to 2262. Times in microseconds do
        # not.
        wide = pq.ParquetFile(path, coerce_int96_timestamp_unit="us").read()
        table = table if table is not None and _are_same(table, wide) else wide
    if table is None:
        raise ValueError("pyarrow cannot read it")
    found = columns_of(table)
    stored = (file.metadata.metadata or {}).get(b"ARROW:schema")
    if stored and any(kind.physical_type == "INT96" for kind in kinds):
        # pyarrow does not restore the time zone of INT96 in lists and structs, and in columns without nulls.
        schema = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(stored)))
        for column, field in zip(found, schema):
            column.cells = [_zoned(cell, field.type) for cell in column.cells]
    leaves = {kind.path: kind for kind in kinds if "." not in kind.path}
    intervals: dict[str, set] = {}
    for name, *path in (tuple(kind.path.split(".")) for kind in kinds if kind.converted_type == "INTERVAL"):
        intervals.setdefault(name, set()).add(tuple(path))
    for column in found:
        column.cells = [_intervals(cell, intervals.get(column.name, ())) for cell in column.cells]
        kind = leaves.get(column.name)
        if kind is None:
            continue
        name = kind.logical_type.type.lower()
        if name in ("uuid", "json", "bson", "enum") or name == "interval":
            column.logical = name
        elif name == "time" and json.loads(kind.logical_type.to_json()).get("isAdjustedToUTC"):
            column.logical = "time in UTC"
    return found


def _intervals(cell, paths):
    """Decodes those intervals in a cell that are at these Parquet paths."""
    if not paths:
        return cell
    if isinstance(cell, bytes):
        months, days, millis = np.frombuffer(cell, "<u4").tolist()
        return Interval(months, days, millis * 10**6)
    if isinstance(cell, dict):
        return {name: _intervals(item, {path[1:] for path in paths if path[0] == name}) for name, item in cell.items()}
    if isinstance(cell, list):
        return [_intervals(item, {path[2:] for path in paths}) for item in cell]
    if isinstance(cell, Map):
        keys, values = ({path[2:] for path in paths if path[1] == part} for part in ("key", "value"))
        return Map(tuple((_intervals(key, keys), _intervals(value, values)) for key, value in cell.entries))
    return cell


def _zoned(cell, kind):
    if isinstance(cell, Timestamp) and pa.types.is_timestamp(kind):
        return replace(cell, zone=kind.tz)
    if isinstance(cell, list):
        return [_zoned(item, kind.value_type) for item in cell]
    if isinstance(cell, dict):
        return {name: _zoned(item, kind.field(name).type) for name, item in cell.items()}
    if isinstance(cell, Map):
        return Map(tuple((_zoned(key, kind.key_type), _zoned(item, kind.item_type)) for key, item in cell.entries))
    return cell


def _are_same(near, wide):
    """Reports whether all times in a table equal those in a second table, whose unit may be larger."""
    for one, two in zip(near.columns, wide.columns):
        for a, b in zip(_leaves(one.combine_chunks()), _leaves(two.combine_chunks())):
            if pa.types.is_timestamp(a.type):
                unit, larger = UNITS[a.type.unit], UNITS[b.type.unit]
                pairs = zip(a.view(pa.int64()).to_pylist(), b.view(pa.int64()).to_pylist())
                if any(x is not None and x * unit // larger != y for x, y in pairs):
                    return False
    return True


def _leaves(array):
    if pa.types.is_map(array.type):
        inner = [array.keys, array.items]
    elif pa.types.is_nested(array.type):
        inner = array.flatten() if pa.types.is_struct(array.type) else [array.flatten()]
    else:
        return [array]
    return [leaf for part in inner for leaf in _leaves(part)]


def read_arrow(path):
    try:
        table = pa.ipc.open_file(path).read_all()
    except pa.ArrowInvalid:
        with open(path, "rb") as file:
            table = pa.ipc.open_stream(file).read_all()
    found = columns_of(table)
    for column, field in zip(found, table.schema):
        # Arrow has no UTC times of day, so the metadata stores the logical type.
        if (field.metadata or {}).get(b"PARQUET:logical_type") == b"TIME_UTC":
            column.logical = "time in UTC"
    return found


def _bytes(path):
    data = Path(path).read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def read_jsonl(path):
    rows = [json_value(line) for line in _bytes(path).decode().split("\n") if line.strip()]
    # pandas escapes some text as half of a surrogate pair, which is not valid Unicode. Encoding
    # such text fails here.
    json.dumps(rows, default=str, ensure_ascii=False).encode()
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [Column(name, [row.get(name) for row in rows], "json") for name in names]


def read_csv(path):
    """Reads text and nulls, which are empty fields without quotes."""
    data = _bytes(path)
    first = next(csv.reader(io.StringIO(data.decode(), newline="")), [])
    names = [f"{i}" for i in range(len(first))]
    if not names:
        return []
    options = pa.csv.ConvertOptions(
        column_types={name: pa.string() for name in names}, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
    )
    # An empty line is a row only in a file with one column.
    parse = pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(names) > 1)
    read = pa.csv.ReadOptions(column_names=names, block_size=1 << 28)
    table = pa.csv.read_csv(io.BytesIO(data), read, parse, options)
    return [Column(name, column.to_pylist()[1:], "text") for name, column in zip(first, table.columns)]


def read_tar(path):
    """Reads samples with webdataset's rule for keys and Python's tarfile."""
    keys, rows = [], []
    with tarfile.open(path) as tar:
        for member in tar:
            found = re.fullmatch(r"((?:.*/|)[^.]+)[.]([^/]*)", member.name)
            # Files that macOS adds are not samples, even if their names match the rule.
            if not member.isfile() or not found or Path(member.name).name.startswith("._"):
                continue
            if not keys or keys[-1] != found[1]:
                keys.append(found[1])
                rows.append({})
            rows[-1][found[2].lower()] = tar.extractfile(member).read()
    names = list(dict.fromkeys(name for row in rows for name in row))
    found = [Column("__key__", keys, "string")]
    return found + [Column(name, [row.get(name) for row in rows], "bytes") for name in names]


# ---- Writers: a random Arrow table to a file ----


def arrow_by_pyarrow(table, path, rng):
    codec = rng.choice([None, None, "lz4", "zstd"])
    options = pa.ipc.IpcWriteOptions(compression=codec, emit_dictionary_deltas=rng.random() < 0.3, unify_dictionaries=False)
    build = pa.ipc.new_stream if path.endswith("s") else pa.ipc.new_file
    if build is pa.ipc.new_file:
        table = table.unify_dictionaries()
    with build(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rng.choice([None, 1, 3]))


def arrow_by_polars(table, path, rng):
    pl.from_arrow(table).write_ipc(path, compression=rng.choice(["uncompressed", "lz4", "zstd"]),
                                   compat_level=rng.choice([None, pl.CompatLevel.oldest(), pl.CompatLevel.newest()]))


def arrow_by_pandas(table, path, rng):
    _frame(table, rng).to_feather(path, compression=rng.choice(["lz4", "uncompressed"]))


def parquet_by_pyarrow(table, path, rng):
    coerce = rng.choice([None, None, None, "ms", "us"])
    pq.write_table(
        table, path, version=rng.choice(["1.0", "2.4", "2.6"]), data_page_version=rng.choice(["1.0", "2.0"]),
        compression=rng.choice(["none", "snappy", "zstd", "gzip", "brotli", "lz4"]), use_dictionary=rng.random() < 0.5,
        row_group_size=rng.choice([1, 3, 100]), data_page_size=rng.choice([10, 1 << 20]), store_schema=rng.random() < 0.7,
        coerce_timestamps=coerce, allow_truncated_timestamps=True, use_deprecated_int96_timestamps=rng.random() < 0.25,
        write_page_index=rng.random() < 0.2, use_byte_stream_split=False, store_decimal_as_integer=rng.random() < 0.3,
        write_page_checksum=rng.random() < 0.2, use_compliant_nested_type=rng.random() < 0.7,
    )


def parquet_by_polars(table, path, rng):
    frame = pl.from_arrow(table)
    if frame.height and rng.random() < 0.2:
        frame = frame.with_columns(pl.Series("i128", [2**100 + n for n in range(frame.height)], pl.Int128))
    frame.write_parquet(path, compression=rng.choice(["zstd", "snappy", "uncompressed"]), statistics=rng.random() < 0.5,
                        row_group_size=rng.choice([None, 3]), data_page_size=rng.choice([None, 10]))


def parquet_by_pandas(table, path, rng):
    _frame(table, rng).to_parquet(path, engine="pyarrow", index=rng.choice([None, True, False]))


def parquet_by_fastparquet(table, path, rng):
    import fastparquet

    frame = _frame(table, rng)
    fastparquet.write(path, frame, times=rng.choice(["int64", "int96"]), has_nulls=rng.choice([True, "infer"]),
                      compression=rng.choice([None, "SNAPPY", "GZIP"]), write_index=False, stats=rng.random() < 0.5)


DUCK = {
    "i": "INTERVAL '{n} month' + INTERVAL '{n} day' + INTERVAL '{n} millisecond'", "u": "uuid()", "e": "'b'::ENUM('a', 'b')",
    "d": "DATE '0001-01-01' + {n}", "t": "TIME '12:00:00' + INTERVAL '{n} second'", "z": "'12:00:0{n}+02'::TIMETZ",
    "j": "'[1, {n}]'::JSON", "h": "'{n}'::HUGEINT", "v": "[NULL, {n}]", "s": "{{'a': NULL, 'b': {n}}}",
    "m": "MAP {{'k{n}': {n}}}", "b": "'101'::BIT", "g": "DATE 'infinity'", "y": "'\\xAA'::BLOB", "ns": "'2024-01-01'::TIMESTAMP_NS",
    "tz": "'9999-12-31 00:00:00+00'::TIMESTAMPTZ", "un": "union_value(num := {n})",
}


def _duck(table, rng):
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'; SET threads = 1")
    if rng.random() < 0.4:
        # Types that only DuckDB has.
        names = rng.sample(list(DUCK), rng.choice([1, 2]))
        rows = [", ".join(f'{DUCK[name].format(n=n)} AS "{name}"' for name in names) for n in range(rng.choice([1, 3, 9]))]
        return connection.execute("CREATE VIEW made AS " + " UNION ALL ".join(f"SELECT {row}" for row in rows))
    connection.register("made", table)
    return connection


def parquet_by_duckdb(table, path, rng):
    version, codec = rng.choice(["V1", "V2"]), rng.choice(["snappy", "zstd", "gzip", "uncompressed"])
    _duck(table, rng).execute(f"COPY made TO '{path}' (FORMAT parquet, PARQUET_VERSION {version}, COMPRESSION {codec})")


def csv_by_duckdb(table, path, rng):
    _duck(table, rng).execute(f"COPY made TO '{path}' (FORMAT csv, HEADER true)")


def jsonl_by_duckdb(table, path, rng):
    _duck(table, rng).execute(f"COPY made TO '{path}' (FORMAT json)")


def csv_by_polars(table, path, rng):
    pl.from_arrow(table).write_csv(path)


def jsonl_by_polars(table, path, rng):
    pl.from_arrow(table).write_ndjson(path)


def csv_by_pandas(table, path, rng):
    _frame(table, rng).to_csv(path, index=False, na_rep=rng.choice(["", "", "NaN"]))


def jsonl_by_pandas(table, path, rng):
    _frame(table, rng).to_json(path, orient="records", lines=True, force_ascii=rng.random() < 0.7,
                               date_format=rng.choice(["iso", "epoch"]), double_precision=15)


def csv_by_pyarrow(table, path, rng):
    pa.csv.write_csv(table, path, pa.csv.WriteOptions(quoting_style=rng.choice(["needed", "all_valid"])))


def csv_by_numpy(table, path, rng):
    rows, width = rng.choice([1, 5]), rng.choice([1, 3])
    floats = [[float(columns.floating(rng, 8)) for _ in range(width)] for _ in range(rows)]
    names = ",".join(f"c{n}" for n in range(width))
    np.savetxt(path, floats, delimiter=",", header=names, comments="", fmt=rng.choice(["%.18e", "%g", "%r"]))


def csv_by_python(table, path, rng):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator=rng.choice(["\n", "\r\n"]), quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
        writer.writerow(table.column_names)
        found = columns_of(table)
        writer.writerows(zip(*([_plain(cell, rng) for cell in column.cells] for column in found)))


def jsonl_by_python(table, path, rng):
    """Writes JSON lines with json.dumps, with missing keys, mixed kinds and long numbers."""
    ascii_only, absent, mixed = rng.random() < 0.5, rng.choice([0, 0, 0.3]), rng.choice([0, 0, 0, 0.2])

    def dump(cell):
        if rng.random() < mixed:
            cell = rng.choice([1, "x", [1], {"k": 2}, 1.5, None])
        if isinstance(cell, dict):
            kept = {key: value for key, value in cell.items() if not (value is None and rng.random() < absent)}
            return "{" + ", ".join(f"{json.dumps(key, ensure_ascii=ascii_only)}: {dump(value)}" for key, value in kept.items()) + "}"
        if isinstance(cell, Map):
            return dump({str(key): value for key, value in cell.entries})
        if isinstance(cell, list):
            return "[" + ", ".join(map(dump, cell)) + "]"
        if isinstance(cell, Decimal):
            return str(cell) if "E" not in str(cell) else format(cell, "f")
        cell = _plain(cell, rng)
        return "null" if cell != cell or cell in (float("inf"), -float("inf")) else json.dumps(cell, ensure_ascii=ascii_only)

    rows = zip(*([cell for cell in column.cells] for column in columns_of(table)))
    names = table.column_names
    lines = [dump(dict(zip(names, row))) for row in rows]
    lines = [line for line in lines if line.startswith("{")]
    data = ("\n".join(lines) + "\n" if lines else "").encode()
    if path.lower().endswith(".gz"):
        # A gzip file may have several members, and padding after them.
        half = len(data) // 2 if rng.random() < 0.3 else 0
        data = (gzip.compress(data[:half]) if half else b"") + gzip.compress(data[half:]) + bytes(rng.choice([0, 0, 512]))
    Path(path).write_bytes(data)


def _plain(cell, rng):
    """Returns a cell as a Python program prints it."""
    if isinstance(cell, bytes):
        return cell.hex()
    if isinstance(cell, (Date, Time, Timestamp, Duration, Interval)):
        try:
            if isinstance(cell, Date):
                return str(np.datetime64(cell.days, "D"))
            if isinstance(cell, Timestamp):
                offset = rng.choice(["Z", "+00:00"]) if cell.zone else ""
                return str(np.datetime64(cell.ns // 1000, "us")) + offset
        except (ValueError, OverflowError):
            pass
        return str(cell)
    if isinstance(cell, (dict, list, Map)):
        return str(cell)
    return cell


def tar_by_webdataset(table, path, rng):
    import webdataset

    members = _members(table, rng)
    with webdataset.TarWriter(path, encoder=False) as writer:
        for key, sample in members:
            writer.write({"__key__": key, **sample})


def tar_by_tarfile(table, path, rng):
    """Writes a tar as macOS does, or in one of the tar dialects."""
    dialect = rng.choice([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
    hidden, prefix = rng.random() < 0.4, rng.choice(["", "./"])

    def add(name, data):
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))

    with tarfile.open(path, "w", format=dialect) as tar:
        for key, sample in _members(table, rng):
            for name, data in sample.items():
                folder, _, last = f"{prefix}{key}.{name}".rpartition("/")
                if hidden:
                    add(f"{folder}/._{last}".lstrip("/"), b"Mac OS X")
                add(f"{folder}/{last}".lstrip("/"), data)


def _members(table, rng):
    """Returns the keys and members of samples, from the text and bytes of a table. Some members are left out."""
    stem = rng.choice(["", "train/", "train.v1/", "数据" * 20, "данные" * 8 + "/"])
    names = rng.sample(["txt", "json", "jpg", "cls", "a.b", "npy"], min(3, table.num_columns))
    found = []
    for n in range(table.num_rows):
        sample = {name: rng.choice([text.encode() for text in columns.TEXTS]) for name in names if rng.random() < 0.9}
        found.append((f"{stem}{n:06}", sample or {"txt": b"x"}))
    return found


def _frame(table, rng):
    """Returns a pandas frame, with Arrow's or pandas' own types."""
    return table.to_pandas(types_mapper=pd.ArrowDtype if rng.random() < 0.4 else None)


@dataclass(frozen=True)
class Format:
    endings: tuple[str, ...]
    # The form of the format's values: typed, json, text, bytes, mds or example.
    form: str
    read: Callable[[str], list[Column]]
    options: tuple[str, ...] = ()


FORMATS = {
    "parquet": Format((".parquet", ".pq", ".PARQUET"), "typed", read_parquet),
    "arrow": Format((".arrow", ".feather", ".arrows"), "typed", read_arrow),
    "jsonl": Format((".jsonl", ".ndjson", ".JSONL", ".jsonl.gz"), "json", read_jsonl),
    "csv": Format((".csv", ".CSV"), "text", read_csv),
    "webdataset": Format((".tar",), "bytes", read_tar, ("-o", f"key={columns.KEY}")),
    "tfrecord": Format((".tfrecord",), "example", remote("with_tensorflow", "read_records")),
    "mds": Format(("",), "mds", remote("with_torch", "read_mds")),
}

WRITERS: list[tuple[str, str, Callable[[pa.Table, str, random.Random], None]]] = [
    ("parquet", "pyarrow", parquet_by_pyarrow),
    ("arrow", "pyarrow", arrow_by_pyarrow),
    ("jsonl", "python", jsonl_by_python),
    ("csv", "pyarrow", csv_by_pyarrow),
    ("parquet", "polars", parquet_by_polars),
    ("arrow", "polars", arrow_by_polars),
    ("jsonl", "polars", jsonl_by_polars),
    ("csv", "polars", csv_by_polars),
    ("parquet", "duckdb", parquet_by_duckdb),
    ("jsonl", "duckdb", jsonl_by_duckdb),
    ("csv", "duckdb", csv_by_duckdb),
    ("parquet", "pandas", parquet_by_pandas),
    ("arrow", "pandas", arrow_by_pandas),
    ("jsonl", "pandas", remote("tables", "jsonl_by_pandas")),
    ("csv", "pandas", csv_by_pandas),
    ("parquet", "fastparquet", parquet_by_fastparquet),
    ("csv", "numpy", csv_by_numpy),
    ("csv", "python", csv_by_python),
    ("webdataset", "webdataset", tar_by_webdataset),
    ("webdataset", "tarfile", tar_by_tarfile),
    ("tfrecord", "tensorflow", remote("with_tensorflow", "write_records")),
    ("mds", "streaming", remote("with_torch", "write_mds")),
]
