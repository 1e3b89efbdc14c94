"""Checks that two torch files contain the same quantized or sparse tensors: the scheme or layout,
and every part, bit for bit.

The arguments are the two files, then the names of tensors for which the second file contains None.
"""

import sys

import torch

import facts

COMPRESSED = ("crow_indices", "col_indices", "ccol_indices", "row_indices")


def parts(tensor):
    if tensor.is_quantized:
        yield tensor.int_repr()
        if tensor.qscheme() == torch.per_tensor_affine:
            yield torch.tensor([tensor.q_scale(), tensor.q_zero_point()], dtype=torch.float64)
        else:
            yield from (tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points())
            yield torch.tensor(tensor.q_per_channel_axis())
    elif tensor.layout == torch.sparse_coo:
        yield from (tensor._indices(), tensor._values(), torch.tensor(tensor.is_coalesced()))
    else:
        by_rows = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
        yield from (getattr(tensor, part)() for part in (COMPRESSED[:2] if by_rows else COMPRESSED[2:]))
        yield tensor.values()


def kind(tensor):
    return tensor.dtype, tensor.layout, tensor.shape, tensor.qscheme() if tensor.is_quantized else None


first, second, *lost = sys.argv[1:]
a, b = (torch.load(path, weights_only=True) for path in (first, second))
assert list(a) == list(b), set(a) ^ set(b)
assert [name for name, tensor in b.items() if tensor is None] == sorted(lost, key=list(a).index)
for name in a.keys() - set(lost):
    assert kind(a[name]) == kind(b[name]), f"{name}: {kind(a[name])} became {kind(b[name])}"
    ours, theirs = list(parts(a[name])), list(parts(b[name]))
    assert [facts.fact(part) for part in ours] == [facts.fact(part) for part in theirs], name
