import os
from collections.abc import Mapping
from typing import Any

import torch

from . import Report, _Option, _Path

__all__ = ["load_file", "load_model", "save_file"]

def load_file(
    filename: _Path,
    device: str | int | torch.device | None = None,
    *,
    part: str | None = None,
    mmap: bool = False,
    **options: _Option,
) -> dict[str, torch.Tensor]: ...
def load_model(
    model: torch.nn.Module,
    filename: _Path,
    strict: bool = True,
    device: str | int | torch.device | None = None,
    *,
    part: str | None = None,
    **options: _Option,
) -> tuple[list[str], list[str]]: ...
def save_file(
    tensors: Mapping[str, torch.Tensor],
    filename: _Path,
    metadata: Mapping[str, str] | None = None,
    **options: Any,
) -> Report: ...
