"""Every way to read an opened model returns the values that the frameworks wrote, bit for bit."""

import hashlib
import pathlib
import pickle
import sys

import numpy
import pytest
import torch
from conftest import FIXTURES, cases

import tensorferry
from tensorferry._dtypes import PACKED

SECTIONS = ["safetensors", "torch", "numpy", "onnx", "gguf", "tf", "deepspeed"]


def digest(data):
    return hashlib.sha256(data).hexdigest()


def opened(case):
    """Opens a case. A folder may need the path of one of its files."""
    files = sorted(file for file in case.folder.iterdir() if file.name != "expected.json")
    for path in [case.path, *files, *(file.with_suffix("") for file in files)]:
        try:
            return tensorferry.open(path, ".")
        except (tensorferry.UnsupportedError, tensorferry.UsageError):
            pass
    raise AssertionError(f"{case.name} cannot be opened")


def torch_bytes(array):
    return array.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("section", SECTIONS)
def test_every_tensor_of_every_fixture_is_what_was_written(section):
    seen = 0
    for case in cases(section):
        if case.expected.get("expect") != "ok" or case.expected.get("may_refuse"):
            continue
        with opened(case) as model:
            for name, facts in case.tensors.items():
                if name not in model:
                    # Some names refer to a part of a tensor, or to a different view of the same
                    # bytes.
                    continue
                tensor = model[name]
                assert tensor.dtype == facts["dtype"], (case.name, name)
                assert list(tensor.shape) == facts["shape"], (case.name, name)
                assert digest(tensor.bytes()) == facts["sha256"], (case.name, name)
                seen += 1
                try:
                    array = tensor.numpy()
                except tensorferry.UnsupportedError:
                    array = None
                if array is not None and array.dtype.kind != "O" and tensor.dtype not in PACKED:
                    assert array.shape == tensor.shape
                    assert digest(array.tobytes()) == facts["sha256"], (case.name, name)
                try:
                    array = tensor.torch()
                except tensorferry.UnsupportedError:
                    continue
                assert tuple(array.shape) == tensor.shape
                assert digest(torch_bytes(array)) == facts["sha256"], (case.name, name)
    assert seen >= 8, f"{section}: {seen}"


@pytest.mark.parametrize("mmap", [False, True])
def test_whole_models_are_the_same_as_their_tensors(mmap):
    for name in ["safetensors/all_dtypes/model.safetensors", "safetensors/sharded", "torch/zip_views/model.pt"]:
        with tensorferry.open(FIXTURES / name, mmap=mmap) as model:
            plain = {k: v for k, v in model.items() if v.dtype in ("F32", "I64", "BF16", "U8", "BOOL")}
            if len(plain) == len(model):
                loaded = model.torch()
                assert list(loaded) == list(model)
                arrays = model.numpy()
            else:
                loaded = {k: v.torch() for k, v in plain.items()}
                arrays = {k: v.numpy() for k, v in plain.items()}
            for key in plain:
                assert torch_bytes(loaded[key]) == model[key].bytes()
                assert arrays[key].tobytes() == model[key].bytes()


def test_safetensors_own_reader_sees_the_same():
    from safetensors.torch import load_file

    for case in ["special_values", "scalars_and_empty", "odd_names"]:
        path = FIXTURES / "safetensors" / case / "model.safetensors"
        theirs, ours = load_file(path), tensorferry.open(path).torch()
        assert theirs.keys() == ours.keys() and theirs
        for name, array in theirs.items():
            assert array.dtype == ours[name].dtype and torch_bytes(array) == torch_bytes(ours[name])


def test_slices_are_those_of_numpy(tmp_path):
    whole = numpy.arange(7 * 5 * 3, dtype=numpy.float32).reshape(7, 5, 3)
    numpy.save(tmp_path / "c.npy", whole)
    numpy.save(tmp_path / "f.npy", numpy.asfortranarray(whole))
    indices = [
        numpy.s_[2:5], numpy.s_[-1], numpy.s_[...], numpy.s_[:, 1], numpy.s_[..., 2], numpy.s_[3, 4, 2],
        numpy.s_[1:6, 2:4, 0:2], numpy.s_[5:2], numpy.s_[:, :, 1:], numpy.s_[-3:, ..., -2], numpy.s_[2:3, 1, :],
        numpy.s_[100:], numpy.s_[:-6, -1], numpy.s_[0:7, 0:1], numpy.s_[...,  :, 0], numpy.s_[()],
        numpy.s_[::2], numpy.s_[::-1], numpy.s_[5:0:-2, ::-1, 1], numpy.s_[..., ::-3], numpy.s_[1::3, -1, ::2],
        numpy.s_[6:7:4, ::5], numpy.s_[2:5:-1],
    ]  # fmt: skip
    for file in ["c.npy", "f.npy"]:
        (tensor,) = tensorferry.open(tmp_path / file).values()
        for index in indices:
            part = tensor[index]
            assert part.shape == whole[index].shape, index
            assert part.nbytes == whole[index].nbytes, index
            numpy.testing.assert_array_equal(part.numpy(), whole[index])
            assert torch.equal(part.torch(), torch.from_numpy(numpy.array(whole[index])))
            numpy.testing.assert_array_equal(numpy.from_dlpack(part), whole[index])
            # An index into a part selects a part of that part.
            if part.ndim:
                numpy.testing.assert_array_equal(part[1:].numpy(), whole[index][1:])
                numpy.testing.assert_array_equal(part[::-2].numpy(), whole[index][::-2])
        for wrong in [7, -8, (0, 5), (0, 0, 0, 0), (..., ...), "a", 1.0, True, None, [0, 1],
                      numpy.zeros(2, bool), torch.tensor([1, 2])]:  # fmt: skip
            with pytest.raises(IndexError):
                tensor[wrong]
        with pytest.raises(ValueError):
            tensor[::0]


def test_rows_of_large_tensors_are_read_in_pieces(tmp_path):
    whole = numpy.random.default_rng(1).integers(0, 256, (3000, 4000), dtype=numpy.uint8)
    numpy.save(tmp_path / "a.npy", whole)
    (tensor,) = tensorferry.open(tmp_path / "a.npy").values()
    numpy.testing.assert_array_equal(tensor[5:2995, 3:3999].numpy(), whole[5:2995, 3:3999])
    numpy.testing.assert_array_equal(tensor[::-1, 3:3999].numpy(), whole[::-1, 3:3999])


def test_dlpack_gives_aligned_memory_that_is_ones_own(tmp_path):
    numpy.save(tmp_path / "a.npy", numpy.arange(5, dtype=numpy.int16))
    (tensor,) = tensorferry.open(tmp_path / "a.npy").values()
    first, second = torch.from_dlpack(tensor), torch.from_dlpack(tensor)
    assert first.data_ptr() % 64 == 0 and first.data_ptr() != second.data_ptr()
    first[0] = 7
    assert second.tolist() == [0, 1, 2, 3, 4] and tensor.numpy().tolist() == [0, 1, 2, 3, 4]
    array = numpy.from_dlpack(tensor)
    assert array.flags.writeable
    with pytest.raises(BufferError):
        tensor.__dlpack__(copy=False)
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(2, 0))
    # Capsules that are not consumed are freed.
    for _ in range(3):
        tensor.__dlpack__()
        tensor.__dlpack__(max_version=(1, 0))


def test_jax_has_the_same_values():
    jax = pytest.importorskip("jax")
    path = FIXTURES / "safetensors/all_dtypes/model.safetensors"
    model = tensorferry.open(path)
    seen = set()
    for tensor in model.values():
        try:
            array = tensor.jax()
        except tensorferry.UnsupportedError as error:
            if tensor.dtype in ("I64", "U64", "F64"):
                assert "jax_enable_x64" in error.hint
            continue
        stored = tensor.numpy().tobytes() if tensor.dtype in PACKED else tensor.bytes()
        assert numpy.asarray(array).tobytes() == stored, tensor
        seen.add(tensor.dtype)
    assert {"F32", "BF16", "F16", "I32", "U8"} <= seen
    assert jax.numpy.asarray(1).dtype == numpy.int32


def test_bf16_and_f8_are_those_of_ml_dtypes():
    import ml_dtypes

    model = tensorferry.open(FIXTURES / "safetensors/all_dtypes/model.safetensors")
    found = {tensor.dtype: tensor.numpy().dtype for tensor in model.values() if tensor.dtype in ("BF16", "F8_E4M3")}
    assert found == {"BF16": numpy.dtype(ml_dtypes.bfloat16), "F8_E4M3": numpy.dtype(ml_dtypes.float8_e4m3fn)}


def test_what_is_done_without_ml_dtypes(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    model = tensorferry.open(FIXTURES / "safetensors/all_dtypes/model.safetensors")
    tensor = next(tensor for tensor in model.values() if tensor.dtype == "BF16")
    for read in (tensor.numpy, model.numpy, lambda: numpy.asarray(tensor)):
        with pytest.raises(tensorferry.UnsupportedError, match="pip install ml_dtypes"):
            read()
    assert tensor.torch().dtype == torch.bfloat16 and len(tensor.bytes()) == tensor.nbytes


@pytest.mark.parametrize("mmap", [False, True])
def test_files_are_mapped_on_request_alone(tmp_path, mmap):
    path = tmp_path / "a.npy"
    numpy.save(path, numpy.zeros(1 << 20))
    model = tensorferry.open(path, mmap=mmap)
    kept = [model.numpy(), model.torch(), [tensor[2:] for tensor in model.values()], model["a"].bytes()]
    assert (str(path) in pathlib.Path("/proc/self/maps").read_text()) == mmap and kept


def test_numpy_has_a_copy_where_it_asks_for_one(tmp_path):
    path = tmp_path / "a.npy"
    numpy.save(path, numpy.arange(4, dtype=numpy.int32))
    with tensorferry.open(path, mmap=True) as model:
        (tensor,) = model.values()
        copies = [numpy.array(tensor), numpy.array(tensor, copy=True), tensor.__array__(copy=True)]
        mapped = [numpy.asarray(tensor), tensor.__array__(copy=False), numpy.array(tensor, copy=False)]
        for refused in (lambda: tensor[1:].__array__(copy=False), lambda: tensor.__array__(numpy.int64, copy=False)):
            with pytest.raises(ValueError, match="must be a copy"):
                refused()
        assert tensor.__array__(numpy.int64).dtype == numpy.int64 and numpy.array(tensor[1:]).tolist() == [1, 2, 3]
        with open(path, "r+b") as file:
            file.seek(-4, 2)
            file.write(b"\7\0\0\0")
        assert all(array.tolist() == [0, 1, 2, 3] for array in copies)
        assert all(array.tolist() == [0, 1, 2, 7] for array in mapped)
    with tensorferry.open(path) as model:
        (tensor,) = model.values()
        with pytest.raises(ValueError, match="must be a copy"):
            tensor.__array__(copy=False)


def test_a_lazy_tensor_is_not_taken_for_its_numbers(tmp_path):
    tensorferry.save({"no": numpy.array([False]), "x": numpy.arange(2)}, tmp_path / "a.safetensors")
    with tensorferry.open(tmp_path / "a.safetensors") as model:
        for asked in (
            lambda: bool(model["no"]), lambda: not model["x"], lambda: model["x"] == model["x"], lambda: model["x"] != 1,
        ):  # fmt: skip
            with pytest.raises(TypeError, match="numpy"):
                asked()
        assert len({model["x"], model["no"]}) == 2


def test_numbers_of_four_and_two_bits_take_a_byte_each(tmp_path):
    import ml_dtypes
    import onnx
    from onnx import numpy_helper

    values = {
        "INT4": (ml_dtypes.int4, range(-8, 8)),
        "UINT4": (ml_dtypes.uint4, range(16)),
        "FLOAT4E2M1": (ml_dtypes.float4_e2m1fn, [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -1, -1.5, -2, -3, -4, -6, 0]),
        "INT2": (ml_dtypes.int2, [-2, -1, 0, 1] * 4),
        "UINT2": (ml_dtypes.uint2, [0, 1, 2, 3] * 4),
    }
    arrays = {name: numpy.array(list(numbers)).astype(dtype).reshape(2, 8) for name, (dtype, numbers) in values.items()}
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    assert [onnx.TensorProto.DataType.Name(tensor.data_type) for tensor in tensors] == list(arrays)
    graph = onnx.helper.make_graph([], "g", [], [], tensors)
    onnx.save(onnx.helper.make_model(graph), tmp_path / "a.onnx")
    model = tensorferry.open(tmp_path / "a.onnx")
    everything = model.numpy()
    for name, array in arrays.items():
        tensor = model[name]
        assert tensor.dtype in ("I4", "U4", "F4", "I2", "U2")
        for found in (tensor.numpy(), everything[name]):
            assert found.dtype == array.dtype and found.tobytes() == array.tobytes()
        assert tensor[1].numpy().astype(float).tolist() == array[1].astype(float).tolist()
        with pytest.raises(tensorferry.UnsupportedError, match="numpy"):
            tensor.torch()


def test_what_a_checkpoint_holds_beside_tensors():
    path = FIXTURES / "torch/zip_training_checkpoint/checkpoint.pth"
    with pytest.raises(tensorferry.UsageError, match='part="model"'):
        tensorferry.open(path)
    with tensorferry.open(path, "model") as model:
        assert model and all(tensor.shape is not None for tensor in model.values())
    with tensorferry.open(path, ".") as model:
        state = model.state
        theirs = torch.load(path, weights_only=False)
        assert set(state) == set(theirs)
        for key, value in theirs.items():
            if isinstance(value, (int, float, str)):
                assert state[key] == value
        assert "torch._utils._rebuild_tensor_v2" in model.globals
        leaves = []

        def walk(value):
            for item in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
                leaves.append(item) if isinstance(item, tensorferry.Tensor) else walk(item)

        walk(state)
        assert len(leaves) >= len(model) // 2 and leaves[0].numpy() is not None


def test_metadata_comes_with_its_types():
    with tensorferry.open(FIXTURES / "gguf/kv_all_types" / "model.gguf") as model:
        kinds = {type(value) for value in model.metadata.values()}
    assert {int, float, bool, str, list} <= kinds
    seen = tensorferry.inspect(FIXTURES / "gguf/kv_all_types" / "model.gguf")
    assert seen.format == "gguf" and seen.metadata


def test_shapes_without_data():
    seen = tensorferry.inspect(FIXTURES / "safetensors/all_dtypes/model.safetensors")
    with tensorferry.open(FIXTURES / "safetensors/all_dtypes/model.safetensors") as model:
        assert {name: (info.dtype, info.shape) for name, info in seen.tensors.items()} == {
            name: (tensor.dtype, tensor.shape) for name, tensor in model.items()
        }


def test_a_closed_model_lets_go_of_its_file(tmp_path):
    path = tmp_path / "a.npy"
    numpy.save(path, numpy.zeros(4, numpy.float32))
    with tensorferry.open(path) as model:
        (tensor,) = model.values()
        array = tensor.torch()
    assert model.closed
    with pytest.raises(tensorferry.UsageError, match="closed"):
        tensor.numpy()
    numpy.save(path, numpy.ones(4, numpy.float32))
    assert array.tolist() == [0, 0, 0, 0]
    (fresh,) = tensorferry.open(path).values()
    assert fresh.numpy().tolist() == [1, 1, 1, 1]


def test_what_is_mapped_can_be_written_to_without_a_change_of_the_file(tmp_path):
    path = tmp_path / "a.npy"
    numpy.save(path, numpy.arange(4, dtype=numpy.int32))
    with tensorferry.open(path, mmap=True) as model:
        (tensor,) = model.values()
        array, other = tensor.numpy(), tensor.torch()
    array[0], other[1] = 9, 9
    assert array.tolist() == [9, 1, 2, 3] and other.tolist() == [0, 9, 2, 3]
    assert numpy.load(path).tolist() == [0, 1, 2, 3]


def test_lazy_objects_are_pickled_by_their_path():
    model = tensorferry.open(FIXTURES / "safetensors/all_dtypes/model.safetensors")
    name = next(name for name, tensor in model.items() if tensor.dtype == "F32" and tensor.ndim)
    again = pickle.loads(pickle.dumps(model))
    assert list(again) == list(model)
    part = pickle.loads(pickle.dumps(model[name][1:]))
    numpy.testing.assert_array_equal(part.numpy(), model[name].numpy()[1:])


def test_a_relative_path_is_of_the_folder_where_it_was_opened(tmp_path, monkeypatch):
    import pyarrow

    for number, folder in enumerate(("one", "two")):
        (tmp_path / folder / "rows").mkdir(parents=True)
        numpy.save(tmp_path / folder / "a.npy", numpy.full(3, number))
        for name in "ab":
            tensorferry.write(pyarrow.table({"n": [number]}), tmp_path / folder / "rows" / f"{name}.parquet")
    monkeypatch.chdir(tmp_path / "one")
    model, scan = tensorferry.open("../one/a.npy"), tensorferry.scan("rows")
    lazy = [pickle.dumps(thing) for thing in (model, model["a"][1:], scan)]
    for missing in ("absent.npy", "rows/absent.npy", ""):
        with pytest.raises(tensorferry.NotFoundError) as caught:
            tensorferry.open(missing)
        error = caught.value
        assert error.file == error.filename == missing
        assert str(tmp_path) not in str(error) + error.message
    monkeypatch.chdir(tmp_path / "two")
    assert model.numpy()["a"].tolist() == model["a"].numpy().tolist() == [0, 0, 0]
    assert scan.to_pyarrow().read_all()["n"].to_pylist() == [0, 0]
    again, part, rows = map(pickle.loads, lazy)
    assert again["a"].numpy().tolist() == [0, 0, 0] and part.numpy().tolist() == [0, 0]
    assert rows.to_pyarrow().read_all()["n"].to_pylist() == [0, 0]


def test_tied_tensors_are_loaded_as_one(tmp_path):
    weight = torch.randn(3, 4)
    torch.save({"a": weight, "b": weight}, tmp_path / "tied.pt")
    with tensorferry.open(tmp_path / "tied.pt") as model:
        assert model.ties == {"b": "a"}
        loaded = model.torch()
    assert loaded["a"].data_ptr() == loaded["b"].data_ptr() and torch.equal(loaded["b"], weight)
