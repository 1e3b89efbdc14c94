"""torch -> safetensors as a script would do it: what the benchmark runs beside ferry."""

import sys

import torch
from safetensors.torch import save_file

source, target = sys.argv[1:]
save_file(torch.load(source, weights_only=True, mmap=True), target, metadata={"format": "pt"})
