"""The types of the package are those that it has, and programs that use it are checked by them."""

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parent / "typed_example.py"
ALLOWED = pathlib.Path(__file__).parent / "stubtest-allow.txt"


def test_stubs_are_what_the_module_has():
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy.stubtest", "tensorferry", "--ignore-missing-stub", "--concise"]
    command += ["--allowlist", ALLOWED, "--ignore-unused-allowlist"]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr


def test_mypy_takes_the_example(tmp_path):
    pytest.importorskip("mypy")
    told = subprocess.run([sys.executable, "-m", "mypy", "--strict", EXAMPLES], capture_output=True, text=True, cwd=tmp_path)
    assert told.returncode == 0, told.stdout + told.stderr


def test_the_example_runs(tmp_path):
    subprocess.run([sys.executable, EXAMPLES], check=True, cwd=tmp_path)
