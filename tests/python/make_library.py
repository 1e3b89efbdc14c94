"""Uses the safetensors library to write a file with every dtype that the library accepts and one metadata key.

With two arguments, writes the tensors of the second file to the first."""

import sys

import torch
from safetensors import safe_open
from safetensors.torch import _SIZE, load_file, save_file

target, *source = sys.argv[1:]
if source:
    with safe_open(source[0], framework="pt") as file:
        metadata = file.metadata()
    save_file(load_file(source[0]), target, metadata=metadata)
else:
    torch.manual_seed(11)
    tensors = {}
    for index, dtype in enumerate(sorted(_SIZE, key=str)):
        for shape in [(3, 8), (1,), (), (0, 4)]:
            shape = shape or ((1,) if "float4" in str(dtype) else ())
            empty = torch.empty(shape, dtype=dtype)
            count = empty.numel() * empty.element_size()
            data = torch.randint(0, 2 if dtype is torch.bool else 256, (count,), dtype=torch.uint8)
            name = f"{'zyxwvutsrqponmlkjihgfedcba'[index]}.{dtype}.{len(shape)}.{count}"
            tensors[name] = torch.empty(0, dtype=dtype).set_(data.untyped_storage(), 0, shape)
    save_file(tensors, target, metadata={"format": "pt"})
