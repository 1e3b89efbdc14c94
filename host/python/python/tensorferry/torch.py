"""The functions of `safetensors.torch`, for every format.

    from tensorferry.torch import load_file
    model.load_state_dict(load_file("model.gguf"))
"""

from __future__ import annotations

from ._api import open as _open
from ._api import save as _save

__all__ = ["load_file", "load_model", "save_file"]


def load_file(filename, device=None, *, part=None, mmap=False, **options):  # type: ignore[no-untyped-def]
    """Reads all tensors of a file or folder. Shapes and dtypes are those of the input.

    Args:
        filename: A file, a folder or a URL.
        device: The device of the tensors. By default they are on the CPU.
        part: A branch of the input, as for `tensorferry.open`.
        mmap: Whether to map the file, as for `tensorferry.open`.
        **options: Other options of `tensorferry.open`.

    Returns:
        The tensors by name.
    """
    with _open(filename, part, mmap=mmap, **options) as model:
        return model.torch(device)


def load_model(model, filename, strict=True, device=None, *, part=None, **options):  # type: ignore[no-untyped-def]
    """Loads a file or folder into a `torch.nn.Module`.

    If tensors of the module are tied, the file needs to contain only one of them.

    Args:
        model: The module.
        filename: A file, a folder or a URL.
        strict: If true, other missing or unexpected names are an error.
        device: The device to move the module to.
        part: A branch of the input, as for `tensorferry.open`.
        **options: Other options of `tensorferry.open`.

    Returns:
        The names that are missing from the file, and the names that the module does not have.

    Raises:
        RuntimeError: With `strict`, names are missing or unexpected.
    """
    loaded = load_file(filename, part=part, **options)
    own = model.state_dict(keep_vars=True)
    missing, unexpected = model.load_state_dict(loaded, strict=False)
    # A tied tensor that was loaded under another name is not missing.
    there = {id(own[name]) for name in loaded if name in own}
    missing = [name for name in missing if id(own.get(name)) not in there]
    if strict and (missing or unexpected):
        told = [f"{what}: {', '.join(map(repr, sorted(names)))}" for what, names in
                (("missing", missing), ("unexpected", unexpected)) if names]
        raise RuntimeError(f"{filename} does not match {type(model).__name__}: {'; '.join(told)}")
    if device is not None:
        model.to(device)
    return missing, list(unexpected)


def save_file(tensors, filename, metadata=None, **options):  # type: ignore[no-untyped-def]
    """Writes tensors by name, including shared and non-contiguous ones. `options` are those of `tensorferry.save`."""
    return _save(tensors, filename, metadata, **options)
