"""Saves training checkpoints in the layouts of scripts and libraries, and prints the tensors of each.

    torch_training.py FOLDER            creates FOLDER/CASE.pt for each case
    torch_training.py FOLDER --check    compares FOLDER/CASE.back.pt and FOLDER/CASE.legacy.pt, ferry's
                                        conversions of each case that torch can load with weights_only
    torch_training.py FOLDER --large    creates FOLDER/large.pt, of 100 MB

For each case, `model` contains the tensors of its model, and `part` is the path of the model.
`parts` are the paths of several models, one of which the user must choose.
"""

import argparse
import dataclasses
import enum
import json
import pathlib
import random
import sys
from collections import OrderedDict, defaultdict

import numpy as np
import torch
from torch import nn

import facts


@dataclasses.dataclass
class Config:
    width: int = 8
    names: list = dataclasses.field(default_factory=lambda: ["a", "b"])
    table: torch.Tensor = dataclasses.field(default_factory=lambda: torch.arange(3))


class Phase(enum.Enum):
    TRAIN = 1


class Tokens:
    """A class that exists only in the training script."""

    __slots__ = ("words", "counts")

    def __init__(self):
        self.words, self.counts = {"a": 1}, np.arange(3)


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.embedding = nn.Embedding(5, width)
        self.body = nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.GELU())
        self.head = nn.Linear(width, 5, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.body(self.embedding(tokens)))


def trained(kind=torch.optim.Adam, **options):
    """Returns a network, its optimizer and its scheduler after two steps."""
    torch.manual_seed(3)
    net = Net()
    optimizer = kind(net.parameters(), lr=0.01, **options)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10) if kind is torch.optim.AdamW \
        else torch.optim.lr_scheduler.StepLR(optimizer, 3)

    def closure():
        optimizer.zero_grad()
        loss = net(torch.arange(5)).logsumexp(-1).mean()
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
        scheduler.step()
    return net, optimizer, scheduler


def random_state():
    return {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state(),
            "cuda": [torch.arange(16, dtype=torch.uint8)]}


def arguments():
    return argparse.Namespace(lr=0.1, betas=(0.9, 0.95), device=torch.device("cpu"), dtype=torch.bfloat16,
                              output=pathlib.PurePosixPath("/runs/1"), resume=None, nested=argparse.Namespace(a=1))


def of_optimizer(kind, **options):
    net, optimizer, scheduler = trained(kind, **options)
    checkpoint = {"epoch": 3, "model": net.state_dict(), "optimizer": optimizer.state_dict(),
                  "lr_scheduler": scheduler.state_dict()}
    return checkpoint, "model"


def script():
    net, optimizer, scheduler = trained()
    return {
        "epoch": 12, "global_step": 34567, "model_state_dict": net.state_dict(),
        "optimizer_state_dict": optimizer.state_dict(), "scheduler_state_dict": scheduler.state_dict(),
        "scaler": torch.amp.GradScaler("cpu", init_scale=8.0).state_dict(), "args": arguments(), "rng_state": torch.get_rng_state(),
        "random_states": random_state(), "best_acc": np.float64(0.75), "losses": np.array([0.5, 0.25], np.float32),
        "history": {"loss": [0.5, np.float32(0.25)], "steps": np.int64(7)}, "config": Config(), "phase": Phase.TRAIN,
        "tokens": Tokens(), "vocabulary": defaultdict(int, a=1), "loss": torch.tensor(0.125),
    }, "model_state_dict"


def unforeseen():
    """A checkpoint with unusual keys."""
    net, optimizer, scheduler = trained(torch.optim.SGD, momentum=0.9, nesterov=True)
    return {
        "my_generator_v3": {"weights": net.state_dict(), "seen": 12}, "opt_G": optimizer.state_dict(),
        "lr_G": scheduler.state_dict(), "generator_states": {"cpu": torch.get_rng_state()},
        "torch_state": torch.get_rng_state(), "when": "2024-01-01", "iteration": 5,
    }, "my_generator_v3.weights"


def lightning():
    net, optimizer, scheduler = trained(torch.optim.AdamW)
    score = torch.tensor(0.5)
    name = "ModelCheckpoint{'monitor': 'val_loss', 'mode': 'min', 'every_n_train_steps': 0}"
    return {
        "epoch": 1, "global_step": 20, "pytorch-lightning_version": "2.5.0",
        "state_dict": OrderedDict((f"net.{key}", value) for key, value in net.state_dict().items()),
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 2}, "current": {"ready": 1}}}},
        "callbacks": {name: {"monitor": "val_loss", "best_model_score": score, "best_k_models": {"a.ckpt": score}},
                      "EarlyStopping": {"wait_count": 0, "best_score": score}},
        "optimizer_states": [optimizer.state_dict()], "lr_schedulers": [scheduler.state_dict()],
        "MixedPrecision": {"scale": 65536.0, "growth_factor": 2.0}, "hparams_name": "kwargs",
        "hyper_parameters": {"lr": 0.1, "layers": [1, 2]}, "datamodule_hyper_parameters": {},
    }, "state_dict"


def fairseq():
    net, optimizer, _ = trained()
    return {
        "args": None, "cfg": {"model": arguments(), "task": {"data": "/data"}}, "model": net.state_dict(), "criterion": {},
        "optimizer_history": [{"criterion_name": "CrossEntropy", "num_updates": 5, "lr_scheduler_state": {"best": None}}],
        "last_optimizer_state": optimizer.state_dict(), "task_state": {},
        "extra_state": {"train_iterator": {"epoch": 2, "shuffle": True}, "val_loss": 0.1,
                        "metrics": [(0, "loss", "AverageMeter", {"sum": torch.tensor(1.5), "count": 2})]},
    }, "model"


def whisper():
    net, *_ = trained()
    return {"dims": {"n_mels": 80, "n_vocab": 51865}, "model_state_dict": net.state_dict()}, "model_state_dict"


def mmcv():
    net, optimizer, _ = trained()
    return {"meta": {"epoch": 3, "env_info": "long\ntext", "CLASSES": ("a", "b")}, "state_dict": net.state_dict(),
            "optimizer": {"backbone": optimizer.state_dict(), "head": optimizer.state_dict()}}, "state_dict"


def averaged():
    """A checkpoint with averages that have no names, so they are not a model."""
    net, optimizer, _ = trained()
    shadow = [parameter.detach().clone() for parameter in net.parameters()]
    return {"model": net.state_dict(), "optimizer": optimizer.state_dict(),
            "ema": {"decay": 0.999, "num_updates": 4, "shadow_params": shadow}}, "model"


def deep():
    net, optimizer, _ = trained()
    return {"trainer": {"state": {"network": net.state_dict(), "optim": optimizer.state_dict()}, "step": 3},
            "version": 2}, "trainer.state.network"


def flat():
    net, *_ = trained()
    return net.state_dict(), ""


def whole_module():
    net, optimizer, _ = trained()
    return {"model": net, "optimizer": optimizer.state_dict(), "epoch": 3, "best_fitness": np.array([0.5])}, "model"


def two_averages():
    net, optimizer, _ = trained()
    return {"state_dict": net.state_dict(), "state_dict_ema": net.state_dict(), "optimizer": optimizer.state_dict(),
            "arch": "net", "args": arguments(), "version": 2}, ["state_dict", "state_dict_ema"]


def adversaries():
    net, optimizer, _ = trained()
    return {"G": net, "D": Net(), "G_ema": net, "training_set_kwargs": {"path": "/data"}, "augment_pipe": None}, \
        ["G", "D", "G_ema"]


CASES = {
    "script": script, "unforeseen": unforeseen, "lightning": lightning, "fairseq": fairseq, "whisper": whisper,
    "mmcv": mmcv, "averaged": averaged, "deep": deep, "flat": flat, "whole-module": whole_module,
    "two-averages": two_averages, "adversaries": adversaries,
    "adam": lambda: of_optimizer(torch.optim.Adam, amsgrad=True),
    "adamw-fused": lambda: of_optimizer(torch.optim.AdamW, fused=True),
    "sgd": lambda: of_optimizer(torch.optim.SGD),
    "lbfgs": lambda: of_optimizer(torch.optim.LBFGS, history_size=3),
    "adafactor": lambda: of_optimizer(torch.optim.Adafactor),
}


def at(checkpoint, part):
    for key in part.split(".") if part else []:
        checkpoint = checkpoint[key]
    return checkpoint.state_dict() if isinstance(checkpoint, nn.Module) else checkpoint


def same(x, y, path="$"):
    """Checks that a copy contains the same values, except for objects that weights_only refuses."""
    if isinstance(x, nn.Module):
        return same(x.state_dict(), y, path)
    if hasattr(x, "_metadata") and hasattr(y, "_metadata"):
        assert x._metadata == y._metadata, path
    if isinstance(x, torch.Tensor):
        assert facts.fact(x) == facts.fact(y), path
    elif isinstance(x, dict) and type(x) in (dict, OrderedDict, defaultdict):
        assert list(x) == list(y), f"{path}: {list(x)} became {list(y)}"
        for key in x:
            same(x[key], y[key], f"{path}.{key}")
    elif type(x) in (list, tuple):
        assert type(x) is type(y) and len(x) == len(y), path
        for index, pair in enumerate(zip(x, y)):
            same(*pair, f"{path}.{index}")
    elif type(x) in (int, float, str, bool, type(None), torch.Size, torch.device, torch.dtype):
        assert type(x) is type(y) and x == y, f"{path}: {x!r} became {y!r}"


def make(folder, name):
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    checkpoint, part = CASES[name]()
    torch.save(checkpoint, f"{folder}/{name}.pt")
    if isinstance(part, list):
        return {"parts": {path: facts.facts(at(checkpoint, path)) for path in part}}
    return {"part": part, "model": facts.facts(at(checkpoint, part))}


def make_large(path):
    """Saves a checkpoint with 12 layers, the two moments of an optimizer, and all other training state: 100 MB in total."""
    checkpoint, _ = script()
    shapes = {"attention.qkv.weight": (384, 128), "attention.out.weight": (128, 128), "mlp.up.weight": (2048, 128),
              "mlp.up.bias": (2048,), "mlp.down.weight": (128, 2048), "norm.weight": (128,), "norm.bias": (128,)}
    state = OrderedDict({"embedding.weight": torch.randn(8000, 128)})
    for layer in range(12):
        state |= {f"layers.{layer}.{key}": torch.randn(shape) for key, shape in shapes.items()}
    state |= {"norm.running_mean": torch.zeros(128, dtype=torch.float64), "norm.steps": torch.tensor(7)}
    state["head.weight"] = state["embedding.weight"].to(torch.bfloat16)
    moments = {index: {"step": torch.tensor(5.0), "exp_avg": torch.zeros(tensor.shape), "exp_avg_sq": torch.zeros(tensor.shape)}
               for index, tensor in enumerate(state.values())}
    groups = [{"lr": 1e-4, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": decay, "fused": True, "params": params}
              for decay, params in [(0.1, list(range(60))), (0.0, list(range(60, len(state))))]]
    checkpoint["model_state_dict"] = state
    checkpoint["optimizer_state_dict"] = {"state": moments, "param_groups": groups}
    torch.save(checkpoint, path)


def main():
    folder, *options = sys.argv[1:]
    if "--large" in options:
        return make_large(f"{folder}/large.pt")
    if "--check" not in options:
        return print(json.dumps({name: make(folder, name) for name in CASES}))
    for name in CASES:
        original = torch.load(f"{folder}/{name}.pt", weights_only=False)
        for copy in ("back", "legacy"):
            copied = torch.load(f"{folder}/{name}.{copy}.pt", weights_only=True)
            same(original, copied, f"{name}.{copy}")


if __name__ == "__main__":
    main()
