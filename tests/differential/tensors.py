"""Random tensors, and neutral tensors, which are the form in which the results of model readers are
compared."""

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np

NAMES = {
    "bool": "BOOL", "float16": "F16", "float32": "F32", "float64": "F64", "bfloat16": "BF16", "complex64": "C64", "complex128": "C128",
    "float8_e4m3fn": "F8_E4M3", "float8_e8m0fnu": "F8_E8M0", "float4_e2m1fn": "F4_UNPACKED", "int4": "I4_UNPACKED",
    "uint4": "U4_UNPACKED", "int2": "I2_UNPACKED", "uint2": "U2_UNPACKED",
    **{f"{'u' * unsigned}int{bits}": f"{'IU'[unsigned]}{bits}" for bits in (8, 16, 32, 64) for unsigned in (0, 1)},
    **{f"float8_{kind}": f"F8_{kind.upper()}" for kind in ("e5m2", "e4m3fnuz", "e5m2fnuz", "e4m3b11fnuz")},
}
PLAIN = ["bool", "float16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
COMPLEX = ["complex64", "complex128"]
NARROW = ["bfloat16", "float8_e4m3fn", "float8_e5m2"]
OTHERS = ["float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz", "float8_e8m0fnu", "int4", "uint4", "float4_e2m1fn"]


@dataclass(frozen=True)
class Tensor:
    dtype: str
    shape: tuple[int, ...]
    # The elements, little-endian and in row-major order.
    data: bytes
    # Other names that the tensor may have in the output.
    aliases: tuple[str, ...] = ()

    @property
    def elements(self):
        return math.prod(self.shape)

    def equals(self, other):
        return (self.dtype, self.shape, self.data) == (other.dtype, other.shape, other.data)

    def __str__(self):
        return f"{self.dtype} {list(self.shape)} {self.data[:24].hex(' ', 4)}"


def of_numpy(value, *aliases) -> Tensor:
    """Returns the neutral form of a NumPy array of any byte order. Strings become STR."""
    array = np.asarray(value)
    if array.dtype.kind in "OSU":
        texts = [item if isinstance(item, bytes) else str(item).encode() for item in array.ravel().tolist()]
        return Tensor("STR", array.shape, b"".join(len(text).to_bytes(8, "little") + text for text in texts), aliases)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return Tensor(NAMES.get(array.dtype.name, array.dtype.name), array.shape, array.tobytes(), aliases)


def dtype(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def random_array(rng, name: str) -> np.ndarray:
    """Returns an array of random bits, ordinary numbers, or one value everywhere."""
    shape = rng.choice([(), (0,), (1,), (3,), (7,), (2, 3), (3, 0), (4, 33), (2, 3, 4), (1, 1, 5), (2, 1, 3, 2), (32, 64)])
    kind, size = dtype(name), math.prod(shape)
    if name == "bool":
        return np.array([rng.random() < 0.5 for _ in range(size)], np.bool_).reshape(shape)
    if rng.random() < 0.3:
        return np.full(shape, rng.choice([0, 1]), kind)
    if "4" in name and kind.itemsize == 1 and not name.startswith("float8"):
        with np.errstate(all="ignore"):
            return np.array([rng.randrange(0, 7) for _ in range(size)]).astype(kind).reshape(shape)
    return np.frombuffer(rng.randbytes(size * kind.itemsize), kind).reshape(shape).copy()


def random_tree(rng, names: list[str], separators=("",)) -> dict:
    """Returns a nested dict of arrays with these dtypes. Some names collide when the parts of a path are joined."""
    words = ["weight", "bias", "0", "1", "layer", "kernel", "scale", "w", "b", "ü", "a b", "LayerNorm", "x-y", "10", "embedding"]
    separator = rng.choice(separators)
    if separator:
        words += [f"a{separator}b", "a"]

    def level(depth):
        found = {}
        for word in rng.sample(words, rng.choice([1, 2, 3])):
            if word == "a":
                # When the tree is flattened, this name collides with the key "a.b".
                found[word] = {"b": random_array(rng, rng.choice(names))}
                continue
            found[word] = level(depth + 1) if depth < 2 and rng.random() < 0.4 else random_array(rng, rng.choice(names))
        return found

    return level(0)


def leaves(tree, path=()):
    """Yields the paths and values of a tree of dicts and lists."""
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, (list, tuple)) else None
    if entries is None:
        yield path, tree
        return
    for key, value in entries:
        yield from leaves(value, (*path, str(key)))


def flat_tree(tree, separator=".") -> dict:
    return {separator.join(path): value for path, value in leaves(tree)}
