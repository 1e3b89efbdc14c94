"""Reads, converts and writes tensors and records in many file formats.

    with tensorferry.open("model.gguf") as model:      # names, dtypes and shapes; no data is read yet
        weight = model["blk.0.attn_q.weight"].numpy()  # one tensor
    tensorferry.convert("model.pt", "model.safetensors", steps=["cast:bf16"])
    tensorferry.scan("rows.tfrecord").to_pyarrow().read_all()

Importing this module loads neither the engine nor any framework, and does not change the process.
The first use of a name loads it from `_api.py`, `_model.py`, `_tensor.py` or another module.
"""

# Editors read these imports to show the docstrings; nothing is imported at run time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._api import check, convert, diff, formats, inspect, open, run, save, scan, verify, write
    from ._engine import configure
    from ._errors import (
        CancelledError,
        Error,
        LimitError,
        MalformedError,
        NotFoundError,
        OutputExistsError,
        PluginError,
        SystemFault,
        TensorNotFoundError,
        TransientError,
        UnsupportedError,
        UsageError,
        VerificationError,
    )
    from ._model import Model
    from ._results import (
        ColumnInfo,
        Difference,
        Differences,
        Format,
        Histogram,
        Inspection,
        Loss,
        Report,
        RunSummary,
        StateObject,
        Statistics,
        TensorInfo,
        Verdict,
    )
    from ._scan import Scan
    from ._tensor import Tensor

_PLACES = {
    "open": "_api",
    "convert": "_api",
    "inspect": "_api",
    "diff": "_api",
    "check": "_api",
    "verify": "_api",
    "formats": "_api",
    "save": "_api",
    "run": "_api",
    "scan": "_api",
    "write": "_api",
    "configure": "_engine",
    "Model": "_model",
    "Tensor": "_tensor",
    "Scan": "_scan",
    "Report": "_results",
    "Inspection": "_results",
    "Statistics": "_results",
    "Histogram": "_results",
    "TensorInfo": "_results",
    "ColumnInfo": "_results",
    "Difference": "_results",
    "Differences": "_results",
    "Verdict": "_results",
    "Format": "_results",
    "RunSummary": "_results",
    "Loss": "_results",
    "StateObject": "_results",
    "Error": "_errors",
    "MalformedError": "_errors",
    "UnsupportedError": "_errors",
    "LimitError": "_errors",
    "SystemFault": "_errors",
    "TransientError": "_errors",
    "PluginError": "_errors",
    "UsageError": "_errors",
    "NotFoundError": "_errors",
    "OutputExistsError": "_errors",
    "TensorNotFoundError": "_errors",
    "VerificationError": "_errors",
    "CancelledError": "_errors",
}

__all__ = [*_PLACES, "__version__"]


def __getattr__(name):
    if name == "__version__":
        from importlib import import_module

        value = import_module("tensorferry._native").version
    elif name in _PLACES:
        from importlib import import_module

        value = getattr(import_module("tensorferry." + _PLACES[name]), name)
    else:
        raise AttributeError(f"module 'tensorferry' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
