"""Compares the samples of two MDS datasets: mds_same.py FIRST SECOND [HASH]

The second dataset is also read in shuffled order, and its hashes are checked.
"""

import json
import sys

import numpy as np
from streaming import StreamingDataset
from streaming.base.util import clean_stale_shared_memory


def samples(path, **options):
    clean_stale_shared_memory()
    return list(StreamingDataset(local=path, batch_size=1, **options))


def same(one, other):
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and (one == other).all()
    return type(one) is type(other) and one == other


first = samples(sys.argv[1], shuffle=False)
hashed = {"validate_hash": sys.argv[3]} if len(sys.argv) > 3 else {}
second = samples(sys.argv[2], shuffle=False, **hashed)
shuffled = samples(sys.argv[2], shuffle=True, shuffle_seed=7)
assert [s["id"] for s in shuffled] != [s["id"] for s in second]
for found in (second, sorted(shuffled, key=lambda s: s["id"])):
    assert len(found) == len(first)
    for one, other in zip(first, found):
        assert one.keys() == other.keys(), (one.keys(), other.keys())
        for key in one:
            assert same(one[key], other[key]), (key, one[key], other[key])
print(json.dumps(len(first)))
