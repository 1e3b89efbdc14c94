"""Compares casts from F32 to a small float and back with ml_dtypes, whose `float8_e4m3b11fnuz` torch lacks.

Prints the number of compared values.

Usage: cast_ml_dtypes.py INPUT.safetensors OUTPUT.safetensors DTYPE
"""

import json
import sys

import ml_dtypes
import numpy
from safetensors.numpy import load_file

source, output, word = sys.argv[1:]
before, after = load_file(source), load_file(output)
assert set(before) == set(after)
compared = 0
for name, values in before.items():
    with numpy.errstate(all="ignore"):
        expected = values.astype(getattr(ml_dtypes, word)).astype(numpy.float32)
    ours = after[name]
    assert ours.dtype == expected.dtype == numpy.float32
    nan = numpy.isnan(expected)
    assert (numpy.isnan(ours) == nan).all(), values[numpy.isnan(ours) != nan][:5]
    differ = (ours.view(numpy.uint32) != expected.view(numpy.uint32)) & ~nan
    assert not differ.any(), (values[differ][:5], ours[differ][:5], expected[differ][:5])
    compared += values.size
print(json.dumps({"values": compared}))
