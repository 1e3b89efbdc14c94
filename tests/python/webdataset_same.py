"""Compares the samples of two tar files."""

import json
import re
import sys
import tarfile

import webdataset


def samples(path):
    found = {}
    with tarfile.open(path, "r|*") as tar:
        for info in tar:
            key, member = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", info.name).groups()
            found.setdefault(key, {})[member] = tar.extractfile(info).read()
    return found


def by_library(path):
    dataset = webdataset.WebDataset(path, shardshuffle=False)
    return {s["__key__"]: {k: v for k, v in s.items() if not k.startswith("__")} for s in dataset}


ours, theirs = by_library(sys.argv[2]), samples(sys.argv[1])
assert list(ours) == list(theirs)
assert ours == theirs
print(json.dumps(len(ours)))
