//! Test tables for writers. Each table covers one feature.

use arrow_array::builder::{
    FixedSizeListBuilder, Float32Builder, Int64Builder, ListBuilder, StringBuilder, StringDictionaryBuilder,
};
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Date64Array, Decimal128Array,
    DurationMillisecondArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, LargeBinaryArray, LargeStringArray, NullArray, PrimitiveArray, RecordBatch,
    RecordBatchOptions, StringArray, StringViewArray, StructArray, Time32SecondArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
    UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;

/// A table of rows, divided into the pieces to write.
pub(super) struct TestTable {
    pub(super) title: String,
    pub(super) schema: SchemaRef,
    pub(super) pieces: Vec<Vec<RecordBatch>>,
}

pub(super) fn tables() -> Vec<TestTable> {
    let mut all = Vec::new();
    for column in columns() {
        let title = column.data_type().to_string();
        add(&mut all, title.clone(), &[("a", column.clone())]);
        add(&mut all, format!("{title}, from the middle of a longer column"), &[("a", column.slice(1, 1))]);
    }
    for name in ["", " ", "a.b", "a/b", "\"", "\n", "\u{e4}\u{f6}", "with spaces, and commas"] {
        add(&mut all, format!("a column called {name:?}"), &[(name, ids(0..3))]);
    }
    add(&mut all, "two columns of the same name", &[("a", ids(0..3)), ("a", ids(3..6))]);
    add(&mut all, "no rows in a batch", &[("a", ids(0..0))]);
    required(&mut all);
    without(&mut all);
    many(&mut all);
    all
}

fn add(all: &mut Vec<TestTable>, title: impl Into<String>, columns: &[(&str, ArrayRef)]) {
    let batch = batch(columns);
    all.push(TestTable { title: title.into(), schema: batch.schema(), pieces: vec![vec![batch]] });
}

/// Creates a batch from nullable columns.
fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    let fields: Vec<_> =
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let arrays = columns.iter().map(|(_, column)| column.clone()).collect();
    RecordBatch::try_new(schema.clone(), arrays).unwrap_or_else(|_| RecordBatch::new_empty(schema))
}

fn ids(range: std::ops::Range<i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(range))
}

/// Returns one column of each type. Each column contains the extreme values of its type and a null.
fn columns() -> Vec<ArrayRef> {
    let half = <Float16Type as ArrowPrimitiveType>::Native::from_f32;
    let mut all: Vec<ArrayRef> = vec![
        Arc::new(NullArray::new(3)),
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        Arc::new(Int8Array::from(vec![Some(i8::MIN), None, Some(i8::MAX)])),
        Arc::new(Int16Array::from(vec![Some(i16::MIN), None, Some(i16::MAX)])),
        Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(i32::MAX)])),
        Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)])),
        Arc::new(UInt8Array::from(vec![Some(0), None, Some(u8::MAX)])),
        Arc::new(UInt16Array::from(vec![Some(0), None, Some(u16::MAX)])),
        Arc::new(UInt32Array::from(vec![Some(0), None, Some(u32::MAX)])),
        Arc::new(UInt64Array::from(vec![Some(0), None, Some(7)])),
        Arc::new(UInt64Array::from(vec![Some(u64::MAX), None, Some(0)])),
        Arc::new(PrimitiveArray::<Float16Type>::from(vec![Some(half(0.5)), None, Some(half(-65504.0))])),
        Arc::new(Float32Array::from(vec![
            Some(f32::MIN_POSITIVE),
            None,
            Some(f32::MAX),
            Some(-0.0),
            Some(0.1),
        ])),
        Arc::new(Float32Array::from(vec![
            Some(f32::NAN),
            None,
            Some(f32::INFINITY),
            Some(f32::NEG_INFINITY),
        ])),
        Arc::new(Float64Array::from(vec![Some(0.5), None, Some(-1024.0)])),
        Arc::new(Float64Array::from(vec![Some(1.0 / 3.0), None, Some(f64::MAX), Some(5e-324)])),
        Arc::new(Float64Array::from(vec![Some(f64::NAN), None, Some(f64::INFINITY)])),
        Arc::new(StringArray::from(vec![Some(""), None, Some("\u{e9}\n\"\0,;\t\u{1F980}"), Some(" a ")])),
        Arc::new(LargeStringArray::from(vec![Some("a"), None, Some("")])),
        Arc::new(StringViewArray::from(vec![Some("a"), None, Some("longer than twelve bytes")])),
        Arc::new(BinaryArray::from(vec![Some(&b""[..]), None, Some(b"\xff\0\n")])),
        Arc::new(LargeBinaryArray::from(vec![Some(&b"\x80"[..]), None, Some(b"")])),
        Arc::new(BinaryViewArray::from(vec![Some(&b"\x80"[..]), None, Some(b"longer than twelve bytes")])),
        Arc::new(Date32Array::from(vec![Some(-1), None, Some(20_000)])),
        Arc::new(Date64Array::from(vec![Some(-86_400_000), None, Some(864_000_000_000)])),
        Arc::new(TimestampSecondArray::from(vec![Some(-1), None, Some(1_700_000_000)])),
        Arc::new(TimestampMillisecondArray::from(vec![Some(-1), None, Some(1)]).with_timezone("UTC")),
        Arc::new(TimestampMicrosecondArray::from(vec![Some(-1), None, Some(1)])),
        Arc::new(TimestampNanosecondArray::from(vec![Some(-1), None, Some(1)]).with_timezone("+02:00")),
        Arc::new(Time32SecondArray::from(vec![Some(0), None, Some(86_399)])),
        Arc::new(Time64MicrosecondArray::from(vec![Some(0), None, Some(1)])),
        Arc::new(DurationMillisecondArray::from(vec![Some(-1), None, Some(1)])),
    ];
    let decimal = Decimal128Array::from(vec![Some(-12_345), None, Some(1)]);
    all.extend(decimal.with_precision_and_scale(10, 2).map(|array| Arc::new(array) as ArrayRef));
    let fixed = [Some(&b"abc"[..]), None, Some(b"\xff\xfe\xfd")].into_iter();
    all.extend(
        FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed, 3)
            .map(|array| Arc::new(array) as ArrayRef),
    );
    let mut words = StringDictionaryBuilder::<Int32Type>::new();
    words.extend([Some("twice"), None, Some("once"), Some("twice")]);
    all.push(Arc::new(words.finish()));
    nested(&mut all);
    all
}

fn nested(all: &mut Vec<ArrayRef>) {
    let mut ints = ListBuilder::new(Int64Builder::new());
    for row in [Some(vec![Some(1), Some(2)]), Some(vec![]), None, Some(vec![Some(3)])] {
        ints.append_option(row);
    }
    all.push(Arc::new(ints.finish()));
    for row in [vec![Some(1), None], vec![None], vec![Some(2)]] {
        ints.append_option(Some(row));
    }
    all.push(Arc::new(ints.finish()));
    // Every list in this column is empty or null.
    for row in [Some(vec![]), None, Some(vec![])] {
        ints.append_option(row.map(|row: Vec<i64>| row.into_iter().map(Some)));
    }
    all.push(Arc::new(ints.finish()));

    let mut words = ListBuilder::new(StringBuilder::new());
    for row in [Some(vec![Some("a"), Some("")]), Some(vec![]), None, Some(vec![Some("b")])] {
        words.append_option(row);
    }
    all.push(Arc::new(words.finish()));

    let mut pairs = FixedSizeListBuilder::new(Float32Builder::new(), 2);
    for row in [Some([0.5, 1.5]), None, Some([f32::MIN, 0.0])] {
        for place in 0..2 {
            pairs.values().append_option(row.map(|row| row[place]));
        }
        pairs.append(row.is_some());
    }
    all.push(Arc::new(pairs.finish()));

    let mut lists = ListBuilder::new(ListBuilder::new(Int64Builder::new()));
    for row in [vec![vec![1, 2], vec![3]], vec![], vec![vec![], vec![4]]] {
        for list in row {
            lists.values().append_value(list.into_iter().map(Some));
        }
        lists.append(true);
    }
    all.push(Arc::new(lists.finish()));

    let number: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
    let word: ArrayRef = Arc::new(StringArray::from(vec![None, Some("b"), Some("c")]));
    let field = |name: &str, column: &ArrayRef| Arc::new(Field::new(name, column.data_type().clone(), true));
    all.push(Arc::new(StructArray::from(vec![
        (field("n", &number), number.clone()),
        (field("w", &word), word),
    ])));
}

/// Adds tables whose columns are never null.
fn required(all: &mut Vec<TestTable>) {
    let columns: [ArrayRef; 3] = [
        ids(0..3),
        Arc::new(StringArray::from(vec!["a", "", "c"])),
        Arc::new(Float32Array::from(vec![0.5, 1.5, 2.5])),
    ];
    for column in columns {
        let field = Field::new("a", column.data_type().clone(), false);
        let title = format!("{} without nulls", column.data_type());
        let schema = Arc::new(Schema::new(vec![field]));
        let rows = RecordBatch::try_new(schema.clone(), vec![column]);
        all.push(TestTable { title, schema, pieces: vec![rows.into_iter().collect()] });
    }
}

/// Adds a table without pieces and a table without columns.
fn without(all: &mut Vec<TestTable>) {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
    all.push(TestTable { title: "no rows at all".to_owned(), schema, pieces: Vec::new() });
    let schema = Arc::new(Schema::empty());
    let options = RecordBatchOptions::new().with_row_count(Some(3));
    let rows = RecordBatch::try_new_with_options(schema.clone(), Vec::new(), &options);
    let pieces = vec![rows.into_iter().collect()];
    all.push(TestTable { title: "rows without columns".to_owned(), schema, pieces });
}

/// Adds a table with enough rows for several pieces and batches.
fn many(all: &mut Vec<TestTable>) {
    /// The number of rows is small, because each predicate reads all rows again.
    const ROWS: i64 = 300;
    let piece = |first: i64| {
        let range = first..first + ROWS;
        let mut values = ListBuilder::new(Float32Builder::new());
        for id in range.clone() {
            let len = usize::try_from(id % 5).unwrap_or(0);
            values.append_value((0..len).map(|_| Some(0.5)));
        }
        let words: StringArray = range.clone().map(|id| (id % 7 > 0).then(|| format!("row {id}"))).collect();
        vec![batch(&[("id", ids(range)), ("word", Arc::new(words)), ("values", Arc::new(values.finish()))])]
    };
    let pieces: Vec<_> = [0, ROWS, 2 * ROWS].map(piece).into();
    let schema = pieces[0][0].schema();
    all.push(TestTable { title: "rows in three pieces".to_owned(), schema, pieces });
    // The table has too many rows for a single batch of the requested size.
    let piece = |first: i64| vec![batch(&[("id", ids(first..first + 1000))])];
    let pieces: Vec<_> = [0, 1000, 2000].map(piece).into();
    let schema = pieces[0][0].schema();
    all.push(TestTable { title: "numbers in three pieces".to_owned(), schema, pieces });
}
