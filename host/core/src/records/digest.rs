//! The digests of rows: one for each column of each file of an output, over its rows in order; the same
//! for the same values, whatever batches they come in. Receipts hold them.
//!
//! ```text
//! column = BLAKE3("tensorferry column 1\n"
//!                 u64 LE: bytes of the type's name, the name (as in `ferry inspect`, lists left away)
//!                 for each row: u64 LE: how many values it has, those of lists within lists together;
//!                               2^64-1 if it is missing, and nothing more of it
//!                   u8: 0, or 1 if one of them is null: then for each value a byte, 0 if it is null
//!                   each value that is not null, little-endian; text and bytes after their length as u64)
//! rows   = BLAKE3("tensorferry rows 1\n"
//!                 u64 LE: number of files, then for each, in order: u64 LE: its rows
//!                   u64 LE: number of columns with a digest, then for each, sorted by name bytewise:
//!                   u64 LE: bytes of the name, the name, the column's digest (32 bytes))
//! ```

use super::content::flat;
use super::schema_file::type_and_shape;
use crate::tensors::content::ContentDigest;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, LargeBinaryArray, RecordBatch};
use arrow_buffer::Buffer;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Schema};
use half::f16;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use tensorferry_sdk::records::type_named;
use tensorferry_sdk::{Error, Result, arrow_array, arrow_schema};

const COLUMN: &[u8] = b"tensorferry column 1\n";
const ROWS: &[u8] = b"tensorferry rows 1\n";
/// The number of values of a row that has none, not even an empty list.
const MISSING: u64 = u64::MAX;
/// Bytes that are hashed at once.
const WINDOW: usize = 64 << 10;

/// A column that is hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hashed {
    /// Its name.
    pub name: String,
    /// What its values are, below all lists, in the word of [`type_and_shape`].
    pub word: String,
    leaf: DataType,
}

impl Hashed {
    /// A column of values of this type; none, if it is one whose values are not hashed.
    #[must_use]
    pub fn new(name: &str, word: &str) -> Option<Self> {
        Some(Self { name: name.to_owned(), word: word.to_owned(), leaf: leaf_of(word)? })
    }

    /// Whether values of another type, as a format reads them back, can be held against it.
    #[must_use]
    pub fn takes(&self, found: &DataType) -> bool {
        let is_text = |of: &DataType| matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        let is_bytes =
            |of: &DataType| matches!(of, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
        let is_whole = |of: &DataType| of.is_integer() || *of == DataType::Boolean;
        let found = innermost(found);
        match &self.leaf {
            _ if *found == DataType::Null || *found == self.leaf => true,
            DataType::LargeBinary => is_bytes(found),
            DataType::LargeUtf8 => is_text(found) || is_bytes(found),
            leaf if leaf.is_floating() => found.is_floating() || found.is_integer(),
            leaf if is_whole(leaf) => is_whole(found),
            // Times, which some formats write as numbers and others as text.
            leaf => arrow_cast::can_cast_types(found, leaf),
        }
    }
}

/// The columns of a schema whose values are hashed, by their place.
#[must_use]
pub fn hashed(schema: &Schema) -> Vec<Option<Hashed>> {
    let of = |field: &arrow_schema::FieldRef| Hashed::new(field.name(), &word(field.data_type()));
    schema.fields().iter().map(of).collect()
}

/// The word for a column's values, whatever they are stored as.
#[must_use]
pub fn word(data_type: &DataType) -> String {
    type_and_shape(innermost(data_type)).0
}

/// The type below all lists and dictionaries.
fn innermost(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            innermost(field.data_type())
        }
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

/// What the rows of one file come to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileRows {
    /// How many.
    pub rows: u64,
    /// The digest of each column that was hashed.
    pub columns: Vec<ContentDigest>,
}

/// Hashes rows as they go by.
#[derive(Debug)]
pub struct RowHasher {
    columns: Vec<Hashed>,
    files: Vec<(u64, Vec<blake3::Hasher>)>,
}

impl RowHasher {
    /// Of so many files.
    #[must_use]
    pub fn new(columns: Vec<Hashed>, files: usize) -> Self {
        let begin = |column: &Hashed| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(COLUMN).update(&(column.word.len() as u64).to_le_bytes());
            hasher.update(column.word.as_bytes());
            hasher
        };
        let file = (0, columns.iter().map(begin).collect());
        Self { columns, files: vec![file; files] }
    }

    /// Adds rows to a file. A column that the batch lacks is missing in all of them.
    ///
    /// # Errors
    /// Malformed, naming the column: a value that is none of its type.
    pub fn add(&mut self, file: usize, batch: &RecordBatch) -> Result<()> {
        let Some((rows, hashers)) = self.files.get_mut(file) else {
            return Err(Error::plugin(format!("no file {file}")));
        };
        *rows += batch.num_rows() as u64;
        self.columns.par_iter().zip(hashers).try_for_each(|(column, hasher)| {
            update(hasher, column, batch).map_err(|e| {
                Error::malformed(format!("a value that is not what the column holds: {e}"))
                    .column(&column.name)
            })
        })
    }

    /// The columns that are hashed.
    #[must_use]
    pub fn columns(&self) -> &[Hashed] {
        &self.columns
    }

    /// The digests of every file.
    #[must_use]
    pub fn finish(&self) -> Vec<FileRows> {
        let of = |(rows, hashers): &(u64, Vec<blake3::Hasher>)| FileRows {
            rows: *rows,
            columns: hashers.iter().map(|hasher| *hasher.finalize().as_bytes()).collect(),
        };
        self.files.iter().map(of).collect()
    }
}

/// The digest of all rows: of each file, how many, and its columns' digests by name.
pub fn content<'a, C>(files: impl ExactSizeIterator<Item = (u64, C)>) -> ContentDigest
where
    C: IntoIterator<Item = (&'a str, ContentDigest)>,
{
    let mut hasher = blake3::Hasher::new();
    hasher.update(ROWS).update(&(files.len() as u64).to_le_bytes());
    for (rows, columns) in files {
        let mut columns: Vec<(&str, ContentDigest)> = columns.into_iter().collect();
        columns.sort_unstable();
        hasher.update(&rows.to_le_bytes()).update(&(columns.len() as u64).to_le_bytes());
        for (name, digest) in columns {
            hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes()).update(&digest);
        }
    }
    *hasher.finalize().as_bytes()
}

fn update(hasher: &mut blake3::Hasher, column: &Hashed, batch: &RecordBatch) -> Result<(), ArrowError> {
    let found = batch.column_by_name(&column.name);
    let Some(found) = found.filter(|found| *found.data_type() != DataType::Null) else {
        for _ in 0..batch.num_rows() {
            hasher.update(&MISSING.to_le_bytes());
        }
        return Ok(());
    };
    let (values, begins) = flat(found);
    let values = Values::of(&values, &column.leaf)?;
    let missing = found.logical_nulls();
    let mut bytes = Vec::with_capacity(2 * WINDOW);
    for row in 0..found.len() {
        if missing.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            bytes.extend(MISSING.to_le_bytes());
        } else {
            values.append(begins[row]..begins[row + 1], &mut bytes);
        }
        if bytes.len() >= WINDOW {
            hasher.update(&bytes);
            bytes.clear();
        }
    }
    hasher.update(&bytes);
    Ok(())
}

/// The values of a column, below all lists.
struct Values {
    array: ArrayRef,
    bytes: Stored,
}

enum Stored {
    /// Each as long as the others.
    Fixed(usize, Buffer),
    /// Each with a length of its own.
    Variable(LargeBinaryArray),
    /// There is none.
    Nothing,
}

impl Values {
    fn of(values: &ArrayRef, leaf: &DataType) -> Result<Self, ArrowError> {
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        let cast = |to: &DataType| cast_with_options(values, to, &strict);
        let (array, bytes) = match leaf {
            DataType::Null => (values.clone(), Stored::Nothing),
            DataType::LargeUtf8 | DataType::LargeBinary => {
                let array = cast(&DataType::LargeBinary)?;
                let binary = array.as_binary::<i64>().clone();
                (array, Stored::Variable(binary))
            }
            DataType::Boolean => {
                let truths = cast(&DataType::Boolean)?;
                fixed(arrow_cast::cast(&truths, &DataType::UInt8)?)
            }
            DataType::Float16 => fixed(one_nan::<Float16Type>(cast(leaf)?, f16::NAN, |v| v.is_nan())),
            DataType::Float32 => fixed(one_nan::<Float32Type>(cast(leaf)?, f32::NAN, f32::is_nan)),
            DataType::Float64 => fixed(one_nan::<Float64Type>(cast(leaf)?, f64::NAN, f64::is_nan)),
            // The same moments, whatever the zone. As text they say how far they are from UTC, and the library
            // knows no zone by its name.
            DataType::Timestamp(unit, Some(_)) => {
                fixed(cast(&DataType::Timestamp(*unit, Some("+00:00".into())))?)
            }
            leaf => fixed(cast(leaf)?),
        };
        Ok(Self { array, bytes })
    }

    /// A row's values, as they are hashed.
    fn append(&self, range: Range<usize>, to: &mut Vec<u8>) {
        to.extend((range.len() as u64).to_le_bytes());
        let is_null = |place: usize| self.array.is_null(place) || matches!(self.bytes, Stored::Nothing);
        let has_nulls = (self.array.null_count() > 0 || matches!(self.bytes, Stored::Nothing))
            && range.clone().any(is_null);
        to.push(u8::from(has_nulls));
        if has_nulls {
            to.extend(range.clone().map(|place| u8::from(!is_null(place))));
        }
        match &self.bytes {
            Stored::Fixed(width, bytes) if !has_nulls => {
                to.extend_from_slice(&bytes[range.start * width..range.end * width]);
            }
            Stored::Fixed(width, bytes) => {
                for place in range.filter(|&place| !is_null(place)) {
                    to.extend_from_slice(&bytes[place * width..(place + 1) * width]);
                }
            }
            Stored::Variable(values) => {
                for place in range.filter(|&place| !is_null(place)) {
                    let value = values.value(place);
                    to.extend((value.len() as u64).to_le_bytes());
                    to.extend_from_slice(value);
                }
            }
            Stored::Nothing => {}
        }
    }
}

/// Values of a fixed width, as they lie in memory: little-endian on every machine that ferry runs on.
fn fixed(array: ArrayRef) -> (ArrayRef, Stored) {
    let width = array.data_type().primitive_width().unwrap_or(0);
    let data = array.to_data();
    let bytes = data.buffers().first().cloned().unwrap_or_default();
    let bytes = bytes.slice_with_length(data.offset() * width, data.len() * width);
    (array, Stored::Fixed(width, bytes))
}

/// All NaNs alike: not every format has more than one.
fn one_nan<T: ArrowPrimitiveType>(
    array: ArrayRef,
    nan: T::Native,
    is_nan: impl Fn(T::Native) -> bool,
) -> ArrayRef {
    let floats = array.as_primitive::<T>();
    if !floats.values().iter().any(|&value| is_nan(value)) {
        return array;
    }
    Arc::new(floats.unary::<_, T>(|value| if is_nan(value) { nan } else { value }))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use arrow_array::types::Int64Type;
    use arrow_array::{
        Float32Array, Int32Array, Int64Array, ListArray, StringArray, TimestampMicrosecondArray,
    };
    use arrow_schema::Field;

    fn digest(name: &str, word: &str, columns: &[(&str, ArrayRef)]) -> Vec<ContentDigest> {
        let mut hasher = RowHasher::new(vec![Hashed::new(name, word).unwrap()], 1);
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
        // As a list of one, and a missing column as one of nulls.
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
        let takes = |word: &str, found: &DataType| Hashed::new("a", word).unwrap().takes(found);
        assert!(takes("int32", &DataType::Int64) && takes("float32", &DataType::Float64));
        assert!(takes("utf8", &DataType::Binary) && !takes("binary", &DataType::Utf8));
        assert!(!takes("int64", &DataType::Float64) && takes("bool", &DataType::Int64));
        assert!(takes("timestamp[us, UTC]", &DataType::Utf8) && takes("timestamp[ns]", &DataType::Int64));
        assert_eq!(Hashed::new("a", "struct(x)"), None);
        let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        let schema = Schema::new(vec![Field::new("a", dictionary, true)]);
        assert_eq!(hashed(&schema), [Hashed::new("a", "utf8")]);
    }

    #[test]
    fn all_rows_count_files_and_names() {
        let (a, b) = ([1; 32], [2; 32]);
        let one = content([(1, [("a", a), ("b", b)])].into_iter());
        assert_eq!(one, content([(1, [("b", b), ("a", a)])].into_iter()));
        assert_ne!(one, content([(2, [("a", a), ("b", b)])].into_iter()));
        assert_ne!(one, content([(1, vec![("a", a)]), (0, vec![])].into_iter()));
    }
}
