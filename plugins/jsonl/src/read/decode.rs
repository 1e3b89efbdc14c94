//! Decoding what JSON says in strings: bytes.

use arrow_json::reader::{ArrayDecoder, DecoderContext, DecoderFactory, Tape, TapeElement};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::ArrayRef;
use tensorferry_sdk::arrow_array::builder::{
    BinaryBuilder, BinaryViewBuilder, FixedSizeBinaryBuilder, LargeBinaryBuilder,
};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, FieldRef};

/// Decodes bytes from base64, where `arrow_json` would take hexadecimal digits.
#[derive(Debug)]
pub(super) struct Base64;

impl DecoderFactory for Base64 {
    fn make_default_decoder(
        &self,
        _context: &DecoderContext,
        field: &FieldRef,
        _is_nullable: bool,
    ) -> Result<Option<Box<dyn ArrayDecoder>>, ArrowError> {
        let is_bytes = matches!(
            field.data_type(),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_)
        );
        Ok(is_bytes.then(|| Box::new(Bytes(field.data_type().clone())) as _))
    }
}

struct Bytes(DataType);

impl ArrayDecoder for Bytes {
    fn decode(&mut self, tape: &Tape<'_>, pos: &[u32]) -> Result<ArrayRef, ArrowError> {
        let mut bytes = Vec::new();
        let mut each = |take: &mut dyn FnMut(Option<&[u8]>) -> Result<(), ArrowError>| {
            for &place in pos {
                match tape.get(place) {
                    TapeElement::Null => take(None)?,
                    TapeElement::String(text) => {
                        bytes.clear();
                        let decoded = STANDARD.decode_vec(tape.get_string(text), &mut bytes);
                        decoded
                            .map_err(|error| ArrowError::JsonError(format!("bytes in base64: {error}")))?;
                        take(Some(&bytes))?;
                    }
                    _ => return Err(tape.error(place, "bytes in base64")),
                }
            }
            Ok(())
        };
        macro_rules! built {
            ($builder:expr) => {{
                let mut builder = $builder;
                each(&mut |bytes| {
                    builder.append_option(bytes);
                    Ok(())
                })?;
                Arc::new(builder.finish())
            }};
        }
        Ok(match &self.0 {
            DataType::LargeBinary => built!(LargeBinaryBuilder::new()),
            DataType::BinaryView => built!(BinaryViewBuilder::new()),
            DataType::FixedSizeBinary(size) => {
                let mut builder = FixedSizeBinaryBuilder::new(*size);
                each(&mut |bytes| match bytes {
                    None => {
                        builder.append_null();
                        Ok(())
                    }
                    Some(bytes) => builder.append_value(bytes),
                })?;
                Arc::new(builder.finish())
            }
            _ => built!(BinaryBuilder::new()),
        })
    }
}
