"""Which dtype of a framework a dtype of the engine is.

The engine's names are those of safetensors, extended. Dtypes that numpy does not have come from `ml_dtypes`.
"""

from __future__ import annotations

from ._errors import unsupported

# Name: numpy's (with "ml:" of ml_dtypes), torch's. An empty text: there is none.
TABLE: dict[str, tuple[str, str]] = {
    "BOOL": ("bool", "bool"),
    "U8": ("uint8", "uint8"),
    "I8": ("int8", "int8"),
    "U16": ("uint16", "uint16"),
    "I16": ("int16", "int16"),
    "U32": ("uint32", "uint32"),
    "I32": ("int32", "int32"),
    "U64": ("uint64", "uint64"),
    "I64": ("int64", "int64"),
    "F16": ("float16", "float16"),
    "BF16": ("ml:bfloat16", "bfloat16"),
    "F32": ("float32", "float32"),
    "F64": ("float64", "float64"),
    "C32": ("", "complex32"),
    "C64": ("complex64", "complex64"),
    "C128": ("complex128", "complex128"),
    "F8_E4M3": ("ml:float8_e4m3fn", "float8_e4m3fn"),
    "F8_E5M2": ("ml:float8_e5m2", "float8_e5m2"),
    "F8_E4M3FNUZ": ("ml:float8_e4m3fnuz", "float8_e4m3fnuz"),
    "F8_E5M2FNUZ": ("ml:float8_e5m2fnuz", "float8_e5m2fnuz"),
    "F8_E4M3B11FNUZ": ("ml:float8_e4m3b11fnuz", ""),
    "F8_E8M0": ("ml:float8_e8m0fnu", "float8_e8m0fnu"),
    # One element a byte.
    "I4_UNPACKED": ("ml:int4", ""),
    "U4_UNPACKED": ("ml:uint4", ""),
    "I2_UNPACKED": ("ml:int2", ""),
    "U2_UNPACKED": ("ml:uint2", ""),
    "F4_UNPACKED": ("ml:float4_e2m1fn", ""),
    # What is quantized is its integers, what has no meaning its bits.
    "QI8": ("int8", "int8"),
    "QU8": ("uint8", "uint8"),
    "QI16": ("int16", "int16"),
    "QU16": ("uint16", "uint16"),
    "QI32": ("int32", "int32"),
    "BITS8": ("uint8", "uint8"),
    "BITS16": ("uint16", "uint16"),
    "BITS1x8": ("uint8", "uint8"),
    "BITS2x4": ("uint8", "uint8"),
    "BITS4x2": ("uint8", "uint8"),
}

# Several elements a byte, the first in the lowest bits: as which dtype of one element a byte they are numbers.
PACKED: dict[str, str] = {
    "F4": "F4_UNPACKED",
    "I4": "I4_UNPACKED",
    "U4": "U4_UNPACKED",
    "I2": "I2_UNPACKED",
    "U2": "U2_UNPACKED",
}

# The engine's name of an array's dtype: the first that has it.
_OF_NUMPY: dict[str, str] = {}
for _name, (_numpy, _torch) in TABLE.items():
    if _numpy:
        _OF_NUMPY.setdefault(_numpy.removeprefix("ml:"), _name)


def name_of(numpy_name: str) -> str | None:
    """The engine's name of a dtype of numpy or `ml_dtypes`."""
    return _OF_NUMPY.get(numpy_name)


def numpy_dtype(name: str):  # type: ignore[no-untyped-def]
    """numpy's dtype, or `None` if it has none. Raises `UnsupportedError` if it is one of a package that is not there."""
    import numpy

    found = TABLE.get(name, ("", ""))[0]
    if found.startswith("ml:"):
        try:
            import ml_dtypes
        except ImportError:
            hint = "pip install ml_dtypes; torch() and bytes() do without"
            raise unsupported(f"numpy has {name} only with the package ml_dtypes", hint=hint) from None

        scalar = getattr(ml_dtypes, found[3:], None)
        return None if scalar is None else numpy.dtype(scalar)
    return numpy.dtype(found) if found else None


def unpacked(data: bytes, name: str):  # type: ignore[no-untyped-def]
    """The elements of a dtype of `PACKED`, one in the low bits of each byte, as `ml_dtypes` has them; or `None`."""
    import numpy

    bits = int(name[1:])
    shifts = numpy.arange(0, 8, bits, dtype=numpy.uint8)
    elements = (numpy.frombuffer(data, numpy.uint8)[:, None] >> shifts).reshape(-1) & ((1 << bits) - 1)
    dtype = numpy_dtype(PACKED[name])
    return None if dtype is None else elements.view(dtype)


def torch_dtype(name: str):  # type: ignore[no-untyped-def]
    """torch's dtype, or `None` if it has none."""
    import torch

    found = TABLE.get(name, ("", ""))[1]
    return getattr(torch, found, None) if found else None
