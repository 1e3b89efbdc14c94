//! Options: what a user may tell the reader and the writer.

use tensorferry_row_text::CompressionOptions;
use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::records::Sharding;
use tensorferry_sdk::{Error, OptionSpec, Options, Result, Side, TypedOption};

const SCHEMA: TypedOption<Option<String>> = TypedOption::source(
    Reader,
    "schema",
    "a JSON file with the types of columns: {\"id\": \"int64\", \"at\": \"timestamp[ms]\"}; others are left out",
);
const INFER: TypedOption<Option<u64>> = TypedOption::integer(
    Reader,
    "infer",
    1..=u64::MAX,
    "find the columns' types in this many rows of each file instead of in all; a later value that does not \
     fit is an error",
);
const NULLS: TypedOption<Vec<String>> = TypedOption::list(
    Reader,
    "nulls",
    "a word that stands for a null, where it has no quotes, beside the empty field: NA; may be given again",
);
const WRITTEN_NULL: TypedOption<Option<String>> =
    TypedOption::text(Writer, "nulls", "the word that is written for a null; nothing, unless it is said");

const fn delimiter(side: Side) -> TypedOption<Option<String>> {
    TypedOption::text(
        side,
        "delimiter",
        "what stands between fields: one character of ASCII, or tab; a comma, and a tab in .tsv, unless it is said",
    )
}

const fn header(side: Side) -> TypedOption<bool> {
    TypedOption::flag(
        side,
        "header",
        true,
        "whether the first line names the columns; else they are f0, f1, ...",
    )
}

const fn quote(side: Side) -> TypedOption<Option<String>> {
    TypedOption::text(
        side,
        "quote",
        "what stands around fields: one character of ASCII, or none; \" unless it is said",
    )
}

/// What the format declares.
pub(crate) fn declared() -> Vec<OptionSpec> {
    let both = [Reader, Writer]
        .into_iter()
        .flat_map(|side| [delimiter(side).spec(), header(side).spec(), quote(side).spec()]);
    let own = [SCHEMA.spec(), INFER.spec(), NULLS.spec(), WRITTEN_NULL.spec()];
    own.into_iter().chain(both).chain(CompressionOptions::declared()).chain(Sharding::options()).collect()
}

/// What both sides are told of the files.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    pub(crate) delimiter: Option<u8>,
    pub(crate) quote: Option<u8>,
    pub(crate) has_header: bool,
}

impl Form {
    fn new(options: &Options, side: Side) -> Result<Self> {
        let (delimiter, quote) = (delimiter(side), quote(side));
        let letter = |option: &TypedOption<Option<String>>, text: &str| match text.as_bytes() {
            _ if matches!(text, "tab" | "\\t") => Ok(b'\t'),
            [byte @ (b'\t' | 0x20..0x7f)] => Ok(*byte),
            _ => Err(option.refuse("one character of ASCII", format!("{text:?}"))),
        };
        let between = delimiter.get(options)?.map(|text| letter(&delimiter, &text)).transpose()?;
        let around = match quote.get(options)?.as_deref() {
            None => Some(b'"'),
            Some("none") => None,
            Some(text) => Some(letter(&quote, text)?),
        };
        if around.is_some() && (between == around || around == Some(b'\t')) {
            return Err(quote.refuse("another character than the delimiter", "the same"));
        }
        Ok(Self { delimiter: between, quote: around, has_header: header(side).get(options)? })
    }
}

/// What the reader was told.
#[derive(Debug, Clone)]
pub(crate) struct ReadOptions {
    pub(crate) form: Form,
    /// The path of a schema.
    pub(crate) schema: Option<String>,
    /// Rows of each file that tell the schema; all, if there is no number.
    pub(crate) infer: Option<u64>,
    /// Words for nulls.
    pub(crate) nulls: Vec<String>,
}

impl ReadOptions {
    /// Reads the checked options.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let (schema, infer) = (SCHEMA.get(options)?, INFER.get(options)?);
        if schema.is_some() && infer.is_some() {
            return Err(Error::usage(format!("{SCHEMA} leaves nothing to infer: leave out {INFER}")));
        }
        Ok(Self { form: Form::new(options, Reader)?, schema, infer, nulls: NULLS.get(options)? })
    }
}

/// What the writer was told.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub(crate) form: Form,
    /// What stands for a null.
    pub(crate) null: String,
    /// How rows are divided over files.
    pub(crate) sharding: Sharding,
    pub(crate) compression: CompressionOptions,
}

impl WriteOptions {
    /// Reads the checked options.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let form = Form::new(options, Writer)?;
        let null = WRITTEN_NULL.get(options)?.unwrap_or_default();
        // It is written as it is, and would end a field or a row.
        let delimiter = form.delimiter.unwrap_or(b',');
        let ends = |byte: u8| byte == delimiter || Some(byte) == form.quote || matches!(byte, b'\n' | b'\r');
        if null.bytes().any(ends) {
            return Err(
                WRITTEN_NULL.refuse("a word without delimiters, quotes and line ends", format!("{null:?}"))
            );
        }
        Ok(Self {
            form,
            null,
            sharding: Sharding::of(options)?,
            compression: CompressionOptions::new(options)?,
        })
    }
}
