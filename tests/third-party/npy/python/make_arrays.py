"""Writes arrays of every dtype that ferry knows too, in both orders and byte orders, to a folder:
`all.npz`, `compressed.npz`, and single arrays as `numpy.save` lays them out. Prints what they hold."""

import json
import pathlib
import sys

import numpy as np

import see_arrays

KINDS = ["b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]

folder = pathlib.Path(sys.argv[1])
random = np.random.default_rng(7)


def make(kind, shape):
    dtype = np.dtype(kind)
    raw = random.integers(0, 2 if kind == "b1" else 256, size=(*shape, dtype.itemsize), dtype=np.uint8)
    return raw.reshape(-1).view(dtype).reshape(shape)


arrays = {}
for kind in KINDS:
    for shape in [(), (0, 3), (5,), (3, 4, 2)]:
        array = make(kind, shape)
        for order in "CF":
            for byte_order in "<>":
                name = f"{kind}.{order}.{'big' if byte_order == '>' else 'little'}.{len(shape)}"
                arrays[name] = np.asarray(array.astype(array.dtype.newbyteorder(byte_order)), order=order)
arrays["wide.caf\u00e9"] = random.standard_normal((300, 700)).astype("<f4")

np.savez(folder / "all.npz", **arrays)
np.savez_compressed(folder / "compressed.npz", **arrays)
plain = make("<f4", (6, 10))
np.save(folder / "plain.npy", plain)
np.save(folder / "fortran.npy", np.asfortranarray(plain))
np.save(folder / "big.npy", plain.astype(">f4"))
np.save(folder / "fortran_big.npy", np.asfortranarray(plain.astype(">f4")))
for version in [(1, 0), (2, 0), (3, 0)]:
    with open(folder / f"version_{version[0]}.npy", "wb") as file:
        np.lib.format.write_array(file, plain, version=version)
np.save(folder / "objects.npy", np.array([{}, None], dtype=object), allow_pickle=True)
np.save(folder / "strings.npy", np.array(["a", "bc"]))
print(json.dumps({name: see_arrays.fact(array) for name, array in arrays.items()}))
