//! A shard is one file of a model that is split, named `model-00002-of-00005.safetensors`.
//!
//! Names and the split are those of `split_state_dict_into_shards_factory` of huggingface_hub.

use crate::{DEFAULT_STEM, INDEX_SUFFIX, SUFFIX};
use tensorferry_sdk::{Role, Target, TensorId};

/// The place of a file in a set, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardName<'a> {
    /// What all names of the set begin with.
    pub(crate) stem: &'a str,
    /// The shard's number, from 1.
    pub(crate) number: u64,
    /// How many shards there are.
    pub(crate) count: u64,
}

impl<'a> ShardName<'a> {
    /// The parts of a shard's file name; `None` if it is not one.
    pub(crate) fn parse(name: &'a str) -> Option<Self> {
        let (rest, count) = name.strip_suffix(SUFFIX)?.rsplit_once("-of-")?;
        let (stem, number) = rest.rsplit_once('-')?;
        let digits = |text: &str| {
            let sane = text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
            sane.then(|| text.parse().ok()).flatten()
        };
        Some(Self { stem, number: digits(number)?, count: digits(count)? })
    }
}

/// The names of a model's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    /// The one file of a model that is not split.
    pub(crate) whole: String,
    stem: String,
}

impl Names {
    /// The names for a target: the stem of a file that the user named, else `model`.
    pub(crate) fn of(target: &Target) -> Self {
        match target {
            Target::Folder => {
                Self { whole: format!("{DEFAULT_STEM}{SUFFIX}"), stem: DEFAULT_STEM.to_owned() }
            }
            Target::File(name) => match name.strip_suffix(INDEX_SUFFIX) {
                Some(stem) => Self { whole: format!("{stem}{SUFFIX}"), stem: stem.to_owned() },
                None => {
                    Self { whole: name.clone(), stem: name.strip_suffix(SUFFIX).unwrap_or(name).to_owned() }
                }
            },
        }
    }

    /// The name of one file of `count`; `number` is from 1.
    pub(crate) fn file(&self, number: usize, count: usize) -> String {
        if count == 1 {
            self.whole.clone()
        } else {
            format!("{}-{number:05}-of-{count:05}{SUFFIX}", self.stem)
        }
    }

    /// The names that another split of the same model would have, as `save_torch_state_dict` of
    /// huggingface_hub clears them away: none where a glob would take the stem for more than a name.
    pub(crate) fn superseded(&self) -> Vec<(String, Role)> {
        if self.stem.contains(['*', '?', '[', ']', '{', '}', '\\']) {
            return Vec::new();
        }
        let digits = "[0-9]".repeat(5);
        vec![
            (self.index(), Role::Index),
            (format!("{}{SUFFIX}", self.stem), Role::Data),
            (format!("{}-{digits}-of-{digits}{SUFFIX}", self.stem), Role::Data),
        ]
    }

    /// The name of the index.
    pub(crate) fn index(&self) -> String {
        format!("{}{INDEX_SUFFIX}", self.stem)
    }
}

/// Splits tensors, given with their bytes, in their order: a file is full when the next tensor
/// would take it over `most` bytes, and a tensor larger than that is a file of its own, which does
/// not end the one that is being filled. There is at least one file.
pub(crate) fn split(
    tensors: impl IntoIterator<Item = (TensorId, u64)>,
    most: Option<u64>,
) -> Vec<Vec<TensorId>> {
    let most = most.unwrap_or(u64::MAX);
    let mut shards = Vec::new();
    let (mut current, mut current_bytes) = (Vec::new(), 0_u64);
    for (tensor, bytes) in tensors {
        if bytes > most {
            shards.push(vec![tensor]);
            continue;
        }
        if current_bytes.saturating_add(bytes) > most {
            shards.push(std::mem::take(&mut current));
            current_bytes = 0;
        }
        current.push(tensor);
        current_bytes = current_bytes.saturating_add(bytes);
    }
    if !current.is_empty() || shards.is_empty() {
        shards.push(current);
    }
    shards
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_hub() {
        let names = Names::of(&Target::Folder);
        assert_eq!(names.file(1, 1), "model.safetensors");
        assert_eq!(names.file(2, 12), "model-00002-of-00012.safetensors");
        assert_eq!(names.index(), "model.safetensors.index.json");
        let names = Names::of(&Target::File("a.b.safetensors".to_owned()));
        assert_eq!(names.file(1, 1), "a.b.safetensors");
        assert_eq!(names.file(1, 2), "a.b-00001-of-00002.safetensors");
        let names = Names::of(&Target::File("x.safetensors.index.json".to_owned()));
        assert_eq!(names.file(1, 1), "x.safetensors");
        assert_eq!(names.index(), "x.safetensors.index.json");
        assert_eq!(Names::of(&Target::File("x.bin".to_owned())).file(1, 1), "x.bin");
    }

    #[test]
    fn a_name_is_taken_apart() {
        let name = ShardName { stem: "a-b", number: 2, count: 12 };
        assert_eq!(ShardName::parse("a-b-00002-of-00012.safetensors"), Some(name));
        for other in
            ["a-2-of-3.safetensors", "a.safetensors", "a-00002-of-00012.bin", "00001-of-00002.safetensors"]
        {
            assert_eq!(ShardName::parse(other), None, "{other}");
        }
    }

    fn sizes(sizes: &[u64], most: Option<u64>) -> Vec<Vec<u32>> {
        let tensors = sizes.iter().zip(0..).map(|(&bytes, id)| (TensorId(id), bytes));
        split(tensors, most).into_iter().map(|shard| shard.into_iter().map(|id| id.0).collect()).collect()
    }

    #[test]
    fn the_split_is_that_of_the_hub() {
        // The example of its documentation: [6, 6, 2, 6, 2, 2] with 10.
        assert_eq!(sizes(&[6, 6, 2, 6, 2, 2], Some(10)), [vec![0], vec![1, 2], vec![3, 4, 5]]);
        // A large tensor comes before the file that is being filled.
        assert_eq!(sizes(&[4, 11, 4, 4], Some(10)), [vec![1], vec![0, 2], vec![3]]);
        assert_eq!(sizes(&[10, 0, 1], Some(10)), [vec![0, 1], vec![2]]);
        assert_eq!(sizes(&[11], Some(10)), [vec![0]]);
        assert_eq!(sizes(&[1, 2, 3], None), [vec![0, 1, 2]]);
        assert_eq!(sizes(&[], Some(10)), [Vec::<u32>::new()]);
    }
}
