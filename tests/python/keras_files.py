"""Creates Keras files, and checks ferry's conversions of them.

`make FOLDER` saves a model in every form (own.*), the same model with other values (other.*), and
the outputs of the first. `check FOLDER` loads ferry's conversions of these files (back.*) and
compares the outputs. `see FILE` prints the datasets that h5py finds in a file: dtype, shape and
digest.
"""

import hashlib
import json
import sys

import numpy as np


def make(folder):
    from keras_torch import inputs, keras_model

    model = keras_model()
    random = np.random.default_rng(5)
    for stem in ["own", "other"]:
        for variable in model.weights:
            value = random.normal(size=variable.shape, scale=0.5)
            # A variance must be positive.
            variable.assign(np.abs(value) + 0.5 if "variance" in variable.path else value)
        model.save(f"{folder}/{stem}.keras")
        model.save(f"{folder}/{stem}.h5")
        model.save_weights(f"{folder}/{stem}.weights.h5")
        np.save(f"{folder}/{stem}.npy", model.predict(list(inputs()), verbose=0))


def check(folder):
    import keras
    from keras_torch import inputs, keras_model

    expected = np.load(f"{folder}/own.npy")
    assert not np.array_equal(expected, np.load(f"{folder}/other.npy"))
    loaded = keras_model()
    loaded.load_weights(f"{folder}/back.weights.h5")
    models = [loaded, keras.saving.load_model(f"{folder}/back.keras"), keras.saving.load_model(f"{folder}/back.h5")]
    for model in models:
        np.testing.assert_array_equal(model.predict(list(inputs()), verbose=0), expected)


NAMES = {"b1": "BOOL", "c8": "C64", "c16": "C128"}


def see(file):
    import h5py

    found = {}

    def visit(path, dataset):
        if not isinstance(dataset, h5py.Dataset):
            return
        value = dataset[()]
        kind = dataset.dtype.str.lstrip("<>|=")
        if kind == "V2" and dataset.attrs.get("dtype") == "bfloat16":
            name = "BF16"
        elif kind[0] in "OS":
            return
        else:
            value = np.asarray(value).astype(dataset.dtype.newbyteorder("<"))
            name = NAMES.get(kind) or kind[0].upper() + str(8 * dataset.dtype.itemsize)
        raw = np.asarray(value).tobytes()
        found[path] = [name, list(dataset.shape), hashlib.sha256(raw).hexdigest()]

    with h5py.File(file) as h5:
        h5.visititems(visit)
    print(json.dumps(found))


if __name__ == "__main__":
    {"make": make, "check": check, "see": see}[sys.argv[1]](sys.argv[2])
