//! Decoders for bytes in base64 and for integers, which `arrow_json`'s own would read as something else.

use arrow_json::reader::{ArrayDecoder, DecoderContext, DecoderFactory, Tape, TapeElement};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::builder::{
    BinaryBuilder, BinaryViewBuilder, FixedSizeBinaryBuilder, LargeBinaryBuilder,
};
use tensorferry_sdk::arrow_array::{ArrayRef, new_null_array};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, FieldRef};

/// The most that a float counts to without a gap.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

/// Decodes bytes from base64, where `arrow_json` would take hexadecimal digits, and integers from whole
/// numbers alone, where it would cut off what is behind the point. A column that no row of a batch has costs nothing
/// for each row.
#[derive(Debug)]
pub(super) struct ExactDecoders;

impl DecoderFactory for ExactDecoders {
    fn make_default_decoder(
        &self,
        context: &DecoderContext,
        field: &FieldRef,
        is_nullable: bool,
    ) -> Result<Option<Box<dyn ArrayDecoder>>, ArrowError> {
        let data_type = field.data_type().clone();
        let is_bytes = matches!(
            data_type,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_)
        );
        let decoder: Box<dyn ArrayDecoder> = if is_bytes {
            Box::new(BytesDecoder(data_type))
        } else {
            let builtin = context.make_builtin_decoder(field, is_nullable)?;
            if data_type.is_integer() { Box::new(IntegerDecoder { builtin, data_type }) } else { builtin }
        };
        if !is_nullable {
            return Ok(Some(decoder));
        }
        let data_type = field.data_type().clone();
        Ok(Some(Box::new(RareDecoder { decoder, absent: new_null_array(&data_type, 0) })))
    }
}

/// Where thousands of columns come from objects of a few keys, most columns of a batch are in none of its rows.
struct RareDecoder {
    decoder: Box<dyn ArrayDecoder>,
    /// What was decoded where no row had the column; batches mostly have one length.
    absent: ArrayRef,
}

impl ArrayDecoder for RareDecoder {
    fn decode(&mut self, tape: &Tape<'_>, pos: &[u32]) -> Result<ArrayRef, ArrowError> {
        // A tape's first element is the null that stands for what is absent.
        if pos.iter().any(|&place| place != 0) {
            return self.decoder.decode(tape, pos);
        }
        if self.absent.len() != pos.len() {
            self.absent = new_null_array(self.absent.data_type(), pos.len());
        }
        Ok(self.absent.clone())
    }
}

struct IntegerDecoder {
    builtin: Box<dyn ArrayDecoder>,
    data_type: DataType,
}

impl ArrayDecoder for IntegerDecoder {
    fn decode(&mut self, tape: &Tape<'_>, pos: &[u32]) -> Result<ArrayRef, ArrowError> {
        for &place in pos {
            if let TapeElement::Number(text) = tape.get(place) {
                let text = tape.get_string(text);
                // 1e3 and 2.0 are whole too; of floats over 2^53 only the digits would tell.
                let is_whole = || {
                    text.parse::<f64>()
                        .is_ok_and(|number| number.fract() == 0.0 && number.abs() <= MOST_EXACT)
                };
                if text.contains(['.', 'e', 'E']) && !is_whole() {
                    return Err(ArrowError::JsonError(format!(
                        "failed to parse {text} as {}",
                        self.data_type
                    )));
                }
            }
        }
        self.builtin.decode(tape, pos)
    }
}

struct BytesDecoder(DataType);

impl ArrayDecoder for BytesDecoder {
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
