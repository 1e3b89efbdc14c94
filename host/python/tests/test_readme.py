"""The examples in the READMEs work as they are."""

import os
import re
import shutil

import numpy
import pytest
import torch
from conftest import ROOT

import tensorferry


@pytest.mark.parametrize("name", ["host/python/README.md", "README.md"])
def test_the_lines_of_the_readme_run(name, tmp_path, monkeypatch):
    text = (ROOT / name).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
    assert blocks
    monkeypatch.chdir(tmp_path)
    torch.save({"encoder.weight": torch.randn(8, 6), "encoder.bias": torch.zeros(8)}, "model.pt")
    rows = numpy.arange(20)
    import pyarrow

    tensorferry.write(pyarrow.table({"label": rows, "score": rows / 3}), "rows.tfrecord")
    names: dict = {}
    for block in blocks:
        exec(compile(block, name, "exec"), names)
    assert os.listdir(tmp_path)
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
