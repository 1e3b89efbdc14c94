"""Creates and checks object-based checkpoints.

`make FOLDER` saves checkpoints as FOLDER/CASE/original, with their values. `check FOLDER
NAME:all|model ...` reads each FOLDER/CASE/NAME into new objects with tf.train.Checkpoint, asserts
that everything is consumed, and compares the values of all objects or only of the model.
"""

import pathlib
import pickle
import sys

import keras
import numpy as np
import tensorflow as tf


def functional():
    inputs = keras.Input((6,), name="in")
    x = keras.layers.Dense(8, activation="relu", name="hidden")(inputs)
    x = keras.layers.BatchNormalization(name="norm")(x)
    x = keras.layers.Dropout(0.1, name="drop")(x)
    return keras.Model(inputs, keras.layers.Dense(3, name="head")(x), name="functional")


class Shared(keras.Model):
    """A model that has one layer under two names."""

    def __init__(self):
        super().__init__(name="shared")
        self.first = keras.layers.Dense(6, name="twin")
        self.second = self.first
        self.head = keras.layers.Dense(3, name="head")

    def call(self, x):
        return self.head(self.second(self.first(x)))


class Listed(keras.Model):
    """A model with a list of layers. Keras 3 tracks their weights only through the optimizer."""

    def __init__(self):
        super().__init__(name="listed")
        self.stack = [keras.layers.Dense(6, name="a"), keras.layers.Dense(6, name="b")]
        self.head = keras.layers.Dense(3, name="head")

    def call(self, x):
        for layer in self.stack:
            x = layer(x)
        return self.head(x)


class Nested(tf.Module):
    """A module with lists and dicts of variables, keys that need escaping, one variable under two names, and two variables of
    the same name."""

    def __init__(self, start):
        super().__init__()
        self.w = tf.Variable(start([4, 3]), name="kernel")
        self.tied = self.w
        self.a = tf.Variable(start([2]), name="same")
        self.b = tf.Variable(start([2]), name="same")
        self.lists = [tf.Variable(start([])), [tf.Variable(start([1])), {"deep": tf.Variable(start([2]))}]]
        self.dicts = {
            "k.e/y": tf.Variable(start([2]), name="a/b"),
            "..": tf.Variable(start([1])),
            ".S": tf.Variable(start([1])),
            "ключ": tf.Variable(tf.cast(start([3]), tf.bfloat16)),
        }
        self.counter = tf.Variable(tf.cast(10 * start([]), tf.int64), trainable=False)


def trained(model):
    model.compile(keras.optimizers.Adam(name="adam"), "mse", metrics=["mae"])
    random = np.random.default_rng(1)
    model.fit(random.normal(size=(16, 6)), random.normal(size=(16, 3)), epochs=1, verbose=0)
    return model


def built(model):
    model(np.zeros((1, 6), np.float32))
    return model


def module(seed):
    random = np.random.default_rng(seed)
    return Nested(lambda shape: tf.constant(random.normal(size=shape), tf.float32))


# Functions that create the objects of each case, with or without a training step.
CASES = {
    "keras_trained": lambda seed: trained(functional()),
    "keras_weights": lambda seed: functional(),
    "keras_shared": lambda seed: trained(Shared()),
    "keras_shared_weights": lambda seed: built(Shared()),
    "keras_listed": lambda seed: trained(Listed()),
    "module": module,
    "slots": lambda seed: slots(seed),
}


def slots(seed):
    """Returns objects with an optimizer whose slots are attached to the variables, as in Keras 2."""
    model = module(seed)
    optimizer = tf.compat.v1.train.AdamOptimizer(0.1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model.w**2) + tf.reduce_sum(model.a * model.b)
    variables = [model.w, model.a, model.b]
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return tf.train.Checkpoint(model=model, optimizer=optimizer)


# Functions that create the objects for reading a checkpoint without optimizer state, if these
# differ from the case's objects.
WITHOUT_OPTIMIZER = {
    "keras_trained": lambda seed: functional(),
    "keras_shared": lambda seed: built(Shared()),
    "slots": lambda seed: tf.train.Checkpoint(model=module(seed)),
}


def checkpoint(made):
    return made if isinstance(made, tf.train.Checkpoint) else tf.train.Checkpoint(made)


def weights(made):
    """Returns the values of the model's own variables. The keys of Keras variables are paths and not numbers, because numbers
    depend on the order in which models are built."""
    if isinstance(made, keras.Model):
        return {variable.path: as_array(variable.value) for variable in made.weights}
    module = made.model if isinstance(made, tf.train.Checkpoint) else made
    return {str(index): as_array(variable) for index, variable in enumerate(module.variables)}


def optimizer_state(made):
    optimizer = getattr(made, "optimizer", None)
    if optimizer is None:
        return {}
    if isinstance(optimizer, keras.Optimizer):
        return {"optimizer/" + variable.path: as_array(variable.value) for variable in optimizer.variables}
    # The optimizer's `variables()` are sorted by name, and two of the names are the same.
    trained = {name: getattr(made.model, name) for name in ["w", "a", "b"]}
    return {
        f"optimizer/{name}/{slot}": as_array(optimizer.get_slot(variable, slot))
        for name, variable in trained.items() for slot in optimizer.get_slot_names()
    } | {f"optimizer/power/{index}": as_array(power) for index, power in enumerate(optimizer._get_beta_accumulators())}


def as_array(value):
    return tf.cast(tf.convert_to_tensor(value), tf.float64).numpy()


def values(made, state):
    return weights(made) | (optimizer_state(made) if state == "all" else {})


def make(folder):
    for name, case in CASES.items():
        keras.utils.set_random_seed(1)
        here = folder / name
        here.mkdir()
        made = case(1)
        path = str(here / "original")
        checkpoint(made).write(path)
        for state in ["all", "model"]:
            with open(here / f"{state}.pickle", "wb") as file:
                pickle.dump(values(made, state), file)
        # TensorFlow's own checkpoints must pass the same check.
        checkpoint(made).read(path).assert_consumed()


def check(folder, *wanted):
    for checkpoint_name, state in (want.split(":") for want in wanted):
        for name, case in CASES.items():
            check_case(folder / name, checkpoint_name, state, case)
            print(name, checkpoint_name)


def check_case(folder, checkpoint_name, state, case):
    name = folder.name
    keras.utils.set_random_seed(2)
    made = case(2) if state == "all" else WITHOUT_OPTIMIZER.get(name, case)(2)
    truth = pickle.loads((folder / f"{state}.pickle").read_bytes())
    before = values(made, state)
    assert before.keys() == truth.keys() and truth, (name, before.keys() ^ truth.keys())
    assert all((before[key] != truth[key]).any() for key in truth if "kernel" in key or key == "0"), name
    status = checkpoint(made).read(str(folder / checkpoint_name))
    # If the objects have no optimizer, the optimizer state in the checkpoint is not consumed.
    if state == "all" or name not in WITHOUT_OPTIMIZER and name != "keras_listed":
        status.assert_consumed()
    if name != "keras_listed":
        status.assert_existing_objects_matched()
    for key, found in values(made, state).items():
        assert found.shape == truth[key].shape and (found == truth[key]).all(), (name, key, found, truth[key])


if __name__ == "__main__":
    command, folder, *rest = sys.argv[1:]
    {"make": make, "check": check}[command](pathlib.Path(folder), *rest)
