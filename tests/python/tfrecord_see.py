"""Reads TFRecord files named KIND.CODEC.* with TensorFlow, and prints every message in protobuf's JSON mapping.

Also prints digests of the result of parse_example or parse_sequence_example for all messages.
"""

import hashlib
import json
import sys
from pathlib import Path

import tensorflow as tf
from google.protobuf import json_format


def digest(tensor):
    parts = [tensor.indices, tensor.values, tensor.dense_shape] if isinstance(tensor, tf.SparseTensor) else [tensor]
    arrays = [part.numpy() for part in parts]
    data = b"".join(repr(a.tolist()).encode() if a.dtype == object else a.tobytes() for a in arrays)
    return hashlib.sha256(data).hexdigest()


def parsed(kind, records):
    sparse = tf.io.VarLenFeature
    if kind == "example":
        found = tf.io.parse_example(
            records,
            {
                "id": tf.io.FixedLenFeature([], tf.int64),
                "w": tf.io.FixedLenFeature([4], tf.float32),
                "img": tf.io.FixedLenFeature([], tf.string),
                "tags": sparse(tf.string),
                "ragged": sparse(tf.int64),
                'grün\n"': sparse(tf.float32),
            },
        )
        return {name: digest(tensor) for name, tensor in found.items()}
    context, lists, lengths = tf.io.parse_sequence_example(
        records,
        {"id": tf.io.FixedLenFeature([], tf.int64), "name": tf.io.FixedLenFeature([], tf.string)},
        {
            "tok": sparse(tf.int64),
            "frames": tf.io.FixedLenSequenceFeature([3], tf.float32, allow_missing=True),
        },
    )
    return {name: digest(tensor) for part in [context, lists, lengths] for name, tensor in part.items()}


seen = {}
for path in sys.argv[1:]:
    kind, codec = Path(path).name.split(".")[:2]
    dataset = tf.data.TFRecordDataset(path, "" if codec == "none" else codec.upper())
    records = [record.numpy() for record in dataset]
    message = tf.train.Example if kind == "example" else tf.train.SequenceExample
    lines = [json.loads(json_format.MessageToJson(message.FromString(record))) for record in records]
    seen[path] = {"records": lines, "parsed": parsed(kind, records)}
print(json.dumps(seen))
