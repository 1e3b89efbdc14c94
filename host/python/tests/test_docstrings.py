"""The examples in the docstrings print the output shown below them."""

import doctest
import importlib

import numpy
import pytest

import tensorferry

MODULES = ["_api", "_engine", "_model", "_scan", "_tensor"]


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    embed = numpy.arange(6, dtype="float32").reshape(2, 3)
    tensorferry.save({"embed.weight": embed, "bias": numpy.zeros(2, "float32")}, "model.safetensors")
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "text": "one"}\n{"id": 2, "text": "two"}\n{"id": 3, "text": "three"}\n')
    (tmp_path / "manifest.toml").write_text('[[job]]\ninput = "model.safetensors"\noutput = "job.gguf"\n')
    yield
    tensorferry.configure()


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module(name, inputs):
    module = importlib.import_module(f"tensorferry.{name}")
    names = {"tensorferry": tensorferry, "numpy": numpy}
    found = doctest.DocTestFinder(exclude_empty=True).find(module, globs=names)
    runner = doctest.DocTestRunner()
    for test in found:
        runner.run(test)
    assert runner.tries and not runner.failures


def test_every_call_has_an_example():
    calls = [name for name in tensorferry._PLACES if tensorferry._PLACES[name] in ("_api", "_engine")]
    calls += ["Model", "Tensor", "Scan"]
    assert len(calls) > 12
    assert not [name for name in calls if ">>> " not in getattr(tensorferry, name).__doc__]
