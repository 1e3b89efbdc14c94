"""Saved arrays equal the arrays that were passed, for every framework and memory layout."""

import errno

import numpy
import pytest
import torch
from conftest import FIXTURES

import tensorferry
from tensorferry.torch import load_file, load_model, save_file


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and numpy.array_equal(
        a.contiguous().reshape(-1).view(torch.uint8), b.contiguous().reshape(-1).view(torch.uint8)
    )


DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2, torch.uint16, torch.uint32,
]  # fmt: skip


@pytest.mark.parametrize("name", ["a.safetensors", "a.pt"])
def test_torch_tensors_come_back(tmp_path, name):
    given = {str(dtype): (torch.rand(3, 5) * 3).to(dtype) for dtype in DTYPES}
    given |= {"scalar": torch.tensor(2.5), "empty": torch.empty(0, 4), "grad": torch.rand(2, requires_grad=True)}
    report = tensorferry.save(given, tmp_path / name, {"made": "here"})
    assert report.tensors == len(given)
    back = load_file(tmp_path / name)
    assert back.keys() == given.keys()
    for key, array in given.items():
        assert same(array.detach(), back[key]), key
    if name.endswith(".safetensors"):
        assert tensorferry.open(tmp_path / name).metadata["made"] == "here"


def test_views_and_ties_of_torch(tmp_path):
    base = torch.arange(24.0).reshape(4, 6)
    given = {
        "base": base,
        "again": base,
        "turned": base.t(),
        "rows": base[::2],
        "column": base[:, 3],
        "wide": torch.tensor([1.0, 2.0]).expand(3, 2),
        "box": base[1:3, 2:5],
    }
    tensorferry.save(given, tmp_path / "views.safetensors")
    back = load_file(tmp_path / "views.safetensors")
    for key, array in given.items():
        assert same(array, back[key]), key
    tensorferry.save({"a": base, "b": base}, tmp_path / "tied.pt")
    assert tensorferry.open(tmp_path / "tied.pt").ties == {"b": "a"}


def test_numpy_and_ml_dtypes(tmp_path):
    import ml_dtypes

    given = {
        "c": numpy.arange(6, dtype=numpy.int32).reshape(2, 3),
        "f": numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3)),
        "big": numpy.arange(4, dtype=">i4"),
        "bf16": numpy.array([1.5, -2], ml_dtypes.bfloat16),
        "f8": numpy.array([1.5, -2], ml_dtypes.float8_e4m3fn),
        "strided": numpy.arange(10)[::3],
        "frozen": numpy.frombuffer(b"\1\2\3\4", numpy.uint16),
        "scalar": numpy.float32(3),
        "backwards": numpy.arange(5.0)[::-1],
    }
    tensorferry.save(given, tmp_path / "a.safetensors")
    back = tensorferry.open(tmp_path / "a.safetensors").numpy()
    for key, array in given.items():
        array = numpy.asarray(array)
        assert back[key].dtype == array.dtype.newbyteorder("="), key
        assert back[key].tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes(), key


def test_jax_and_lazy_tensors(tmp_path):
    import jax

    made = {"x": jax.numpy.arange(6, dtype=jax.numpy.bfloat16).reshape(2, 3)}
    tensorferry.save(made, tmp_path / "jax.safetensors")
    with tensorferry.open(tmp_path / "jax.safetensors") as model:
        tensorferry.save({"part": model["x"][1:], "row": model["x"][0], **model}, tmp_path / "lazy.safetensors")
        assert (model["x"].jax() == made["x"]).all()
    with tensorferry.open(tmp_path / "lazy.safetensors") as model:
        assert model["part"].shape == (1, 3) and model["row"].shape == (3,)
        assert model["row"].jax().tolist() == made["x"][0].tolist() and (model["x"].jax() == made["x"]).all()


@pytest.fixture
def little_memory():
    """Sets a small budget, so that arrays that must be reordered or read twice are stored in temporary files."""
    tensorferry.configure(memory=4 << 20)
    yield
    tensorferry.configure()


@pytest.mark.parametrize("shape", [(4, 4), (1500, 1000)])
def test_lazy_tensors_that_are_one_stay_one(tmp_path, shape, little_memory):
    weight = torch.randn(shape)
    turned = weight.t()
    given = {"w": weight, "tied": weight, "turned": turned, "turned.tied": turned, "n": torch.arange(3)}
    torch.save(given, tmp_path / "tied.pt")
    with tensorferry.open(tmp_path / "tied.pt") as model:
        report = tensorferry.save(model, tmp_path / "again.pt")
        assert not report.losses
        told = tensorferry.save(model, tmp_path / "apart.safetensors").losses
        # `save` reports the same losses as a conversion.
        converted = tensorferry.convert(tmp_path / "tied.pt", tmp_path / "converted.safetensors").losses
        assert [(loss.kind, loss.what) for loss in told] == [("alias", "tied"), ("alias", "turned.tied")]
        assert set(map(repr, told)) <= set(map(repr, converted))
    back = torch.load(tmp_path / "again.pt")
    assert back["w"].data_ptr() == back["tied"].data_ptr() and torch.equal(back["w"], weight)
    for path in ("again.pt", "apart.safetensors"):
        found = load_file(tmp_path / path)
        assert found.keys() == given.keys() and all(torch.equal(found[name], given[name]) for name in given)
    # Each tied tensor is complete without the other tensor.
    with tensorferry.open(tmp_path / "tied.pt") as model:
        tensorferry.save({"only": model["tied"]}, tmp_path / "only.pt")
    assert torch.equal(torch.load(tmp_path / "only.pt")["only"], weight)


def test_lazy_tensors_are_compared_with_their_checksums_and_their_file(tmp_path):
    torch.save({"a": torch.arange(1 << 20), "b": torch.arange(5)}, tmp_path / "a.pt")
    whole = (tmp_path / "a.pt").read_bytes()
    at = whole.index(torch.arange(1 << 20).numpy().tobytes()[4096:8192])
    (tmp_path / "bad.pt").write_bytes(whole[:at] + b"\x77" + whole[at + 1 :])
    with tensorferry.open(tmp_path / "bad.pt") as model:
        with pytest.raises(tensorferry.MalformedError, match="crc32"):
            tensorferry.save(model, tmp_path / "b.safetensors")
    with tensorferry.open(tmp_path / "a.pt") as model:
        lazy = model["a"]
        with open(tmp_path / "a.pt", "ab") as file:
            file.write(b"more")
        with pytest.raises(tensorferry.TransientError):
            tensorferry.save(model, tmp_path / "b.safetensors")
    with pytest.raises(tensorferry.UsageError, match="closed"):
        tensorferry.save({"a": lazy}, tmp_path / "b.safetensors")
    assert not (tmp_path / "b.safetensors").exists()


class Wrapper(torch.Tensor):
    """A tensor without its own memory, like a DTensor."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    @classmethod
    def __torch_dispatch__(cls, call, types, args=(), kwargs=None):
        raise NotImplementedError(call)


def test_mistakes_are_told(tmp_path):
    array = numpy.zeros(2)
    for tensors, raised in [
        ({"a": [1, 2]}, TypeError),
        ({1: array}, TypeError),
        ({"a": numpy.array(["x"], object)}, tensorferry.UnsupportedError),
        ({"a": torch.eye(2).to_sparse()}, tensorferry.UnsupportedError),
        ({"a": torch.empty(2, device="meta")}, tensorferry.UnsupportedError),
        ({"a": torch.nested.nested_tensor([torch.zeros(1), torch.zeros(2)])}, tensorferry.UnsupportedError),
        ({"a": Wrapper(torch.zeros(2))}, tensorferry.UnsupportedError),
        ({"a": numpy.ma.array([1.0, 2.0], mask=[0, 1])}, tensorferry.UnsupportedError),
        ({"a\udc80": array}, tensorferry.UsageError),
        ({"a": {"b": array}}, TypeError),
        ([array], TypeError),
        (torch.nn.Linear(2, 2), TypeError),
    ]:
        with pytest.raises(raised) as caught:
            tensorferry.save(tensors, tmp_path / "a.safetensors")
        if issubclass(raised, tensorferry.Error):
            assert caught.value.tensor in tensors
        assert not (tmp_path / "a.safetensors").exists()
    with pytest.raises(TypeError):
        tensorferry.save({"a": array}, tmp_path / "a.safetensors", {"n": 1})
    with pytest.raises(tensorferry.UsageError):
        tensorferry.save({"a": array}, tmp_path / "a.unheard_of")
    tensorferry.save({"a": array}, tmp_path / "a.safetensors")
    with pytest.raises(FileExistsError, match="exists; use force=True") as caught:
        tensorferry.save({"a": array}, tmp_path / "a.safetensors")
    error = caught.value
    assert isinstance(error, tensorferry.OutputExistsError) and isinstance(error, tensorferry.UsageError)
    assert error.file == error.filename == str(tmp_path / "a.safetensors") and error.errno == errno.EEXIST
    with pytest.raises(tensorferry.UsageError, match="a.parquet.*parquet holds records"):
        tensorferry.save({"a": array}, tmp_path / "a.parquet")
    with pytest.warns(UserWarning, match="no tensors"):
        tensorferry.save({}, tmp_path / "none.safetensors")
    tensorferry.save({"a": array}, tmp_path / "a.safetensors", force=True)


def test_blocks_of_a_formats_own_are_not_saved(tmp_path):
    with tensorferry.open(FIXTURES / "gguf/big_endian_quants/model.gguf") as model:
        name, tensor = next((name, tensor) for name, tensor in model.items() if tensor.dtype == "Q4_0")
        with pytest.raises(tensorferry.UnsupportedError, match="convert") as caught:
            tensorferry.save({name: tensor}, tmp_path / "a.safetensors")
        assert caught.value.tensor == name and "Q4_0" in str(caught.value)
        with pytest.raises(tensorferry.UnsupportedError, match="dequantize"):
            tensor.numpy()
    tensorferry.convert(FIXTURES / "gguf/big_endian_quants/model.gguf", tmp_path / "a.safetensors", steps=["dequantize:f16"])
    assert load_file(tmp_path / "a.safetensors")[name].dtype == torch.float16


def test_an_open_file_is_replaced(tmp_path):
    path = tmp_path / "a.safetensors"
    tensorferry.save({"a": torch.arange(5), "b": torch.ones(2)}, path)
    for mmap in (False, True):
        with tensorferry.open(path, mmap=mmap) as model:
            arrays, lazy = model.torch(), model["a"]
            # Lazy tensors and mappings refer to the file that was opened.
            tensorferry.save({"a": arrays["b"], "old": lazy, "b": arrays["a"]}, path, force=True)
            assert lazy.numpy().tolist() == arrays["a"].tolist()
            # The file of the model has been replaced, so other reads fail.
            with pytest.raises(tensorferry.TransientError):
                model.torch()
        with tensorferry.open(path) as model:
            assert model["b"].torch().tolist() == arrays["a"].tolist() == model["old"].torch().tolist()
    tensorferry.convert(path, path, force=True, steps=["cast:f64,only=any"])
    assert tensorferry.open(path)["a"].shape


def test_modules_are_loaded_as_with_safetensors(tmp_path):
    def module():
        made = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 4))
        made[1].weight = torch.nn.Parameter(made[0].weight.t().contiguous())
        made.tied = made[0]
        return made

    source, target = module(), module()
    kept = {name: array for name, array in source.state_dict().items() if not name.startswith("tied")}
    save_file(kept, tmp_path / "m.safetensors")
    assert load_model(target, tmp_path / "m.safetensors") == ([], [])
    assert all(torch.equal(a, b) for a, b in zip(source.parameters(), target.parameters()))
    del kept["1.weight"]
    save_file({**kept, "more": torch.zeros(1)}, tmp_path / "n.safetensors")
    with pytest.raises(RuntimeError, match="1.weight.*more"):
        load_model(module(), tmp_path / "n.safetensors")
    assert load_model(module(), tmp_path / "n.safetensors", strict=False) == (["1.weight"], ["more"])


def test_what_a_format_cannot_hold_is_warned_of(tmp_path):
    with pytest.warns(UserWarning, match="lacks tensor 'b'"):
        report = tensorferry.save({"a": torch.zeros(2), "b": torch.zeros(2, dtype=torch.bfloat16)}, tmp_path / "a.npz")
    assert [loss.what for loss in report.losses] == ["b"]
    # The advice names `convert`, because `save` has no steps.
    assert 'convert(..., steps=["cast:f32"])' in report.losses[0].why
    with pytest.raises(tensorferry.UsageError, match=r"convert\(\.\.\., steps="):
        tensorferry.save({"a": torch.zeros(2), "b": torch.zeros(2)}, tmp_path / "a.npy")


def test_an_opened_model_keeps_its_metadata_and_its_state(tmp_path):
    with tensorferry.open(FIXTURES / "torch/zip_training_checkpoint/checkpoint.pth", part=".") as model:
        tensorferry.save(model, tmp_path / "copy.pt", {"made": "here"})
        copy = tensorferry.open(tmp_path / "copy.pt", part=".")
        assert copy.metadata["made"] == "here"
        assert copy.state is not None and copy.state.keys() == model.state.keys()
        with pytest.warns(UserWarning, match="lacks state"):
            report = tensorferry.save(model, tmp_path / "copy.safetensors")
        assert any(loss.kind == "state" for loss in report.losses)
