"""Compares the results of parse_example with tensors: bridge_same.py DATA.tfrecord TENSORS.safetensors

A column of strings is a tensor of bytes and a tensor of splits. Prints the number of compared
columns, and the number of compared tensors of the file.
"""

import json
import sys

import numpy as np
import tensorflow as tf
from safetensors.numpy import load_file

records = [record.numpy() for record in tf.data.TFRecordDataset(sys.argv[1])]
found = load_file(sys.argv[2])
fixed, ragged = tf.io.FixedLenFeature, tf.io.RaggedFeature
grid = list(found["grid"].shape[1:])
features = {
    "id": fixed([], tf.int64),
    "scale": fixed([], tf.float32),
    "w": fixed([4], tf.float32),
    "grid": fixed(grid, tf.float32),
    "pair": fixed([2], tf.int64),
    "img": fixed([], tf.string),
    "names": fixed([2], tf.string),
    "tags": ragged(tf.string, row_splits_dtype=tf.int64),
    "ragged": ragged(tf.int64, row_splits_dtype=tf.int64),
    "maybe": ragged(tf.float32, row_splits_dtype=tf.int64),
    "even": fixed([], tf.int64, default_value=0),
}
parsed = tf.io.parse_example(records, features)
seen = set()


def same(name, expected):
    seen.add(name)
    expected = np.asarray(expected)
    assert found[name].dtype == expected.dtype, (name, found[name].dtype, expected.dtype)
    assert found[name].shape == expected.shape, (name, found[name].shape, expected.shape)
    assert found[name].tobytes() == expected.tobytes(), name


def same_texts(name, texts):
    same(f"{name}.values", np.frombuffer(b"".join(texts), np.uint8))
    same(f"{name}.row_splits", np.cumsum([0] + [len(text) for text in texts], dtype=np.int64))


def same_values(name, values):
    if values.dtype == tf.string:
        same_texts(name, values.numpy().ravel().tolist())
    else:
        same(name, values.numpy())


for name, value in parsed.items():
    if isinstance(value, tf.RaggedTensor):
        same(f"{name}.row_splits", value.row_splits.numpy())
        same_values(f"{name}.values", value.values)
    elif value.dtype == tf.string and len(value.shape) > 1:
        # Lists of strings have row splits even if all lists have the same length.
        same(f"{name}.row_splits", np.arange(len(records) + 1, dtype=np.int64) * value.shape[1])
        same_values(f"{name}.values", value)
    else:
        same_values(name, value)
    there = [name in tf.train.Example.FromString(record).features.feature for record in records]
    if not all(there):
        same(f"{name}.valid", there)
assert seen == set(found), (seen, set(found))
print(json.dumps({"columns": len(parsed), "tensors": len(seen)}))
