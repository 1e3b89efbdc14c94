//! Lists the calls that only represent data. Their arguments contain the result, so nothing is lost
//! if the calls are not executed.

use crate::pickle::{Call, Global, Graph, ValueId};
use crate::{numpy, rebuild};

/// torchao enumerations that describe how a kernel processes quantized codes, or how the codes were
/// computed. The codes, scales and zero points are stored separately.
const TORCHAO_ENUMS: [&str; 9] = [
    "KernelPreference",
    "Int4PackingFormat",
    "IntxPackingFormat",
    "Float8PackingFormat",
    "Int4ChooseQParamsAlgorithm",
    "IntxChooseQParamsAlgorithm",
    "MappingType",
    "ZeroPointDomain",
    "TorchAODType",
];

/// Returns whether a call of this global only represents data. Other calls may have side effects,
/// so they are reported.
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
        "types" => name == "SimpleNamespace",
        "datetime" => matches!(name, "datetime" | "date" | "time" | "timedelta" | "timezone"),
        "pathlib" | "pathlib._local" => name.ends_with("Path"),
        "numpy" => matches!(name, "dtype" | "ndarray"),
        "numpy.core.multiarray" | "numpy._core.multiarray" => matches!(name, "scalar" | "_reconstruct"),
        "torch" => matches!(name, "Size" | "device"),
        "torch._utils" => matches!(name, "_rebuild_parameter" | "_rebuild_parameter_with_state"),
        "torch.serialization" => name == "_get_layout",
        module => module.starts_with("torchao.") && TORCHAO_ENUMS.contains(&name),
    }
}

/// Returns whether the function creates a tensor, a parameter or an array from its arguments.
pub(crate) fn rebuilds(global: &Global) -> bool {
    rebuild::is_rebuild(global) || numpy::makes_array(global)
}

/// Returns the function that `_rebuild_from_type_v2` calls with its arguments. Returns `None` if
/// that function is one of torch's own tensor functions.
pub(crate) fn forwarded_function(graph: &Graph, global: &Global, call: &Call) -> Option<ValueId> {
    let is_passed_on = global.is("torch._tensor", "_rebuild_from_type_v2");
    let function = *graph.tuple(call.arguments).filter(|_| is_passed_on)?.first()?;
    let is_known = graph.global(function).is_none_or(rebuild::is_rebuild);
    (!is_known).then_some(function)
}
