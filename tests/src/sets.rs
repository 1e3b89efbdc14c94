//! Fuzzing of sets, which are files that form one model or one table. The files of a set are
//! swapped, dropped, renamed and damaged, and the set is then read through the library. Content
//! that is read without a loss must match the original.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tensorferry::{ErrorKind, OpenOptions, Registry, Result};
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::Int32Type;
use tensorferry_sdk::arrow_schema::ArrowError;
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::records::from_stream;
use tensorferry_sdk::{Catalog, Error, MemoryContext, MemorySource, Source, StorageId, StorageLocation};
use tensorferry_test_kit::random::Random;

/// The files of a set, by name. Unchanged files share their bytes with the original set.
pub type Files = BTreeMap<String, Arc<Vec<u8>>>;

thread_local! {
    /// The folders from which sets are read, with their current files. A run writes only the files
    /// that differ.
    static FOLDERS: RefCell<BTreeMap<&'static str, SetFolder>> = RefCell::default();
}

/// The way in which a set identifies its files, which determines the changes that a reader can
/// detect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ties {
    /// The set contains checksums of everything that is read.
    Sums,
    /// Each file's content identifies the file, so a swap is detected.
    Content,
    /// Only the names identify the files, so a swap is not detected.
    Names,
    /// Nothing identifies the files. The table consists of whatever files exist.
    Nothing,
}

/// An unchanged set.
#[derive(Debug, Clone)]
pub struct Kind {
    pub name: &'static str,
    pub files: Files,
    /// The file to open, or empty for the folder.
    pub entry: &'static str,
    /// The way in which the set identifies its files.
    pub ties: Ties,
    /// Whether a file lists the tensors of the other files.
    pub lists: bool,
    /// Words that occur in the names of files that describe the other files. Damage to such a file
    /// may change anything.
    pub says: &'static [&'static str],
    /// Whether the set is a table. Columns that are derived from folder names (`year=2024/`) are
    /// compared with these names.
    pub rows: bool,
}

/// A tensor, or the rows of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// The dtype, shape and bytes.
    Tensor(String, Vec<u64>, Vec<u8>),
    /// The batches.
    Rows(Vec<RecordBatch>),
}

/// The result of reading a set: tensors by name, or rows by file, and the losses.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Content {
    /// The tensors or rows.
    pub parts: BTreeMap<String, Part>,
    /// The losses reported to the user.
    pub losses: BTreeSet<String>,
}

/// A set with its content.
#[derive(Debug)]
pub struct Set {
    /// The unchanged set.
    pub kind: Kind,
    content: Content,
    /// The files that contain each tensor, if they are known.
    owners: BTreeMap<String, BTreeSet<String>>,
}

/// Number of bytes per change in a program.
const CHANGE: usize = 6;
/// Maximum number of changes in a program.
const MAX_CHANGES: usize = 4;
/// The number of kinds of changes.
const CHANGES: u8 = 14;

/// Returns programs that make each kind of change to each of `sets` sets, at random positions.
pub fn seeds(sets: usize) -> Vec<Vec<u8>> {
    let mut random = Random::new(1);
    let mut seeds = Vec::new();
    for set in (0..=u8::MAX).take(sets) {
        for change in 0..CHANGES {
            let mut arguments = [0; CHANGE - 1];
            random.fill(&mut arguments);
            seeds.push([&[set, change][..], &arguments].concat());
        }
    }
    seeds
}

/// Applies the changes in `program` to one of these sets, and reads the result. Returns whether it
/// could be read.
///
/// # Panics
///
/// Panics if the reader panics, takes too long, reports a plugin error, or returns wrong content
/// without reporting a loss.
pub fn run(registry: &Registry, sets: &[Set], program: &[u8]) -> bool {
    let Some((&first, changes)) = program.split_first() else { return false };
    let set = &sets[usize::from(first) % sets.len()];
    let mut files = set.kind.files.clone();
    for change in changes.as_chunks::<CHANGE>().0.iter().take(MAX_CHANGES) {
        make(&mut files, *change);
    }
    let start = Instant::now();
    let read = read(registry, &set.kind, &files);
    registry.session().take_notes();
    assert!(start.elapsed() < Duration::from_secs(20), "{}: {:?}", set.kind.name, start.elapsed());
    match read {
        Ok(content) => {
            let wrong = set.wrong(&files, &content);
            assert_eq!(wrong, None, "{}: {}", set.kind.name, difference(&set.kind.files, &files));
            true
        }
        Err(error) => {
            let is_known = !matches!(error.kind(), ErrorKind::Plugin | ErrorKind::Verification);
            assert!(is_known, "{}: {error}: {}", set.kind.name, difference(&set.kind.files, &files));
            false
        }
    }
}

/// Applies a change, which consists of a kind, two files, an offset and a value.
fn make(files: &mut Files, [change, a, b, low, high, value]: [u8; CHANGE]) {
    let named = |number: u8| files.keys().cycle().nth(usize::from(number) % files.len().max(1)).cloned();
    let (Some(a), Some(b)) = (named(a), named(b)) else { return };
    let bytes = files.get(&a).cloned().unwrap_or_default();
    let other = files.get(&b).cloned().unwrap_or_default();
    let at = usize::from(u16::from_le_bytes([low, high])).checked_rem(bytes.len()).unwrap_or(0);
    let to = bytes.len().min(at + 1 + usize::from(value));
    let mut edited = Vec::clone(&bytes);
    match change % CHANGES {
        0 => {
            files.insert(b, bytes);
            files.insert(a, other);
            return;
        }
        1 => {
            files.remove(&a);
            return;
        }
        2 => {
            files.insert(neighbor(&a, value), bytes);
            return;
        }
        3 => {
            files.remove(&a);
            files.insert(neighbor(&a, value), bytes);
            return;
        }
        4 => edited.truncate(at),
        5 => {
            files.insert(a, other);
            return;
        }
        6 => {
            files.remove(&a);
            files.insert(recounted(&a, value), bytes);
            return;
        }
        7 => {
            *files =
                std::mem::take(files).into_iter().map(|(n, bytes)| (recounted(&n, value), bytes)).collect();
            return;
        }
        8 => {
            let from = other.get(at..other.len().min(to)).unwrap_or_default();
            edited.splice(at..at + from.len().min(to - at), from.iter().copied());
        }
        9 => drop(edited.drain(at..to)),
        10 => drop(edited.splice(at..at, bytes[at..to].iter().copied())),
        11 => {
            if let Some(digit) = edited[at..].iter_mut().find(|byte| byte.is_ascii_digit()) {
                *digit = b'0' + value % 10;
            }
        }
        12 => edited[at..to.min(at + 1)].iter_mut().for_each(|byte| *byte ^= 1 << (value % 8)),
        _ => edited[at..to.min(at + 1)].fill(value),
    }
    if edited != *bytes {
        files.insert(a, Arc::new(edited));
    }
}

/// Returns the name with one of its numbers increased or decreased by one.
fn neighbor(name: &str, which: u8) -> String {
    let starts: Vec<usize> = name
        .char_indices()
        .filter(|&(at, c)| c.is_ascii_digit() && !name[..at].ends_with(|c: char| c.is_ascii_digit()))
        .map(|(at, _)| at)
        .collect();
    let Some(&start) = starts.get(usize::from(which / 2) % starts.len().max(1)) else {
        return format!("{name}.1");
    };
    let digits = name[start..].find(|c: char| !c.is_ascii_digit()).unwrap_or(name.len() - start);
    let number: u64 = name[start..start + digits].parse().unwrap_or(0);
    let number = if which.is_multiple_of(2) { number.wrapping_add(1) } else { number.saturating_sub(1) };
    format!("{}{number:0digits$}{}", &name[..start], &name[start + digits..])
}

/// Returns the name with a different count after `-of-`.
fn recounted(name: &str, value: u8) -> String {
    let Some((before, after)) = name.split_once("-of-") else { return name.to_owned() };
    let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    format!("{before}-of-{:0digits$}{}", value % 10, &after[digits..])
}

/// Describes the changes for error messages.
fn difference(before: &Files, after: &Files) -> String {
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let of = |name: &String| {
        let (was, is) = (before.get(name), after.get(name));
        let origin = before.iter().find(|(_, bytes)| is == Some(*bytes)).map(|(origin, _)| origin);
        match (was, is, origin) {
            _ if was == is => None,
            (_, None, _) => Some(format!("{name} is gone")),
            (_, _, Some(origin)) => Some(format!("{name} has the contents of {origin}")),
            (was, Some(is), _) => {
                let at = was.map(|was| was.iter().zip(is.iter()).take_while(|(a, b)| a == b).count());
                Some(format!("{name} differs from offset {at:?} on, {} bytes", is.len()))
            }
        }
    };
    names.into_iter().filter_map(of).collect::<Vec<_>>().join("; ")
}

/// Reads a set from its folder.
fn read(registry: &Registry, kind: &Kind, files: &Files) -> Result<Content> {
    FOLDERS.with_borrow_mut(|folders| {
        let folder = folders.entry(kind.name).or_insert_with(SetFolder::new);
        let result = folder.hold(files).map_err(Error::from);
        if result.is_err() {
            *folder = SetFolder::new();
        }
        result?;
        // Read on the session's thread. Otherwise, each tensor would wake that thread.
        registry.session().install(|| read_from(registry, kind, folder.folder.path()))
    })
}

/// A folder from which a set is read.
struct SetFolder {
    folder: TempDir,
    files: Files,
}

impl SetFolder {
    /// Creates an empty folder, in memory if the system has an in-memory file system.
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Self { folder: folder.expect("there is space"), files: Files::new() }
    }

    /// Changes the folder so that it contains exactly these files.
    fn hold(&mut self, files: &Files) -> std::io::Result<()> {
        let root = self.folder.path();
        for name in self.files.keys().filter(|name| !files.contains_key(*name)) {
            std::fs::remove_file(root.join(name))?;
            let folders = Path::new(name).ancestors().skip(1).filter(|folder| *folder != Path::new(""));
            // `remove_dir` fails for a folder that contains other files, so such a folder is kept.
            let _ =
                folders.map(|folder| std::fs::remove_dir(root.join(folder))).find(std::io::Result::is_err);
        }
        for (name, bytes) in files {
            let was = self.files.get(name);
            if was.is_some_and(|was| Arc::ptr_eq(was, bytes) || was == bytes) {
                continue;
            }
            let path = root.join(name);
            if was.is_none() {
                // The folder of a new file may have the name of an old file.
                std::fs::create_dir_all(path.parent().expect("it is in the folder"))?;
            }
            std::fs::write(path, &**bytes)?;
        }
        self.files.clone_from(files);
        Ok(())
    }
}

fn read_from(registry: &Registry, kind: &Kind, folder: &Path) -> Result<Content> {
    let path = folder.join(kind.entry);
    let mut parts = BTreeMap::new();
    let losses = if kind.rows {
        let scan = registry.scan(path)?;
        for (split, stretch) in scan.stretches().iter().enumerate() {
            let batches = scan.batches_of(split..split + 1);
            let own = |batch: Result<RecordBatch, ArrowError>| {
                batch.map(|batch| without_keys(kind, &stretch.file, &batch)).map_err(from_stream)
            };
            let batches: Vec<_> = batches.map(own).collect::<Result<_>>()?;
            let Part::Rows(rows) = parts.entry(stretch.file.clone()).or_insert(Part::Rows(Vec::new())) else {
                continue;
            };
            rows.extend(batches);
        }
        scan.losses()?
    } else {
        let model = registry.open_with(path, &OpenOptions::new().part("."))?;
        for tensor in model.tensors() {
            let part = Part::Tensor(tensor.dtype_name().to_owned(), tensor.shape().to_vec(), tensor.read()?);
            parts.insert(tensor.name().to_owned(), part);
        }
        model.losses().to_vec()
    };
    let folder = folder.to_string_lossy();
    let losses = losses.iter().map(|loss| format!("{loss:?}").replace(&*folder, "")).collect();
    Ok(Content { parts, losses })
}

/// Returns the keys and values in the names of a file's folders.
fn keys(file: &str) -> impl Iterator<Item = (&str, &str)> {
    file.split('/').filter_map(|folder| folder.split_once('='))
}

/// Returns a batch of a file without the columns that are derived from folder names.
///
/// # Panics
///
/// Panics if these columns do not match the names of the file's folders.
fn without_keys(kind: &Kind, file: &str, batch: &RecordBatch) -> RecordBatch {
    let of_folders: BTreeSet<&str> =
        kind.files.keys().flat_map(|name| keys(name)).map(|(key, _)| key).collect();
    let schema = batch.schema();
    let (keys_there, own): (Vec<usize>, Vec<usize>) = (0..batch.num_columns())
        .partition(|&column| of_folders.contains(schema.field(column).name().as_str()));
    for column in keys_there {
        let (key, values) = (schema.field(column).name(), batch.column(column));
        let value = keys(file).find(|(found, _)| found == key).map(|(_, value)| value);
        let is_right = match (values.as_primitive_opt::<Int32Type>(), values.as_string_opt::<i32>()) {
            (Some(numbers), _) => numbers.iter().all(|number| number == value.and_then(|it| it.parse().ok())),
            (_, Some(texts)) => texts.iter().all(|text| text == value),
            _ => false,
        };
        assert!(is_right, "{}: {file} has a wrong {key}: {values:?}", kind.name);
    }
    batch.project(&own).expect("its own columns")
}

impl Set {
    /// Reads an unchanged set.
    ///
    /// # Panics
    ///
    /// Panics if the set cannot be read.
    pub fn new(registry: &Registry, kind: Kind) -> Self {
        let content = read(registry, &kind, &kind.files);
        let content = content.unwrap_or_else(|error| panic!("{}: {error}", kind.name));
        assert!(content.parts.len() > 1, "{}: {:?}", kind.name, content.parts.keys());
        let owners = if kind.rows { BTreeMap::new() } else { owners(registry, &kind) };
        Self { kind, content, owners }
    }

    /// Returns a description of the error if these files were read without a loss, but with wrong
    /// content.
    fn wrong(&self, files: &Files, read: &Content) -> Option<String> {
        if !read.losses.is_subset(&self.content.losses) {
            return None;
        }
        let was = &self.kind.files;
        let touched: BTreeSet<&String> =
            was.keys().chain(files.keys()).filter(|name| was.get(*name) != files.get(*name)).collect();
        let damaged =
            |name: &&&String| files.get(**name).is_some_and(|bytes| !was.values().any(|w| w == bytes));
        let damaged: BTreeSet<&String> = touched.iter().filter(damaged).copied().collect();
        // If files are identified only by name, swapping files also changes the meaning of the set.
        let changed = if self.kind.ties == Ties::Names { &touched } else { &damaged };
        let says = |name: &&&String| self.kind.says.iter().any(|word| name.contains(word));
        if changed.iter().filter(says).any(|name| files.contains_key(*name)) {
            return None;
        }
        if self.kind.rows {
            self.wrong_rows(files, read)
        } else {
            self.wrong_tensors(files, &touched, &damaged, read)
        }
    }

    /// Checks that tensors are unchanged, except for tensors in changed files whose identity the
    /// set does not record.
    fn wrong_tensors(
        &self,
        files: &Files,
        touched: &BTreeSet<&String>,
        damaged: &BTreeSet<&String>,
        read: &Content,
    ) -> Option<String> {
        // If no file has its original name, the files may be a complete set with a different number
        // of files.
        let is_recounted = !self.kind.files.keys().any(|name| files.contains_key(name));
        if is_recounted && self.kind.ties != Ties::Sums {
            return None;
        }
        let may_differ = match self.kind.ties {
            Ties::Sums => false,
            Ties::Content => !damaged.is_empty(),
            Ties::Names | Ties::Nothing => true,
        };
        let lies_in = |name: &String| {
            self.owners.get(name).is_none_or(|owners| owners.iter().any(|owner| touched.contains(owner)))
        };
        // The file that lists the tensors may be missing.
        let is_listed = self.kind.lists && self.kind.files.keys().all(|name| files.contains_key(name));
        let renames = !is_listed && !damaged.is_empty();
        if renames && read.parts.len() < self.content.parts.len() {
            return Some(format!("{} tensors of {}", read.parts.len(), self.content.parts.len()));
        }
        for (name, was) in &self.content.parts {
            match (read.parts.get(name), was) {
                (Some(is), was) if is == was => {}
                (None, _) if renames && lies_in(name) => {}
                (None, _) => return Some(format!("tensor {name:?} is lost")),
                (Some(Part::Tensor(dtype, shape, _)), Part::Tensor(was_dtype, was_shape, _))
                    if may_differ
                        && lies_in(name)
                        && (!damaged.is_empty() || (dtype, shape) == (was_dtype, was_shape)) => {}
                _ => return Some(format!("tensor {name:?} differs")),
            }
        }
        let added = read.parts.keys().find(|name| !self.content.parts.contains_key(*name));
        added.filter(|_| !renames).map(|name| format!("tensor {name:?} is new"))
    }

    /// Checks that a file with the content of an original file contains the rows of that file, and
    /// that no file is skipped.
    fn wrong_rows(&self, files: &Files, read: &Content) -> Option<String> {
        let was = &self.content.parts;
        let schema = |parts: &BTreeMap<String, Part>| {
            parts.values().find_map(|part| match part {
                Part::Rows(batches) => batches.first().map(RecordBatch::schema),
                Part::Tensor(..) => None,
            })
        };
        // Types that are inferred from all files may differ.
        let same_types = schema(was) == schema(&read.parts);
        for (name, bytes) in files {
            let origin = self.kind.files.iter().find(|(_, origin)| *origin == bytes);
            let Some(rows) = origin.and_then(|(origin, _)| was.get(origin)) else { continue };
            match read.parts.get(name) {
                None => return Some(format!("{name} was not read")),
                Some(found) if count(found) != count(rows) || (same_types && found != rows) => {
                    return Some(format!("{name} has different rows"));
                }
                Some(_) => {}
            }
        }
        // If the count in all names was changed, fewer files may be a complete set.
        let is_recounted = self.kind.ties == Ties::Names && !was.keys().any(|name| files.contains_key(name));
        if self.kind.ties == Ties::Nothing || is_recounted {
            return None;
        }
        let lost = was.keys().find(|name| !read.parts.contains_key(*name));
        let added = read.parts.keys().find(|name| !was.contains_key(*name));
        let differs = (self.kind.ties == Ties::Sums && *was != read.parts).then(|| "other rows".to_owned());
        lost.map(|name| format!("the rows of {name} are lost"))
            .or_else(|| added.map(|name| format!("{name} is not in the set")))
            .or(differs)
    }
}

fn count(part: &Part) -> usize {
    if let Part::Rows(batches) = part { batches.iter().map(RecordBatch::num_rows).sum() } else { 1 }
}

/// Returns the files that contain the bytes of each tensor, according to the reader. Omits tensors
/// that the reader decodes itself.
fn owners(registry: &Registry, kind: &Kind) -> BTreeMap<String, BTreeSet<String>> {
    let source =
        MemorySource::folder(kind.files.iter().map(|(name, bytes)| (name.clone(), Vec::clone(bytes))));
    let context = MemoryContext::default();
    let found = registry.formats().iter().filter_map(|format| {
        let view = MemoryView::read(format.unchecked(), &[], &source, &context).ok()?;
        let catalog = view.catalog();
        let owners = catalog.tensors().iter().filter_map(|tensor| {
            let mut owners = BTreeSet::new();
            let known = tensor.storages().all(|storage| files_of(catalog, storage, &source, &mut owners));
            known.then(|| (tensor.name.clone(), owners))
        });
        Some(owners.collect())
    });
    found.max_by_key(BTreeMap::len).unwrap_or_default()
}

/// Adds the files that contain a storage. Returns whether all of these files are known.
fn files_of(catalog: &Catalog, id: StorageId, source: &MemorySource, owners: &mut BTreeSet<String>) -> bool {
    match catalog.storage(id).map(|storage| &storage.location) {
        Some(StorageLocation::File { file, .. }) => {
            owners.insert(source.name(*file).to_owned());
            true
        }
        Some(StorageLocation::Joined(ranges)) => {
            ranges.ranges().iter().all(|range| files_of(catalog, range.storage, source, owners))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a set with two tensors, each in its own file.
    fn set(ties: Ties, lists: bool) -> Set {
        let files = [("a-1", 1), ("a-2", 2)].map(|(name, byte)| (name.to_owned(), Arc::new(vec![byte])));
        let kind = Kind { name: "set", files: files.into(), entry: "", ties, lists, says: &[], rows: false };
        let owners = [("one", "a-1"), ("two", "a-2")];
        let owners = owners.map(|(name, file)| (name.to_owned(), BTreeSet::from([file.to_owned()])));
        Set { kind, content: content(&[("one", 1), ("two", 2)]), owners: owners.into() }
    }

    fn content(tensors: &[(&str, u8)]) -> Content {
        let tensor = |(name, value): &(&str, u8)| {
            ((*name).to_owned(), Part::Tensor("U8".to_owned(), vec![1], vec![*value]))
        };
        Content { parts: tensors.iter().map(tensor).collect(), losses: BTreeSet::new() }
    }

    /// Returns the files of the set after these changes.
    fn changed(set: &Set, changes: &[[u8; CHANGE]]) -> Files {
        let mut files = set.kind.files.clone();
        changes.iter().for_each(|change| make(&mut files, *change));
        files
    }

    #[test]
    fn what_the_files_do_not_say_is_wrong() {
        let (swap, drop, damage) = ([0, 0, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0], [13, 1, 0, 0, 0, 9]);
        for (ties, lists, change, read, is_wrong) in [
            (Ties::Content, true, swap, &[("one", 1), ("two", 2)][..], false),
            (Ties::Content, true, swap, &[("one", 2), ("two", 1)], true),
            (Ties::Names, true, swap, &[("one", 2), ("two", 1)], false),
            (Ties::Names, true, drop, &[("one", 1)], true),
            (Ties::Content, true, damage, &[("one", 1), ("two", 9)], false),
            (Ties::Sums, true, damage, &[("one", 1), ("two", 9)], true),
            (Ties::Content, true, damage, &[("one", 9), ("two", 2)], true),
            (Ties::Content, true, damage, &[("one", 1), ("three", 2)], true),
            (Ties::Content, false, damage, &[("one", 1), ("three", 2)], false),
            (Ties::Content, false, damage, &[("one", 1)], true),
        ] {
            let set = set(ties, lists);
            let (files, mut read) = (changed(&set, &[change]), content(read));
            assert_eq!(set.wrong(&files, &read).is_some(), is_wrong, "{ties:?}, {change:?}: {read:?}");
            read.losses.insert("it is said".to_owned());
            assert_eq!(set.wrong(&files, &read), None);
        }
    }

    #[test]
    fn names_count_on() {
        assert_eq!(neighbor("m-00009-of-00010.x", 0), "m-00010-of-00010.x");
        assert_eq!(neighbor("m-00009-of-00010.x", 3), "m-00009-of-00009.x");
        assert_eq!(neighbor("latest", 1), "latest.1");
        assert_eq!(recounted("m-00009-of-00010.x", 24), "m-00009-of-00004.x");
    }
}
