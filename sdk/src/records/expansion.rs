//! Counts the bytes that rows expand to. A few bytes of indices, views or runs can repeat a value
//! billions of times.

use crate::{Error, Limits, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    BinaryViewType, ByteArrayType, ByteViewType, Int16Type, Int32Type, Int64Type, RunEndIndexType,
    StringViewType,
};
use arrow_array::{Array, ArrayRef, GenericByteArray, GenericByteViewArray, OffsetSizeTrait, make_array};
use arrow_schema::DataType;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of string bytes that are allowed per file byte, up to the limit on shared bytes. A
/// constant column may need more than this, but the other columns of the file raise the total. For
/// example, a column with one bit per row allows 8 KiB of strings per row.
const MAX_EXPANSION_RATIO: u64 = 1 << 16;
/// Number of bytes that each index, view or run may repeat without being counted. Repeated short
/// values, such as categories, count as ordinary compression.
const UNCOUNTED_BYTES: u64 = 256;

/// The number of bytes that rows expand to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExpandedBytes {
    /// Total size in bytes of all strings, and of all values that indices, views or runs refer to.
    /// Each occurrence of a value is counted.
    pub bytes: u64,
    /// Number of bytes by which repeated long values exceed the stored bytes.
    pub shared: u64,
}

impl ExpandedBytes {
    /// Returns the sum of the counts of two columns or batches.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            shared: self.shared.saturating_add(other.shared),
        }
    }

    /// Returns the number of bytes that a column expands to.
    #[must_use]
    pub fn of(array: &dyn Array) -> Self {
        let all = |columns: &[ArrayRef]| {
            columns.iter().map(|column| Self::of(column)).fold(Self::default(), Self::and)
        };
        match array.data_type() {
            DataType::Struct(_) => all(array.as_struct().columns()),
            DataType::List(_) => Self::of(array.as_list::<i32>().values()),
            DataType::LargeList(_) => Self::of(array.as_list::<i64>().values()),
            DataType::FixedSizeList(..) => Self::of(array.as_fixed_size_list().values()),
            DataType::Map(..) => Self::of(array.as_map().entries()),
            DataType::Utf8 => Self::flat(array.as_string::<i32>().value_offsets()),
            DataType::LargeUtf8 => Self::flat(array.as_string::<i64>().value_offsets()),
            DataType::Binary => Self::flat(array.as_binary::<i32>().value_offsets()),
            DataType::LargeBinary => Self::flat(array.as_binary::<i64>().value_offsets()),
            DataType::FixedSizeBinary(_) => {
                Self { bytes: array.as_fixed_size_binary().value_data().len() as u64, shared: 0 }
            }
            DataType::Utf8View => Self::named(array, stored(array.as_string_view())),
            DataType::BinaryView => Self::named(array, stored(array.as_binary_view())),
            DataType::ListView(_) => Self::named(array, total(array.as_list_view::<i32>().values())),
            DataType::LargeListView(_) => Self::named(array, total(array.as_list_view::<i64>().values())),
            DataType::Dictionary(..) => Self::named(array, total(array.as_any_dictionary().values())),
            DataType::RunEndEncoded(..) => {
                let values = array.to_data().child_data().get(1).cloned();
                Self::named(array, values.map_or(0, |values| total(&make_array(values))))
            }
            _ => Self::default(),
        }
    }

    /// Counts the bytes of contiguously stored strings.
    fn flat<O: OffsetSizeTrait>(offsets: &[O]) -> Self {
        let [first, last] = [offsets.first(), offsets.last()].map(|end| end.map_or(0, |end| end.as_usize()));
        Self { bytes: (last - first) as u64, shared: 0 }
    }

    /// Counts the bytes of values that refer to `own` bytes of stored data.
    fn named(array: &dyn Array, own: u64) -> Self {
        let (mut bytes, mut long) = (0_u64, 0_u64);
        each(array, &mut |len| {
            bytes = bytes.saturating_add(len);
            long = long.saturating_add(len.saturating_sub(UNCOUNTED_BYTES));
        });
        Self { bytes, shared: long.saturating_sub(own) }
    }
}

/// The number of bytes that all rows of an input may expand to, and the number of bytes decoded so
/// far.
#[derive(Debug)]
pub struct ExpansionLimit {
    bytes: Bound,
    shared: Bound,
}

/// A limit on the total number of bytes in all splits.
#[derive(Debug)]
struct Bound {
    max: u64,
    spent: AtomicU64,
    /// For each split, the maximum number of bytes decoded in one pass. Reading a split again does
    /// not add to the total.
    splits: Vec<AtomicU64>,
}

impl Bound {
    fn new(max: u64, splits: usize) -> Self {
        let splits = std::iter::repeat_with(AtomicU64::default).take(splits).collect();
        Self { max, spent: AtomicU64::new(0), splits }
    }

    fn count(&self, split: usize, decoded: u64) -> Result<()> {
        let before = self.splits.get(split).map_or(0, |max| max.fetch_max(decoded, Ordering::Relaxed));
        let more = decoded.saturating_sub(before);
        let spent = self.spent.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        if spent > self.max {
            return Err(Error::limit("values are repeated too often for such a short file")
                .expected(format!("at most {} bytes", self.max))
                .hint("if you trust the file, raise the limit with --limit expanded_bytes=N"));
        }
        Ok(())
    }
}

impl ExpansionLimit {
    /// Creates a limit for an input with this many splits, whose files contain `bytes` bytes in
    /// total.
    #[must_use]
    pub fn new(bytes: u64, limits: &Limits, splits: usize) -> Self {
        let paid = bytes.saturating_mul(MAX_EXPANSION_RATIO).min(limits.shared_bytes);
        Self {
            bytes: Bound::new(paid.saturating_add(limits.expanded_bytes), splits),
            shared: Bound::new(limits.shared_bytes, splits),
        }
    }

    /// Updates the number of bytes that the current stream of a split has decoded since it began.
    ///
    /// # Errors
    /// Returns a limit error if the total is too large for files of this size.
    pub fn count(&self, split: usize, decoded: ExpandedBytes) -> Result<()> {
        self.bytes.count(split, decoded.bytes)?;
        self.shared.count(split, decoded.shared)
    }
}

/// Returns the total number of bytes in all values of a column.
fn total(array: &dyn Array) -> u64 {
    let mut all = 0_u64;
    each(array, &mut |len| all = all.saturating_add(len));
    all
}

/// Returns the number of stored bytes that the views of a column refer to.
fn stored<B: ByteViewType + ?Sized>(array: &GenericByteViewArray<B>) -> u64 {
    array.data_buffers().iter().map(|buffer| buffer.len() as u64).sum()
}

/// Passes the length of each value in a column to `give`.
fn each(array: &dyn Array, give: &mut dyn FnMut(u64)) {
    match array.data_type() {
        DataType::Utf8 => flat(array.as_string::<i32>(), give),
        DataType::LargeUtf8 => flat(array.as_string::<i64>(), give),
        DataType::Binary => flat(array.as_binary::<i32>(), give),
        DataType::LargeBinary => flat(array.as_binary::<i64>(), give),
        DataType::Utf8View => viewed::<StringViewType>(array.as_byte_view(), give),
        DataType::BinaryView => viewed::<BinaryViewType>(array.as_byte_view(), give),
        DataType::FixedSizeBinary(width) => repeated(u64::try_from(*width).unwrap_or(0), array.len(), give),
        DataType::Struct(_) => {
            let mut all = vec![0_u64; array.len()];
            for column in array.as_struct().columns() {
                let mut sums = all.iter_mut();
                each(column, &mut |len| {
                    if let Some(sum) = sums.next() {
                        *sum = sum.saturating_add(len);
                    }
                });
            }
            all.into_iter().for_each(give);
        }
        DataType::List(_) => {
            listed(array.as_list::<i32>().value_offsets(), array.as_list::<i32>().values(), give);
        }
        DataType::LargeList(_) => {
            listed(array.as_list::<i64>().value_offsets(), array.as_list::<i64>().values(), give);
        }
        DataType::Map(..) => listed(array.as_map().value_offsets(), array.as_map().entries(), give),
        DataType::FixedSizeList(_, width) => {
            let ends = ends(array.as_fixed_size_list().values());
            let width = usize::try_from(*width).unwrap_or(0);
            (0..array.len()).for_each(|row| give(between(&ends, row * width, width)));
        }
        DataType::ListView(_) => list_views::<i32>(array, give),
        DataType::LargeListView(_) => list_views::<i64>(array, give),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            // `normalized_keys` panics if the dictionary contains no values.
            if dictionary.values().is_empty() {
                return repeated(0, array.len(), give);
            }
            let lengths = lengths(dictionary.values());
            // Keys without a value and nulls have length 0.
            let of_key = |key: usize| lengths.get(key).copied().unwrap_or(0);
            dictionary.normalized_keys().into_iter().for_each(|key| give(of_key(key)));
        }
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 => runs::<Int16Type>(array, give),
            DataType::Int32 => runs::<Int32Type>(array, give),
            _ => runs::<Int64Type>(array, give),
        },
        other => repeated(other.primitive_width().map_or(0, |width| width as u64), array.len(), give),
    }
}

fn repeated(len: u64, times: usize, give: &mut dyn FnMut(u64)) {
    (0..times).for_each(|_| give(len));
}

fn flat<B: ByteArrayType>(array: &GenericByteArray<B>, give: &mut dyn FnMut(u64)) {
    array.offsets().lengths().for_each(|len| give(len as u64));
}

fn viewed<B: ByteViewType + ?Sized>(array: &GenericByteViewArray<B>, give: &mut dyn FnMut(u64)) {
    array.lengths().for_each(|len| give(len.into()));
}

fn lengths(values: &dyn Array) -> Vec<u64> {
    let mut all = Vec::with_capacity(values.len());
    each(values, &mut |len| all.push(len));
    all
}

/// Returns the end offset of each value in bytes, as if all values were contiguous.
fn ends(values: &dyn Array) -> Vec<u64> {
    let mut end = 0_u64;
    let mut all = Vec::with_capacity(values.len());
    each(values, &mut |len| {
        end = end.saturating_add(len);
        all.push(end);
    });
    all
}

/// Returns the total number of bytes of `count` values, starting with the value `first`.
fn between(ends: &[u64], first: usize, count: usize) -> u64 {
    let end = |behind: usize| behind.checked_sub(1).and_then(|last| ends.get(last)).copied().unwrap_or(0);
    end(first.saturating_add(count).min(ends.len())).saturating_sub(end(first.min(ends.len())))
}

fn listed<O: OffsetSizeTrait>(offsets: &[O], values: &dyn Array, give: &mut dyn FnMut(u64)) {
    let ends = ends(values);
    for pair in offsets.windows(2) {
        let (start, end) = (pair[0].as_usize(), pair[1].as_usize());
        give(between(&ends, start, end - start));
    }
}

fn list_views<O: OffsetSizeTrait>(array: &dyn Array, give: &mut dyn FnMut(u64)) {
    let views = array.as_list_view::<O>();
    let ends = ends(views.values());
    let places = views.offsets().iter().zip(views.sizes());
    places.for_each(|(start, size)| give(between(&ends, start.as_usize(), size.as_usize())));
}

fn runs<R: RunEndIndexType<Native: Into<i64>>>(array: &dyn Array, give: &mut dyn FnMut(u64)) {
    let Some(runs) = array.as_run_opt::<R>() else { return };
    let lengths = lengths(runs.values());
    let physical = runs.get_start_physical_index();
    let mut row = 0;
    for (end, len) in runs.run_ends().values().iter().zip(lengths).skip(physical) {
        let end = usize::try_from((*end).into()).unwrap_or(0).saturating_sub(runs.offset()).min(runs.len());
        (row..end).for_each(|_| give(len));
        row = row.max(end);
    }
}
