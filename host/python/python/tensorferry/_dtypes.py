"""Maps the engine's dtypes to those of numpy and torch.

The engine uses the dtype names of safetensors, with additions. Dtypes that numpy lacks come from `ml_dtypes`.
"""

from __future__ import annotations

from ._errors import unsupported

# Maps each engine name to its numpy dtype (with the prefix "ml:" for `ml_dtypes`) and its torch
# dtype. An empty string means that there is no such dtype.
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
    # These dtypes store one element per byte.
    "I4_UNPACKED": ("ml:int4", ""),
    "U4_UNPACKED": ("ml:uint4", ""),
    "I2_UNPACKED": ("ml:int2", ""),
    "U2_UNPACKED": ("ml:uint2", ""),
    "F4_UNPACKED": ("ml:float4_e2m1fn", ""),
    # Quantized dtypes are represented by their integers, and uninterpreted dtypes by their bits.
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

# Maps each dtype with several elements per byte, the first in the lowest bits, to the dtype of the
# unpacked elements.
PACKED: dict[str, str] = {
    "F4": "F4_UNPACKED",
    "I4": "I4_UNPACKED",
    "U4": "U4_UNPACKED",
    "I2": "I2_UNPACKED",
    "U2": "U2_UNPACKED",
}

# The first engine dtype for each numpy dtype.
_OF_NUMPY: dict[str, str] = {}
for _name, (_numpy, _torch) in TABLE.items():
    if _numpy:
        _OF_NUMPY.setdefault(_numpy.removeprefix("ml:"), _name)


def name_of(numpy_name: str) -> str | None:
    """Returns the engine's name for a numpy or `ml_dtypes` dtype."""
    return _OF_NUMPY.get(numpy_name)


def numpy_dtype(name: str):  # type: ignore[no-untyped-def]
    """Returns the numpy dtype, or `None` if numpy lacks it.

    Raises:
        UnsupportedError: The dtype needs `ml_dtypes`, which is not installed.
    """
    import numpy

    found = TABLE.get(name, ("", ""))[0]
    if found.startswith("ml:"):
        try:
            import ml_dtypes
        except ImportError:
            hint = "pip install ml_dtypes; torch() and bytes() do not need it"
            raise unsupported(f"numpy needs the package ml_dtypes for {name}", hint=hint) from None

        scalar = getattr(ml_dtypes, found[3:], None)
        return None if scalar is None else numpy.dtype(scalar)
    return numpy.dtype(found) if found else None


def unpacked(data: bytes, name: str):  # type: ignore[no-untyped-def]
    """Unpacks a dtype of `PACKED` into one element per byte, as `ml_dtypes` does. Returns `None` if `ml_dtypes` lacks the dtype."""
    import numpy

    bits = int(name[1:])
    shifts = numpy.arange(0, 8, bits, dtype=numpy.uint8)
    elements = (numpy.frombuffer(data, numpy.uint8)[:, None] >> shifts).reshape(-1) & ((1 << bits) - 1)
    dtype = numpy_dtype(PACKED[name])
    return None if dtype is None else elements.view(dtype)


def torch_dtype(name: str):  # type: ignore[no-untyped-def]
    """Returns the torch dtype, or `None` if torch lacks it."""
    import torch

    found = TABLE.get(name, ("", ""))[1]
    return getattr(torch, found, None) if found else None
