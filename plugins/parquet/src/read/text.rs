//! Checks that strings are UTF-8. The `parquet` crate checks only columns that are annotated as
//! text. Because the library checks the concatenated bytes of all values, it would accept a
//! character that is split between two values.

use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::{Array, ArrayRef, GenericStringArray, OffsetSizeTrait};
use tensorferry_sdk::arrow_schema::DataType;
use tensorferry_sdk::{Error, Result};

/// Checks that all strings of a column, at any depth, are UTF-8.
pub(super) fn check(column: &ArrayRef) -> Result<()> {
    let is_valid = match column.data_type() {
        DataType::Utf8 => is_utf8(column.as_string::<i32>()),
        DataType::LargeUtf8 => is_utf8(column.as_string::<i64>()),
        DataType::Utf8View => {
            let bytes = column.as_string_view().clone().to_binary_view();
            bytes.iter().flatten().all(|bytes| std::str::from_utf8(bytes).is_ok())
        }
        DataType::List(_) => return check(column.as_list::<i32>().values()),
        DataType::LargeList(_) => return check(column.as_list::<i64>().values()),
        DataType::FixedSizeList(..) => return check(column.as_fixed_size_list().values()),
        DataType::Struct(_) => return column.as_struct().columns().iter().try_for_each(check),
        DataType::Map(..) => return column.as_map().entries().columns().iter().try_for_each(check),
        DataType::Dictionary(..) => return check(column.as_any_dictionary().values()),
        _ => true,
    };
    if is_valid {
        return Ok(());
    }
    Err(Error::malformed("a string is not UTF-8"))
}

fn is_utf8<O: OffsetSizeTrait>(texts: &GenericStringArray<O>) -> bool {
    let offsets = texts.value_offsets();
    let (first, last) = (offsets[0].as_usize(), offsets[texts.len()].as_usize());
    let starts = offsets.iter().map(|offset| offset.as_usize() - first);
    are_texts(&texts.value_data()[first..last], starts)
}

/// Returns whether the bytes are UTF-8, with a character boundary at each of these positions.
fn are_texts(bytes: &[u8], mut starts: impl Iterator<Item = usize>) -> bool {
    bytes.is_ascii()
        || std::str::from_utf8(bytes).is_ok_and(|text| starts.all(|start| text.is_char_boundary(start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tensorferry_sdk::arrow_array::{DictionaryArray, Int32Array, StringArray};

    #[test]
    fn a_character_in_two_texts_is_none() {
        assert!(are_texts("aé".as_bytes(), [0, 1, 3].into_iter()));
        assert!(!are_texts("aé".as_bytes(), [0, 2, 3].into_iter()));
        assert!(!are_texts(b"caf\xe9", [0, 4].into_iter()));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("é"), None, Some("a"), Some("日本")]));
        assert!(check(&texts).is_ok() && check(&texts.slice(1, 3)).is_ok());
        let keys = Int32Array::from(vec![0, 3]);
        assert!(check(&(Arc::new(DictionaryArray::new(keys, texts)) as ArrayRef)).is_ok());
    }
}
