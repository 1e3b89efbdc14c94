"""Returns the facts that the real frameworks read from a file: the dtype, shape and digest of each tensor, and its ties.

The dtype names are those of safetensors, with additions. The digest is the sha256 of the row-major, little-endian bytes,
as in tests/fixtures.
"""

import hashlib
import json
import pathlib

import torch

NAMES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32",
    "int32": "I32", "uint64": "U64", "int64": "I64", "float16": "F16", "bfloat16": "BF16",
    "float32": "F32", "float64": "F64", "complex32": "C32", "bcomplex32": "BC32", "complex64": "C64",
    "complex128": "C128", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0",
    "float4_e2m1fn_x2": "F4", "bits8": "BITS8", "bits16": "BITS16", "bits1x8": "BITS1x8",
    "bits2x4": "BITS2x4", "bits4x2": "BITS4x2",
}


def raw(tensor):
    """Returns the logical bytes: row-major, with views resolved."""
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    start = tensor.storage_offset() * tensor.element_size()
    storage = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    return storage[start : start + tensor.numel() * tensor.element_size()].numpy().tobytes()


def fact(tensor):
    dtype = NAMES[str(tensor.dtype).removeprefix("torch.")]
    shape = list(tensor.shape)
    if dtype == "F4":
        shape[-1] *= 2  # torch counts pairs
    return [dtype, shape, hashlib.sha256(raw(tensor)).hexdigest()]


def flatten(value, path=""):
    """Returns the tensors of a nested object, by dotted path."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, (dict, list, tuple)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from flatten(item, f"{path}.{key}" if path else str(key))


def load_torch(path, calculate_storage_offsets=False):
    from torch.utils.serialization import config

    config.load.calculate_storage_offsets = calculate_storage_offsets
    return torch.load(path, weights_only=True, mmap=True)


def load_safetensors(path):
    """Reads a file with `safe_open` and with `load_file`, whose results must be equal."""
    from safetensors import safe_open
    from safetensors.torch import load_file

    tensors = load_file(path)
    with safe_open(path, framework="pt") as file:
        assert set(file.keys()) == set(tensors), "safe_open and load_file list different names"
        for name in file.keys():
            assert raw(file.get_tensor(name)) == raw(tensors[name]), name
    return tensors


def load_index(path):
    """Reads a sharded model. Each shard must match the index, and the sizes must add up."""
    index = json.loads(pathlib.Path(path).read_text())
    tensors = {}
    for shard in sorted(set(index["weight_map"].values())):
        here = load_safetensors(pathlib.Path(path).parent / shard)
        assert set(here) == {name for name, file in index["weight_map"].items() if file == shard}, shard
        tensors |= here
    total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    assert index["metadata"]["total_size"] == total, (index["metadata"], total)
    return tensors


def facts(value):
    tensors = dict(flatten(value))
    by_storage = {}
    for name, tensor in tensors.items():
        if tensor.numel():
            place = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.shape, tensor.stride())
            by_storage.setdefault(place, []).append(name)
    return {
        "tensors": {name: fact(tensor) for name, tensor in tensors.items()},
        "ties": sorted(sorted(names) for names in by_storage.values() if len(names) > 1),
    }
