"""Saves a model in Keras and in PyTorch, with the same names for its parts, and checks ferry's conversions.

`make FOLDER` saves the Keras model as a checkpoint and as weights, with its outputs. `torch FOLDER`
loads ferry's conversion of it (FOLDER/torch.safetensors), compares the outputs, and saves the
PyTorch model with other values and its outputs. `check FOLDER` restores ferry's conversion of the
PyTorch model (FOLDER/back, also as weights) in Keras, and compares the outputs.
"""

import sys

import numpy as np

VOCABULARY, LENGTH = 13, 6


def inputs():
    random = np.random.default_rng(3)
    return random.normal(size=(2, 7, 9, 3)).astype(np.float32), random.integers(0, VOCABULARY, (2, LENGTH))


def keras_model():
    import keras

    layers = keras.layers
    image, words = keras.Input((7, 9, 3)), keras.Input((LENGTH,), dtype="int32")
    x = layers.Conv2D(4, (2, 3), name="conv")(image)
    x = layers.BatchNormalization(name="norm", epsilon=1e-3)(x)
    x = layers.DepthwiseConv2D((3, 2), depth_multiplier=2, activation="relu", name="depthwise")(x)
    x = layers.Dense(5, name="hidden", activation="relu")(layers.Flatten()(x))
    y = layers.Embedding(VOCABULARY, 8, name="embedding")(words)
    y = layers.LayerNormalization(name="layer_norm", epsilon=1e-3)(y)
    y = layers.Conv1D(6, 3, name="conv1d", use_bias=False)(y)
    y = layers.GlobalAveragePooling1D()(y)
    return keras.Model([image, words], layers.Dense(3, name="head")(layers.Concatenate()([x, y])))


def make(folder):
    import tensorflow as tf

    model = keras_model()
    random = np.random.default_rng(4)
    for variable in model.weights:
        value = random.normal(size=variable.shape, scale=0.5)
        variable.assign(np.abs(value) + 0.5 if "variance" in variable.path else value)
    tf.train.Checkpoint(model).write(f"{folder}/keras")
    model.save_weights(f"{folder}/model.weights.h5")
    np.save(f"{folder}/keras.npy", model(inputs(), training=False))


def check(folder):
    import tensorflow as tf

    model = keras_model()
    tf.train.Checkpoint(model).read(f"{folder}/back").assert_existing_objects_matched()
    same(model(inputs(), training=False), np.load(f"{folder}/torch.npy"))
    for weights in ["back", "checkpoint"]:
        model = keras_model()
        model.load_weights(f"{folder}/{weights}.weights.h5")
        same(model(inputs(), training=False), np.load(f"{folder}/torch.npy"))


def same(found, truth):
    """Compares two arrays, with a tolerance for a different order of additions."""
    found = np.asarray(found)
    assert found.shape == truth.shape and np.abs(truth).max() > 0.1, truth
    np.testing.assert_allclose(found, truth, rtol=1e-4, atol=1e-5)


def in_torch(folder):
    import torch
    from safetensors.torch import load_file

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            nn = torch.nn
            self.conv = nn.Conv2d(3, 4, (2, 3))
            self.norm = nn.BatchNorm2d(4, eps=1e-3)
            self.depthwise = nn.Conv2d(4, 8, (3, 2), groups=4)
            self.hidden = nn.Linear(8 * 4 * 6, 5)
            self.embedding = nn.Embedding(VOCABULARY, 8)
            self.layer_norm = nn.LayerNorm(8, eps=1e-3)
            self.conv1d = nn.Conv1d(8, 6, 3, bias=False)
            self.head = nn.Linear(11, 3)

        def forward(self, image, words):
            x = self.depthwise(self.norm(self.conv(image.permute(0, 3, 1, 2)))).relu()
            x = self.hidden(x.flatten(1)).relu()
            y = self.conv1d(self.layer_norm(self.embedding(words)).transpose(1, 2)).mean(2)
            return self.head(torch.cat([x, y], 1))

    image, words = (torch.from_numpy(value) for value in inputs())
    torch.manual_seed(5)
    with torch.no_grad():
        model = Model().eval()
        model.load_state_dict(load_file(f"{folder}/torch.safetensors"), strict=True)
        same(model(image, words), np.load(f"{folder}/keras.npy"))
        for name, value in model.state_dict().items():
            if value.is_floating_point():
                value.copy_(torch.rand_like(value) + 0.5 if "var" in name else torch.randn_like(value) / 2)
        torch.save(model.state_dict(), f"{folder}/own.pt")
        np.save(f"{folder}/torch.npy", model(image, words))


if __name__ == "__main__":
    command, path = sys.argv[1:]
    {"make": make, "torch": in_torch, "check": check}[command](path)
