//! Converts between the names of a model's parameters and the tensor names in a `torch_dist`
//! checkpoint. In a checkpoint, one tensor contains a parameter for all layers in a stack, or for
//! all experts:
//!
//! | In the model | In the checkpoint | Additional leading dimensions |
//! |---|---|---|
//! | `decoder.layers.7.mlp.linear_fc1.weight` | `decoder.layers.mlp.linear_fc1.weight` | layers |
//! | `decoder.layers.7.mlp.experts.local_experts.3.linear_fc1.weight` | `decoder.layers.mlp.experts.experts.linear_fc1.weight` | layers, experts |
//! | `decoder.layers.7.mlp.experts.linear_fc1.weight3` | the same | layers, experts |
//! | `decoder.layers.7.input_layernorm.weight` | `decoder.layers.self_attention.linear_qkv.layer_norm_weight` | layers |
//!
//! If the layers of a model are not all alike, the names in its checkpoints contain the layer
//! numbers. With `singleton_local_shards`, the names contain the expert numbers, and the halves of
//! a gated MLP are separate tensors, `weight_w` and `weight_v`.
//!
//! A norm that precedes a module has the name that Transformer Engine uses, because Transformer
//! Engine fuses such a norm with the module.

use crate::names::{expert, is_counted, numbered};
use std::collections::BTreeSet;

/// The part of a checkpoint name between the modules of a layer and the modules of an expert.
const EXPERTS: &str = ".experts.experts.";
const LOCAL_EXPERTS: &str = ".experts.local_experts.";

/// Returns whether the tensor with this name in a checkpoint has a leading dimension for layers,
/// and whether it has a leading dimension for experts.
#[must_use]
pub fn stacked_dims(key: &str) -> [bool; 2] {
    let is_word =
        |after: &str| after.starts_with(|c: char| c.is_ascii_lowercase() || c == '_') && after.contains('.');
    let layers = layers_in(key).is_some_and(|(_, after)| is_word(after));
    let experts = key.split_once(EXPERTS).is_some_and(|(_, after)| is_word(after));
    [layers, experts]
}

/// Returns the parameter name for a slice of a tensor in a checkpoint. `layer` and `expert` are the
/// indices of the slice, if the tensor has these dimensions.
#[must_use]
pub fn slice_name(key: &str, layer: Option<u64>, expert: Option<u64>) -> String {
    let mut name = key.to_owned();
    if let (Some(layer), Some((before, after))) = (layer, layers_in(key)) {
        name = format!("{before}{layer}.{after}");
    }
    match expert {
        Some(expert) => name.replacen(EXPERTS, &format!("{LOCAL_EXPERTS}{expert}."), 1),
        None => name.replacen(EXPERTS, LOCAL_EXPERTS, 1),
    }
}

/// If a tensor contains the first half of a gated MLP, returns its name without the suffix, and the
/// name of the tensor with the second half.
#[must_use]
pub fn halves(key: &str) -> Option<(&str, String)> {
    let whole = key.strip_suffix("_w")?;
    (whole.ends_with("linear_fc1.weight") || whole.ends_with("linear_fc1.bias"))
        .then(|| (whole, format!("{whole}_v")))
}

/// Returns whether an entry is the extra state of a module instead of a parameter.
#[must_use]
pub fn is_extra_state(key: &str) -> bool {
    key.contains("._extra_state/shard_")
}

/// Returns the names of the modules' extra state, such as
/// `decoder.layers.mlp.linear_fc1._extra_state/shard_7_32` for layer 7 of 32. Megatron looks for
/// these entries even if they are empty. Each item of `slices` is a parameter, with the total
/// numbers of layers and experts. Megatron and Transformer Engine differ in which modules have
/// extra state, but additional entries are harmless.
#[must_use]
pub fn extra_states<'n>(slices: impl IntoIterator<Item = (&'n DistName, [u64; 2])>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (DistName { key, layer, expert, .. }, [layers, experts]) in slices {
        let Some((module, _)) = key.rsplit_once('.') else { continue };
        let own = module.rsplit('.').next().unwrap_or_default();
        let at = [layer.map(|layer| (layer, layers)), expert.map(|expert| (expert, experts))];
        let at: Vec<(u64, u64)> = at.into_iter().flatten().collect();
        let dotted = |numbers: Vec<u64>| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".");
        let (index, count) = match at.is_empty() {
            true => ("0".to_owned(), "1".to_owned()),
            false => (dotted(at.iter().map(|at| at.0).collect()), dotted(at.iter().map(|at| at.1).collect())),
        };
        let mut add = |module: &str| names.insert(format!("{module}._extra_state/shard_{index}_{count}"));
        if own.starts_with("linear_") || own.ends_with("norm") {
            add(module);
        }
        if let Some(attention) = module.strip_suffix(".linear_proj") {
            add(&format!("{attention}.core_attention"));
        }
    }
    names
}

/// Splits a name after `layers.`, which is the position of a layer number.
fn layers_in(key: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    while let Some(found) = key.get(from..)?.find("layers.") {
        let (start, end) = (from + found, from + found + "layers.".len());
        if start == 0 || key[..start].ends_with('.') {
            return Some(key.split_at(end));
        }
        from = end;
    }
    None
}

/// The location of a parameter in a `torch_dist` checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DistName {
    /// Name of the tensor in the checkpoint that contains the parameter as a slice.
    pub key: String,
    /// The layer of the slice; `None` if the name already contains the layer number.
    pub layer: Option<u64>,
    pub expert: Option<u64>,
    /// Name that the parameter has when the checkpoint is read again.
    pub read_as: String,
}

/// Returns the location of a parameter in a checkpoint. `is_stacked` is true if the checkpoint
/// combines layers into one tensor. `has` returns whether the model has a parameter with a given
/// name.
pub fn dist_name(name: &str, is_stacked: bool, has: impl Fn(&str) -> bool) -> DistName {
    let mut read_as = with_fused_norm(name, has);
    let mut key = read_as.clone();
    let number = expert(&read_as).map(|(before, number, after)| {
        // The parameter names of grouped experts end with the expert number.
        let (module, leaf) = match before.strip_suffix("local_experts.") {
            Some(module) => (module, after.trim_start_matches('.').to_owned()),
            None => {
                let at = before.find(".experts.").map_or(0, |at| at + ".experts.".len());
                (&before[..at], before[at..].to_owned())
            }
        };
        (format!("{module}experts.{leaf}"), format!("{module}local_experts.{number}.{leaf}"), number)
    });
    let mut expert = None;
    if let Some((stacked, numbered, number)) = number {
        (key, read_as, expert) = (stacked, numbered, Some(number));
    }
    let layer = numbered(&key, "layers").filter(|(stack, ..)| is_stacked && is_counted(stack));
    let layer = layer.map(|(stack, number, after)| (format!("{stack}.{after}"), number));
    let (key, layer) = layer.map_or((key, None), |(key, number)| (key, Some(number)));
    DistName { key, layer, expert, read_as }
}

/// Changes the name of a norm to its name in Transformer Engine, because norms have different names
/// in models without Transformer Engine. The names of norms that precede experts, or that are in
/// attention with latent keys, are not changed, because these norms are never fused.
fn with_fused_norm(name: &str, has: impl Fn(&str) -> bool) -> String {
    let Some((stack, number, after)) = numbered(name, "layers") else { return name.to_owned() };
    let layer = format!("{stack}.{number}.");
    let is_plain = has(&format!("{layer}input_layernorm.weight"))
        && has(&format!("{layer}self_attention.linear_qkv.weight"));
    let fused = [
        ("input_layernorm.", "self_attention.linear_qkv.layer_norm_"),
        ("pre_mlp_layernorm.", "mlp.linear_fc1.layer_norm_"),
    ];
    let fused = fused.iter().find_map(|(plain, fused)| Some((fused, after.strip_prefix(plain)?)));
    match fused {
        Some((fused, leaf)) if is_plain => format!("{layer}{fused}{leaf}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_and_experts_are_slices() {
        let has = |name: &str| !name.contains("layers.1");
        let of = |name: &str, is_stacked| {
            let DistName { key, layer, expert, read_as } = dist_name(name, is_stacked, has);
            (key, layer, expert, read_as)
        };
        let fc1 = "decoder.layers.7.mlp.linear_fc1.weight";
        assert_eq!(
            of(fc1, true),
            ("decoder.layers.mlp.linear_fc1.weight".to_owned(), Some(7), None, fc1.to_owned())
        );
        assert_eq!(of(fc1, false), (fc1.to_owned(), None, None, fc1.to_owned()));
        let expert = "decoder.layers.7.mlp.experts.local_experts.3.linear_fc1.weight";
        let key = "decoder.layers.mlp.experts.experts.linear_fc1.weight";
        assert_eq!(of(expert, true), (key.to_owned(), Some(7), Some(3), expert.to_owned()));
        let grouped = "decoder.layers.7.mlp.experts.linear_fc1.weight3";
        assert_eq!(of(grouped, true), (key.to_owned(), Some(7), Some(3), expert.to_owned()));
        let norm = "decoder.layers.7.self_attention.linear_qkv.layer_norm_weight";
        let (key, layer, _, read_as) = of("decoder.layers.7.input_layernorm.weight", true);
        assert_eq!(
            (key.as_str(), layer, read_as.as_str()),
            ("decoder.layers.self_attention.linear_qkv.layer_norm_weight", Some(7), norm)
        );
        // In Transformer Engine, a norm that precedes experts is not fused.
        assert_eq!(
            of("decoder.layers.1.pre_mlp_layernorm.weight", false).0,
            "decoder.layers.1.pre_mlp_layernorm.weight"
        );
        assert_eq!(of("output_layer.weight", true).0, "output_layer.weight");
    }

    #[test]
    fn modules_have_a_state_for_each_slice() {
        let of = |name, counts| {
            let slice = dist_name(name, true, |_| true);
            extra_states([(&slice, counts)]).into_iter().collect::<Vec<_>>()
        };
        let fc1 = "decoder.layers.7.mlp.experts.local_experts.3.linear_fc1.weight";
        assert_eq!(
            of(fc1, [8, 4]),
            ["decoder.layers.mlp.experts.experts.linear_fc1._extra_state/shard_7.3_8.4"]
        );
        let proj = of("decoder.layers.0.self_attention.linear_proj.weight", [8, 0]);
        assert_eq!(
            proj,
            [
                "decoder.layers.self_attention.core_attention._extra_state/shard_0_8",
                "decoder.layers.self_attention.linear_proj._extra_state/shard_0_8",
            ]
        );
        assert!(is_extra_state(&proj[0]) && of("output_layer.weight", [8, 0]).is_empty());
        assert_eq!(
            of("decoder.final_layernorm.weight", [8, 0]),
            ["decoder.final_layernorm._extra_state/shard_0_1"]
        );
    }

    #[test]
    fn slices_have_the_names_of_the_model() {
        for (name, dims) in [
            ("decoder.layers.7.mlp.linear_fc1.weight", [true, false]),
            ("decoder.layers.7.mlp.experts.local_experts.3.linear_fc1.weight", [true, true]),
            ("output_layer.weight", [false, false]),
        ] {
            let DistName { key, layer, expert, read_as } = dist_name(name, true, |_| true);
            assert_eq!((stacked_dims(&key), read_as.as_str()), (dims, name));
            assert_eq!(slice_name(&key, layer, expert), name);
        }
        assert_eq!(stacked_dims("optimizer.sublayers.mlp.weight"), [false, false]);
        let single = "decoder.layers.0.mlp.experts.experts.5.linear_fc1.weight_w";
        assert_eq!(stacked_dims(single), [false, false]);
        let (whole, second) = halves(single).unwrap_or_default();
        assert_eq!(
            slice_name(whole, None, None),
            "decoder.layers.0.mlp.experts.local_experts.5.linear_fc1.weight"
        );
        assert!(second.ends_with("weight_v") && halves("a.weight_w").is_none());
    }
}
