//! Megatron's `torch_dist` checkpoints are distributed ones in which the layers are stacked:
//! `decoder.layers.mlp.linear_fc1.weight` has one more dimension, the first, with a slice for each layer.

use tensorferry_sdk::{CatalogSink, Limits, Result, Source};

/// Says which library wrote the folder.
const DESCRIPTION: &str = "metadata.json";
/// It is a line.
const MOST_BYTES: u64 = 1 << 16;

/// Gives every layer tensors of its own, under the names that the model has.
const UNSTACK: &str = r"unstack:\blayers\.([a-z_]\w*)\.,to=layers.$i.$1.";

/// Asks for the layers one by one, where the folder is Megatron's and has stacked ones.
///
/// # Errors
/// I/o; what the host says of the step.
pub(crate) fn unstack<'n>(
    source: &dyn Source,
    mut names: impl Iterator<Item = &'n str>,
    catalog: &mut dyn CatalogSink,
    limits: &Limits,
) -> Result<()> {
    if is_torch_dist(source, limits)? && names.any(is_stacked) {
        catalog.step(UNSTACK)?;
    }
    Ok(())
}

fn is_torch_dist(source: &dyn Source, limits: &Limits) -> Result<bool> {
    if !source.contains(DESCRIPTION)? {
        return Ok(false);
    }
    let file = source.open(DESCRIPTION)?;
    if source.len(file) > MOST_BYTES {
        return Ok(false);
    }
    let text = source.read_vec(file, 0, source.len(file), limits)?;
    let said: Option<serde_json::Value> = serde_json::from_slice(&text).ok();
    Ok(said.is_some_and(|said| said["sharded_backend"] == "torch_dist"))
}

/// Whether a name has layers without a number. The step matches the same.
fn is_stacked(name: &str) -> bool {
    name.split_once("layers.").is_some_and(|(before, after)| {
        let is_word = before.is_empty() || before.ends_with('.');
        is_word && after.starts_with(|c: char| c.is_ascii_lowercase() || c == '_') && after.contains('.')
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::MemorySource;

    #[test]
    fn stacked_layers_of_megatron_are_known() {
        assert!(is_stacked("decoder.layers.mlp.linear_fc1.weight"));
        assert!(!is_stacked("decoder.layers.0.mlp.linear_fc1.weight"));
        assert!(!is_stacked("sublayers.mlp.weight"));
        let said = |text: &str| {
            let source = MemorySource::folder([(DESCRIPTION.to_owned(), text.as_bytes().to_vec())]);
            is_torch_dist(&source, &Limits::default()).unwrap()
        };
        assert!(said(r#"{"sharded_backend": "torch_dist", "sharded_backend_version": 1}"#));
        assert!(!said(r#"{"sharded_backend": "zarr"}"#) && !said("[") && !said(""));
    }
}
