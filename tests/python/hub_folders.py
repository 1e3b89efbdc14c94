"""Creates model folders that contain several models, in the layouts of sentence-transformers and diffusers.

    hub_folders.py FOLDER

`sentence` is a sentence-transformers model: the modules after the first are sub-folders, some with
weights. `pipeline` is a diffusers pipeline: each part is a sub-folder. Prints the tensors of each
weights file, and the names of all other files.
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import save_file

import facts

SENTENCE = {
    "README.md": "# A model\n", "modules.json": '[{"idx": 0, "path": ""}, {"idx": 1, "path": "1_Pooling"}]\n',
    "config.json": '{"model_type": "bert"}\n', "config_sentence_transformers.json": "{}\n", "sentence_bert_config.json": "{}\n",
    "tokenizer.json": "{}\n", "tokenizer_config.json": "{}\n", "vocab.txt": "[PAD]\na\nb\n", "special_tokens_map.json": "{}\n",
    "1_Pooling/config.json": '{"pooling_mode_mean_tokens": true}\n', "2_Dense/config.json": '{"in_features": 4}\n',
    "onnx/model.onnx": "not read", ".gitattributes": "*.bin filter=lfs\n",
}
PIPELINE = {
    "model_index.json": '{"_class_name": "StableDiffusionPipeline", "unet": ["diffusers", "UNet2DConditionModel"]}\n',
    "scheduler/scheduler_config.json": '{"_class_name": "PNDMScheduler"}\n', "feature_extractor/preprocessor_config.json": "{}\n",
    "tokenizer/vocab.json": '{"a": 0}\n', "tokenizer/merges.txt": "#version: 0.2\n", "text_encoder/config.json": "{}\n",
    "unet/config.json": '{"sample_size": 64}\n', "vae/config.json": '{"latent_channels": 4}\n',
}


def tensors(seed, *names):
    torch.manual_seed(seed)
    return {name: torch.randn(3, 4) for name in names}


def write_texts(folder, texts):
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def save(path, state):
    """Writes a pickle or a safetensors file, according to the suffix, with the metadata that transformers expects."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".bin":
        torch.save(state, path)
    else:
        save_file(state, path, metadata={"format": "pt"})


def main():
    folder = pathlib.Path(sys.argv[1])
    printed = {}
    for name, texts, models in [
        ("sentence", SENTENCE, {
            "pytorch_model.bin": tensors(1, "embeddings.word_embeddings.weight", "encoder.layer.0.output.dense.weight"),
            "2_Dense/pytorch_model.bin": tensors(2, "linear.weight", "linear.bias"),
        }),
        ("pipeline", PIPELINE, {
            "unet/diffusion_pytorch_model.safetensors": tensors(3, "conv_in.weight", "down_blocks.0.weight"),
            "vae/diffusion_pytorch_model.safetensors": tensors(4, "encoder.conv_in.weight"),
            "text_encoder/model.safetensors": tensors(5, "text_model.final_layer_norm.weight"),
            "adapters/adapter_model.safetensors": tensors(6, "base_model.model.lora_A.weight"),
        }),
    ]:
        write_texts(folder / name, texts)
        for path, state in models.items():
            save(folder / name / path, state)
        printed[name] = {"models": {path: facts.facts(state) for path, state in models.items()}, "files": list(texts)}
    print(json.dumps(printed))


main()
