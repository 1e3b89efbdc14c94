"""Writes FOLDER/in.pt with parameters. With --check, checks FOLDER/out.pt, in which some parameters were moved."""

import sys

import torch

torch.manual_seed(7)
weight, bias, other = (torch.nn.Parameter(torch.randn(2, 3)) for _ in range(3))
if "--check" not in sys.argv:
    state = {"ema": {"plain": torch.zeros(1)}, "model": {"weight": weight, "bias": bias}, "list": [other]}
    torch.save(state, f"{sys.argv[1]}/in.pt")
    sys.exit()
found = torch.load(f"{sys.argv[1]}/out.pt", weights_only=True)
assert list(found["ema"]) == ["plain", "weight", "other"], found
assert list(found["model"]) == ["shift"] and found["list"] == [None], found
assert type(found["ema"]["plain"]) is torch.Tensor
for moved, original in [
    (found["ema"]["weight"], weight),
    (found["ema"]["other"], other),
    (found["model"]["shift"], bias),
]:
    assert isinstance(moved, torch.nn.Parameter) and moved.requires_grad, moved
    assert torch.equal(moved, original)
