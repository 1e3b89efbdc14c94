//! Decodes objects: rows, and structs within rows.

use super::checks::{Basis, Checks};
use super::column_decoder::{ColumnContext, ColumnDecoder, CreateDecoder, Validity};
use super::cursor::Cursor;
use std::collections::HashMap;
use std::sync::Arc;
use tensorferry_row_text::ColumnLosses;
use tensorferry_sdk::LossKind;
use tensorferry_sdk::arrow_array::{
    Array as _, ArrayRef, RecordBatch, RecordBatchOptions, StructArray, new_null_array,
};
use tensorferry_sdk::arrow_schema::{FieldRef, Fields, SchemaRef};

/// A decoder for lines that contain one object each.
pub(super) struct RowDecoder {
    schema: SchemaRef,
    keys: KeyDecoders,
}

impl RowDecoder {
    /// Creates a decoder. Returns `None` if a type is not supported.
    pub(super) fn new(schema: &SchemaRef, checks: &Checks, create: CreateDecoder) -> Option<Self> {
        let columns = schema.fields().iter();
        let columns = columns.map(|field| (field, ColumnContext { checks, column: field.name(), create }));
        Some(Self { schema: schema.clone(), keys: KeyDecoders::new(columns, checks)? })
    }

    /// Decodes lines that contain `rows` rows. Returns `None` if a line is invalid, or needs
    /// `arrow_json`. The decoder cannot be used afterwards.
    pub(super) fn batch(&mut self, text: &[u8], rows: usize) -> Option<RecordBatch> {
        // The limit keeps the offsets of strings and lists within 32 bits.
        i32::try_from(text.len()).ok()?;
        let mut cursor = Cursor::new(std::str::from_utf8(text).ok()?);
        let mut row = 0;
        while cursor.next_line() {
            self.keys.object(&mut cursor, row)?;
            cursor.end_line()?;
            row += 1;
        }
        if row != rows {
            return None;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), self.keys.finish(rows)?, &options).ok()
    }
}

/// A decoder for a column of structs.
pub(super) struct ObjectDecoder {
    fields: Fields,
    keys: KeyDecoders,
    validity: Validity,
    basis: Basis,
    has_absent_keys: bool,
    column: String,
    losses: ColumnLosses,
}

impl ObjectDecoder {
    pub(super) fn new(fields: &Fields, validity: Validity, context: ColumnContext<'_>) -> Option<Self> {
        let checks = context.checks;
        Some(Self {
            fields: fields.clone(),
            keys: KeyDecoders::new(fields.iter().map(|field| (field, context)), checks)?,
            validity,
            basis: checks.basis,
            has_absent_keys: false,
            column: context.column.to_owned(),
            losses: checks.losses.clone(),
        })
    }
}

impl ColumnDecoder for ObjectDecoder {
    fn value(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        let found = self.keys.object(cursor, self.validity.len())?;
        self.validity.append_value();
        self.has_absent_keys |= found < self.fields.len();
        Some(())
    }

    fn append_nulls(&mut self, count: usize) -> Option<()> {
        self.validity.append_nulls(count)
    }

    fn finish(&mut self) -> Option<ArrayRef> {
        match self.basis {
            Basis::Given if self.has_absent_keys => {
                self.losses.add(&self.column, LossKind::Record, super::ABSENT_KEYS);
            }
            // The sampled lines have no absent keys, so their loss was not reported.
            Basis::SampledLines if self.has_absent_keys => return None,
            _ => {}
        }
        let len = self.validity.len();
        let (columns, nulls) = (self.keys.finish(len)?, self.validity.finish());
        Some(Arc::new(StructArray::try_new_with_length(self.fields.clone(), columns, nulls, len).ok()?))
    }
}

/// Decoders for the values of each key.
struct KeyDecoders {
    keys: Vec<KeyDecoder>,
    places: HashMap<String, usize>,
    is_strict: bool,
}

struct KeyDecoder {
    /// The key as JSON text.
    text: Vec<u8>,
    field: FieldRef,
    values: Box<dyn ColumnDecoder>,
    /// Number of objects for which there is a value. Nulls for later objects are added when they
    /// are needed, so that a key that most objects lack takes no time per object.
    len: usize,
    /// Nulls for batches in which no object has the key. Most of these batches have the same
    /// length.
    absent: Option<ArrayRef>,
}

impl KeyDecoders {
    fn new<'a>(
        fields: impl ExactSizeIterator<Item = (&'a FieldRef, ColumnContext<'a>)>,
        checks: &Checks,
    ) -> Option<Self> {
        let (mut keys, mut places) = (Vec::with_capacity(fields.len()), HashMap::with_capacity(fields.len()));
        for (field, context) in fields {
            places.entry(field.name().clone()).or_insert(keys.len());
            let text = serde_json::to_vec(field.name()).ok()?;
            let values = (context.create)(field, context)?;
            keys.push(KeyDecoder { text, field: field.clone(), values, len: 0, absent: None });
        }
        Some(Self { keys, places, is_strict: checks.is_strict })
    }

    /// Decodes an object after `row` other objects, and returns the number of its keys that have
    /// decoders.
    fn object(&mut self, cursor: &mut Cursor<'_>, row: usize) -> Option<usize> {
        cursor.expect(b'{')?;
        let (mut found, mut expected, mut has_more) = (0, 0, cursor.has_first(b'}'));
        while has_more {
            // Most objects have their keys in the same order.
            let place = match self.keys.get(expected) {
                Some(key) if cursor.eat_all(&key.text) => Some(expected),
                _ => self.places.get(cursor.string()?).copied(),
            };
            cursor.colon()?;
            if let Some(place) = place {
                self.keys[place].value(cursor, row)?;
                (found, expected) = (found + 1, place + 1);
            } else if self.is_strict {
                return None;
            } else {
                cursor.value_text()?;
            }
            has_more = cursor.has_next(b'}')?;
        }
        Some(found)
    }

    /// Returns the columns of `rows` objects.
    fn finish(&mut self, rows: usize) -> Option<Vec<ArrayRef>> {
        self.keys.iter_mut().map(|key| key.finish(rows)).collect()
    }
}

impl KeyDecoder {
    #[inline]
    fn value(&mut self, cursor: &mut Cursor<'_>, row: usize) -> Option<()> {
        if self.len != row {
            // If the object repeats the key, the length is too large.
            self.values.append_nulls(row.checked_sub(self.len)?)?;
        }
        self.len = row + 1;
        self.values.value_or_null(cursor)
    }

    fn finish(&mut self, rows: usize) -> Option<ArrayRef> {
        if self.len == 0 && self.field.is_nullable() {
            let absent = self.absent.take().filter(|absent| absent.len() == rows);
            let absent = absent.unwrap_or_else(|| new_null_array(self.field.data_type(), rows));
            return Some(self.absent.insert(absent).clone());
        }
        if self.len < rows {
            self.values.append_nulls(rows - self.len)?;
        }
        self.len = 0;
        self.values.finish()
    }
}
