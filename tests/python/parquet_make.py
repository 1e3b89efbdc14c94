"""Writes Parquet files with pyarrow into a folder, with every codec, page version and kind of column."""

import datetime
import decimal
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

folder = Path(sys.argv[1])


def table(rows):
    """Returns columns of every kind with nulls, each with this number of rows."""
    every = lambda values: [values[i % len(values)] for i in range(rows)]
    day = datetime.date(2024, 2, 29)
    noon = datetime.datetime(2024, 2, 29, 12, 30, 15, 123456)
    return pa.table(
        {
            "i64": pa.array(every([1, None, -(2**63), 2**63 - 1]), pa.int64()),
            "u64": pa.array(every([0, 2**64 - 1, None]), pa.uint64()),
            "u8": pa.array(every([0, 255, None]), pa.uint8()),
            "f16": pa.array(every([1.5, None, -0.0]), pa.float16()),
            "f32": pa.array(every([1.5, None, float("inf")]), pa.float32()),
            "f64": pa.array(every([0.1, None, float("nan")]), pa.float64()),
            "bool": pa.array(every([True, None, False]), pa.bool_()),
            "str": pa.array(every(["", "ä", None, "x" * 50]), pa.string()),
            "large": pa.array(every(["", "ä", None]), pa.large_string()),
            "bin": pa.array(every([b"", b"\xff\0", None]), pa.binary()),
            "fixed": pa.array(every([b"ab", None]), pa.binary(2)),
            "date": pa.array(every([day, None]), pa.date32()),
            "time": pa.array(every([noon, None]), pa.timestamp("us", tz="UTC")),
            "ns": pa.array(every([noon, None]), pa.timestamp("ns")),
            "dec": pa.array(every([decimal.Decimal("-1.23"), None]), pa.decimal128(10, 2)),
            "list": pa.array(every([[1.0, None], [], None, [2.5]]), pa.list_(pa.float32())),
            "nested": pa.array(every([[[1], None, []], None, [[2, 3]]]), pa.list_(pa.list_(pa.int32()))),
            "struct": pa.array(
                every([{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}]),
                pa.struct({"a": pa.int64(), "b": pa.list_(pa.string())}),
            ),
            "map": pa.array(every([[("k", 1)], [], None]), pa.map_(pa.string(), pa.int64())),
            "words": pa.array(every(["red", "green", None, "red"])).dictionary_encode(),
        }
    ).replace_schema_metadata({"made": "by pyarrow"})


for codec in ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]:
    for version in ["1.0", "2.0"]:
        name = f"{codec}_{version}.parquet"
        pq.write_table(
            table(1000),
            folder / name,
            compression=codec,
            data_page_version=version,
            row_group_size=300,
            data_page_size=2000,
            write_page_checksum=True,
        )
pq.write_table(table(0), folder / "empty.parquet")
pq.write_table(table(20), folder / "index.parquet", write_page_index=True, use_dictionary=False)
plain = table(200).select(["i64", "str", "bin", "fixed"])
pq.write_table(
    plain,
    folder / "delta.parquet",
    use_dictionary=False,
    column_encoding={
        "i64": "DELTA_BINARY_PACKED",
        "str": "DELTA_BYTE_ARRAY",
        "bin": "DELTA_LENGTH_BYTE_ARRAY",
        "fixed": "BYTE_STREAM_SPLIT",
    },
)
