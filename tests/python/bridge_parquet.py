"""Writes or compares Parquet files.

`bridge_parquet.py make PATH` writes a file. `bridge_parquet.py same A B` compares two files as pyarrow reads them: names,
types inside all lists, and values.
"""

import datetime
import decimal
import math
import sys

import pyarrow as pa
import pyarrow.parquet as pq


def make(path):
    rows = 300
    missing = lambda values: [None if n % 5 == 2 else value for n, value in enumerate(values)]
    day = datetime.date(2020, 2, 28)
    when = datetime.datetime(2021, 1, 1, 12, 30, 0, 123456)
    columns = {
        "i8": pa.array([n % 100 - 50 for n in range(rows)], pa.int8()),
        "u16": pa.array(missing(range(rows)), pa.uint16()),
        "u64": pa.array([2**64 - 1 - n for n in range(rows)], pa.uint64()),
        "f16": pa.array([float(n) for n in range(rows)], pa.float16()),
        "f64": pa.array([math.pi * n for n in range(rows)], pa.float64()),
        "flag": pa.array(missing([n % 3 == 0 for n in range(rows)])),
        "word": pa.array(missing([f"wört {n % 7}" for n in range(rows)])),
        "category": pa.array(missing([f"c{n % 3}" for n in range(rows)])).dictionary_encode(),
        "bytes": pa.array(missing([bytes([n % 256, 255]) * (n % 4) for n in range(rows)]), pa.binary()),
        "uuid": pa.array(missing([n.to_bytes(16, "big") for n in range(rows)]), pa.binary(16)),
        "day": pa.array(missing([day + datetime.timedelta(days=n) for n in range(rows)])),
        "at": pa.array([when + datetime.timedelta(seconds=n) for n in range(rows)], pa.timestamp("us", "UTC")),
        "list": pa.array(missing([list(range(n % 4)) for n in range(rows)]), pa.list_(pa.int32())),
        "even": pa.array([[n, n + 1] for n in range(rows)], pa.list_(pa.int64())),
        "holes": pa.array([[n, None] for n in range(rows)], pa.list_(pa.int64())),
        "fixed": pa.array(missing([[float(n)] * 3 for n in range(rows)]), pa.list_(pa.float32(), 3)),
        "deep": pa.array(
            [[["x" * k for k in range(n % 3)], None][: n % 3] for n in range(rows)], pa.list_(pa.list_(pa.string()))
        ),
        "always": pa.array([None] * rows, pa.null()),
    }
    if path.endswith("lossy.parquet"):
        columns["price"] = pa.array([decimal.Decimal(n) / 4 for n in range(rows)], pa.decimal128(10, 2))
        columns["point"] = pa.array(missing([{"x": n, "y": [n] * (n % 2)} for n in range(rows)]))
    pq.write_table(pa.table(columns), path, row_group_size=77)


def leaf(kind):
    while pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def same(left, right):
    a, b = pq.read_table(left), pq.read_table(right)
    assert a.column_names == b.column_names, (a.column_names, b.column_names)
    for name in a.column_names:
        x, y = a.column(name), b.column(name)
        assert leaf(x.type) == leaf(y.type), (name, x.type, y.type)
        assert x.to_pylist() == y.to_pylist(), (name, x.to_pylist()[:9], y.to_pylist()[:9])
    print(len(a.column_names))


make(sys.argv[2]) if sys.argv[1] == "make" else same(*sys.argv[2:])
