"""Writes a Parquet file with every type for which receipts have a digest: parquet_types.py FILE"""

import datetime
import math
import sys

import numpy
import pyarrow
import pyarrow.parquet

NUMBERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
columns = {name: pyarrow.array([0, 1, None, 100, 2], getattr(pyarrow, name)()) for name in NUMBERS}
columns["large"] = pyarrow.array([2**64 - 1, 1, None, 2**63, 2], pyarrow.uint64())
for name in ["float16", "float32", "float64"]:
    columns[name] = pyarrow.array(numpy.array([0, 1.5, math.nan, -0.0, math.inf]).astype(name))
columns["truths"] = pyarrow.array([True, False, None, True, False])
columns["text"] = pyarrow.array(["a", "", "\u00fc", None, "long" * 30])
columns["bytes"] = pyarrow.array([b"\xff", b"", None, b"a", b"b"])
columns["codes"] = pyarrow.array(["x", "y", "x", None, "y"]).dictionary_encode()
days = [datetime.date(2024, 1, 1), None, datetime.date(1960, 1, 1), datetime.date(1970, 1, 2), None]
columns["date32"] = pyarrow.array(days)
columns["date64"] = pyarrow.array([86400000, None, 0, 0, -86400000], pyarrow.date64())
columns["times"] = pyarrow.array([1, None, -5, 10**6, 7], pyarrow.timestamp("us"))
columns["zoned"] = pyarrow.array([1, None, -5, 10**6, 7], pyarrow.timestamp("ns", "UTC"))
columns["lists"] = pyarrow.array([[1, 2], [], None, [None, 3], [4]], pyarrow.list_(pyarrow.int32()))
lists = [[[1.0], []], [], None, [[2.0, 3.0], None], [[4.0]]]
columns["lists_of_lists"] = pyarrow.array(lists, pyarrow.list_(pyarrow.list_(pyarrow.float32())))
columns["pairs"] = pyarrow.array([[1, 2], [3, 4], None, [5, 6], [7, 8]], pyarrow.list_(pyarrow.int16(), 2))
columns["lists_of_bytes"] = pyarrow.array([[b"a"], [], [b""], None, [b"x", b"y"]])
columns["lists_of_times"] = pyarrow.array([[1], [], [2], None, [4, 5]], pyarrow.list_(pyarrow.timestamp("us")))
pyarrow.parquet.write_table(pyarrow.table(columns), sys.argv[1])
