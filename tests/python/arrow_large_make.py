"""Writes Arrow files of one batch of more than 16 MiB, with polars and pyarrow, and prints their names."""

import json
import os
import sys

import polars
import pyarrow

folder = sys.argv[1]
os.makedirs(folder)
n = 300_000
text = [None if i % 7 == 0 else f"text {i} " + "x" * (i % 60) for i in range(n)]
frame = polars.DataFrame(
    {
        "id": range(n),
        "maybe": [None if i % 3 == 0 else i / 4 for i in range(n)],
        "text": text,
        "flag": [i % 2 == 0 for i in range(n)],
        "list": [list(range(i % 4)) for i in range(n)],
        "pair": [{"a": i, "b": str(i % 10)} for i in range(n)],
    }
)
# The remaining rows refer to parts of the text that are in no order.
shuffled = frame.with_columns(text=polars.col("text").shuffle(seed=7)).rechunk()
for codec in ["uncompressed", "lz4", "zstd"]:
    shuffled.write_ipc(os.path.join(folder, f"polars-{codec}.arrow"), compression=codec, record_batch_size=n)
table = frame.to_arrow().combine_chunks()
views = pyarrow.array(text[::-1], pyarrow.string_view())
maps = pyarrow.array([[("a", i)] for i in range(n)], pyarrow.map_(pyarrow.string(), pyarrow.int64()))
table = table.append_column("view", views).append_column("map", maps)
for codec in [None, "lz4", "zstd"]:
    options = pyarrow.ipc.IpcWriteOptions(compression=codec)
    with pyarrow.ipc.new_file(os.path.join(folder, f"pyarrow-{codec}.arrow"), table.schema, options=options) as out:
        out.write_batch(table.to_batches()[0])
for name in os.listdir(folder):
    with pyarrow.ipc.open_file(os.path.join(folder, name)) as file:
        assert file.num_record_batches == 1, (name, file.num_record_batches)
print(json.dumps(sorted(os.listdir(folder))))
