//! Options: what a user may tell the reader and the writer.

use crate::codec::Codec;
use crate::message::MessageKind;
use tensorferry_sdk::{Error, OptionKind, OptionSpec, Options, Result};

const CODEC: &str = "codec";
const FILES: &str = "files";
const DECODE: &str = "decode";
const SCHEMA: &str = "schema";
const INFER: &str = "infer";
const BYTES: &str = "bytes";
const ON_ERROR: &str = "on_error";
const MAX_ERRORS: &str = "max_errors";
const TAIL: &str = "tail";
const CHECKSUMS: &str = "checksums";
const INDEX: &str = "index";
const SHARDS: &str = "shards";
const MESSAGE: &str = "message";
const LEVEL: &str = "level";

/// What the format declares.
pub(crate) fn specs() -> Vec<OptionSpec> {
    let mut specs = reader();
    specs.extend(writer());
    specs
}

fn reader() -> Vec<OptionSpec> {
    vec![
        OptionSpec::reader(
            CODEC,
            words(&["auto", "none", "gzip", "zlib", "snappy"]),
            Some("auto"),
            "what the files are compressed with; auto finds out for each",
        ),
        OptionSpec::reader(
            FILES,
            OptionKind::Text,
            None,
            "read the files of the folder that match this glob (train/*.tfrecord), and no others",
        ),
        OptionSpec::reader(
            DECODE,
            words(&["auto", "example", "sequence", "raw"]),
            Some("auto"),
            "what the records are: Examples, SequenceExamples, or bytes (one column, \"record\"); auto finds out",
        ),
        OptionSpec::reader(
            SCHEMA,
            OptionKind::Source,
            None,
            "a JSON file with the columns to read: types, fixed shapes, defaults; features that it does not name are \
             left out",
        ),
        OptionSpec::reader(
            INFER,
            OptionKind::Integer,
            None,
            "make the schema of the first so many records; by default of all of them",
        ),
        OptionSpec::reader(
            BYTES,
            words(&["binary", "utf8"]),
            Some("binary"),
            "what bytes_list becomes where no schema says it: bytes, or text, which must then be UTF-8",
        ),
        OptionSpec::reader(
            ON_ERROR,
            words(&["stop", "skip"]),
            Some("stop"),
            "what to do about damaged records: stop, or leave them out and list them",
        ),
        OptionSpec::reader(
            MAX_ERRORS,
            OptionKind::Integer,
            None,
            "with on_error=skip: stop after all, if there are more than so many (default 1000)",
        ),
        OptionSpec::reader(
            TAIL,
            words(&["error", "skip"]),
            Some("error"),
            "what to do about 1 to 11 stray bytes at the end of a file, which TensorFlow does not notice",
        ),
        OptionSpec::reader(
            CHECKSUMS,
            OptionKind::Bool,
            Some("true"),
            "check the checksum of each record's data; those of the lengths always are",
        ),
        OptionSpec::reader(
            INDEX,
            words(&["auto", "none"]),
            Some("auto"),
            "use an index beside a file (FILE.idx, FILE.index), if it fits, to divide the work",
        ),
    ]
}

fn writer() -> [OptionSpec; 5] {
    [
        OptionSpec::writer(
            CODEC,
            words(&["auto", "none", "gzip", "zlib", "snappy"]),
            Some("auto"),
            "what to compress the files with; auto is gzip if the name ends in .gz, else none",
        ),
        OptionSpec::writer(
            LEVEL,
            OptionKind::Integer,
            None,
            "how hard gzip and zlib try, 0 to 9 (default 6)",
        ),
        OptionSpec::writer(
            SHARDS,
            OptionKind::Integer,
            None,
            "deal the records over so many files, OUTPUT-00000-of-0000N and so on",
        ),
        OptionSpec::writer(
            SCHEMA,
            OptionKind::Source,
            None,
            "a JSON file with the columns to write, in the reader's form; what contradicts it is an error",
        ),
        OptionSpec::writer(
            MESSAGE,
            words(&["auto", "example", "sequence"]),
            Some("auto"),
            "Examples or SequenceExamples; auto is what the records were, and Examples where they were neither",
        ),
    ]
}

fn words(words: &[&str]) -> OptionKind {
    OptionKind::Choice(words.iter().map(|&word| word.to_owned()).collect())
}

/// What records are taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decode {
    /// What they seem to be.
    Auto,
    /// Messages of this kind.
    Message(MessageKind),
    /// Bytes.
    Raw,
}

/// What the reader was told.
#[derive(Debug, Clone)]
pub(crate) struct ReadOptions {
    /// The codec of all files, if the user said.
    pub(crate) codec: Option<Codec>,
    /// Which files are read.
    pub(crate) files: Option<String>,
    /// What records are.
    pub(crate) decode: Decode,
    /// The path of a schema.
    pub(crate) schema: Option<String>,
    /// How many records the schema is made of, if not of all.
    pub(crate) infer: Option<u64>,
    /// Whether bytes are text.
    pub(crate) utf8: bool,
    /// How many damaged records may be left out, if any.
    pub(crate) skip: Option<u64>,
    /// Whether stray bytes at the end are let pass.
    pub(crate) allows_tail: bool,
    /// Whether the data's checksums are checked.
    pub(crate) checksums: bool,
    /// Whether an index beside a file is used.
    pub(crate) index: bool,
}

impl ReadOptions {
    /// Reads the checked options.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let decode = match options.text(DECODE) {
            Some("example") => Decode::Message(MessageKind::Example),
            Some("sequence") => Decode::Message(MessageKind::Sequence),
            Some("raw") => Decode::Raw,
            _ => Decode::Auto,
        };
        let skips = options.text(ON_ERROR) == Some("skip");
        let schema = options.text(SCHEMA).map(str::to_owned);
        let infer = options.integer(INFER);
        if options.integer(MAX_ERRORS).is_some() && !skips {
            return Err(Error::usage(format!("-i {MAX_ERRORS} needs -i {ON_ERROR}=skip")));
        }
        if schema.is_some() && (infer.is_some() || decode == Decode::Raw) {
            return Err(Error::usage(format!(
                "-i {SCHEMA} says what the columns are: leave -i {INFER} and -i {DECODE}=raw out"
            )));
        }
        if infer == Some(0) {
            return Err(Error::usage(format!(
                "a schema cannot be made of no record: -i {INFER} is at least 1"
            )));
        }
        Ok(Self {
            codec: options.text(CODEC).and_then(Codec::named),
            files: options.text(FILES).map(str::to_owned),
            decode,
            schema,
            infer,
            utf8: options.text(BYTES) == Some("utf8"),
            skip: skips.then(|| options.integer(MAX_ERRORS).unwrap_or(1000)),
            allows_tail: options.text(TAIL) == Some("skip"),
            checksums: options.text(CHECKSUMS) != Some("false"),
            index: options.text(INDEX) != Some("none"),
        })
    }
}

/// What the writer was told.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// The codec, if the user said.
    pub(crate) codec: Option<Codec>,
    /// How hard deflate tries.
    pub(crate) level: u32,
    /// How many files, if they are to be called shards.
    pub(crate) shards: Option<u64>,
    /// The path of a schema.
    pub(crate) schema: Option<String>,
    /// Which message, if the user said.
    pub(crate) message: Option<MessageKind>,
}

/// The most shards that five digits can number.
const MOST_SHARDS: u64 = 99_999;

impl WriteOptions {
    /// Reads the checked options.
    ///
    /// # Errors
    /// Usage: a level or a number of shards that cannot be.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let level = match options.integer(LEVEL) {
            None => 6,
            Some(level) => u32::try_from(level)
                .ok()
                .filter(|level| *level <= 9)
                .ok_or_else(|| Error::usage(format!("option {LEVEL}")).expected("0 to 9").found(level))?,
        };
        let shards = options.integer(SHARDS);
        if let Some(count) = shards.filter(|count| !(1..=MOST_SHARDS).contains(count)) {
            return Err(Error::usage(format!("option {SHARDS}"))
                .expected(format!("1 to {MOST_SHARDS}"))
                .found(count));
        }
        let message = match options.text(MESSAGE) {
            Some("example") => Some(MessageKind::Example),
            Some("sequence") => Some(MessageKind::Sequence),
            _ => None,
        };
        Ok(Self {
            codec: options.text(CODEC).and_then(Codec::named),
            level,
            shards,
            schema: options.text(SCHEMA).map(str::to_owned),
            message,
        })
    }
}
