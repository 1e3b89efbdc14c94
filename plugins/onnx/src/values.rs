//! Reads elements that are stored in a list field. All elements are counted before any element is
//! decoded.

use crate::dtype::{OnnxDtype, WireItem};
use crate::message::Message;
use std::ops::Range;
use tensorferry_proto_file::{Field, Value, Wire};
use tensorferry_sdk::{ByteSink, Context, EncodedStorage, FileId, Result, Source};

/// Number of bytes to write at a time.
const PIECE: usize = 64 << 10;

/// The elements of a tensor that are stored in a list field.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    file: FileId,
    message: Message,
    row: OnnxDtype,
    /// Number of bytes that the elements occupy in the tensor.
    len: u64,
    /// Range of the list, if the list is a single field whose bytes are identical to the bytes of
    /// the tensor.
    plain: Option<Range<u64>>,
}

impl Values {
    /// Finds the list field in a tensor's message and counts its elements.
    pub(crate) fn find(wire: &mut Wire<'_>, file: FileId, message: &Message, row: OnnxDtype) -> Result<Self> {
        let (mut len, mut fields, mut plain) = (0_u64, 0_u64, None);
        let mut rest = message.clone();
        while let Some(field) = rest.next(wire)?.as_ref() {
            if field.number != row.field {
                continue;
            }
            fields += 1;
            plain = None;
            if let (WireItem::Fixed4 | WireItem::Fixed8, Value::Bytes(range)) = (row.item, &field.value) {
                // Such a list may be as large as a whole model. Its elements are therefore counted
                // by its length, without reading it.
                let bytes = range.end - range.start;
                if !bytes.is_multiple_of(row.item.width()) {
                    return Err(wire
                        .malformed(field.at, "packed values end in the middle of a value")
                        .found(bytes));
                }
                len += bytes;
                plain = Some(range.clone());
                continue;
            }
            each_item(wire, field, row.item, &mut |bytes| {
                len += bytes.len() as u64;
                Ok(())
            })?;
        }
        Ok(Self { file, message: message.clone(), row, len, plain: plain.filter(|_| fields == 1) })
    }

    /// Returns the number of bytes that the elements occupy in the tensor.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the range of the list, or `None` if the list is not stored in tensor layout.
    pub(crate) fn plain(&self) -> Option<Range<u64>> {
        self.plain.clone()
    }
}

impl EncodedStorage for Values {
    fn decode(&self, source: &dyn Source, output: &mut dyn ByteSink, context: &dyn Context) -> Result<()> {
        let mut wire = Wire::of_file(source, self.file);
        let mut piece = Vec::with_capacity(PIECE);
        let mut rest = self.message.clone();
        while let Some(field) = rest.next(&mut wire)? {
            if field.number != self.row.field {
                continue;
            }
            context.check_cancelled()?;
            each_item(&mut wire, &field, self.row.item, &mut |bytes| {
                if piece.len() + bytes.len() > PIECE {
                    output.write(&piece)?;
                    piece.clear();
                }
                piece.extend_from_slice(bytes);
                Ok(())
            })?;
        }
        output.write(&piece)
    }
}

/// Returns the number of strings in a tensor's list field.
pub(crate) fn count_texts(wire: &mut Wire<'_>, message: &Message, row: OnnxDtype) -> Result<u64> {
    let mut count = 0;
    message.each(wire, row.field, &mut |_, _| {
        count += 1;
        Ok(())
    })?;
    Ok(count)
}

/// Passes the tensor bytes of each item in a list field to `visit`.
fn each_item(
    wire: &mut Wire<'_>,
    field: &Field,
    item: WireItem,
    visit: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let at = field.at;
    let width = usize::try_from(item.width()).unwrap_or(0);
    match (item, &field.value) {
        (WireItem::Fixed4, Value::Fixed32(bits)) => visit(&bits.to_le_bytes()),
        (WireItem::Fixed8, Value::Fixed64(bits)) => visit(&bits.to_le_bytes()),
        (WireItem::Fixed4 | WireItem::Fixed8, Value::Bytes(range)) => wire.each_chunk(range, visit),
        (WireItem::Text, Value::Bytes(range)) => {
            visit(&(range.end - range.start).to_le_bytes())?;
            wire.each_chunk(range, visit)
        }
        (WireItem::Signed { .. } | WireItem::Unsigned { .. }, Value::Varint(value)) => {
            let bytes = item.of_varint(*value).ok_or_else(|| out_of_range(wire, at, *value))?;
            visit(&bytes[..width])
        }
        (WireItem::Signed { .. } | WireItem::Unsigned { .. }, Value::Bytes(range)) => {
            let mut rest = range.clone();
            while !rest.is_empty() {
                let place = rest.start;
                let value = wire.varint(&mut rest)?;
                let bytes = item.of_varint(value).ok_or_else(|| out_of_range(wire, place, value))?;
                visit(&bytes[..width])?;
            }
            Ok(())
        }
        _ => Err(wire.wrong_type(at)),
    }
}

fn out_of_range(wire: &Wire<'_>, at: u64, value: u64) -> tensorferry_sdk::Error {
    wire.malformed(at, "a value is out of range for the dtype of its tensor").found(value.cast_signed())
}
