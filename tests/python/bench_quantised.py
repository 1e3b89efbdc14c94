"""Creates quantized models, and measures how long libraries take to dequantize them on a CPU.

bench_quantised.py make KIND NUMBERS PATH     writes a Q4_K file, or a GPTQ or FP8 folder, with this many weights
bench_quantised.py time KIND PATH             prints the seconds to dequantize all weights without writing them

The peers are gguf-py's `quants.dequantize`, one tensor at a time, and a cast; the code of `dequantize_weight` in
`GPTQModel`'s `qlinear/torch.py`; and DeepSeek-V3's `weight_dequant` computed with torch.
"""

import json
import os
import sys
import time

import numpy as np

ROWS, COLUMNS = 4096, 4096
GROUP = BLOCK = 128


def make(kind, numbers, path):
    random = np.random.default_rng(1)
    count = max(1, numbers // (ROWS * COLUMNS))
    if kind == "q4_k":
        import gguf

        writer = gguf.GGUFWriter(path, "bench")
        for i in range(count):
            blocks = random.integers(0, 256, (ROWS, COLUMNS // 256, 144), dtype=np.uint8)
            # Each block starts with its scales, which are two F16 numbers and must be finite.
            blocks[..., [1, 3]] &= 0x3B
            blocks = blocks.reshape(ROWS, -1)
            writer.add_tensor(f"blk.{i}.ffn_up.weight", blocks, raw_dtype=gguf.GGMLQuantizationType.Q4_K)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return
    import torch
    from safetensors.torch import save_file

    tensors, bits = {}, torch.Generator().manual_seed(1)
    words = lambda *shape: torch.randint(-(2**31), 2**31 - 1, shape, dtype=torch.int32, generator=bits)
    for i in range(count):
        layer = f"model.layers.{i}.mlp.up_proj"
        if kind == "gptq":
            tensors[f"{layer}.qweight"] = words(COLUMNS // 8, ROWS)
            tensors[f"{layer}.qzeros"] = words(COLUMNS // GROUP, ROWS // 8)
            tensors[f"{layer}.scales"] = torch.rand(COLUMNS // GROUP, ROWS, generator=bits).half()
            tensors[f"{layer}.g_idx"] = torch.arange(COLUMNS, dtype=torch.int32) // GROUP
        else:
            weight = torch.randn(ROWS, COLUMNS, generator=bits)
            tensors[f"{layer}.weight"] = weight.to(torch.float8_e4m3fn)
            tensors[f"{layer}.weight_scale_inv"] = torch.rand(ROWS // BLOCK, COLUMNS // BLOCK, generator=bits)
    os.makedirs(path)
    save_file(tensors, f"{path}/model.safetensors", metadata={"format": "pt"})
    facts = {
        "gptq": {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False},
        "fp8": {"quant_method": "fp8", "weight_block_size": [BLOCK, BLOCK]},
    }
    with open(f"{path}/config.json", "w") as file:
        json.dump({"quantization_config": facts[kind]}, file)


def of_gguf(path, _):
    import gguf

    for tensor in gguf.GGUFReader(path).tensors:
        yield gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float16)


def of_torch(path, kind):
    import torch
    from safetensors.torch import load_file

    tensors = load_file(f"{path}/model.safetensors")
    shifts = torch.arange(0, 32, 4, dtype=torch.int32)
    for name in list(tensors):
        layer = name.removesuffix(".qweight" if kind == "gptq" else ".weight")
        if layer == name:
            continue
        if kind == "gptq":
            groups = tensors[f"{layer}.g_idx"].long()
            zeros = (tensors[f"{layer}.qzeros"].unsqueeze(2) >> shifts) & 15
            zeros = ((zeros + 1) & 15).reshape(-1, ROWS)
            codes = ((tensors[name].unsqueeze(1) >> shifts.unsqueeze(-1)) & 15).reshape(-1, ROWS)
            weight = tensors[f"{layer}.scales"][groups] * (codes - zeros[groups])
            yield weight.t().contiguous().to(torch.bfloat16)
        else:
            scales = tensors[f"{layer}.weight_scale_inv"].repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
            yield (tensors[name].float() * scales).to(torch.bfloat16)


if sys.argv[1] == "make":
    make(sys.argv[2], int(sys.argv[3]), sys.argv[4])
else:
    kind, path = sys.argv[2:]
    start, numbers = None, 0
    for weight in (of_torch if kind in ("gptq", "fp8") else of_gguf)(path, kind):
        # The first tensor is a warm-up that also opens the file.
        if start is None:
            start = time.perf_counter()
        else:
            numbers += weight.size if isinstance(weight, np.ndarray) else weight.numel()
    seconds = time.perf_counter() - start
    total = numbers + ROWS * COLUMNS
    print(seconds * total / numbers)
