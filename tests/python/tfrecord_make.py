"""Writes Examples and SequenceExamples with every codec into a folder: KIND.CODEC.tfrecord."""

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

folder = Path(sys.argv[1])
random = np.random.default_rng(5)
train = tf.train


def ints(values):
    return train.Feature(int64_list=train.Int64List(value=values))


def floats(values):
    return train.Feature(float_list=train.FloatList(value=values))


def texts(values):
    return train.Feature(bytes_list=train.BytesList(value=values))


EDGES = [0.1, -0.0, 1 / 3, 1e-45, 1e16, 3.4028235e38, 1.17549435e-38, float("inf"), float("-inf"), float("nan"), 123456.79]


def example(n):
    feature = {
        "id": ints([n]),
        "w": floats(random.random(4)),
        "img": texts([random.bytes(int(random.integers(0, 3000)))]),
        "tags": texts([b"a", b"\xff\x00"][: n % 3]),
        "ragged": ints([-(2**63), 2**63 - 1, -1, 300, n][: n % 6]),
        "grün\n\"": floats(EDGES),
    }
    if n % 7 == 3:
        del feature["ragged"]
    return train.Example(features=train.Features(feature=feature))


def sequence(n):
    lists = {
        "tok": train.FeatureList(feature=[ints(range(k)) for k in range(n % 4)]),
        "frames": train.FeatureList(feature=[floats(random.random(3)) for _ in range(n % 5)]),
    }
    if n % 7 == 3:
        del lists["frames"]
    context = train.Features(feature={"id": ints([n]), "name": texts([b"n%d" % n])})
    return train.SequenceExample(context=context, feature_lists=train.FeatureLists(feature_list=lists))


for kind, make in [("example", example), ("sequence", sequence)]:
    records = [make(n).SerializeToString() for n in range(200)]
    for codec in ["NONE", "GZIP", "ZLIB", "SNAPPY"]:
        path = str(folder / f"{kind}.{codec.lower()}.tfrecord")
        if codec == "SNAPPY":
            # This is the only API that writes SNAPPY.
            writer = tf.data.experimental.TFRecordWriter(path, "SNAPPY")
            writer.write(tf.data.Dataset.from_tensor_slices(records))
        else:
            with tf.io.TFRecordWriter(path, "" if codec == "NONE" else codec) as writer:
                for record in records:
                    writer.write(record)
