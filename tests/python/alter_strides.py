"""Saves a matrix, and a copy of the file in which only the strides in the pickle differ. Prints the
tensors that torch reads from both files."""

import json
import sys
import zipfile

import torch

import facts

plain, altered = sys.argv[1:]
torch.save({"w": torch.arange(64.0 * 48).reshape(64, 48)}, plain)

# BININT1 48, BININT1 1, TUPLE2: the row-major strides of [64, 48]. The script replaces them with
# the strides of a transpose.
before, after = b"K\x30K\x01\x86", b"K\x01K\x40\x86"
with zipfile.ZipFile(plain) as source, zipfile.ZipFile(altered, "w") as target:
    for name in source.namelist():
        data = source.read(name)
        if name.endswith("/.format_version"):
            continue  # this file promises that offsets can be computed, which is true only for torch's own layout
        if name.endswith("/data.pkl"):
            assert data.count(before) == 1, data
            data = data.replace(before, after)
        target.writestr(name, data)

print(json.dumps([facts.facts(torch.load(path, weights_only=True)) for path in (plain, altered)]))
