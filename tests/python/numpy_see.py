"""Prints the arrays that numpy.load reads from a file: the dtype, the shape, and the sha256 of the
row-major, little-endian bytes.

NAME=DTYPE sets the dtype of an array that is stored as plain bytes.
"""

import hashlib
import json
import pathlib
import sys

import ml_dtypes  # numpy.load knows its dtypes by name once it is imported
import numpy as np

path, *views = sys.argv[1:]
views = dict(view.split("=") for view in views)
NAMES = {
    "bool": "BOOL", "int8": "I8", "uint8": "U8", "int16": "I16", "uint16": "U16", "int32": "I32", "uint32": "U32",
    "int64": "I64", "uint64": "U64", "float16": "F16", "float32": "F32", "float64": "F64", "complex64": "C64",
    "complex128": "C128", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e4m3b11fnuz": "F8_E4M3B11FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
}


def fact(name, array):
    if name in views:
        array = array.view(np.dtype(getattr(ml_dtypes, views[name])))
    content = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype.byteorder == ">":
        content = content.astype(array.dtype.newbyteorder("<"))
    return [NAMES[array.dtype.name], list(array.shape), hashlib.sha256(content.tobytes()).hexdigest()]


loaded = np.load(path, allow_pickle=False)
if isinstance(loaded, np.ndarray):
    name = pathlib.Path(path).stem
    mapped = np.load(path, mmap_mode="r")
    assert fact(name, mapped) == fact(name, loaded)
    # numpy must write the same file, including header and order.
    if name not in views and loaded.dtype.isbuiltin == 1:
        again = f"{path}.again.npy"
        np.save(again, loaded)
        assert pathlib.Path(again).read_bytes() == pathlib.Path(path).read_bytes(), path
    arrays = {name: loaded}
else:
    arrays = {name: loaded[name] for name in loaded.files}
print(json.dumps({name: fact(name, array) for name, array in arrays.items()}))
