//! Reads WebDatasets. The reader first reads all headers to find the columns. The reader divides an
//! uncompressed file into splits of consecutive samples. A compressed file is a single split.

mod stream;

use crate::checkpoint::ContentHints;
use crate::input::{Input, codec_of_file};
use crate::options::{DECODE, KEY_COLUMN, WEIGHTS_ARE_SAMPLES};
use crate::tar::{self, Entry as TarEntry};
use crate::{KEY, SUFFIXES};
use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tensorferry_row_text::Codec;
use tensorferry_sdk::arrow_schema::{DataType, Field, Schema, SchemaRef};
use tensorferry_sdk::file_name::{self, entry_files, has_any_suffix};
use tensorferry_sdk::records::{BatchStream, RecordReader, RecordSet, ScanRequest, Split, narrowed};
use tensorferry_sdk::{
    Context, Error, Limits, Loss, LossKind, LossSink, Options, Purpose, Result, Severity, Source,
};

/// Minimum length of a split in bytes.
const MIN_SPLIT_LEN: u64 = 8 << 20;
/// Number of copies of each column name in memory. Both this plugin and the program that reads the
/// columns keep copies.
const COPIES_PER_NAME: u64 = 8;

pub(crate) struct Reader {
    is_typed: bool,
    /// The name of the key column.
    key: String,
    /// Whether to accept a tar that contains a checkpoint or tables.
    takes_weights: bool,
}

impl Reader {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let key = KEY_COLUMN.get(options)?.unwrap_or_else(|| KEY.to_owned());
        let takes_weights = WEIGHTS_ARE_SAMPLES.get(options)?;
        Ok(Self { is_typed: DECODE.get(options)?, key, takes_weights })
    }
}

impl RecordReader for Reader {
    fn open(
        &self,
        source: Arc<dyn Source>,
        losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>> {
        let mut found = HeaderScan {
            key_column: self.key.clone(),
            takes_weights: self.takes_weights,
            ..HeaderScan::default()
        };
        let expected = SUFFIXES.map(|suffix| format!("*{suffix}")).join(", ");
        let names = entry_files(source.as_ref(), is_member)?;
        for name in file_name::require(names, "no tars here", expected)? {
            found.file(&source, &name, context)?;
        }
        if found.of_macos > 0 {
            context.note(&format!(
                "skipped {} files that macOS adds to archives (._*, .DS_Store)",
                found.of_macos
            ));
        }
        let of = |member: &String| Field::new(member, self.type_of(member), true);
        let key = Field::new(&self.key, DataType::Utf8, false);
        let schema =
            Schema::new(std::iter::once(key).chain(found.members.names.iter().map(of)).collect::<Vec<_>>());
        if let Some(key) = found.apart {
            let why =
                "its members are not adjacent; each group of adjacent members is read as a separate sample";
            losses.loss(Loss::new(LossKind::Record, format!("sample {key:?}"), why))?;
        }
        if let Some((path, count)) = found.others {
            let why =
                format!("{count} files and links have no key or member name and are not part of any sample");
            losses.loss(Loss::new(LossKind::Record, path, why))?;
        }
        if let Some((file, count)) = found.unended {
            let more = if count > 1 { format!(" (and in {} more files)", count - 1) } else { String::new() };
            let why = format!(
                "the archive has no end marker; if the file was truncated after a member, the rest is missing{more}"
            );
            losses.loss(Loss::new(LossKind::Record, file, why))?;
        }
        Ok(Box::new(Set {
            zeros: schema.fields().iter().map(|_| AtomicBool::new(false)).collect(),
            source,
            schema: schema.into(),
            splits: found.splits,
            codecs: found.codecs,
            limits: context.limits().clone(),
        }))
    }
}

impl Reader {
    fn type_of(&self, member: &str) -> DataType {
        match member.rsplit('.').next().unwrap_or(member) {
            "txt" | "text" | "transcript" | "json" | "jsn" if self.is_typed => DataType::Utf8,
            "cls" | "cls2" | "index" | "inx" | "id" if self.is_typed => DataType::Int64,
            _ => DataType::Binary,
        }
    }
}

/// The results of reading the headers of all members.
#[derive(Default)]
struct HeaderScan {
    key_column: String,
    takes_weights: bool,
    /// Number of skipped files that were added by macOS.
    of_macos: u64,
    members: Members,
    splits: Vec<Split>,
    codecs: Vec<Codec>,
    /// Digests of all keys so far, to detect keys that occur again. `apart` is the first repeated
    /// key.
    keys: HashSet<u64>,
    apart: Option<String>,
    /// The first entry that is not part of any sample, and the number of such entries.
    others: Option<(String, u64)>,
    /// The first tar file without end-of-archive blocks, and the number of such tar files.
    unended: Option<(String, u64)>,
}

impl HeaderScan {
    fn file(&mut self, source: &Arc<dyn Source>, name: &str, context: &dyn Context) -> Result<()> {
        let limits = context.limits();
        let codec = codec_of_file(source.as_ref(), name)?;
        let mut input = Input::open(source, name, codec, limits)?;
        let max = if codec == Codec::Plain { MIN_SPLIT_LEN } else { u64::MAX };
        let (mut key, mut own): (Option<String>, HashSet<String>) = (None, HashSet::new());
        let (mut start, mut samples) = (0, 0);
        let mut evidence = ContentHints::default();
        let mut add = |start, end: u64, samples| {
            self.splits.push(Split {
                file: name.to_owned(),
                offset: start,
                bytes: end - start,
                records: Some(samples),
            });
            self.codecs.push(codec);
        };
        let (mut any, mut end) = (false, 0);
        while let Some(entry) = tar::next(&mut input, limits)? {
            context.check_cancelled()?;
            let member = match entry {
                TarEntry::File(member) => member,
                TarEntry::Other(path) => {
                    if !path.ends_with('/') {
                        self.others.get_or_insert((path, 0)).1 += 1;
                    }
                    end = input.offset();
                    continue;
                }
            };
            let sample = tar::split(&member.path);
            if !self.takes_weights {
                evidence.add(&member.path, sample.as_ref().map(|(key, ending)| (*key, &**ending)));
            }
            if let Some((of, ending)) = sample {
                if key.as_deref() != Some(of) {
                    if samples > 0 && member.offset - start >= max {
                        add(start, member.offset, samples);
                        (start, samples, any) = (member.offset, 0, true);
                    }
                    let mut digest = DefaultHasher::new();
                    of.hash(&mut digest);
                    if self.keys.len() as u64 >= limits.entries {
                        return Err(
                            Error::limit("too many samples").expected(format!("at most {}", limits.entries))
                        );
                    }
                    if !self.keys.insert(digest.finish()) {
                        self.apart.get_or_insert_with(|| of.to_owned());
                    }
                    samples += 1;
                    own.clear();
                    key = Some(of.to_owned());
                }
                if ending == self.key_column {
                    return Err(Error::unsupported("a member has the same name as the key column")
                        .hint("pass -i key=NAME to give the key column a different name")
                        .file(name)
                        .offset(member.offset));
                }
                if !own.insert(ending.clone()) {
                    return Err(Error::malformed("a sample has two members with the same name")
                        .file(name)
                        .offset(member.offset)
                        .expected(format!("one {ending:?} in sample {of:?}"))
                        .found(format!("{:?}", member.path)));
                }
                self.members.add(ending, limits).map_err(|error| error.file(name).offset(member.offset))?;
            } else if tar::is_macos_metadata(&member.path) {
                self.of_macos += 1;
            } else if !member.path.starts_with("__") {
                self.others.get_or_insert((member.path.clone(), 0)).1 += 1;
            }
            input.skip(member.size)?;
            input.skip(tar::padding(member.size))?;
            end = input.offset();
        }
        let is_nemo = name.to_ascii_lowercase().ends_with(".nemo");
        let checkpoint = evidence.checkpoint().or((is_nemo && !self.takes_weights).then_some(name));
        // When ferry reads back its own output, member names that look like names of tables are not
        // an error.
        let table = evidence.table().filter(|_| !context.purpose().has(Purpose::COMPARE));
        let other = checkpoint.map(|file| ("a checkpoint", file)).or(table.map(|file| ("tables", file)));
        if let Some((what, file)) = other {
            let why = format!("the tar contains {what} instead of WebDataset samples");
            return Err(Error::unsupported(why)
                .file(name)
                .hint("unpack the tar and pass its folder, or pass -i weights=samples")
                .found(format!("{file:?}")));
        }
        // The tar ends right after the last entry, without any block of zeros.
        if input.offset() == end {
            self.unended.get_or_insert_with(|| (name.to_owned(), 0)).1 += 1;
        }
        if samples > 0 || !any {
            // A compressed file has one split, which covers all stored bytes of the file.
            let end = if codec == Codec::Plain { input.offset() } else { source.len(source.open(name)?) };
            add(start, end, samples);
        }
        Ok(())
    }
}

/// The members that occur in samples. Each of these members becomes a column.
#[derive(Default)]
struct Members {
    names: BTreeSet<String>,
    /// Total length of the names in bytes.
    bytes: u64,
}

impl Members {
    /// Adds a member if it is new. The number of members is limited, because a hostile file can
    /// name any number of them.
    fn add(&mut self, name: String, limits: &Limits) -> Result<()> {
        if self.names.contains(&name) {
            return Ok(());
        }
        // Counts the key column and the new member.
        let columns = self.names.len() as u64 + 2;
        if columns > limits.columns {
            let expected = format!("at most {}", limits.columns);
            return Err(Error::limit("too many columns")
                .hint("raise the limit with --limit columns=N")
                .expected(expected)
                .found(columns));
        }
        self.bytes += name.len() as u64;
        let max = limits.header_bytes / COPIES_PER_NAME;
        if self.bytes > max {
            let error = Error::limit("the names of columns are too long to hold in memory");
            let expected = format!("at most {max} bytes together");
            return Err(error
                .hint("raise the limit with --limit header_bytes=N")
                .expected(expected)
                .found(self.bytes));
        }
        self.names.insert(name);
        Ok(())
    }
}

struct Set {
    source: Arc<dyn Source>,
    schema: SchemaRef,
    splits: Vec<Split>,
    codecs: Vec<Codec>,
    limits: Limits,
    /// For each column, whether the reader found a number with leading zeros.
    zeros: Arc<[AtomicBool]>,
}

impl RecordSet for Set {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// Reads only the headers of skipped samples and unrequested members.
    fn scan(&self, split: usize, scan: &ScanRequest) -> Result<BatchStream> {
        let of = self.splits.get(split).zip(self.codecs.get(split));
        let (of, codec) = of.ok_or_else(|| Error::plugin(format!("no split {split}")))?;
        let mut input = Input::open(&self.source, &of.file, *codec, &self.limits)?;
        if let Input::Plain(file) = &input {
            input = Input::Plain(file.part(of.offset, of.offset + of.bytes));
        }
        let rows = stream::open(input, &self.schema, scan, self.zeros.clone(), &self.limits)?;
        narrowed(rows, &self.schema, &ScanRequest { first_row: 0, limit: None, ..scan.clone() })
    }

    fn losses(&self, losses: &mut dyn LossSink) -> Result<()> {
        let columns = self.schema.fields().iter().zip(&*self.zeros);
        let mut lost = columns.filter(|(_, lost)| lost.load(Ordering::Relaxed));
        lost.try_for_each(|(field, _)| {
            let why = "leading zeros of numbers are lost; -i members=bytes keeps them";
            losses.loss(Loss::new(LossKind::Record, field.name(), why).severity(Severity::Changed))
        })
    }
}

/// Returns whether a file name has an extension of this format.
pub(crate) fn has_tar_extension(name: &str) -> bool {
    has_any_suffix(name, SUFFIXES)
}

/// Returns whether a file in a folder is part of the dataset.
pub(crate) fn is_member(name: &str) -> bool {
    file_name::is_member(name, SUFFIXES)
}
