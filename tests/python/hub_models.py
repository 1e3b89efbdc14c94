"""Saves small models with transformers, without any download, and loads ferry's conversions of them.

    hub_models.py FOLDER                    creates FOLDER/CASE for each case, and prints the contents of its weight files
    hub_models.py FOLDER --check CASE ...   loads FOLDER/CASE.out as the model of the case

A case is `model-format` with more words, as in `bert-torch-sharded-variant`.
"""

import glob
import json
import os
import sys

# TensorFlow would be slow to start, and the Hub must not be accessed.
os.environ |= {"USE_TF": "0", "USE_FLAX": "0", "HF_HUB_OFFLINE": "1"}

import torch
from safetensors.torch import load_file
from transformers import (
    BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration,
)

import facts

CASES = [
    "bert-safetensors", "bert-safetensors-sharded", "bert-torch", "bert-torch-sharded", "gpt2-safetensors-sharded",
    "gpt2-torch-sharded", "t5-safetensors-sharded", "t5-torch-sharded", "bert-safetensors-variant",
    "bert-torch-variant", "bert-safetensors-sharded-variant", "bert-torch-sharded-variant",
]
SHARD_SIZE, VARIANT = "9KB", "fp16"


def model(case):
    torch.manual_seed(8)
    kind = case.split("-")[0]
    if kind == "bert":
        config = BertConfig(vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                            intermediate_size=32, max_position_embeddings=16)
        return BertForMaskedLM(config).eval()
    if kind == "gpt2":
        config = GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
        return GPT2LMHeadModel(config).eval()
    config = T5Config(vocab_size=64, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0)
    return T5ForConditionalGeneration(config).eval()


def make(folder, case):
    words = case.split("-")
    model(case).save_pretrained(
        folder, safe_serialization="safetensors" in words, max_shard_size=SHARD_SIZE if "sharded" in words else "5GB",
        variant=VARIANT if "variant" in words else None,
    )
    tensors = {}
    files = glob.glob(f"{folder}/*.safetensors") + glob.glob(f"{folder}/*.bin")
    assert (len(files) > 2) == ("sharded" in words), files
    for path in sorted(files):
        tensors |= load_file(path) if path.endswith(".safetensors") else torch.load(path, weights_only=True)
    return {"tensors": facts.facts(tensors)["tensors"], "files": sorted(os.listdir(folder))}


def check(folder, case):
    """Checks that the weights, the ties and the outputs are equal, and that no weight is missing or unexpected."""
    expected = model(case)
    loaded, told = type(expected).from_pretrained(folder, output_loading_info=True, local_files_only=True)
    assert not any(told.values()), f"{case}: {told}"
    here, there = facts.facts(expected.state_dict()), facts.facts(loaded.state_dict())
    assert here == there, case
    assert len(here["ties"]) >= 1, f"{case}: {here['ties']}"
    tokens = torch.arange(12).reshape(2, 6)
    inputs = {"decoder_input_ids": tokens} if case.startswith("t5") else {}
    with torch.no_grad():
        assert torch.equal(expected(tokens, **inputs).logits, loaded.eval()(tokens, **inputs).logits), case


def main():
    folder, *options = sys.argv[1:]
    if options[:1] == ["--check"]:
        return [check(f"{folder}/{case}.out", case) for case in options[1:]]
    print(json.dumps({case: make(f"{folder}/{case}", case) for case in CASES}))


main()
