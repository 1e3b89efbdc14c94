"""What can go wrong, by whose fault it is. Each is a `tensorferry.Error` and the built-in exception that fits."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable


class Error(Exception):
    """One cause, and where it lies.

    `str(error)` has all of it. Of the attributes, those that are not known are `None`:

    - `kind`: the kind's word, `"malformed"` say
    - `message`: what is wrong, without the place
    - `file`, `tensor`, `column`: names
    - `offset`: bytes from the file's begin; `record`: the record's number, from 0
    - `expected`, `found`: texts
    - `hint`: what may help
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
    """The input breaks its own format's rules."""


class UnsupportedError(Error, NotImplementedError):
    """The input is well formed, and this program cannot read or carry it."""


class LimitError(Error, ValueError):
    """The input asks for more than one of the limits lets it have; `configure(limits=...)` raises them."""


class _SystemError(Error, OSError):
    """What Python's own errors of files say. The base class would have them in the message once more, and loses them
    when it is pickled."""

    errno: int | None = None
    strerror: str | None = None
    filename: str | None = None

    def _of_system(self, number: int | None) -> None:
        self.errno, self.filename = number, self.file
        self.strerror = None if number is None else os.strerror(number)


class SystemFault(_SystemError):
    """The operating system failed, for good: no space, no permission. `errno` is its number, where it gave one."""


class TransientError(SystemFault):
    """A passing fault, worth another try: a file changed while it was read, a device failed."""


class PluginError(Error, RuntimeError):
    """A plugin broke its contract, or could not be loaded."""


class UsageError(Error, ValueError):
    """Options or names that cannot work, an output that is there already, a model that is closed."""


class NotFoundError(UsageError, _SystemError, FileNotFoundError):
    """There is no file or folder of this name."""


class OutputExistsError(UsageError, _SystemError, FileExistsError):
    """The output is there already, and `force=True` was not said."""


class TensorNotFoundError(UsageError, KeyError):
    """A model has no tensor of this name."""

    # As text, and not as a key that is quoted.
    __str__ = Exception.__str__


class VerificationError(Error, RuntimeError):
    """What was written is not what was read."""


class CancelledError(Error, RuntimeError):
    """The work was ended before it was done."""


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

# What begins the messages of usage errors for which Python has an exception of its own.
_USAGE: tuple[tuple[str, type[Error]], ...] = (
    ("no such file or folder", NotFoundError),
    ("no tensor of this name", TensorNotFoundError),
)

# What follows the name of an output that is there.
_EXISTS = " exists; use --force to replace it"

_SIDES = {"i": "reader", "o": "writer"}

# What the program's flags are called here.
_FLAGS = (
    (r"(?<![\w-])--(force|allow-empty|follow-links|strict|dry-run|receipt|sync|verify)\b", lambda m: m[1].replace("-", "_") + "=True"),
    (r"--allow-loss (\w+)", r'allow=["\1"]'),
    (r"--limit (\w+)=(\w+)", r'configure(limits={"\1": \2})'),
    (r"--step ([^\s,;)]*[^\s,;:)])", r'steps=["\1"]'),
    (r"--part ([^\s,;:)]+)", r'part="\1"'),
    (r"--from (?!with\b)([\w-]+)", r'format="\1"'),
    (r"--from\b", "format="),
    (r"--to\b", "to="),
    # Of `open` an argument, of `convert` an entry of `reader` or `writer`.
    (r"(?<!\S)-([io]) '?(\w+)=([^\s,;)']+)'?", lambda m: f'{_SIDES[m[1]]} option {m[2]}="{m[3]}"'),
    (r"(?<!\S)(?:option )?-([io]) (\w+)=?", lambda m: f"{_SIDES[m[1]]} option {m[2]}"),
)


def in_python(text: str, *names: object) -> str:
    """A text of the engine that names the program's flags, with what they are called here. What stands in quotes, and
    `names`, are names: they stay as they are."""
    if "-" not in text:
        return text
    # It takes a millisecond, and is needed where something went wrong alone.
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
    """The exception for an error of the engine."""
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
    """The operating system's number of an error, which ends the text of Rust's."""
    if isinstance(error, NotFoundError):
        return errno.ENOENT
    if isinstance(error, OutputExistsError):
        return errno.EEXIST
    told = error.message.rpartition("(os error ")[2].partition(")")[0]
    return int(told) if told.isascii() and told.isdigit() else None


def of_convert(text: str) -> str:
    """A text that advises a step, for a function that takes none."""
    if "steps=[" not in text:
        return text
    import re

    return re.sub(r'steps=\["[^"]*"\]', lambda step: f"convert(..., {step[0]})", text)


def reword(error: Error, change: Callable[[str], str]) -> None:
    """Changes the texts of an error."""
    error.args = tuple(change(text) if isinstance(text, str) else text for text in error.args)
    error.message = change(error.message)
    error.file = None if error.file is None else change(error.file)
    if isinstance(error, _SystemError):
        error.filename = error.file


def unsupported(message: str, tensor: str | None = None, hint: str | None = None) -> UnsupportedError:
    """What a framework cannot hold, or this package not give it."""
    where = f" (tensor {tensor!r})" if tensor is not None else ""
    error = UnsupportedError(f"unsupported: {message}{where}" + (f"\nhint: {hint}" if hint else ""))
    error.kind, error.message, error.tensor, error.hint = "unsupported", message, tensor, hint
    return error


def usage(message: str, **details: object) -> UsageError:
    """A mistake of the caller."""
    told = "".join(f", {name} {value!r}" if name == "tensor" else f", {name} {value}" for name, value in details.items())
    error = UsageError(f"{message}{told}")
    error.kind, error.message = "usage", message
    for name, value in details.items():
        setattr(error, name, value)
    return error


def not_found(path: str) -> NotFoundError:
    """There is nothing at a path."""
    error = NotFoundError(f"{path}: no such file or folder")
    error.kind, error.message, error.file = "usage", "no such file or folder", path
    error._of_system(errno.ENOENT)
    return error
