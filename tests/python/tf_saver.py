"""Creates and checks name-based checkpoints: `make FOLDER` saves checkpoints with
tf.compat.v1.train.Saver as FOLDER/CASE; `check FOLDER NAME...` restores each FOLDER/CASE-NAME into
the same graph and compares."""

import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

# For each case, the number of partitions, and the options of its Saver.
CASES = {
    "plain": (None, {}),
    "partitioned": (3, {}),
    "sharded": (3, {"sharded": True}),
    "v1": (None, {"write_version": tf.train.SaverDef.V1}),
    "v1_partitioned": (3, {"write_version": tf.train.SaverDef.V1}),
}


def variables(parts, seed):
    random = np.random.default_rng(seed)
    partitioner = tf.fixed_size_partitioner(parts) if parts else None
    with tf.variable_scope("net", partitioner=partitioner):
        for name, shape, dtype in [
            ("emb/weights", (10, 4), tf.float32),
            ("fc/kernel", (5, 6), tf.float64),
            ("fc/half", (7, 2), tf.float32 if parts else tf.half),
        ]:
            value = random.normal(size=shape)

            def part(shape, dtype, partition_info=None, value=value):
                start = partition_info.var_offset[0] if partition_info else 0
                return tf.constant(value[start : start + shape[0]], dtype)

            tf.get_variable(name, shape, dtype, initializer=part)
    tf.get_variable("global_step", (), tf.int64, initializer=tf.constant_initializer(seed), trainable=False)
    tf.get_variable("labels", dtype=tf.int32, initializer=tf.constant(random.integers(0, 99, 5), tf.int32))


def make(folder):
    for case in CASES:
        parts, options = CASES[case]
        with tf.Graph().as_default(), tf.Session() as session:
            variables(parts, 1)
            session.run(tf.global_variables_initializer())
            tf.train.Saver(**options).save(session, f"{folder}/{case}", write_meta_graph=False, write_state=False)


def values(case, seed, restore=None):
    with tf.Graph().as_default(), tf.Session() as session:
        variables(CASES[case][0], seed)
        session.run(tf.global_variables_initializer())
        if restore:
            tf.train.Saver().restore(session, restore)
        return {variable.name: session.run(variable) for variable in tf.global_variables()}


def check(folder, *prefixes):
    for case in CASES:
        truth, other = values(case, 1), values(case, 2)
        for prefix in prefixes:
            found = values(case, 2, f"{folder}/{case}-{prefix}")
            assert found.keys() == truth.keys()
            for name, value in truth.items():
                assert value.dtype == found[name].dtype and (value == found[name]).all(), (case, prefix, name)
                assert (value != other[name]).any(), f"{case}: {name}: there is nothing to restore"
            print(case, prefix, len(truth))


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    {"make": make, "check": check}[command](*rest)
