"""Saves a model in Flax and in PyTorch, and checks ferry's conversions between the two.

`make FOLDER` saves two models in each framework, with different values, and their outputs: a BERT
from transformers (bert-flax/, bert-torch/) and a small model with convolutions (small.msgpack,
small.pt). `check FOLDER` loads ferry's conversion of each model in the other framework (to-torch/,
to-flax/, small.safetensors, back.msgpack) and compares the outputs.
"""

import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

import flax.linen as nn
import flax.serialization
import jax
import numpy as np
import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertModel, FlaxBertModel

WORDS = np.array([[1, 5, 2, 7], [3, 4, 4, 9]])
CONFIG = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, max_position_embeddings=12
)
IMAGE = np.random.default_rng(3).normal(size=(2, 7, 9, 3)).astype(np.float32)


class Small(nn.Module):
    @nn.compact
    def __call__(self, image, words):
        x = nn.Conv(4, (2, 3), padding="VALID", name="conv")(image)
        x = nn.BatchNorm(use_running_average=True, epsilon=1e-3, name="norm")(x).mean((1, 2))
        y = nn.Embed(13, 8, name="embedding")(words)
        y = nn.LayerNorm(epsilon=1e-3, name="layer_norm")(y)
        y = nn.Conv(6, (3,), padding="VALID", use_bias=False, name="conv1d")(y).mean(1)
        return nn.Dense(3, name="head")(jax.numpy.concatenate([x, y], 1))


class SmallInTorch(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, (2, 3))
        self.norm = torch.nn.BatchNorm2d(4, eps=1e-3)
        self.embedding = torch.nn.Embedding(13, 8)
        self.layer_norm = torch.nn.LayerNorm(8, eps=1e-3)
        self.conv1d = torch.nn.Conv1d(8, 6, 3, bias=False)
        self.head = torch.nn.Linear(10, 3)

    def forward(self, image, words):
        x = self.norm(self.conv(image.permute(0, 3, 1, 2))).mean((2, 3))
        y = self.conv1d(self.layer_norm(self.embedding(words)).transpose(1, 2)).mean(2)
        return self.head(torch.cat([x, y], 1))


def in_torch(model, *inputs):
    with torch.no_grad():
        return model.eval()(*map(torch.from_numpy, inputs))


def shuffled(tree, seed):
    """Returns different values with the same shapes. Variances remain positive."""
    random = np.random.default_rng(seed)

    def other(path, leaf):
        value = random.normal(size=leaf.shape, scale=0.5).astype(np.float32)
        return np.abs(value) + 0.5 if path[-1].key == "var" else value

    return jax.tree_util.tree_map_with_path(other, tree)


def make(folder):
    bert = FlaxBertModel(CONFIG, seed=1)
    bert.params = shuffled(bert.params, 2)
    bert.save_pretrained(f"{folder}/bert-flax")
    np.save(f"{folder}/bert-flax.npy", bert(WORDS).last_hidden_state)
    torch.manual_seed(4)
    bert = BertModel(CONFIG)
    bert.save_pretrained(f"{folder}/bert-torch")
    np.save(f"{folder}/bert-torch.npy", in_torch(bert, WORDS).last_hidden_state)

    variables = shuffled(Small().init(jax.random.key(0), IMAGE, WORDS), 5)
    with open(f"{folder}/small.msgpack", "wb") as file:
        file.write(flax.serialization.to_bytes(variables))
    np.save(f"{folder}/small-flax.npy", Small().apply(variables, IMAGE, WORDS))
    small = SmallInTorch()
    small.norm.running_mean.normal_()
    small.norm.running_var.uniform_(0.5, 2)
    torch.save(small.state_dict(), f"{folder}/small.pt")
    np.save(f"{folder}/small-torch.npy", in_torch(small, IMAGE, WORDS))


def check(folder):
    same(in_torch(BertModel.from_pretrained(f"{folder}/to-torch"), WORDS).last_hidden_state, f"{folder}/bert-flax.npy")
    same(FlaxBertModel.from_pretrained(f"{folder}/to-flax")(WORDS).last_hidden_state, f"{folder}/bert-torch.npy")
    small = SmallInTorch()
    small.load_state_dict(load_file(f"{folder}/small.safetensors"))
    same(in_torch(small, IMAGE, WORDS), f"{folder}/small-flax.npy")
    variables = Small().init(jax.random.key(0), IMAGE, WORDS)
    with open(f"{folder}/back.msgpack", "rb") as file:
        variables = flax.serialization.from_bytes(variables, file.read())
    same(Small().apply(variables, IMAGE, WORDS), f"{folder}/small-torch.npy")


def same(found, path):
    """Compares two arrays, with a tolerance for a different order of additions."""
    found, truth = np.asarray(found), np.load(path)
    assert found.shape == truth.shape and np.abs(truth).max() > 0.1, truth
    np.testing.assert_allclose(found, truth, rtol=1e-3, atol=1e-4)


if __name__ == "__main__":
    command, path = sys.argv[1:]
    {"make": make, "check": check}[command](path)
