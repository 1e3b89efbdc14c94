"""Compares JSON lines with a Parquet file, or with other lines, value by value."""

import json
import sys

import pyarrow.parquet as pq


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def rows(path):
    if path.endswith(".jsonl"):
        return lines(path)
    return pq.read_table(path).to_pylist()


def same(ours, theirs):
    """Reports whether two values are equal. A missing key is a null, and a float may be written as an integer."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return all(same(ours.get(key), theirs.get(key)) for key in ours.keys() | theirs.keys())
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return ours == theirs and isinstance(ours, bool) == isinstance(theirs, bool)


source = lines(sys.argv[1])
for path in sys.argv[2:]:
    others = rows(path)
    assert len(source) == len(others), path
    for number, (ours, theirs) in enumerate(zip(source, others)):
        assert same(ours, theirs), (path, number, ours, theirs)
print(len(source))
