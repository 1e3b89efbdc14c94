"""Conversions, comparisons, receipts and runs."""

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy
import pyarrow
import pytest
from conftest import FIXTURES

import tensorferry

MODEL = FIXTURES / "torch/zip_module_state_dict/pytorch_model.bin"


def test_a_conversion_reports_what_it_did(tmp_path):
    seen = []
    report = tensorferry.convert(
        MODEL, tmp_path / "a.safetensors", steps=["cast:bf16"], verify=True, receipt=True,
        progress=lambda *told: seen.append(told),
    )  # fmt: skip
    assert report.tensors and report.verified and not report.dry_run and report.files
    assert seen[-1][2] in ("copy", "check") and seen[-1][0] <= seen[-1][1]
    with tensorferry.open(tmp_path / "a.safetensors") as model:
        assert {tensor.dtype for tensor in model.values()} <= {"BF16", "I64", "BOOL"}
    (verdict,) = tensorferry.verify(tmp_path / "a.safetensors")
    assert verdict.verdict == "ok"
    with open(tmp_path / "a.safetensors", "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x55")
    (verdict,) = tensorferry.verify(tmp_path / "a.safetensors")
    assert verdict.verdict == "changed" and verdict.problems


def test_differences(tmp_path):
    tensorferry.convert(MODEL, tmp_path / "a.safetensors")
    assert tensorferry.diff(MODEL, tmp_path / "a.safetensors").equal
    tensorferry.convert(MODEL, tmp_path / "b.safetensors", steps=["cast:f16", "cast:f32"])
    found = tensorferry.diff(MODEL, tmp_path / "b.safetensors")
    assert not found.equal and found.differences[0].kind == "content"
    assert tensorferry.diff(MODEL, tmp_path / "b.safetensors", atol=1e-2).equal
    with pytest.raises(TypeError):
        bool(found)


def test_differences_say_how_far_numbers_are_apart(tmp_path):
    a = {"w": numpy.arange(12, dtype=numpy.float32).reshape(3, 4), "only": numpy.ones(2, dtype=numpy.float32)}
    b = {"w": a["w"].copy()}
    b["w"][1, 2] += 0.5
    b["w"][2, 0] = numpy.nan
    for name, arrays in (("a", a), ("b", b)):
        tensorferry.save(arrays, tmp_path / f"{name}.safetensors")
    differences = tensorferry.diff(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    assert differences.tensors and differences.records is None
    missing, found = differences.differences
    assert (missing.kind, missing.name, missing.a, missing.b, missing.elements) == ("missing", "only", None, None, None)
    assert found.a is None and found.records is None and "a" not in found.as_dict() and "a" in dir(found)
    with pytest.raises(AttributeError):
        missing.unheard_of
    assert (found.kind, found.elements, found.of, found.nan) == ("content", 2, 12, 1)
    assert (found.largest, found.largest_at, found.largest_values) == (0.5, [1, 2], [6.0, 6.5])
    assert (found.relative, found.relative_at) == (0.5 / 6.5, [1, 2])
    x, y = (array["w"].astype(float).ravel() for array in (a, b))
    finite = numpy.isfinite(y)
    cosine = x[finite] @ y[finite] / numpy.linalg.norm(x[finite]) / numpy.linalg.norm(y[finite])
    assert abs(found.cosine - cosine) < 1e-12


def test_records_are_compared_too(tmp_path, rows):
    path, table = rows
    tensorferry.convert(path, tmp_path / "rows.jsonl")
    assert tensorferry.diff(path, tmp_path / "rows.jsonl").equal
    assert not tensorferry.diff(path, tmp_path / "rows.jsonl", steps=["take:5"]).equal


def test_expectations():
    seen = tensorferry.inspect(MODEL)
    expected = {name: (info.dtype, info.shape) for name, info in seen.tensors.items()}
    assert tensorferry.check(MODEL, expected).equal
    first = next(iter(expected))
    found = tensorferry.check(MODEL, {**expected, first: ("I8", None), "more": (None, None)})
    assert {difference.kind for difference in found.differences} == {"dtype", "missing"}


def test_formats_are_described():
    formats = tensorferry.formats()
    assert len(formats) >= 10 and formats["gguf"].reads and formats["parquet"].writes_records
    assert formats["safetensors"].options and dir(formats["gguf"])


def test_a_manifest_is_run(tmp_path):
    (tmp_path / "m.toml").write_text(
        f"""
        [[job]]
        input = {json.dumps(str(MODEL))}
        output = "out.safetensors"

        [[job]]
        input = {json.dumps(str(FIXTURES / "safetensors/bad_truncated_data/model.safetensors"))}
        output = "bad.pt"
        """
    )
    plan = tensorferry.run(tmp_path / "m.toml", dry_run=True)
    assert len(plan.plan["jobs"]) == 2 and not (tmp_path / "out.safetensors").exists()
    events = []
    summary = tensorferry.run(tmp_path / "m.toml", progress=events.append)
    assert summary.totals["done"] == 1 and summary.totals["failed"] == 1
    assert {"run-began", "job-done", "job-failed", "run-ended"} <= {event["event"] for event in events}
    assert tensorferry.diff(MODEL, tmp_path / "out.safetensors").equal and not (tmp_path / "bad.pt").exists()
    assert tensorferry.run(tmp_path / "m.toml").totals["unchanged"] == 1
    (tmp_path / "m.toml").write_text("[[job]]\ninptu = 1")
    with pytest.raises(tensorferry.UsageError, match="inptu"):
        tensorferry.run(tmp_path / "m.toml")


def test_an_option_may_be_given_several_times(tmp_path):
    numpy.savez(tmp_path / "a.npz", w=numpy.zeros((4, 4), numpy.float32))
    made = {"set": ["general.architecture=string:llama", "general.name=string:of a list"]}
    tensorferry.convert(tmp_path / "a.npz", tmp_path / "a.gguf", output_options=made)
    with tensorferry.open(tmp_path / "a.gguf") as model:
        assert model.metadata["general.name"] == "of a list" and model.metadata["general.architecture"] == "llama"


@pytest.mark.parametrize("has_tqdm", [False, True])
def test_a_bar_is_shown(tmp_path, has_tqdm, monkeypatch, capsys):
    if not has_tqdm:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    tensorferry.convert(MODEL, tmp_path / "a.safetensors", progress=True)
    told = capsys.readouterr().err
    assert "100%" in told and ("B/s" in told) == has_tqdm


def test_a_callback_that_raises_ends_the_work(tmp_path):
    numpy.save(tmp_path / "a.npy", numpy.zeros(1 << 28, numpy.uint8))

    class Enough(Exception):
        pass

    def stop(done, of, stage):
        raise Enough

    rows = pyarrow.table({"n": [1]})
    for use in (
        lambda: tensorferry.convert(tmp_path / "a.npy", tmp_path / "b.safetensors", verify=True, progress=stop),
        lambda: tensorferry.save({"a": numpy.zeros(3)}, tmp_path / "b.safetensors", progress=stop),
        lambda: tensorferry.write(rows, tmp_path / "b.parquet", progress=stop),
    ):
        with pytest.raises(Enough):
            use()
        assert os.listdir(tmp_path) == ["a.npy"]
    # An exception in the last call is too late to stop the conversion.
    told = []

    def stop_at_the_end(done, of, stage):
        told.append(stage)
        if len(told) > 1:
            raise Enough

    numpy.save(tmp_path / "a.npy", numpy.zeros(3))
    with pytest.raises(Enough):
        tensorferry.convert(tmp_path / "a.npy", tmp_path / "b.safetensors", progress=stop_at_the_end)
    assert set(os.listdir(tmp_path)) <= {"a.npy", "b.safetensors"} and len(told) == 2


def sparse(path, dtype, *shape):
    """Writes a sparse numpy file of zeros."""
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    with open(path, "wb") as file:
        numpy.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + math.prod(shape) * numpy.dtype(dtype).itemsize)


# The code that a child process runs on its input, and the bytes of tensors that it must keep in
# memory.
USES = {
    "numpy": ("kept = tensorferry.open('a.npy')['a'].numpy()", 1 << 29),
    "all": ("kept = tensorferry.open('a.npy').numpy()", 1 << 29),
    "part": ("kept = tensorferry.open('a.npy')['a'][5:9].numpy()", 0),
    "mmap": ("kept = tensorferry.open('a.npy', mmap=True)['a'].numpy()", 0),
    "convert": ("tensorferry.convert('a.npy', 'b.safetensors')", 0),
    "save": ("tensorferry.save(tensorferry.open('a.npy'), 'b.safetensors')", 0),
    "cast": ("tensorferry.convert('a.npy', 'b.safetensors', steps=['cast:f16'], verify=True)", 0),
}


@pytest.mark.parametrize("use", USES)
def test_memory_is_what_tensors_take_and_the_budget(tmp_path, use):
    sparse(tmp_path / "a.npy", "<f4", 1 << 13, 1 << 14)
    code, tensors = USES[use]
    script = (
        "import numpy, tensorferry\n"
        "def most(): return next(int(l.split()[1]) for l in open('/proc/self/status') if l.startswith('VmHWM')) << 10\n"
        f"tensorferry.configure(memory=64 << 20); tensorferry.formats(); before = most(); {code}; print(most() - before)"
    )
    told = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    # Threads, the allocator and plugins take some memory too.
    taken, beside = int(told.stdout), 48 << 20
    assert tensors <= taken + beside and taken <= tensors + (64 << 20) + beside, f"{taken >> 20} MiB"


@pytest.mark.parametrize("read", ["tensor.numpy()", "tensor[1:].numpy()", "tensor.bytes()", "model.numpy()"])
def test_ctrl_c_ends_the_reading_of_one_huge_tensor(tmp_path, read):
    sparse(tmp_path / "a.npy", "<f4", 3 << 6, 1 << 22)
    script = textwrap.dedent(
        f"""
        import os, signal, threading, time, sys, tensorferry, numpy
        model = tensorferry.open("a.npy")
        (tensor,) = model.values()
        tensor[0].numpy()
        sent = []
        def press():
            time.sleep(0.1)
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=press).start()
        try:
            {read}
        except KeyboardInterrupt:
            took = time.monotonic() - sent[0]
            assert tensor[:2].numpy().shape == (2, 1 << 22), "the tensor cannot be read again"
            print(took)
        """
    )
    told = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    # The call checks for signals every 50 ms. Freeing the memory takes some time, and other
    # processes may slow it down.
    assert float(told.stdout) < 0.6


def test_ctrl_c_leaves_nothing(tmp_path):
    sparse(tmp_path / "a.npy", "|u1", 1 << 30)
    script = textwrap.dedent(
        """
        import sys, tensorferry
        print("begun", flush=True)
        try:
            tensorferry.convert("a.npy", "b.safetensors", steps=["cast:f32"], verify=True)
        except KeyboardInterrupt:
            sys.exit(7)
        """
    )
    child = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"begun\n"
    for _ in range(600):
        if set(os.listdir(tmp_path)) != {"a.npy"}:
            break
        time.sleep(0.02)
    began = time.monotonic()
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 7
    assert time.monotonic() - began < 20
    assert os.listdir(tmp_path) == ["a.npy"]
