"""Writes random blocks of every type that gguf-py can decode: gguf_blocks.py SEED BLOCKS.gguf NUMBERS.safetensors

All bit patterns occur, including scales that are NaN, infinite or subnormal. Prints the types.
"""

import json
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter, quants
from safetensors.numpy import save_file

ROWS, LONG = 96, 2
random = np.random.default_rng(int(sys.argv[1]))
writer, numbers = GGUFWriter(sys.argv[2], "llama"), {}
for kind in GGMLQuantizationType:
    elements, size = GGML_QUANT_SIZES[kind]
    if elements == 1:
        continue
    blocks = random.integers(0, 256, (ROWS, LONG * size), np.uint8)
    try:
        with np.errstate(all="ignore"):
            numbers[kind.name] = quants.dequantize(blocks, kind)
    except NotImplementedError:
        continue
    writer.add_tensor(kind.name, blocks, raw_dtype=kind)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
save_file(numbers, sys.argv[3])
print(json.dumps(list(numbers)))
