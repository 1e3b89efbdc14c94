"""The exceptions of the package, grouped by the cause of the error.

Each exception is a `tensorferry.Error`, and also a subclass of the matching built-in exception.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable


class Error(Exception):
    """The base class of all errors. `str(error)` contains the message, the location and the hint.

    Attributes that are not known are `None`.

    Attributes:
        kind: The kind of error, such as `"malformed"`.
        message: The cause, without the location.
        file: The name of the file.
        tensor: The name of the tensor.
        column: The name of the column.
        record: The number of the record, from 0.
        offset: The offset in the file, in bytes.
        expected: The expected value, as a string.
        found: The value that was found instead, as a string.
        hint: Advice on how to fix it.
    """

    kind: str = "error"
    message: str = ""
    file: str | None = None
    tensor: str | None = None
    column: str | None = None
    record: int | None = None
    offset: int | None = None
    expected: str | None = None
    found: str | None = None
    hint: str | None = None


class MalformedError(Error, ValueError):
    """The input violates the rules of its format."""


class UnsupportedError(Error, NotImplementedError):
    """The input is valid, but this program cannot read or convert it."""


class LimitError(Error, ValueError):
    """The input exceeds a limit, which `configure(limits=...)` can raise."""


class _SystemError(Error, OSError):
    """Base class for errors that are also an `OSError`, with the attributes of `OSError`.

    `OSError` itself would repeat the attributes in the message, and would lose them when it is
    pickled.
    """

    errno: int | None = None
    strerror: str | None = None
    filename: str | None = None

    def _of_system(self, number: int | None) -> None:
        self.errno, self.filename = number, self.file
        self.strerror = None if number is None else os.strerror(number)


class SystemFault(_SystemError):
    """The operating system reported a permanent error, such as a full disk or a missing permission.

    `errno` is the error number of the operating system, if there is one.
    """


class TransientError(SystemFault):
    """A temporary failure, which a retry may resolve: a file changed while it was being read, or a device failed."""


class PluginError(Error, RuntimeError):
    """A plugin violated its contract or could not be loaded."""


class UsageError(Error, ValueError):
    """The caller made a mistake: a wrong option or name, an existing output, or a closed model."""


class NotFoundError(UsageError, _SystemError, FileNotFoundError):
    """The file or folder does not exist."""


class OutputExistsError(UsageError, _SystemError, FileExistsError):
    """The output already exists, and `force=True` was not passed."""


class TensorNotFoundError(UsageError, KeyError):
    """The model has no tensor of this name."""

    # `KeyError` would print the repr of the message.
    __str__ = Exception.__str__


class VerificationError(Error, RuntimeError):
    """The output does not match the input."""


class CancelledError(Error, RuntimeError):
    """The work was interrupted before it was complete."""


_KINDS: dict[str, type[Error]] = {
    "malformed": MalformedError,
    "unsupported": UnsupportedError,
    "limit": LimitError,
    "io": SystemFault,
    "transient": TransientError,
    "plugin": PluginError,
    "usage": UsageError,
    "verification": VerificationError,
    "cancelled": CancelledError,
}

# Prefixes of the messages of usage errors for which Python has a more specific exception.
_USAGE: tuple[tuple[str, type[Error]], ...] = (
    ("no such file or folder", NotFoundError),
    ("no tensor of this name", TensorNotFoundError),
)

# If an output already exists, the engine's message consists of the output's name and this text.
_EXISTS = " exists; use --force to replace it"

_SIDES = {"i": "input", "o": "output"}

# Patterns that match the program's flags, and the Python arguments that replace them.
_FLAGS = (
    (r"(?<![\w-])--(force|allow-empty|follow-links|strict|dry-run|receipt|sync|verify)\b", lambda m: m[1].replace("-", "_") + "=True"),
    (r"--allow-loss (\w+)", r'allow=["\1"]'),
    (r"--limit (\w+)=(\w+)", r'configure(limits={"\1": \2})'),
    (r"--step ([^\s,;)]*[^\s,;:)])", r'steps=["\1"]'),
    (r"--part ([^\s,;:)]+)", r'part="\1"'),
    (r"--from (?!with\b)([\w-]+)", r'from_="\1"'),
    (r"--from\b", "from_="),
    (r"--to\b", "to="),
    # The option is an argument of `open`, or an entry of `input_options` or `output_options` of
    # `convert`.
    (r"(?<!\S)-([io]) '?(\w+)=([^\s,;)']+)'?", lambda m: f'{_SIDES[m[1]]} option {m[2]}="{m[3]}"'),
    (r"(?<!\S)(?:option )?-([io]) (\w+)=?", lambda m: f"{_SIDES[m[1]]} option {m[2]}"),
)


def in_python(text: str, *names: object) -> str:
    """Rewrites the program's flags in an engine message as Python arguments.

    Quoted text and `names` are left unchanged.
    """
    if "-" not in text:
        return text
    # Importing `re` takes a millisecond and is needed only after an error.
    import re

    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found[0])
        return f"\ue000{len(kept) - 1}\ue001"

    whole = [re.escape(name) for name in names if isinstance(name, str) and in_python(name) != name]
    text = re.sub("|".join([*whole, r'"(?:[^"\\]|\\.)*"']), keep, text)
    for flag, word in _FLAGS:
        text = re.sub(flag, word, text)
    return re.sub("\ue000([0-9]+)\ue001", lambda found: kept[int(found[1])] if int(found[1]) < len(kept) else found[0], text)


def make(kind: str, text: str, message: str, details: dict[str, object]) -> Error:
    """Returns the exception for an engine error."""
    made = _KINDS.get(kind, Error)
    if made is UsageError and message.endswith(_EXISTS):
        made, details = OutputExistsError, {"file": message.removesuffix(_EXISTS), **details}
    elif made is UsageError:
        made = next((fitting for words, fitting in _USAGE if message.startswith(words)), made)
    names = [details.get(name) for name in ("file", "tensor", "column", "found")]
    hint = details.get("hint")
    if isinstance(hint, str):
        text += f"\nhint: {hint}"
    error = made(in_python(text, *names))
    error.kind, error.message = kind, in_python(message, *names)
    for name, value in details.items():
        setattr(error, name, in_python(value) if name in ("expected", "hint") and isinstance(value, str) else value)
    if isinstance(error, _SystemError):
        error._of_system(_number(error))
    return error


def _number(error: Error) -> int | None:
    """Returns the `errno` at the end of a Rust I/O message."""
    if isinstance(error, NotFoundError):
        return errno.ENOENT
    if isinstance(error, OutputExistsError):
        return errno.EEXIST
    told = error.message.rpartition("(os error ")[2].partition(")")[0]
    return int(told) if told.isascii() and told.isdigit() else None


def of_convert(text: str) -> str:
    """Replaces the advice to pass `steps` with the advice to call `convert`, for functions without steps."""
    if "steps=[" not in text:
        return text
    import re

    return re.sub(r'steps=\["[^"]*"\]', lambda step: f"convert(..., {step[0]})", text)


def reword(error: Error, change: Callable[[str], str]) -> None:
    """Applies a function to all strings of an error."""
    error.args = tuple(change(text) if isinstance(text, str) else text for text in error.args)
    error.message = change(error.message)
    error.file = None if error.file is None else change(error.file)
    if isinstance(error, _SystemError):
        error.filename = error.file


def unsupported(message: str, tensor: str | None = None, hint: str | None = None) -> UnsupportedError:
    """Returns the error for a tensor that a framework cannot represent, or that this package cannot pass to the framework."""
    where = f" (tensor {tensor!r})" if tensor is not None else ""
    error = UnsupportedError(f"unsupported: {message}{where}" + (f"\nhint: {hint}" if hint else ""))
    error.kind, error.message, error.tensor, error.hint = "unsupported", message, tensor, hint
    return error


def usage(message: str, **details: object) -> UsageError:
    """Returns the error for a mistake of the caller."""
    told = "".join(f", {name} {value!r}" if name == "tensor" else f", {name} {value}" for name, value in details.items())
    error = UsageError(f"{message}{told}")
    error.kind, error.message = "usage", message
    for name, value in details.items():
        setattr(error, name, value)
    return error


def not_found(path: str) -> NotFoundError:
    """Returns the error for a path where nothing exists."""
    error = NotFoundError(f"{path}: no such file or folder")
    error.kind, error.message, error.file = "usage", "no such file or folder", path
    error._of_system(errno.ENOENT)
    return error
