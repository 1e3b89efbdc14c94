"""Writes arrays of every dtype that numpy prints, and numpy's output for many slices of them.

arrays.npz contains random arrays. changed.npz contains the same arrays with some of the real numbers changed.
expected.json contains the name of the array, the index, the line width and numpy's output for each slice.
"""

import json
import pathlib
import sys

import numpy as np

folder = pathlib.Path(sys.argv[1])
rng = np.random.default_rng(20)
DTYPES = ["f2", "f4", "f8", "c8", "c16", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "b1"]
SHAPES = [(), (1,), (7,), (40,), (3, 5), (2, 3, 4), (0, 3), (1200,), (60, 40), (9, 8, 20), (2, 2, 2, 3)]
SCALES = [1, 1e-6, 1e5, 1e30, 1e-3]


def numbers(dtype, shape):
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        facts = np.iinfo(dtype)
        span = int(rng.choice([10, 1000, 2**62]))
        low, high = max(facts.min, -span), min(facts.max, span)
        return rng.integers(low, high, shape, dtype=dtype, endpoint=True)
    if kind == "c":
        part = "f4" if dtype == "c8" else "f8"
        return (numbers(part, shape) + 1j * numbers(part, shape)).astype(dtype)
    with np.errstate(over="ignore"):
        values = np.asarray(rng.standard_normal(shape) * rng.choice(SCALES))
        how = rng.integers(0, 6)
        if how == 1:
            values = np.round(values, 2)
        elif how == 2:
            values = np.exp2(np.round(values * 4).clip(-100, 100))
        elif how == 3:
            values = values * 10.0 ** rng.integers(-9, 9, shape)
        values = np.array(values).astype(dtype)
    if values.size and rng.integers(0, 4) == 0:
        flat = values.reshape(-1)
        for special in rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], 2):
            flat[rng.integers(0, flat.size)] = special
        values = flat.reshape(shape)
    return values


def entry(length):
    how = rng.integers(0, 5)
    if how == 0 and length:
        return str(rng.integers(-length, length))
    if how == 1:
        return ":"
    bound = lambda: "" if rng.integers(0, 3) == 0 else str(rng.integers(-length - 2, length + 3))  # noqa: E731
    step = "" if how == 2 else f":{rng.choice([-3, -2, -1, 1, 2, 3])}"
    return f"{bound()}:{bound()}{step}"


def index(shape):
    entries = [entry(length) for length in shape]
    kept = int(rng.integers(0, len(entries) + 1))
    if kept < len(entries):
        return ", ".join([*entries[:kept], "..."])
    return ", ".join(entries)


arrays, expected = {}, []
for dtype in DTYPES:
    for shape in SHAPES:
        for _ in range(2 if np.dtype(dtype).kind in "fc" else 1):
            name = f"a{len(arrays)}"
            arrays[name] = numbers(dtype, shape)
            for text in [None, index(shape), index(shape)] if shape else [None]:
                part = arrays[name] if text is None else eval(f"array[{text}]", {"array": arrays[name]})
                width = int(rng.choice([75, 120]))
                with np.printoptions(linewidth=width):
                    expected.append([name, text, width, str(part)])
np.savez(folder / "arrays.npz", **arrays)
changed = {}
for name, array in arrays.items():
    if array.dtype.kind in "fiu" and array.size:
        other = array.copy().reshape(-1)
        places = rng.integers(0, other.size, 1 + other.size // 3)
        with np.errstate(all="ignore"):
            other[places] = (other[places] * rng.choice([1.001, 0.5, -2])).astype(array.dtype)
        if array.dtype.kind == "f" and rng.integers(0, 4) == 0:
            other[0] = np.nan
        changed[name] = other.reshape(array.shape)
np.savez(folder / "changed.npz", **changed)
(folder / "expected.json").write_text(json.dumps(expected))
print(len(expected))
