"""Prints what Orbax restores of a checkpoint: its arrays' facts, by the keys that lead to them.

    orbax_see.py FOLDER DEVICES       DEVICES: how many devices JAX is to have; with several, arrays are restored in parts
"""
import hashlib
import json
import os
import sys

folder, devices = sys.argv[1], int(sys.argv[2])
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import numpy as np
import orbax.checkpoint as ocp

jax.config.update("jax_enable_x64", True)
assert jax.device_count() == devices, jax.devices()
NAMES = {
    "bool": "BOOL", "float8_e4m3fn": "F8_E4M3", "float8_e8m0fnu": "F8_E8M0", "float4_e2m1fn": "F4_UNPACKED",
    "int4": "I4_UNPACKED", "uint4": "U4_UNPACKED", "int2": "I2_UNPACKED", "uint2": "U2_UNPACKED",
}


def dtype_name(dtype):
    name = str(dtype)
    if name in NAMES:
        return NAMES[name]
    for long, short in (("bfloat", "BF"), ("float8", "F8"), ("float", "F"), ("complex", "C"), ("uint", "U"), ("int", "I")):
        if name.startswith(long):
            return short + name[len(long):].upper()
    return name


def walk(node, path, found):
    if isinstance(node, dict):
        for key, value in node.items():
            walk(value, path + [str(key)], found)
    elif isinstance(node, (list, tuple)):
        for index, value in enumerate(node):
            walk(value, path + [str(index)], found)
    elif node is not None:
        array = np.asarray(node)
        found[".".join(path)] = [dtype_name(array.dtype), list(array.shape), hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()]


folder = os.path.abspath(folder)
tree = ocp.PyTreeCheckpointer().restore(folder)
found = {}
walk(tree, [], found)
if devices > 1:
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))

    def target(leaf):
        leaf = np.asarray(leaf)
        parts = leaf.ndim > 0 and leaf.shape[0] > 0 and leaf.shape[0] % devices == 0
        spec = jax.sharding.PartitionSpec("x") if parts else jax.sharding.PartitionSpec()
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=jax.sharding.NamedSharding(mesh, spec))

    targets = jax.tree.map(target, tree)
    parted = ocp.StandardCheckpointer().restore(folder, targets)
    again = {}
    walk(parted, [], again)
    assert again == found, {name for name in found if again.get(name) != found[name]}
    assert any(len(leaf.sharding.device_set) == devices for leaf in jax.tree.leaves(parted))
print(json.dumps(found))
