"""Saves distributed checkpoints from several ranks, each of which holds a part of the tensors.

Prints the facts of the whole tensors. Cases: `plain`; `ranks`, where the ranks do not coordinate;
`threads`, with several files for each rank; `hugging_face`, the variant in safetensors files.

    dcp_make.py FOLDER CASE...
"""

import json
import os
import sys

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import facts
import ranks

RANKS = 3


def whole(case):
    """The tensors before they are spread over the ranks, and how each is spread."""
    torch.manual_seed(11)
    rows, columns, copies = [Shard(0)], [Shard(1)], [Replicate()]
    matrix = torch.randn(10, 6)
    tensors = {
        "rows": (torch.randn(7, 5), rows),
        "columns": (torch.randn(4, 8, dtype=torch.bfloat16), columns),
        "copies": (torch.arange(12).reshape(3, 4), copies),
        # Fewer rows than ranks: some have nothing of it.
        "few": (torch.randn(2, 3, dtype=torch.float64), rows),
        "one": (torch.tensor([True]), rows),
        "cube": (torch.randn(3, 4, 5).to(torch.float8_e4m3fn), [Shard(1)]),
        "transposed": (matrix.t(), columns),
        "no_elements": (torch.empty(0, 3), rows),
    }
    if case == "hugging_face":
        # The library takes row-major tensors only.
        del tensors["transposed"]
    return tensors


def state(mesh, case):
    """Nested, as training scripts have it; flat for the variant that knows no nesting."""
    # Every rank has the same values, so that nothing has to be sent.
    spread = {
        name: distribute_tensor(tensor, mesh, placements, src_data_rank=None)
        for name, (tensor, placements) in whole(case).items()
    }
    if case == "hugging_face":
        return {f"model.{name}": tensor for name, tensor in spread.items()}
    local = torch.arange(20.0).reshape(4, 5)
    return {
        "model": spread,
        "views": [local.t(), local[1:, ::2], torch.tensor(3, dtype=torch.int16)],
        "optimizer": {"state": {"0": {"step": torch.tensor(5.0)}}, "param_groups": [{"lr": 0.1, "betas": (0.9, 0.95)}]},
        "epoch": 4,
        "name": "naïve ☃",
        "list": [1, 2.5, None],
    }


def save(rank, folder, case):
    mesh = init_device_mesh("cpu", (RANKS,))
    if case == "hugging_face":
        writer = dcp.HuggingFaceStorageWriter(folder, save_distributed=True)
    else:
        writer = dcp.FileSystemWriter(folder, thread_count=2 if case == "threads" else 1)
    dcp.save(state(mesh, case), storage_writer=writer, use_collectives=case != "ranks")
    torch.distributed.destroy_process_group()


def truth(case):
    tensors = {f"model.{name}": tensor for name, (tensor, _) in whole(case).items()}
    if case != "hugging_face":
        local = torch.arange(20.0).reshape(4, 5)
        tensors |= {"views.0": local.t(), "views.1": local[1:, ::2], "views.2": torch.tensor(3, dtype=torch.int16)}
        tensors |= {"optimizer.state.0.step": torch.tensor(5.0)}
    return facts.facts(tensors)["tensors"]


def main():
    folder, *cases = sys.argv[1:]
    made = {}
    for case in cases:
        ranks.run(save, RANKS, os.path.join(folder, case), case)
        made[case] = truth(case)
    print(json.dumps(made))


if __name__ == "__main__":
    main()
