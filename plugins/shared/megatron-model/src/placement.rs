//! Determines how the parts of a parameter on the tensor-parallel ranks form the whole parameter.
//! The result depends on the name of the parameter. For a gated MLP, it also depends on the shapes.
//!
//! | Module | Weight | Bias |
//! |---|---|---|
//! | column-parallel: query, key, value, first MLP module | rows | rows |
//! | row-parallel: attention output, second MLP module | columns | the same on all ranks |
//! | embedding and output layer | rows of the vocabulary | rows |
//! | norms, positions, routers, MLA down projections | the same on all ranks | the same on all ranks |
//!
//! In Transformer Engine, a norm is inside the module that follows it, as in
//! `linear_qkv.layer_norm_weight`.

use tensorferry_sdk::{Error, Result};

/// The relation between the parts of a parameter and the whole parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// All ranks contain the same tensor.
    Replicated,
    /// The parts are concatenated along this dimension.
    Along(usize),
    /// The parts are rows of the vocabulary, which may be padded.
    Vocabulary,
    /// The parts are rows of the first MLP module. If the MLP is gated, the gate rows of all ranks
    /// precede the other rows in the whole parameter.
    MaybeGated,
    /// The name does not determine the placement. If the tensor is the same on all ranks, it is
    /// considered replicated.
    Unknown,
    /// The tensor consists of several sections that are split separately. The string describes the
    /// tensor.
    Unsupported(&'static str),
}

const COLUMN: [&str; 10] = [
    "linear_qkv",
    "linear_q",
    "linear_kv",
    "linear_q_proj",
    "linear_q_up_proj",
    "linear_kv_up_proj",
    "eh_proj",
    "query_key_value",
    "query",
    "key_value",
];
const ROW: [&str; 3] = ["linear_proj", "linear_fc2", "dense_4h_to_h"];
const ATTENTION: [&str; 4] = ["self_attention", "attention", "inter_attention", "cross_attention"];
const VOCABULARY: [&str; 4] = ["word_embeddings", "word_embeddings_for_head", "output_layer", "final_linear"];
const REPLICATED: [&str; 7] = [
    "position_embeddings",
    "tokentype_embeddings",
    "router",
    "linear_q_down_proj",
    "linear_kv_down_proj",
    "pooler",
    "rotary_pos_emb",
];
/// Names of the first and the second MLP module, in pairs.
const MLP: [(&str, &str); 2] = [("linear_fc1", "linear_fc2"), ("dense_h_to_4h", "dense_4h_to_h")];

/// Returns how the parts of the parameter with this name form the whole.
#[must_use]
pub fn placement(name: &str) -> Placement {
    let mut parts = name.rsplit('.');
    let mut part = || parts.next().unwrap_or_default();
    let (leaf, module, parent) = (part(), part(), part());
    if leaf.starts_with("layer_norm_") || leaf == "gate_weight" {
        return Placement::Replicated;
    }
    if name.contains(".mixer.") {
        return Placement::Unsupported(
            "a Mamba mixer: its projections have several sections that are split separately",
        );
    }
    if module == "experts" && leaf.starts_with("weight") {
        return Placement::Unsupported(
            "grouped experts in one tensor, whose shape does not determine the parts",
        );
    }
    let kind = leaf.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_row = ROW.contains(&module) || (module == "dense" && ATTENTION.contains(&parent));
    match kind {
        "softmax_offset" => Placement::Along(0),
        "weight" if is_row => Placement::Along(1),
        "bias" if is_row => Placement::Replicated,
        "weight" | "bias" if COLUMN.contains(&module) => Placement::Along(0),
        "weight" | "bias" if VOCABULARY.contains(&module) => Placement::Vocabulary,
        "bias" if module == "lm_head" => Placement::Vocabulary,
        "weight" | "bias" if MLP.iter().any(|(first, _)| *first == module) => Placement::MaybeGated,
        _ if REPLICATED.contains(&module) || module.ends_with("norm") || module == "dense" => {
            Placement::Replicated
        }
        _ => Placement::Unknown,
    }
}

/// Given a parameter of the first MLP module, returns the name of the second module's weight.
#[must_use]
pub fn second_of_mlp(name: &str) -> Option<String> {
    let (path, leaf) = name.rsplit_once('.')?;
    let (first, second) = MLP.into_iter().find(|(first, _)| path.ends_with(first))?;
    let leaf = leaf.replace("bias", "weight");
    Some(format!("{}{second}.{leaf}", path.strip_suffix(first)?))
}

/// Returns the number of fused tensors in an attention parameter, if earlier versions of Megatron
/// stored the rows of this parameter in a different order.
#[must_use]
pub fn fused(name: &str) -> Option<u64> {
    let module = name.rsplit('.').nth(1)?;
    match module {
        "query_key_value" => Some(3),
        "key_value" => Some(2),
        _ => None,
    }
}

/// Returns whether the parameter is the weight of the output layer, which may be tied to the
/// embedding.
#[must_use]
pub fn is_output(name: &str) -> bool {
    matches!(
        name,
        "output_layer.weight" | "language_model.output_layer.weight" | "word_embeddings_for_head.weight"
    )
}

/// Returns whether the parameter is the embedding, to which the output layer may be tied.
#[must_use]
pub fn is_embedding(name: &str) -> bool {
    name.ends_with("embedding.word_embeddings.weight")
}

/// Returns whether the first module of an MLP is gated. A gated module has twice as many rows as
/// the second module has columns. `shape_of` returns the shape of the second module's weight, and
/// `declared` is the setting in the arguments of the run. Fails if the sizes match neither a gated
/// nor an ungated module, if they contradict the arguments, or if there is not enough information.
pub fn is_gated<'s>(
    name: &str,
    rows: Option<u64>,
    shape_of: impl Fn(&str) -> Option<&'s [u64]>,
    declared: Option<bool>,
) -> Result<bool> {
    let columns = second_of_mlp(name).and_then(|second| shape_of(&second)?.get(1).copied());
    let (Some(rows), Some(columns)) = (rows, columns.filter(|&columns| columns > 0)) else {
        return declared.ok_or_else(|| {
            Error::unsupported("cannot tell whether the MLP is gated").expected("args with swiglu")
        });
    };
    let found = match rows / columns {
        1 if rows == columns => false,
        2 if rows == 2 * columns => true,
        _ => {
            return Err(Error::malformed("the two modules of an MLP do not match")
                .expected(format!("{columns} rows, or twice as many"))
                .found(rows));
        }
    };
    match declared {
        Some(declared) if declared != found => {
            Err(Error::malformed("the arguments contradict the shapes of the MLP")
                .expected(if declared {
                    "swiglu: twice as many rows as the second module has columns"
                } else {
                    "no gate: as many rows as the second module has columns"
                })
                .found(format!("{rows} rows, {columns} columns")))
        }
        _ => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_how_parts_belong_together() {
        for (name, expected) in [
            ("decoder.layers.0.self_attention.linear_qkv.weight", Placement::Along(0)),
            ("decoder.layers.0.self_attention.linear_qkv.layer_norm_weight", Placement::Replicated),
            ("decoder.layers.0.self_attention.linear_proj.weight", Placement::Along(1)),
            ("decoder.layers.0.self_attention.linear_proj.bias", Placement::Replicated),
            ("language_model.encoder.layers.0.self_attention.dense.weight", Placement::Along(1)),
            ("lm_head.dense.weight", Placement::Replicated),
            ("lm_head.bias", Placement::Vocabulary),
            ("decoder.layers.0.mlp.linear_fc1.bias", Placement::MaybeGated),
            ("decoder.layers.0.mlp.experts.local_experts.3.linear_fc2.weight", Placement::Along(1)),
            ("decoder.layers.0.mlp.experts.linear_fc2.weight11", Placement::Along(1)),
            ("decoder.layers.0.mlp.router.expert_bias", Placement::Replicated),
            ("decoder.layers.0.self_attention.q_layernorm.weight", Placement::Replicated),
            ("decoder.layers.0.something.weight", Placement::Unknown),
        ] {
            assert_eq!(placement(name), expected, "{name}");
        }
        assert!(matches!(placement("decoder.layers.0.mixer.in_proj.weight"), Placement::Unsupported(_)));
        assert!(matches!(placement("decoder.layers.0.mlp.experts.weight1"), Placement::Unsupported(_)));
        assert_eq!(second_of_mlp("a.mlp.linear_fc1.bias").as_deref(), Some("a.mlp.linear_fc2.weight"));
        assert_eq!(second_of_mlp("e.linear_fc1.weight3").as_deref(), Some("e.linear_fc2.weight3"));
        assert_eq!(
            second_of_mlp("a.mlp.dense_h_to_4h.weight").as_deref(),
            Some("a.mlp.dense_4h_to_h.weight")
        );
    }
}
