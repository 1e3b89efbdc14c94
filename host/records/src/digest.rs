//! The digests of rows in receipts. Each column of each output file has one digest, which covers
//! the column's rows in order. The digest depends only on the values, not on the batches.
//!
//! ```text
//! column = BLAKE3("tensorferry column 1\n"
//!                 u64 LE: bytes of the type's name, the name (as in `ferry inspect`, without lists)
//!                 for each row: its flat encoding (see `encoding`))
//! ```

use super::encoding::{MISSING, RowEncoder, is_text};
use super::lists::leaf_type;
use super::schema_file::type_and_shape;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{ArrowError, DataType, Schema};
use rayon::prelude::*;
use tensorferry_sdk::records::{type_named, type_word};
use tensorferry_sdk::{Error, Result, arrow_array, arrow_schema};
use tensorferry_tensors::content::ContentDigest;

const COLUMN: &[u8] = b"tensorferry column 1\n";
/// Number of bytes that are hashed at a time.
const WINDOW: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashedColumn {
    pub name: String,
    /// The name of the type of the values inside all lists.
    pub word: String,
    leaf: DataType,
}

impl HashedColumn {
    /// Creates a hashed column whose values have the type named `word`. Returns `None` if values of
    /// this type are not hashed.
    #[must_use]
    pub(crate) fn new(name: &str, word: &str) -> Option<Self> {
        Some(Self { name: name.to_owned(), word: word.to_owned(), leaf: leaf_of(word)? })
    }

    /// Returns whether values that were read back with type `found` can be hashed as this column.
    #[must_use]
    pub(crate) fn takes(&self, found: &DataType) -> bool {
        let is_bytes = |of: &DataType| of.is_binary() || *of == DataType::BinaryView;
        let is_whole = |of: &DataType| of.is_integer() || *of == DataType::Boolean;
        let found = innermost(found);
        match &self.leaf {
            _ if *found == DataType::Null || *found == self.leaf => true,
            DataType::LargeBinary => is_bytes(found),
            DataType::LargeUtf8 => is_text(found),
            leaf if leaf.is_floating() => found.is_floating() || found.is_integer(),
            leaf if is_whole(leaf) => is_whole(found),
            // Some formats write times as numbers, and other formats write times as text.
            leaf => arrow_cast::can_cast_types(found, leaf),
        }
    }
}

/// Returns the settings for hashing each column of a schema, or `None` for a column that is not
/// hashed.
#[must_use]
pub fn hashed(schema: &Schema) -> Vec<Option<HashedColumn>> {
    let of = |field: &arrow_schema::FieldRef| HashedColumn::new(field.name(), &word(field.data_type()));
    schema.fields().iter().map(of).collect()
}

/// Returns the name of the type of a column's values. The name does not depend on how the values
/// are stored.
#[must_use]
pub fn word(data_type: &DataType) -> String {
    type_word(type_and_shape(innermost(data_type)).0)
}

/// Returns the type of the values inside all lists and dictionaries.
fn innermost(data_type: &DataType) -> &DataType {
    match leaf_type(data_type) {
        DataType::Dictionary(_, values) => innermost(values),
        other => other,
    }
}

fn leaf_of(word: &str) -> Option<DataType> {
    match type_named(word)? {
        DataType::Binary => Some(DataType::LargeBinary),
        DataType::Utf8 => Some(DataType::LargeUtf8),
        leaf @ (DataType::Null
        | DataType::Boolean
        | DataType::Date32
        | DataType::Date64
        | DataType::Timestamp(..)) => Some(leaf),
        leaf => (leaf.is_integer() || leaf.is_floating()).then_some(leaf),
    }
}

/// The row count and digests of one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FileRows {
    pub rows: u64,
    /// The digest of each hashed column.
    pub columns: Vec<ContentDigest>,
}

/// Hashes rows while they are written or read.
#[derive(Debug)]
pub struct RowHasher {
    columns: Vec<HashedColumn>,
    files: Vec<(u64, Vec<blake3::Hasher>)>,
}

impl RowHasher {
    #[must_use]
    pub(crate) fn new(columns: Vec<HashedColumn>, files: usize) -> Self {
        let mut hasher = Self { columns, files: Vec::new() };
        (0..files).for_each(|_| hasher.begin_file());
        hasher
    }

    /// Adds a file after all existing files.
    pub(crate) fn begin_file(&mut self) {
        let begin = |column: &HashedColumn| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(COLUMN).update(&(column.word.len() as u64).to_le_bytes());
            hasher.update(column.word.as_bytes());
            hasher
        };
        self.files.push((0, self.columns.iter().map(begin).collect()));
    }

    /// Adds rows to a file. If the batch lacks a column, the column's values are treated as missing
    /// in all of these rows.
    pub(crate) fn add(&mut self, file: usize, batch: &RecordBatch) -> Result<()> {
        let Some((rows, hashers)) = self.files.get_mut(file) else {
            return Err(Error::plugin(format!("no file {file}")));
        };
        *rows += batch.num_rows() as u64;
        self.columns.par_iter().zip(hashers).try_for_each(|(column, hasher)| {
            update(hasher, column, batch).map_err(|e| {
                Error::malformed(format!("a value does not have the column's type: {e}")).column(&column.name)
            })
        })
    }

    #[must_use]
    pub(crate) fn columns(&self) -> &[HashedColumn] {
        &self.columns
    }

    /// Returns the row count and the digests of every file.
    #[must_use]
    pub(crate) fn finish(&self) -> Vec<FileRows> {
        let of = |(rows, hashers): &(u64, Vec<blake3::Hasher>)| FileRows {
            rows: *rows,
            columns: hashers.iter().map(|hasher| *hasher.finalize().as_bytes()).collect(),
        };
        self.files.iter().map(of).collect()
    }
}

fn update(hasher: &mut blake3::Hasher, column: &HashedColumn, batch: &RecordBatch) -> Result<(), ArrowError> {
    let found = batch.column_by_name(&column.name);
    let Some(found) = found.filter(|found| *found.data_type() != DataType::Null) else {
        for _ in 0..batch.num_rows() {
            hasher.update(&MISSING.to_le_bytes());
        }
        return Ok(());
    };
    let encoder = RowEncoder::flat(found, &column.leaf, true)?;
    let mut bytes = Vec::with_capacity(2 * WINDOW);
    for row in 0..found.len() {
        encoder.append(row, &mut bytes);
        if bytes.len() >= WINDOW {
            hasher.update(&bytes);
            bytes.clear();
        }
    }
    hasher.update(&bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use arrow_array::types::Int64Type;
    use arrow_array::{
        ArrayRef, Float32Array, Int32Array, Int64Array, ListArray, StringArray, TimestampMicrosecondArray,
    };
    use arrow_schema::Field;
    use std::sync::Arc;

    fn digest(name: &str, word: &str, columns: &[(&str, ArrayRef)]) -> Vec<ContentDigest> {
        let mut hasher = RowHasher::new(vec![HashedColumn::new(name, word).unwrap()], 1);
        for batch in [0..2, 2..3] {
            let columns = columns.iter().map(|(n, c)| (*n, c.slice(batch.start, batch.len()), true));
            hasher.add(0, &RecordBatch::try_from_iter_with_nullable(columns).unwrap()).unwrap();
        }
        let [FileRows { rows: 3, columns }] = &hasher.finish()[..] else { panic!() };
        columns.clone()
    }

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let lists: [Option<Vec<Option<i64>>>; 3] = [Some(vec![Some(1), None]), None, Some(vec![])];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
        let mut bytes = b"tensorferry column 1\n".to_vec();
        bytes.extend(5_u64.to_le_bytes());
        bytes.extend(b"int64");
        bytes.extend(2_u64.to_le_bytes());
        bytes.extend([1, 1, 0]);
        bytes.extend(1_i64.to_le_bytes());
        bytes.extend(u64::MAX.to_le_bytes());
        bytes.extend(0_u64.to_le_bytes());
        bytes.push(0);
        assert_eq!(digest("a", "int64", &[("a", lists)]), [*blake3::hash(&bytes).as_bytes()]);

        let text: ArrayRef = Arc::new(StringArray::from(vec!["é", "", "ab"]));
        let mut bytes = b"tensorferry column 1\n".to_vec();
        bytes.extend(4_u64.to_le_bytes());
        bytes.extend(b"utf8");
        for value in ["é", "", "ab"] {
            bytes.extend(1_u64.to_le_bytes());
            bytes.push(0);
            bytes.extend((value.len() as u64).to_le_bytes());
            bytes.extend(value.as_bytes());
        }
        assert_eq!(digest("a", "utf8", &[("a", text)]), [*blake3::hash(&bytes).as_bytes()]);
    }

    #[test]
    fn what_is_read_back_otherwise_is_the_same() {
        let small: ArrayRef = Arc::new(Int32Array::from(vec![Some(-1), None, Some(7)]));
        let wide: ArrayRef = Arc::new(Int64Array::from(vec![Some(-1), None, Some(7)]));
        let of = |array: &ArrayRef| digest("a", "int32", &[("a", array.clone())]);
        assert_eq!(of(&small), of(&wide));
        let other: ArrayRef = Arc::new(Int64Array::from(vec![Some(-1), None, Some(8)]));
        assert_ne!(of(&small), of(&other));
        // A value has the same digest as a list that contains only this value, and a missing column
        // has the same digest as a column of nulls.
        let lists = [Some(vec![Some(-1)]), None, Some(vec![Some(7)])];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
        assert_eq!(of(&small), of(&lists));
        let nulls: ArrayRef = Arc::new(Int32Array::from(vec![None; 3]));
        assert_eq!(of(&nulls), digest("a", "int32", &[("b", small)]));
    }

    #[test]
    fn moments_are_the_same_as_text_and_in_any_zone() {
        let micros = vec![Some(1_500_000), None, Some(-1_000_000)];
        let of = |array: ArrayRef| digest("a", "timestamp[us, Europe/Oslo]", &[("a", array)]);
        let oslo = TimestampMicrosecondArray::from(micros).with_timezone("Europe/Oslo");
        let text = vec![Some("1970-01-01T00:00:01.5Z"), None, Some("1970-01-01T00:59:59+01:00")];
        assert_eq!(of(Arc::new(oslo.clone())), of(Arc::new(StringArray::from(text))));
        assert_eq!(of(Arc::new(oslo.clone())), of(Arc::new(oslo.with_timezone("UTC"))));
    }

    #[test]
    fn every_nan_is_one_and_zeros_are_two() {
        let of = |values: Vec<f32>| {
            let array: ArrayRef = Arc::new(Float32Array::from(values));
            digest("a", "float32", &[("a", array)])
        };
        let odd = f32::from_bits(0x7fc0_0001);
        assert_eq!(of(vec![f32::NAN, 0.0, 1.0]), of(vec![odd, 0.0, 1.0]));
        assert_ne!(of(vec![0.0, 0.0, 1.0]), of(vec![-0.0, 0.0, 1.0]));
    }

    #[test]
    fn types_that_can_be_compared() {
        let takes = |word: &str, found: &DataType| HashedColumn::new("a", word).unwrap().takes(found);
        assert!(takes("int32", &DataType::Int64) && takes("float32", &DataType::Float64));
        assert!(takes("utf8", &DataType::Binary) && !takes("binary", &DataType::Utf8));
        assert!(!takes("int64", &DataType::Float64) && takes("bool", &DataType::Int64));
        assert!(takes("timestamp[us, UTC]", &DataType::Utf8) && takes("timestamp[ns]", &DataType::Int64));
        assert_eq!(HashedColumn::new("a", "struct(x)"), None);
        let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        let schema = Schema::new(vec![Field::new("a", dictionary, true)]);
        assert_eq!(hashed(&schema), [HashedColumn::new("a", "utf8")]);
    }
}
