"""Creates the files in this folder with PyTorch and numpy, and records their content in expected.json:
the dtype, shape and digest of each tensor according to torch, for each set of reader options.

    python make.py FOLDER
"""

import argparse
import collections
import hashlib
import json
import pathlib
import pickle
import sys
import warnings

import numpy as np
import torch
from torch import nn

warnings.filterwarnings("ignore")
PLAIN, FLOATS, DENSE = "", "dequantize=f32", "densify=true"
DTYPES = {
    torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
    torch.complex64: "C64", torch.complex128: "C128",
}
QUANTIZED = {
    torch.qint8: "QI8", torch.quint8: "QU8", torch.qint32: "QI32", torch.quint4x2: "QU4x2",
    torch.quint2x4: "QU2x4",
}


def fact(dtype, shape, content):
    return {"dtype": dtype, "shape": list(shape), "sha256": hashlib.sha256(content).hexdigest()}


def plain(tensor):
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    content = tensor.clone().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    return fact(DTYPES[tensor.dtype], tensor.shape, content)


def parts_of_quantized(name, tensor):
    if tensor.numel() % {torch.quint4x2: 2, torch.quint2x4: 4}.get(tensor.dtype, 1) != 0:
        return  # Packed, and not whole bytes.
    yield name, fact(QUANTIZED[tensor.dtype], tensor.shape, tensor.int_repr().contiguous().numpy().tobytes())
    if tensor.qscheme() == torch.per_tensor_affine:
        yield f"{name}.scale", plain(torch.tensor(tensor.q_scale(), dtype=torch.float64))
        yield f"{name}.zero_point", plain(torch.tensor(tensor.q_zero_point()))
    else:
        yield f"{name}.scales", plain(tensor.q_per_channel_scales())
        yield f"{name}.zero_points", plain(tensor.q_per_channel_zero_points())
        yield f"{name}.axis", plain(torch.tensor(tensor.q_per_channel_axis()))


def parts_of_sparse(name, tensor):
    if tensor.layout == torch.sparse_coo:
        yield f"{name}.indices", plain(tensor._indices())
        yield f"{name}.values", plain(tensor._values())
        return
    by_rows = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
    for part in ("crow_indices", "col_indices") if by_rows else ("ccol_indices", "row_indices"):
        yield f"{name}.{part}", plain(getattr(tensor, part)())
    yield f"{name}.values", plain(tensor.values())


def make_quantized(path):
    torch.manual_seed(1)
    tensors = {}
    for dtype in (torch.qint8, torch.quint8, torch.qint32):
        plain_dtype = {torch.qint8: torch.int8, torch.quint8: torch.uint8}.get(dtype, torch.int32)
        limits = torch.iinfo(plain_dtype)
        whole = torch.randint(limits.min, limits.max + 1, (7, 9)).to(plain_dtype)
        name = str(dtype).split(".")[1]
        tensors[f"{name}.tensor"] = torch._make_per_tensor_quantized_tensor(whole, 0.1234567890123, 3)
        tensors[f"{name}.turned"] = tensors[f"{name}.tensor"].t()
        tensors[f"{name}.slice"] = tensors[f"{name}.tensor"][1:5, ::2]
        for axis, size in enumerate(whole.shape):
            scales, points = torch.rand(size, dtype=torch.float64), torch.randint(0, 99, (size,))
            make = torch._make_per_channel_quantized_tensor
            tensors[f"{name}.channels{axis}"] = make(whole, scales, points, axis)
            if dtype != torch.qint32:
                tensors[f"{name}.floats{axis}"] = make(whole, scales.float(), points.float() / 7, axis)
    picture = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    scales = torch.rand(3, dtype=torch.float64) + 0.1
    tensors["picture"] = torch.quantize_per_channel(picture, scales, torch.arange(3), 1, torch.qint8)
    for dtype in (torch.quint4x2, torch.quint2x4):
        name = str(dtype).split(".")[1]
        for shape in ((4, 6), (4, 5), (3, 3)):
            scales, points = torch.rand(shape[0]) + 0.1, torch.rand(shape[0])
            key = f"{name}.{shape[0]}x{shape[1]}"
            tensors[key] = torch.quantize_per_channel(torch.randn(shape), scales, points, 0, dtype)
        tensors[f"{name}.tensor"] = torch.quantize_per_tensor(torch.randn(4, 4), 0.1, 2, dtype)
    torch.save(tensors, path)
    integers = {}
    for name, tensor in tensors.items():
        integers.update(parts_of_quantized(name, tensor))
    return {PLAIN: integers, FLOATS: {name: plain(t.dequantize()) for name, t in tensors.items()}}


def make_sparse(path):
    torch.manual_seed(2)
    tensors = {}
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.complex64, torch.int8,
                  torch.int64, torch.bool):
        places = torch.randint(0, 5, (2, 40))
        values = torch.randn(40, dtype=torch.complex64 if dtype.is_complex else torch.float32) * 20
        values = values.to(dtype)
        values[:3] = -0.0
        name = str(dtype).split(".")[1]
        tensors[f"{name}.repeated"] = torch.sparse_coo_tensor(places, values, (5, 6))
        tensors[f"{name}.coalesced"] = tensors[f"{name}.repeated"].coalesce()
        rows = torch.tensor([0, 2, 2, 3], dtype=torch.int32)
        columns = torch.tensor([1, 3, 0], dtype=torch.int32)
        tensors[f"{name}.csr"] = torch.sparse_csr_tensor(rows, columns, values[:3], (3, 4))
    values = torch.randn(40, 3, 2)
    tensors["hybrid"] = torch.sparse_coo_tensor(torch.randint(0, 9, (1, 40)), values, (9, 3, 2))
    tensors["none"] = torch.sparse_coo_tensor(torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0), (3, 2))
    tensors["empty"] = torch.sparse_coo_tensor((0, 4))
    batches = torch.arange(2 * 6 * 8, dtype=torch.float32).reshape(2, 6, 8)
    batches[:, :2, ::2] = 0
    batches[:, 2:4, :4] = 0
    for layout in (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc):
        blocks = {"blocksize": (2, 4)} if layout in (torch.sparse_bsr, torch.sparse_bsc) else {}
        name = str(layout).split("_")[1]
        tensors[name] = batches[1].to_sparse(layout=layout, **blocks)
        batch = torch.stack([batches[1], batches[1] * -3])
        tensors[f"{name}.batches"] = batch.to_sparse(layout=layout, **blocks)
        if not blocks:
            deep = torch.stack([batches[1], batches[1] + 1], -1)
            tensors[f"{name}.hybrid"] = deep.to_sparse(layout=layout, dense_dim=1)
    torch.save(tensors, path)
    parts = {}
    for name, tensor in tensors.items():
        parts.update(parts_of_sparse(name, tensor))
    return {PLAIN: parts, DENSE: {name: plain(tensor.to_dense()) for name, tensor in tensors.items()}}


class Tagged(torch.Tensor):
    pass


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
        if function is torch.ops.aten.detach.default:
            return cls(arguments[0].inner)
        raise NotImplementedError(str(function))


class Call:
    """An object that is pickled as a call of a function."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def make_classes(path):
    base = torch.arange(6, dtype=torch.float32)
    tagged = base.view(2, 3).as_subclass(Tagged)
    tagged.note, tagged.mask = "kept", torch.tensor([True, False])
    attributed = base + 1
    attributed.note = 5
    parameter = nn.Parameter(base + 2)
    parameter.extra = torch.tensor([7])
    ragged = torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(1, 3)])
    array = np.arange(4, dtype=np.float64)
    complexes = torch.tensor([1 + 2j, 3 - 4j])
    tensors = {
        "tagged": tagged, "attributed": attributed, "parameter": parameter, "ragged": ragged,
        "wrapper": Wrapper(base + 3), "meta": torch.empty(3, device="meta"),
        "array": Call(torch._utils._rebuild_device_tensor_from_numpy, array, torch.float64, "cpu", False),
        "device": Call(torch._utils._rebuild_device_tensor_from_cpu_tensor, base, torch.float32, "cpu", True),
        "complexes": complexes, "conjugate": complexes.conj(), "negative": torch._neg_view(base),
        "alone": torch.tensor([5j]).conj(),
    }
    torch.save(tensors, path)
    expected = {
        "tagged": base.view(2, 3), "tagged.mask": tagged.mask.as_subclass(torch.Tensor), "attributed": base + 1,
        "parameter": base + 2, "parameter.extra": parameter.extra, "wrapper.inner": base + 3,
        "array": torch.from_numpy(array), "device": base, "complexes": complexes,
        "conjugate": complexes.conj(), "negative": -base, "alone": tensors["alone"],
        "ragged.values": ragged.values(), "ragged.sizes": ragged._nested_tensor_size(),
        "ragged.strides": ragged._nested_tensor_strides(),
        "ragged.offsets": ragged._nested_tensor_storage_offsets(),
    }
    return {PLAIN: {name: plain(tensor) for name, tensor in expected.items()}}


def arrays_and_objects():
    grid = np.arange(6, dtype=np.float32).reshape(2, 3)
    arrays = {
        "c": grid, "fortran": np.asfortranarray(grid), "big": grid.astype(">f4"), "scalar": np.array(7),
        "bool": np.array([True, False]), "i1": np.array([-1], np.int8), "u1": np.array([255], np.uint8),
        "half": np.array([0.5], np.float16), "complex": np.array([1 - 2j]), "empty": np.zeros((0, 3)),
        "view": grid[:, 1:],
    }
    others = {
        "text": np.array(["a", "bc"]), "structured": np.array([(1, 2.0)], dtype="i4,f8"),
        "objects": np.array([1, "x", None], dtype=object), "time": np.array(["2020-01-01"], "M8[D]"),
        "f64": np.float64(1.25), "f32": np.float32(0.1), "i64": np.int64(-5), "u64": np.uint64(2**64 - 1),
        "flag": np.bool_(True), "name": np.str_("é"), "raw": np.bytes_(b"ab"), "half": np.float16(0.5),
        "wave": np.complex64(1 + 2j),
        "counter": collections.Counter("aab"), "queue": collections.deque([1, 2], maxlen=3),
        "default": collections.defaultdict(list, a=[1]), "path": pathlib.PurePosixPath("/a/b"),
        "arguments": argparse.Namespace(lr=0.1, name="x"), "size": torch.Size([2, 3]),
        "device": torch.device("cuda", 1), "dtype": torch.bfloat16, "z": 1 + 2j,
        "layout": torch.strided, "none": None, "tags": {"a"}, "frozen": frozenset({1}), (1, "k"): 2,
    }
    return arrays, others


def make_numpy(path, **options):
    arrays, others = arrays_and_objects()
    torch.save({"arrays": arrays, "others": others}, path, **options)
    names = {np.dtype("?"): "BOOL", np.dtype("i1"): "I8", np.dtype("u1"): "U8", np.dtype("i8"): "I64",
             np.dtype("f2"): "F16", np.dtype("f4"): "F32", np.dtype("f8"): "F64", np.dtype("c16"): "C128"}
    expected = {}
    for name, array in arrays.items():
        native = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"))).reshape(array.shape)
        expected[f"arrays.{name}"] = fact(names[np.dtype(native.dtype)], array.shape, native.tobytes())
    return {PLAIN: expected}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.norm = nn.BatchNorm1d(2)
        self.register_buffer("kept", torch.arange(2))
        self.register_buffer("dropped", torch.arange(3), persistent=False)
        self.register_buffer("absent", None)
        self.register_parameter("nothing", None)
        self.gain = nn.Parameter(torch.full((2,), 0.5))
        self.plain, self.loose = "text", torch.ones(4)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(4, 3)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.by_name = nn.ModuleDict({"a": nn.Linear(2, 2, bias=False)})
        self.parameters_too = nn.ParameterList([torch.ones(1), torch.zeros(2)])
        self.head = nn.Linear(3, 4, bias=False)
        self.head.weight = self.embedding.weight
        self.again = self.blocks[0]
        self.nothing = None


def make_modules(path, **options):
    torch.manual_seed(3)
    model = Model()
    saved = {"whole": model, "list": [nn.DataParallel(nn.Linear(2, 1))], "epoch": 4}
    torch.save(saved, path, **options)
    expected = {f"whole.{name}": plain(tensor) for name, tensor in model.state_dict().items()}
    for name, tensor in saved["list"][0].state_dict().items():
        expected[f"list.0.{name}"] = plain(tensor)
    return {PLAIN: expected}


def make_bare_module(path):
    torch.manual_seed(4)
    model = Model()
    torch.save(model, path)
    return {PLAIN: {name: plain(tensor) for name, tensor in model.state_dict().items()}}


def main():
    folder = pathlib.Path(sys.argv[1])
    makers = {
        "quantized.pt": make_quantized,
        "sparse.pt": make_sparse,
        "classes.pt": make_classes,
        "numpy.pt": make_numpy,
        "numpy_protocol5.pt": lambda path: make_numpy(path, pickle_protocol=5),
        "modules.pt": make_modules,
        "modules_legacy.pt": lambda path: make_modules(path, _use_new_zipfile_serialization=False),
        "module.pt": make_bare_module,
    }
    expected = {name: make(folder / name) for name, make in makers.items()}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


main()
