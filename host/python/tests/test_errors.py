"""Whatever is wrong raises an exception that says what and where, and none ends the interpreter."""

import os
import pickle

import numpy
import pytest
from conftest import FIXTURES, cases

import tensorferry


# Damage that a checksum alone tells.
ONLY_CHECKSUMS = {"torch/bad_zip_bitflip", "tf/bad_data_flip"}


def test_damage_that_a_checksum_tells_is_told(tmp_path):
    told = 0
    for section in ("torch", "tf"):
        for case in cases(section):
            if case.name in ONLY_CHECKSUMS:
                with pytest.raises(tensorferry.MalformedError):
                    tensorferry.convert(case.path, tmp_path / f"{told}.safetensors", part=".")
                for read in (lambda model: model.torch(), lambda model: [t.bytes() for t in model.values()]):
                    with tensorferry.open(case.path, ".") as model:
                        # Again: what was found wrong stays wrong.
                        for _ in range(2):
                            with pytest.raises(tensorferry.MalformedError, match="crc32") as caught:
                                read(model)
                        assert caught.value.expected != caught.value.found and caught.value.tensor
                with tensorferry.open(case.path, ".", checksums=False) as model:
                    assert model.torch()
                told += 1
    assert told == len(ONLY_CHECKSUMS) and not os.listdir(tmp_path)


def test_no_code_of_a_pickle_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = 0
    for case in cases("torch"):
        if "code_execution" in case.name:
            with tensorferry.open(case.path, ".") as model:
                assert model.globals and model.state is not None
                model.torch()
            seen += 1
    assert seen == 2 and os.listdir(tmp_path) == []


@pytest.mark.parametrize("section", ["safetensors", "torch", "numpy", "onnx", "gguf", "tf"])
def test_hostile_files_raise(section, tmp_path):
    refused = 0
    os.chdir(tmp_path)
    for case in cases(section):
        if case.expected.get("expect") != "error" or "code_execution" in case.name:
            continue
        with pytest.raises(tensorferry.Error) as caught:
            with tensorferry.open(case.path, ".") as model:
                for tensor in model.values():
                    tensor.bytes()
        error = caught.value
        assert error.kind and error.message and isinstance(error, (ValueError, NotImplementedError, OSError)), case.name
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.file) == (type(error), str(error), error.file)
        refused += 1
    assert refused >= 1 and os.listdir(tmp_path) == []


def test_damaged_records_raise():
    refused = 0
    for case in cases("tfrecord"):
        if case.expected.get("expect") != "error":
            continue
        with pytest.raises(Exception) as caught:
            scan = tensorferry.scan(case.path)
            scan.to_pyarrow().read_all()
        if not isinstance(caught.value, tensorferry.Error):
            assert isinstance(scan.error, tensorferry.MalformedError), case.name
            assert scan.error.file
        refused += 1
    assert refused >= 4


def test_every_kind_has_its_exception(tmp_path):
    numpy.save(tmp_path / "a.npy", numpy.zeros(3))
    (tmp_path / "text.bin").write_text("no format at all")
    (tmp_path / "full").mkdir()
    with pytest.raises(FileNotFoundError) as caught:
        tensorferry.open(tmp_path / "absent.npy")
    assert isinstance(caught.value, tensorferry.NotFoundError) and caught.value.file
    with pytest.raises(tensorferry.UnsupportedError):
        tensorferry.open(tmp_path / "text.bin")
    with pytest.raises(tensorferry.MalformedError) as caught:
        tensorferry.open(FIXTURES / "safetensors/bad_truncated_data/model.safetensors")
    assert caught.value.found and caught.value.hint
    with pytest.raises(tensorferry.UsageError):
        tensorferry.open(tmp_path / "a.npy", unheard_of=1)
    with pytest.raises(tensorferry.UsageError):
        tensorferry.convert(tmp_path / "a.npy", tmp_path / "b.safetensors", steps=["cats:bf16"])
    with pytest.raises(TypeError):
        tensorferry.convert(tmp_path / "a.npy", tmp_path / "b.safetensors", steps="cast:bf16")
    with pytest.raises(OSError):
        tensorferry.convert(tmp_path / "a.npy", "/proc/b.safetensors")
    with pytest.raises(KeyError):
        tensorferry.open(tmp_path / "a.npy")["absent"]
    tensorferry.configure(limits={"tensors": 1})
    try:
        with pytest.raises(tensorferry.LimitError) as caught:
            tensorferry.open(FIXTURES / "safetensors/all_dtypes/model.safetensors")
        assert "configure" in caught.value.hint
    finally:
        tensorferry.configure()
    with pytest.raises(tensorferry.UsageError):
        tensorferry.configure(limits={"unheard_of": 1})
    for wrong in ({"threads": 0}, {"memory": -1}, {"threads": "many"}):
        with pytest.raises(ValueError):
            tensorferry.configure(**wrong)


def test_a_file_that_changes_is_told(tmp_path):
    path = tmp_path / "a.npy"
    numpy.save(path, numpy.zeros(1000))
    with tensorferry.open(path) as model:
        with open(path, "ab") as file:
            file.write(b"more")
        with pytest.raises(tensorferry.TransientError):
            model.numpy()
