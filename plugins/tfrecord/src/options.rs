//! Options of the reader and the writer.

use crate::codec::Codec;
use crate::message::MessageKind;
use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::records::Sharding;
use tensorferry_sdk::{Error, OptionSpec, Options, Result, TypedOption};

/// The names of codecs in options. With `auto`, ferry detects the codec.
const CODECS: [(&str, Option<Codec>); 5] = [
    ("auto", None),
    ("none", Some(Codec::None)),
    ("gzip", Some(Codec::Gzip)),
    ("zlib", Some(Codec::Zlib)),
    ("snappy", Some(Codec::Snappy)),
];
const READ_CODEC: TypedOption<Option<Codec>> = TypedOption::choice(
    Reader,
    "compression",
    &CODECS,
    "compression of the files; auto detects it for each file",
);
const FILES: TypedOption<Option<String>> = TypedOption::text(
    Reader,
    "files",
    "read only files of the folder that match this glob (train/*.tfrecord)",
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
    "record type; raw gives one column \"record\" of bytes, auto detects it",
);
const READ_SCHEMA: TypedOption<Option<String>> = TypedOption::source(
    Reader,
    "schema",
    "JSON file with the columns to read (types, fixed shapes, defaults); other features are dropped",
);
const INFER: TypedOption<Option<u64>> = TypedOption::integer(
    Reader,
    "infer",
    0..=u64::MAX,
    "infer the schema from the first N records [default: all]",
);
const ARE_TEXT: TypedOption<bool> = TypedOption::choice(
    Reader,
    "bytes",
    &[("binary", false), ("utf8", true)],
    "type of bytes_list features without a schema; text must be UTF-8",
);
const SKIPS: TypedOption<bool> = TypedOption::choice(
    Reader,
    "on_error",
    &[("stop", false), ("skip", true)],
    "stop at a damaged record, or skip and list damaged records",
);
const MAX_ERRORS: TypedOption<Option<u64>> = TypedOption::integer(
    Reader,
    "max_errors",
    0..=u64::MAX,
    "with on_error=skip: maximum number of damaged records [default: 1000]",
);
const ALLOWS_TAIL: TypedOption<bool> = TypedOption::choice(
    Reader,
    "tail",
    &[("error", false), ("skip", true)],
    "reject or ignore 1 to 11 stray bytes at the end of a file (TensorFlow ignores them)",
);
const CHECKSUMS: TypedOption<bool> = TypedOption::flag(
    Reader,
    "checksums",
    true,
    "verify checksums of record data; checksums of lengths are always verified",
);
const INDEX: TypedOption<bool> = TypedOption::choice(
    Reader,
    "index",
    &[("auto", true), ("none", false)],
    "use a matching index next to a file (FILE.idx, FILE.index) to divide the work",
);
const WRITE_CODEC: TypedOption<Option<Codec>> = TypedOption::choice(
    Writer,
    "compression",
    &CODECS,
    "compression of the files; auto is gzip if the name ends in .gz, otherwise none",
);
const LEVEL: TypedOption<Option<u32>> =
    TypedOption::integer(Writer, "level", 0..=9, "compression level for gzip and zlib [default: 6]");
const WRITE_SCHEMA: TypedOption<Option<String>> = TypedOption::source(
    Writer,
    "schema",
    "JSON file with the columns to write, as for reading; mismatches are errors",
);
const MESSAGE: TypedOption<Option<MessageKind>> = TypedOption::choice(
    Writer,
    "message",
    &[("auto", None), ("example", Some(MessageKind::Example)), ("sequence", Some(MessageKind::Sequence))],
    "message type; auto keeps the type of the input, or writes Examples",
);

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

/// The form in which records are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decode {
    /// Detects the type of the records.
    Auto,
    Message(MessageKind),
    Raw,
}

#[derive(Debug, Clone)]
pub(crate) struct ReadOptions {
    /// The codec of all files, if the user set it.
    pub(crate) codec: Option<Codec>,
    /// The glob of the files to read.
    pub(crate) files: Option<String>,
    pub(crate) decode: Decode,
    /// The path of a schema file.
    pub(crate) schema: Option<String>,
    /// Number of records from which to infer the schema, or `None` for all records.
    pub(crate) infer: Option<u64>,
    /// Whether to read `bytes_list` features as text.
    pub(crate) utf8: bool,
    /// Maximum number of damaged records to skip. If `None`, the first damaged record is an error.
    pub(crate) skip: Option<u64>,
    /// Whether to ignore extra bytes at the end of a file.
    pub(crate) allows_tail: bool,
    /// Whether to verify the checksums of record data.
    pub(crate) checksums: bool,
    /// Whether to use an index next to a file.
    pub(crate) index: bool,
}

impl ReadOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let (decode, skips) = (DECODE.get(options)?, SKIPS.get(options)?);
        let (schema, infer) = (READ_SCHEMA.get(options)?, INFER.get(options)?);
        let max_errors = MAX_ERRORS.get(options)?;
        if max_errors.is_some() && !skips {
            return Err(Error::usage(format!("{MAX_ERRORS} needs {SKIPS}=skip")));
        }
        if schema.is_some() && (infer.is_some() || decode == Decode::Raw) {
            return Err(Error::usage(format!(
                "{READ_SCHEMA} already sets the columns and cannot be combined with {INFER} or {DECODE}=raw"
            )));
        }
        if infer == Some(0) {
            return Err(Error::usage(format!("{INFER} must be at least 1")));
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

#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// The codec, if the user set it.
    pub(crate) codec: Option<Codec>,
    /// The compression level of deflate.
    pub(crate) level: u32,
    pub(crate) sharding: Sharding,
    /// The path of a schema file.
    pub(crate) schema: Option<String>,
    /// The message type, if the user set it.
    pub(crate) message: Option<MessageKind>,
}

impl WriteOptions {
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
