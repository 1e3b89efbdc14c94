"""Checks that two torch files contain the same nested object: keys and their order, types, scalars, tensors and ties."""

import sys

import torch

import facts

a, b = (facts.load_torch(path) for path in sys.argv[1:])


def same(x, y, path="$"):
    if isinstance(x, torch.Tensor):
        assert facts.fact(x) == facts.fact(y), path
        return
    assert type(x) is type(y), f"{path}: {type(x)} became {type(y)}"
    if isinstance(x, dict):
        assert list(x) == list(y), f"{path}: {list(x)} became {list(y)}"
        for key in x:
            same(x[key], y[key], f"{path}.{key}")
    elif isinstance(x, (list, tuple)):
        assert len(x) == len(y), path
        for index, pair in enumerate(zip(x, y)):
            same(*pair, f"{path}.{index}")
    else:
        assert x == y, f"{path}: {x!r} became {y!r}"


same(a, b)
assert facts.facts(a)["ties"] == facts.facts(b)["ties"] == [["model_state.emb.weight", "model_state.head.weight"]]
