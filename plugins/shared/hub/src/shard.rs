//! A shard is one file of a split model, named like `model-00002-of-00005.safetensors`.
//!
//! The names and the split are the same as in huggingface_hub's
//! `split_state_dict_into_shards_factory`.

use crate::Naming;
use tensorferry_sdk::file_name::strip_suffix;
use tensorferry_sdk::{Role, ShardName, ShardTag, Target};

/// The names of a model's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    naming: Naming,
    /// File name of a model that is not split.
    pub whole: String,
    stem: String,
    tag: ShardTag,
}

impl Names {
    /// Returns the file names for an output target. The stem is part of the file name that the user
    /// specified. If the user did not specify a file name, the default stem is used.
    #[must_use]
    pub fn of(naming: &Naming, target: &Target) -> Self {
        let Naming { suffix, index_suffix, .. } = *naming;
        let (whole, stem) = match target {
            Target::Folder => (format!("{}{suffix}", naming.stem), naming.stem),
            Target::File(name) => match strip_suffix(name, index_suffix) {
                Some(stem) => (format!("{stem}{suffix}"), stem),
                None => (name.clone(), strip_suffix(name, suffix).unwrap_or(name)),
            },
        };
        Self { naming: *naming, whole, stem: stem.to_owned(), tag: ShardTag::default() }
    }

    /// Adds the tag of a conversion run to shard names, as in
    /// `model-r0123abcd-00002-of-00005.safetensors`.
    #[must_use]
    pub fn tagged(self, tag: ShardTag) -> Self {
        Self { tag, ..self }
    }

    /// Returns the name of one of `count` files. `number` is the number of the file, counted from
    /// 1.
    #[must_use]
    pub fn file(&self, number: usize, count: usize) -> String {
        if count == 1 {
            self.whole.clone()
        } else {
            let stem = format!("{}{}", self.stem, self.tag.with_separator("-"));
            ShardName::format(&stem, number as u64, count as u64, self.naming.suffix)
        }
    }

    /// Returns names and globs that match other splits of the same model. huggingface_hub's
    /// `save_torch_state_dict` also deletes such files. The list is empty if the stem contains glob
    /// characters.
    #[must_use]
    pub fn superseded(&self) -> Vec<(String, Role)> {
        let suffix = self.naming.suffix;
        let Some(shards) = ShardName::glob(&self.stem, suffix) else { return Vec::new() };
        let whole = format!("{}{suffix}", self.stem);
        let numbers = &shards[self.stem.len()..];
        let tagged = format!("{}-{}{numbers}", self.stem, ShardTag::glob());
        vec![(self.index(), Role::Index), (whole, Role::Data), (shards, Role::Data), (tagged, Role::Data)]
    }

    /// Returns the name of the index.
    #[must_use]
    pub fn index(&self) -> String {
        format!("{}{}", self.stem, self.naming.index_suffix)
    }
}

/// Distributes tensors, or other indivisible items, among files in order. Each item is paired with
/// its length in bytes. A file is full if the next tensor would make it longer than `max` bytes. A
/// tensor longer than `max` bytes gets a separate file, and the tensors that follow are again added
/// to the previous file. The result contains at least one file.
pub fn split<T>(tensors: impl IntoIterator<Item = (T, u64)>, max: Option<u64>) -> Vec<Vec<T>> {
    let max = max.unwrap_or(u64::MAX);
    let mut shards = Vec::new();
    let (mut current, mut current_bytes) = (Vec::new(), 0_u64);
    for (tensor, bytes) in tensors {
        if bytes > max {
            shards.push(vec![tensor]);
            continue;
        }
        if current_bytes.saturating_add(bytes) > max {
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
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::tests::NAMING;
    use tensorferry_sdk::{Options, Side};

    #[test]
    fn names_are_those_of_the_hub() {
        let names = Names::of(&NAMING, &Target::Folder);
        assert_eq!(names.file(1, 1), "model.safetensors");
        assert_eq!(names.file(2, 12), "model-00002-of-00012.safetensors");
        assert_eq!(names.index(), "model.safetensors.index.json");
        let names = Names::of(&NAMING, &Target::File("a.b.safetensors".to_owned()));
        assert_eq!(names.file(1, 1), "a.b.safetensors");
        assert_eq!(names.file(1, 2), "a.b-00001-of-00002.safetensors");
        let names = Names::of(&NAMING, &Target::File("x.safetensors.index.json".to_owned()));
        assert_eq!(names.file(1, 1), "x.safetensors");
        assert_eq!(names.index(), "x.safetensors.index.json");
        assert_eq!(Names::of(&NAMING, &Target::File("x.bin".to_owned())).file(1, 1), "x.bin");
    }

    #[test]
    fn a_tag_stands_in_the_names_of_shards_alone() {
        let given = [(ShardTag::OPTION.to_owned(), ShardTag::text(0xabc))];
        let options = Options::check(&[ShardTag::spec()], Side::Writer, &given).unwrap();
        let names = Names::of(&NAMING, &Target::Folder).tagged(ShardTag::of(&options).unwrap());
        let shard = names.file(2, 12);
        assert_eq!(shard, "model-r00000abc-00002-of-00012.safetensors");
        assert_eq!(NAMING.shard(&shard).map(|shard| Naming::stem_of_shard(&shard)), Some("model"));
        assert_eq!(
            (names.file(1, 1), names.index()),
            ("model.safetensors".into(), "model.safetensors.index.json".into())
        );
        let globs: Vec<String> = names.superseded().into_iter().map(|(glob, _)| glob).collect();
        assert!(globs[3].starts_with("model-r[0-9a-f]") && globs[3].ends_with("].safetensors"), "{globs:?}");
    }

    #[test]
    fn a_name_is_taken_apart() {
        let shard = NAMING
            .shard("a-b-00002-of-00012.safetensors")
            .map(|shard| (shard.stem, shard.number, shard.count));
        assert_eq!(shard, Some(("a-b", 2, 12)));
        for other in
            ["a-2-of-3.safetensors", "a.safetensors", "a-00002-of-00012.bin", "00001-of-00002.safetensors"]
        {
            assert_eq!(NAMING.shard(other), None, "{other}");
        }
    }

    fn sizes(sizes: &[u64], max: Option<u64>) -> Vec<Vec<u32>> {
        split(sizes.iter().zip(0..).map(|(&bytes, number)| (number, bytes)), max)
    }

    #[test]
    fn the_split_is_that_of_the_hub() {
        // The example in huggingface_hub's documentation: the sizes [6, 6, 2, 6, 2, 2] with a limit
        // of 10.
        assert_eq!(sizes(&[6, 6, 2, 6, 2, 2], Some(10)), [vec![0], vec![1, 2], vec![3, 4, 5]]);
        // The file of a large tensor precedes the file that is being filled.
        assert_eq!(sizes(&[4, 11, 4, 4], Some(10)), [vec![1], vec![0, 2], vec![3]]);
        assert_eq!(sizes(&[10, 0, 1], Some(10)), [vec![0, 1], vec![2]]);
        assert_eq!(sizes(&[11], Some(10)), [vec![0]]);
        assert_eq!(sizes(&[1, 2, 3], None), [vec![0, 1, 2]]);
        assert_eq!(sizes(&[], Some(10)), [Vec::<u32>::new()]);
    }
}
