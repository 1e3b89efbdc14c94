//! Counts the bytes of texts and arrays that rows stand for: a few bytes of indices, views or runs may repeat a value
//! billions of times.

use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, ByteViewType};
use arrow_array::{Array, GenericByteArray, GenericByteViewArray, OffsetSizeTrait, make_array};
use arrow_schema::DataType;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of texts for each byte of the files. A column that is constant has more, but other columns of its file do not:
/// one of a bit a row pays for 8 KiB of texts in each.
const BYTES_A_BYTE: u64 = 1 << 16;

/// What all rows of an input may be decoded to, and what was decoded of it so far.
#[derive(Debug)]
pub struct Expansion {
    most: u64,
    spent: AtomicU64,
    /// The most that was decoded of each split in one go: who reads it again has paid already.
    splits: Vec<AtomicU64>,
}

impl Expansion {
    /// For files of so many bytes with so many splits; `free` bytes ([`Limits::expanded_bytes`](crate::Limits)) no bytes of
    /// the files need pay for.
    #[must_use]
    pub fn new(bytes: u64, free: u64, splits: usize) -> Self {
        let splits = std::iter::repeat_with(AtomicU64::default).take(splits).collect();
        Self {
            most: bytes.saturating_mul(BYTES_A_BYTE).saturating_add(free),
            spent: AtomicU64::new(0),
            splits,
        }
    }

    /// Counts that of a split so many bytes were decoded since a stream of it began.
    ///
    /// # Errors
    /// A limit: they are too many for so short files.
    pub fn count(&self, split: usize, decoded: u64) -> Result<()> {
        let before = self.splits.get(split).map_or(0, |most| most.fetch_max(decoded, Ordering::Relaxed));
        let more = decoded.saturating_sub(before);
        let spent = self.spent.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        if spent > self.most {
            return Err(Error::limit("values are repeated too often for so short a file")
                .expected(format!("at most {} bytes, or --bound expanded_bytes=N", self.most)));
        }
        Ok(())
    }
}

/// The bytes of the texts and arrays of bytes in a column, each as often as it is there.
#[must_use]
pub fn text_bytes(array: &dyn Array) -> u64 {
    match array.data_type() {
        DataType::Struct(_) => array.as_struct().columns().iter().map(|column| text_bytes(column)).sum(),
        DataType::List(_) => text_bytes(array.as_list::<i32>().values()),
        DataType::LargeList(_) => text_bytes(array.as_list::<i64>().values()),
        DataType::FixedSizeList(..) => text_bytes(array.as_fixed_size_list().values()),
        DataType::Map(..) => text_bytes(array.as_map().entries()),
        DataType::ListView(_) => viewed::<i32>(array),
        DataType::LargeListView(_) => viewed::<i64>(array),
        DataType::RunEndEncoded(..) => {
            // Each as long as the longest of them: which is repeated how often is not looked at.
            let longest = array.to_data().child_data().get(1).map_or(0, |values| {
                lengths(make_array(values.clone()).as_ref()).into_iter().max().unwrap_or(0)
            });
            longest.saturating_mul(array.len() as u64)
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let lengths = lengths(dictionary.values().as_ref());
            // The library panics if there are none.
            if dictionary.values().is_empty() {
                return 0;
            }
            // Texts that nothing refers to have no length, and so have nulls.
            let of_key = |key: usize| lengths.get(key).copied().unwrap_or(0);
            dictionary.normalized_keys().into_iter().map(of_key).sum()
        }
        _ => lengths_of(array, |lengths| lengths.sum()),
    }
}

/// Lists that may overlap: each value as long as the longest one.
fn viewed<O: OffsetSizeTrait>(array: &dyn Array) -> u64 {
    let views = array.as_list_view::<O>();
    let longest = lengths(views.values().as_ref()).into_iter().max().unwrap_or(8);
    let values: u64 = views.sizes().iter().map(|size| size.as_usize() as u64).sum();
    values.saturating_mul(longest)
}

fn lengths(values: &dyn Array) -> Vec<u64> {
    lengths_of(values, |lengths| lengths.collect())
}

/// The lengths of texts and arrays; none for other types.
fn lengths_of<T>(array: &dyn Array, take: impl FnOnce(&mut dyn Iterator<Item = u64>) -> T) -> T {
    fn flat<B: ByteArrayType>(array: &GenericByteArray<B>) -> impl Iterator<Item = u64> {
        array.offsets().lengths().map(|len| len as u64)
    }
    fn view<B: ByteViewType + ?Sized>(array: &GenericByteViewArray<B>) -> impl Iterator<Item = u64> {
        array.lengths().map(u64::from)
    }
    match array.data_type() {
        DataType::Utf8 => take(&mut flat(array.as_string::<i32>())),
        DataType::LargeUtf8 => take(&mut flat(array.as_string::<i64>())),
        DataType::Binary => take(&mut flat(array.as_binary::<i32>())),
        DataType::LargeBinary => take(&mut flat(array.as_binary::<i64>())),
        DataType::Utf8View => take(&mut view(array.as_string_view())),
        DataType::BinaryView => take(&mut view(array.as_binary_view())),
        _ => take(&mut std::iter::empty()),
    }
}
