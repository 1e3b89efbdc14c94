"""Converts a TensorFlow checkpoint to safetensors, or back, as a user's script does, for the benchmark."""

import sys

import tensorflow as tf
from safetensors import safe_open
from safetensors.tensorflow import save_file

source, target = sys.argv[1:]
if target.endswith(".safetensors"):
    reader = tf.train.load_checkpoint(source)
    dtypes = reader.get_variable_to_dtype_map()
    names = [name for name, dtype in dtypes.items() if dtype != tf.string]
    save_file({name: tf.constant(reader.get_tensor(name)) for name in names}, target)
else:
    with safe_open(source, framework="tf") as file:
        variables = {name: tf.Variable(file.get_tensor(name)) for name in file.keys()}
    tf.train.Checkpoint(model=variables).write(target)
