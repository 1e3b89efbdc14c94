"""Casts a safetensors file to BF16 as users' scripts do: loads it into memory, casts it, and writes the result."""

import sys

import torch
from safetensors.torch import load_file, save_file

source, target = sys.argv[1:]
save_file({name: tensor.to(torch.bfloat16) for name, tensor in load_file(source).items()}, target)
