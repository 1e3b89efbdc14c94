//! Chooses the name of the file that a folder's model is written to. By default, the output format
//! determines the name (`model.safetensors`, `pytorch_model.bin`). A model with an unusual name,
//! such as `diffusion_pytorch_model` or `adapter_model`, keeps its name, because the library that
//! loads it requires that name.

use crate::write::target::OutputTarget;
use tensorferry_core::read::model::InputModel;
use tensorferry_sdk::file_name::strip_suffix;
use tensorferry_sdk::{Description, Entry, ShardTag, Source, Target};

/// Returns the target that the writer receives for a model.
#[must_use]
pub(crate) fn target_of(model: &InputModel<'_>, target: &OutputTarget<'_>) -> Target {
    let is_folder = target.target == Target::Folder && *model.input.source.entry() == Entry::Folder;
    let ending = usual_name(&target.format.description).map(|(_, ending)| ending);
    let kept = ending.filter(|_| is_folder).and_then(|ending| {
        let stem = stem(&model.input.source.opened(), &model.input.format.description)?;
        Some(format!("{stem}{ending}"))
    });
    kept.map_or_else(|| target.target.clone(), Target::File)
}

/// Returns the prefix and the ending of a format's usual file name. Both are from the first pattern
/// of the form `NAME*ENDING`.
fn usual_name(description: &Description) -> Option<(&str, &str)> {
    let parts = description.members.iter().filter_map(|pattern| pattern.split_once('*'));
    parts.into_iter().find(|(name, ending)| !name.is_empty() && ending.starts_with('.'))
}

/// Returns the common prefix of a model's file names, or `None` if this prefix is the format's
/// usual name.
fn stem(names: &[&str], description: &Description) -> Option<String> {
    let (usual, ending) = usual_name(description)?;
    let mut stems = names.iter().filter_map(|name| strip_suffix(name, ending));
    let first = stems.next()?;
    let (mut stem, mut is_set) = (first, false);
    for other in stems {
        let same = stem.char_indices().zip(other.chars()).take_while(|((_, a), b)| a == b);
        stem = &stem[..same.last().map_or(0, |((at, letter), _)| at + letter.len_utf8())];
        is_set = true;
    }
    if is_set {
        // Removes the shard numbers from names such as `x-00001-of-00002`.
        stem = stem.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-');
        stem = ShardTag::stem_without(stem);
    }
    (!stem.is_empty() && !stem.starts_with(usual)).then(|| stem.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Option<String> {
        let members = ["model*.safetensors", "*.index.json"].map(str::to_owned).to_vec();
        stem(names, &Description::new("", "").members(members))
    }

    #[test]
    fn only_unusual_names_are_kept() {
        assert_eq!(of(&["model.safetensors"]), None);
        assert_eq!(of(&["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]), None);
        assert_eq!(of(&["adapter_model.safetensors"]).as_deref(), Some("adapter_model"));
        let set =
            ["x-00001-of-00012.safetensors", "x-00012-of-00012.safetensors", "x.safetensors.index.json"];
        assert_eq!(of(&set).as_deref(), Some("x"));
        let tagged = ["x-r0123abcd-00001-of-00002.safetensors", "x-r0123abcd-00002-of-00002.safetensors"];
        assert_eq!(of(&tagged).as_deref(), Some("x"));
        assert_eq!(of(&["a.safetensors", "b.safetensors"]), None);
        assert_eq!(of(&["x.bin"]), None);
    }
}
