"""Creates and checks saved models: `make FOLDER` exports each kind twice, with different weights, as
FOLDER/KIND/like and FOLDER/KIND/other; `check FOLDER NAME...` loads each FOLDER/KIND/NAME, whose
outputs must equal those of FOLDER/KIND/other."""

import pathlib
import sys

import keras
import numpy as np
import tensorflow as tf

X = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)


def tf1(folder, seed):
    v1 = tf.compat.v1
    random = np.random.default_rng(seed)
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, (None, 4), name="x")
        with v1.variable_scope("layer"):
            w = v1.get_variable("w", initializer=tf.constant(random.normal(size=(4, 3)), tf.float32))
            # These variables are partitioned, so that the bundle has slices.
            table = v1.get_variable(
                "table", (6, 3), tf.float32, partitioner=v1.fixed_size_partitioner(2),
                initializer=v1.random_normal_initializer(seed=seed))
            y = tf.matmul(x, w) + tf.reduce_sum(tf.convert_to_tensor(table), 0)
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(folder), inputs={"x": x}, outputs={"y": y})


class Module(tf.Module):
    def __init__(self, seed, vocabulary):
        super().__init__()
        random = np.random.default_rng(seed)
        self.parts = [tf.Variable(random.normal(size=(4, 3)), dtype=tf.float32, name="same"),
                      tf.Variable(random.normal(size=(3,)), dtype=tf.float32, name="same")]
        self.tied = self.parts[1]
        self.scale = {"half": tf.Variable(random.normal(), dtype=tf.bfloat16)}
        self.vocabulary = tf.saved_model.Asset(vocabulary)

    @tf.function(input_signature=[tf.TensorSpec((None, 4), tf.float32, name="x")])
    def __call__(self, x):
        words = tf.strings.length(tf.io.read_file(self.vocabulary.asset_path))
        y = (x @ self.parts[0] + self.tied) * tf.cast(self.scale["half"], tf.float32)
        return {"y": y + tf.cast(words, tf.float32)}


def module(folder, seed):
    vocabulary = folder.parent / "vocabulary.txt"
    vocabulary.write_text("seven words are in this one file")
    made = Module(seed, str(vocabulary))
    tf.saved_model.save(made, str(folder), signatures=made.__call__)


def exported(folder, seed):
    keras.utils.set_random_seed(seed)
    inputs = keras.Input((4,), name="x")
    x = keras.layers.BatchNormalization(name="norm")(keras.layers.Dense(5, name="hidden")(inputs))
    model = keras.Model(inputs, {"y": keras.layers.Dense(3, name="head")(x)})
    model.compile("adam", "mse", metrics=["mae"])
    model.fit(X, {"y": X[:, :3]}, verbose=0)
    model.export(folder, verbose=False)


KINDS = {"tf1": tf1, "module": module, "keras": exported}


def outputs(folder):
    signature = tf.saved_model.load(str(folder)).signatures["serving_default"]
    return next(iter(signature(x=tf.constant(X)).values())).numpy()


def make(folder):
    for kind, export in KINDS.items():
        (folder / kind).mkdir()
        for seed, name in enumerate(["like", "other"]):
            export(folder / kind / name, seed + 1)
        like, other = (outputs(folder / kind / name) for name in ["like", "other"])
        assert (like != other).all(), f"{kind}: the weights make no difference"
        np.savez(folder / kind / "truth.npz", like, other)


def check(folder, *names):
    for kind in KINDS:
        with np.load(folder / kind / "truth.npz") as truth:
            like, other = truth["arr_0"], truth["arr_1"]
        for name in names:
            found = outputs(folder / kind / name)
            assert (found != like).all(), f"{kind}: {name}: the weights are those of the template model"
            assert (found == other).all(), (kind, name, found, other)
            print(kind, name)


if __name__ == "__main__":
    command, folder, *rest = sys.argv[1:]
    {"make": make, "check": check}[command](pathlib.Path(folder), *rest)
