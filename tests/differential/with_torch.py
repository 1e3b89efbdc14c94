"""Writes and reads with torch and streaming, in a separate process."""

import json

import numpy as np

from values import Column


def write_mds(table, path, rng):
    from streaming import MDSWriter

    import columns

    kinds = {"a": "int", "s": "str", "b": "bytes", "f": "float64", "h": "float16", "n": "ndarray:int32", "d": "ndarray",
             "j": "json", "w": "int8", "u": "uint64", "c": "str_decimal", "l": "str_int"}
    names = rng.sample(list(kinds), rng.choice([1, 2, 4]))
    whole = lambda: columns.integer(rng, True, 64)
    values = {
        "a": whole, "s": lambda: columns.text(rng), "b": lambda: rng.randbytes(rng.randrange(5)),
        "f": lambda: columns.floating(rng, 8), "h": lambda: columns.floating(rng, 2),
        "n": lambda: np.arange(rng.choice([1, 3]), dtype=np.int32), "d": lambda: np.ones((2, rng.choice([1, 3])), np.float32),
        "j": lambda: rng.choice([None, 1, "x", {"a": None}, [1, [2]]]), "w": lambda: np.int8(columns.integer(rng, True, 8)),
        "u": lambda: np.uint64(columns.integer(rng, False, 64)), "c": lambda: columns.leaf(rng, _decimal(), "usual"),
        "l": lambda: whole() * 10**15,
    }
    with MDSWriter(out=path, columns={name: kinds[name] for name in names}, compression=rng.choice([None, None, "zstd", "gz"])) as out:
        for _ in range(rng.choice([1, 2, 9])):
            out.write({name: values[name]() for name in names})


def _decimal():
    import pyarrow as pa

    return pa.decimal128(38, 10)


def read_mds(path):
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    with open(f"{path}/index.json") as file:
        if not any(shard["samples"] for shard in json.load(file)["shards"]):
            return []
    clean_stale_shared_memory()
    rows = list(StreamingDataset(local=path, batch_size=1, shuffle=False))
    names = list(rows[0]) if rows else []
    return [Column(name, [_plain(row[name]) for row in rows], type(rows[0][name]).__name__) for name in names]


def _plain(value):
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


# ---- Tensors ----


def _tensor(value):
    """Returns the neutral form of any torch tensor, by its values."""
    import torch

    import tensors

    value = value.detach()
    if hasattr(value, "full_tensor"):
        value = value.full_tensor()
    if value.is_quantized or value.layout is not torch.strided:
        return tensors.Tensor(str(value.dtype), tuple(value.shape), b"")
    value = value.resolve_conj().resolve_neg().contiguous()
    name = str(value.dtype).removeprefix("torch.")
    data = value.reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
    return tensors.Tensor(tensors.NAMES.get(name, name), tuple(value.shape), data)


def _torch(array):
    import torch

    name = array.dtype.name
    flat = torch.frombuffer(bytearray(array.tobytes()), dtype=torch.uint8) if array.size else torch.empty(0, dtype=torch.uint8)
    return flat.view(getattr(torch, name)).reshape(array.shape)


def _names():
    import tensors

    return tensors.PLAIN + tensors.COMPLEX + tensors.NARROW + ["float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]


def write_torch(path, rng):
    """Writes a state dict with views and ties, a tree, a whole module, a quantized module, or a TorchScript program."""
    import torch

    import tensors

    torch.manual_seed(rng.randrange(1000))
    kind = rng.choice(["dict", "dict", "tree", "module", "quantized", "script", "distributed"])
    if kind in ("dict", "tree"):
        tree = tensors.random_tree(rng, _names(), ("", "."))
        model = tensors.flat_tree(tree) if kind == "dict" else tree
        model = _map(model, lambda array: _view(rng, _torch(array)))
        if kind == "dict" and rng.random() < 0.3:
            model["tied"] = model[rng.choice(list(model))]
        torch.save(model, path, _use_new_zipfile_serialization=rng.random() < 0.8)
        return
    layers = [torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Embedding(5, 4), torch.nn.LayerNorm(4), torch.nn.GRU(4, 4)]
    module = torch.nn.Sequential(*rng.sample(layers, rng.choice([1, 2])))
    if kind == "quantized":
        module = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)), dtype=torch.qint8)
    if kind == "script":
        torch.jit.script(_scripted()(rng.random() < 0.6)).save(path)
        return
    if kind == "distributed":
        module = {name: _distributed(value.detach()) for name, value in module.state_dict().items()}
    torch.save(module, path)


def _map(tree, function):
    return {key: _map(value, function) if isinstance(value, dict) else function(value) for key, value in tree.items()}


def _view(rng, tensor):
    import torch

    kind = rng.random()
    if kind < 0.1 and tensor.dim() > 1:
        return tensor.transpose(0, 1)
    if kind < 0.2 and tensor.dim() and tensor.shape[0] > 1:
        return tensor[1:]
    if kind < 0.3 and tensor.dim() and tensor.shape[0] > 2:
        return tensor[::2]
    if kind < 0.4 and tensor.is_complex():
        return torch.conj(tensor)
    if kind < 0.5 and tensor.is_complex() and tensor.dtype == torch.complex64:
        return torch.conj(tensor).imag
    if kind < 0.55 and tensor.dim():
        return tensor[:1].expand(tensor.shape) if tensor.shape[0] else tensor
    return torch.nn.Parameter(tensor) if kind < 0.65 and tensor.is_floating_point() and tensor.dtype.itemsize > 1 else tensor


def _scripted():
    import torch

    class Scripted(torch.nn.Module):
        def __init__(self, extra):
            super().__init__()
            self.layer = torch.nn.Linear(3, 2)
            if extra:
                self.plain = torch.ones(3)

        def forward(self, x):
            return self.layer(x)

    return Scripted


def _distributed(tensor):
    """Returns a DTensor of one rank."""
    import torch
    from torch.distributed.tensor import DTensor, Replicate, Shard

    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    mesh = torch.distributed.init_device_mesh("cpu", (1,))
    return DTensor.from_local(tensor, mesh, [Shard(0) if tensor.dim() else Replicate()])


def read_torch(path):
    """Returns the tensors of a file. For a module, these are the tensors in its state dict."""
    import torch

    try:
        loaded = torch.jit.load(path).state_dict()
    except RuntimeError:
        loaded = torch.load(path, weights_only=False, map_location="cpu")
    if isinstance(loaded, torch.nn.Module):
        loaded = loaded.state_dict()
    return _tensors(loaded)


def _tensors(loaded):
    import torch

    import tensors

    found = {}
    for path, value in tensors.leaves(loaded):
        if isinstance(value, torch.Tensor) and not value.is_meta:
            name = ".".join(path)
            # ferry adds this suffix to a name that is already used.
            found[name if name not in found else f"{name}#2"] = _tensor(value)
    return found


def write_dcp(path, rng):
    import torch.distributed.checkpoint as dcp

    import tensors

    tree = tensors.random_tree(rng, _names())
    dcp.save(_map(rng.choice([tree, tensors.flat_tree(tree)]), _torch), checkpoint_id=path, no_dist=True)


def read_dcp(path):
    import tempfile

    import torch
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    with tempfile.NamedTemporaryFile(suffix=".pt") as file:
        dcp_to_torch_save(path, file.name)
        return _tensors(torch.load(file.name, weights_only=False))
