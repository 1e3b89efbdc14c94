"""Writes and reads with Flax and Orbax, in a separate process."""

import dataclasses
import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
import orbax.checkpoint as ocp
from flax import serialization

import tensors

jax.config.update("jax_enable_x64", True)


def _is_array(value):
    return isinstance(value, (np.ndarray, np.generic, jax.Array))


def _model(tree):
    found = {}
    for path, value in tensors.leaves(tree):
        if _is_array(value):
            name = ".".join(path)
            # ferry adds this suffix to a name that is already used.
            found[name if name not in found else f"{name}#2"] = _tensor(value)
    return found


def _tensor(value):
    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return dataclasses.replace(tensors.of_numpy(jax.random.key_data(value)), dtype=str(value.dtype))
    return tensors.of_numpy(value)


def write_flax(path, rng):
    tree = tensors.random_tree(rng, tensors.PLAIN + tensors.COMPLEX + tensors.NARROW + tensors.OTHERS, ("", ".", "/"))
    with open(path, "wb") as file:
        file.write(serialization.to_bytes(tree))


def read_flax(path):
    with open(path, "rb") as file:
        return _model(serialization.msgpack_restore(file.read()))


def _filled(tree):
    """Returns a tree without empty arrays, which Orbax does not save."""
    return jax.tree.map(lambda array: array if array.size else np.ones(2, array.dtype), tree)


def write_orbax(path, rng):
    names = [name for name in tensors.PLAIN + tensors.COMPLEX + tensors.NARROW]
    tree = _filled(tensors.random_tree(rng, names, ("", ".")))
    tree = jax.tree.map(lambda leaf: jax.numpy.asarray(leaf) if rng.random() < 0.7 else leaf, tree)
    if rng.random() < 0.15:
        tree["key"] = jax.random.key(rng.randrange(100))
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=rng.random() < 0.5, use_zarr3=rng.random() < 0.3)
    options = {}
    if rng.random() < 0.3:
        # Orbax stores small arrays in the msgpack file "checkpoint".
        aggregate = jax.tree.map(lambda leaf: ocp.SaveArgs(aggregate=rng.random() < 0.5), tree)
        options["args"] = ocp.args.PyTreeSave(tree, save_args=aggregate)
    ocp.Checkpointer(handler).save(path, **(options or {"args": ocp.args.PyTreeSave(tree)}))


def write_zarr(path, rng):
    """Writes an Orbax checkpoint whose arrays zarr-python rewrote with other chunks, fill values, codecs and orders."""
    import pathlib

    import numcodecs
    import zarr

    tree = _filled(tensors.random_tree(rng, tensors.PLAIN + tensors.COMPLEX))
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=False, use_zarr3=False)
    ocp.Checkpointer(handler).save(path, args=ocp.args.PyTreeSave(tree))
    for place in pathlib.Path(path).rglob(".zarray"):
        array = zarr.open_array(place.parent, mode="r")[...]
        chunks = tuple(rng.randrange(1, n + 2) for n in array.shape)
        fill = rng.choice([0, 0, 1, None])
        codec = rng.choice([None, numcodecs.Zstd(), numcodecs.Blosc(), numcodecs.GZip(), numcodecs.Zlib()])
        made = zarr.create_array(place.parent, shape=array.shape, dtype=array.dtype, chunks=chunks, fill_value=fill, zarr_format=2,
                                 compressors=codec, order=rng.choice(["C", "F"]), overwrite=True,
                                 config={"write_empty_chunks": True})
        made[...] = array


def read_orbax(path):
    return _model(ocp.PyTreeCheckpointer().restore(os.path.abspath(path)))
