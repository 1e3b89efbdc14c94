"""Restores a checkpoint with Orbax, and prints the dtype, shape and digest of each array, by its keys.

    orbax_see.py FOLDER DEVICES

DEVICES is the number of JAX devices. With several devices, arrays are restored in parts.
"""
import json
import os
import sys

folder, devices = sys.argv[1], int(sys.argv[2])
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import numpy as np
import orbax.checkpoint as ocp

from tree_facts import facts

jax.config.update("jax_enable_x64", True)
assert jax.device_count() == devices, jax.devices()


def is_array(node):
    return node is not None


folder = os.path.abspath(folder)
tree = ocp.PyTreeCheckpointer().restore(folder)
found = facts(tree, is_array)
if devices > 1:
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))

    def target(leaf):
        leaf = np.asarray(leaf)
        parts = leaf.ndim > 0 and leaf.shape[0] > 0 and leaf.shape[0] % devices == 0
        spec = jax.sharding.PartitionSpec("x") if parts else jax.sharding.PartitionSpec()
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=jax.sharding.NamedSharding(mesh, spec))

    targets = jax.tree.map(target, tree)
    parted = ocp.StandardCheckpointer().restore(folder, targets)
    again = facts(parted, is_array)
    assert again == found, {name for name in found if again.get(name) != found[name]}
    assert any(len(leaf.sharding.device_set) == devices for leaf in jax.tree.leaves(parted))
print(json.dumps(found))
