"""Compares Arrow files or streams, including schema and metadata. polars reads the files that have
no tensor type."""

import json
import sys

import polars
import pyarrow


def table(path):
    with open(path, "rb") as file:
        is_file = file.read(6) == b"ARROW1"
    reader = pyarrow.ipc.open_file(path) if is_file else pyarrow.ipc.open_stream(path)
    found = reader.read_all()
    found.validate(full=True)
    return found


ours, theirs = table(sys.argv[2]), table(sys.argv[1])
assert ours.schema.equals(theirs.schema, check_metadata=True), (ours.schema, theirs.schema)
assert ours.to_pylist() == theirs.to_pylist()
read = polars.read_ipc if open(sys.argv[2], "rb").read(6) == b"ARROW1" else polars.read_ipc_stream
columns = ["id", "word", "tags", "at"]
assert read(sys.argv[2], columns=columns).to_dicts() == theirs.select(columns).to_pylist()
print(json.dumps(len(ours)))
