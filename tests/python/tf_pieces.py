"""Writes checkpoints that consist of pieces to FOLDER, and prints their contents: merged
checkpoints, and a checkpoint whose variables a policy has divided."""

import json
import pathlib
import sys

import numpy as np
import tensorflow as tf

import tf_facts

folder = pathlib.Path(sys.argv[1])
random = np.random.default_rng(5)
facts = {}


def save(name, tensors, slices=None):
    tf.raw_ops.SaveV2(
        prefix=str(folder / name),
        tensor_names=list(tensors),
        shape_and_slices=slices or [""] * len(tensors),
        tensors=[tf.convert_to_tensor(value) for value in tensors.values()],
    )
    return str(folder / name)


def merge(name, pieces):
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=pieces, destination_prefix=str(folder / name), delete_old_dirs=False)


def fact(value):
    return tf_facts.fact(value, tf_facts.NAMES[tf.as_dtype(value.dtype).name])


# Three writers save slices of one tensor. TensorFlow's own function for joining slices accepts only
# some of these dtypes.
whole = {
    np.dtype(dtype).name: random.integers(0, 2, (9, 4)).astype(dtype)
    for dtype in ["float32", "float16", "uint16", "bool", "int8", tf.bfloat16.as_numpy_dtype,
                  tf.dtypes.experimental.float8_e5m2.as_numpy_dtype, "complex64"]
}
strings = np.array([b"x" * n for n in range(36)], object).reshape(9, 4)
pieces = []
for number, (start, length) in enumerate([(4, 5), (0, 1), (1, 3)]):
    rows = {f"part/{name}": value[start : start + length] for name, value in whole.items()}
    rows["part/string"] = tf.constant(strings[start : start + length])
    spec = [f"9 4 {start},{length}:-"] * len(rows)
    own = {f"own/{number}": random.normal(size=(number + 1,)).astype(np.float64)}
    pieces.append(save(f"piece-{number}", rows | own, spec + [""]))
    facts.setdefault("merged", {}).update({name: fact(value) for name, value in own.items()})
merge("merged", pieces)
facts["merged"] |= {f"part/{name}": fact(value) for name, value in whole.items()}
facts["merged"]["part/string"] = tf_facts.fact(strings, "STR")

# The piece `nothing` is already in FOLDER and is empty. The merged header counts its data file,
# which does not exist.
some = {"a": random.normal(size=(3,)).astype(np.float32), "b": random.integers(0, 99, (2, 2))}
merge("uneven", [save("some", some), str(folder / "nothing")])
facts["uneven"] = {name: fact(value) for name, value in some.items()}

# Shards are limited to 900 bytes, so variables with several rows are divided.
checkpoint = tf.train.Checkpoint(
    w=tf.Variable(random.normal(size=(40, 10)), dtype=tf.float32), b=tf.Variable(random.normal(size=(7,))))
policy = tf.train.experimental.MaxShardSizePolicy(max_shard_size=900)
checkpoint.write(
    str(folder / "policy"), options=tf.train.CheckpointOptions(experimental_sharding_callback=policy))
facts["policy"] = {
    f"{name}/.ATTRIBUTES/VARIABLE_VALUE": fact(getattr(checkpoint, name).numpy()) for name in ["w", "b"]
}
shards = len(list(folder.glob("policy.data-*")))
assert shards > 1, shards

print(json.dumps(facts))
