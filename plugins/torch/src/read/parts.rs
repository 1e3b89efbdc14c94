//! Detects files that declare other ranks. Their tensors are parts of a model's tensors, whatever
//! the file is called.

use tensorferry_torch_file::ObjectFile;
use tensorferry_torch_file::pickle::{Graph, ValueId};

/// Where frameworks store the number of ranks, as a path of keys and attributes.
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

/// Describes the set that the file is part of: `one of 2 ranks, according to
/// "shard_metadata.world_size"`. Returns `None` if the file does not declare any.
pub(super) fn part_of(object: &ObjectFile) -> Option<String> {
    let graph = object.graph();
    COUNTS.iter().find_map(|(path, ranks)| {
        let value =
            path.iter().try_fold(object.root(), |value, key| graph.entry(attributes(graph, value), key));
        let count = graph.int(value?).filter(|count| *count > 1)?;
        Some(format!("one of {count} {ranks}, according to {:?} in the file", path.join(".")))
    })
}

/// Returns the dict of a namespace's attributes, or the value itself if it is not a namespace.
fn attributes(graph: &Graph, value: ValueId) -> ValueId {
    let called = graph.called(value);
    let namespace = called.filter(|(global, _)| matches!(&*global.name, "Namespace" | "SimpleNamespace"));
    namespace.and_then(|(_, call)| call.state).unwrap_or(value)
}
