from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import ray.data as _data

from .. import Report, _Document, _Option, _Path

__all__ = ["read", "write", "run", "Summary"]

class Summary(_Document):
    # `done`, `unchanged`, `failed`, `cancelled`, `losses`.
    totals: dict[str, int]
    failures: list[dict[str, Any]]
    exit_code: int
    pieces: int
    bytes_in: int
    bytes_out: int
    seconds: float
    plan: str
    notes: list[str]

def read(
    path: _Path,
    steps: Iterable[str] = (),
    columns: Sequence[str] | None = None,
    *,
    part: str | None = None,
    from_: str | None = None,
    override_num_blocks: int | None = None,
    concurrency: int | None = None,
    num_cpus: float | None = None,
    **options: _Option,
) -> _data.Dataset: ...
def write(
    ds: _data.Dataset,
    path: _Path,
    *,
    to: str | None = None,
    output_options: Mapping[str, _Option] | None = None,
    mode: Literal["error", "overwrite", "ignore"] = "error",
    sync: bool = False,
    concurrency: int | None = None,
    num_cpus: float | None = None,
) -> Report: ...
def run(
    manifest: _Path,
    *,
    plan: _Path | None = None,
    address: str | None = None,
    variables: Mapping[str, object] | None = None,
    only: Iterable[str] = (),
    actors: int | None = None,
    num_cpus: float = 1,
    memory: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] = True,
    timeout: float = 60.0,
    piece_timeout: float | None = None,
    retries: int = 3,
) -> Summary: ...
