//! The account of an input assigns each entry of the folder, glob or set to exactly one class.
//!
//! | Class | Entries | In a report |
//! |---|---|---|
//! | read | files that the reader opened | count |
//! | companion | files that are copied along with a model, and index files of record files | count, a sample |
//! | superseded | a different form of the same model, by the table in `account/superseded.rs` | count, a sample |
//! | no data | names in the table of `account/names.rs`, receipts, journals | count, a sample |
//! | left out | files that may contain tensors or records | one loss per file |
//! | not examined | files whose names do not show their content | count, a sample |
//!
//! The class of an entry depends on its name. Files without a suffix are opened to find their
//! format, but only on local disks, and at most `MAX_SNIFFED` files per input. ferry looks for such
//! files in the folder and in the first `MAX_LISTED` entries of its sub-folders. Sub-folders are
//! listed only on local disks, up to `MAX_ENTERED` entries in total.

mod names;
mod superseded;

pub use names::{is_folder_without_data, other_data};
pub use superseded::{ReadFiles, is_export, is_export_folder, is_vendor_folder};

use crate::context::session::Session;
use crate::formats::data_names::DataNames;
use crate::formats::probe::probe;
use crate::formats::registry::Formats;
use crate::read::folder::{ADVICE, EntryKind, FolderEntry, LEADS_OUT};
use crate::read::own_files::is_own;
use crate::read::pattern::FilePattern;
use crate::read::source::{ALLOW_INPUT, FileSource};
use names::{is_file_without_data, why_left_out};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use tensorferry_sdk::ErrorKind::Unsupported;
use tensorferry_sdk::file_name::{is_hidden, uncompressed};
use tensorferry_sdk::{Entry, Error, Loss, LossKind, Result, Source};

/// Maximum number of files without a suffix to open.
pub(crate) const MAX_SNIFFED: usize = 16;
/// Maximum number of entries in sub-folders to search for files without a suffix.
const MAX_LISTED: usize = 1_000;
/// Maximum number of entries to list in sub-folders.
pub(crate) const MAX_ENTERED: usize = 100_000;
/// Maximum number of names that braces may expand to.
const MAX_NAMED: u64 = 1 << 20;
/// Maximum depth of sub-folders to search.
const MAX_DEPTH: usize = 32;
/// Maximum number of names per class in a report. The class "left out" has no such limit.
const MAX_SAMPLE: usize = 3;
/// Suffixes of files that contain the index of a record file.
const INDEXES: [&str; 2] = [".idx", ".index"];

/// The class of an input's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntryClass {
    /// A reader opened the entry.
    Read,
    /// The entry accompanies the data that was read. If the data is a model, the entry is copied
    /// along with the model.
    Companion,
    /// The user excluded the entry from the files that are copied.
    Excluded,
    /// The entry is a different form of the model that was read.
    Superseded,
    /// The entry is known to contain no data.
    NoData,
    /// The entry may contain data, and was not read.
    LeftOut,
    /// The entry's name does not show what it contains, and ferry did not open it.
    NotExamined,
}

impl EntryClass {
    pub const ALL: [Self; 7] = [
        Self::Read,
        Self::Companion,
        Self::Excluded,
        Self::Superseded,
        Self::NoData,
        Self::LeftOut,
        Self::NotExamined,
    ];

    /// Returns the name of the class in JSON documents.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Companion => "companion",
            Self::Excluded => "excluded",
            Self::Superseded => "superseded",
            Self::NoData => "no_data",
            Self::LeftOut => "left_out",
            Self::NotExamined => "not_examined",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    counts: BTreeMap<EntryClass, u64>,
    samples: BTreeMap<EntryClass, Vec<String>>,
    /// One loss per entry that was left out.
    losses: Vec<Loss>,
    /// The first unreadable entry that some format declares by its name, and the reason.
    unreadable: Option<(String, String)>,
    pub models: u64,
}

/// An account as stored in JSON documents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountRecord {
    #[serde(default)]
    pub models: u64,
    /// Number of entries per class.
    #[serde(default)]
    pub counts: BTreeMap<String, u64>,
    /// All entries that were left out.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// A sample of the names in the other classes.
    #[serde(default)]
    pub samples: BTreeMap<String, Vec<String>>,
}

impl AccountRecord {
    /// Returns the account as one line: `2 models; 3 read, 7 companions, 2 superseded
    /// (pytorch_model.bin, tf_model.h5)`.
    #[must_use]
    pub fn line(&self) -> String {
        let counted = |class: &EntryClass| {
            let count = *self.counts.get(class.word())?;
            let word = match class {
                EntryClass::Companion if count != 1 => "companions",
                EntryClass::NoData => "without data",
                class => class.word(),
            };
            let is_listed =
                matches!(class, EntryClass::Excluded | EntryClass::Superseded | EntryClass::NotExamined);
            let names = self.samples.get(class.word()).filter(|_| is_listed);
            let more = if count > MAX_SAMPLE as u64 { ", ..." } else { "" };
            let names = names.map(|names| format!(" ({}{more})", names.join(", "))).unwrap_or_default();
            Some(format!("{count} {}{names}", word.replace('_', " ")))
        };
        let models = match self.models {
            0 => String::new(),
            1 => "1 model; ".to_owned(),
            count => format!("{count} models; "),
        };
        format!("{models}{}", EntryClass::ALL.iter().filter_map(counted).collect::<Vec<_>>().join(", "))
    }

    /// Returns whether the account contains anything other than files that were read and companions
    /// of a single model.
    #[must_use]
    pub fn is_notable(&self) -> bool {
        let plain = [EntryClass::Read, EntryClass::Companion].map(EntryClass::word);
        self.models > 1 || self.counts.keys().any(|class| !plain.contains(&class.as_str()))
    }
}

impl Account {
    /// Returns an account without entries for this number of models.
    pub fn of_models(models: u64) -> Self {
        Self { models, ..Self::default() }
    }

    pub fn add(&mut self, class: EntryClass, name: &str) {
        *self.counts.entry(class).or_default() += 1;
        let sample = self.samples.entry(class).or_default();
        if class == EntryClass::LeftOut || (class != EntryClass::Read && sample.len() < MAX_SAMPLE) {
            sample.push(name.to_owned());
        }
    }

    /// Adds an entry that may contain data but was not read.
    pub fn leave_out(&mut self, name: &str, why: impl Into<String>) {
        self.add(EntryClass::LeftOut, name);
        self.losses.push(Loss::new(LossKind::Input, name, why));
    }

    /// Adds an entry if its kind determines its class, or if its name shows that it contains no
    /// data. Returns whether the entry was added.
    pub fn add_special(&mut self, folder: &FileSource, entry: &FolderEntry, names: &DataNames) -> bool {
        let file = entry.name.rsplit('/').next().unwrap_or_default();
        let is_known = match entry.kind {
            EntryKind::Folder => is_folder_without_data(file),
            _ => is_file_without_data(file),
        };
        if is_known || (entry.kind == EntryKind::File && is_own(folder.folder(), &entry.name)) {
            self.add(EntryClass::NoData, &entry.name);
            return true;
        }
        let Some(why) = unreadable(folder, entry) else { return false };
        if entry.kind != EntryKind::Folder && names.is_read(file) && self.unreadable.is_none() {
            self.unreadable = Some((entry.name.clone(), why.clone()));
        }
        self.leave_out(&entry.name, format!("the entry {why}"));
        true
    }

    /// Returns the number of entries in a class.
    #[must_use]
    pub fn count(&self, class: EntryClass) -> u64 {
        self.counts.get(&class).copied().unwrap_or_default()
    }

    /// Returns a sample of the names in a class. For the class "left out", returns all names.
    #[must_use]
    pub fn sample(&self, class: EntryClass) -> &[String] {
        self.samples.get(&class).map_or(&[], Vec::as_slice)
    }

    /// Returns a loss for each entry that was left out.
    #[must_use]
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// Returns the first unreadable entry that some format would read, and the reason why it is
    /// unreadable.
    pub fn unreadable(&self) -> Option<(&str, &str)> {
        self.unreadable.as_ref().map(|(name, why)| (&**name, &**why))
    }

    /// Checks that every entry that some format would read is readable. `is_allowed` states whether
    /// the user allows unreadable entries, and is `None` if the command has no option for them.
    pub fn check(&self, is_allowed: Option<bool>) -> Result<()> {
        let advice = match is_allowed {
            Some(true) => return Ok(()),
            Some(false) => ALLOW_INPUT,
            None => "or pass a pattern that matches only the files you want",
        };
        let Some((name, why)) = &self.unreadable else { return Ok(()) };
        let error = Error::malformed(format!("this entry of the input {why}")).file(name);
        let first = if why == LEADS_OUT { ADVICE } else { "make the file readable" };
        Err(error.hint(format!("{first}, {advice}")))
    }

    #[must_use]
    pub fn record(&self) -> AccountRecord {
        let word = |class: &EntryClass| class.word().to_owned();
        let samples =
            self.samples.iter().filter(|(class, names)| **class != EntryClass::LeftOut && !names.is_empty());
        AccountRecord {
            models: self.models,
            counts: self.counts.iter().map(|(class, count)| (word(class), *count)).collect(),
            left_out: self.sample(EntryClass::LeftOut).to_vec(),
            samples: samples.map(|(class, names)| (word(class), names.clone())).collect(),
        }
    }

    /// Returns a note for the user about files that contain a different form of the model.
    pub fn note(&self) -> Option<String> {
        let names = self.sample(EntryClass::Superseded);
        let quoted = names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let more = self.count(EntryClass::Superseded).saturating_sub(names.len() as u64);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!names.is_empty()).then(|| format!("another form of the same model, not copied: {quoted}{more}"))
    }
}

/// The file in which the Python library `datasets` lists the files of a saved dataset.
pub const STATE: &str = "state.json";

/// A group of entries in a folder that belong together according to their names.
pub(crate) trait EntrySet: Debug + Send + Sync {
    /// Returns whether an entry belongs to the set, or is a folder that may contain such entries.
    fn contains(&self, entry: &FolderEntry) -> bool;
}

/// The entries that an input includes, and the file names that formats declare.
#[derive(Debug)]
pub struct InputScope {
    reach: ScopeKind,
    names: Arc<DataNames>,
    /// Formats of files without a suffix, determined from the files' content.
    sniffed: BTreeMap<String, String>,
}

/// Returns whether a file whose name begins with a model's prefix belongs to that model. `rest` is
/// the part after the prefix: `ckpt-1.index` belongs to `ckpt-1`, but `ckpt-10.index` does not.
fn continues_model_name(rest: &str) -> bool {
    let number = rest.strip_prefix('-').unwrap_or_default();
    rest.starts_with('.') || number.starts_with(|first: char| first.is_ascii_digit())
}

#[derive(Debug, Clone)]
enum ScopeKind {
    /// All entries in the folder are included.
    Folder,
    /// Names with this prefix are included.
    Prefix(String),
    /// Names that match this pattern are included.
    Glob(String),
    /// Names that belong to this set are included.
    Set(Arc<dyn EntrySet>),
}

impl InputScope {
    /// Returns the scope of a source that the user named, which determines the entries in its
    /// account. `files` is the value of the option `files`. Returns `None` if the user named a
    /// single file, or listed files one by one.
    pub fn of(source: &FileSource, files: Option<&str>, registry: &Formats) -> Result<Option<Self>> {
        let reach = match (files, source.pattern(), source.entry()) {
            (Some(glob), ..) | (None, Some(glob), _) => ScopeKind::Glob(glob.to_owned()),
            _ if source.is_listed() => return Ok(None),
            (.., Entry::File(_)) => return Ok(None),
            (.., Entry::Folder) => ScopeKind::Folder,
            (.., Entry::Prefix(prefix)) => ScopeKind::Prefix(prefix.clone()),
        };
        let names = registry.data_names()?;
        Ok(Some(Self { reach, names, sniffed: BTreeMap::new() }))
    }

    /// Returns the scope of a set that the user chose in a folder.
    pub(crate) fn of_set(set: Arc<dyn EntrySet>, registry: &Formats) -> Result<Self> {
        Ok(Self { reach: ScopeKind::Set(set), names: registry.data_names()?, sniffed: BTreeMap::new() })
    }

    /// Opens files whose names do not show their format, and finds their formats.
    pub(crate) fn sniff(&mut self, source: &FileSource, registry: &Formats, session: &Session) {
        if !source.is_local() || !matches!(self.reach, ScopeKind::Folder) {
            return;
        }
        let root = source.in_folder("");
        let says_nothing = |entry: &FolderEntry| {
            let file = base(&entry.name);
            let is_plain = entry.kind == EntryKind::File && !file.contains('.') && !is_hidden(file);
            is_plain && self.names.format_of(file).is_none() && !is_document(file)
        };
        let (mut open, mut listed, mut found) = (VecDeque::from([String::new()]), 0, Vec::new());
        while let Some(folder) = open.pop_front().filter(|_| found.len() < MAX_SNIFFED) {
            let entries = root.entries(&folder).unwrap_or_default();
            listed += if folder.is_empty() { 0 } else { entries.len() };
            if listed < MAX_LISTED {
                let is_entered = |entry: &&FolderEntry| {
                    entry.kind == EntryKind::Folder
                        && !entry.is_link
                        && !is_folder_without_data(base(&entry.name))
                };
                open.extend(entries.iter().filter(is_entered).map(|entry| entry.name.clone()));
            }
            found.extend(entries.into_iter().filter(says_nothing));
        }
        for entry in found.into_iter().take(MAX_SNIFFED) {
            let alone = root.with_files(vec![entry.name.clone()]);
            if let Ok(format) = probe(registry, &alone, None, session) {
                self.sniffed.insert(entry.name, format.description.id.clone());
            }
        }
    }

    /// Returns the account of an input that was read in one format. The account of a model does not
    /// include files in sub-folders. `is_read` returns whether a file was read.
    pub fn account(
        &self,
        source: &FileSource,
        read_as: &str,
        holds_records: bool,
        is_read: &dyn Fn(&str) -> bool,
    ) -> Result<Account> {
        let root = source.in_folder("");
        let pattern = match &self.reach {
            ScopeKind::Glob(glob) => Some(FilePattern::parse(glob, MAX_NAMED)?),
            _ => None,
        };
        let enters = match &self.reach {
            ScopeKind::Folder | ScopeKind::Set(_) => holds_records,
            ScopeKind::Glob(glob) => FilePattern::has_folders(glob),
            ScopeKind::Prefix(_) => false,
        };
        let mut account = Account::of_models(u64::from(!holds_records));
        // Folders to visit, each with the targets of the links that lead to it, because links may
        // form a cycle.
        let mut open = vec![(String::new(), Vec::new())];
        let mut entered = 0;
        while let Some((folder, targets)) = open.pop() {
            let entries = match root.entries(&folder) {
                Ok(entries) => entries,
                // Some servers cannot list files. In that case, only the entries that the user
                // named are known.
                Err(error) if !root.is_local() && error.kind() == Unsupported => break,
                Err(error) if folder.is_empty() => return Err(error),
                Err(error) => {
                    account.leave_out(&folder, format!("the folder cannot be listed: {error}"));
                    continue;
                }
            };
            if !folder.is_empty() {
                entered += entries.len();
            }
            let read: Vec<&str> =
                entries.iter().map(|entry| &*entry.name).filter(|name| is_read(name)).collect();
            let read_files = ReadFiles::of(read.iter().map(|name| base(name)), &self.names);
            // `datasets` lists its files in `state.json`, and writes cached results next to these
            // files.
            let is_saved = entries.iter().any(|entry| base(&entry.name) == STATE);
            let is_cache =
                |name: &str| is_saved && base(name).starts_with("cache-") && name.ends_with(".arrow");
            for entry in &entries {
                let is_meant = match (&self.reach, &pattern) {
                    (ScopeKind::Prefix(prefix), _) => {
                        let rest = entry.name.strip_prefix(&**prefix);
                        rest.is_some_and(|rest| holds_records || continues_model_name(rest))
                    }
                    (_, Some(_)) if entry.kind == EntryKind::Folder => {
                        !is_folder_without_data(base(&entry.name))
                    }
                    (_, Some(pattern)) => pattern.is_match(&entry.name),
                    (ScopeKind::Set(set), _) => set.contains(entry),
                    _ => true,
                };
                if !is_meant {
                    continue;
                }
                if entry.kind == EntryKind::File && is_read(&entry.name) {
                    account.add(EntryClass::Read, &entry.name);
                } else if account.add_special(&root, entry, &self.names) {
                    // `add_special` has classified this entry.
                } else if entry.kind == EntryKind::Folder {
                    let is_deep = entry.name.split('/').count() > MAX_DEPTH;
                    if let Some(what) = other_data(base(&entry.name)).filter(|_| holds_records) {
                        account.leave_out(&entry.name, format!("it is {what}"));
                    } else if enters
                        && root.is_local()
                        && !is_deep
                        && entered < MAX_ENTERED
                        && let Some(targets) = followed(&root, entry, &targets)
                    {
                        open.push((entry.name.clone(), targets));
                    } else if pattern.is_none() {
                        account.add(EntryClass::NotExamined, &format!("{}/", entry.name));
                    }
                } else if holds_records && is_cache(&entry.name) {
                    account.add(EntryClass::NoData, &entry.name);
                } else if holds_records {
                    self.add_beside_records(&mut account, &entry.name, read_as, is_read);
                } else {
                    self.add_beside_a_model(&mut account, &entry.name, read_as, &read_files);
                }
            }
        }
        Ok(account)
    }

    fn add_beside_records(
        &self,
        account: &mut Account,
        name: &str,
        read_as: &str,
        is_read: &dyn Fn(&str) -> bool,
    ) {
        let file = base(name);
        let is_index = INDEXES.iter().filter_map(|end| name.strip_suffix(end)).any(is_read);
        if is_index {
            account.add(EntryClass::Companion, name);
        } else if is_read(uncompressed(name)) {
            // This entry is a compressed file with the same records as a file that was read.
            account.add(EntryClass::Superseded, name);
        } else if let Some(format) = self.names.format_of(file).or(self.sniffed.get(name).map(String::as_str))
        {
            account.leave_out(name, why_left_out(file, format, read_as));
        } else if let Some(tracked) = name.strip_suffix(".dvc") {
            if is_read(tracked) || self.names.format_of(base(tracked)).is_none() {
                account.add(EntryClass::NoData, name);
            } else {
                account.leave_out(name, "it is a DVC pointer to a missing file");
            }
        } else if is_hidden(file) {
            account.add(EntryClass::NoData, name);
        } else if let Some(what) = other_data(file) {
            account.leave_out(name, format!("it is {what}"));
        } else {
            account.add(EntryClass::NotExamined, name);
        }
    }

    fn add_beside_a_model(&self, account: &mut Account, name: &str, read_as: &str, read: &ReadFiles) {
        let file = base(name);
        match self.names.format_of(file) {
            Some(_) | None if read.supersede(file, &self.names) => account.add(EntryClass::Superseded, name),
            Some(format) if format == read_as && !crate::read::key_words::names_training_state(file) => {
                account.leave_out(name, why_left_out(file, format, read_as));
            }
            _ => account.add(EntryClass::Companion, name),
        }
    }
}

/// Returns the targets of the links that lead into a folder, or `None` if the links form a cycle.
fn followed(root: &FileSource, entry: &FolderEntry, targets: &[PathBuf]) -> Option<Vec<PathBuf>> {
    if !entry.is_link {
        return Some(targets.to_vec());
    }
    let path = root.path(&entry.name);
    let target = std::fs::canonicalize(&path).ok()?;
    let around = std::fs::canonicalize(path.parent()?).ok()?;
    let is_circle = around.starts_with(&target) || targets.contains(&target);
    (!is_circle).then(|| [targets, &[target]].concat())
}

/// Returns whether a file is a document of a repository, such as a README, judging by its name.
fn is_document(file: &str) -> bool {
    ["README", "LICENSE", "LICENCE", "NOTICE", "COPYING", "AUTHORS", "CODEOWNERS", "Makefile", "Dockerfile"]
        .iter()
        .any(|name| file.starts_with(name))
}

fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Returns why an entry is unreadable, or `None` if it is readable.
pub fn unreadable(folder: &FileSource, entry: &FolderEntry) -> Option<String> {
    match entry.kind {
        EntryKind::Unnameable => return Some("has a name that is not UTF-8".to_owned()),
        EntryKind::File | EntryKind::Folder => return None,
        EntryKind::Outside => return Some(LEADS_OUT.to_owned()),
        EntryKind::Other => {}
    }
    Some(match std::fs::metadata(folder.path(&entry.name)) {
        Ok(found) if found.is_file() || found.is_dir() => {
            format!("cannot be read: {}", folder.why_unreadable(&entry.name)?)
        }
        Ok(_) => "is not a regular file".to_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound && entry.is_link => {
            "is a link whose target is missing".to_owned()
        }
        Err(error) if entry.is_link => format!("is a link that cannot be followed: {error}"),
        Err(error) => format!("cannot be inspected: {error}"),
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use tensorferry_sdk::{Capabilities, Description, Format, Limits};

    struct Lines;

    impl Format for Lines {
        fn describe(&self) -> Description {
            Description::new("lines", "").suffixes([".jsonl"]).capabilities(Capabilities::READ_RECORDS)
        }
    }

    fn account(folder: &std::path::Path, files: Option<&str>, read: &[&str]) -> Account {
        let source =
            FileSource::open_local(folder, crate::context::session::LinkRules::default(), &Limits::default())
                .unwrap();
        let scope = InputScope::of(&source, files, &Formats::new().with(Box::new(Lines))).unwrap().unwrap();
        scope.account(&source, "lines", true, &|name| read.contains(&name)).unwrap()
    }

    #[test]
    fn every_entry_is_in_one_class() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        for folder in ["sub", "sub/deeper", ".git"] {
            fs::create_dir(at(folder)).unwrap();
        }
        let files = [
            "a.jsonl",
            "a.jsonl.idx",
            "a.jsonl.zst",
            "b.jsonl.bz2",
            "_SUCCESS",
            "README.md",
            "more.zip",
            "sub/deeper/C.JSONL",
            ".git/x.jsonl",
        ];
        for file in files {
            fs::write(at(file), "").unwrap();
        }
        let found = account(home.path(), None, &["a.jsonl"]);
        assert_eq!(found.check(Some(false)), Ok(()));
        let record = found.record();
        assert_eq!(record.left_out, ["b.jsonl.bz2", "more.zip", "sub/deeper/C.JSONL"]);
        let counts: Vec<_> = record.counts.iter().map(|(class, count)| (class.as_str(), *count)).collect();
        assert_eq!(
            counts,
            [
                ("companion", 1),
                ("left_out", 3),
                ("no_data", 2),
                ("not_examined", 1),
                ("read", 1),
                ("superseded", 1)
            ]
        );
        assert!(
            record.is_notable() && record.line().contains("1 not examined (README.md)"),
            "{}",
            record.line()
        );
        assert!(found.losses().iter().all(|loss| loss.kind == LossKind::Input), "{:?}", found.losses());
        // A pattern includes only the files that it matches.
        let named = account(home.path(), Some("*.jsonl"), &["a.jsonl"]);
        assert_eq!((named.count(EntryClass::Read), named.counts.len()), (1, 1));
    }

    #[test]
    fn an_entry_that_cannot_be_looked_at_is_an_error_if_a_format_would_read_it() {
        for (name, is_error) in [
            (&b"b.jsonl"[..], true),
            (b"B.JSONL.xz", true),
            (b"caf\xe9.jsonl", true),
            (b"README.md", false),
            (b"x", false),
        ] {
            let home = tempfile::tempdir().unwrap();
            fs::write(home.path().join("a.jsonl"), "").unwrap();
            let path = home.path().join(std::ffi::OsStr::from_bytes(name));
            if name.is_ascii() {
                symlink("gone", path).unwrap();
            } else {
                fs::write(path, "").unwrap();
            }
            let found = account(home.path(), None, &["a.jsonl"]);
            let text = String::from_utf8_lossy(name);
            assert_eq!((found.losses().len(), found.count(EntryClass::LeftOut)), (1, 1), "{text}");
            let error = found.check(Some(false)).map_err(|error| format!("{error:?}"));
            assert_eq!(
                error.as_ref().is_err_and(|error| error.contains("--allow-loss input")),
                is_error,
                "{error:?}"
            );
            assert!(error.is_ok() || error.unwrap_err().contains(&*text));
            assert_eq!(found.check(None).is_err(), is_error);
            assert_eq!(found.check(Some(true)), Ok(()));
        }
    }
}
