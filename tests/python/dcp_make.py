"""Saves distributed checkpoints from several ranks, each of which has a part of the tensors.

Prints the dtype, shape and digest of each whole tensor. The cases are `plain`; `ranks`, where the
ranks do not coordinate; `threads`, with several files per rank; `hugging_face`, the variant with
safetensors files; and `fsdp`, a model that is trained with `fully_shard`.

    dcp_make.py FOLDER CASE...

FOLDER/plain-gap and FOLDER/plain-overlap are copies of FOLDER/plain whose tables describe chunks of
`model.rows` that differ from the saved ones.
"""

import dataclasses
import json
import os
import pickle
import shutil
import sys

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import facts
import ranks

RANKS = 3


def whole(case):
    """Returns the whole tensors, and the placement of each tensor on the ranks."""
    torch.manual_seed(11)
    rows, columns, copies = [Shard(0)], [Shard(1)], [Replicate()]
    matrix = torch.randn(10, 6)
    tensors = {
        "rows": (torch.randn(7, 5), rows),
        "columns": (torch.randn(4, 8, dtype=torch.bfloat16), columns),
        "copies": (torch.arange(12).reshape(3, 4), copies),
        # The tensor has fewer rows than there are ranks, so some ranks have no rows.
        "few": (torch.randn(2, 3, dtype=torch.float64), rows),
        "one": (torch.tensor([True]), rows),
        "cube": (torch.randn(3, 4, 5).to(torch.float8_e4m3fn), [Shard(1)]),
        "transposed": (matrix.t(), columns),
        "no_elements": (torch.empty(0, 3), rows),
    }
    if case == "hugging_face":
        # The library accepts only row-major tensors.
        del tensors["transposed"]
    return tensors


def state(mesh, case):
    """Returns a state, which is nested as in training scripts, or flat for the variant without nesting."""
    # Every rank has the same values, so no values are sent.
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


class Net(torch.nn.Module):
    """A model with sizes that no number of ranks divides, buffers, and tied and frozen parameters."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(7, 5)
        self.body = torch.nn.Sequential(torch.nn.Linear(5, 11), torch.nn.Tanh(), torch.nn.Linear(11, 5))
        self.norm = torch.nn.BatchNorm1d(5)
        self.head = torch.nn.Linear(5, 7, bias=False)
        self.head.weight = self.embedding.weight
        self.frozen = torch.nn.Parameter(torch.randn(2, 3), requires_grad=False)

    def forward(self, tokens):
        return self.head(self.norm(self.body(self.embedding(tokens))))


def train(rank, mesh, folder):
    """Trains for two steps. Rank 0 writes a description of the gathered state next to the checkpoint."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(4)
    net = Net()
    fully_shard(net.body, mesh=mesh)
    fully_shard(net, mesh=mesh)
    optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=0.01)
    for step in range(2):
        torch.manual_seed(10 * step + rank)
        net(torch.randint(0, 7, (6,))).logsumexp(-1).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    # Each rank has its own buffers, and the checkpoint contains those of the first rank.
    for buffer in net.buffers():
        torch.distributed.broadcast(buffer, 0)
    model, state = get_state_dict(net, optimizer, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if rank == 0:
        tensors = dict(facts.flatten({"model": model, "optimizer": state}))
        with open(f"{folder}.json", "w") as file:
            json.dump(facts.facts(tensors)["tensors"], file)
    model, state = get_state_dict(net, optimizer)
    return {"model": model, "optimizer": state}


def save(rank, folder, case):
    mesh = init_device_mesh("cpu", (RANKS,))
    if case == "fsdp":
        dcp.save(train(rank, mesh, folder), checkpoint_id=folder)
        return torch.distributed.destroy_process_group()
    if case == "hugging_face":
        writer = dcp.HuggingFaceStorageWriter(folder, save_distributed=True)
    else:
        writer = dcp.FileSystemWriter(folder, thread_count=2 if case == "threads" else 1)
    dcp.save(state(mesh, case), storage_writer=writer, use_collectives=case != "ranks")
    torch.distributed.destroy_process_group()


def alter(folder, name, change):
    """Copies a checkpoint and changes its table."""
    shutil.copytree(folder, f"{folder}-{name}")
    with open(f"{folder}/.metadata", "rb") as file:
        table = pickle.load(file)
    change(table, table.state_dict_metadata["model.rows"].chunks)
    with open(f"{folder}-{name}/.metadata", "wb") as file:
        pickle.dump(table, file)


def leave_out(table, chunks):
    chunks.pop()


def repeat(table, chunks):
    """Moves the start of the last chunk up by one row."""
    place = {key: value for key, value in table.storage_data.items() if key.fqn == "model.rows"}
    last = chunks.pop()
    before = torch.Size([last.offsets[0] - 1, *last.offsets[1:]])
    chunks.append(dataclasses.replace(last, offsets=before))
    for key in place:
        if key.offset == last.offsets:
            del table.storage_data[key]
            table.storage_data[dataclasses.replace(key, offset=before)] = place[key]


def truth(folder, case):
    if case == "fsdp":
        with open(f"{folder}/fsdp.json") as file:
            return json.load(file)
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
        made[case] = truth(folder, case)
    if "plain" in cases:
        alter(os.path.join(folder, "plain"), "gap", leave_out)
        alter(os.path.join(folder, "plain"), "overlap", repeat)
    print(json.dumps(made))


if __name__ == "__main__":
    main()
