"""Shared helpers: the repository's fixtures, and generated files."""

import json
import os
import pathlib
import signal

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
FIXTURES = pathlib.Path(os.environ.get("FERRY_FIXTURES", ROOT / "tests/fixtures"))

# The plugin cache of a different build is not valid for this build.
os.environ.setdefault("XDG_CACHE_HOME", "/nonexistent")
# A shell's background processes ignore Ctrl-C, and the programs that they start inherit this
# setting. The tests need Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


class Case:
    """A file written by a real framework, and the properties that a reader must report."""

    def __init__(self, file):
        self.folder = file.parent
        self.name = f"{self.folder.parent.name}/{self.folder.name}"
        self.expected = json.loads(file.read_text())

    @property
    def path(self):
        """The path to pass to a reader."""
        if "input" in self.expected:
            return self.folder / self.expected["input"]
        if (self.folder / "ckpt").is_dir():
            return self.folder / "ckpt"
        files = self.expected.get("files") or sorted(p.name for p in self.folder.iterdir() if p.name != "expected.json")
        return self.folder / files[0] if len(files) == 1 else self.folder

    @property
    def tensors(self):
        """The tensors that have a digest, by name."""
        found = self.expected.get("tensors") or {}
        return {name: facts for name, facts in found.items() if "sha256" in facts and not name.endswith("(dense)")}


def cases(section):
    found = [Case(file) for file in sorted((FIXTURES / section).glob("*/expected.json"))]
    assert found, f"no fixtures in {FIXTURES / section}"
    return found


@pytest.fixture
def rows(tmp_path):
    """A Parquet file of 10,000 rows, in groups of 1,000."""
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "rows.parquet"
    table = pyarrow.table(
        {
            "id": range(10_000),
            "score": [i / 7 for i in range(10_000)],
            "word": [f"w{i % 13}" for i in range(10_000)],
            "list": [[i, i + 1] for i in range(10_000)],
        }
    )
    pyarrow.parquet.write_table(table, path, row_group_size=1_000)
    return path, table
