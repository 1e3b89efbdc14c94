"""Writes Examples in which a key occurs twice, with different kinds of values.

For each Example, prints the message that TensorFlow reads, in protobuf's JSON mapping, and the values from parse_example.
"""

import json
import sys

import tensorflow as tf
from google.protobuf import json_format

train = tf.train


def example(**features):
    return train.Example(features=train.Features(feature=features))


def ints(*values):
    return train.Feature(int64_list=train.Int64List(value=values))


def floats(*values):
    return train.Feature(float_list=train.FloatList(value=values))


def texts(*values):
    return train.Feature(bytes_list=train.BytesList(value=values))


def twice(first, second):
    """Returns a message whose field 1 is a map with both entries. The map consists of the concatenated bytes of the entries."""
    entries = first.features.SerializeToString() + second.features.SerializeToString()
    assert len(entries) < 128
    return b"\x0a" + bytes([len(entries)]) + entries


records = [
    example(x=ints(1, 2)).SerializeToString() + example(x=floats(0.5)).SerializeToString(),
    twice(example(x=texts(b"a")), example(x=floats(1.5), y=ints(7))),
    twice(example(x=floats(9.5, 9.5, 9.5)), example(x=floats(2.5))),
    example(x=floats(3.5), y=ints(8)).SerializeToString(),
    twice(example(y=floats(1)), example(y=ints(9))),
]
with tf.io.TFRecordWriter(sys.argv[1]) as writer:
    for record in records:
        writer.write(record)
parsed = [
    tf.io.parse_example(
        [record], {"x": tf.io.VarLenFeature(tf.float32), "y": tf.io.VarLenFeature(tf.int64)}
    )
    for record in records
]
print(
    json.dumps(
        {
            "records": [json.loads(json_format.MessageToJson(train.Example.FromString(r))) for r in records],
            "parsed": [{name: tensor.values.numpy().tolist() for name, tensor in p.items()} for p in parsed],
        }
    )
)
