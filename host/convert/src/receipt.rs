//! A receipt describes how an output was created, and contains digests of all its content. The
//! receipt is a JSON document that is committed together with the output. Later, `ferry verify`
//! checks the output against the receipt.
//!
//! `host/docs/receipt.md` describes each field, and the bytes that each digest covers. For a file
//! or a set of files NAME, the receipt is `NAME.ferry.json` next to the output. For an output
//! folder, it is `receipt.ferry.json` inside the folder, so that it moves with the folder. File
//! names in a receipt are relative to the folder that contains the receipt. No format reads files
//! with these two names, and a conversion of the folder does not copy the receipt.

pub mod digest;
pub mod find;
pub mod rows;
pub mod verdict;

pub use digest::{FileDigest, FileRecord, Files};
pub use find::{FoundReceipts, find};
pub use verdict::{Problem, Subject, Verdict, VerifyResult};

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

/// The version of the document's layout. The version changes when the meaning of a field changes,
/// but not when a field is added.
pub const VERSION: u32 = 3;

pub use tensorferry_core::read::own_files::RECEIPT as SUFFIX;

/// The name of the receipt in a folder that is itself the output.
const IN_FOLDER: &str = "receipt.ferry.json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    pub receipt: u32,
    /// The version of ferry that wrote the output.
    pub ferry: String,
    /// The time in UTC, in the format of RFC 3339. This is the only field in which two runs of the
    /// same conversion differ.
    pub written: String,
    pub input: InputRecord,
    /// The value of `--part`.
    pub part: String,
    #[serde(default)]
    pub steps: Vec<String>,
    pub output: OutputRecord,
    /// Number of tensors or records that `--verify` read back and compared before the commit.
    #[serde(default)]
    pub verified: Option<u64>,
    /// The output's records; `None` for an output of tensors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<RecordsRecord>,
    /// The output's models. The list contains several models if models are in sub-folders, and is
    /// empty if the output contains records.
    #[serde(default)]
    pub models: Vec<ModelRecord>,
    #[serde(default)]
    pub losses: Vec<LossRecord<'static>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRecord {
    /// The input's path, made absolute.
    pub path: String,
    /// The absolute path of the folder to which file names are relative.
    pub folder: String,
    /// The values of `-i`, as the user passed them.
    #[serde(default)]
    pub options: Vec<(String, String)>,
    /// All files of the input that were opened, sorted by name.
    pub files: Vec<FileRecord>,
    /// The other inputs that the reader's options name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_inputs: Vec<AdditionalInput>,
    /// The outcome for each entry of a folder, glob or set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountRecord>,
}

/// An input that an option of the reader names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdditionalInput {
    /// The absolute path of the folder to which file names are relative.
    pub folder: String,
    /// All files of the additional input that were opened, sorted by name.
    pub files: Vec<FileRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRecord {
    pub format: FormatRecord,
    /// The values of `-o`, as the user passed them.
    #[serde(default)]
    pub options: Vec<(String, String)>,
    /// All files, with names relative to the receipt's folder. The writer's files come first, in
    /// the writer's order, and then the sidecars.
    pub files: Vec<FileRecord>,
}

/// A format, and the plugin that contains the format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormatRecord {
    pub id: String,
    pub plugin: String,
    pub version: String,
    /// The format's output revision. A different revision may write different bytes for the same
    /// input.
    pub output_revision: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRecord {
    /// The model's sub-folder, relative to the receipt's folder. Empty for a model in the receipt's
    /// folder itself.
    pub folder: String,
    /// The file that must be passed to open the model, relative to `folder`. `None` means that the
    /// folder itself is passed.
    pub entry: Option<String>,
    /// The format of the input.
    pub from: FormatRecord,
    /// The content digest of the model.
    pub content: String,
    /// The tensors in the order of the input, with their names in the output.
    pub tensors: Vec<TensorRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorRecord {
    pub name: String,
    /// The dtype in the notation of `ferry inspect`.
    pub dtype: String,
    pub shape: Vec<u64>,
    /// The length of the tensor's logical bytes.
    pub bytes: u64,
    /// The content digest of the tensor.
    pub content: String,
}

impl TensorRecord {
    /// Creates the record of a tensor with this name.
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordsRecord {
    /// The format of the input.
    pub from: FormatRecord,
    /// Number of records in the output.
    pub rows: u64,
    /// The content digest of all records.
    pub content: String,
    pub columns: Vec<ColumnRecord>,
    /// The number of records and the column digests of each output file.
    pub files: Vec<RowsRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnRecord {
    pub name: String,
    /// The type of the values, without the lists that enclose them.
    #[serde(rename = "type")]
    pub word: String,
    /// The lengths of the nested lists in each row. `None` for a variable length.
    #[serde(default)]
    pub shape: Vec<Option<u64>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsRecord {
    pub name: String,
    /// Number of records that were passed to the writer of the file, including records that the
    /// format could not store.
    pub rows: u64,
    /// Number of records, among `rows`, that the format could not store and that are therefore
    /// missing from the file. Receipts of earlier versions do not contain this field.
    #[serde(default)]
    pub lost: Option<u64>,
    /// The content digest of each column, or `None` for a column without a digest.
    pub columns: Vec<Option<String>>,
}

impl RecordsRecord {
    /// Computes the content digest of all records from the column digests of the files. Returns
    /// `None` if a file's entry is not a valid digest.
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

/// Returns the receipt's name for an output, relative to the output's folder.
#[must_use]
pub(crate) fn name_for(destination: &Destination) -> String {
    match &destination.kind {
        DestinationKind::Beside { name } => format!("{name}{SUFFIX}"),
        DestinationKind::Folder => IN_FOLDER.to_owned(),
    }
}

/// Returns the path of an output's receipt, whether or not the receipt exists.
#[must_use]
pub fn path_for(output: &Path) -> PathBuf {
    if output.is_dir() { output.join(IN_FOLDER) } else { beside(output) }
}

fn beside(output: &Path) -> PathBuf {
    let mut path = output.as_os_str().to_owned();
    path.push(SUFFIX);
    path.into()
}

/// Returns the output that belongs to a receipt.
#[must_use]
pub fn output_of(receipt: &Path) -> PathBuf {
    match receipt.file_name().and_then(|name| name.to_str()) {
        Some(IN_FOLDER) => receipt.parent().map(Path::to_owned).unwrap_or_default(),
        Some(name) => receipt.with_file_name(name.strip_suffix(SUFFIX).unwrap_or(name)),
        None => receipt.to_owned(),
    }
}

#[must_use]
pub fn is_name(file: &str) -> bool {
    file.ends_with(SUFFIX)
}

/// The version field, which receipts of all versions contain.
#[derive(Deserialize)]
struct VersionField {
    receipt: u32,
}

impl Receipt {
    pub fn read(path: &Path, session: &Session) -> Result<Self> {
        let limits = &session.limits;
        let text = match path.to_str().is_some_and(is_url) {
            true => read_object(path, session)?,
            false => read_text(path, limits)?,
        };
        Self::parse(&text).map_err(|error| error.file(path.display().to_string()))
    }

    /// Returns whether a document is a receipt of any version.
    #[must_use]
    pub fn is_one(text: &[u8]) -> bool {
        serde_json::from_slice::<VersionField>(text).is_ok()
    }

    fn parse(text: &[u8]) -> Result<Self> {
        let malformed = |e: serde_json::Error| Error::malformed(format!("not a receipt: {e}"));
        let VersionField { receipt: version } = serde_json::from_slice(text).map_err(malformed)?;
        if version != VERSION {
            return Err(Error::unsupported("this version of ferry cannot read the receipt's version")
                .expected(VERSION)
                .found(version));
        }
        serde_json::from_slice(text).map_err(malformed)
    }

    pub fn text(&self) -> Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self).map_err(std::io::Error::from)?;
        text.push(b'\n');
        Ok(text)
    }

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

/// Returns the current time in the format of receipts and reports.
#[must_use]
pub fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
