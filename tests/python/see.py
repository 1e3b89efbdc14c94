"""Prints the facts that a framework reads from a file."""

import json
import sys

import facts

path, *options = sys.argv[1:]
if path.endswith(".index.json"):
    value = facts.load_index(path)
elif path.endswith(".safetensors"):
    value = facts.load_safetensors(path)
else:
    value = facts.load_torch(path, "--calculate-offsets" in options)
print(json.dumps(facts.facts(value)))
