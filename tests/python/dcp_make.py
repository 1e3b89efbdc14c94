"""Saves distributed checkpoints from several ranks, each of which holds a part of the tensors.

Prints the facts of the whole tensors, and the values that are no tensors. Cases: `plain`; `ranks`,
where the ranks do not coordinate; `threads`, with several files for each rank; `hugging_face`, the
variant in safetensors files.

    dcp_make.py FOLDER CASE...
"""

import json
import os
import sys

import torch
import torch.distributed.checkpoint as dcp
import torch.multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import facts

RANKS = 3


def whole():
    """The tensors before they are spread over the ranks, and how each is spread."""
    torch.manual_seed(11)
    rows, columns, copies = [Shard(0)], [Shard(1)], [Replicate()]
    matrix = torch.randn(10, 6)
    return {
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


def state(mesh, flat):
    """Nested, as training scripts have it; flat for the variant that knows no nesting."""
    # Every rank has the same values, so that nothing has to be sent.
    spread = {
        name: distribute_tensor(tensor, mesh, placements, src_data_rank=None)
        for name, (tensor, placements) in whole().items()
    }
    if flat:
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


def save(rank, port, folder, case):
    os.environ |= {
        "RANK": str(rank), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (RANKS,))
    if case == "hugging_face":
        writer = dcp.HuggingFaceStorageWriter(folder, save_distributed=True)
    else:
        writer = dcp.FileSystemWriter(folder, thread_count=2 if case == "threads" else 1)
    values = state(mesh, case == "hugging_face")
    if case == "hugging_face":
        # The writer gives a file's tensors to safetensors, which wants them row-major.
        values = {name: value for name, value in values.items() if not name.endswith("transposed")}
    dcp.save(values, storage_writer=writer, use_collectives=case != "ranks")
    torch.distributed.destroy_process_group()


def truth(case):
    tensors = {f"model.{name}": tensor for name, (tensor, _) in whole().items()}
    if case == "hugging_face":
        del tensors["model.transposed"]
    else:
        local = torch.arange(20.0).reshape(4, 5)
        tensors |= {"views.0": local.t(), "views.1": local[1:, ::2], "views.2": torch.tensor(3, dtype=torch.int16)}
        tensors |= {"optimizer.state.0.step": torch.tensor(5.0)}
    return facts.facts(tensors)["tensors"]


def main():
    folder, *cases = sys.argv[1:]
    made = {}
    for number, case in enumerate(cases):
        torch.multiprocessing.spawn(save, (29600 + number, os.path.join(folder, case), case), nprocs=RANKS)
        made[case] = truth(case)
    print(json.dumps(made))


if __name__ == "__main__":
    main()
