"""Compares a cast with torch's cast, value by value, and prints the number of compared values.

Usage: cast_check.py INPUT.safetensors OUTPUT.safetensors DTYPE

Every tensor of the output must equal `.to(DTYPE)` of the input in torch, bit for bit. A NaN must
remain a NaN, with any payload, because torch's payloads depend on the element's position in the tensor. There
are three exceptions:
- torch rounds F64 and wide integers twice, through F32. ferry's value must be nearer to the exact
value.
- torch rounds most values just above 2^-127 up in E8M0. ferry's value must be nearer to the exact
value.
- In C, the conversion of a float beyond the range of an integer is undefined. ferry's value must be
the nearest end of the range, or zero for NaN.
"""

import json
import sys
from fractions import Fraction

import numpy
import torch
from safetensors.torch import load_file

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

source, output, word = sys.argv[1:]
target = getattr(torch, word)
before, after = load_file(source), load_file(output)
assert set(before) == set(after), (set(before), set(after))
counts = {"tensors": 0, "values": 0, "nan": 0, "clamped": 0, "nearer": 0}


def bits(tensor):
    return tensor.reshape(-1).view(BITS[tensor.dtype.itemsize]).numpy()


def numbers(tensor):
    """Returns exact numbers: floats as float64, and integers unchanged."""
    tensor = tensor.reshape(-1)
    return (tensor.double() if tensor.dtype.is_floating_point else tensor).numpy()


def is_nan(values):
    return numpy.isnan(values) if values.dtype.kind == "f" else numpy.zeros(values.shape, bool)


def fraction(value):
    return Fraction(float(value)) if value.dtype.kind == "f" else Fraction(int(value))


def check_clamped(name, x, ours):
    """Checks the values beyond the target's range, and returns a mask that selects them."""
    limits = torch.iinfo(target)
    whole = numpy.trunc(x)
    outside = ~((whole >= float(limits.min)) & (whole < float(limits.max // 2 + 1) * 2))
    for value, clamped in zip(whole[outside].tolist(), ours[outside].tolist()):
        expected = 0 if value != value else limits.min if value < 0 else limits.max
        assert clamped == expected, (name, value, clamped)
    counts["clamped"] += int(outside.sum())
    return outside


def check_nearer(name, value, our, their):
    value = abs(fraction(value)) if target is torch.float8_e8m0fnu else fraction(value)
    if numpy.isfinite(our) and numpy.isfinite(their):
        assert abs(fraction(our) - value) < abs(fraction(their) - value), (name, float(value), our, their)
    else:
        # A value overflows if it reaches the midpoint between the largest number and the number
        # that would follow it.
        facts = torch.finfo(target)
        eps = Fraction(facts.eps)
        too_large = abs(value) >= Fraction(facts.max) * (2 - eps / 2) / (2 - eps)
        assert too_large == (not numpy.isfinite(our)), (name, float(value), our, their)
    counts["nearer"] += 1


def check(name, tensor, ours):
    assert ours.dtype is target and ours.shape == tensor.shape, (name, ours.dtype, ours.shape)
    theirs = tensor.to(target)
    x = numbers(tensor)
    differ = bits(ours) != bits(theirs)
    ours, theirs = numbers(ours), numbers(theirs)
    nan = is_nan(theirs)
    differ &= ~(nan & is_nan(ours))
    counts["tensors"] += 1
    counts["values"] += x.size
    counts["nan"] += int(nan.sum())
    if x.dtype.kind == "f" and ours.dtype.kind in "iu":
        differ &= ~check_clamped(name, x, ours)
    may_differ = tensor.dtype is torch.float64 or x.dtype.kind in "iu" or target is torch.float8_e8m0fnu
    assert (may_differ and target.is_floating_point) or not differ.any(), (
        name, target, x[differ][:5], ours[differ][:5], theirs[differ][:5])
    for value, our, their in zip(x[differ], ours[differ], theirs[differ]):
        check_nearer(name, value, our, their)


for name in before:
    check(name, before[name], after[name])
print(json.dumps(counts))
