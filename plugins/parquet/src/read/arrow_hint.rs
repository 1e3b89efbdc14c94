//! Checks the Arrow schema in a file's metadata, `ARROW:schema`, before the `parquet` crate decodes
//! it. The schema is a flatbuffer, and a flatbuffer can refer to the same table or string many
//! times. A few bytes could therefore expand to gigabytes of fields.

use crate::fault::{catch_panic, one_line};
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::{Message, root_as_message_with_opts};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flatbuffers::VerifierOptions;
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use tensorferry_sdk::arrow_schema::{ArrowError, Schema};
use tensorferry_sdk::{Error, Result};

/// Maximum number of bytes that a walk over all tables may visit, as a multiple of the buffer's
/// length. The ratio is less than two if a buffer shares only the layouts of tables.
const MAX_EXPANSION: usize = 8;
/// Number of additional bytes that a walk may visit. This number matters only for short buffers.
const EXTRA_BYTES: usize = 64 << 10;
/// First bytes of a message as written by Arrow 0.15 and later. The length of the message follows
/// them.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Checks all `ARROW:schema` entries and returns the schema in the last one, which the `parquet`
/// crate uses.
pub(super) fn read(metadata: Option<&Vec<KeyValue>>) -> Result<Option<Schema>> {
    let hints = metadata.into_iter().flatten().filter(|entry| entry.key == ARROW_SCHEMA_META_KEY);
    let mut last = None;
    for text in hints.filter_map(|hint| hint.value.as_ref()) {
        let bytes = BASE64_STANDARD.decode(text).map_err(|error| Error::malformed(error.to_string()))?;
        let schema = schema_of(&bytes);
        last = Some(schema.map_err(|error| error.context(format!("the metadata {ARROW_SCHEMA_META_KEY}")))?);
    }
    Ok(last)
}

fn schema_of(bytes: &[u8]) -> Result<Schema> {
    // The `parquet` crate uses the same test.
    let has_prefix = bytes.len() > 8 && bytes.starts_with(&CONTINUATION);
    let message = check_message(if has_prefix { &bytes[8..] } else { bytes })?;
    let none = || ParquetError::General("the message is not an Arrow schema".to_owned());
    let read = catch_panic(|| {
        let schema = message.header_as_schema().ok_or_else(none)?;
        match try_fb_to_schema(schema) {
            // The file is valid, but uses a type that this Arrow library does not support.
            Err(ArrowError::ParseError(why))
                if why.contains("not supported") || why.contains(" unsupported") =>
            {
                Ok(Err(Error::unsupported(format!("unsupported column type: {}", one_line(&why)))))
            }
            other => Ok(Ok(other?)),
        }
    });
    read?
}

fn check_message(message: &[u8]) -> Result<Message<'_>> {
    let max = message.len().saturating_mul(MAX_EXPANSION).saturating_add(EXTRA_BYTES);
    let options = VerifierOptions { max_apparent_size: max, ..VerifierOptions::default() };
    match root_as_message_with_opts(&options, message) {
        Ok(message) => Ok(message),
        Err(flatbuffers::InvalidFlatbuffer::ApparentSizeTooLarge) => {
            Err(Error::limit("shared tables expand to too many bytes")
                .expected(format!("at most {max} bytes from a message of {} bytes", message.len())))
        }
        Err(error) => Err(Error::malformed(format!("invalid Arrow schema: {error:.200}"))),
    }
}
