//! The interface of decoders of columns, and what they share.

use super::checks::Checks;
use super::cursor::Cursor;
use arrow_buffer::NullBuffer;
use tensorferry_sdk::arrow_array::ArrayRef;
use tensorferry_sdk::arrow_array::builder::NullBufferBuilder;
use tensorferry_sdk::arrow_schema::FieldRef;

/// A decoder for the values of a column. Each function returns `None` if the column cannot contain
/// the value.
pub(super) trait ColumnDecoder: Send {
    /// Decodes a value that is not null.
    fn value(&mut self, cursor: &mut Cursor<'_>) -> Option<()>;

    fn append_nulls(&mut self, count: usize) -> Option<()>;

    /// Returns the values so far, and removes them. Adds the losses of the values.
    fn finish(&mut self) -> Option<ArrayRef>;

    #[inline]
    fn value_or_null(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        if cursor.eat_all(b"null") { self.append_nulls(1) } else { self.value(cursor) }
    }

    /// Decodes the items of a list, and returns their number.
    fn items(&mut self, cursor: &mut Cursor<'_>) -> Option<usize> {
        cursor.expect(b'[')?;
        let (mut count, mut has_more) = (0, cursor.has_first(b']'));
        while has_more {
            self.value_or_null(cursor)?;
            count += 1;
            has_more = cursor.has_next(b']')?;
        }
        Some(count)
    }
}

/// The part of a schema for which a decoder is created.
#[derive(Clone, Copy)]
pub(super) struct ColumnContext<'a> {
    pub(super) checks: &'a Checks,
    /// Name of the column that contains the field.
    pub(super) column: &'a str,
    /// Creates the decoder of a nested field.
    pub(super) create: CreateDecoder,
}

/// Creates a decoder for a field. Returns `None` if the type is not supported.
pub(super) type CreateDecoder = fn(&FieldRef, ColumnContext<'_>) -> Option<Box<dyn ColumnDecoder>>;

/// The nulls of a column.
pub(super) struct Validity {
    nulls: NullBufferBuilder,
    is_nullable: bool,
}

impl Validity {
    pub(super) fn new(is_nullable: bool) -> Self {
        Self { nulls: NullBufferBuilder::new(0), is_nullable }
    }

    #[inline]
    pub(super) fn append_value(&mut self) {
        self.nulls.append_non_null();
    }

    pub(super) fn append_nulls(&mut self, count: usize) -> Option<()> {
        self.nulls.append_n_nulls(count);
        self.is_nullable.then_some(())
    }

    pub(super) fn len(&self) -> usize {
        self.nulls.len()
    }

    pub(super) fn finish(&mut self) -> Option<NullBuffer> {
        self.nulls.finish()
    }
}
