"""Writes tiny models of the Llama family with their own tokenizers, as transformers saves them: gguf_llama_make.py FOLDER

The models are in FOLDER/KIND: llama3 (byte-level BPE, scaled rotary frequencies, tied), llama2
(sentencepiece), mistral (sentencepiece with only a tokenizer.json, without a space before text),
qwen2 (biases).
"""

import io
import json
import os
import sys
from pathlib import Path

os.environ["USE_TF"] = "0"

import sentencepiece
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    LlamaTokenizerFast,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

WORDS = "the quick brown fox jumps over a lazy dog while 12 345 wizards quietly mix 6789 potions, isn't it? ".split()
TEXTS = [" ".join(WORDS[i:] + WORDS[:i]) for i in range(len(WORDS))] + ["héllo wörld, привет мир 你好\n\n  spaces\ttabs"]
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
SHAPE = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 256}


def byte_level(regex, special, ignore_merges):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(regex), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False))
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return tokenizer


def pieces():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 20), model_writer=model, vocab_size=340, model_type="bpe", byte_fallback=True,
        character_coverage=1.0, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
        hard_vocab_limit=False, minloglevel=2)
    return model.getvalue()


def save(folder, model):
    """Saves a model with weights that differ from their neighbors. A new model has equal weights, which would hide a wrong order."""
    torch.manual_seed(11)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.copy_(1 + 0.1 * torch.randn_like(parameter))
            else:
                parameter.copy_(torch.randn_like(parameter) * 0.15)
    model.to(torch.bfloat16).save_pretrained(folder, max_shard_size="100KB" if folder.name == "llama2" else "5GB")


def main(root):
    folder = root / "llama3"
    tokenizer = byte_level(LLAMA3, ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"], True)
    bos, eos = tokenizer.token_to_id("<|begin_of_text|>"), tokenizer.token_to_id("<|eot_id|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B:1",
                                      special_tokens=[("<|begin_of_text|>", bos)])])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|begin_of_text|>", eos_token="<|eot_id|>")
    fast.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    config = LlamaConfig(**SHAPE, vocab_size=408, tie_word_embeddings=True, bos_token_id=bos, eos_token_id=eos,
                         rope_theta=500000.0, rms_norm_eps=1e-5,
                         rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                       "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})
    save(folder, LlamaForCausalLM(config))
    fast.save_pretrained(folder)

    folder = root / "llama2"
    sp = pieces()
    size = sentencepiece.SentencePieceProcessor(model_proto=sp).vocab_size()
    config = LlamaConfig(**SHAPE, vocab_size=size, attention_bias=True, bos_token_id=1, eos_token_id=2)
    save(folder, LlamaForCausalLM(config))
    (folder / "tokenizer.model").write_bytes(sp)
    LlamaTokenizerFast(vocab_file=str(folder / "tokenizer.model"), add_prefix_space=True).save_pretrained(folder)

    other = root / "mistral"
    config = MistralConfig(**SHAPE, vocab_size=size, head_dim=32, sliding_window=None)
    save(other, MistralForCausalLM(config))
    fast = LlamaTokenizerFast(vocab_file=str(folder / "tokenizer.model"))
    fast.save_pretrained(other)
    (other / "tokenizer.model").unlink(missing_ok=True)

    folder = root / "qwen2"
    tokenizer = byte_level(QWEN2, ["<|endoftext|>", "<|im_start|>"], False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    end = tokenizer.token_to_id("<|endoftext|>")
    config = Qwen2Config(**SHAPE, vocab_size=tokenizer.get_vocab_size(), bos_token_id=end, eos_token_id=end)
    save(folder, Qwen2ForCausalLM(config))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>").save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    print(json.dumps(sorted(path.name for path in Path(sys.argv[1]).iterdir())))
