"""For programs that load weights as `safetensors.torch` does: the same functions, for every format.

    from tensorferry.torch import load_file
    model.load_state_dict(load_file("model.gguf"))
"""

from __future__ import annotations

from ._api import open as _open
from ._api import save as _save

__all__ = ["load_file", "load_model", "save_file"]


def load_file(filename, device=None, *, part=None, mmap=False, **options):  # type: ignore[no-untyped-def]
    """All tensors of a file or folder by name, as torch's, on a device. Shapes and dtypes are the input's.

    `part`, `mmap` and `options` are those of `tensorferry.open`.
    """
    with _open(filename, part, mmap=mmap, **options) as model:
        return model.torch(device)


def load_model(model, filename, strict=True, device=None, *, part=None, **options):  # type: ignore[no-untyped-def]
    """Loads a file or folder into a `torch.nn.Module`. Gives the names that the file lacks, and those that it has
    beyond the module's.

    Names under which a module has another's tensor again need not be in the file. With `strict`, any other missing or
    unexpected name raises `RuntimeError`, as `load_state_dict` does.
    """
    loaded = load_file(filename, part=part, **options)
    own = model.state_dict(keep_vars=True)
    missing, unexpected = model.load_state_dict(loaded, strict=False)
    # A tensor that was loaded under another name is there.
    there = {id(own[name]) for name in loaded if name in own}
    missing = [name for name in missing if id(own.get(name)) not in there]
    if strict and (missing or unexpected):
        told = [f"{what}: {', '.join(map(repr, sorted(names)))}" for what, names in
                (("missing", missing), ("unexpected", unexpected)) if names]
        raise RuntimeError(f"{filename} is not of a {type(model).__name__}: {'; '.join(told)}")
    if device is not None:
        model.to(device)
    return missing, list(unexpected)


def save_file(tensors, filename, metadata=None, **options):  # type: ignore[no-untyped-def]
    """Writes tensors by name; shared and non-contiguous ones too. `options` are those of `tensorferry.save`."""
    return _save(tensors, filename, metadata, **options)
