"""Saves one state in each container and protocol that torch can write, and prints each file's tensors.

    torch_containers.py FOLDER
"""

import json
import sys
from collections import OrderedDict

import torch
from torch.utils.serialization import config

import facts

DTYPES = [torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int8, torch.uint8, torch.bool, torch.complex64]


def state():
    torch.manual_seed(9)
    base = torch.randn(6, 8)
    tensors = {str(dtype).removeprefix("torch."): (3 * base).to(dtype) for dtype in DTYPES}
    return {
        "model": OrderedDict(base=base, tied=base, turned=base.t(), part=base[1:5, ::3], row=base[2], **tensors),
        "views": [base[0], base.view(-1)[5:9], base.expand(2, 6, 8)],
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "none": torch.empty(0, 3),
        "parameter": torch.nn.Parameter(torch.ones(3)),
        "epoch": 7,
        ("a", 1): {2: torch.tensor([1, 2])},
    }


def expected(value):
    """Returns each tensor's facts by name. A key that is not a string has its Python repr as its name."""
    return {**dict(facts.flatten({key: item for key, item in value.items() if isinstance(key, str)})),
            "('a', 1).2": value[("a", 1)][2]}


def save(path, **options):
    value = state()
    torch.save(value, path, **options)
    # torch cannot read every protocol with weights_only.
    torch.load(path, weights_only=False)
    return facts.facts(expected(value))


def main():
    folder = sys.argv[1]
    made = {}
    for container, is_zip in [("zip", True), ("legacy", False)]:
        for protocol in (2, 3, 4, 5):
            name = f"{container}-{protocol}.pt"
            options = {"pickle_protocol": protocol, "_use_new_zipfile_serialization": is_zip}
            made[name] = save(f"{folder}/{name}", **options)
    config.save.compute_crc32, config.save.storage_alignment = False, 4096
    made["aligned.pt"] = save(f"{folder}/aligned.pt")
    print(json.dumps(made))


main()
