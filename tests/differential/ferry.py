"""Runs ferry and reads its reports."""

import json
import os
import re
import shlex
import subprocess
from dataclasses import dataclass, field

# Losses that only change the form of data. The readers in these tests undo these changes, so such
# losses do not explain a difference.
FORMS = re.compile("written as base64|written as JSON|written as text|JSON has no (NaN|bytes)|written as uint8|read as bytes|"
                   "^CSV has no (lists|bytes)|read as __key__|so they are read as")


# A placeholder for the names of rows in the losses of records.
ROWS = "\0rows"


@dataclass
class Outcome:
    command: str
    code: int
    answer: dict = field(default_factory=dict)
    stderr: str = ""

    @property
    def error(self) -> dict:
        return self.answer.get("error") or {}

    @property
    def losses(self) -> list[dict]:
        return self.answer.get("losses") or []

    def explanation(self, names: tuple[str, ...], kinds: tuple[str, ...] = ()) -> str | None:
        """Returns the reason for a loss that names one of the columns or tensors and is more than a change of form."""
        for loss in self.losses:
            if loss["severity"] == "note" or FORMS.search(loss["why"]) or kinds and loss["kind"] not in kinds:
                continue
            if any(names_it(loss, name) for name in names) or ROWS in names and loss["kind"] == "record":
                return f"{loss['severity']}, {loss['kind']}: {loss['why']}"
        return None

    def fault(self) -> str | None:
        """Returns what is wrong with the exit code and message of a valid file's conversion, if anything."""
        if self.code in (0, 1):
            return None
        message = self.error.get("message") or self.stderr.strip().split("\n")[-1]
        kind = self.error.get("kind") or "crash"
        if "no plugin knows" in message:
            return f"exit {self.code}: {message}"
        if "JSON has no NaN or infinity" in message:  # DuckDB writes Infinity
            return None
        if self.code not in (2, 3) or kind in ("malformed", "plugin", "crash") or "panic" in message:
            return f"exit {self.code}: {kind}: {message}"
        return None


def names_it(loss: dict, name: str) -> bool:
    what = loss["what"]
    if what == name or what.startswith((f"{name}.", f"{name}/", f"{name}[")) or f'"{name}"' in what + loss["why"]:
        return True
    # A loss that names a column or tensor also covers everything inside it.
    if loss["kind"] != "state" and name.startswith((f"{what}.", f"{what}/")):
        return True
    return json.dumps(name, ensure_ascii=False).strip('"') in (what, loss["why"]) or escaped(name) in what + loss["why"]


def escaped(name):
    """Returns a name in quotes, escaped as Rust escapes it."""
    quoted = "".join({"\n": "\\n", "\t": "\\t", "\0": "\\0", '"': '\\"', "\\": "\\\\"}.get(letter, letter) for letter in name)
    return f'"{quoted}"'


def run(ferry: str, *arguments) -> Outcome:
    """Runs a command of ferry with `--json`."""
    command = [ferry, *map(str, arguments), "--json"]
    shown = " ".join(map(shlex.quote, command))
    try:
        ended = subprocess.run(command, capture_output=True, timeout=120, env={**os.environ, "RUST_BACKTRACE": "0"})
    except subprocess.TimeoutExpired:
        return Outcome(shown, -1, {}, "still running after 120 s")
    stderr = ended.stderr.decode(errors="replace")
    try:
        answer = json.loads(ended.stdout)
    except ValueError:
        answer = {}
    return Outcome(shown, ended.returncode, answer, stderr)
