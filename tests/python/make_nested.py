"""Saves a training checkpoint of plain values, with tied weights."""

import sys
from collections import OrderedDict

import torch

torch.manual_seed(3)
embedding = torch.randn(20, 6)
base = torch.arange(40.0)
torch.save(
    {
        "model_state": OrderedDict(
            [("emb.weight", embedding), ("head.weight", embedding), ("norm.weight", torch.ones(6, dtype=torch.bfloat16))]
        ),
        "optimizer": {
            "state": {0: {"step": torch.tensor(5.0), "exp_avg": torch.randn(20, 6)}},
            "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "params": [0, 1], "foreach": None, "fused": False}],
        },
        "views": [base[3:9], base[6:20:2]],
        "epoch": 12,
        "big": 1 << 40,
        "negative": -(1 << 70),
        "loss": 0.1 + 0.2,
        "infinite": float("-inf"),
        "name": "naïve ☃",
        "nothing": None,
        "flags": [True, False],
        "empty": [[], {}, (), ""],
        "size": torch.Size([2, 3]),
    },
    sys.argv[1],
)
