"""Processes records as users' scripts do, and measures the time.

`make PATH MEBIBYTES` writes Examples of about a kilobyte. `count PATH`, `parse PATH` and `parquet
PATH OUTPUT` print the seconds for one pass, excluding Python startup, the imports, and a first
batch as a warm-up.
"""

import sys
import time

import numpy as np
import tensorflow as tf

BATCH = 1024
# The number of rows in a row group. These rows take about 32 MiB, as in ferry's output.
GROUP = 32 * BATCH
FLOATS = 64
INTS = 64


def make(path, mebibytes):
    random = np.random.default_rng(1)
    left = int(mebibytes) << 20
    number = 0
    train = tf.train
    with tf.io.TFRecordWriter(path) as writer:
        while left > 0:
            feature = {
                "id": train.Feature(int64_list=train.Int64List(value=[number])),
                "name": train.Feature(bytes_list=train.BytesList(value=[b"picture-%d.jpg" % number])),
                "image": train.Feature(bytes_list=train.BytesList(value=[random.bytes(int(random.integers(400, 600)))])),
                "embedding": train.Feature(float_list=train.FloatList(value=random.random(FLOATS, np.float32))),
                "tokens": train.Feature(int64_list=train.Int64List(value=random.integers(0, 30000, INTS))),
            }
            record = train.Example(features=train.Features(feature=feature)).SerializeToString()
            writer.write(record)
            left -= len(record) + 16
            number += 1


SPEC = {
    "id": tf.io.FixedLenFeature([], tf.int64),
    "name": tf.io.FixedLenFeature([], tf.string),
    "image": tf.io.FixedLenFeature([], tf.string),
    "embedding": tf.io.FixedLenFeature([FLOATS], tf.float32),
    "tokens": tf.io.FixedLenFeature([INTS], tf.int64),
}


def serialized(path):
    return tf.data.TFRecordDataset(path, buffer_size=8 << 20).batch(BATCH)


def parsed(path):
    parse = lambda batch: tf.io.parse_example(batch, SPEC)
    return serialized(path).map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def count(batches):
    for batch in batches:
        int(batch.shape[0])


def consume(batches):
    for batch in batches:
        int(batch["id"].shape[0])


def write(batches, output):
    import pyarrow as pa
    import pyarrow.parquet as pq

    def table(batch):
        values = {name: tensor.numpy() for name, tensor in batch.items()}
        lists = lambda name, width: pa.FixedSizeListArray.from_arrays(pa.array(values[name].reshape(-1)), width)
        return pa.table({
            "id": values["id"],
            "name": pa.array(values["name"], pa.binary()),
            "image": pa.array(values["image"], pa.binary()),
            "embedding": lists("embedding", FLOATS),
            "tokens": lists("tokens", INTS),
        })

    writer = None
    held = []
    for batch in batches:
        held.append(table(batch))
        writer = writer or pq.ParquetWriter(output, held[0].schema, compression="snappy")
        if len(held) * BATCH >= GROUP:
            writer.write_table(pa.concat_tables(held))
            held = []
    if held:
        writer.write_table(pa.concat_tables(held))
    writer.close()


def timed(make_batches, work, path, *rest):
    batches = make_batches(path)
    work(batches.take(1), *rest)
    start = time.perf_counter()
    work(batches, *rest)
    print(time.perf_counter() - start)


job, *arguments = sys.argv[1:]
if job == "make":
    make(*arguments)
elif job == "count":
    timed(serialized, count, *arguments)
elif job == "parse":
    timed(parsed, consume, *arguments)
else:
    timed(parsed, write, *arguments)
