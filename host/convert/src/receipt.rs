//! A receipt is what an output was made from and how, with the digests of all of it: a JSON document
//! that is committed with the output, and that `ferry verify` holds the output against later.
//!
//! `host/docs/receipt.md` describes the document field by field, and the bytes that each digest is
//! over. It lies where the output does: `NAME.ferry.json` beside a file or a set of files NAME, and
//! `receipt.ferry.json` in a folder that is the output's own, so that it goes where the folder goes.
//! File names in it are relative to the folder that it lies in. No format declares such names as its
//! own, and a conversion of the folder does not carry it along.

pub mod digest;
pub mod find;
pub mod rows;
pub mod verdict;

pub use digest::{FileDigest, FileRecord, Files};
pub use find::{FoundReceipts, find};
pub use verdict::{Checked, Problem, Subject, Verdict};

use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tensorferry_core::context::loss::LossRecord;
use tensorferry_core::context::regular_file;
use tensorferry_core::context::session::Session;
use tensorferry_core::read::account::AccountRecord;
use tensorferry_core::read::folder::{is_url, shown};
use tensorferry_core::read::source::FileSource;
use tensorferry_publish::stage::{Destination, DestinationKind};
use tensorferry_sdk::{CatalogView, Error, Limits, Result, Source, TensorId, hex};
use tensorferry_tensors::content::ContentDigest;
use tensorferry_tensors::logical::Logical;

/// The layout of the document. It changes when a field changes its meaning; a field more is no change.
pub const VERSION: u32 = 3;

pub use tensorferry_core::read::own_files::RECEIPT as SUFFIX;

/// A receipt's name in a folder that is the output's own.
const IN_FOLDER: &str = "receipt.ferry.json";

/// What an output was made from and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// [`VERSION`].
    pub receipt: u32,
    /// The version of the program that wrote the output.
    pub ferry: String,
    /// When, UTC, as RFC 3339 has it: the one field in which two runs of the same conversion differ.
    pub written: String,
    /// What was read.
    pub input: InputRecord,
    /// `--part`.
    pub part: String,
    /// `--step`, in order.
    #[serde(default)]
    pub steps: Vec<String>,
    /// What was written.
    pub output: OutputRecord,
    /// Tensors or records that were read back and compared before the commit, if that was asked for.
    #[serde(default)]
    pub verified: Option<u64>,
    /// The records in the output, where it is one of records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<RecordsRecord>,
    /// The models in the output; one, but of a folder that has more in its sub-folders; none for records.
    #[serde(default)]
    pub models: Vec<ModelRecord>,
    /// What could not be carried.
    #[serde(default)]
    pub losses: Vec<LossRecord<'static>>,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRecord {
    /// INPUT, made absolute.
    pub path: String,
    /// The folder that the names of its files are relative to, absolute.
    pub folder: String,
    /// `-i`, as given.
    #[serde(default)]
    pub options: Vec<(String, String)>,
    /// Every file of it that was opened, sorted by name.
    pub files: Vec<FileRecord>,
    /// Other inputs that options of the reader name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_inputs: Vec<AdditionalInput>,
    /// What became of each entry of a folder, glob or set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountRecord>,
}

/// An input that an option of the reader names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdditionalInput {
    /// The folder that the names of its files are relative to, absolute.
    pub folder: String,
    /// Every file of it that was opened, sorted by name.
    pub files: Vec<FileRecord>,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRecord {
    /// In what format.
    pub format: FormatRecord,
    /// `-o`, as given.
    #[serde(default)]
    pub options: Vec<(String, String)>,
    /// Every file, relative to the receipt's folder, in the writer's order, sidecars last.
    pub files: Vec<FileRecord>,
}

/// A format, and who read or wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormatRecord {
    /// Its id, as in `--from` and `--to`.
    pub id: String,
    /// The plugin.
    pub plugin: String,
    /// The plugin's version.
    pub version: String,
    /// The format's output revision: another one may give other bytes for the same input.
    pub output_revision: u32,
}

/// A model of the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRecord {
    /// Its sub-folder, relative to the receipt's folder; empty for that folder itself.
    pub folder: String,
    /// The file that it is opened by, relative to that folder; none if it is the folder.
    pub entry: Option<String>,
    /// The format that it was read in.
    pub from: FormatRecord,
    /// Its content digest.
    pub content: String,
    /// Its tensors, in the input's order, under the output's names.
    pub tensors: Vec<TensorRecord>,
}

/// A tensor of the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorRecord {
    /// Its name.
    pub name: String,
    /// Its dtype, as `ferry inspect` names it.
    pub dtype: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// The length of its logical bytes.
    pub bytes: u64,
    /// Its content digest.
    pub content: String,
}

impl TensorRecord {
    /// The record of a tensor under this name.
    ///
    /// # Errors
    /// A plugin error, for a dtype that the catalog does not have.
    pub fn of(logical: &Logical<'_>, id: TensorId, name: &str, content: &ContentDigest) -> Result<Self> {
        let tensor = logical.tensor(id);
        Ok(Self {
            name: name.to_owned(),
            dtype: logical.dtype_info(tensor.dtype)?.name().to_owned(),
            shape: tensor.shape.to_vec(),
            bytes: tensor.bytes,
            content: hex(content),
        })
    }
}

/// The records of an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordsRecord {
    /// The format that they were read in.
    pub from: FormatRecord,
    /// How many.
    pub rows: u64,
    /// The content digest of all of them.
    pub content: String,
    /// Their columns, in the schema's order.
    pub columns: Vec<ColumnRecord>,
    /// What each of the output's files holds of them.
    pub files: Vec<RowsRecord>,
}

/// A column of records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnRecord {
    /// Its name.
    pub name: String,
    /// What its values are, below all lists.
    #[serde(rename = "type")]
    pub word: String,
    /// The lists that each row has of them: their lengths, null for any.
    #[serde(default)]
    pub shape: Vec<Option<u64>>,
}

/// The records of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsRecord {
    /// The file's name.
    pub name: String,
    /// How many were sent to it.
    pub rows: u64,
    /// How many of them the format could not hold, so that they are not in the file. Earlier receipts do not say.
    #[serde(default)]
    pub lost: Option<u64>,
    /// Each column's content digest; null for one that has none.
    pub columns: Vec<Option<String>>,
}

impl RecordsRecord {
    /// The content digest of all records, made of those of their files; none, if one is no digest.
    pub(crate) fn content_of_files(&self) -> Option<ContentDigest> {
        let of_file = |file: &RowsRecord| {
            let columns = self.columns.iter().zip(&file.columns);
            let digests =
                columns.filter_map(|(column, digest)| Some((column.name.as_str(), digest.as_ref()?)));
            let digests = digests.map(|(name, digest)| Some((name, from_hex(digest)?)));
            Some((file.rows, digests.collect::<Option<Vec<_>>>()?))
        };
        let files: Vec<(u64, Vec<(&str, ContentDigest)>)> =
            self.files.iter().map(of_file).collect::<Option<_>>()?;
        Some(rows::rows_digest(files.into_iter()))
    }
}

/// The receipt's name for an output, relative to the output's folder.
#[must_use]
pub(crate) fn name_for(destination: &Destination) -> String {
    match &destination.kind {
        DestinationKind::Beside { name } => format!("{name}{SUFFIX}"),
        DestinationKind::Folder => IN_FOLDER.to_owned(),
    }
}

/// Where the receipt of an output lies, if it has one.
#[must_use]
pub fn path_for(output: &Path) -> PathBuf {
    if output.is_dir() { output.join(IN_FOLDER) } else { beside(output) }
}

fn beside(output: &Path) -> PathBuf {
    let mut path = output.as_os_str().to_owned();
    path.push(SUFFIX);
    path.into()
}

/// The output that a receipt lies with.
#[must_use]
pub fn output_of(receipt: &Path) -> PathBuf {
    match receipt.file_name().and_then(|name| name.to_str()) {
        Some(IN_FOLDER) => receipt.parent().map(Path::to_owned).unwrap_or_default(),
        Some(name) => receipt.with_file_name(name.strip_suffix(SUFFIX).unwrap_or(name)),
        None => receipt.to_owned(),
    }
}

/// Whether a file's name is that of a receipt.
#[must_use]
pub fn is_name(file: &str) -> bool {
    file.ends_with(SUFFIX)
}

/// What every receipt has, of whatever version.
#[derive(Deserialize)]
struct Versioned {
    receipt: u32,
}

impl Receipt {
    /// Reads a receipt.
    ///
    /// # Errors
    /// Malformed, if it is none; unsupported, if its layout is newer; limit, if it is longer than any
    /// header may be; i/o.
    pub fn read(path: &Path, session: &Session) -> Result<Self> {
        let limits = &session.limits;
        let text = match path.to_str().is_some_and(is_url) {
            true => read_object(path, session)?,
            false => read_text(path, limits)?,
        };
        Self::parse(&text).map_err(|error| error.file(path.display().to_string()))
    }

    /// Whether a text is a receipt, of whatever version.
    #[must_use]
    pub fn is_one(text: &[u8]) -> bool {
        serde_json::from_slice::<Versioned>(text).is_ok()
    }

    fn parse(text: &[u8]) -> Result<Self> {
        let malformed = |e: serde_json::Error| Error::malformed(format!("not a receipt: {e}"));
        let Versioned { receipt: version } = serde_json::from_slice(text).map_err(malformed)?;
        if version != VERSION {
            return Err(Error::unsupported("a receipt of another version than this ferry knows")
                .expected(VERSION)
                .found(version));
        }
        serde_json::from_slice(text).map_err(malformed)
    }

    /// Its document, with a line end.
    ///
    /// # Errors
    /// I/o.
    pub fn text(&self) -> Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self).map_err(std::io::Error::from)?;
        text.push(b'\n');
        Ok(text)
    }

    /// Bytes of the output's files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.output.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }
}

fn read_object(url: &Path, session: &Session) -> Result<Vec<u8>> {
    let source = FileSource::open(url, session)?;
    let file = source.open(source.entry().name())?;
    let len = source.len(file);
    let most = session.limits.header_bytes;
    let size = usize::try_from(len).ok().filter(|_| len <= most).ok_or_else(|| too_long(url, most))?;
    let mut text = vec![0; size];
    source.read_at(file, 0, &mut text)?;
    Ok(text)
}

fn too_long(path: &Path, most: u64) -> Error {
    Error::limit("the receipt is too long").expected(format!("at most {most} bytes")).file(shown(path))
}

fn read_text(path: &Path, limits: &Limits) -> Result<Vec<u8>> {
    let at = |error: Error| error.file(path.display().to_string());
    let failed = |e: std::io::Error| at(e.into());
    let mut text = Vec::new();
    let file = regular_file::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput => at(Error::malformed("not a regular file")),
        _ => failed(error),
    })?;
    file.take(limits.header_bytes.saturating_add(1)).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > limits.header_bytes {
        return Err(too_long(path, limits.header_bytes));
    }
    Ok(text)
}

pub(crate) fn from_hex(text: &str) -> Option<ContentDigest> {
    let mut digest = ContentDigest::default();
    if text.len() != 2 * digest.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

/// Now, as receipts and reports have it.
#[must_use]
pub fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
