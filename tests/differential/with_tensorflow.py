"""Writes and reads with TensorFlow, in a separate process."""

import os

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")

import numpy as np
import tensorflow as tf

from values import Column


def write_records(table, path, rng):
    import columns

    names = rng.sample(["a", "b", "ü", "a/b", "", "c.d"], rng.choice([1, 2, 3]))
    kinds = {name: rng.choice(["int64_list", "float_list", "bytes_list"]) for name in names}
    lengths = {name: rng.choice([[1], [1], [0, 1], [0, 2, 3], [3]]) for name in names}

    def value(kind):
        if kind == "int64_list":
            return columns.integer(rng, True, 64)
        if kind == "float_list":
            return float(columns.floating(rng, 4))
        return rng.choice([b"", columns.text(rng).encode(), rng.randbytes(3)])

    # A field that a later version of the message may have, or nothing.
    unknown = rng.choice([b"", b"", b"", b"\x78\x01"])
    with tf.io.TFRecordWriter(path) as writer:
        for _ in range(rng.choice([1, 2, 10])):
            example = tf.train.Example()
            for name, kind in kinds.items():
                if rng.random() < 0.9:
                    getattr(example.features.feature[name], kind).value.extend(value(kind) for _ in range(rng.choice(lengths[name])))
            # A record with only an unknown field would not look like an Example.
            writer.write(example.SerializeToString() + (unknown if example.features.feature else b""))


def read_records(path):
    """Returns each feature as lists, with None for records without the feature."""
    rows = []
    for record in tf.data.TFRecordDataset(path):
        example = tf.train.Example.FromString(record.numpy())
        rows.append({name: _values(feature) for name, feature in example.features.feature.items()})
    names = sorted({name for row in rows for name in row})
    return [Column(name, [row.get(name) for row in rows], "feature") for name in names]


def _values(feature):
    kind = feature.WhichOneof("kind")
    return None if kind is None else list(getattr(feature, kind).value)


def write_bundle(path, rng):
    """Writes a checkpoint of a module, whose variables may have equal names, or a checkpoint of named tensors."""
    import tensors

    names = tensors.PLAIN + tensors.COMPLEX + ["bfloat16", "float8_e4m3fn", "float8_e5m2"]
    if rng.random() < 0.4:
        model = tensors.flat_tree(tensors.random_tree(rng, names), "/")
        values = [tf.constant(array) for array in model.values()] or [tf.constant(0)]
        tf.raw_ops.SaveV2(prefix=path, tensor_names=list(model), shape_and_slices=[""] * len(values), tensors=values)
        return

    def module(depth):
        made = tf.Module()
        for name in rng.sample(["w", "b", "dense", "norm", "first", "last"], rng.choice([1, 2, 3])):
            if depth < 2 and rng.random() < 0.4:
                setattr(made, name, module(depth + 1))
            else:
                array = tensors.random_array(rng, rng.choice(names[:-2]))
                value = rng.choice([array, np.zeros(3, np.float32)])
                setattr(made, name, tf.Variable(value, name=rng.choice(["w", "b", "Variable", "dense/kernel", f"v{rng.random()}"])))
        return made

    tf.train.Checkpoint(model=module(0)).write(path)


def read_bundle(path):
    """Returns tensors by key. The name of a variable is an alias."""
    from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

    import tensors

    reader = tf.train.load_checkpoint(path)
    own = {}
    if reader.has_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"):
        graph = TrackableObjectGraph.FromString(reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"))
        own = {part.checkpoint_key: part.full_name for node in graph.nodes for part in node.attributes}
    found = {}
    for key in reader.get_variable_to_dtype_map():
        if key not in ("_CHECKPOINTABLE_OBJECT_GRAPH", "_TENSORFERRY_METADATA"):
            value = reader.get_tensor(key)
            name = key.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE")
            found[name] = tensors.of_numpy(value, *([own[key]] if own.get(key) else []), key)
    return found
