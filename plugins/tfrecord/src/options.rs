//! Options: what a user may tell the reader and the writer.

use crate::codec::Codec;
use crate::message::MessageKind;
use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::records::Sharding;
use tensorferry_sdk::{Error, OptionSpec, Options, Result, TypedOption};

/// The words for codecs; auto finds one out.
const CODECS: [(&str, Option<Codec>); 5] = [
    ("auto", None),
    ("none", Some(Codec::None)),
    ("gzip", Some(Codec::Gzip)),
    ("zlib", Some(Codec::Zlib)),
    ("snappy", Some(Codec::Snappy)),
];
const READ_CODEC: TypedOption<Option<Codec>> = TypedOption::choice(
    Reader,
    "codec",
    &CODECS,
    "what the files are compressed with; auto finds out for each",
);
const FILES: TypedOption<Option<String>> = TypedOption::text(
    Reader,
    "files",
    "read the files of the folder that match this glob (train/*.tfrecord), and no others",
);
const DECODE: TypedOption<Decode> = TypedOption::choice(
    Reader,
    "decode",
    &[
        ("auto", Decode::Auto),
        ("example", Decode::Message(MessageKind::Example)),
        ("sequence", Decode::Message(MessageKind::Sequence)),
        ("raw", Decode::Raw),
    ],
    "what the records are: Examples, SequenceExamples, or bytes (one column, \"record\"); auto finds out",
);
const READ_SCHEMA: TypedOption<Option<String>> = TypedOption::source(
    Reader,
    "schema",
    "a JSON file with the columns to read: types, fixed shapes, defaults; features that it does not name are \
     left out",
);
const INFER: TypedOption<Option<u64>> = TypedOption::integer(
    Reader,
    "infer",
    0..=u64::MAX,
    "make the schema of the first so many records; by default of all of them",
);
const ARE_TEXT: TypedOption<bool> = TypedOption::choice(
    Reader,
    "bytes",
    &[("binary", false), ("utf8", true)],
    "what bytes_list becomes where no schema says it: bytes, or text, which must then be UTF-8",
);
const SKIPS: TypedOption<bool> = TypedOption::choice(
    Reader,
    "on_error",
    &[("stop", false), ("skip", true)],
    "what to do about damaged records: stop, or leave them out and list them",
);
const MAX_ERRORS: TypedOption<Option<u64>> = TypedOption::integer(
    Reader,
    "max_errors",
    0..=u64::MAX,
    "with on_error=skip: stop after all, if there are more than so many (default 1000)",
);
const ALLOWS_TAIL: TypedOption<bool> = TypedOption::choice(
    Reader,
    "tail",
    &[("error", false), ("skip", true)],
    "what to do about 1 to 11 stray bytes at the end of a file, which TensorFlow does not notice",
);
const CHECKSUMS: TypedOption<bool> = TypedOption::flag(
    Reader,
    "checksums",
    true,
    "check the checksum of each record's data; those of the lengths always are",
);
const INDEX: TypedOption<bool> = TypedOption::choice(
    Reader,
    "index",
    &[("auto", true), ("none", false)],
    "use an index beside a file (FILE.idx, FILE.index), if it fits, to divide the work",
);
const WRITE_CODEC: TypedOption<Option<Codec>> = TypedOption::choice(
    Writer,
    "codec",
    &CODECS,
    "what to compress the files with; auto is gzip if the name ends in .gz, else none",
);
const LEVEL: TypedOption<Option<u32>> =
    TypedOption::integer(Writer, "level", 0..=9, "how hard gzip and zlib try, 0 to 9 (default 6)");
const WRITE_SCHEMA: TypedOption<Option<String>> = TypedOption::source(
    Writer,
    "schema",
    "a JSON file with the columns to write, in the reader's form; what contradicts it is an error",
);
const MESSAGE: TypedOption<Option<MessageKind>> = TypedOption::choice(
    Writer,
    "message",
    &[("auto", None), ("example", Some(MessageKind::Example)), ("sequence", Some(MessageKind::Sequence))],
    "Examples or SequenceExamples; auto is what the records were, and Examples where they were neither",
);

/// What the format declares.
pub(crate) fn declared() -> Vec<OptionSpec> {
    let own = [
        READ_CODEC.spec(),
        FILES.spec(),
        DECODE.spec(),
        READ_SCHEMA.spec(),
        INFER.spec(),
        ARE_TEXT.spec(),
        SKIPS.spec(),
        MAX_ERRORS.spec(),
        ALLOWS_TAIL.spec(),
        CHECKSUMS.spec(),
        INDEX.spec(),
        WRITE_CODEC.spec(),
        LEVEL.spec(),
        WRITE_SCHEMA.spec(),
        MESSAGE.spec(),
    ];
    own.into_iter().chain(Sharding::options()).collect()
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
        let (decode, skips) = (DECODE.get(options)?, SKIPS.get(options)?);
        let (schema, infer) = (READ_SCHEMA.get(options)?, INFER.get(options)?);
        let max_errors = MAX_ERRORS.get(options)?;
        if max_errors.is_some() && !skips {
            return Err(Error::usage(format!("{MAX_ERRORS} needs {SKIPS}=skip")));
        }
        if schema.is_some() && (infer.is_some() || decode == Decode::Raw) {
            return Err(Error::usage(format!(
                "{READ_SCHEMA} says what the columns are: leave {INFER} and {DECODE}=raw out"
            )));
        }
        if infer == Some(0) {
            return Err(Error::usage(format!("a schema cannot be made of no record: {INFER} is at least 1")));
        }
        Ok(Self {
            codec: READ_CODEC.get(options)?,
            files: FILES.get(options)?,
            decode,
            schema,
            infer,
            utf8: ARE_TEXT.get(options)?,
            skip: skips.then(|| max_errors.unwrap_or(1000)),
            allows_tail: ALLOWS_TAIL.get(options)?,
            checksums: CHECKSUMS.get(options)?,
            index: INDEX.get(options)?,
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
    /// How rows are divided over files.
    pub(crate) sharding: Sharding,
    /// The path of a schema.
    pub(crate) schema: Option<String>,
    /// Which message, if the user said.
    pub(crate) message: Option<MessageKind>,
}

impl WriteOptions {
    /// Reads the checked options.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        Ok(Self {
            codec: WRITE_CODEC.get(options)?,
            level: LEVEL.get(options)?.unwrap_or(6),
            sharding: Sharding::of(options)?,
            schema: WRITE_SCHEMA.get(options)?,
            message: MESSAGE.get(options)?,
        })
    }
}
