"""Returns the facts of a tree's arrays, by their keys: ferry's name of the dtype, the shape and the SHA-256."""
import hashlib

import numpy as np

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


def facts(tree, is_array):
    found = {}

    def walk(node, path):
        if isinstance(node, dict):
            for key, value in node.items():
                walk(value, path + [str(key)])
        elif isinstance(node, (list, tuple)):
            for index, value in enumerate(node):
                walk(value, path + [str(index)])
        elif is_array(node):
            array = np.asarray(node)
            digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
            found[".".join(path)] = [dtype_name(array.dtype), list(array.shape), digest]

    walk(tree, [])
    return found
