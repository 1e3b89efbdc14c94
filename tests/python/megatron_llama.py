"""Runs one model as megatron-core's GPT and as transformers' Llama, on the same input.

    megatron_llama.py CASE MEGATRON LLAMA.safetensors

CASE is a case of megatron_make.py, MEGATRON a torch_dist checkpoint of its model, and
LLAMA.safetensors the same model with the names of transformers. Prints the largest logit, and the
largest difference between logits.
"""

import argparse
import contextlib
import json
import pathlib
import sys

import safetensors.torch
import torch
import transformers

import megatron_make
import ranks
from megatron.core import dist_checkpointing, tensor_parallel

# The class of a run's arguments, which Megatron registers with torch when it starts.
torch.serialization.add_safe_globals([argparse.Namespace])
TOKENS = [[3, 1, 4, 1, 5, 9, 2, 6], [31, 0, 7, 8, 2, 11, 30, 5]]


def megatron(case, checkpoint):
    config, model = megatron_make.build(case, (1, 1, 1))
    loaded = dist_checkpointing.load({"model": model.sharded_state_dict()}, checkpoint)
    model.load_state_dict(loaded["model"])
    # Dropout uses a generator that only GPUs have. Dropout is off here.
    tensor_parallel.get_cuda_rng_tracker().fork = lambda *_: contextlib.nullcontext()
    tokens = torch.tensor(TOKENS)
    positions = torch.arange(tokens.shape[1]).expand_as(tokens)
    # In this mask, True means that a position is masked.
    mask = torch.ones(1, 1, tokens.shape[1], tokens.shape[1]).triu(1).bool()
    with torch.no_grad():
        return config, model.eval()(tokens, positions, mask)


def llama(config, file):
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=megatron_make.WORDS, hidden_size=config.hidden_size, intermediate_size=config.ffn_hidden_size,
            num_hidden_layers=config.num_layers, num_attention_heads=config.num_attention_heads,
            num_key_value_heads=config.num_query_groups, rms_norm_eps=config.layernorm_epsilon, rope_theta=10000.0,
            tie_word_embeddings=False, attn_implementation="eager",
        )
    )
    model.load_state_dict(safetensors.torch.load_file(file), strict=True)
    with torch.no_grad():
        return model.eval()(torch.tensor(TOKENS)).logits


def compare(_rank, case, checkpoint, file, output):
    config, first = megatron(case, checkpoint)
    second = llama(config, file)
    assert first.shape == second.shape, (first.shape, second.shape)
    seen = {"largest": first.abs().max().item(), "difference": (first - second).abs().max().item()}
    pathlib.Path(output).write_text(json.dumps(seen))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    case, checkpoint, file = sys.argv[1:]
    output = f"{file}.json"
    ranks.run(compare, 1, case, checkpoint, file, output)
    print(pathlib.Path(output).read_text())
