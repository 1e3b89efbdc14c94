"""Prints the order in which tf.data's `interleave` yields the rows of files with given numbers of rows.

Each argument is `LENGTH,LENGTH,.../CYCLE/BLOCK`. The value of a row is 1000 times the number of
its file, plus its number within the file.
"""

import json
import sys

import tensorflow as tf

orders = {}
for case in sys.argv[1:]:
    lengths, cycle, block = case.split("/")
    lengths = tf.constant([int(length) for length in lengths.split(",")], tf.int64)
    files = tf.data.Dataset.range(len(lengths))
    rows = files.interleave(
        lambda file: tf.data.Dataset.range(lengths[file]).map(lambda row: 1000 * file + row),
        cycle_length=int(cycle),
        block_length=int(block),
    )
    orders[case] = [int(row) for row in rows]
print(json.dumps(orders))
