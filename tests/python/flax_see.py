"""Reads a msgpack file with flax.serialization, and prints the dtype, shape and digest of each array, by its keys.

    flax_see.py FILE [like]

With `like`, the script also reads the file through from_bytes, with a target of the same structure.
"""
import json
import sys

import jax
import numpy as np
from flax import serialization

from tree_facts import facts

data = open(sys.argv[1], "rb").read()
tree = serialization.msgpack_restore(data)
if sys.argv[2:] == ["like"]:
    target = jax.tree.map(lambda leaf: np.zeros_like(leaf) if hasattr(leaf, "dtype") else leaf, tree)
    tree = serialization.from_bytes(target, data)
print(json.dumps(facts(tree, lambda node: isinstance(node, (np.ndarray, np.generic, jax.Array)))))
