"""Prints what flax.serialization reads of a msgpack file: its arrays' facts, by the keys that lead to them.

    flax_see.py FILE [like]       like: also through from_bytes, onto a target of the same structure
"""
import hashlib
import json
import sys

import jax
import numpy as np
from flax import serialization

NAMES = {
    "bool": "BOOL", "float8_e4m3fn": "F8_E4M3", "float8_e8m0fnu": "F8_E8M0", "float4_e2m1fn": "F4_UNPACKED",
    "int4": "I4_UNPACKED", "uint4": "U4_UNPACKED", "int2": "I2_UNPACKED", "uint2": "U2_UNPACKED",
}


def dtype_name(dtype):
    name = str(dtype)
    if name in NAMES:
        return NAMES[name]
    for long, short in (("bfloat", "BF"), ("float8", "F8"), ("float", "F"), ("complex", "C"), ("uint", "U"), ("int", "I")):
        if name.startswith(long):
            return short + name[len(long):].upper()
    return name


def walk(node, path, found):
    if isinstance(node, dict):
        for key, value in node.items():
            walk(value, path + [str(key)], found)
    elif isinstance(node, (list, tuple)):
        for index, value in enumerate(node):
            walk(value, path + [str(index)], found)
    elif isinstance(node, (np.ndarray, np.generic, jax.Array)):
        array = np.asarray(node)
        found[".".join(path)] = [dtype_name(array.dtype), list(array.shape), hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()]


data = open(sys.argv[1], "rb").read()
tree = serialization.msgpack_restore(data)
if sys.argv[2:] == ["like"]:
    target = jax.tree.map(lambda leaf: np.zeros_like(leaf) if hasattr(leaf, "dtype") else leaf, tree)
    tree = serialization.from_bytes(target, data)
found = {}
walk(tree, [], found)
print(json.dumps(found))
