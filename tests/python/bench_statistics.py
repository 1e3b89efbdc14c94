"""Computes the statistics of a model as a script does, in five calls: min, max, mean, std, count of zeros.

bench_statistics.py torch|numpy|gguf PATH     prints the seconds for all tensors

The time starts when all imports are done and the file is in the page cache. safetensors maps the
file for torch and reads it for numpy; gguf-py maps it and dequantizes one tensor at a time.
"""

import sys
import time

import numpy as np


def numpy_calls(x):
    return x.min(), x.max(), x.mean(), x.std(), x.size - np.count_nonzero(x)


def torch_calls(x):
    import torch

    # By default, torch computes the sample standard deviation.
    return x.min(), x.max(), x.mean(), x.std(correction=0), x.numel() - torch.count_nonzero(x)


def of_gguf(path):
    import gguf

    tensors = gguf.GGUFReader(path).tensors
    return lambda: [lambda t=t: numpy_calls(gguf.quants.dequantize(t.data, t.tensor_type)) for t in tensors]


def of_arrays(library, path):
    if library == "torch":
        from safetensors.torch import load_file
    else:
        from safetensors.numpy import load_file
    calls = torch_calls if library == "torch" else numpy_calls
    calls(load_file(path).popitem()[1])
    return lambda: [lambda t=t: calls(t) for t in load_file(path).values()]


library, path = sys.argv[1:]
looks = of_gguf(path) if library == "gguf" else of_arrays(library, path)
start = time.perf_counter()
for look in looks():
    look()
print(time.perf_counter() - start)
