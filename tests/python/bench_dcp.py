"""Saves the tensors of a safetensors file as a distributed checkpoint of two ranks, for the benchmark.

Each rank has and writes half of the rows of every tensor.

    bench_dcp.py SOURCE.safetensors FOLDER
"""

import sys

import torch
import torch.distributed.checkpoint as dcp
from safetensors import safe_open
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

import ranks

RANKS = 2


def save(rank, source, folder):
    mesh = init_device_mesh("cpu", (RANKS,))
    tensors = {}
    with safe_open(source, "pt") as file:
        for name in file.keys():
            whole = file.get_slice(name)
            shape = torch.Size(whole.get_shape())
            # As with torch.chunk, the last rank may have fewer rows.
            rows = -(-shape[0] // RANKS)
            part = whole[rank * rows : (rank + 1) * rows]
            strides = torch.empty(shape, device="meta").stride()
            tensors[name] = DTensor.from_local(part, mesh, [Shard(0)], run_check=False, shape=shape, stride=strides)
    dcp.save(tensors, storage_writer=dcp.FileSystemWriter(folder))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    ranks.run(save, RANKS, *sys.argv[1:])
