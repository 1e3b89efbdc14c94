//! A known call is one that only holds data: what it would give is written in its arguments, so
//! nothing of it is lost when it is not made.

use crate::pickle::Global;

/// Whether the global is such a function or class. What is not listed may do anything when it is
/// called, and is reported.
pub(crate) fn holds_data(global: &Global) -> bool {
    let name = &*global.name;
    match &*global.module {
        "collections" => matches!(name, "OrderedDict" | "Counter" | "defaultdict" | "deque"),
        "builtins" => matches!(
            name,
            "set"
                | "frozenset"
                | "complex"
                | "bytearray"
                | "bytes"
                | "list"
                | "tuple"
                | "dict"
                | "slice"
                | "range"
        ),
        "_codecs" => name == "encode",
        "copyreg" => name == "_reconstructor",
        "argparse" => name == "Namespace",
        "datetime" => matches!(name, "datetime" | "date" | "time" | "timedelta" | "timezone"),
        "pathlib" | "pathlib._local" => name.ends_with("Path"),
        "numpy" => matches!(name, "dtype" | "ndarray"),
        "numpy.core.multiarray" | "numpy._core.multiarray" => matches!(name, "scalar" | "_reconstruct"),
        "torch" => matches!(name, "Size" | "device"),
        "torch._utils" => matches!(name, "_rebuild_parameter" | "_rebuild_parameter_with_state"),
        "torch.serialization" => name == "_get_layout",
        _ => false,
    }
}
