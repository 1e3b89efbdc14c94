"""Every error raises an exception that names the problem and its location, and no error ends the interpreter."""

import errno
import os
import pickle

import numpy
import pytest
from conftest import FIXTURES, cases

import tensorferry


# Damaged files whose damage only a checksum reveals.
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
                        # A second read fails in the same way.
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
    assert caught.value.found == "63"
    with pytest.raises(tensorferry.UsageError):
        tensorferry.open(tmp_path / "a.npy", unheard_of=1)
    with pytest.raises(tensorferry.UsageError):
        tensorferry.convert(tmp_path / "a.npy", tmp_path / "b.safetensors", steps=["cats:bf16"])
    with pytest.raises(TypeError):
        tensorferry.convert(tmp_path / "a.npy", tmp_path / "b.safetensors", steps="cast:bf16")
    with pytest.raises(OSError):
        tensorferry.convert(tmp_path / "a.npy", "/proc/b.safetensors")
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


def test_what_is_not_there_is_told_with_what_was_probably_meant(tmp_path):
    numpy.savez(tmp_path / "model.npz", **{"encoder.weight": numpy.zeros(3), "encoder.bias": numpy.zeros(3)})
    # One of these names is a prefix of the existing file's name.
    for missing in ("modle.npz", "model.np", "model.npz.bak", "nowhere/model.npz", "mod*.pt"):
        for use in (
            tensorferry.open, tensorferry.inspect, tensorferry.scan, tensorferry.verify,
            lambda path: tensorferry.convert(path, tmp_path / "out.safetensors"),
            lambda path: tensorferry.diff(tmp_path / "model.npz", path),
            lambda path: tensorferry.check(tmp_path / "model.npz", path),
            tensorferry.run,
        ):  # fmt: skip
            if missing == "model.np" and use is not tensorferry.run:
                continue
            with pytest.raises(FileNotFoundError) as caught:
                use(tmp_path / missing)
            assert isinstance(caught.value, tensorferry.NotFoundError) and missing in caught.value.file
    with pytest.raises(tensorferry.NotFoundError, match="did you mean.*model.npz"):
        tensorferry.open(tmp_path / "modle.npz")
    with tensorferry.open(tmp_path / "model.npz") as model:
        with pytest.raises(KeyError) as caught:
            model["encoder.wieght"]
        error = caught.value
        assert isinstance(error, tensorferry.TensorNotFoundError) and error.tensor == "encoder.wieght"
        assert not str(error).startswith("usage:") and 'did you mean "encoder.weight"' in str(error)
        assert type(pickle.loads(pickle.dumps(error))) is type(error)
        assert model.get("absent") is None and "absent" not in model
        with pytest.raises(KeyError):
            model["something else altogether"]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("/a/b exists; use --force to replace it", "/a/b exists; use force=True to replace it"),
        ("at most 3, or --limit entries=N", 'at most 3, or configure(limits={"entries": N})'),
        ("2 files, or -i shard=alone for one", '2 files, or input option shard="alone" for one'),
        ("p, or -i 'files=GLOB'; more", 'p, or input option files="GLOB"; more'),
        ("the file of -o like= says otherwise", "the file of output option like says otherwise"),
        ("unknown option -o max_shard: expected", "unknown output option max_shard: expected"),
        ("take one with --step select", 'take one with steps=["select"]'),
        ("choose one, or --part . for all", 'choose one, or part="." for all'),
        ("pass --from saved-model to read it", 'pass from_="saved-model" to read it'),
        ("say which with --to: expected --to with one of a", "say which with to=: expected to= with one of a"),
        ("--strict: x; --allow-loss alias lets", 'strict=True: x; allow=["alias"] lets'),
        ("a-i b-o c--force d", "a-i b-o c--force d"),
        ('did you mean "w --strict"? or --strict', 'did you mean "w --strict"? or strict=True'),
        ('file "a --to \\"b -i x=y.pt", or --to', 'file "a --to \\"b -i x=y.pt", or to='),
    ],
)
def test_hints_speak_of_arguments_and_not_of_flags(said, meant):
    from tensorferry._errors import in_python

    assert in_python(said) == meant


def test_names_stay_as_they_are(tmp_path):
    junk = tmp_path / "a --to b.safetensors"
    junk.write_text("junk")
    with pytest.raises(tensorferry.MalformedError) as caught:
        tensorferry.open(junk)
    assert str(caught.value).startswith(f"{junk.name}: ") and caught.value.file == junk.name
    there = tmp_path / "b --force c.safetensors"
    tensorferry.save({"w --strict": numpy.zeros(2)}, there)
    with pytest.raises(FileExistsError) as caught:
        tensorferry.save({"w": numpy.zeros(2)}, there)
    assert str(caught.value) == f"{there} exists; use force=True to replace it"
    assert caught.value.message == f"{there} exists; use force=True to replace it"
    with tensorferry.open(there) as model:
        with pytest.raises(KeyError) as caught:
            model["w --strick"]
    assert str(caught.value).count("w --stric") == 2


def test_errors_of_the_system_have_its_number(tmp_path):
    numpy.save(tmp_path / "a.npy", numpy.zeros(3))
    uses = {
        errno.ENOENT: lambda: tensorferry.open(tmp_path / "absent"),
        errno.EEXIST: lambda: tensorferry.convert(tmp_path / "a.npy", tmp_path / "a.npy"),
    }
    for number, use in uses.items():
        with pytest.raises(OSError) as caught:
            use()
        for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
            assert (error.errno, error.filename, error.strerror) == (number, error.file, os.strerror(number)) and error.file
            assert error.kind == "usage"
    with pytest.raises(tensorferry.SystemFault) as caught:
        tensorferry.convert(tmp_path / "a.npy", "/proc/b.safetensors")
    assert caught.value.errno and caught.value.filename == caught.value.file


def test_mistakes_of_arguments_are_told(tmp_path):
    numpy.savez(tmp_path / "a.npz", a=numpy.zeros(3), b=numpy.zeros(3))
    with pytest.raises(tensorferry.UsageError, match=r'steps=\["select"\]'):
        tensorferry.convert(tmp_path / "a.npz", tmp_path / "b.npy")
    with pytest.raises(tensorferry.UsageError, match="did you mean"):
        tensorferry.open(tmp_path / "a.npz", from_="nunpy")
    with pytest.raises(TypeError, match="list of folders"):
        tensorferry.configure(plugins=str(tmp_path))
    with pytest.raises(TypeError, match="'F32'"):
        tensorferry.check(tmp_path / "a.npz", {"a": (numpy.float32, (3,))})


def test_a_file_that_changes_is_told(tmp_path):
    path = tmp_path / "a.npy"
    numpy.save(path, numpy.zeros(1000))
    with tensorferry.open(path) as model:
        with open(path, "ab") as file:
            file.write(b"more")
        with pytest.raises(tensorferry.TransientError):
            model.numpy()


def test_no_single_read_gives_what_was_written_later(tmp_path):
    path = tmp_path / "a.npy"
    numpy.save(path, numpy.zeros((4, 5)))
    with tensorferry.open(path) as model:
        tensor = model["a"]
        tensor.numpy()
        with open(path, "r+b") as file:
            file.seek(-8, os.SEEK_END)
            file.write(b"\1" * 8)
        # File system timestamps are coarse, so the test sets the modification time explicitly.
        os.utime(path)
        for read in (
            tensor.numpy, tensor.torch, tensor.bytes, tensor[1:].numpy, tensor[::2].numpy, tensor[1:, ::2].bytes,
            tensor.__dlpack__, model.stats, lambda: numpy.asarray(tensor),
        ):  # fmt: skip
            with pytest.raises(tensorferry.TransientError, match="changed") as caught:
                read()
            assert caught.value.file == "a.npy"
