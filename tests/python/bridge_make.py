"""Writes a TFRecord file of Examples: bridge_make.py PATH."""

import sys

import numpy as np
import tensorflow as tf

train = tf.train
random = np.random.default_rng(11)


def ints(values):
    return train.Feature(int64_list=train.Int64List(value=values))


def floats(values):
    return train.Feature(float_list=train.FloatList(value=values))


def texts(values):
    return train.Feature(bytes_list=train.BytesList(value=values))


def example(n):
    feature = {
        "id": ints([n]),
        "scale": floats([random.random()]),
        "w": floats(random.random(4)),
        "grid": floats(random.random(6)),
        "pair": ints([n, -n]),
        "img": texts([random.bytes(int(random.integers(0, 300)))]),
        "names": texts([b"left", b"\xff\x00right"]),
        "tags": texts([b"a", b"bc", b""][: n % 4]),
        "ragged": ints([-(2**63), 2**63 - 1, -1, 300, n][: n % 6]),
        "maybe": floats(random.random(n % 3)),
        "even": ints([n]),
    }
    if n % 7 == 3:
        del feature["maybe"]
    if n % 2:
        del feature["even"]
    return train.Example(features=train.Features(feature=feature))


with tf.io.TFRecordWriter(sys.argv[1]) as writer:
    for n in range(500):
        writer.write(example(n).SerializeToString())
