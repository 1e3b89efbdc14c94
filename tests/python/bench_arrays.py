"""Writes a model of the same size as a safetensors file: bench_arrays.py SAFETENSORS OUTPUT

The output contains F16 arrays for NumPy, or F32 initializers in a separate file for ONNX.
"""

import os
import sys

import numpy as np

source, target = sys.argv[1:]
size = os.path.getsize(source)
bits = np.random.default_rng(1)


def array(count, dtype):
    return bits.integers(0, 0x3C00, count, dtype=np.uint16).view(np.float16).astype(dtype)


if target.endswith(".npy"):
    np.save(target, array(size // 2048 * 1024, np.float16).reshape(-1, 1024))
elif target.endswith(".npz"):
    np.savez(target, **{f"layer.{i}.weight": array(size // 600, np.float16) for i in range(300)})
else:
    import onnx
    from onnx import helper, numpy_helper

    weights = [numpy_helper.from_array(array(size // 1200, np.float32), f"layer.{i}.weight") for i in range(300)]
    model = helper.make_model(helper.make_graph([], "bench", [], [], weights))
    onnx.save_model(model, target, save_as_external_data=True, location=os.path.basename(target) + ".data")
