"""Compares a cast of the views in a torch file with torch's own cast, and with the losses that ferry reports.

Usage: cast_views.py VIEWS.pt OUTPUT DTYPE LOSSES.json

All floats are cast, with any strides, and other tensors remain unchanged. For each tensor, the
reported number of changed values must equal the number of elements that torch changes. Prints the
number of tensors with a loss.
"""

import json
import re
import sys

import torch

import facts

source, output, word, losses = sys.argv[1:]
target = getattr(torch, word)
before = dict(facts.flatten(torch.load(source)))
after = facts.load_safetensors(output) if output.endswith(".safetensors") else dict(facts.flatten(torch.load(output)))
assert set(before) == set(after)
counted = {}
for loss in json.load(open(losses))["losses"]:
    if loss["kind"] == "precision":
        total, rest = re.fullmatch(r"cast from [A-Z0-9_ a-z]+: of (\d+) values (.*)", loss["why"]).groups()
        assert int(total) == before[loss["what"]].numel(), loss
        counted[loss["what"]] = sum(int(part.split()[0]) for part in rest.split(", "))
expected_counts = {}
for name, x in before.items():
    x = x.detach().resolve_conj().resolve_neg()
    cast = x.to(target) if x.dtype.is_floating_point else x
    assert after[name].dtype is cast.dtype, name
    assert facts.raw(after[name]) == facts.raw(cast), name
    changed = int((cast.double() != x.double()).sum()) if x.dtype.is_floating_point else 0
    if changed:
        expected_counts[name] = changed
# A tensor that is written as an alias is counted as the tensor that it is tied to.
missing = set(expected_counts) - set(counted)
ties = [group for group in facts.facts(before)["ties"]]
for name in missing:
    assert any(name in group and set(group) & set(counted) for group in ties), name
assert {name: expected_counts.get(name) for name in counted} == counted
print(json.dumps({"lost": len(counted), "aliases": len(missing)}))
