"""Trains for two steps on several ranks with DeepSpeed's real engine, on the CPU, and saves checkpoints.

For each checkpoint, prints DeepSpeed's own results: the consolidated weights that zero_to_fp32.py
writes (`fp32`), rank 0's module if it is whole (`model`), and the optimizer's state (`optimizer`).

    deepspeed_make.py FOLDER CASE...

A case is a stage and a dtype, possibly followed by more words: `3-bf16`, `2-fp32-universal`. Its
checkpoint is FOLDER/CASE.

    universal        adds a universal checkpoint, global_step2_universal
    small_groups     stage 3 divides its vector into several
    bf16_optimizer   the optimizer is BF16_Optimizer
    legacy           the files have torch's stream format, from before torch 1.6
"""

import glob
import json
import os
import shutil
import sys
import tempfile

os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("DS_SKIP_CUDA_CHECK", "1")

import deepspeed
import torch
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint, to_torch_tensor

import facts
import ranks

RANKS = 2
TAG = "global_step2"
STATES = ["exp_avg", "exp_avg_sq"]

# Two processes do not need the shared-memory collectives, which need a compiler and take minutes to
# build.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


class Model(torch.nn.Module):
    """A model with tied and frozen parameters, sizes that no number of ranks divides, and buffers of several dtypes."""

    def __init__(self):
        super().__init__()
        self.wte = torch.nn.Embedding(37, 12)
        self.frozen = torch.nn.Linear(12, 5)
        self.frozen.requires_grad_(False)
        self.fc1 = torch.nn.Linear(12, 13)
        self.conv = torch.nn.Conv1d(1, 3, 3, padding=1)
        self.fc2 = torch.nn.Linear(13, 12)
        self.norm = torch.nn.LayerNorm(12)
        self.head = torch.nn.Linear(12, 37, bias=False)
        self.head.weight = self.wte.weight
        self.scale = torch.nn.Parameter(torch.tensor([1.5]))
        self.register_buffer("mask", torch.arange(7) % 2 == 0)
        self.register_buffer("positions", torch.arange(5))
        self.register_buffer("running_mean", torch.zeros(12))
        self.register_buffer("batches", torch.tensor(0))
        self.register_buffer("cache", torch.zeros(3), persistent=False)

    def forward(self, tokens):
        x = self.wte(tokens)
        x = x + 0 * self.frozen(x).sum()
        x = self.fc2(torch.relu(self.fc1(x)))
        x = x + self.conv(x.reshape(-1, 1, 12)).mean(1).reshape(x.shape)
        x = self.norm(x) * self.scale
        self.running_mean += (0.1 * x.detach().mean((0, 1))).to(self.running_mean.dtype)
        self.batches += 1
        return self.head(x).float().logsumexp(-1).mean()


def configuration(stage, dtype, words):
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
        dtype: {"enabled": True},
    }
    if dtype == "fp16":
        config["fp16"]["initial_scale_power"] = 4
    if "small_groups" in words:
        config["zero_optimization"]["sub_group_size"] = 100
    if "bf16_optimizer" in words:
        config["data_types"] = {"grad_accum_dtype": "fp32"}
    if dtype == "fp32":
        del config["fp32"]
    return config


def train(rank, folder, case):
    stage, dtype, *words = case.split("-")
    torch.manual_seed(7)
    deepspeed.init_distributed("gloo")
    # DeepSpeed checks whether the CPU is fast at FP16; every CPU supports it.
    deepspeed.accelerator.get_accelerator().is_fp16_supported = lambda: True
    model = Model()
    decay = [p for p in model.parameters() if p.requires_grad and p.dim() > 1]
    rest = [p for p in model.parameters() if p.requires_grad and p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    engine, *_ = deepspeed.initialize(
        model=model, optimizer=torch.optim.AdamW(groups, lr=0.01), config=configuration(int(stage), dtype, words)
    )
    for step in range(2):
        torch.manual_seed(100 * step + rank)
        engine.backward(engine(torch.randint(0, 37, (2, 9))))
        engine.step()
    engine.save_checkpoint(folder, tag=TAG, client_state={"epoch": 3})


def make(folder, case):
    words = case.split("-")
    os.makedirs(folder)
    ranks.run(train, RANKS, folder, case)
    if "legacy" in words:
        for path in glob.glob(f"{folder}/{TAG}/*.pt"):
            torch.save(torch.load(path, weights_only=False), path, _use_new_zipfile_serialization=False)
    if "universal" in words:
        make_universal(folder)
    made = {"fp32": facts.facts(weights(folder)), "optimizer": facts.facts(optimizer(folder))}
    if words[0] != "3":
        states = torch.load(f"{folder}/{TAG}/mp_rank_00_model_states.pt", weights_only=False)
        made["model"] = facts.facts(states["module"])
    return made


def weights(folder):
    """Returns the output of zero_to_fp32.py, which fails if the stage is missing, as in BF16_Optimizer files."""
    return consolidated(folder, lambda state: state.setdefault("zero_stage", 1))


def optimizer(folder):
    """Returns the optimizer's state from the same script, which gets each kind of state in place of the weights."""
    states = {}
    for key in STATES:

        def exchange(state, key=key):
            state.setdefault("zero_stage", 1)
            if "fp32_flat_groups" in state:
                groups, moments = state["fp32_flat_groups"], state["optimizer_state_dict"]["state"]
            else:
                groups, moments = state["single_partition_of_fp32_groups"], state["base_optimizer_state"]["state"]
            for index, group in enumerate(groups):
                groups[index] = moments[index][key][: group.numel()]

        tensors = consolidated(folder, exchange)
        names = [name for name, parameter in Model().named_parameters() if parameter.requires_grad]
        states |= {f"{name}.{key}": tensors[name] for name in names}
    return states


def consolidated(folder, change):
    with tempfile.TemporaryDirectory() as other:
        shutil.copytree(f"{folder}/{TAG}", f"{other}/{TAG}")
        for path in glob.glob(f"{other}/{TAG}/*_optim_states.pt"):
            file = torch.load(path, weights_only=False)
            change(file["optimizer_state_dict"])
            torch.save(file, path)
        tensors = get_fp32_state_dict_from_zero_checkpoint(other, tag=TAG, lazy_mode=True)
        return to_torch_tensor(tensors, dtype=torch.float32)


def make_universal(folder):
    from argparse import Namespace

    from deepspeed.checkpoint import ds_to_universal

    ds_to_universal.main(
        Namespace(
            input_folder=f"{folder}/{TAG}", output_folder=f"{folder}/{TAG}_universal", num_extract_workers=1,
            num_merge_workers=1, keep_temp_folder=False, strict=True, inject_missing_state=True,
        )
    )


def main():
    folder, *cases = sys.argv[1:]
    # DeepSpeed prints to stdout, which must contain only the output of this script.
    answer = os.dup(1)
    os.dup2(2, 1)
    made = {case: make(os.path.join(folder, case), case) for case in cases}
    with os.fdopen(answer, "w") as stdout:
        json.dump(made, stdout)


if __name__ == "__main__":
    main()
