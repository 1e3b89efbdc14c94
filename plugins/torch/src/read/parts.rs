//! Detects files that declare more than one rank. Such a file contains only parts of the model's
//! tensors, whatever its name is.

use tensorferry_torch_file::ObjectFile;
use tensorferry_torch_file::pickle::{Graph, ValueId};

/// Paths of keys and attributes under which frameworks store the number of ranks, and what the
/// number counts.
const COUNTS: [(&[&str], &str); 6] = [
    // DeepSpeed.
    (&["mp_world_size"], "tensor-parallel ranks"),
    // torch_xla.
    (&["shard_metadata", "world_size"], "ranks"),
    // Megatron-LM.
    (&["args", "tensor_model_parallel_size"], "tensor-parallel ranks"),
    (&["args", "model_parallel_size"], "tensor-parallel ranks"),
    (&["args", "pipeline_model_parallel_size"], "pipeline stages"),
    (&["args", "expert_model_parallel_size"], "expert-parallel ranks"),
];

/// Returns a description of the set of files that this file belongs to: `one of 2 ranks, according
/// to "shard_metadata.world_size"`. Returns `None` if the file does not declare other ranks.
pub(super) fn part_of(object: &ObjectFile) -> Option<String> {
    let graph = object.graph();
    COUNTS.iter().find_map(|(path, ranks)| {
        let value =
            path.iter().try_fold(object.root(), |value, key| graph.entry(attributes(graph, value), key));
        let count = graph.int(value?).filter(|count| *count > 1)?;
        Some(format!("one of {count} {ranks}, according to {:?} in the file", path.join(".")))
    })
}

/// Returns the dict of attributes if the value is a namespace; otherwise, the value itself.
fn attributes(graph: &Graph, value: ValueId) -> ValueId {
    let called = graph.called(value);
    let namespace = called.filter(|(global, _)| matches!(&*global.name, "Namespace" | "SimpleNamespace"));
    namespace.and_then(|(_, call)| call.state).unwrap_or(value)
}
