"""Converts a torch file to safetensors as a user's script does, for the benchmark."""

import sys

import torch
from safetensors.torch import save_file

source, target = sys.argv[1:]
save_file(torch.load(source, weights_only=True, mmap=True), target, metadata={"format": "pt"})
