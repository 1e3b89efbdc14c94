//! Sets. A set contains the files of one model: either a single file or all members of a split.
//!
//! Only the first member contains the model's metadata, so the other members are not usable on
//! their own. If the input is one member, its whole set is read. The keys `split.no`, `split.count`
//! and `split.tensors.count` only describe the split.

use crate::SUFFIX;
use crate::header::Header;
use std::collections::{BTreeMap, HashMap};
use tensorferry_sdk::file_name::has_suffix;
use tensorferry_sdk::{Context, Entry, Error, FileId, Result, ShardName, Source, Value};

const SPLIT_NUMBER: &str = "split.no";
const SPLIT_COUNT: &str = "split.count";
const SPLIT_TENSORS: &str = "split.tensors.count";
/// Metadata keys for the member's number, the member count, and the total tensor count of all
/// members.
pub(crate) const SPLIT_KEYS: [&str; 3] = [SPLIT_NUMBER, SPLIT_COUNT, SPLIT_TENSORS];

/// The files of one model, in split order.
pub(crate) struct Set {
    pub(crate) files: Vec<Member>,
}

pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) file: FileId,
    pub(crate) header: Header,
}

impl Set {
    /// Opens the files of the model to which the source's entry belongs.
    pub(crate) fn open(source: &dyn Source, is_alone: bool, context: &dyn Context) -> Result<Self> {
        let first = Member::open(source, named(source)?, context)?;
        let count = first.number(SPLIT_COUNT)?.unwrap_or(1);
        if count <= 1 || is_alone {
            return Ok(Self { files: vec![first] });
        }
        let names = first.set(count)?;
        // The count is a 16-bit number, so the number of names is limited. Open the files one at a
        // time.
        let mut files = Vec::new();
        for (number, name) in (0..).zip(names) {
            context.check_cancelled()?;
            if !source.contains(&name)? {
                return Err(Error::malformed(format!("a file in the split of {:?} is missing", first.name))
                    .file(name)
                    .expected(format!("{count} files"))
                    .hint("pass -i shard=alone to read only one file of the split"));
            }
            let member = Member::open(source, name, context)?;
            member.check(SPLIT_NUMBER, number)?;
            member.check(SPLIT_COUNT, count)?;
            files.push(member);
        }
        let set = Self { files };
        set.check_tensors()?;
        Ok(set)
    }

    fn check_tensors(&self) -> Result<()> {
        let mut held: HashMap<&str, &str> = HashMap::new();
        for member in &self.files {
            for tensor in &member.header.tensors {
                if let Some(other) = held.insert(&*tensor.name, &*member.name) {
                    return Err(Error::malformed("two members of the split have a tensor with this name")
                        .file(&*member.name)
                        .tensor(&*tensor.name)
                        .found(format!("{other:?}")));
                }
            }
        }
        self.files.iter().try_for_each(|member| member.check(SPLIT_TENSORS, held.len() as u64))
    }

    /// Removes the metadata from all files, and returns it merged, without the split keys. If files
    /// have different values for a key, the first value is kept. Also returns the key and the file
    /// name of each later, different value.
    pub(crate) fn metadata(&mut self) -> (BTreeMap<String, Value>, Vec<(String, String)>) {
        let (mut merged, mut differing) = (BTreeMap::new(), Vec::new());
        for member in &mut self.files {
            for (key, value) in std::mem::take(&mut member.header.metadata) {
                if SPLIT_KEYS.contains(&&*key) {
                    continue;
                }
                match merged.get(&key) {
                    None => drop(merged.insert(key, value)),
                    Some(first) if *first == value => {}
                    Some(_) => differing.push((key, member.name.clone())),
                }
            }
        }
        (merged, differing)
    }
}

impl Member {
    fn open(source: &dyn Source, name: String, context: &dyn Context) -> Result<Self> {
        let file = source.open(&name)?;
        Ok(Self { header: Header::read(source, file, context.limits())?, name, file })
    }

    /// Returns the number that the metadata contains under a split key.
    fn number(&self, key: &str) -> Result<Option<u64>> {
        let Some(value) = self.header.metadata.get(key) else { return Ok(None) };
        let number = value.root().as_int().and_then(|number| u64::try_from(number).ok());
        number.map(Some).ok_or_else(|| {
            Error::malformed(format!("{key} is not a number")).file(&*self.name).found(format!("{value:?}"))
        })
    }

    fn check(&self, key: &str, expected: u64) -> Result<()> {
        match self.number(key)? {
            Some(number) if number == expected => Ok(()),
            found => Err(Error::malformed(format!("{key} contradicts the split"))
                .file(&*self.name)
                .expected(expected)
                .found(found.map_or("nothing".to_owned(), |number| number.to_string()))),
        }
    }

    /// Returns the names of all members of this file's split.
    fn set(&self, count: u64) -> Result<Vec<String>> {
        let shard = ShardName::parse(&self.name)
            .filter(|shard| shard.count == count && shard.ending.eq_ignore_ascii_case(SUFFIX));
        let shard = shard.filter(|_| u16::try_from(count).is_ok()).ok_or_else(|| {
            Error::malformed("the file belongs to a split, but its name does not match")
                .file(&*self.name)
                .expected(format!("a name that ends in -0000N-of-{count:05}{SUFFIX}"))
                .found(format!("{SPLIT_COUNT} {count}"))
                .hint("pass -i shard=alone to read only this file")
        })?;
        Ok((1..=count).map(|number| ShardName::format(shard.stem, number, count, shard.ending)).collect())
    }
}

/// Returns the name of the file to open first.
fn named(source: &dyn Source) -> Result<String> {
    if let Entry::File(name) = source.entry() {
        return Ok(name.clone());
    }
    let mut names = source.list(source.entry().name())?;
    names.retain(|name| is_member(name));
    // The first existing member of each split, and each single file.
    let mut models: Vec<&String> = Vec::new();
    for name in &names {
        let shard = ShardName::parse(name);
        let is_next = |last: &&String| match (shard, ShardName::parse(last)) {
            (Some(shard), Some(last)) => shard.is_of_set(&last),
            _ => false,
        };
        if !models.last().is_some_and(is_next) {
            models.push(name);
        }
    }
    match &*models {
        [name] => Ok((*name).clone()),
        [] => Err(Error::malformed("the folder has no GGUF file").expected(format!("a {SUFFIX} file"))),
        models => {
            let shown: Vec<String> = models.iter().take(5).map(|name| format!("{name:?}")).collect();
            let more = if models.len() > shown.len() { ", ..." } else { "" };
            Err(Error::usage(format!("the folder has several models: {}{more}", shown.join(", ")))
                .hint("pass the path of the file to read"))
        }
    }
}

/// Returns whether a file in a folder may contain a model. Hidden files are ignored.
pub(crate) fn is_member(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or_default();
    !file.starts_with('.') && has_suffix(file, SUFFIX)
}
