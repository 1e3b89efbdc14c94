//! The bytes of an array (header and elements), in a file or in a member of an archive. The host
//! cannot copy deflated members or the fields of structured arrays, so this module decodes them.

use tensorferry_sdk::{ByteSink, Context, EncodedStorage, Error, Limits, Result, Source};
use tensorferry_zip::{Extent, Member};

/// Number of bytes to read and write at a time.
const PIECE: usize = 64 << 10;

/// Location of an array's header and elements.
#[derive(Debug, Clone)]
pub(crate) enum ArrayBytes {
    File(Extent),
    Member(Member),
}

impl ArrayBytes {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::File(file) => file.len,
            Self::Member(member) => member.len,
        }
    }

    /// Reads the first `len` bytes of the array.
    pub(crate) fn front(&self, source: &dyn Source, len: u64, limits: &Limits) -> Result<Vec<u8>> {
        match self {
            Self::File(file) => source.read_vec(file.file, file.offset, len, limits),
            Self::Member(member) => member.front(source, len, limits),
        }
    }

    /// Writes all bytes of the array.
    pub(crate) fn write(
        &self,
        source: &dyn Source,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let file = match self {
            Self::File(file) => file,
            Self::Member(member) => return member.write(source, output, context),
        };
        let mut buffer = vec![0; PIECE];
        let mut done = 0;
        while done < file.len {
            context.check_cancelled()?;
            let piece = file.after(done).read_start(source, &mut buffer)?;
            done += piece.len() as u64;
            output.write(piece)?;
        }
        Ok(())
    }
}

/// A storage that is decoded on demand.
#[derive(Debug, Clone)]
pub(crate) enum Encoded {
    /// All bytes of a deflated member.
    Whole(ArrayBytes),
    /// A field of a structured array.
    Field(FieldBytes),
}

impl EncodedStorage for Encoded {
    fn decode(&self, source: &dyn Source, output: &mut dyn ByteSink, context: &dyn Context) -> Result<()> {
        match self {
            Self::Whole(array) => array.write(source, output, context),
            Self::Field(field) => field.write(source, output, context),
        }
    }
}

/// The values of one field in all rows of a structured array.
#[derive(Debug, Clone)]
pub(crate) struct FieldBytes {
    pub(crate) array: ArrayBytes,
    /// Number of bytes before the first row.
    pub(crate) header_len: u64,
    /// Number of rows.
    pub(crate) rows: u64,
    /// Length of a row in bytes.
    pub(crate) row_len: u64,
    /// Offset of the field in a row. `width` is the length of the field.
    pub(crate) offset: u64,
    pub(crate) width: u64,
}

impl FieldBytes {
    /// Returns the total length in bytes of the field's values in all rows.
    pub(crate) fn len(&self) -> u64 {
        // The result is at most the total length of the rows, which fits in 64 bits.
        self.rows.saturating_mul(self.width)
    }

    /// Writes the bytes of the field, row by row.
    pub(crate) fn write(
        &self,
        source: &dyn Source,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let mut picker = FieldExtractor { field: self, at: 0, picked: Vec::with_capacity(PIECE), output };
        self.array.write(source, &mut picker, context)?;
        let FieldExtractor { picked, output, .. } = picker;
        output.write(&picked)
    }
}

/// A sink that receives all bytes of an array in order, and forwards only the bytes of one field.
struct FieldExtractor<'a> {
    field: &'a FieldBytes,
    /// Number of bytes received so far.
    at: u64,
    picked: Vec<u8>,
    output: &'a mut dyn ByteSink,
}

impl ByteSink for FieldExtractor<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let field = self.field;
        let end = field.header_len + field.rows.saturating_mul(field.row_len);
        let mut rest = bytes;
        while !rest.is_empty() && self.at < end && field.width > 0 {
            // `until` is the distance to the next offset at which the field begins or ends.
            let in_row =
                if self.at < field.header_len { 0 } else { (self.at - field.header_len) % field.row_len };
            let (until, is_field) = match in_row {
                _ if self.at < field.header_len => (field.header_len - self.at, false),
                at if at < field.offset => (field.offset - at, false),
                at if at < field.offset + field.width => (field.offset + field.width - at, true),
                at => (field.row_len - at, false),
            };
            let len = usize::try_from(until).map_or(rest.len(), |until| until.min(rest.len()));
            let (part, after) = rest.split_at(len);
            if is_field {
                self.picked.extend_from_slice(part);
            }
            self.at += len as u64;
            rest = after;
            if self.picked.len() >= PIECE {
                self.output.write(&self.picked)?;
                self.picked.clear();
            }
        }
        self.at += rest.len() as u64;
        Ok(())
    }
}

/// Returns the `len` bytes that `write` produces. Returns an error if `len` exceeds the limit for
/// headers.
pub(crate) fn collect(
    len: u64,
    limits: &Limits,
    write: impl FnOnce(&mut dyn ByteSink) -> Result<()>,
) -> Result<Vec<u8>> {
    if len > limits.header_bytes {
        let error = Error::limit("strings are too long to hold in memory").found(len);
        let error = error.expected(format!("at most {} bytes", limits.header_bytes));
        return Err(error.hint("raise the limit with --limit header_bytes=N"));
    }
    let mut bytes = Vec::new();
    write(&mut bytes)?;
    Ok(bytes)
}
