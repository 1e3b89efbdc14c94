"""Loads runs that ferry wrote into models of megatron-core on several ranks, and compares each rank with its saved state.

    megatron_load.py FOLDER dist|ranks CASE:RUN...

FOLDER/CASE is the output of megatron_make.py, and FOLDER/RUN the output of ferry: a torch_dist
checkpoint, or the same rank folders. Prints the number of compared tensors in each run.
"""

import argparse
import json
import pathlib
import sys

import torch

import megatron_make
import ranks
from megatron.core import dist_checkpointing, parallel_state

# The class of a run's arguments, which Megatron registers with torch when it starts.
torch.serialization.add_safe_globals([argparse.Namespace])


def place(case):
    """Returns the folder of this rank, with the name that Megatron uses."""
    _, stages, experts = megatron_make.CASES[case]
    at = [f"mp_rank_{parallel_state.get_tensor_model_parallel_rank():02}"]
    if stages > 1:
        at.append(f"{parallel_state.get_pipeline_model_parallel_rank():03}")
    if experts > 1:
        at.append(f"{parallel_state.get_expert_model_parallel_rank():03}")
    return "_".join(at)


def rank_file(folder):
    return torch.load(folder / "model_optim_rng.pt", weights_only=False)


def load(rank, folder, form, case, run):
    _, model = megatron_make.build(case, megatron_make.CASES[case])
    mine = pathlib.Path(folder, case, "iter_0000005", place(case))
    theirs = pathlib.Path(folder, run, "iter_0000005")
    saved = rank_file(mine)
    if form == "dist":
        state = dist_checkpointing.load({"model": model.sharded_state_dict()}, str(theirs))["model"]
        common = dist_checkpointing.load_common_state_dict(str(theirs))
        assert common["args"].hidden_size == saved["args"].hidden_size and common["iteration"] == 5
    else:
        written = rank_file(theirs / place(case))
        assert written["args"] == saved["args"] and written["checkpoint_version"] == 3.0
        state = written["model"]
    model.load_state_dict(state)
    compared = 0
    for name, tensor in model.state_dict().items():
        if isinstance(tensor, torch.Tensor):
            assert tensor.dtype == saved["model"][name].dtype and torch.equal(tensor, saved["model"][name]), (run, name)
            compared += 1
    pathlib.Path(folder, f"{run}.{rank}.count").write_text(str(compared))
    torch.distributed.destroy_process_group()


def main():
    folder, form, *pairs = sys.argv[1:]
    compared = {}
    for pair in pairs:
        case, run = pair.split(":")
        tensor, stages, experts = megatron_make.CASES[case]
        count = tensor * stages * experts
        ranks.run(load, count, folder, form, case, run)
        compared[run] = sum(int(pathlib.Path(folder, f"{run}.{rank}.count").read_text()) for rank in range(count))
    print(json.dumps(compared))


if __name__ == "__main__":
    main()
