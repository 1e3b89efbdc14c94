"""Returns the facts that TensorFlow reads from a checkpoint: the dtype, shape and digest of each tensor, as in tests/fixtures."""

import hashlib
import struct

import numpy as np
import tensorflow as tf

NAMES = {
    "float32": "F32", "float64": "F64", "int32": "I32", "uint8": "U8", "int16": "I16", "int8": "I8",
    "string": "STR", "complex64": "C64", "int64": "I64", "bool": "BOOL", "qint8": "QI8", "quint8": "QU8",
    "qint32": "QI32", "bfloat16": "BF16", "qint16": "QI16", "quint16": "QU16", "uint16": "U16",
    "complex128": "C128", "float16": "F16", "uint32": "U32", "uint64": "U64", "float8_e5m2": "F8_E5M2",
    "float8_e4m3fn": "F8_E4M3", "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e4m3b11fnuz": "F8_E4M3B11FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ", "int4": "I4_UNPACKED", "uint4": "U4_UNPACKED", "int2": "I2_UNPACKED",
    "uint2": "U2_UNPACKED", "float4_e2m1fn": "F4_UNPACKED",
}


def raw(value, dtype):
    """Returns the logical bytes. A string consists of its length as u64, then its bytes."""
    if dtype != "STR":
        return np.ascontiguousarray(value).tobytes()
    strings = [value] if isinstance(value, bytes) else np.ravel(value).tolist()
    return b"".join(struct.pack("<Q", len(string)) + string for string in strings)


def fact(value, dtype):
    shape = [] if isinstance(value, bytes) else list(np.shape(value))
    return [dtype, shape, hashlib.sha256(raw(value, dtype)).hexdigest()]


def facts(prefix):
    """Returns facts about every tensor, or `None` for a tensor that TensorFlow lists but cannot read."""
    reader = tf.train.load_checkpoint(prefix)
    found = {}
    for name, dtype in reader.get_variable_to_dtype_map().items():
        try:
            found[name] = fact(reader.get_tensor(name), NAMES[dtype.name])
        except (tf.errors.OpError, ValueError):
            found[name] = None
    return found
