"""Runs llama.cpp and transformers with the same prompts: gguf_llama_run.py FOLDER GGUF

Prints JSON with four numbers. They are the number of tokens that llama.cpp and the folder's
tokenizer have in common, the total number of tokens, the number of prompts after which the next
token was compared, and the largest difference between the log probabilities of that token.
"""

import json
import os
import sys
import urllib.request

os.environ["USE_TF"] = "0"

import torch
import xllamacpp
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXTS = ["the quick brown fox", "wizards mix 12345 potions, isn't it?", "héllo wörld  привет\n\n 你好 🚀"]

folder, path = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
params = xllamacpp.CommonParams()
params.model.path = path
params.n_ctx, params.n_parallel, params.cpuparams.n_threads, params.warmup = 256, 1, 2, False
params.n_gpu_layers = 0
params.verbosity = 0
server = xllamacpp.Server(params)


def ask(path, **body):
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{server.listening_address}/{path}", json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request))


def tokens_of(text):
    return ask("tokenize", content=text, add_special=True, parse_special=True)["tokens"]


def next_of(ids):
    size = model.config.vocab_size
    found = ask("completion", prompt=ids, n_predict=1, n_probs=size, temperature=0.0, cache_prompt=False, ignore_eos=True)
    logs = torch.full((size,), float("nan"))
    # The field is None if the most likely token has no text.
    for entry in (found.get("completion_probabilities") or [{"top_logprobs": []}])[0]["top_logprobs"]:
        logs[entry["id"]] = entry["logprob"]
    return logs


seen = alike = compared = 0
apart = 0.0
for text in TEXTS:
    ids = tokenizer(text)["input_ids"]
    own = tokens_of(text)
    seen += len(ids)
    alike += len(ids) if ids == own else 0
    if ids != own:
        print(text, ids, own, file=sys.stderr)
    with torch.no_grad():
        expected = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
    found = next_of(ids)
    known = ~found.isnan()
    compared += known.sum().item() > len(known) * 0.9
    if not known.any():
        continue
    apart = max(apart, (found - expected)[known].abs().max().item())
print(json.dumps({"tokens": seen, "alike": alike, "compared": compared, "apart": apart}))
