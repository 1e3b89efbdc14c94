//! Finds the layer and expert numbers in the names of parameters, and the pipeline stage that
//! contains a parameter.

/// Stacks whose layers count toward the argument `num_layers`.
const STACKS: [&str; 3] = ["decoder.layers", "encoder.layers", "transformer.layers"];
/// Prefixes of parameters that are outside of layers and in the first pipeline stage.
const FIRST: [&str; 1] = ["embedding."];
/// Prefixes of parameters that are outside of layers and in the last pipeline stage.
const LAST: [&str; 3] = ["decoder.final_layernorm.", "decoder.final_norm.", "output_layer."];

/// The pipeline stage that contains a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageOf<'n> {
    First,
    Last,
    /// The stage that contains a layer: the name of the stack, the layer number, and the rest of
    /// the name.
    Layer(&'n str, u64, &'n str),
}

/// Returns the pipeline stage that contains the parameter with this name, if the name determines
/// the stage.
#[must_use]
pub fn stage_of(name: &str) -> Option<StageOf<'_>> {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    match numbered(name, "layers").filter(|(stack, ..)| *stack == STACKS[0]) {
        Some((stack, number, after)) => Some(StageOf::Layer(stack, number, after)),
        None if starts(&FIRST) => Some(StageOf::First),
        None if starts(&LAST) => Some(StageOf::Last),
        None => None,
    }
}

/// Returns whether a parameter name is one that Megatron-LM used before megatron-core.
#[must_use]
pub fn is_before_core(name: &str) -> bool {
    name.starts_with("language_model.") || name.starts_with("word_embeddings_for_head.")
}

/// Returns whether `num_layers` includes the layers of this stack.
#[must_use]
pub fn is_counted(stack: &str) -> bool {
    STACKS.iter().any(|end| stack.ends_with(end))
}

/// Finds a number after `marker` in a name. Returns the text before the number, the number, and the
/// text after it.
#[must_use]
pub fn numbered<'n>(name: &'n str, marker: &str) -> Option<(&'n str, u64, &'n str)> {
    let mut from = 0;
    while let Some(found) = name.get(from..)?.find(marker) {
        let (start, end) = (from + found, from + found + marker.len());
        let rest = name[end..].strip_prefix('.');
        let (digits, after) = rest.and_then(|rest| rest.split_once('.')).unwrap_or_default();
        let is_part = start == 0 || name[..start].ends_with('.');
        let number = digits.parse::<u64>().ok().filter(|number| is_part && number.to_string() == digits);
        if let Some(number) = number {
            return Some((&name[..end], number, after));
        }
        from = end;
    }
    None
}

/// Finds an expert number in a name. Returns the text before the number, the number, and the text
/// after it.
#[must_use]
pub fn expert(name: &str) -> Option<(&str, u64, &str)> {
    if let Some((before, number, after)) = numbered(name, "local_experts") {
        return Some((&name[..=before.len()], number, &name[name.len() - after.len() - 1..]));
    }
    // Grouped experts in Transformer Engine have names such as `experts.linear_fc1.weight3`.
    let (path, leaf) = name.rsplit_once('.')?;
    path.rsplit_once('.').filter(|(above, _)| above.ends_with(".experts"))?;
    let kind = leaf.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = leaf[kind.len()..].parse().ok()?;
    Some((&name[..name.len() - (leaf.len() - kind.len())], number, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_which_stage_has_them() {
        assert_eq!(stage_of("embedding.position_embeddings.weight"), Some(StageOf::First));
        assert_eq!(stage_of("output_layer.weight"), Some(StageOf::Last));
        let layer = StageOf::Layer("decoder.layers", 7, "mlp.linear_fc1.weight");
        assert_eq!(stage_of("decoder.layers.7.mlp.linear_fc1.weight"), Some(layer));
        for unknown in
            ["mtp.layers.0.eh_proj.weight", "language_model.encoder.layers.0.a", "decoder.layers.07.a", "odd"]
        {
            assert_eq!(stage_of(unknown), None, "{unknown}");
        }
    }
}
