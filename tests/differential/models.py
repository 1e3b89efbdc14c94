"""The formats of tensors, with the libraries that write and read them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import gguf
import h5py
import numpy as np
import onnx
import safetensors
import safetensors.numpy
from onnx import numpy_helper

import tensors
from tensors import COMPLEX, NARROW, PLAIN, Tensor, flat_tree, of_numpy, random_array, random_tree
from workers import remote

# ---- Readers: a path to tensors by name ----


def read_safetensors(path):
    stored = safetensors.deserialize(Path(path).read_bytes())
    return {name: Tensor(entry["dtype"], tuple(entry["shape"]), bytes(entry["data"])) for name, entry in stored}


def read_numpy(path):
    """Reads every array of a file. An .npy file may contain several."""
    found = {}
    with open(path, "rb") as file:
        if file.read(2) == b"PK":
            loaded = np.load(path, allow_pickle=False)
            found = {name: loaded[name] for name in loaded.files}
        else:
            file.seek(0)
            size, arrays = Path(path).stat().st_size, []
            while file.tell() < size:
                arrays.append(np.load(file, allow_pickle=False))
            stem = Path(path).stem
            found = {stem: arrays[0]} if len(arrays) == 1 else {f"{stem}.{n}": array for n, array in enumerate(arrays)}
    return {name: tensor for key, array in found.items() for name, tensor in _fields(key, array)}


def _fields(name, array):
    if array.dtype.fields:
        for field in array.dtype.names:
            yield from _fields(f"{name}.{field}", array[field])
    else:
        yield name, of_numpy(array)


def read_gguf(path):
    """Reads blocks as bytes."""
    found = {}
    for tensor in gguf.GGUFReader(path).tensors:
        shape = tuple(int(n) for n in reversed(tensor.shape.tolist()))
        if tensor.tensor_type.name in NUMBERS:
            found[tensor.name] = replace(of_numpy(tensor.data), shape=shape)
        else:
            found[tensor.name] = Tensor(tensor.tensor_type.name, shape, tensor.data.tobytes())
    return found


NUMBERS = {"F32", "F16", "F64", "I8", "I16", "I32", "I64"}
HDF5_MARKS = {"bfloat16", "float8_e4m3fn", "float8_e5m2"}


def read_hdf5(path):
    """Reads every dataset that has a name. Datasets that are not numbers have the dtype of h5py."""
    found, seen = {}, set()

    def walk(group, prefix):
        if group.id in seen:
            return
        seen.add(group.id)
        for name in group:
            try:
                item = group[name]
            except (KeyError, OSError):  # a link to nothing
                continue
            if isinstance(item, h5py.Group):
                walk(item, f"{prefix}{name}/")
            elif isinstance(item, h5py.Dataset):
                found[f"{prefix}{name}"] = _hdf5(item)

    with h5py.File(path) as file:
        walk(file, "")
    return found


def _hdf5(dataset):
    if dataset.shape is None:
        return Tensor(tensors.NAMES[dataset.dtype.name], (0,), b"")
    mark = dataset.attrs.get("dtype")
    mark = mark.decode() if isinstance(mark, bytes) else mark
    if mark in HDF5_MARKS:
        return of_numpy(dataset[()].view(tensors.dtype(mark)))
    kind = dataset.dtype
    if kind.names == ("r", "i"):
        kind = np.dtype(f"c{kind.itemsize}")
    if h5py.check_string_dtype(kind):
        return of_numpy(np.asarray(dataset[()], object))
    if kind.kind not in "biufc":
        return Tensor(str(kind), dataset.shape, b"")
    return of_numpy(dataset[()])


def read_onnx(path):
    return {initializer.name: of_numpy(numpy_helper.to_array(initializer)) for initializer in onnx.load(path).graph.initializer}


# ---- Writers: a random model to a file ----


def safetensors_by_safetensors(path, rng):
    model = flat_tree(random_tree(rng, PLAIN + NARROW + ["complex64"]), rng.choice([".", "/"]))
    safetensors.numpy.save_file(model, path, rng.choice([None, {"format": "pt", "ü": ""}]))


def numpy_by_numpy(path, rng):
    if path.endswith(".npz"):
        model = flat_tree(random_tree(rng, PLAIN + COMPLEX), rng.choice([".", "/"]))
        return rng.choice([np.savez, np.savez_compressed])(path, **{name: _order(rng, array) for name, array in model.items()})
    kinds = PLAIN + COMPLEX
    with open(path, "wb") as file:
        for _ in range(rng.choice([1, 1, 1, 2])):
            if rng.random() < 0.4:
                # Fields without a name contain data unless they are void.
                names = [("f0", rng.choice(kinds)), ("", rng.choice(kinds)), ("ü", rng.choice(kinds), (2,))]
                kind = np.dtype(names[: rng.choice([1, 2, 3])], align=rng.random() < 0.3)
                np.save(file, np.frombuffer(bytes(rng.randrange(2) for _ in range(3 * kind.itemsize)), kind))
            else:
                np.save(file, _order(rng, random_array(rng, rng.choice(kinds))))


def _order(rng, array):
    """Returns an array, sometimes in a different element order or byte order."""
    array = np.asfortranarray(array) if rng.random() < 0.3 and array.ndim else array
    return array.astype(array.dtype.newbyteorder(">")) if rng.random() < 0.2 else array


def gguf_by_gguf(path, rng):
    order = rng.choice([gguf.GGUFEndian.LITTLE] * 4 + [gguf.GGUFEndian.BIG])
    writer = gguf.GGUFWriter(path, rng.choice(["llama", "qwen2", "made-up"]), endianess=order)
    writer.add_uint64("x.big", 2**64 - 1)
    writer.add_float64("x.f64", 1e300)
    writer.add_string("x.text", "ü\n")
    writer.add_array("x.list", rng.choice([[1, 2], ["a", ""], [True, False], [1.5]]))
    for name, array in flat_tree(random_tree(rng, ["float32", "float16", "float64", "int8", "int16", "int32", "int64"])).items():
        if not array.shape or 0 in array.shape:
            array = np.ones((2, 256), array.dtype)
        kind = rng.choice([None, None, "BF16", "Q8_0", "Q4_0", "Q4_K", "Q6_K", "IQ4_NL", "TQ1_0", "MXFP4"])
        # gguf-py does not swap the bytes of blocks, so blocks are written only in little-endian
        # files.
        if kind and order == gguf.GGUFEndian.LITTLE:
            raw = gguf.GGMLQuantizationType[kind]
            block, size = gguf.GGML_QUANT_SIZES[raw]
            rows = rng.choice([1, 3])
            data = np.frombuffer(rng.randbytes(rows * size * (256 // block)), np.uint8).reshape(rows, -1)
            writer.add_tensor(name, data, raw_dtype=raw)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def hdf5_by_h5py(path, rng):
    """Writes fixed and resizable datasets with every layout, chunk index and filter, and non-numeric entries."""
    libver = rng.choice(["earliest", "latest", ("earliest", "v110"), ("v108", "v108"), ("v112", "v114")])
    with h5py.File(path, "w", libver=libver, track_order=rng.random() < 0.2) as file:
        for name, array in flat_tree(random_tree(rng, PLAIN + COMPLEX), "/").items():
            _dataset(rng, file, name, _order(rng, array))
        for n in range(4):
            shape = [rng.randrange(1, 14) for _ in range(rng.choice([1, 2, 2, 3]))]
            kind = tensors.dtype(rng.choice(PLAIN[1:]))
            array = np.frombuffer(rng.randbytes(math.prod(shape) * kind.itemsize), kind).reshape(shape)
            _dataset(rng, file, f"grid{n}", array)
        _oddities(rng, file)


def _dataset(rng, file, name, array):
    options = {}
    if array.ndim and array.size and rng.random() < 0.7:
        options["chunks"] = rng.choice([True, tuple(rng.randrange(1, max(2, n + 1)) for n in array.shape)])
        growth = [rng.choice([n, n, n + rng.randrange(5), n * 3 + 1, None if rng.random() < 0.4 else n]) for n in array.shape]
        options["maxshape"] = rng.choice([None, tuple(growth)])
        if options["maxshape"] and options["chunks"] is not True:
            options["chunks"] = tuple(min(c, m or c) for c, m in zip(options["chunks"], options["maxshape"]))
        options["compression"] = rng.choice([None, None, "gzip", "lzf"])
        options["shuffle"], options["fletcher32"] = rng.random() < 0.3, rng.random() < 0.2
        if array.dtype.kind in "iu" and rng.random() < 0.2:
            options["scaleoffset"] = 0
            options["fletcher32"] = False
    if rng.random() < 0.3 and array.dtype.kind in "iuf":
        options["fillvalue"] = rng.choice([0, 1, 7])
    if options.get("maxshape") and rng.random() < 0.4:
        # Some chunks are never written, or are outside the new shape.
        made = file.create_dataset(name, array.shape, array.dtype, **options)
        part = tuple(slice(0, max(1, n // 2)) for n in array.shape)
        made[part] = array[part]
        made.resize([rng.choice([n, max(1, n - 1), min(m if m is not None else n + 3, n + 3)]) for n, m in zip(array.shape, made.maxshape)])
    elif array.ndim and array.size and rng.random() < 0.1:
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT if array.nbytes < 60_000 else h5py.h5d.CONTIGUOUS)
        file.require_group(name.rpartition("/")[0] or "/")
        space = h5py.h5s.create_simple(array.shape)
        made = h5py.h5d.create(file.id, name.encode(), h5py.h5t.py_create(array.dtype), space, compact)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(array))
    else:
        file.create_dataset(name, data=array, **options)


def _oddities(rng, file):
    odd = [
        lambda: file.__setitem__("odd_type", np.dtype("int32")),
        lambda: file.create_dataset("odd_texts", data=["a", "ü"], dtype=h5py.string_dtype()),
        lambda: file.create_dataset("odd_table", data=np.array([(1, b"x")], [("n", "i4"), ("t", h5py.string_dtype())])),
        lambda: file.create_dataset("odd_fixed", data=np.array([b"ab", b"c"])),
        lambda: file.create_dataset("odd_ragged", (2,), dtype=h5py.vlen_dtype(np.int32)),
        lambda: file.create_dataset("odd_enum", data=[1, 2], dtype=h5py.enum_dtype({"A": 1, "B": 2}, basetype="i4")),
        lambda: file.create_dataset("odd_empty", data=h5py.Empty("f4")),
        lambda: file.__setitem__("odd_self", file["/"]),
        lambda: file.__setitem__("odd_soft", h5py.SoftLink("/nowhere")),
        lambda: file.create_dataset("odd_opaque", data=np.void(b"abc")),
        lambda: file.create_dataset("odd_reference", data=file.ref, dtype=h5py.ref_dtype),
        lambda: file.attrs.__setitem__("odd", np.arange(3)),
    ]
    for make in rng.sample(odd, rng.choice([0, 0, 1, 2])):
        make()


def onnx_by_onnx(path, rng):
    initializers = []
    for name, array in flat_tree(random_tree(rng, PLAIN + COMPLEX + NARROW)).items():
        kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        if rng.random() < 0.4 and array.dtype.kind in "iub" and array.dtype.itemsize <= 8:
            initializers.append(onnx.helper.make_tensor(name, kind, array.shape, array.ravel().tolist()))
        else:
            initializers.append(numpy_helper.from_array(array, name))
    graph = onnx.helper.make_graph([], "graph", [], [], initializers)
    onnx.save_model(onnx.helper.make_model(graph), path, save_as_external_data=rng.random() < 0.3, location="beside.bin", size_threshold=0)


@dataclass(frozen=True)
class Format:
    endings: tuple[str, ...]
    read: Callable[[str], dict[str, Tensor]]
    input_options: tuple[str, ...] = ()
    output_options: tuple[str, ...] = ()
    is_target: bool = True


FORMATS = {
    "safetensors": Format((".safetensors", ".SAFETENSORS"), read_safetensors),
    "torch": Format((".pt", ".pth", ".bin"), remote("with_torch", "read_torch")),
    "torch-dcp": Format(("/",), remote("with_torch", "read_dcp")),
    "numpy": Format((".npz", ".npy"), read_numpy, ("-i", "structured=fields"), ("-o", "ml_dtypes=name")),
    "gguf": Format((".gguf",), read_gguf),
    "keras": Format((".weights.h5", ".h5"), read_hdf5),
    "flax": Format((".msgpack",), remote("with_jax", "read_flax")),
    "orbax": Format(("/",), remote("with_jax", "read_orbax")),
    "tf-bundle": Format(("",), remote("with_tensorflow", "read_bundle"), (), ("-o", "graph=none")),
    "onnx": Format((".onnx",), read_onnx, is_target=False),
}
TARGETS = [name for name, format in FORMATS.items() if format.is_target]

WRITERS: list[tuple[str, str, Callable]] = [
    ("safetensors", "safetensors", safetensors_by_safetensors),
    ("keras", "h5py", hdf5_by_h5py),
    ("torch", "torch", remote("with_torch", "write_torch")),
    ("tf-bundle", "tensorflow", remote("with_tensorflow", "write_bundle")),
    ("numpy", "numpy", numpy_by_numpy),
    ("orbax", "orbax", remote("with_jax", "write_orbax")),
    ("orbax", "zarr-python", remote("with_jax", "write_zarr")),
    ("gguf", "gguf", gguf_by_gguf),
    ("flax", "flax", remote("with_jax", "write_flax")),
    ("torch-dcp", "torch", remote("with_torch", "write_dcp")),
    ("onnx", "onnx", onnx_by_onnx),
]
