"""Checks a model that ferry quantized against gguf-py's quantizers: gguf_same.py SOURCE OUTPUT TYPE"""

import json
import sys

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader
from gguf.quants import dequantize, quantize

source, output = (GGUFReader(path) for path in sys.argv[1:3])
wanted = Type[sys.argv[3].upper()]


def expected_type(tensor):
    """Returns the expected type of a tensor, by llama.cpp's rule for names that match no pattern."""
    if len(tensor.shape) == 1 or tensor.name.endswith("_norm.weight"):
        return Type.F32
    return Type.F16 if tensor.shape[0] % 256 else wanted


def numbers(tensor):
    if tensor.tensor_type in (Type.F32, Type.F16):
        return tensor.data.astype(np.float32)
    return dequantize(tensor.data, tensor.tensor_type)


ours = {tensor.name: tensor for tensor in output.tensors}
assert list(ours) == [tensor.name for tensor in source.tensors]
for tensor in source.tensors:
    found, kind = ours[tensor.name], expected_type(tensor)
    assert found.tensor_type == kind, (tensor.name, found.tensor_type, kind)
    with np.errstate(all="ignore"):
        theirs = quantize(numbers(tensor), kind)
    assert found.data.tobytes() == theirs.tobytes(), f"{tensor.name} differs from gguf-py's {kind.name}"

for key, field in source.fields.items():
    if not key.startswith("GGUF."):
        found = output.fields[key]
        assert (found.types, found.contents()) == (field.types, field.contents()), key
print(json.dumps(len(ours)))
