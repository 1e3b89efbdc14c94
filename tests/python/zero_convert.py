"""Converts a ZeRO checkpoint to safetensors with DeepSpeed's own script, for the benchmark."""

import os
import sys

os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("DS_SKIP_CUDA_CHECK", "1")

from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
from safetensors.torch import save_file

source, target = sys.argv[1:]
save_file(get_fp32_state_dict_from_zero_checkpoint(source), target, metadata={"format": "pt"})
