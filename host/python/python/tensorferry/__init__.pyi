# Types of the package, written by hand and checked by `stubtest`.

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Any, Literal, NoReturn, Protocol, SupportsIndex, TypeAlias, TypeVar, overload

import jax as _jax
import numpy as _numpy
import pyarrow  # type: ignore[import-untyped]
import torch as _torch

__version__: str
__all__ = [
    "open", "convert", "inspect", "diff", "check", "verify", "formats", "save", "run", "scan", "write", "configure",
    "Model", "Tensor", "Scan", "Report", "Inspection", "TensorInfo", "Statistics", "Histogram", "ColumnInfo",
    "Difference", "Differences", "Verdict", "Format", "RunSummary", "Loss", "StateObject", "Error", "MalformedError", "UnsupportedError",
    "LimitError", "SystemFault", "TransientError", "PluginError", "UsageError", "NotFoundError", "OutputExistsError",
    "TensorNotFoundError", "VerificationError", "CancelledError", "__version__",
]  # fmt: skip

_Path: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
_Option: TypeAlias = str | int | float | bool | os.PathLike[str] | list[str] | tuple[str, ...] | None
_Progress: TypeAlias = bool | Callable[[int, int, str], object] | None
_Index: TypeAlias = SupportsIndex | slice | EllipsisType
_Device: TypeAlias = str | int | _torch.device | None

_T = TypeVar("_T")

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class _Array(Protocol):
    def __dlpack__(self) -> object: ...

def open(
    path: _Path, part: str | None = None, *, from_: str | None = None, mmap: bool = False,
    checksums: bool = True, follow_links: bool = False, **options: _Option
) -> Model: ...
def scan(
    path: _Path,
    steps: Iterable[str] = (),
    columns: Sequence[str] | None = None,
    *,
    part: str | None = None,
    from_: str | None = None,
    strict: bool = False,
    allow: Iterable[str] = (),
    follow_links: bool = False,
    **options: _Option,
) -> Scan: ...
def convert(
    src: _Path,
    dst: _Path,
    *,
    to: str | None = None,
    from_: str | None = None,
    part: str | None = None,
    steps: Iterable[str] = (),
    input_options: Mapping[str, _Option] | None = None,
    output_options: Mapping[str, _Option] | None = None,
    verify: bool = False,
    strict: bool = False,
    allow: Iterable[str] = (),
    receipt: bool = False,
    force: bool = False,
    sync: bool = False,
    dry_run: bool = False,
    allow_empty: bool = False,
    companions: Iterable[str] | None = None,
    follow_links: bool = False,
    progress: _Progress = False,
) -> Report: ...
def inspect(
    path: _Path, part: str | None = None, *, from_: str | None = None, follow_links: bool = False, **options: _Option
) -> Inspection: ...
def diff(
    a: _Path,
    b: _Path,
    *,
    part: str | None = None,
    steps: Iterable[str] = (),
    atol: float | None = None,
    rtol: float | None = None,
    strict: bool = False,
    allow: Iterable[str] = (),
    follow_links: bool = False,
    progress: _Progress = False,
    **options: _Option,
) -> Differences: ...
def check(
    path: _Path,
    expected: _Path | Mapping[str, tuple[str | None, Sequence[int] | None]],
    *,
    part: str | None = None,
    from_: str | None = None,
    **options: _Option,
) -> Differences: ...
def verify(
    *outputs: _Path, quick: bool = False, source: bool = False, progress: _Progress = False
) -> list[Verdict]: ...
def formats() -> dict[str, Format]: ...
def save(
    tensors: Mapping[str, _Array | Tensor | _numpy.ndarray[Any, Any] | _numpy.generic],
    path: _Path,
    metadata: Mapping[str, str] | None = None,
    *,
    to: str | None = None,
    output_options: Mapping[str, _Option] | None = None,
    force: bool = False,
    sync: bool = False,
    progress: _Progress = False,
) -> Report: ...
def write(
    data: _ArrowStream,
    path: _Path,
    *,
    to: str | None = None,
    output_options: Mapping[str, _Option] | None = None,
    force: bool = False,
    sync: bool = False,
    progress: _Progress = False,
) -> Report: ...
def run(
    manifest: _Path,
    *,
    variables: Mapping[str, object] | None = None,
    jobs: int | None = None,
    fail_fast: bool = False,
    dry_run: bool = False,
    report: _Path | None = None,
    progress: Callable[[dict[str, Any]], object] | None = None,
) -> RunSummary: ...
def configure(
    *,
    threads: int | None = None,
    memory: int | None = None,
    plugins: list[str | os.PathLike[str]] | None = None,
    limits: dict[str, int] | None = None,
    stores: dict[str, object] | None = None,
) -> None: ...

class Tensor:
    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def attributes(self) -> dict[str, object]: ...
    def __init__(
        self,
        model: Model,
        raw: Any,
        axes: tuple[range, ...] | None = None,
        dims: tuple[int, ...] | None = None,
    ) -> None: ...
    def __len__(self) -> int: ...
    __iter__: None
    def __bool__(self) -> NoReturn: ...
    def __eq__(self, other: object) -> NoReturn: ...
    def __hash__(self) -> int: ...
    def __getitem__(self, index: _Index | tuple[_Index, ...]) -> Tensor: ...
    def bytes(self) -> bytes: ...
    def numpy(self) -> _numpy.ndarray[Any, Any]: ...
    def torch(self, device: _Device = None) -> _torch.Tensor: ...
    def jax(self) -> _jax.Array: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> _numpy.ndarray[Any, Any]: ...
    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Model(Mapping[str, Tensor]):
    def __init__(self, raw: Any, again: tuple[object, ...], mapped: bool) -> None: ...
    def __getitem__(self, name: str) -> Tensor: ...
    @overload
    def get(self, key: str, default: None = None, /) -> Tensor | None: ...
    @overload
    def get(self, key: str, default: Tensor | _T, /) -> Tensor | _T: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> Model: ...
    def __exit__(self, *_: object) -> None: ...
    @property
    def path(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def metadata(self) -> dict[str, object]: ...
    @property
    def state(self) -> Any: ...
    @property
    def losses(self) -> tuple[Loss, ...]: ...
    @property
    def globals(self) -> list[str]: ...
    @property
    def ties(self) -> dict[str, str]: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def check_unchanged(self) -> None: ...
    def stats(self, glob: str | None = None, histogram: bool = False) -> dict[str, Statistics]: ...
    def numpy(self) -> dict[str, _numpy.ndarray[Any, Any]]: ...
    def torch(self, device: _Device = None) -> dict[str, _torch.Tensor]: ...
    def jax(self) -> dict[str, _jax.Array]: ...

class Scan:
    def __init__(self, raw: Any, again: tuple[object, ...]) -> None: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    @property
    def path(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def schema(self) -> dict[str, str]: ...
    @property
    def splits(self) -> int: ...
    @property
    def known_records(self) -> int | None: ...
    @property
    def losses(self) -> tuple[Loss, ...]: ...
    @property
    def error(self) -> Error | None: ...
    def split(self, number: int) -> _ArrowStream: ...
    def to_pyarrow(self) -> pyarrow.RecordBatchReader: ...

class _Document:
    def __init__(self, entries: dict[str, Any]) -> None: ...
    def as_dict(self) -> dict[str, Any]: ...

class Loss(_Document):
    kind: str
    severity: Literal["lost", "changed", "note"]
    asked: bool
    what: str
    why: str

class Histogram(_Document):
    edges: list[float]
    counts: list[int]

class Statistics(_Document):
    # Only for numbers.
    count: int
    finite: int
    min: float | None
    max: float | None
    mean: float | None
    std: float | None
    zeros: int
    nan: int
    posinf: int
    neginf: int
    subnormals: int
    saturated: int
    zero_rows: int | None
    histogram: Histogram | None
    dequantized: bool
    # Only for strings, in addition to `count`.
    empty: int
    min_length: int | None
    max_length: int | None
    mean_length: float | None
    total_length: int
    # Only for a dtype whose values are unknown; the other entries are then missing.
    problem: str | None

class TensorInfo(_Document):
    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    tied_to: str | None

class ColumnInfo(_Document):
    name: str
    type: str
    # The shape of each value, with `None` for a variable length.
    shape: list[int | None] | None

class Report(_Document):
    input: str
    output: str
    files_read: int
    format: str
    tensors: int
    records: int | None
    bytes: int
    seconds: float
    verified: bool
    losses: tuple[Loss, ...]
    files: list[str]
    receipt: str | None
    notes: list[str]
    dry_run: bool

class Inspection(_Document):
    format: str
    tensors: dict[str, TensorInfo]
    columns: dict[str, ColumnInfo]
    records: int | None
    metadata: dict[str, Any]
    globals: list[str]
    losses: tuple[Loss, ...]

class Difference(_Document):
    kind: str
    name: str
    # The text of each side. Missing if only one side has the tensor, or if its values differ.
    a: Any
    b: Any
    # Only for the kind "attribute".
    attribute: str | None
    # Only if both sides have numbers of the same shape.
    elements: int | None
    of: int | None
    nan: int | None
    largest: float | str | None
    largest_at: list[int] | None
    largest_values: list[float | str] | None
    relative: float | str | None
    relative_at: list[int] | None
    relative_values: list[float | str] | None
    cosine: float | None
    # Only for a column whose values differ.
    records: int | None
    first: int | None

class Differences(_Document):
    equal: bool
    differences: list[Difference]
    # Only for tensors.
    tensors: int | None
    # Only for records.
    columns: int | None
    records: dict[str, int] | None
    def __bool__(self) -> bool: ...

class Verdict(_Document):
    verdict: Literal["ok", "no receipt", "unreadable", "missing", "changed"]
    output: str
    receipt: str | None
    problems: list[dict[str, Any]] | None
    error: str | None
    files: int | None
    tensors: int | None
    records: int | None
    bytes: int | None

class Format(_Document):
    id: str
    title: str
    suffixes: list[str]
    reads: bool
    writes: bool
    reads_records: bool
    writes_records: bool
    indexes: bool
    keeps: dict[str, bool]
    members: list[str]
    attributes: dict[str, Any]
    output_revision: int
    options: list[dict[str, Any]]
    plugin: dict[str, Any] | None
    library: str | None

class RunSummary(_Document):
    manifest: str
    ferry: str
    started: str
    budget: dict[str, Any]
    totals: dict[str, int]
    jobs: list[dict[str, Any]]
    interrupted: bool
    seconds: float
    report_page: str
    notes: list[str]
    # Only after a dry run, which sets no other entries.
    plan: dict[str, Any] | None

class StateObject:
    kind: str
    parts: tuple[object, ...]
    def __init__(self, kind: str, parts: tuple[object, ...]) -> None: ...

class Error(Exception):
    kind: str
    message: str
    file: str | None
    tensor: str | None
    column: str | None
    record: int | None
    offset: int | None
    expected: str | None
    found: str | None
    hint: str | None

class MalformedError(Error, ValueError): ...
class UnsupportedError(Error, NotImplementedError): ...
class LimitError(Error, ValueError): ...
class _SystemError(Error, OSError):
    errno: int | None
    strerror: str | None
    filename: str | None

class SystemFault(_SystemError): ...
class TransientError(SystemFault): ...
class PluginError(Error, RuntimeError): ...
class UsageError(Error, ValueError): ...
class NotFoundError(UsageError, _SystemError, FileNotFoundError): ...
class OutputExistsError(UsageError, _SystemError, FileExistsError): ...
class TensorNotFoundError(UsageError, KeyError): ...
class VerificationError(Error, RuntimeError): ...
class CancelledError(Error, RuntimeError): ...
