"""Saves whole modules, and prints the tensors of their `state_dict()`.

    torch_modules.py FOLDER            creates FOLDER/CASE.pt for each case
    torch_modules.py FOLDER --check    loads FOLDER/CASE.back.pt, ferry's conversion of it, into the same model
"""

import json
import sys
from collections import OrderedDict

import torch
from torch import nn

import facts


class Scale(torch.Tensor):
    """A custom class of parameters."""


class Block(nn.Module):
    """A module with parameters, persistent and other buffers, and attributes that are not
    tensors."""

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width, bias=False)
        self.norm = nn.BatchNorm1d(width)
        self.register_buffer("kept", torch.arange(3))
        self.register_buffer("dropped", torch.arange(4), persistent=False)
        self.register_buffer("absent", None)
        self.register_parameter("nothing", None)
        self.mask = nn.Buffer(torch.tensor([True, False]))
        self.cache = nn.Buffer(torch.zeros(5), persistent=False)
        self.loose = torch.ones(6)
        self.name, self.rate, self.sizes = "block", 0.1, {"width": width}

    def forward(self, x):
        return self.norm(self.linear(x)) + self.dropped.sum()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 4)
        self.blocks = nn.ModuleList([Block(4), nn.Sequential(Block(4), nn.ReLU(), nn.Sequential(Block(4)))])
        self.by_name = nn.ModuleDict({"a": nn.Linear(4, 4), "ü": nn.LayerNorm(4)})
        self.list = nn.ParameterList([torch.ones(1), torch.zeros(2, 2)])
        self.dict = nn.ParameterDict({"x": torch.ones(3), "deep": nn.Parameter(torch.eye(2), requires_grad=False)})
        self.absent = None
        self.register_module("empty", None)
        self.again = self.blocks[0]
        self.head = nn.Linear(4, 11)
        self.head.weight = self.embedding.weight
        self.head.bias.requires_grad_(False)
        self.scale = nn.Parameter(torch.full((4,), 2.0).as_subclass(Scale))
        self.turned = nn.Parameter(torch.arange(12.0).reshape(3, 4).t())
        self.brain = nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
        self.again.register_forward_hook(hook)

    def forward(self, tokens):
        x = self.embedding(tokens) * self.scale
        for block in self.blocks:
            x = block(x)
        return self.head(self.by_name["ü"](self.by_name["a"](self.again(x))))


def hook(module, inputs, output):
    return output


class Weighted(nn.Module):
    """A module in the state that weight_norm produces: two parameters, and the weight as a plain attribute."""

    def __init__(self):
        super().__init__()
        self.linear = nn.utils.weight_norm(nn.Linear(3, 2))

    def forward(self, x):
        return self.linear(x)


def model():
    torch.manual_seed(5)
    return Model().eval()


def cases():
    """Returns each case: its modules by their path in the file, the value to save, and the function that saves it."""
    whole, parallel, weighted = model(), nn.DataParallel(model()), Weighted()
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1] = tied[0]
    yield "whole", {"": whole}, whole, {}
    for protocol in (2, 3, 4, 5):
        yield f"protocol-{protocol}", {"": whole}, whole, {"pickle_protocol": protocol}
    yield "legacy", {"": whole}, whole, {"_use_new_zipfile_serialization": False}
    yield "in-dict", {"net": whole}, {"epoch": 3, "net": whole, "note": "x"}, {}
    yield "parallel", {"": parallel}, parallel, {}
    yield "weight-norm", {"": weighted}, weighted, {}
    yield "shared", {"": tied}, tied, {}
    yield "two", {"g": whole, "d": weighted}, {"g": whole, "d": weighted}, {}
    yield "half", {"": model().half()}, model().half(), {}
    yield "state-dict", {"": whole}, whole.state_dict(), {}
    yield "with-parameters", {"": whole}, OrderedDict(whole.state_dict(keep_vars=True)), {}


def expected(modules):
    return {f"{path}.{name}" if path else name: tensor
            for path, module in modules.items() for name, tensor in module.state_dict().items()}


def check(path, module):
    """Checks that the file contains the entries of the module's state dict in the same order, and that the module loads it."""
    state = torch.load(path, weights_only=True, mmap=True)
    assert type(state) is OrderedDict, type(state)
    assert list(state) == list(module.state_dict()), path
    other = module.state_dict()
    assert all(facts.fact(state[name]) == facts.fact(other[name]) for name in state), path
    for tensor in module.state_dict().values():
        tensor.zero_()
    module.load_state_dict(state, strict=True)


def main():
    folder, *options = sys.argv[1:]
    made = {}
    for name, modules, saved, how in cases():
        if "--check" in options:
            if "" in modules:
                check(f"{folder}/{name}.back.pt", modules[""])
            continue
        torch.save(saved, f"{folder}/{name}.pt", **how)
        made[name] = facts.facts(expected(modules))
    print(json.dumps(made))


if __name__ == "__main__":
    main()
