"""Creates and checks checkpoints with typed keys of jax.random.

    orbax_keys.py make FOLDER       saves trees with typed keys in a folder, with PyTreeCheckpointer and the v1 API
    orbax_keys.py check FOLDER      restores a checkpoint with both APIs, and compares it with the tree
"""
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint import v1

command, folder = sys.argv[1], os.path.abspath(sys.argv[2])
tree = {
    "key": jax.random.key(7),
    "other": [jax.random.split(jax.random.key(1, impl="rbg"), 3)],
    "w": jax.numpy.ones((2, 3)),
}
if command == "make":
    ocp.PyTreeCheckpointer(use_ocdbt=True).save(f"{folder}/ocdbt", tree)
    ocp.PyTreeCheckpointer(use_ocdbt=False).save(f"{folder}/zarr", tree)
    v1.save_pytree(f"{folder}/v1", tree)
    sys.exit()
for restored in (ocp.PyTreeCheckpointer().restore(folder), v1.load_pytree(folder)):
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        found = restored
        for key in path:
            found = found[getattr(key, "key", getattr(key, "idx", None))]
        assert found.dtype == leaf.dtype, (path, found.dtype, leaf.dtype)
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            found, leaf = jax.random.key_data(found), jax.random.key_data(leaf)
        assert np.array_equal(found, leaf), path
