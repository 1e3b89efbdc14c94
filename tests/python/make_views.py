"""Saves tensors that are views, and prints their dtypes, shapes and digests in torch's memory."""

import json
import sys

import torch

import facts

torch.manual_seed(7)
INTEGERS = [torch.bool, torch.uint8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64]


def values(shape, dtype):
    if dtype in INTEGERS:
        return torch.randint(0, 2 if dtype is torch.bool else 100, shape).to(dtype)
    return torch.randn(shape, dtype=dtype if dtype.is_complex else torch.float32).to(dtype)


tensors = {}
for dtype in INTEGERS + FLOATS:
    name = str(dtype).removeprefix("torch.")
    matrix = values((37, 53), dtype)
    tensors[f"{name}.plain"] = matrix
    tensors[f"{name}.transpose"] = matrix.t()
    tensors[f"{name}.column"] = matrix[:, 5]
    tensors[f"{name}.every_third_row"] = matrix[1::3, 2:-2:2]
    tensors[f"{name}.expand"] = matrix[3].expand(9, 53)
    tensors[f"{name}.expand_inner"] = matrix[:, :1].expand(37, 11)
    tensors[f"{name}.expand_scalar"] = matrix[0, 0].expand(4, 5)
    five = values((3, 4, 5, 6, 7), dtype)
    tensors[f"{name}.permute"] = five.permute(4, 2, 0, 3, 1)
    tensors[f"{name}.permute_inner_kept"] = five.permute(1, 3, 0, 2, 4)
    tensors[f"{name}.slice_of_permute"] = five.permute(3, 0, 4, 1, 2)[1:5, :, ::2, 1:3]
    tensors[f"{name}.diagonal"] = torch.diagonal(matrix)
    tensors[f"{name}.windows"] = matrix.flatten().unfold(0, 8, 3)
    tensors[f"{name}.one_of_each"] = values((1, 5, 1, 1), dtype).permute(2, 1, 3, 0)
    tensors[f"{name}.no_elements"] = matrix[:0].t()

z = values((31, 17), torch.complex64)
tensors["conj"] = z.conj()
tensors["conj_transpose"] = z.conj().t()
# These tensors have their own storages, because torch does not save one storage with two dtypes.
tensors["negative"] = values((31, 17), torch.complex64).conj().imag
tensors["real"] = values((31, 17), torch.complex64).real
tensors["imag_transpose"] = values((31, 17), torch.complex64).imag.t()

# These views are larger than a buffer in each direction, so that ferry gathers them in several
# chunks.
tensors["big.transpose_f32"] = values((2048, 2050), torch.float32).t()
tensors["big.transpose_bf16"] = values((3001, 2999), torch.bfloat16).t()
tensors["big.transpose_u8"] = values((4096, 4099), torch.uint8).t()
tensors["big.permute"] = values((24, 33, 40, 21, 9), torch.float32).permute(4, 3, 2, 1, 0)
tensors["big.expand"] = values((1, 1025), torch.float32).expand(2500, 1025)
tensors["big.columns"] = values((1 << 20, 8), torch.float16)[:, 3:6]
tensors["big.long_rows"] = values((5, 700001), torch.float32)[:, 1:]
tensors["big.wide_transpose"] = values((3, 1 << 20), torch.float64).t()

torch.save(tensors, sys.argv[1])
print(json.dumps(facts.facts(tensors)))
