"""The type stubs match the package, and type checkers use them."""

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parent / "typed_example.py"
ALLOWED = pathlib.Path(__file__).parent / "stubtest-allow.txt"


@pytest.fixture
def config(tmp_path):
    """Makes the type checker skip the frameworks' types, which would take minutes to check."""
    skipped = [f"[mypy-{name}.*]\nfollow_imports = skip\n" for name in ("jax", "torch", "pyarrow", "ray")]
    (tmp_path / "mypy.ini").write_text("[mypy]\n" + "".join(skipped))
    return tmp_path / "mypy.ini"


def test_stubs_are_what_the_module_has(config):
    command = [sys.executable, "-m", "mypy.stubtest", "tensorferry", "--ignore-missing-stub", "--concise"]
    command += ["--mypy-config-file", config, "--allowlist", ALLOWED, "--ignore-unused-allowlist"]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr


def test_mypy_takes_the_example(config, tmp_path):
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", config, EXAMPLES]
    told = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert told.returncode == 0, told.stdout + told.stderr
    # The type checker must also find the mistakes in the example.
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import tensorferry\ntensorferry.open(3).torch()['a'].nothing\ntensorferry.convert('a', 'b').tensor\n")
    told = subprocess.run([*command[:-1], wrong], capture_output=True, text=True, cwd=tmp_path)
    assert "arg-type" in told.stdout and '"Report" has no attribute "tensor"' in told.stdout, told.stdout


def test_the_example_runs(tmp_path):
    subprocess.run([sys.executable, EXAMPLES], check=True, cwd=tmp_path)
