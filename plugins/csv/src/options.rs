//! Options of the reader and the writer.

use tensorferry_row_text::CompressionOptions;
use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::records::Sharding;
use tensorferry_sdk::{Error, OptionSpec, Options, Result, Side, TypedOption};

const SCHEMA: TypedOption<Option<String>> = TypedOption::source(
    Reader,
    "schema",
    "JSON file with column types: {\"id\": \"int64\", \"at\": \"timestamp[ms]\"}; other columns are left out",
);
const INFER: TypedOption<Option<u64>> = TypedOption::integer(
    Reader,
    "infer",
    1..=u64::MAX,
    "infer column types from this many rows of each file, not all; a later row that does not fit is an error",
);
const NULLS: TypedOption<Vec<String>> =
    TypedOption::list(Reader, "nulls", "unquoted word to read as a null, besides the empty field");
const WRITTEN_NULL: TypedOption<Option<String>> =
    TypedOption::text(Writer, "nulls", "text to write for nulls (default: empty)");

const fn delimiter(side: Side) -> TypedOption<Option<String>> {
    TypedOption::text(
        side,
        "delimiter",
        "field delimiter: one ASCII character or tab (default: comma, or tab for .tsv)",
    )
}

const fn header(side: Side) -> TypedOption<bool> {
    TypedOption::flag(
        side,
        "header",
        true,
        "the first line has the column names; without it they are f0, f1, ...",
    )
}

const fn quote(side: Side) -> TypedOption<Option<String>> {
    TypedOption::text(side, "quote", "quote character: one ASCII character or none (default: \")")
}

pub(crate) fn declared() -> Vec<OptionSpec> {
    let both = [Reader, Writer]
        .into_iter()
        .flat_map(|side| [delimiter(side).spec(), header(side).spec(), quote(side).spec()]);
    let own = [SCHEMA.spec(), INFER.spec(), NULLS.spec(), WRITTEN_NULL.spec()];
    own.into_iter().chain(both).chain(CompressionOptions::declared()).chain(Sharding::options()).collect()
}

/// Options shared by the reader and the writer.
#[derive(Debug, Clone)]
pub(crate) struct SharedOptions {
    pub(crate) delimiter: Option<u8>,
    pub(crate) quote: Option<u8>,
    pub(crate) has_header: bool,
}

impl SharedOptions {
    fn new(options: &Options, side: Side) -> Result<Self> {
        let (delimiter, quote) = (delimiter(side), quote(side));
        let letter = |option: &TypedOption<Option<String>>, text: &str| match text.as_bytes() {
            _ if matches!(text, "tab" | "\\t") => Ok(b'\t'),
            [byte @ (b'\t' | 0x20..0x7f)] => Ok(*byte),
            _ => Err(option.refuse("one ASCII character", format!("{text:?}"))),
        };
        let between = delimiter.get(options)?.map(|text| letter(&delimiter, &text)).transpose()?;
        let around = match quote.get(options)?.as_deref() {
            None => Some(b'"'),
            Some("none") => None,
            Some(text) => Some(letter(&quote, text)?),
        };
        if around.is_some() && (between == around || around == Some(b'\t')) {
            return Err(quote.refuse("a character other than the delimiter", "the delimiter"));
        }
        Ok(Self { delimiter: between, quote: around, has_header: header(side).get(options)? })
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ReadOptions {
    pub(crate) form: SharedOptions,
    /// Path of a schema file.
    pub(crate) schema: Option<String>,
    /// Number of rows per file to infer the schema from, or `None` for all rows.
    pub(crate) infer: Option<u64>,
    /// Strings that are read as nulls.
    pub(crate) nulls: Vec<String>,
}

impl ReadOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let (schema, infer) = (SCHEMA.get(options)?, INFER.get(options)?);
        if schema.is_some() && infer.is_some() {
            return Err(Error::usage(format!("{SCHEMA} and {INFER} cannot be combined")));
        }
        Ok(Self { form: SharedOptions::new(options, Reader)?, schema, infer, nulls: NULLS.get(options)? })
    }
}

#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub(crate) form: SharedOptions,
    /// The string that is written for a null.
    pub(crate) null: String,
    pub(crate) sharding: Sharding,
    pub(crate) compression: CompressionOptions,
}

impl WriteOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let form = SharedOptions::new(options, Writer)?;
        let null = WRITTEN_NULL.get(options)?.unwrap_or_default();
        // The text for a null is written without quotes, so it must not contain a delimiter or a
        // line end.
        let delimiter = form.delimiter.unwrap_or(b',');
        let ends = |byte: u8| byte == delimiter || Some(byte) == form.quote || matches!(byte, b'\n' | b'\r');
        if null.bytes().any(ends) {
            return Err(
                WRITTEN_NULL.refuse("a word without delimiters, quotes or line ends", format!("{null:?}"))
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
