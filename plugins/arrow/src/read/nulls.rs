//! Moves the nulls of dictionaries into their keys. Arrow allows a null in the keys or among the dictionary's values; code
//! that looks only at the keys would take the second kind for a value.

use arrow_buffer::NullBuffer;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::ArrowDictionaryKeyType;
use tensorferry_sdk::arrow_array::{
    Array, ArrayRef, DictionaryArray, PrimitiveArray, downcast_dictionary_array, make_array,
};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType};

/// Returns the same column with all nulls of its dictionaries in their keys, at every depth.
///
/// # Errors
/// Returns an error if the library refuses the parts of a nested column.
pub(super) fn in_keys(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !needs_change(column.as_ref()) {
        return Ok(column.clone());
    }
    let array = column.as_ref();
    downcast_dictionary_array!(
        array => marked(array),
        _ => {
            let data = array.to_data();
            let parts = data.child_data().iter();
            let parts = parts.map(|part| Ok(in_keys(&make_array(part.clone()))?.to_data()));
            let parts = parts.collect::<Result<_, ArrowError>>()?;
            data.into_builder().child_data(parts).build().map(make_array)
        }
    )
}

/// Whether some dictionary in a column has nulls among its values.
fn needs_change(array: &dyn Array) -> bool {
    match array.data_type() {
        DataType::Dictionary(..) => {
            let values = array.as_any_dictionary().values();
            values.logical_null_count() > 0 || needs_change(values.as_ref())
        }
        data_type if data_type.is_nested() => {
            let data = array.to_data();
            data.child_data().iter().any(|part| needs_change(make_array(part.clone()).as_ref()))
        }
        _ => false,
    }
}

fn marked<K: ArrowDictionaryKeyType>(array: &DictionaryArray<K>) -> Result<ArrayRef, ArrowError> {
    let values = in_keys(array.values())?;
    let own = NullBuffer::union(array.keys().nulls(), array.logical_nulls().as_ref());
    let keys = PrimitiveArray::<K>::try_new(array.keys().values().clone(), own)?;
    Ok(Arc::new(DictionaryArray::try_new(keys, values)?))
}
