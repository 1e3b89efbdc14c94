"""Compares float tensors bit for bit, where all NaN are equal: same_numbers.py A.safetensors B.safetensors

Prints {"numbers": count, "nan": count, "differ": {NAME: [count, first position, both values]}}.
"""

import json
import sys

import numpy as np
from safetensors.numpy import load_file

a, b = (load_file(path) for path in sys.argv[1:3])
assert a.keys() == b.keys(), a.keys() ^ b.keys()
said = {"numbers": 0, "nan": 0, "differ": {}}
for name, left in a.items():
    right = b[name]
    assert (left.dtype, left.shape) == (right.dtype, right.shape) and left.dtype == np.float32, name
    left, right = left.ravel(), right.ravel()
    nan = np.isnan(left) & np.isnan(right)
    said["numbers"] += left.size
    said["nan"] += int(nan.sum())
    differ = np.flatnonzero((left.view(np.uint32) != right.view(np.uint32)) & ~nan)
    if differ.size:
        first = differ[0]
        said["differ"][name] = [int(differ.size), int(first), repr(left[first]), repr(right[first])]
print(json.dumps(said))
