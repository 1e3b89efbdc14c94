"""Writes FOLDER/in.pt, and prints the expected tensors after the steps in tests/tests/interop/steps.rs."""

import json
import sys

import torch

import facts

torch.manual_seed(6)
tensors = {
    "conv": torch.randn(3, 5, 7, 2),
    "large": torch.randn(3000, 2001),
    "qkv": torch.randn(4, 9).to(torch.bfloat16),
    **{f"expert.{number}": torch.randn(3, 4).double() for number in range(11)},
}
torch.save(tensors, f"{sys.argv[1]}/in.pt")
made = {
    "conv": tensors["conv"].permute(3, 1, 2, 0),
    "large": tensors["large"].T.reshape(-1),
    "experts": torch.stack([tensors[f"expert.{number}"] for number in range(11)], 1),
}
made["q"], made["k"], made["v"] = tensors["qkv"].split([5, 2, 2], 1)
made["tied"] = made["q"]
print(json.dumps({name: facts.fact(tensor) for name, tensor in made.items()}))
