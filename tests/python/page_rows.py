"""Writes records of every kind that a page shows, including images: page_rows.py OUT.parquet"""

import random
import struct
import sys
import zlib

import pyarrow as pa
import pyarrow.parquet as pq


def png(number):
    """Returns an image of 24 by 16 pixels."""
    lines = b"".join(b"\0" + bytes((x * 10 + c * number * 9) % 256 for x in range(24) for c in range(3)) for _ in range(16))
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    header = struct.pack(">IIBBBBB", 24, 16, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


random.seed(0)
texts = ["plain", "</script><script>window.hacked=1</script><b>", "\u202eturned", None]
rows = 3000
columns = {
    "id": pa.array(range(rows)),
    "text": pa.array([texts[number % 4] for number in range(rows)]),
    "tokens": pa.array([[7] * (number % 40) for number in range(rows)], pa.list_(pa.int32())),
    "x": pa.array([random.gauss(0, 1) if number % 97 else float("nan") for number in range(rows)]),
    "label": pa.array([number % 3 == 0 for number in range(rows)]),
    "picture": pa.array([png(number) if number < 20 else b"no picture" for number in range(rows)], pa.binary()),
}
pq.write_table(pa.table(columns), sys.argv[1])
