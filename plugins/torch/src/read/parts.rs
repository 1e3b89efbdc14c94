//! Detects files whose content declares more than one rank. Regardless of its name, such a file
//! contains only parts of the model's tensors.

use tensorferry_torch_file::ObjectFile;
use tensorferry_torch_file::pickle::{Graph, ValueId};

/// Paths of keys and attributes at which frameworks store a number of ranks, and the unit that each
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

/// Returns a description of the part that the file contains, such as `one of 2 ranks, according to
/// "shard_metadata.world_size"`. Returns `None` if the file does not declare more than one rank.
pub(super) fn part_of(object: &ObjectFile) -> Option<String> {
    let graph = object.graph();
    COUNTS.iter().find_map(|(path, ranks)| {
        let value =
            path.iter().try_fold(object.root(), |value, key| graph.entry(attributes(graph, value), key));
        let count = graph.int(value?).filter(|count| *count > 1)?;
        Some(format!("one of {count} {ranks}, according to {:?} in the file", path.join(".")))
    })
}

/// If the value is a namespace object, returns the dict of its attributes. Otherwise, returns the
/// value itself.
fn attributes(graph: &Graph, value: ValueId) -> ValueId {
    let called = graph.called(value);
    let namespace = called.filter(|(global, _)| matches!(&*global.name, "Namespace" | "SimpleNamespace"));
    namespace.and_then(|(_, call)| call.state).unwrap_or(value)
}
