"""Writes a GGUF model of floats, some of which are hard to quantize: gguf_make.py OUTPUT"""

import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize

random = np.random.default_rng(7)


def rows(count):
    """Returns rows of 512 numbers of very different magnitudes."""
    numbers = random.standard_normal((count, 512)).astype(np.float32)
    return numbers * np.float32(10.0) ** random.integers(-30, 30, (count, 1)).astype(np.float32)


def hard():
    """Returns zeros of both signs, one number among zeros, ties, powers of two and their neighbors, and subnormals.

    If zero is the smallest number of a block, ggml uses the sign of the first zero, and numpy may
    use the sign of any zero.
    """
    powers = np.float32(2.0) ** random.integers(-126, 120, 512).astype(np.float32)
    ties = random.integers(-16, 16, 512).astype(np.float32) / np.float32(2)
    alone = np.zeros(512, np.float32)
    alone[::37] = -3.5
    below = np.nextafter(powers, np.float32(0))
    signs = np.where(random.integers(0, 2, 512) == 0, np.float32(0.0), np.float32(-0.0))
    signs[::32] = -1
    tiny = random.integers(0, 1 << 20, 512).astype(np.uint32).view(np.float32)
    return np.stack([np.zeros(512, np.float32), signs, alone, ties, powers, below, tiny, np.full(512, 1e38, np.float32)])


writer = GGUFWriter(sys.argv[1], "llama")
writer.add_uint32("llama.block_count", 2)
writer.add_array("tokenizer.ggml.tokens", ["a", "ü", ""])
writer.add_array("x.numbers", [0.5, -1.5])
writer.add_tensor("rows", rows(256))
writer.add_tensor("hard", hard())
writer.add_tensor("deep", rows(12).reshape(3, 4, 512))
writer.add_tensor("half", random.standard_normal((16, 512)).astype(np.float16))
brain = GGMLQuantizationType.BF16
writer.add_tensor("brain", quantize(rows(8), brain), raw_dtype=brain)
writer.add_tensor("q_norm.weight", rows(2))
writer.add_tensor("one", rows(1)[0])
writer.add_tensor("odd", random.standard_normal((4, 33)).astype(np.float32))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
