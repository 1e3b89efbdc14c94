"""Writes the bytes of a safetensors file as the weights of a ZeRO-3 checkpoint, for the benchmark.

The checkpoint is written by hand in the layout of DeepSpeed's engine: each of eight ranks has an
eighth of every parameter, and stores these parts consecutively in a flat vector. The bytes of all
tensors are interpreted as F32 weights. The optimizer has no state, as after the first step of plain
SGD.

    bench_zero3.py SOURCE.safetensors FOLDER
"""

import os
import sys
from collections import OrderedDict

import torch
from safetensors import safe_open

RANKS = 8
TAG = "global_step1"


def pieces(file, rank):
    """Returns the rank's piece of every parameter, with padding if the number of ranks does not divide its length."""
    for name in file.keys():
        values = file.get_tensor(name).view(torch.float32).flatten()
        share = -(-values.numel() // RANKS)
        piece = values[rank * share : (rank + 1) * share]
        yield torch.nn.functional.pad(piece, (0, share - piece.numel()))


def model_states(shapes):
    return {
        # Stage 3 keeps no parameters in the module.
        "module": OrderedDict((name, torch.empty(0, dtype=torch.bfloat16)) for name in shapes),
        "buffer_names": [],
        "param_shapes": [shapes],
        "frozen_param_shapes": None,
        "frozen_param_fragments": None,
        "shared_params": {},
        "dp_world_size": RANKS,
        "mp_world_size": 1,
        "global_steps": 1,
        "ds_version": "0.19.8",
    }


def optimizer_states(vector):
    state = {
        "zero_stage": 3,
        "partition_count": RANKS,
        "optimizer_state_dict": {"state": {}, "param_groups": [{"lr": 0.01, "params": [0]}]},
        "fp32_flat_groups": [vector],
    }
    return {"optimizer_state_dict": state, "ds_version": "0.19.8"}


def main():
    source, folder = sys.argv[1:]
    os.makedirs(os.path.join(folder, TAG), exist_ok=True)
    with open(os.path.join(folder, "latest"), "w") as latest:
        latest.write(TAG)
    with safe_open(source, "pt") as file:
        shapes = OrderedDict((name, file.get_tensor(name).view(torch.float32).shape) for name in file.keys())
        for rank in range(RANKS):
            vector = torch.cat(list(pieces(file, rank)))
            name = f"zero_pp_rank_{rank}_mp_rank_00"
            torch.save(model_states(shapes), os.path.join(folder, TAG, f"{name}_model_states.pt"))
            torch.save(optimizer_states(vector), os.path.join(folder, TAG, f"bf16_{name}_optim_states.pt"))


if __name__ == "__main__":
    main()
