"""Datasets and manifests on a Ray cluster: `pip install 'tensorferry[ray]'`.

    rows = tensorferry.ray.read("train/*.tfrecord")              # a ray.data.Dataset of Arrow blocks
    tensorferry.ray.write(rows.random_shuffle(), "shuffled/part.parquet")
    tensorferry.ray.run("zoo.toml")                              # all jobs of a manifest, on all nodes

Importing this module loads neither Ray nor the engine. The first use of a function loads it from
`_read.py`, `_write.py` or `_run.py`.
"""

_PLACES = {"read": "_read", "write": "_write", "run": "_run", "Summary": "_run"}

__all__ = ["read", "write", "run", "Summary"]


def __getattr__(name):
    if name not in _PLACES:
        raise AttributeError(f"module 'tensorferry.ray' has no attribute {name!r}")
    from importlib import import_module

    try:
        value = getattr(import_module("tensorferry.ray." + _PLACES[name]), name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("ray", "pyarrow", "pandas"):
            raise
        raise ModuleNotFoundError(
            f"tensorferry.ray needs {missing.name}: pip install 'tensorferry[ray]'", name=missing.name
        ) from None
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
