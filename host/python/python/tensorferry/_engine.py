"""The engine, created on first use with the formats of the package and the plugins that the user installed."""

from __future__ import annotations

import os
import threading

from . import _native

_HERE = os.path.dirname(os.path.abspath(__file__))
_lock = threading.Lock()
_engine: _native.Engine | None = None
_settings: dict[str, object] = {}

# If the process forked while another thread created the engine, the lock would never be released in
# the child.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def configure(
    *,
    threads: int | None = None,
    memory: int | None = None,
    plugins: list[str | os.PathLike[str]] | None = None,
    limits: dict[str, int] | None = None,
    stores: dict[str, object] | None = None,
) -> None:
    """Sets the resources and settings of the engine for later calls. Inputs that are already open keep the old settings.

    Args:
        threads: The number of worker threads. The default is the number of processors.
        memory: The bytes of buffers for all threads together. The default is 256 MiB.
        plugins: Additional folders of plugin libraries.
        limits: Limits on what an input may claim, by name, such as `{"tensors": 10_000_000}`. `ferry formats` lists
            them.
        stores: Settings for S3, other object stores, web servers and the Hugging Face Hub, such as
            `{"s3.endpoint": "http://localhost:9000"}`. The guide lists the keys. Credentials in the environment are
            used too.

    Raises:
        UsageError: A limit or setting does not exist.

    Example:
        >>> tensorferry.configure(memory=64 << 20, limits={"tensors": 10_000})
    """
    global _engine
    settings: dict[str, object] = {
        "threads": threads,
        "memory": memory,
        "plugins": plugins,
        "limits": limits,
        "stores": stores,
    }
    made = _make(settings)
    with _lock:
        _settings.clear()
        _settings.update(settings)
        _engine = made


def engine() -> _native.Engine:
    """Returns the engine of this process."""
    global _engine
    found = _engine
    if found is None:
        with _lock:
            found = _engine
            if found is None:
                found = _engine = _make(_settings)
    return found


def program() -> str:
    """Returns the path of the program in the package."""
    return os.path.join(_HERE, "_bin", "ferry")


def _make(settings: dict[str, object]) -> _native.Engine:
    threads, memory = settings.get("threads"), settings.get("memory")
    for name, value in (("threads", threads), ("memory", memory)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ValueError(f"{name} must be an integer of at least 1, not {value!r}")
    if isinstance(settings.get("plugins"), (str, os.PathLike)):
        raise TypeError(f"plugins must be a list of folders, not a single one: [{settings['plugins']!r}]")
    return _native.Engine(
        program(),
        os.path.join(_HERE, "_bin", "plugins"),
        [os.fspath(folder) for folder in settings.get("plugins") or ()] + _others(),  # type: ignore[attr-defined]
        _folder("XDG_CACHE_HOME", ".cache", "plugins"),
        threads,
        memory,
        settings.get("limits") or {},
        [f"{key}={_word(value)}" for key, value in (settings.get("stores") or {}).items()],  # type: ignore[attr-defined]
    )


def _word(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _others() -> list[str]:
    """Returns the folders, other than its own, where the program looks for plugins, in search order."""
    named = os.environ.get("FERRY_PLUGIN_PATH", "").split(os.pathsep)
    own = _folder("XDG_DATA_HOME", ".local/share", "plugins")
    return [folder for folder in [*named, own] if folder]


def _folder(variable: str, otherwise: str, name: str) -> str | None:
    given = os.environ.get(variable, "")
    home = os.environ.get("HOME", "")
    if not os.path.isabs(given):
        given = os.path.join(home, otherwise) if os.path.isabs(home) else ""
    return os.path.join(given, "ferry", name) if given else None
