"""Writes quantized checkpoints of every supported form, and their dequantized weights: quantised_make.py FOLDER [SEED]

FOLDER/NAME is a model folder. FOLDER/NAME.safetensors contains its weights as numpy computes them
in F32, with each operation rounded once. With a seed, scales have random bits, including NaN,
infinite and subnormal ones. Prints {"made": [NAME, ...], "refused": {NAME: a word of the reason}}.

The formulas are from the code of the libraries: `GPTQModel`'s and `AutoAWQ`'s packing, compressed-tensors'
`pack_quantized.py`, bitsandbytes' `functional.py`, DeepSeek's `weight_dequant`, ModelOpt's `nvfp4_tensor.py`,
transformers' `convert_moe_packed_tensors`, MLX's `ops.cpp`. No code of `ferry` is used.
"""

import json
import os
import sys

import numpy as np
from ml_dtypes import bfloat16, float8_e4m3fn
from safetensors.numpy import save_file

FOLDER, IS_WILD = sys.argv[1], len(sys.argv) > 2
RANDOM = np.random.default_rng(int(sys.argv[2]) if IS_WILD else 5)
np.seterr(all="ignore")
F32 = np.float32
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], F32)
NF4 = np.array([-1, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.09105004, 0, 0.0795803, 0.1609302,
                0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1], F32)
OUT, IN, GROUP = 32, 64, 32
LAYER = "model.layers.0.self_attn.q_proj"
WEIGHT = LAYER + ".weight"
GROUPS = np.arange(IN) // GROUP
made, refused = [], {}


def case(name, tensors, config, expected=None, refusal=None, beside=None):
    folder = f"{FOLDER}/{name}"
    os.makedirs(folder)
    contiguous = lambda all: {key: np.ascontiguousarray(value) for key, value in all.items()}
    save_file(contiguous(tensors), f"{folder}/model.safetensors", metadata={"format": "pt"})
    for file, content in {"config.json": config, **(beside or {})}.items():
        if content is not None:
            with open(f"{folder}/{file}", "w") as output:
                json.dump(content, output)
    if refusal:
        refused[name] = refusal
    else:
        save_file(contiguous({key: value.astype(F32) for key, value in expected.items()}), f"{folder}.safetensors")
        made.append(name)


def hf(method, **facts):
    return {"quantization_config": {"quant_method": method, **facts}}


def codes(bits, *shape):
    return RANDOM.integers(0, 2**bits, shape)


def wild(dtype, *shape):
    return RANDOM.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0]


def scales(*shape, dtype=np.float16):
    if IS_WILD:
        return wild(dtype, *shape)
    return (RANDOM.normal(size=shape) * 0.1).astype(dtype)


def stream(rows, bits):
    """Packs the codes of each row as one bit stream into 32-bit words, lowest bits first."""
    words = np.zeros((len(rows), (rows.shape[1] * bits + 31) // 32 + 1), np.uint64)
    for i in range(rows.shape[1]):
        word, shift = divmod(i * bits, 32)
        value = rows[:, i].astype(np.uint64) << np.uint64(shift)
        words[:, word] |= value & np.uint64(0xFFFFFFFF)
        words[:, word + 1] |= value >> np.uint64(32)
    return words[:, :-1].astype(np.uint32)


def exponents_of(*shape):
    return wild(np.uint8, *shape) if IS_WILD else RANDOM.integers(110, 135, shape).astype(np.uint8)


def floats8(*shape):
    return wild(float8_e4m3fn, *shape) if IS_WILD else RANDOM.normal(size=shape).astype(float8_e4m3fn)


def nibbles(rows):
    return (rows[:, 0::2] | (rows[:, 1::2] << 4)).astype(np.uint8)


def powers(exponents, last=np.nan):
    """Decodes E8M0. The last code is NaN, but MLX treats it as a power of two like the other codes."""
    return np.where(exponents == 255, F32(last), np.ldexp(F32(1), exponents.astype(np.int32) - 127))


def gptq(bits, groups=GROUPS, offset=1):
    count = groups.max() + 1
    code, zero, scale = codes(bits, IN, OUT), codes(bits, count, OUT), scales(count, OUT)
    tensors = {
        LAYER + ".qweight": stream(code.T, bits).T.view(np.int32),
        LAYER + ".qzeros": stream((zero - offset) % 2**bits, bits).view(np.int32),
        LAYER + ".scales": scale,
    }
    return tensors, {WEIGHT: (scale.astype(F32)[groups] * (code - zero[groups]).astype(F32)).T}


for bits in (2, 3, 4, 8):
    tensors, expected = gptq(bits)
    case(f"gptq_{bits}", tensors, hf("gptq", bits=bits, group_size=GROUP), expected)
tensors, expected = gptq(4, offset=0)
case("gptq_v2", tensors, hf("gptq", bits=4, group_size=GROUP, checkpoint_format="gptq_v2"), expected)
tensors, expected = gptq(4, groups=np.zeros(IN, int))
case("gptq_one_group", tensors, hf("gptq", bits=4, group_size=-1), expected)
order = RANDOM.permutation(IN) // GROUP
tensors, expected = gptq(3, groups=order)
case("gptq_act_order", {**tensors, LAYER + ".g_idx": order.astype(np.int32)}, hf("gptq", bits=3, group_size=GROUP), expected)
tensors, expected = gptq(4)
case("gptq_config_beside", tensors, None, expected, beside={"quantize_config.json": {"bits": 4, "group_size": GROUP}})
for form in ("marlin", "gptq_p"):
    case(f"gptq_{form}", tensors, hf("gptq", bits=4, group_size=GROUP, checkpoint_format=form), refusal=form)

order = [0, 2, 4, 6, 1, 3, 5, 7]
words = lambda rows: sum(rows[:, j::8].astype(np.uint32) << np.uint32(4 * place) for place, j in enumerate(order)).view(np.int32)
code, zero, scale = codes(4, IN, OUT), codes(4, IN // GROUP, OUT), scales(IN // GROUP, OUT)
tensors = {LAYER + ".qweight": words(code), LAYER + ".qzeros": words(zero), LAYER + ".scales": scale}
expected = {WEIGHT: ((code - zero[GROUPS]).astype(F32) * scale.astype(F32)[GROUPS]).T}
case("awq", tensors, hf("awq", bits=4, group_size=GROUP, version="gemm", zero_point=True), expected)
for form in ("gemv", "gemv_fast", "exllama"):
    case(f"awq_{form}", tensors, hf("awq", bits=4, group_size=GROUP, version=form), refusal=form)


def compressed(form, bits, kind, strategy, group=None, **facts):
    weights = {"num_bits": bits, "type": kind, "strategy": strategy, "group_size": group, "symmetric": True, **facts}
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return hf("compressed-tensors", format=form, config_groups=groups, ignore=["lm_head"])


SHAPE = np.array([OUT, IN], np.int64)
for bits in (2, 3, 4, 5, 6, 8):
    code, scale = codes(bits, OUT, IN), scales(OUT, IN // GROUP, dtype=bfloat16)
    packed = {LAYER + ".weight_packed": stream(code, bits).view(np.int32), LAYER + ".weight_scale": scale, LAYER + ".weight_shape": SHAPE}
    expected = {WEIGHT: (code - 2 ** (bits - 1)).astype(F32) * scale.astype(F32)[:, GROUPS]}
    case(f"ct_packed_{bits}", packed, compressed("pack-quantized", bits, "int", "group", GROUP), expected)
    if bits == 3:
        # Older releases pack as many whole codes as fit into each word.
        old = np.zeros((OUT, (IN + 9) // 10), np.uint32)
        for i in range(IN):
            old[:, i // 10] |= code[:, i].astype(np.uint32) << np.uint32(3 * (i % 10))
        older = {**packed, LAYER + ".weight_packed": old.view(np.int32)}
        case("ct_packed_3_old", older, compressed("pack-quantized", 3, "int", "group", GROUP), expected)
code, zero, scale = codes(4, OUT, IN), codes(4, OUT, IN // GROUP), scales(OUT, IN // GROUP, dtype=bfloat16)
order = RANDOM.permutation(IN) // GROUP
tensors = {
    LAYER + ".weight_packed": stream(code, 4).view(np.int32),
    LAYER + ".weight_scale": scale,
    LAYER + ".weight_shape": SHAPE,
    LAYER + ".weight_zero_point": stream(zero.T, 4).T.view(np.int32),
    LAYER + ".weight_g_idx": order.astype(np.int32),
}
expected = {WEIGHT: (code.astype(F32) - zero[:, order].astype(F32)) * scale.astype(F32)[:, order]}
case("ct_asymmetric_act_order", tensors, compressed("pack-quantized", 4, "int", "group", GROUP, symmetric=False), expected)

int8 = RANDOM.integers(-128, 128, (OUT, IN)).astype(np.int8)
scale, zero = scales(OUT, 1, dtype=bfloat16), RANDOM.integers(-8, 8, (OUT, 1)).astype(np.int8)
tensors = {WEIGHT: int8, WEIGHT + "_scale": scale, LAYER + ".input_scale": np.ones(1, bfloat16)}
case("ct_int8", tensors, compressed("int-quantized", 8, "int", "channel"), {WEIGHT: int8.astype(F32) * scale.astype(F32)})
tensors = {WEIGHT: int8, WEIGHT + "_scale": scale, WEIGHT + "_zero_point": zero}
expected = {WEIGHT: (int8.astype(F32) - zero.astype(F32)) * scale.astype(F32)}
case("ct_int8_asymmetric", tensors, compressed("naive-quantized", 8, "int", "channel", symmetric=False), expected)
float8 = floats8(OUT, IN)
scale = np.array([0.37], F32)
tensors = {WEIGHT: float8, WEIGHT + "_scale": scale}
case("ct_float8", tensors, compressed("float-quantized", 8, "float", "tensor"), {WEIGHT: float8.astype(F32) * scale[0]})
scale = scales(2, 2, dtype=F32)
tensors = {WEIGHT: float8, WEIGHT + "_scale": scale}
blocks = np.repeat(np.repeat(scale, OUT // 2, 0), IN // 2, 1)
config = compressed("float-quantized", 8, "float", "block", block_structure=[OUT // 2, IN // 2])
case("ct_float8_blocks", tensors, config, {WEIGHT: float8.astype(F32) * blocks})
code = codes(4, OUT, IN)
exponents = exponents_of(OUT, IN // 32)
tensors = {LAYER + ".weight_packed": nibbles(code), LAYER + ".weight_scale": exponents}
expected = {WEIGHT: E2M1[code] * powers(exponents)[:, np.arange(IN) // 32]}
case("ct_mxfp4", tensors, compressed("mxfp4-pack-quantized", 4, "float", "group", 32), expected)
small = np.abs(floats8(OUT, IN // 16))
of_all, sixteens = np.array([37.0], F32), np.arange(IN) // 16
tensors = {LAYER + ".weight_packed": nibbles(code), LAYER + ".weight_scale": small, LAYER + ".weight_global_scale": of_all}
expected = {WEIGHT: E2M1[code] * (small.astype(F32) / of_all[0])[:, sixteens]}
case("ct_nvfp4", tensors, compressed("nvfp4-pack-quantized", 4, "float", "tensor_group", 16), expected)
case("ct_sparse", {WEIGHT: float8}, compressed("marlin-24", 4, "int", "group", GROUP), refusal="marlin-24")

for kind, storage in (("nf4", np.uint8), ("fp4", np.uint8), ("nf4", bfloat16)):
    code, largest = codes(4, OUT * IN), np.abs(scales(OUT * IN // 64, dtype=F32))
    packed = ((code[0::2] << 4) | code[1::2]).astype(np.uint8).view(storage).reshape(-1, 1)
    state = {"quant_type": kind, "blocksize": 64, "dtype": "bfloat16", "shape": [OUT, IN]}
    tensors = {
        WEIGHT: packed,
        WEIGHT + ".absmax": largest,
        WEIGHT + ".quant_map": NF4,
        f"{WEIGHT}.quant_state.bitsandbytes__{kind}": np.frombuffer(json.dumps(state).encode(), np.uint8),
    }
    expected = {WEIGHT: (NF4[code] * largest[np.arange(OUT * IN) // 64]).reshape(OUT, IN)}
    name = f"bnb_{kind}_{np.dtype(storage).name}"
    case(name, tensors, hf("bitsandbytes", load_in_4bit=True), expected)
    if kind == "fp4":
        case("bnb_without_config", tensors, None, expected)
scale = np.abs(scales(OUT, dtype=F32))
tensors = {WEIGHT: int8, LAYER + ".SCB": scale, LAYER + ".weight_format": np.array(0, np.uint8)}
case("bnb_int8", tensors, hf("bitsandbytes", load_in_8bit=True), {WEIGHT: (int8.astype(F32) * scale[:, None]) * F32(0.007874015718698502)})
tensors[LAYER + ".weight_format"] = np.array(2, np.uint8)
case("bnb_int8_tiled", tensors, hf("bitsandbytes", load_in_8bit=True), refusal="weight_format")

# Some blocks extend beyond the edges of the weight.
large, scale = floats8(200, 136), scales(2, 2, dtype=F32)
spread = lambda scale: np.repeat(np.repeat(scale.astype(F32), 128, 0), 128, 1)[:200, :136]
config = hf("fp8", weight_block_size=[128, 128])
case("fp8_blocks", {WEIGHT: large, WEIGHT + "_scale_inv": scale}, config, {WEIGHT: large.astype(F32) * spread(scale)})
case("fp8_no_scale", {WEIGHT: large}, config, refusal="missing_scale=1")
scale = np.abs(scales(OUT, 1, dtype=F32))
case("fbgemm", {WEIGHT: float8, WEIGHT + "_scale": scale}, hf("fbgemm_fp8"), {WEIGHT: float8.astype(F32) * scale})
tensors = {WEIGHT: float8, WEIGHT + "_scale": np.array(0.3, F32), LAYER + ".input_scale": np.array(1, F32)}
case("modelopt_fp8", tensors, hf("modelopt", quant_algo="FP8"), {WEIGHT: float8.astype(F32) * F32(0.3)})
code = codes(4, OUT, IN)
tensors = {WEIGHT: nibbles(code), WEIGHT + "_scale": small, WEIGHT + "_scale_2": np.array(0.02, F32)}
beside = {"hf_quant_config.json": {"quantization": {"quant_algo": "NVFP4"}}}
case("modelopt_nvfp4", tensors, None, {WEIGHT: E2M1[code] * (small.astype(F32) * F32(0.02))[:, sixteens]}, beside=beside)

name, code = "model.layers.0.mlp.experts.gate_up_proj", codes(4, 3 * 8, 64)
exponents = exponents_of(3, 8, 2)
tensors = {name + "_blocks": nibbles(code).reshape(3, 8, 2, 16), name + "_scales": exponents}
expected = {name: (E2M1[code].reshape(3, 8, 2, 32) * powers(exponents)[..., None]).reshape(3, 8, 64).transpose(0, 2, 1)}
case("gpt_oss", tensors, hf("mxfp4"), expected)


def mlx(**facts):
    return {"quantization": {"group_size": 32, "bits": 4, **facts}}


for bits in (2, 3, 4, 5, 6, 8):
    code, scale, bias = codes(bits, OUT, IN), scales(OUT, IN // GROUP), scales(OUT, IN // GROUP)
    tensors = {WEIGHT: stream(code, bits), LAYER + ".scales": scale, LAYER + ".biases": bias}
    expected = {WEIGHT: code.astype(F32) * scale.astype(F32)[:, GROUPS] + bias.astype(F32)[:, GROUPS]}
    case(f"mlx_{bits}", tensors, mlx(bits=bits), expected)
    if bits == 8:
        case("mlx_layer_of_its_own", tensors, mlx(**{LAYER: {"group_size": 32, "bits": 8}, "lm_head": False}), expected)
code, exponents = codes(4, OUT, IN), exponents_of(OUT, IN // 32)
tensors = {WEIGHT: stream(code, 4), LAYER + ".scales": exponents}
case("mlx_mxfp4", tensors, mlx(mode="mxfp4"), {WEIGHT: E2M1[code] * powers(exponents, np.inf)[:, GROUPS]})
tensors = {WEIGHT: stream(code, 4), LAYER + ".scales": small.view(np.uint8)}
case("mlx_nvfp4", tensors, mlx(mode="nvfp4", group_size=16), {WEIGHT: E2M1[code] * small.astype(F32)[:, sixteens]})
tensors = {WEIGHT: float8.view(np.uint8).view(np.uint32), LAYER + ".scales": exponents}
case("mlx_mxfp8", tensors, mlx(mode="mxfp8", bits=8), {WEIGHT: float8.astype(F32) * powers(exponents, np.inf)[:, GROUPS]})

case("of_no_known_method", {WEIGHT: int8}, hf("zzz"), refusal="zzz")
print(json.dumps({"made": made, "refused": refused}))
